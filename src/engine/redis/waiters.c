/* SPDX-License-Identifier: Apache-2.0 */
/* Telling who waits; waiters.h says how. As in holders.c, nothing that the server says is believed
 * to be well-formed, and who the waiters are is asked as for holders. The script is sent as a text:
 * nobody asks often enough to save that. */
#include "engine/redis/waiters.h"

#include "base/clock.h"
#include "base/error.h"
#include "engine/redis/errors.h"
#include "engine/redis/holders.h"
#include "engine/redis/lua_scripts.h"
#include "engine/redis/rights.h"

#include <stdio.h>
#include <string.h>

/* Keep them: the reply is gone with the next question. */
static pawl_status keep(struct pawl__holders *waiters, const struct pawl__resp_node *reply)
{
    const struct pawl__console *console = waiters->console;
    const struct pawl__resp_reader *reader = &console->link.reader;
    const struct pawl__resp_node *owner = pawl__resp_first(reader, reply);
    while (owner != NULL) {
        const struct pawl__resp_node *left = pawl__resp_next(reader, reply, owner);
        if (owner->type != PAWL__RESP_TEXT || left == NULL || left->type != PAWL__RESP_INTEGER) {
            return pawl__fail(PAWL_PROTOCOL,
                "%s answers as no Redis server does when asked for a queue", console->config->peer);
        }
        pawl_entry *waiter = pawl__holders_add(waiters);
        if (waiter == NULL) {
            return pawl__fail(PAWL_NO_MEMORY, "no memory for a queue");
        }
        *waiter = (pawl_entry){.remaining_ms = pawl__max64(left->integer, 0)};
        pawl__printable(pawl__resp_text(reader, owner), owner->text_size, waiter->holder,
            sizeof waiter->holder);
        owner = pawl__resp_next(reader, reply, left);
    }
    return PAWL_OK;
}

static void tell(const struct pawl__holders *waiters, pawl_waiter_callback each, void *arg)
{
    bool more = true;
    for (size_t i = 0; i < waiters->entry_count && more; i++) {
        const pawl_entry *from = &waiters->entries[i];
        pawl_waiter waiter = {.size = sizeof waiter,
            .position = (unsigned)i + 1,
            .alive_ms = from->remaining_ms,
            .pid = from->pid};
        memcpy(waiter.owner, from->holder, sizeof waiter.owner);
        memcpy(waiter.host, from->host, sizeof waiter.host);
        memcpy(waiter.command, from->command, sizeof waiter.command);
        more = each(&waiter, arg);
    }
}

static pawl_status keep_and_tell(struct pawl__console *console, const struct pawl__resp_node *reply,
    pawl_waiter_callback each, void *arg)
{
    struct pawl__holders waiters;
    pawl__holders_init(&waiters, console);
    pawl_status status = keep(&waiters, reply);
    if (status == PAWL_OK && waiters.entry_count > 0) {
        status = pawl__holders_introduce(&waiters);
    }
    if (status == PAWL_OK) {
        tell(&waiters, each, arg);
    }
    pawl__holders_fini(&waiters);
    return status;
}

static pawl_status not_told(struct pawl__console *console, const struct pawl__resp_node *reply,
    const char *queue, const char *timeouts)
{
    char words[2][PAWL__RIGHTS_WORD_SIZE];
    char rights[2 * PAWL__RIGHTS_WORD_SIZE];
    const char *text = pawl__resp_text(&console->link.reader, reply);
    if (!pawl__redis_error_hides_key(text, reply->text_size)) {
        return pawl__console_fail(console, reply, "look at a queue", "+eval +time +lrange +zscore");
    }
    snprintf(rights, sizeof rights, "%s %s",
        pawl__rights_key((struct pawl__redis_text){queue, strlen(queue)}, words[0]),
        pawl__rights_key((struct pawl__redis_text){timeouts, strlen(timeouts)}, words[1]));
    return pawl__console_fail(console, reply, "look at a queue", rights);
}

pawl_status pawl__redis_waiters(struct pawl__console *console, const char *name, size_t name_size,
    pawl_waiter_callback each, void *arg)
{
    char queue[PAWL__COMPOSED_SIZE_MAX + 1];
    char timeouts[PAWL__COMPOSED_SIZE_MAX + 1];
    const struct pawl__resp_node *reply = NULL;
    queue[pawl__redis_compose(queue, PAWL__QUEUE_PREFIX, name, name_size).size] = '\0';
    timeouts[pawl__redis_compose(timeouts, PAWL__TIMEOUTS_PREFIX, name, name_size).size] = '\0';
    const char *const words[] = {"EVAL", pawl__script_waiters.text, "2", queue, timeouts};
    const pawl_status status =
        pawl__console_ask(console, sizeof words / sizeof words[0], words, &reply);
    if (status != PAWL_OK) {
        return status;
    }
    return reply->type == PAWL__RESP_ARRAY ? keep_and_tell(console, reply, each, arg)
                                           : not_told(console, reply, queue, timeouts);
}
