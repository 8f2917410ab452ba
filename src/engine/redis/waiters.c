/* SPDX-License-Identifier: Apache-2.0 */
/* Telling who waits; waiters.h says how. As in holders.c, nothing that the server says is believed
 * to be well-formed. The script is sent as a text: nobody asks often enough to save that. */
#include "engine/redis/waiters.h"

#include "base/clock.h"
#include "base/error.h"
#include "engine/redis/lua_scripts.h"

static pawl_status tell(const struct pawl__console *console, const struct pawl__resp_node *reply,
    pawl_waiter_callback each, void *arg)
{
    const struct pawl__resp_reader *reader = &console->link.reader;
    const struct pawl__resp_node *owner = pawl__resp_first(reader, reply);
    bool more = true;
    for (unsigned position = 1; owner != NULL && more; position++) {
        const struct pawl__resp_node *left = pawl__resp_next(reader, reply, owner);
        if (owner->type != PAWL__RESP_TEXT || left == NULL || left->type != PAWL__RESP_INTEGER) {
            return pawl__fail(PAWL_PROTOCOL,
                "%s answers as no Redis server does when asked for a queue", console->config->peer);
        }
        pawl_waiter waiter = {
            .size = sizeof waiter, .position = position, .alive_ms = pawl__max64(left->integer, 0)};
        pawl__printable(
            pawl__resp_text(reader, owner), owner->text_size, waiter.owner, sizeof waiter.owner);
        more = each(&waiter, arg);
        owner = pawl__resp_next(reader, reply, left);
    }
    return PAWL_OK;
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
    return reply->type == PAWL__RESP_ARRAY ? tell(console, reply, each, arg)
                                           : pawl__console_fail(console, reply, "look at a queue");
}
