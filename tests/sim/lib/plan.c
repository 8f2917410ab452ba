/* SPDX-License-Identifier: Apache-2.0 */
/* What a seed makes of a run.
 *
 * Each kind of fault is on in some runs and off in others (a swarm): a run with everything on hides
 * what a run with two faults shows, because nothing lives long enough in it. One run in twelve has
 * no faults and a crowd at one lock, one in twelve stands for an engine whose locks die with the
 * process and never expire. Seeds from SIM_COUNT_SEEDS on are about semaphores and latches, those
 * from SIM_MULTI_SEEDS on about several locks at once, and from SIM_JOINT_SEEDS on about several
 * that an engine gives together. */
#include "sim.h"

#include "base/clock.h"

#include <string.h>

const char *const sim_fault_names[SIM_FAULT_COUNT] = {
    [SIM_DROP_REQUEST] = "request lost",
    [SIM_DROP_REPLY] = "reply lost",
    [SIM_LATE] = "message late",
    [SIM_DOUBLE] = "request doubled",
    [SIM_REORDER] = "handed over late",
    [SIM_DROP_WAKE] = "wake-up lost",
    [SIM_NO_MEMORY] = "no memory",
    [SIM_REFUSE] = "refused",
    [SIM_CUT] = "connection cut",
    [SIM_CUT_PUSH] = "push channel cut",
    [SIM_PAUSE_SHORT] = "short pause",
    [SIM_PAUSE_LONG] = "long pause",
    [SIM_CRASH] = "client crashed",
    [SIM_FREEZE] = "backend frozen",
    [SIM_RESTART] = "restart with data",
    [SIM_AMNESIA] = "restart without data",
    [SIM_CLOCK_FORWARD] = "clock forward",
    [SIM_CLOCK_BACK] = "clock back",
    [SIM_PROOF] = "proof of loss",
    [SIM_BREAK] = "broken by operator",
    [SIM_CANCEL] = "cancel",
    [SIM_CLOSE] = "handle closed",
    [SIM_THREAD_END] = "thread ended",
    [SIM_SHUT] = "client closed",
};

static int64_t between(struct pawl__random *random, int64_t least, int64_t most)
{
    return least + (int64_t)pawl__random_below(random, (uint64_t)(most - least + 1));
}

/* Every doubling between the two is as likely as any other. */
static int64_t log_between(struct pawl__random *random, int64_t least, int64_t most)
{
    int doublings = 0;
    while (least << doublings < most) {
        doublings++;
    }
    int64_t base_us = least << between(random, 0, doublings > 0 ? doublings - 1 : 0);
    return pawl__min64(between(random, base_us, 2 * base_us), most);
}

static void draw_times(struct sim_plan *plan, struct pawl__random *random)
{
    plan->lease_us = log_between(random, 10000, 60000000);
    plan->delay_us =
        log_between(random, 20, pawl__max64(20, pawl__min64(20000, plan->lease_us / 160)));
    plan->spread_us = log_between(random, 10, 4 * plan->delay_us);
    plan->hold_us = log_between(random, plan->lease_us / 200 + 1, 2 * plan->lease_us);
    plan->think_us = log_between(random, 1, plan->lease_us);
    plan->late_us = log_between(random, plan->lease_us / 8, 3 * plan->lease_us);
    plan->gap_us = log_between(random, plan->lease_us / 4, 16 * plan->lease_us);
    plan->timeout_us = log_between(random, 60 * plan->delay_us + 10000, 3000000);
    plan->give_up_us = log_between(random, 1000000, 60000000);
}

static void draw_faults(struct sim_plan *plan, struct pawl__random *random)
{
    unsigned share = (unsigned)between(random, 0, 3); /* a quarter each, or none, or most */
    for (int i = 0; i < SIM_FAULT_COUNT; i++) {
        plan->on[i] = pawl__random_below(random, 4) < share;
        plan->mille[i] = (unsigned)log_between(random, 1, 120);
    }
    plan->on[SIM_REFUSE] = plan->on[SIM_REFUSE] && pawl__random_below(random, 4) == 0;
    plan->mille[SIM_CLOSE] = 250; /* each time that the closer looks around */
    plan->mille[SIM_SHUT] = 50;
    if (plan->on[SIM_AMNESIA]) {
        plan->on[SIM_CLOCK_BACK] = false; /* tokens come from that clock when the data is lost */
    }
}

/* A local engine: nothing gets lost on the way, and the backend knows when a client dies. */
static void make_session(struct sim_plan *plan)
{
    static const enum sim_fault foreign[] = {SIM_DROP_REQUEST, SIM_DROP_REPLY, SIM_LATE, SIM_DOUBLE,
        SIM_CUT, SIM_FREEZE, SIM_RESTART, SIM_AMNESIA, SIM_CLOCK_FORWARD, SIM_CLOCK_BACK};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        plan->on[foreign[i]] = false;
    }
    plan->mille[SIM_SHUT] = 250;
    plan->mille[SIM_THREAD_END] = 120;
    plan->session = true;
    plan->ordered = true;
    plan->delay_us = 1;
    plan->spread_us = 1;
    plan->handoff = false;
    for (int i = 0; i < SIM_NAMES_MAX; i++) {
        plan->families[i] = PAWL__FAMILY_MUTEX; /* it knows no others */
    }
}

static void make_fair(struct sim_plan *plan, struct pawl__random *random)
{
    memset(plan->on, 0, sizeof plan->on);
    plan->fair = true;
    plan->ordered = true;
    plan->names = 1;
    plan->handles = 2;
    plan->clients = (unsigned)between(random, 2, 4);
    plan->lease_us = 10000000;
    plan->delay_us = log_between(random, 50, 1000);
    plan->spread_us = plan->delay_us / 4;
    plan->hold_us = log_between(random, 50, 8000);
    plan->think_us = 1;
    plan->timeout_us = 1000000;
    plan->give_up_us = 30000000;
    bool queue = pawl__random_below(random, 4) == 0;
    plan->families[0] = queue ? PAWL__FAMILY_FAIR : PAWL__FAMILY_MUTEX;
}

/* Half of all names are mutexes. */
static enum pawl__family draw_family(struct pawl__random *random)
{
    static const enum pawl__family others[] = {PAWL__FAMILY_FAIR, PAWL__FAMILY_FAIR,
        PAWL__FAMILY_SHARED, PAWL__FAMILY_SHARED, PAWL__FAMILY_SHARED, PAWL__FAMILY_SPIN,
        PAWL__FAMILY_PLAIN};
    const size_t count = sizeof others / sizeof others[0];
    uint64_t dice = pawl__random_below(random, 2 * count);
    return dice < count ? others[dice] : PAWL__FAMILY_MUTEX;
}

static void draw_families(struct sim_plan *plan, struct pawl__random *random)
{
    for (int i = 0; i < SIM_NAMES_MAX; i++) {
        plan->families[i] = draw_family(random);
        if (plan->families[i] == PAWL__FAMILY_SHARED && plan->handles < 3 * plan->names) {
            plan->handles = SIM_HANDLES_MAX; /* some to read and some to write */
        }
    }
    plan->handoff = pawl__random_below(random, 3) == 0;
}

/* Most names are counts. What the table does without memory cannot be told apart when its clock is
 * set back as well. */
static void make_counts(struct sim_plan *plan, struct pawl__random *random)
{
    static const enum pawl__family families[] = {PAWL__FAMILY_SEMAPHORE, PAWL__FAMILY_SEMAPHORE,
        PAWL__FAMILY_SEMAPHORE, PAWL__FAMILY_PERMITS, PAWL__FAMILY_PERMITS, PAWL__FAMILY_PERMITS,
        PAWL__FAMILY_LATCH, PAWL__FAMILY_LATCH, PAWL__FAMILY_MUTEX};
    for (int i = 0; i < SIM_NAMES_MAX; i++) {
        const size_t count = sizeof families / sizeof families[0];
        plan->families[i] = families[pawl__random_below(random, i == 0 ? count - 1 : count)];
        plan->permits[i] = between(random, 1, SIM_PERMITS_MOST);
    }
    if (plan->on[SIM_NO_MEMORY]) {
        plan->on[SIM_CLOCK_BACK] = false;
    }
}

/* Some clients' callers want all names at once, the others one. Whoever does keeps the handles. */
static void make_multi(struct sim_plan *plan, struct pawl__random *random)
{
    static const enum pawl__family families[] = {PAWL__FAMILY_MUTEX, PAWL__FAMILY_MUTEX,
        PAWL__FAMILY_FAIR, PAWL__FAMILY_SHARED, PAWL__FAMILY_SPIN, PAWL__FAMILY_PLAIN};
    plan->names = SIM_NAMES_MAX;
    plan->handles = SIM_NAMES_MAX;
    plan->teams = (unsigned)between(random, 1, SIM_TEAMS_MAX);
    plan->actors = (unsigned)between(random, plan->teams * SIM_NAMES_MAX, SIM_ACTORS_MAX - 1);
    for (int i = 0; i < SIM_NAMES_MAX; i++) {
        const size_t count = sizeof families / sizeof families[0];
        plan->families[i] = families[pawl__random_below(random, count)];
    }
    plan->on[SIM_CLOSE] = plan->on[SIM_SHUT] = plan->on[SIM_THREAD_END] = false;
}

/* The same with an engine that gives all kinds together, or all but fair ones, of which there are
 * few: a set with one of these does not wait as a whole. No request comes twice, for its copy would
 * have to be of all. */
static void make_joint(struct sim_plan *plan, struct pawl__random *random)
{
    static const enum pawl__family families[] = {PAWL__FAMILY_MUTEX, PAWL__FAMILY_MUTEX,
        PAWL__FAMILY_MUTEX, PAWL__FAMILY_SHARED, PAWL__FAMILY_SHARED, PAWL__FAMILY_SHARED,
        PAWL__FAMILY_SPIN, PAWL__FAMILY_PLAIN};
    make_multi(plan, random);
    plan->joins = SIM_JOINS;
    const bool whole = pawl__random_below(random, 4) > 0;
    for (int i = 0; i < SIM_NAMES_MAX && whole; i++) {
        const size_t count = sizeof families / sizeof families[0];
        plan->families[i] = families[pawl__random_below(random, count)];
    }
    plan->on[SIM_DOUBLE] = false;
    plan->twins = pawl__random_below(random, 2) > 0;
    if (plan->twins) {
        plan->handles = SIM_HANDLES_EACH * SIM_NAMES_MAX;
        plan->actors = SIM_ACTORS_MAX - 1;
    }
    const uint64_t dice = pawl__random_below(random, 6);
    if (dice == 0) {
        plan->joins &= ~PAWL__FAMILY_BIT(PAWL__FAMILY_FAIR); /* they are asked for beside */
    } else if (dice == 5) {
        plan->families[pawl__random_below(random, SIM_NAMES_MAX)] = PAWL__FAMILY_FAIR;
    }
}

void sim_plan_draw(struct sim_plan *plan, uint64_t seed)
{
    struct pawl__random random;
    pawl__random_seed(&random, seed);
    memset(plan, 0, sizeof *plan);
    plan->seed = seed;
    plan->clients = (unsigned)between(&random, 1, SIM_CLIENTS_MAX);
    plan->names = (unsigned)between(&random, 1, SIM_NAMES_MAX);
    plan->handles = (unsigned)between(&random, 2, SIM_HANDLES_MAX);
    plan->actors = (unsigned)between(&random, 1, SIM_ACTORS_MAX - 1);
    plan->ordered = pawl__random_below(&random, 3) > 0;
    plan->queues_offline = pawl__random_below(&random, 2) > 0;
    plan->events_max = (unsigned)log_between(&random, 1000, 24000);
    draw_times(plan, &random);
    draw_faults(plan, &random);
    draw_families(plan, &random);
    uint64_t special = pawl__random_below(&random, 12);
    if (seed >= SIM_JOINT_SEEDS) {
        make_joint(plan, &random);
    } else if (seed >= SIM_MULTI_SEEDS) {
        make_multi(plan, &random);
    } else if (seed >= SIM_COUNT_SEEDS) {
        make_counts(plan, &random);
    } else if (special == 0) {
        make_fair(plan, &random);
    } else if (special == 1) {
        make_session(plan);
    }
}
