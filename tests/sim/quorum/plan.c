/* SPDX-License-Identifier: Apache-2.0 */
/* What a seed means: how many processes and nodes there are, which options the lock has, and what
 * goes wrong. */
#include "qsim.h"

int64_t qs_below(int64_t bound)
{
    return (int64_t)pawl__random_below(&qs.random, (uint64_t)bound);
}

int64_t qs_between(int64_t least, int64_t most)
{
    return least + qs_below(most - least + 1);
}

bool qs_chance(unsigned of_thousand)
{
    return qs_below(1000) < of_thousand;
}

static void draw_times(struct qs_plan *plan)
{
    static const int64_t leases_ms[] = {300, 1000, 3000, 10000};
    plan->lease_ms = leases_ms[qs_below(4)];
    plan->max_lease_ms = plan->lease_ms * qs_between(1, 3);
    plan->max_hold_ms = qs_chance(150) ? plan->lease_ms * qs_between(1, 3) : 0;
    plan->node_timeout_ms = qs_chance(500) ? 50 : qs_between(30, 150);
    plan->length_us = plan->lease_ms * 1000 * qs_between(5, 12);
    plan->think_us = qs_chance(500) ? 50000 : plan->lease_ms * 1000;
    plan->hold_us = qs_chance(500) ? 100000 : plan->lease_ms * 2000;
    plan->fault_us = plan->lease_ms * 1000 / qs_between(1, 10);
}

static void draw_faults(struct qs_plan *plan)
{
    plan->calm = qs_chance(100);
    if (plan->calm) {
        plan->max_hold_ms = 0;
        plan->hold_us = pawl__min64(plan->hold_us, 300000);
        return;
    }
    plan->fault_kinds = qs_chance(300) ? UINT32_MAX : (unsigned)qs_below(1 << QS_FAULT_COUNT);
    plan->deletes = qs_chance(200);
    if (plan->deletes) { /* holds are to last long enough for it to matter */
        plan->fault_kinds &= ~(1U << QS_PAUSE | 1U << QS_FORGET);
        plan->fault_kinds |= 1U << QS_DELETE | 1U << QS_SLOW;
        plan->renew = qs_chance(900);
        plan->max_hold_ms = 0;
        plan->think_us = 50000;
        plan->hold_us = plan->lease_ms * 2000;
    } else {
        plan->fault_kinds &= ~(1U << QS_DELETE);
    }
    plan->stalls = (plan->fault_kinds & 1U << QS_STALL) != 0 ? (unsigned)qs_between(1, 200) : 0;
}

void qs_plan_make(struct qs_plan *plan, uint64_t seed)
{
    pawl__random_seed(&qs.random, seed);
    plan->processes = (unsigned)qs_between(2, QS_PROCESSES);
    plan->nodes = qs_chance(850) ? 3 + 2 * (unsigned)qs_below(2) : 4;
    for (unsigned i = 0; i < plan->processes; i++) {
        plan->users[i] = qs_chance(700) ? 1 : QS_USERS;
    }
    draw_times(plan);
    plan->guard = PAWL_GUARD_ENFORCE;
    plan->kills = qs_chance(800);
    plan->by_thread = qs_chance(600);
    plan->renew = qs_chance(750);
    plan->unawaited = qs_chance(100);
    plan->lazy = qs_chance(300);
    plan->asynchronous = !plan->by_thread && qs_chance(300);
    plan->yields = qs_chance(300) ? 0 : (unsigned)qs_between(1, 60);
    draw_faults(plan);
}
