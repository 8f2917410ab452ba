/* SPDX-License-Identifier: Apache-2.0 */
/* The line in which holds wait to be renewed or verified.
 *
 * A backend that was away comes back to everything at once: each hold is to be renewed. All those
 * questions together may take the backend longer than one of them may take, and then the engine
 * gives the connection up over the last ones, with the answers to all others on their way, and it
 * begins anew. So only so many are out at a time, and those whose time ends first go first: each
 * has its whole time from when it is sent, and whatever else fails, the next attempt gets further.
 *
 * Who stands in line counts as having its side operation out, and keeps its motion; its deadline is
 * watched meanwhile, as it is while the question is out. When half of those that may be out have
 * been answered the next are sent, so that the engine can put many into one message; by the keeper,
 * whom a timer calls, and not by who brings the answers: an engine may answer while it is being
 * asked.
 *
 * Who has little time left does not wait for that, and some places are kept for it: if the others
 * are stuck in a connection that is dead, its impatience has another one made. */
#include "core/machine_parts.h"

#include "base/clock.h"

#define OUT_LEAST 1000
#define OUT_FACTOR 16    /* so many times the least may be out at most */
#define URGENT_DIVISOR 4 /* so much of what may be out is kept for those with little time */
#define URGENT_FACTOR 2  /* times the timeout: then a renewal has less than that for its answer */
#define QUICK_DIVISOR 4  /* of the time that an answer may take: so quick, and more can be out; */
#define SLOW_DIVISOR 2   /* so slow, and it is too many */

void pawl__renewals_init(struct pawl__machine *machine)
{
    if (machine->renewals_least == 0) {
        machine->renewals_least = OUT_LEAST;
    }
    machine->renewals_most = machine->renewals_least;
    machine->renewals_timer.kind = PAWL__TIMER_RENEWALS;
}

static bool anybody_waits(const struct pawl__machine *machine)
{
    return pawl__heap_first(&machine->renewals) != NULL;
}

/* Has the first in line little time left? */
static bool is_urgent(const struct pawl__machine *machine, int64_t now_us)
{
    const struct pawl__timer *first = pawl__heap_first(&machine->renewals);
    return first->due_us - now_us < URGENT_FACTOR * machine->timeout_us;
}

static bool is_time_for_more(const struct pawl__machine *machine, int64_t now_us)
{
    return anybody_waits(machine) &&
           (machine->renewals_out <= machine->renewals_most / 2 || is_urgent(machine, now_us));
}

/* Is there a place for the first in line? */
static bool is_room(const struct pawl__machine *machine, int64_t now_us)
{
    const unsigned most = machine->renewals_most;
    return machine->renewals_out <
           (is_urgent(machine, now_us) ? most : most - most / URGENT_DIVISOR);
}

/* Who will not be renewed only wants to know whether it is still there, which can wait. */
void pawl__renewal_wait(struct pawl__machine *machine, struct pawl__tenure *tenure)
{
    const int64_t last_us = PAWL__NEVER - 1;
    const bool renews = tenure->renew_us != PAWL__NEVER;
    tenure->side_out = true;
    pawl__timer_set(&machine->renewals, &tenure->motion->renewal,
        renews ? pawl__min64(tenure->deadline_us, last_us) : last_us);
}

bool pawl__renewal_forgo(struct pawl__machine *machine, struct pawl__tenure *tenure)
{
    if (!tenure->motion->renewal.armed) {
        return false;
    }
    pawl__timer_clear(&machine->renewals, &tenure->motion->renewal);
    tenure->side_out = false;
    return true;
}

/* Who was lost or released meanwhile does not ask any more. */
static void send_first(struct pawl__machine *machine, int64_t now_us)
{
    struct pawl__timer *first = pawl__heap_first(&machine->renewals);
    struct pawl__tenure *tenure = PAWL__CONTAINER(first, struct pawl__motion, renewal)->side.core;
    pawl__renewal_forgo(machine, tenure);
    if (tenure->state == PAWL__TENURE_HELD) {
        pawl__hold_ask(machine, tenure, now_us);
    } else {
        pawl__motion_rest(machine, tenure);
    }
}

void pawl__renewals_send(struct pawl__machine *machine, int64_t now_us)
{
    if (is_time_for_more(machine, now_us)) {
        while (anybody_waits(machine) && is_room(machine, now_us)) {
            send_first(machine, now_us);
        }
    }
}

/* How many may be out follows from how long the answers take. */
static void judge_pace(struct pawl__machine *machine, const struct pawl__op *op, int64_t now_us)
{
    const int64_t took_us = now_us - op->sent_us;
    const int64_t patience_us = op->deadline_us - op->sent_us;
    if (op->answer == PAWL__FAILED || op->answer == PAWL__UNKNOWN ||
        took_us > patience_us / SLOW_DIVISOR) {
        machine->renewals_most = machine->renewals_least;
    } else if (anybody_waits(machine) && took_us < patience_us / QUICK_DIVISOR &&
               machine->renewals_most < OUT_FACTOR * machine->renewals_least) {
        machine->renewals_most++;
    }
}

void pawl__renewal_answered(
    struct pawl__machine *machine, const struct pawl__op *op, int64_t now_us)
{
    machine->renewals_out--;
    judge_pace(machine, op, now_us);
    if (is_time_for_more(machine, now_us) && !machine->renewals_timer.armed) {
        pawl__timer_set(&machine->timers, &machine->renewals_timer, now_us);
    }
}
