/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of each tenure, beside what the machine says: made when the machine first speaks of
 * it. A hold that is handed off goes on in the backend under its number, so the claims of one
 * number are a chain, from the last that had it to the one that asked for it. */
#include "sim.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

void sim_claim_list(struct sim_claim ***list, size_t *count, size_t *room, struct sim_claim *claim)
{
    if (*count == *room) {
        *room = *room == 0 ? 16 : *room * 2;
        *list = realloc(*list, *room * sizeof **list);
        if (*list == NULL) {
            abort();
        }
    }
    (*list)[(*count)++] = claim;
}

struct sim_claim *sim_claim_of(const struct sim_client *client, const struct pawl__tenure *tenure)
{
    bool known = tenure->id > 0 && tenure->id <= client->claim_count;
    struct sim_claim *claim = known ? client->claims[tenure->id - 1] : NULL;
    while (claim != NULL && claim->handed != tenure->handed) {
        claim = claim->giver;
    }
    return claim;
}

/* ===== Making ===== */

static struct sim_claim *claim_new(
    struct sim_client *client, const struct pawl__tenure *tenure, unsigned name)
{
    struct sim_claim *claim = calloc(1, sizeof *claim);
    if (claim == NULL) {
        abort();
    }
    claim->next = client->world->claims;
    client->world->claims = claim;
    claim->client = client;
    claim->life = client->life;
    memcpy(claim->uuid, client->uuid, sizeof claim->uuid);
    claim->id = tenure->id;
    claim->handed = tenure->handed;
    claim->owner = tenure->owner;
    claim->name = name;
    claim->lease_us = tenure->lease_us;
    claim->handle = tenure->handle;
    claim->limit_us = tenure->handle != NULL ? tenure->handle->terms->max_hold_us : 0;
    claim->renew = tenure->renew;
    claim->kind = tenure->kind;
    claim->reads = tenure->kind == PAWL_READ;
    claim->granted_us = -1;
    claim->downgraded_us = -1;
    claim->in_machine = true;
    return claim;
}

/* What the backend has given to the giver is the heir's now. */
static void inherit(struct sim_claim *claim, struct sim_claim *giver)
{
    struct sim_world *world = claim->client->world;
    if (giver == NULL || !giver->closed || giver->granted_us < 0 || giver->lost) {
        sim_fail(world, "O1", "tenure %llu was handed off by nobody who had it",
            (unsigned long long)claim->id);
        return;
    }
    claim->giver = giver;
    claim->first_us = giver->first_us;
    claim->granted_us = giver->granted_us;
    claim->copy_end_us = giver->copy_end_us;
    claim->lengthened_us = giver->lengthened_us;
    claim->taken = giver->taken;
    claim->excused = giver->excused;
    claim->told_token = giver->told_token + 1;
    claim->token_end = giver->token_end;
    claim->best_us = giver->best_us;
    giver->released = true;
    world->stats.handed++;
    sim_backend_handed(world, claim);
    sim_fair_handed(world, claim);
    sim_say(world, claim->client, "tenure %llu is handed off, token %llu",
        (unsigned long long)claim->id, (unsigned long long)claim->told_token);
}

struct sim_claim *sim_claim_open(
    struct sim_client *client, const struct pawl__tenure *tenure, unsigned name)
{
    struct sim_claim *claim = sim_claim_of(client, tenure);
    if (claim == NULL) {
        while (client->claim_count < tenure->id) {
            sim_claim_list(&client->claims, &client->claim_count, &client->claim_room, NULL);
        }
        claim = claim_new(client, tenure, name);
        if (tenure->handed > 0) {
            inherit(claim, client->claims[tenure->id - 1]);
        }
        client->claims[tenure->id - 1] = claim;
        sim_claim_list(&client->open, &client->open_count, &client->open_room, claim);
    }
    if (tenure->request != NULL && tenure->request->kind == PAWL__WANT_ACQUIRE) {
        claim->joint = pawl__request_party(tenure->request) != NULL;
        PAWL__CONTAINER(tenure->request, struct sim_actor, request)->claim = claim;
    }
    return claim;
}

/* A release through this handle has ended: perhaps another caller here has the hold now. */
void sim_claim_handed(struct sim_client *client, const struct sim_handle *handle)
{
    const struct pawl__tenure *active = handle->handle.name->active;
    if (active != NULL && active->handed > 0) {
        sim_claim_open(client, active, handle->name);
    }
}

/* ===== Ending ===== */

/* Whoever opened the handle hears no more. */
void sim_claims_forget_handle(struct sim_client *client, const struct sim_handle *closed)
{
    const struct pawl__handle *handle = &closed->handle;
    unsigned bit = 1U << (closed - client->handles);
    for (size_t i = 0; i < client->open_count; i++) {
        struct sim_claim *claim = client->open[i];
        claim->through &= ~bit;
        if (claim->handle != handle) {
            continue;
        }
        unsigned reads = claim->read_count;
        unsigned count = handle->terms->kind == PAWL_READ ? reads : claim->count - reads;
        if (claim->first_count > 0 && count > 0) {
            sim_fail(client->world, "O6", "tenure %llu of client %u is held, and its handle closed",
                (unsigned long long)claim->id, client->index);
        }
        claim->handle = NULL;
    }
}

void sim_claim_close(struct sim_claim *claim)
{
    if (!claim->closed) {
        claim->closed = true;
        claim->closed_us = claim->client->world->now_us;
    }
}
