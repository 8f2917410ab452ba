/* SPDX-License-Identifier: Apache-2.0 */
/* Judges what is left behind in the backend (oracle O5).
 *
 * A claim is closed when its caller went away without the lock, when its last release began, when
 * it was lost, and when its process died. From then on nothing may be sent that makes or lengthens
 * its lock. While the machine still knows the tenure it may be busy taking it back. When the
 * machine has forgotten it, the backend must not have it any more, unless as much time has passed
 * as the lease would have lasted. The same for its place in the queue of a fair lock. */
#include "sim.h"

#include "base/clock.h"

static bool makes_or_lengthens(const struct pawl__op *op)
{
    return op->kind == PAWL__OP_ACQUIRE || op->kind == PAWL__OP_RENEW || op->kind == PAWL__OP_PASS;
}

/* Until when, by its client's clock, such a request may leave something in the backend. */
static int64_t end_of(const struct pawl__op *op)
{
    return pawl__later(op->sent_us, op->lease_us) - op->lease_us / 100 - 2000;
}

/* The same for all of a claim's; what it had is not lengthened once it is gone. */
static int64_t lease_end(const struct sim_claim *claim)
{
    if (claim->client->world->plan.session) {
        return PAWL__NEVER;
    }
    return claim->released || claim->taken ? claim->copy_end_us
                                           : pawl__max64(claim->copy_end_us, claim->lengthened_us);
}

void sim_orphan_submit(struct sim_call *call)
{
    const struct pawl__op *op = &call->copy;
    struct sim_claim *claim = op->kind == PAWL__OP_PASS ? call->heir : call->claim;
    call->lease_us = op->lease_us;
    call->submitted_us = call->client->world->now_us;
    if (!makes_or_lengthens(op)) {
        return;
    }
    if (op->kind == PAWL__OP_RENEW) {
        claim->lengthened_us = pawl__max64(claim->lengthened_us, end_of(op));
    } else {
        claim->copy_end_us = end_of(op);
    }
    if (claim->closed) {
        sim_fail(call->client->world, "O5", "%s for tenure %llu of client %u, which nobody claims",
            sim_op_text(op->kind), (unsigned long long)claim->id, call->client->index);
    }
}

static void check_forgotten(const struct sim_claim *claim)
{
    struct sim_world *world = claim->client->world;
    bool excused = claim->excused || claim->owner_gone || claim->life != claim->client->life;
    excused = excused || (claim->taken && world->plan.on[SIM_CLOCK_BACK]); /* back from the dead */
    if (excused || sim_now(claim->client) >= lease_end(claim)) {
        return;
    }
    if (sim_backend_queues(world, claim)) {
        sim_fail(world, "O5", "tenure %llu of client %u was forgotten, but waits in the backend",
            (unsigned long long)claim->id, claim->client->index);
    }
    if (sim_backend_has(world, claim)) {
        sim_fail(world, "O5", "tenure %llu of client %u was forgotten, but is in the backend",
            (unsigned long long)claim->id, claim->client->index);
    }
}

void sim_orphan_applied(
    struct sim_world *world, const struct sim_call *call, const struct sim_claim *claim)
{
    if (claim->closed && call->submitted_us > claim->closed_us) {
        sim_fail(world, "O5", "tenure %llu of client %u was lengthened after its end",
            (unsigned long long)claim->id, claim->client->index);
    }
    if (!claim->in_machine) {
        check_forgotten(claim);
    }
}

/* Which tenures does the machine still know? */
void sim_orphans_check(struct sim_client *client)
{
    struct pawl__list *tenures = &client->machine.tenures;
    for (struct pawl__list *node = tenures->next; node != tenures; node = node->next) {
        const struct pawl__tenure *tenure = PAWL__CONTAINER(node, const struct pawl__tenure, all);
        struct sim_claim *claim = sim_claim_of(client, tenure);
        if (claim != NULL) {
            claim->seen = client->step;
        }
    }
    for (size_t i = 0; i < client->open_count; i++) {
        struct sim_claim *claim = client->open[i];
        if (claim->seen != client->step) {
            claim->in_machine = false;
            check_forgotten(claim);
            client->open[i--] = client->open[--client->open_count];
        }
    }
}
