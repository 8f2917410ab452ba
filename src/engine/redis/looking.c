/* SPDX-License-Identifier: Apache-2.0 */
/* Consoles for those who look; looking.h says when one is kept. */
#include "engine/redis/looking.h"

#include "base/alloc.h"
#include "base/error.h"
#include "engine/redis/examine.h"
#include "engine/redis/listing.h"
#include "engine/redis/waiters.h"

#include <stdio.h>

enum { SENTENCE_SIZE = 512 };

void pawl__looking_init(
    struct pawl__looking *looking, struct pawl__host *host, const struct pawl__redis_config *config)
{
    looking->host = host;
    looking->config = config;
    looking->spare = NULL;
    looking->watch_count = 0;
    pthread_mutex_init(&looking->mutex, NULL);
}

static void free_console(struct pawl__console *console)
{
    if (console != NULL) {
        pawl__console_close(console);
        pawl__free(console);
    }
}

void pawl__looking_close(struct pawl__looking *looking)
{
    free_console(looking->spare);
    pthread_mutex_destroy(&looking->mutex);
}

void pawl__looking_keep(struct pawl__looking *looking)
{
    pthread_mutex_lock(&looking->mutex);
    looking->watch_count++;
    pthread_mutex_unlock(&looking->mutex);
}

void pawl__looking_let_go(struct pawl__looking *looking)
{
    struct pawl__console *console = NULL;
    pthread_mutex_lock(&looking->mutex);
    looking->watch_count--;
    if (looking->watch_count == 0) {
        console = looking->spare;
        looking->spare = NULL;
    }
    pthread_mutex_unlock(&looking->mutex);
    free_console(console);
}

/* ===== Taking a console and giving it back ===== */

static struct pawl__console *take_spare(struct pawl__looking *looking)
{
    pthread_mutex_lock(&looking->mutex);
    struct pawl__console *console = looking->spare;
    looking->spare = NULL;
    pthread_mutex_unlock(&looking->mutex);
    return console;
}

static pawl_status open_console(
    const struct pawl__looking *looking, struct pawl__console **console_out)
{
    struct pawl__console *console = pawl__alloc(sizeof *console);
    if (console == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for another connection");
    }
    const pawl_status status = pawl__console_open(console, looking->config);
    if (status != PAWL_OK) {
        pawl__free(console);
        return status;
    }
    *console_out = console;
    return PAWL_OK;
}

/* One that failed, or was left in the middle of its answers, is of no more use. */
static void give_back(
    struct pawl__looking *looking, struct pawl__console *console, pawl_status status)
{
    pthread_mutex_lock(&looking->mutex);
    if (status == PAWL_OK && looking->watch_count > 0 && looking->spare == NULL) {
        looking->spare = console;
        console = NULL;
    }
    pthread_mutex_unlock(&looking->mutex);
    free_console(console);
}

/* What is to be done with a console. */
struct errand {
    pawl_status (*run)(
        struct pawl__looking *looking, struct pawl__console *console, struct errand *errand);
    const char *name;
    size_t name_size;
    pawl_entry *entry_out;
    enum pawl__key_kind kind; /* what the name turned out to be */
    pawl_entry_callback each;
    pawl_waiter_callback each_waiter;
    void *arg;
    bool told; /* something was told: it cannot be begun anew */
};

/* A console that was kept may have been closed by the server meanwhile, so it has a second try. */
static pawl_status run(struct pawl__looking *looking, struct errand *errand)
{
    struct pawl__console *console = take_spare(looking);
    pawl_status status = PAWL_UNAVAILABLE;
    if (console != NULL) {
        status = errand->run(looking, console, errand);
        give_back(looking, console, status);
        if (status != PAWL_UNAVAILABLE || errand->told) {
            return status;
        }
    }
    status = open_console(looking, &console);
    if (status == PAWL_OK) {
        status = errand->run(looking, console, errand);
        give_back(looking, console, status);
    }
    return status;
}

/* ===== Errands ===== */

static bool note_told(const pawl_entry *entry, void *arg)
{
    struct errand *errand = arg;
    errand->told = true;
    return errand->each(entry, errand->arg);
}

static pawl_status run_list(
    struct pawl__looking *looking, struct pawl__console *console, struct errand *errand)
{
    return pawl__redis_list(console, looking->host, errand->name, note_told, errand);
}

static pawl_status run_look(
    struct pawl__looking *looking, struct pawl__console *console, struct errand *errand)
{
    (void)looking;
    return pawl__redis_look(
        console, errand->name, errand->name_size, errand->entry_out, &errand->kind);
}

static bool note_waiter(const pawl_waiter *waiter, void *arg)
{
    struct errand *errand = arg;
    errand->told = true;
    return errand->each_waiter(waiter, errand->arg);
}

static pawl_status run_queue(
    struct pawl__looking *looking, struct pawl__console *console, struct errand *errand)
{
    (void)looking;
    return pawl__redis_waiters(console, errand->name, errand->name_size, note_waiter, errand);
}

pawl_status pawl__looking_queue(struct pawl__looking *looking, const char *name, size_t name_size,
    pawl_waiter_callback each, void *arg)
{
    struct errand errand = {
        .run = run_queue, .name = name, .name_size = name_size, .each_waiter = each, .arg = arg};
    return run(looking, &errand);
}

pawl_status pawl__looking_list(
    struct pawl__looking *looking, const char *pattern, pawl_entry_callback each, void *arg)
{
    struct errand errand = {.run = run_list, .name = pattern, .each = each, .arg = arg};
    return run(looking, &errand);
}

pawl_status pawl__looking_look(
    struct pawl__looking *looking, const char *name, size_t name_size, pawl_entry *entry_out)
{
    struct errand errand = {
        .run = run_look, .name = name, .name_size = name_size, .entry_out = entry_out};
    const pawl_status status = run(looking, &errand);
    return status == PAWL_OK
               ? pawl__redis_look_result(errand.kind, name, name_size, looking->config->grant)
               : status;
}

/* A server that does not even greet us has been examined, too. */
static pawl_status tell_refusal(pawl_finding_callback each, void *arg)
{
    char sentence[SENTENCE_SIZE];
    snprintf(sentence, sizeof sentence, "%s", pawl__error_text());
    const pawl_finding finding = {sizeof finding, PAWL_UNFIT, "version", sentence,
        "name another server: pawl needs Redis 6.0 or later, and no Sentinel"};
    each(&finding, arg);
    return PAWL_OK;
}

pawl_status pawl__looking_examine(
    struct pawl__looking *looking, pawl_finding_callback each, void *arg)
{
    struct pawl__console console;
    pawl_status status = pawl__console_reach(&console, looking->config);
    if (status == PAWL_REFUSED) {
        return tell_refusal(each, arg);
    }
    if (status == PAWL_OK) {
        status = pawl__redis_examine(&console, each, arg);
        pawl__console_close(&console);
    }
    return status;
}
