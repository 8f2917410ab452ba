/* SPDX-License-Identifier: Apache-2.0 */
/* Judges how each call ended (oracle O6): exactly once, by its end and not a microsecond later
 * unless the client was stopped, and with a status that follows from what its owner had and from
 * what happened meanwhile. */
#include "sim.h"

#include "base/clock.h"
#include "pawl.h"

#define PAUSE_US 1500000 /* the longest between two tries */

static int64_t drift(int64_t lease_us)
{
    return lease_us / 100 + 2000;
}

static void wrong(const struct sim_actor *actor, const char *why)
{
    const struct pawl__request *request = &actor->request;
    sim_fail(actor->client->world, "O6", "client %u actor %u: %s ended with \"%s\" %s",
        actor->client->index, actor->index, sim_request_text(request->kind),
        pawl_status_string(request->status), why);
}

/* ===== What must come at once ===== */

static void expect(struct sim_actor *actor, pawl_status status)
{
    actor->must_end = true;
    actor->expected = status;
}

static unsigned count_of(const struct sim_actor *actor, const struct sim_claim *claim)
{
    bool reads = actor->handle->terms.kind == PAWL_READ;
    return reads ? claim->read_count : claim->count - claim->read_count;
}

/* Who writes may read, too. Who reads would wait for itself to write. */
static bool may_enter(const struct sim_actor *actor, const struct sim_claim *claim)
{
    const struct pawl__terms *terms = &actor->handle->terms;
    bool waits_for_itself = claim->reads && terms->kind == PAWL_WRITE;
    return !waits_for_itself && (terms->reentry || count_of(actor, claim) == 0);
}

static void expect_acquire(struct sim_actor *actor, const struct sim_claim *claim, bool lost)
{
    if (claim == NULL) {
        return;
    }
    if (lost) {
        expect(actor, PAWL_LOST);
    } else if (!may_enter(actor, claim)) {
        expect(actor, PAWL_DEADLOCK);
    } else if (claim->renew) {
        const struct pawl__handle *handle = &actor->handle->handle;
        expect(actor, PAWL_OK);
        actor->needs_memory = handle != claim->tenure->handle && handle->extra == NULL;
    }
}

static bool shared(const struct sim_actor *actor)
{
    return actor->client->world->plan.families[actor->handle->name] == PAWL__FAMILY_SHARED;
}

/* The hold counts as released, or as one for reading, from the moment of the call. */
static void expect_release(struct sim_actor *actor, struct sim_claim *claim, bool lost)
{
    if (claim == NULL || count_of(actor, claim) == 0) {
        expect(actor, PAWL_NOT_HELD);
        return;
    }
    actor->claim = claim;
    actor->was_last = --claim->count == 0;
    claim->read_count -= actor->handle->terms.kind == PAWL_READ;
    claim->first_count -= claim->handle == &actor->handle->handle && claim->first_count > 0;
    actor->downgrades = !lost && shared(actor) && !claim->reads && !actor->was_last &&
                        claim->read_count == claim->count;
    if (actor->downgrades) {
        claim->reads = true; /* from now on, as far as its owner is concerned */
        claim->downgraded_us = actor->client->world->now_us;
        actor->client->world->stats.downgrades++;
    }
    bool awaited = (actor->was_last || actor->downgrades) && !actor->handle->terms.unawaited;
    if (lost) {
        claim->lost = true;
        expect(actor, PAWL_LOST);
    } else if (!awaited) {
        expect(actor, PAWL_OK);
    }
    if (actor->was_last) {
        sim_hold_drop(claim);
    }
}

static void expect_extend(struct sim_actor *actor, const struct sim_claim *claim, bool lost)
{
    if (claim == NULL || count_of(actor, claim) == 0) {
        expect(actor, PAWL_NOT_HELD);
    } else if (lost) {
        expect(actor, PAWL_LOST);
    } else if (claim->limit_us != 0 && pawl__later(actor->request.start_us,
                                           actor->request.lease_us) > claim->tenure->limit_us) {
        expect(actor, PAWL_INVALID);
    }
}

void sim_request_started(struct sim_actor *actor)
{
    struct sim_client *client = actor->client;
    struct sim_claim *claim = sim_held(client, actor->handle->name, actor->who);
    bool lost =
        claim != NULL && (claim->lost || actor->request.start_us >= claim->tenure->deadline_us);
    actor->claim = NULL;
    actor->was_last = false;
    actor->downgrades = false;
    actor->must_end = false;
    actor->needs_memory = false;
    actor->cancels = actor->handle->cancels;
    switch (actor->request.kind) {
    case PAWL__WANT_ACQUIRE:
        if (actor->request.party == NULL) { /* or it may have to wait for its turn */
            expect_acquire(actor, claim, lost);
        }
        break;
    case PAWL__WANT_RELEASE:
        expect_release(actor, claim, lost);
        break;
    case PAWL__WANT_EXTEND:
        expect_extend(actor, claim, lost);
        break;
    case PAWL__WANT_INSPECT:
    case PAWL__WANT_BREAK:
    case PAWL__WANT_RAISE:
        break;
    case PAWL__WANT_TALLY:
        sim_count_started(actor);
        break;
    }
}

void sim_requests_check(struct sim_client *client)
{
    int64_t due_us = pawl__machine_due(&client->machine);
    for (unsigned i = 0; i <= client->world->plan.actors; i++) {
        const struct sim_actor *actor = &client->actors[i];
        const bool waits = actor->busy && !actor->request.finished;
        if (waits && actor->must_end) {
            sim_fail(client->world, "O6", "client %u actor %u: %s should have ended at once",
                client->index, i, sim_request_text(actor->request.kind));
        }
        if (waits && actor->request.end_us < due_us) {
            sim_fail(client->world, "O6", "client %u actor %u: no timer for the end of its %s",
                client->index, i, sim_request_text(actor->request.kind));
        }
    }
}

/* ===== How it ended ===== */

bool sim_fault_is_fair(const struct sim_actor *actor)
{
    const struct sim_world *world = actor->client->world;
    const struct pawl__request *request = &actor->request;
    int64_t since_us =
        sim_true(actor->client, request->start_us) - 2 * world->plan.timeout_us - PAUSE_US;
    switch (request->status) {
    case PAWL_UNAVAILABLE:
        return actor->client->trouble_us >= since_us || !actor->client->wired ||
               !actor->client->online || world->frozen || world->down;
    case PAWL_NO_MEMORY:
        return world->plan.on[SIM_NO_MEMORY];
    case PAWL_REFUSED:
        return world->plan.on[SIM_REFUSE];
    case PAWL_OK:
    case PAWL_BUSY:
    case PAWL_CANCELED:
    case PAWL_NOT_HELD:
    case PAWL_LOST:
    case PAWL_DEADLOCK:
    case PAWL_DENIED:
    case PAWL_PROTOCOL:
    case PAWL_INVALID:
    case PAWL_MISUSE:
    case PAWL_UNSUPPORTED:
        break;
    }
    return false;
}

static struct pawl__tenure *find_hold(const struct sim_actor *actor)
{
    struct pawl__list *holds = &actor->handle->handle.name->holds;
    for (struct pawl__list *node = holds->next; node != holds; node = node->next) {
        struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, node);
        if (tenure->owner == actor->who) {
            return tenure;
        }
    }
    return NULL;
}

/* While it was about to enter again, another actor that is the same owner stopped writing. */
static bool would_write_reading(const struct sim_actor *actor)
{
    const struct pawl__tenure *tenure = find_hold(actor);
    return tenure != NULL && tenure->kind == PAWL_READ && actor->handle->terms.kind == PAWL_WRITE;
}

static bool is_lost(const struct sim_claim *claim, int64_t since_us)
{
    bool now = claim->tenure != NULL && claim->tenure->state == PAWL__TENURE_LOST;
    return now || (claim->lost && (claim->count > 0 || claim->closed_us >= since_us));
}

/* Whether its owner has a lost hold, or had one since the call began. Several actors may be one
 * owner. */
static bool has_lost(const struct sim_actor *actor)
{
    const struct sim_client *client = actor->client;
    int64_t start_us = sim_true(client, actor->request.start_us);
    for (size_t i = client->claim_count; i > 0; i--) {
        const struct sim_claim *claim = client->claims[i - 1];
        for (; claim != NULL; claim = claim->giver) {
            bool its = claim->owner == actor->who && claim->name == actor->handle->name;
            if (its && is_lost(claim, start_us)) {
                return true;
            }
        }
    }
    return false;
}

static void acquire_finished(struct sim_actor *actor)
{
    struct sim_client *client = actor->client;
    const struct pawl__request *request = &actor->request;
    const struct sim_claim *held = sim_held(client, actor->handle->name, actor->who);
    int64_t now_us = sim_now(client);
    if (request->status != PAWL_OK && actor->claim != NULL) {
        sim_claim_close(actor->claim);
    }
    if (request->status == PAWL_OK) {
        struct pawl__tenure *tenure = find_hold(actor);
        if (tenure == NULL || tenure->state != PAWL__TENURE_HELD || tenure->deadline_us <= now_us) {
            wrong(actor, "without a valid hold");
            return;
        }
        sim_hold_acquired(actor, tenure);
    } else if (pawl__request_spared(request)) {
        return; /* another of its party is to blame, and is judged */
    } else if (request->status == PAWL_BUSY) {
        if (now_us < request->wait_us) {
            wrong(actor, "before its patience was over");
        }
    } else if (request->status == PAWL_CANCELED) {
        if (actor->cancels == actor->handle->cancels) {
            wrong(actor, "but nobody had canceled it");
        }
    } else if (request->status == PAWL_LOST) {
        if (!has_lost(actor)) {
            wrong(actor, "but its owner had lost nothing");
        }
    } else if (request->status == PAWL_DEADLOCK) {
        if (actor->handle->terms.reentry && !actor->must_end && !would_write_reading(actor)) {
            wrong(actor, "although it may enter again");
        }
    } else if (!sim_fault_is_fair(actor) && !(held != NULL && !held->renew)) {
        wrong(actor, "without a reason"); /* to enter again, a fixed lease must be extended */
    } else if (request->status == PAWL_UNAVAILABLE && request->wait_us == PAWL__NEVER &&
               held == NULL && now_us < request->start_us + client->machine.give_up_us) {
        wrong(actor, "before it was time to give up");
    }
}

static void last_release_finished(struct sim_actor *actor)
{
    const struct sim_claim *claim = actor->claim;
    const struct pawl__request *request = &actor->request;
    struct sim_world *world = actor->client->world;
    int64_t now_us = sim_now(actor->client);
    if (request->status == PAWL_OK) {
        if (!claim->released && !claim->release_unknown) {
            wrong(actor, "but the backend never released it");
        }
        if (sim_backend_has(world, claim) && !claim->in_machine && !claim->excused) {
            wrong(actor, "but the backend still has it");
        }
    } else if (request->status == PAWL_LOST) {
        if (now_us < claim->deadline_us && !claim->taken) {
            wrong(actor, "but it was not lost");
        }
    } else if (!sim_fault_is_fair(actor)) {
        wrong(actor, "without a reason");
    }
}

static void downgrade_finished(struct sim_actor *actor)
{
    const struct sim_claim *claim = actor->claim;
    pawl_status status = actor->request.status;
    if (status == PAWL_OK) {
        if (!claim->closed && sim_backend_writes(actor->client->world, claim)) {
            wrong(actor, "but the backend does not let others read");
        }
    } else if (status == PAWL_LOST) {
        if (sim_now(actor->client) < claim->deadline_us && !claim->taken && !claim->owner_gone) {
            wrong(actor, "but it was not lost");
        }
    } else if (!sim_fault_is_fair(actor)) {
        wrong(actor, "without a reason");
    }
}

static void release_finished(struct sim_actor *actor)
{
    const struct sim_claim *claim = actor->claim;
    if (actor->downgrades && !actor->must_end) {
        downgrade_finished(actor);
    } else if (claim != NULL && !actor->must_end) {
        last_release_finished(actor);
    }
    bool told = claim == NULL || claim->told == 1 || claim->handle == NULL;
    if (actor->request.status == PAWL_LOST && !told) {
        wrong(actor, "but no notice says so, or more than one");
    }
}

static void extend_finished(struct sim_actor *actor)
{
    const struct pawl__request *request = &actor->request;
    const struct sim_claim *held = sim_held(actor->client, actor->handle->name, actor->who);
    if (request->status == PAWL_OK) {
        int64_t least_us = request->start_us + request->lease_us - drift(request->lease_us);
        if (held == NULL || held->tenure->deadline_us < least_us) {
            wrong(actor, "but the hold does not last that long");
        }
    } else if (request->status == PAWL_LOST) {
        if (!has_lost(actor)) {
            wrong(actor, "but it was not lost");
        }
    } else if (request->status == PAWL_NOT_HELD) {
        if (held != NULL && count_of(actor, held) > 0) {
            wrong(actor, "but it is held");
        }
    } else if (request->status != PAWL_INVALID && !sim_fault_is_fair(actor)) {
        wrong(actor, "without a reason");
    }
}

static void errand_finished(struct sim_actor *actor)
{
    bool answer = actor->request.status == PAWL_OK || (actor->request.status == PAWL_NOT_HELD &&
                                                          actor->request.kind == PAWL__WANT_BREAK);
    if (!answer && !sim_fault_is_fair(actor)) {
        wrong(actor, "without a reason");
    }
}

static bool lacks_memory(const struct sim_actor *actor)
{
    return actor->needs_memory && actor->request.status == PAWL_NO_MEMORY &&
           sim_fault_is_fair(actor);
}

void sim_request_finished(struct sim_actor *actor)
{
    struct sim_client *client = actor->client;
    const struct pawl__request *request = &actor->request;
    int64_t end_us = pawl__max64(sim_true(client, request->end_us), client->resumed_us);
    sim_hash(client->world, (uint64_t)request->status << 8 | actor->index);
    sim_say(client->world, client, "actor %u: %s name %u: %s", actor->index,
        sim_request_text(request->kind), actor->handle->name, pawl_status_string(request->status));
    if (request->kind == PAWL__WANT_RELEASE) {
        sim_claim_handed(client, actor->handle);
    }
    if (!actor->busy || !request->finished) {
        wrong(actor, "twice");
    }
    if (client->world->now_us > end_us) {
        wrong(actor, "later than it may");
    }
    if (actor->must_end && request->status != actor->expected && !lacks_memory(actor)) {
        wrong(actor, "against what its owner has");
    }
    switch (request->kind) {
    case PAWL__WANT_ACQUIRE:
        acquire_finished(actor);
        break;
    case PAWL__WANT_RELEASE:
        release_finished(actor);
        break;
    case PAWL__WANT_EXTEND:
        extend_finished(actor);
        break;
    case PAWL__WANT_INSPECT:
    case PAWL__WANT_BREAK:
    case PAWL__WANT_RAISE:
        errand_finished(actor);
        break;
    case PAWL__WANT_TALLY:
        sim_count_finished(actor);
        break;
    }
}
