/* SPDX-License-Identifier: Apache-2.0 */
/* The traffic around a name: made when there is something to note that is not what pawl__nobody
 * says, and kept until the name ends, or until it is held and says no more than that: after an
 * outage every hold would have one. Readers need not know whether a name has its own.
 *
 * It may fail for lack of memory. Who has to wait is refused then; what goes on without being asked
 * for, such as standing back for others, is left out. */
#include "core/machine_parts.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "core/tally.h"

/* Lists point to themselves when they are empty, and those of a constant are never written. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#define EMPTY(list)                                                                      \
    {                                                                                    \
        (struct pawl__list *)&pawl__nobody.list, (struct pawl__list *)&pawl__nobody.list \
    }

/* One line of the cache has what an acquire and a release read of it. */
_Alignas(64) const struct pawl__traffic pawl__nobody = {
    .queue = EMPTY(queue),
    .crowd = EMPTY(crowd),
    .tally_queue = EMPTY(tally_queue),
    .tally_spares = EMPTY(tally_spares),
    .watch = PAWL__UNWATCHED,
    .idle_us = PAWL__NEVER,
    .silent_us = PAWL__NEVER,
};
#pragma GCC diagnostic pop

struct pawl__traffic *pawl__traffic_make(struct pawl__name *name)
{
    if (name->traffic->own != NULL) {
        return name->traffic->own;
    }
    struct pawl__traffic *traffic = pawl__alloc(sizeof *traffic);
    if (traffic == NULL) {
        return NULL;
    }
    *traffic = pawl__nobody;
    traffic->own = traffic;
    traffic->name = name;
    traffic->timer.kind = PAWL__TIMER_NAME;
    pawl__list_init(&traffic->queue);
    pawl__list_init(&traffic->crowd);
    pawl__list_init(&traffic->tally_queue);
    pawl__list_init(&traffic->tally_spares);
    name->traffic = traffic;
    return traffic;
}

/* Whether it says anything, or anybody may count on what it says. */
static bool is_needed(const struct pawl__name *name, int64_t now_us)
{
    const struct pawl__traffic *traffic = name->traffic;
    const bool waited_for =
        !pawl__list_empty(&traffic->queue) || !pawl__list_empty(&traffic->crowd);
    const bool heard = traffic->watch != PAWL__UNWATCHED || traffic->watch_refused;
    const bool left = now_us < traffic->hold_off_us || now_us < traffic->turn_us;
    return waited_for || heard || left || traffic->timer.armed || traffic->silent_us != PAWL__NEVER;
}

void pawl__traffic_rest(struct pawl__name *name, int64_t now_us)
{
    struct pawl__traffic *traffic = name->traffic->own;
    const struct pawl__tenure *active = name->active;
    const bool held =
        active != NULL ? active->state == PAWL__TENURE_HELD : !pawl__list_empty(&name->holds);
    if (held && traffic != NULL && !is_needed(name, now_us)) {
        name->traffic = &pawl__nobody;
        pawl__traffic_free(traffic);
    }
}

void pawl__traffic_free(struct pawl__traffic *traffic)
{
    if (traffic != NULL) {
        pawl__tally_free_spares(traffic);
        pawl__free(traffic->watch_op);
        pawl__free(traffic->error);
        pawl__free(traffic);
    }
}
