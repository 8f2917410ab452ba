/* SPDX-License-Identifier: Apache-2.0 */
/* pawl's mutex, and the two ways to change who comes next: faster, or in order. How an order waits
 * for them is in pool.c. */
#include "strategies/strategies.h"

#include "strategies/pool.h"

/* No flaw of its own. What is left is what every lock with a lease has: a holder that is stopped
 * for longer than the lease does not know it when it goes on. It is told (on_lost, and counted),
 * and only a fence at the stock can refuse what it then writes: see pawl-fenced. */
const struct strategy strategy_pawl = {
    .name = "pawl",
    .title = "pawl's mutex",
    .flaw = "a holder that was stopped for longer than the lease still writes; a fence refuses it",
    .sound = false,
    .open = pool_open,
    .close = pool_close,
    .cancel = pool_cancel,
    .enter_async = pool_enter,
    .leave = pool_leave,
};

/* ===== pawl-handoff ===== */

enum { HANDOFF = 100 };

/* FLAW: as pawl. The lock goes from one order of this process to the next without a word to Redis,
 * a hundred times or for 10 ms; then the other instances have their turn. What is won in speed is
 * paid by them in waiting. */
static bool open_handoff(struct shop *shop, void **state_out, char *why, size_t why_size)
{
    return pool_open_kind(shop, PAWL_MUTEX, HANDOFF, state_out, why, why_size);
}

const struct strategy strategy_pawl_handoff = {
    .name = "pawl-handoff",
    .title = "pawl's mutex, handed over inside the process",
    .flaw = "a holder that was stopped for longer than the lease still writes; other instances "
            "wait a little longer",
    .sound = false,
    .open = open_handoff,
    .close = pool_close,
    .cancel = pool_cancel,
    .enter_async = pool_enter,
    .leave = pool_leave,
};

/* ===== pawl-fair ===== */

/* FLAW: as pawl. Whoever has waited longest is next, in whatever process; so the lock changes
 * processes nearly each time, and each time Redis has to be asked: justice is slower. */
static bool open_fair(struct shop *shop, void **state_out, char *why, size_t why_size)
{
    return pool_open_kind(shop, PAWL_FAIR, 0, state_out, why, why_size);
}

const struct strategy strategy_pawl_fair = {
    .name = "pawl-fair",
    .title = "pawl's fair lock",
    .flaw = "a holder that was stopped for longer than the lease still writes; order in the queue "
            "costs speed",
    .sound = false,
    .open = open_fair,
    .close = pool_close,
    .cancel = pool_cancel,
    .enter_async = pool_enter,
    .leave = pool_leave,
};
