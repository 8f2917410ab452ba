/* SPDX-License-Identifier: Apache-2.0 */
/* What is too rare to be left to chance: one thing after the other, as it is written here. The seed
 * says which scene it is, and draws only which thread runs when. */
#include "qsim.h"

#define S_US INT64_C(1000000)
#define AROUND_US 10000

enum scene { LOST_WHILE_EXTENDED = 1, JUMP_BEFORE_WE_CAME, LEFT_WITH_ONE };

void qs_scene_plan(struct qs_plan *plan, uint64_t seed)
{
    static const int64_t leases_ms[] = {0, 400, 10000, 1000};
    const unsigned scene = 1 + (unsigned)((seed - QS_SCENES_FROM) / QS_SCENES_EACH) % QS_SCENES;
    const bool jumps = scene == JUMP_BEFORE_WE_CAME;
    *plan = (struct qs_plan){
        .scene = scene,
        .processes = scene == LOST_WHILE_EXTENDED ? 1 : 2,
        .nodes = jumps ? 5 : 3,
        .users = {1, 1},
        .length_us = 30 * S_US,
        .lease_ms = leases_ms[scene],
        .max_lease_ms = leases_ms[scene],
        .node_timeout_ms = 50,
        .guard = PAWL_GUARD_ENFORCE,
        .kills = true,
        .clocks = jumps,
        .forgetful = jumps,
        .by_thread = true,
        .renew = true,
        .yields = (unsigned)qs_between(0, 60),
        .ppm = 200,
        .fault_us = 30 * S_US,
    };
}

static struct qs_claim *take_it(struct qs_process *process)
{
    if (pawl_lock_acquire(process->lock, 1000) != PAWL_OK) {
        qs_fail("CALM p%u is not granted it: %s", process->number, pawl_last_error());
    }
    return qs_granted(process);
}

static struct qs_thread *extender;
static struct qs_event loss;

static void hold_up(struct qs_event *event)
{
    (void)event;
    extender->stalled_us = qs.now_us + 2 * AROUND_US;
}

/* It is lost while an extension waits for answers, and found so by the worker: what the node that
 * is left has of it is given back when that is over, and not renewed until somebody asks for the
 * lock again. */
static void lost_while_it_is_extended(struct qs_process *process)
{
    struct qs_claim *claim = take_it(process);
    pawl_status status = PAWL_OK;
    qs_sleep(qs_between(50000, 150000));
    qs.nodes[1].hung_us = qs.nodes[2].hung_us = qs.now_us + 8 * S_US;
    extender = qs_self;
    qs_looked(claim);
    qs_event_set(&loss, claim->until_us - AROUND_US, hold_up);
    do {
        status = pawl_lock_extend(process->lock, qs.plan.lease_ms);
        qs_note("extends: %d", (int)status);
    } while (status == PAWL_UNAVAILABLE);
    qs_leaving(claim);
    qs_sleep(6 * S_US);
    qs_left(claim, pawl_lock_release(process->lock));
    if (status != PAWL_LOST) {
        qs_fail("TOLD p%u extends what is lost", process->number);
    }
    qs_sleep(3 * S_US);
}

static void cut_off(const struct qs_process *process, unsigned number)
{
    struct qs_link *link = &qs.links[process->number][number];
    link->cut_up_us = link->cut_down_us = qs.now_us + 20 * S_US;
}

static unsigned stage;

static void go_to_stage(unsigned next)
{
    stage = next;
    qs_wake(&stage);
}

static void await_stage(unsigned awaited)
{
    while (stage < awaited) {
        qs_wait(&stage, PAWL__NEVER);
    }
}

/* Kleppmann's first schedule, by a clock: one holder at nodes 0, 1 and 2; the clock of 2 jumps
 * beyond its lease, and 0 and 1 do not answer any more; somebody who was not there before asks 2, 3
 * and 4. Only by what 3 and 4 have noted can it be known that 2 must not vote. */
static void hold_through_a_jump(struct qs_process *process)
{
    cut_off(process, 3);
    cut_off(process, 4);
    await_stage(1);
    struct qs_claim *claim = take_it(process);
    qs_sleep(S_US / 10);
    cut_off(process, 2);
    qs.nodes[2].jump_us += 60 * S_US;
    qs.nodes[0].hung_us = qs.nodes[1].hung_us = qs.now_us + 15 * S_US;
    go_to_stage(2);
    await_stage(3);
    qs_leaving(claim);
    qs_left(claim, pawl_lock_release(process->lock));
}

static void come_after_a_jump(struct qs_process *process)
{
    qs_close_all(process);
    go_to_stage(1);
    await_stage(2);
    const int64_t end_us = qs.now_us + 6 * S_US;
    qs_open_all(process);
    while (qs.now_us < end_us) {
        if (pawl_lock_acquire(process->lock, PAWL_TRY) == PAWL_OK) {
            struct qs_claim *claim = qs_granted(process);
            qs_leaving(claim);
            qs_left(claim, pawl_lock_release(process->lock));
        }
        qs_note("is told: %s", pawl_last_error());
        qs_sleep(S_US / 10);
    }
    go_to_stage(3);
}

/* Only one node can be reached any more, and goes on being renewed: that is no majority, and
 * somebody else gets one as soon as the leases at the others are over. */
static void hold_with_one(struct qs_process *process)
{
    struct qs_claim *claim = take_it(process);
    qs_sleep(S_US / 10);
    cut_off(process, 1);
    cut_off(process, 2);
    go_to_stage(1);
    while (stage < 2 && qs_looked(claim)) {
        qs_sleep(S_US / 100);
    }
    await_stage(2);
    qs_leaving(claim);
    qs_left(claim, pawl_lock_release(process->lock));
}

static void wait_for_two(struct qs_process *process)
{
    await_stage(1);
    if (pawl_lock_acquire(process->lock, 5000) != PAWL_OK) {
        qs_fail("CALM p%u is not granted it: %s", process->number, pawl_last_error());
    }
    struct qs_claim *claim = qs_granted(process);
    qs_leaving(claim);
    qs_left(claim, pawl_lock_release(process->lock));
    go_to_stage(2);
}

void qs_scene_play(struct qs_process *process)
{
    const bool first = process->number == 0;
    switch ((enum scene)qs.plan.scene) {
    case LOST_WHILE_EXTENDED:
        lost_while_it_is_extended(process);
        break;
    case JUMP_BEFORE_WE_CAME:
        (first ? hold_through_a_jump : come_after_a_jump)(process);
        break;
    case LEFT_WITH_ONE:
        (first ? hold_with_one : wait_for_two)(process);
        break;
    }
    while (!qs.calm) {
        qs_sleep(S_US);
    }
}
