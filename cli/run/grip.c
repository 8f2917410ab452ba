/* SPDX-License-Identifier: Apache-2.0 */
/* Getting, keeping and giving back what is held; grip.h says what that may be. */
#include "run/grip.h"

#include "common/backend.h"
#include "line/options.h"
#include "line/say.h"
#include "run/ask.h"
#include "run/meet.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    NOTES_MAX = 3, /* that wait to be heard */
    COUNTS = 5,    /* of permits, before it is believed that there are more or fewer */
};

/* ===== Callbacks ===== */

static void wake(const struct run_grip *grip)
{
    if (grip->wake_fd >= 0) {
        eventfd_write(grip->wake_fd, 1);
    }
}

static void note_loss(struct run_grip *grip)
{
    grip->lost_us = run_now_us();
    atomic_store(&grip->lost, true);
    wake(grip);
}

static void on_lost(const pawl_event *event, void *arg)
{
    (void)event;
    note_loss(arg);
}

static void on_permit_lost(pawl_semaphore *semaphore, pawl_status status,
    const pawl_permit *permits, size_t count, void *arg)
{
    (void)semaphore, (void)status;
    struct run_grip *grip = arg;
    if (count == 1 && strcmp(permits[0].id, grip->permit.id) == 0) {
        note_loss(grip);
    }
}

static void note_answer(struct run_grip *grip, pawl_status status)
{
    grip->answer = status;
    grip->held_us = run_now_us();
    snprintf(grip->why, sizeof grip->why, "%s", pawl_last_error());
    atomic_store(&grip->answered, true);
    wake(grip);
}

static void on_answer(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    note_answer(arg, status);
}

static void on_permit(pawl_semaphore *semaphore, pawl_status status, const pawl_permit *permits,
    size_t count, void *arg)
{
    (void)semaphore;
    struct run_grip *grip = arg;
    if (status == PAWL_OK && count == 1) {
        grip->permit = permits[0];
    }
    note_answer(grip, status);
}

/* The library warns of servers that may lose locks, for example. */
static void on_log(pawl_log_level level, const char *message, void *arg)
{
    const struct run_grip *grip = arg;
    if (level == PAWL_LOG_WARNING) {
        run_link_talk(grip->link, RUN_NOTE, message, NOTES_MAX);
    }
}

/* ===== Opening ===== */

/* The library's own sentence about kinds speaks of its C names. */
static pawl_status explain(struct run_grip *grip, pawl_status status, const char *scheme)
{
    const struct run_options *options = grip->options;
    if (status == PAWL_UNSUPPORTED && grip->client_count > 0 &&
        (options->kind != PAWL_MUTEX || options->permits > 0)) {
        snprintf(grip->why, sizeof grip->why,
            "--kind %s is not available with %s:; use --kind mutex, or a Redis server (--url)",
            options->kind_name, scheme);
    } else if (status != PAWL_OK && grip->why[0] == '\0') {
        snprintf(grip->why, sizeof grip->why, "%s", pawl_last_error());
    }
    return status;
}

static pawl_client_options client_options(struct run_grip *grip, bool dispatch)
{
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    options.dispatch = dispatch;
    options.log = on_log;
    options.log_arg = grip;
    return options;
}

static pawl_lock_options lock_options(struct run_grip *grip)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.kind = grip->options->kind;
    options.owner = PAWL_OWNER_HANDLE;
    options.lease_ms = grip->options->lease_ms;
    options.max_hold_ms = grip->options->max_hold_ms;
    options.on_lost = on_lost;
    options.event_arg = grip;
    return options;
}

static pawl_status start_quorum(struct run_grip *grip)
{
    const struct run_options *options = grip->options;
    const pawl_client_options of_client = client_options(grip, false);
    grip->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (grip->wake_fd < 0) {
        snprintf(grip->why, sizeof grip->why, "no descriptor: %s", strerror(errno));
        return PAWL_NO_MEMORY;
    }
    grip->meeting = run_meeting_start(options, &of_client, grip->wake_fd);
    if (grip->meeting == NULL) {
        snprintf(grip->why, sizeof grip->why, "no memory to meet the servers");
        return PAWL_NO_MEMORY;
    }
    return PAWL_OK;
}

static pawl_status finish_quorum(struct run_grip *grip)
{
    const struct run_options *options = grip->options;
    pawl_status status = run_meeting_end(
        grip->meeting, grip->clients, &grip->client_count, grip->why, sizeof grip->why);
    run_servers_forget(options);
    if (status == PAWL_OK) {
        const pawl_lock_options of_lock = lock_options(grip);
        status = pawl_lock_open_quorum(
            grip->clients, grip->client_count, options->name, &of_lock, &grip->lock);
    }
    return explain(grip, status, "redis");
}

/* How many permits the semaphore has; -1: that cannot be known. Between the two questions a permit
 * may be taken or come back: one alone is not believed. */
static int64_t count_permits(struct run_grip *grip)
{
    static pawl_entry entry;
    int64_t free_permits = -1;
    entry.size = sizeof entry;
    const pawl_status status = pawl_client_look(grip->clients[0], grip->options->name, &entry);
    if (status == PAWL_OK && entry.kind == PAWL_SEMAPHORE) {
        return entry.permits;
    }
    if (status != PAWL_REFUSED || /* a number by itself: no permit is out */
        pawl_semaphore_available(grip->semaphore, &free_permits) != PAWL_OK) {
        return -1;
    }
    return free_permits;
}

/* The first run begins the semaphore. Another number of permits would let more or fewer run than
 * this one was told. */
static pawl_status set_permits(struct run_grip *grip, char why[RUN_TEXT_SIZE])
{
    const int64_t wanted = grip->options->permits;
    bool set = false;
    const pawl_status status = pawl_semaphore_set(grip->semaphore, wanted, &set);
    int64_t found = wanted;
    for (int i = 0; status == PAWL_OK && !set && i < COUNTS; i++) {
        found = count_permits(grip);
        if (found < 0 || found == wanted) {
            return PAWL_OK;
        }
    }
    if (status != PAWL_OK || found == wanted) {
        return status;
    }
    char name[CLI_QUOTE_SIZE];
    snprintf(why, RUN_TEXT_SIZE,
        "the semaphore '%s' has %" PRId64 " permits and not %" PRId64
        "; give --kind semaphore:%" PRId64 " if it is a semaphore at all, or else another name",
        cli_quote(grip->options->name, name), found, wanted, found);
    return PAWL_INVALID;
}

/* Maybe on a thread of its own; `counted` does not change meanwhile. */
static void *count(void *arg)
{
    struct run_grip *grip = arg;
    struct run_count *count = &grip->count;
    char why[RUN_TEXT_SIZE] = "";
    const pawl_status status =
        grip->counted ? pawl_semaphore_set(grip->semaphore, grip->options->permits, NULL)
                      : set_permits(grip, why);
    if (status != PAWL_OK && why[0] == '\0') {
        snprintf(why, sizeof why, "%s", pawl_last_error());
    }
    pthread_mutex_lock(&count->mutex);
    count->status = status;
    snprintf(count->why, sizeof count->why, "%s", why);
    count->asked = false;
    pthread_cond_signal(&count->answer);
    pthread_mutex_unlock(&count->mutex);
    return NULL;
}

/* Without a thread it is asked the next time. */
void run_grip_remind(struct run_grip *grip)
{
    pthread_t thread;
    pthread_mutex_lock(&grip->count.mutex);
    if (!grip->count.asked && pthread_create(&thread, NULL, count, grip) == 0) {
        pthread_detach(thread);
        grip->count.asked = true;
    }
    pthread_mutex_unlock(&grip->count.mutex);
}

/* A server that is still loading cannot say how many there are, nor give one. */
pawl_status run_grip_counted(struct run_grip *grip)
{
    if (grip->counted) {
        return PAWL_OK;
    }
    pthread_mutex_lock(&grip->count.mutex);
    const pawl_status status = grip->count.status;
    snprintf(grip->why, sizeof grip->why, "%s", grip->count.why);
    pthread_mutex_unlock(&grip->count.mutex);
    grip->counted = status == PAWL_OK;
    return status;
}

static void await_count(struct run_grip *grip)
{
    pthread_mutex_lock(&grip->count.mutex);
    while (grip->count.asked) {
        pthread_cond_wait(&grip->count.answer, &grip->count.mutex);
    }
    pthread_mutex_unlock(&grip->count.mutex);
}

static pawl_status open_semaphore(struct run_grip *grip)
{
    pawl_semaphore_options options = PAWL_SEMAPHORE_OPTIONS_INIT;
    options.leased = true;
    options.lease_ms = grip->options->lease_ms;
    options.on_lost = on_permit_lost;
    options.event_arg = grip;
    return pawl_semaphore_open(grip->clients[0], grip->options->name, &options, &grip->semaphore);
}

static pawl_status open_single(struct run_grip *grip)
{
    char scheme[CLI_SCHEME_SIZE];
    cli_backend_scheme(scheme);
    grip->in_files = strcasecmp(scheme, "file") == 0;
    pawl_client_options of_client = client_options(grip, true);
    pawl_status status = pawl_client_open(cli_url(), &of_client, &grip->clients[0]);
    if (status == PAWL_REFUSED && grip->options->wait_ms != PAWL_TRY &&
        cli_passes(status, pawl_last_error())) {
        of_client.lazy = true; /* it is there, so it is worth waiting for */
        status = pawl_client_open(cli_url(), &of_client, &grip->clients[0]);
    }
    grip->client_count = status == PAWL_OK ? 1 : 0;
    cli_url_forget();
    if (status == PAWL_OK && grip->options->permits > 0) {
        status = open_semaphore(grip);
    } else if (status == PAWL_OK) {
        const pawl_lock_options options = lock_options(grip);
        status = pawl_lock_open(grip->clients[0], grip->options->name, &options, &grip->lock);
    }
    return explain(grip, status, scheme);
}

pawl_status run_grip_open(
    struct run_grip *grip, const struct run_options *options, const struct run_link *link)
{
    grip->options = options;
    grip->link = link;
    grip->wake_fd = -1;
    grip->count.status = PAWL_UNAVAILABLE; /* nobody has asked */
    pthread_mutex_init(&grip->count.mutex, NULL);
    pthread_cond_init(&grip->count.answer, NULL);
    return options->server_count > 0 ? start_quorum(grip) : open_single(grip);
}

bool run_grip_is_opening(struct run_grip *grip, int64_t *until_us_out)
{
    return grip->meeting != NULL && run_meeting_goes_on(grip->meeting, until_us_out);
}

pawl_status run_grip_opened(struct run_grip *grip)
{
    return grip->meeting != NULL ? finish_quorum(grip) : PAWL_OK;
}

/* ===== Having it ===== */

void run_grip_tell_absent(const struct run_grip *grip)
{
    if (grip->meeting != NULL) {
        run_meeting_tell(grip->meeting);
    }
}

pawl_status run_grip_try(struct run_grip *grip)
{
    atomic_store(&grip->lost, false); /* that was another hold */
    await_count(grip);                /* of a wait before a pause */
    if (grip->semaphore != NULL && run_grip_counted(grip) != PAWL_OK) {
        count(grip);
        const pawl_status counted = run_grip_counted(grip);
        if (counted != PAWL_OK) {
            return counted;
        }
    }
    const pawl_status status =
        grip->semaphore != NULL ? pawl_permit_acquire(grip->semaphore, 1, PAWL_TRY, &grip->permit)
                                : pawl_lock_acquire(grip->lock, PAWL_TRY);
    grip->held_us = run_now_us();
    snprintf(grip->why, sizeof grip->why, "%s", pawl_last_error());
    return status;
}

pawl_status run_grip_start(struct run_grip *grip, int64_t wait_ms)
{
    atomic_store(&grip->answered, false);
    const pawl_status status =
        grip->semaphore != NULL
            ? pawl_permit_acquire_async(grip->semaphore, 1, wait_ms, on_permit, grip)
            : pawl_lock_acquire_async(grip->lock, wait_ms, on_answer, grip);
    if (status != PAWL_OK) {
        snprintf(grip->why, sizeof grip->why, "%s", pawl_last_error());
    }
    return status;
}

void run_grip_cancel(struct run_grip *grip)
{
    if (grip->semaphore != NULL) {
        pawl_semaphore_cancel(grip->semaphore);
    } else {
        pawl_lock_cancel(grip->lock);
    }
}

int run_grip_fd(const struct run_grip *grip)
{
    return grip->wake_fd >= 0 ? grip->wake_fd : pawl_client_fd(grip->clients[0]);
}

void run_grip_dispatch(struct run_grip *grip)
{
    eventfd_t ignored;
    if (grip->wake_fd >= 0) {
        eventfd_read(grip->wake_fd, &ignored);
    } else {
        pawl_client_dispatch(grip->clients[0]);
    }
}

/* A semaphore knows no longest hold: the front ends the command in time, and the release ends the
 * permit. */
int64_t run_grip_left_ms(const struct run_grip *grip)
{
    if (grip->semaphore == NULL) {
        return pawl_lock_remaining_ms(grip->lock);
    }
    int64_t left_ms = pawl_permit_remaining_ms(grip->semaphore, &grip->permit);
    if (grip->options->max_hold_ms > 0) {
        const int64_t held_ms = (run_now_us() - grip->held_us) / US_PER_MS;
        left_ms = run_min(left_ms, grip->options->max_hold_ms - held_ms);
    }
    return left_ms > 0 ? left_ms : 0;
}

uint64_t run_grip_token(const struct run_grip *grip)
{
    return grip->lock != NULL ? pawl_lock_token(grip->lock) : 0;
}

void run_grip_owner(const struct run_grip *grip, char owner_out[PAWL_OWNER_SIZE])
{
    if (grip->semaphore != NULL) {
        snprintf(owner_out, PAWL_OWNER_SIZE, "%s", grip->permit.id);
    } else if (pawl_lock_owner(grip->lock, owner_out, PAWL_OWNER_SIZE) != PAWL_OK) {
        owner_out[0] = '\0';
    }
}

pawl_status run_grip_release(struct run_grip *grip)
{
    const pawl_status status = grip->semaphore != NULL
                                   ? pawl_permit_release(grip->semaphore, &grip->permit, 1)
                                   : pawl_lock_release(grip->lock);
    snprintf(grip->why, sizeof grip->why, "%s", pawl_last_error());
    return status;
}

/* A lock of several servers should be closed before their clients. */
void run_grip_close(struct run_grip *grip)
{
    if (grip->options->server_count > 0) {
        pawl_lock_close(grip->lock);
    }
    run_asking_end(grip->asking);
    await_count(grip);
    for (size_t i = 0; i < grip->client_count; i++) {
        pawl_client_close(grip->clients[i]);
    }
}
