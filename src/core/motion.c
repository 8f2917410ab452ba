/* SPDX-License-Identifier: Apache-2.0 */
/* Motions: given to a tenure when something begins about it, taken away when it is at rest again;
 * machine.h says what they are.
 *
 * A few spare ones are kept. The last of them are for what has to be: a claim that finds no memory
 * fails, which its caller can live with, but a hold has to be renewed and released. If even they
 * are used up, holds try again after a while. They come back with the answer that they wait for, at
 * the latest when the engine gives up on it. */
#include "core/machine_parts.h"

#include "base/alloc.h"

#define SPARES_FACTOR 3 /* so many times those that are kept for holds may be spare */

/* Its lists point to themselves. The section is made read-only when the program is loaded: whoever
 * writes to it by mistake crashes, instead of changing every hold at rest. */
__attribute__((section(".data.rel.ro"))) struct pawl__motion pawl__at_rest = {
    .main = {.answer = PAWL__FAILED}, /* the answer to what was not asked */
    .extends = {&pawl__at_rest.extends, &pawl__at_rest.extends},
    .extending = {&pawl__at_rest.extending, &pawl__at_rest.extending},
};

static void put(struct pawl__machine *machine, struct pawl__motion *motion)
{
    motion->next = machine->motions;
    machine->motions = motion;
    machine->motion_count++;
}

static struct pawl__motion *take(struct pawl__machine *machine)
{
    struct pawl__motion *motion = machine->motions;
    machine->motions = motion->next;
    machine->motion_count--;
    return motion;
}

bool pawl__motions_init(struct pawl__machine *machine)
{
    while (machine->motion_count < machine->motions_kept) {
        struct pawl__motion *motion = pawl__alloc(sizeof *motion);
        if (motion == NULL) {
            pawl__motions_free(machine);
            return false;
        }
        put(machine, motion);
    }
    return true;
}

void pawl__motions_free(struct pawl__machine *machine)
{
    while (machine->motions != NULL) {
        pawl__free(take(machine));
    }
}

/* What of an operation is not set whenever it is submitted. As long as it is not, it counts as
 * failed. */
static void op_init(struct pawl__op *op, struct pawl__tenure *tenure)
{
    op->place = pawl__name_place(tenure->name);
    op->core = tenure;
    op->answer = PAWL__FAILED;
    op->tokens = 0;
    op->queue = false;
    op->joint = false;
    op->offer = false;
}

/* Those that are kept are taken last, and only for what has to be. */
static struct pawl__motion *obtain(struct pawl__machine *machine, bool must)
{
    struct pawl__motion *motion =
        machine->motion_count > machine->motions_kept ? take(machine) : pawl__alloc(sizeof *motion);
    return motion == NULL && must && machine->motions != NULL ? take(machine) : motion;
}

/* A spare one is as it was left, but without an error. */
static bool give(struct pawl__machine *machine, struct pawl__tenure *tenure, bool must)
{
    struct pawl__motion *motion = obtain(machine, must);
    if (motion == NULL) {
        return false;
    }
    op_init(&motion->main, tenure);
    op_init(&motion->side, tenure);
    pawl__list_init(&motion->extends);
    pawl__list_init(&motion->extending);
    pawl__list_init(&motion->risk.node);
    motion->risk.status = PAWL_UNAVAILABLE;
    motion->heir = NULL;
    motion->giver = NULL;
    motion->ear = NULL;
    motion->wakes = 0;
    motion->copy_us = tenure->proven_us;
    motion->late = 0;
    motion->turns = 0;
    tenure->motion = motion;
    return true;
}

bool pawl__motion_may(struct pawl__machine *machine, struct pawl__tenure *tenure)
{
    return tenure->motion != &pawl__at_rest || give(machine, tenure, false);
}

bool pawl__motion_begin(struct pawl__machine *machine, struct pawl__tenure *tenure)
{
    return tenure->motion != &pawl__at_rest || give(machine, tenure, true);
}

void pawl__motion_end(struct pawl__machine *machine, struct pawl__tenure *tenure)
{
    struct pawl__motion *motion = tenure->motion;
    if (motion == &pawl__at_rest) {
        return;
    }
    tenure->motion = &pawl__at_rest;
    pawl__free(pawl__take_error(&motion->main));
    pawl__free(pawl__take_error(&motion->side));
    if (machine->motion_count < SPARES_FACTOR * machine->motions_kept) {
        put(machine, motion);
    } else {
        pawl__free(motion);
    }
}

/* Whether something goes on. */
static bool is_moving(const struct pawl__tenure *tenure)
{
    const struct pawl__motion *motion = tenure->motion;
    return tenure->main_out || tenure->side_out || motion->risk.queued || motion->heir != NULL ||
           motion->giver != NULL || motion->ear != NULL || !pawl__list_empty(&motion->extends) ||
           !pawl__list_empty(&motion->extending);
}

/* A waiter asks about once a second. In between it needs none, and there may be many waiters. */
void pawl__motion_pause(struct pawl__machine *machine, struct pawl__tenure *tenure)
{
    if (!is_moving(tenure) && tenure->motion->late == 0) {
        tenure->proven_us = tenure->motion->copy_us; /* the next one begins with it */
        pawl__motion_end(machine, tenure);
    }
}

void pawl__motion_rest(struct pawl__machine *machine, struct pawl__tenure *tenure)
{
    const bool holds = tenure->state == PAWL__TENURE_HELD || tenure->state == PAWL__TENURE_LOST;
    if (holds && !is_moving(tenure)) {
        pawl__motion_end(machine, tenure);
    }
}
