/* SPDX-License-Identifier: Apache-2.0 */
/* Asking a server, or those of --redlock, who holds the lock: each by a thread of its own, because
 * a look waits for its server, and one that hangs shall not keep us from hearing the others, or
 * from ending in time. Such a thread stays with its question; that server is not asked again before
 * it has answered or failed.
 *
 * All calls are the keeper's, on its one thread. */
#ifndef PAWL_RUN_ASK_H
#define PAWL_RUN_ASK_H

#include "run/link.h"
#include "run/run.h"

struct run_asking;

/* What came of a look. */
struct run_view {
    const pawl_entry *entry;     /* who holds it, until the next look; NULL: that is not known, */
    bool data;                   /* because the name is none of a lock, */
    bool late;                   /* or because not all have answered yet; */
    char trouble[RUN_TEXT_SIZE]; /* or the only server did not answer; "": it did */
};

/* NULL: no memory. The clients, the name and the lock have to stay until run_asking_end(). `pulse`:
 * the lock of the only server, by which it is known whether that is there; NULL: nobody wants to
 * know. */
struct run_asking *run_asking_new(
    pawl_client *const clients[], size_t count, const char *name, pawl_lock *pulse);

/* What a majority says, if as many answer in a moment, and by then. Not `whole`: only whether the
 * only server is there, which costs it next to nothing. */
void run_asking_look(
    struct run_asking *asking, bool whole, int64_t until_us, struct run_view *view_out);

/* What has been said since that look, if it was `late`: without asking again, or waiting. */
void run_asking_hear(struct run_asking *asking, struct run_view *view_out);

/* Wait until nobody is with a client any more. NULL is fine. */
void run_asking_end(struct run_asking *asking);

#endif
