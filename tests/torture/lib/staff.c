/* SPDX-License-Identifier: Apache-2.0 */
/* The worker processes of a round: started, killed, stopped, and sent home. */
#include "torture/lib/round.h"

#include "fault/lib/pace.h"
#include "support/fail.h"
#include "support/wait.h"
#include "torture/lib/worker.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
    END_MS = 30000, /* a worker that is told to end may have to wait for a lock first */
    GROWTH_SIZE_MAX = 8 << 20,
};

void staff_start(struct round *round, unsigned slot)
{
    struct worker *worker = &round->workers[slot];
    struct arena_slot *place = &round->arena->slots[slot];
    char arg[sizeof round->arena_path + 40];
    snprintf(arg, sizeof arg, "%u %u %s", slot, worker->generation, round->arena_path);
    atomic_store(&place->stage, ARENA_ABSENT);
    atomic_store(&place->leave, 0);
    atomic_store(&place->acquired, 0);
    atomic_store(&place->resident_warm, 0);
    worker->child = child_start(WORKER_ROLE, arg);
}

/* ===== What a worker must not have done ===== */

static void check_complaint(struct round *round, unsigned slot, int code)
{
    const struct arena_slot *place = &round->arena->slots[slot];
    if (atomic_load(&place->complained) != 0) {
        blame(&round->verdict, 0, "worker %u: %s", slot, place->complaint);
    } else if (code != 0) {
        blame(&round->verdict, 0, "worker %u %s %d", slot,
            code < 0 ? "did not end:" : "ended with status", code);
    }
}

static void check_resources(struct round *round, unsigned slot)
{
    const struct arena_slot *place = &round->arena->slots[slot];
    const uint64_t warm = atomic_load(&place->resident_warm);
    const uint64_t last = atomic_load(&place->after.resident);
    if (atomic_load(&place->after.descriptors) != atomic_load(&place->before.descriptors)) {
        blame(&round->verdict, 8,
            "worker %u had %" PRIu64 " descriptors before and %" PRIu64 " afterwards", slot,
            atomic_load(&place->before.descriptors), atomic_load(&place->after.descriptors));
    }
    if (atomic_load(&place->after.threads) != atomic_load(&place->before.threads)) {
        blame(&round->verdict, 8,
            "worker %u had %" PRIu64 " threads before and %" PRIu64 " afterwards", slot,
            atomic_load(&place->before.threads), atomic_load(&place->after.threads));
    }
    if (PACE == 1 && warm != 0 && last > warm + GROWTH_SIZE_MAX) {
        blame(&round->verdict, 8, "worker %u grew from %" PRIu64 " to %" PRIu64 " bytes", slot,
            warm, last);
    }
}

/* Wait for its end, and look at what it left behind. */
static void see_off(struct round *round, unsigned slot)
{
    struct worker *worker = &round->workers[slot];
    const int code = child_wait(worker->child, END_MS * PACE);
    check_complaint(round, slot, code);
    if (code == 0) {
        check_resources(round, slot);
    }
    child_free(worker->child);
    worker->child = NULL;
    counts_bury(round, slot, false);
}

/* ===== What is done to one ===== */

static void follow_up(struct round *round, unsigned slot)
{
    round->workers[slot].generation++;
    staff_start(round, slot);
}

void staff_kill(struct round *round, unsigned slot)
{
    struct worker *worker = &round->workers[slot];
    struct death *death = history_add_death(&round->history);
    *death = (struct death){.slot = slot, .generation = worker->generation, .at_us = boottime_us()};
    child_signal(worker->child, SIGKILL);
    const int code = child_wait(worker->child, END_MS);
    if (code != 128 + SIGKILL) {
        check_complaint(round, slot, code);
    }
    child_free(worker->child);
    counts_bury(round, slot, true);
    follow_up(round, slot);
}

void staff_ask_to_leave(struct round *round, unsigned slot)
{
    atomic_store(&round->arena->slots[slot].leave, 1);
}

/* It may be waiting for somebody who is stopped, so nobody waits for it here. */
bool staff_has_left(struct round *round, unsigned slot)
{
    if (child_is_running(round->workers[slot].child)) {
        return false;
    }
    see_off(round, slot);
    follow_up(round, slot);
    return true;
}

void staff_stop(struct round *round, unsigned slot)
{
    child_stop(round->workers[slot].child);
    round->workers[slot].stopped = true;
}

void staff_continue(struct round *round, unsigned slot)
{
    child_continue(round->workers[slot].child);
    round->workers[slot].stopped = false;
}

/* ===== All of them ===== */

static bool has_progressed(const struct round *round, unsigned slot, int64_t since_us)
{
    for (unsigned i = 0; i < round->arena->threads; i++) {
        if (atomic_load(&round->arena->slots[slot].thread_acquired_us[i]) < since_us) {
            return false;
        }
    }
    return true;
}

bool staff_await_progress(struct round *round, int64_t since_us, int64_t timeout_ms)
{
    const int64_t end_ms = boottime_ms() + timeout_ms;
    for (unsigned i = 0; i < round->worker_count; i++) {
        while (!has_progressed(round, i, since_us)) {
            if (boottime_ms() > end_ms || !child_is_running(round->workers[i].child)) {
                blame(&round->verdict, 9, "a thread of worker %u got no lock any more", i);
                return false;
            }
            nap_ms(1);
        }
    }
    return true;
}

void staff_dismiss(struct round *round)
{
    atomic_store(&round->arena->stop, 1);
    for (unsigned i = 0; i < round->worker_count; i++) {
        see_off(round, i);
    }
}
