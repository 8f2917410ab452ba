/* SPDX-License-Identifier: Apache-2.0 */
/* Watching the locks of a backend: what is known to be held, compared with what is seen, becomes
 * events. The same for all engines: these tell what is held (list, look), and hint at what may have
 * changed (watch_wait).
 *
 * A hint about a name costs a look at that name; what nobody hints at is found by looking at
 * everything from time to time. So an event is told once, whatever was heard twice or not at all,
 * and what is told is what the backend showed, not what a message claimed. The one exception: a
 * message that a lock was released which was not known to be held (it was taken and released since
 * the last look) is told too, with nothing but its name and kind.
 *
 * Threads: one at a time uses a watch (the user's duty); the client's mutex guards `node`. A call
 * of the client is under way meanwhile, so the client does not go away. Closing the client closes
 * the engine's part; the rest stays until the user closes the watch. */
#ifndef PAWL_CORE_OBSERVE_H
#define PAWL_CORE_OBSERVE_H

#include "base/list.h"
#include "core/client.h"
#include "core/sight.h"

struct pawl_watch {
    struct pawl_client *client;
    unsigned forks;         /* of the process that opened it */
    struct pawl__list node; /* in the client's watches */
    void *engine_watch;     /* NULL: not opened, or closed with the client */
    bool forsaken;          /* closed while the client is being closed, which then frees it */
    char *pattern;          /* NULL: all */

    int64_t look_us;     /* the least pause between two looks at everything */
    int64_t next_us;     /* when to look at everything */
    int64_t earliest_us; /* not before this, whatever was missed: looking must not be all we do */
    uint64_t round;      /* counts such looks */
    struct pawl__map spots;   /* names that are held, as far as known */
    size_t hold_count;        /* in all of them */
    struct pawl__list events; /* to be told, in order */
};

/* Begin: have the engine collect hints, then look what is held. Sets the last error. */
pawl_status pawl__watch_open(struct pawl_client *client, const char *pattern, int64_t look_us,
    struct pawl_watch **watch_out);

/* The next event; PAWL_BUSY: none until the deadline. Sets the last error. Inside the client. */
pawl_status pawl__watch_next(
    struct pawl_watch *watch, int64_t deadline_us, pawl_watch_event *event_out);

/* Takes it apart; not the engine's part, which is closed before. */
void pawl__watch_free(struct pawl_watch *watch);

#endif
