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

int64_t qs_any_ppm(bool is_node)
{
    if (qs.plan.apart) { /* nodes end leases early, and holders find it late */
        return is_node ? qs.plan.ppm : -qs.plan.ppm;
    }
    return qs_between(-qs.plan.ppm, qs.plan.ppm);
}

/* A step of 50 ms is taken for none, so leases are long enough to have that taken off for drift. */
static void draw_times(struct qs_plan *plan)
{
    static const int64_t leases_ms[] = {300, 1000, 3000, 10000};
    plan->lease_ms = plan->clocks ? 10000 : leases_ms[qs_below(4)];
    plan->ppm = plan->clocks ? 200 : 4500; /* more would be taken for jumps */
    plan->apart = qs_chance(500);
    plan->max_lease_ms = plan->lease_ms * qs_between(1, 3);
    plan->max_hold_ms = qs_chance(150) ? plan->lease_ms * qs_between(1, 3) : 0;
    plan->warn_ms = qs_chance(700) ? 0 : qs_between(1, plan->lease_ms);
    plan->node_timeout_ms = qs_chance(500) ? 50 : qs_between(30, 150);
    plan->length_us = plan->lease_ms * 1000 * qs_between(5, plan->clocks ? 8 : 12);
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
    if (!plan->clocks || plan->deletes) {
        plan->fault_kinds &= ~(1U << QS_JUMP);
    } else if (qs_chance(700)) {
        plan->fault_kinds |= 1U << QS_JUMP;
    }
    plan->stalls = (plan->fault_kinds & 1U << QS_STALL) != 0 ? (unsigned)qs_between(1, 200) : 0;
}

/* Of a jump before a durable node has restarted a newcomer cannot know. */
static void draw_company(struct qs_plan *plan)
{
    plan->reopens = !plan->calm && qs_chance(plan->clocks ? 600 : 150);
    plan->forgetful = plan->clocks && plan->reopens;
    plan->cancels = !plan->calm && !plan->reopens && qs_chance(600);
    for (unsigned i = 0; i < plan->processes && (plan->reopens || plan->cancels); i++) {
        plan->users[i] = plan->cancels && qs_chance(500) ? QS_USERS : 1;
    }
}

void qs_plan_make(struct qs_plan *plan, uint64_t seed)
{
    pawl__random_seed(&qs.random, seed);
    if (seed >= QS_SCENES_FROM) {
        qs_scene_plan(plan, seed);
        return;
    }
    plan->processes = (unsigned)qs_between(2, QS_PROCESSES);
    plan->nodes = qs_chance(850) ? 3 + 2 * (unsigned)qs_below(2) : 4;
    for (unsigned i = 0; i < plan->processes; i++) {
        plan->users[i] = qs_chance(700) ? 1 : QS_USERS;
    }
    plan->clocks = qs_chance(300);
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
    draw_company(plan);
}
