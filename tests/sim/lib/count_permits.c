/* SPDX-License-Identifier: Apache-2.0 */
/* Leased permits of callers (oracle C4). As long as a permit counts as surely out by the clock of
 * whoever has it, its lease in the backend must not be over, whatever was lost or late on the way;
 * a loss is told once, not before it is true, and there is a timer for it. */
#include "sim.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <string.h>

static void mark(struct pawl__request *request)
{
    (void)request;
}

bool sim_is_permit(const struct pawl__request *request)
{
    return request->hook == mark;
}

static struct pawl__leases *leases_of(const struct sim_permit *permit)
{
    const struct sim_handle *handle = permit->handle;
    return handle->open ? pawl__handle_leases(&handle->handle) : NULL;
}

/* ===== Taking ===== */

static void new_id(struct sim_actor *actor, struct pawl__permit_id *id)
{
    struct sim_client *client = actor->client;
    const uint64_t words[2] = {
        (uint64_t)client->index << 32 | client->life, ++client->world->permits};
    memcpy(id->bytes, words, sizeof id->bytes);
}

void sim_permits_prepare(struct sim_actor *actor, struct sim_handle *handle, int64_t count)
{
    struct sim_stake *stake = &actor->stake;
    pawl__list_init(&stake->prepared);
    for (int64_t i = 0; i < count; i++) {
        struct sim_permit *permit = &stake->permits[i];
        memset(permit, 0, sizeof *permit);
        permit->actor = actor;
        permit->handle = handle;
        permit->renewed = pawl__handle_leases(&handle->handle) != NULL;
        new_id(actor, &permit->id);
        stake->ids[i] = permit->id;
        if (permit->renewed) {
            struct pawl__permit *kept = pawl__alloc(sizeof *kept);
            kept->id = permit->id;
            kept->lost = &permit->lost;
            permit->lost.kind = PAWL__WANT_TALLY;
            permit->lost.handle = &handle->handle;
            permit->lost.hook = mark;
            pawl__list_init(&permit->lost.node);
            pawl__list_push(&stake->prepared, &kept->node);
        }
    }
}

static void free_list(struct pawl__list *permits)
{
    struct pawl__list *node;
    while (permits->next != NULL && (node = pawl__list_pop(permits)) != NULL) {
        pawl__free(PAWL__CONTAINER(node, struct pawl__permit, node));
    }
}

/* The call has ended: what was not handed over is not needed. */
void sim_permits_settle(struct sim_actor *actor)
{
    free_list(&actor->stake.prepared);
}

static bool is_valid(const struct sim_permit *permit)
{
    struct pawl__leases *leases = leases_of(permit);
    return permit->renewed && !permit->taken && !permit->released && leases != NULL &&
           pawl__leases_deadline(leases, &permit->id) > sim_now(permit->actor->client);
}

/* How many permits of a name are surely out, as those think who have them. */
static int64_t count_valid(const struct sim_world *world, unsigned name)
{
    int64_t count = 0;
    for (unsigned i = 0; i < world->plan.clients; i++) {
        const struct sim_client *client = &world->clients[i];
        for (unsigned k = 0; client->alive && k <= world->plan.actors; k++) {
            const struct sim_stake *stake = &client->actors[k].stake;
            for (unsigned j = 0; stake->name == name && j < stake->permit_count; j++) {
                count += is_valid(&stake->permits[j]);
            }
        }
    }
    return count;
}

void sim_permits_granted(struct sim_actor *actor)
{
    struct sim_world *world = actor->client->world;
    struct sim_stake *stake = &actor->stake;
    const struct sim_count *count = &world->counts[stake->name];
    int64_t ends_us;
    stake->permit_count = (unsigned)actor->request.amount;
    stake->epoch = count->epoch;
    for (unsigned i = 0; i < stake->permit_count; i++) {
        struct sim_permit *permit = &stake->permits[i];
        permit->taken =
            stake->ask->epoch != count->epoch || count->jumped_us >= stake->ask->first_us;
        if (!permit->taken && !sim_count_has(world, stake->name, &permit->id, &ends_us)) {
            sim_fail(world, "C4", "name %u: client %u was given a permit that is not out",
                stake->name, actor->client->index);
        }
    }
    const int64_t valid = count_valid(world, stake->name);
    if (valid > count->issued) {
        sim_fail(world, "C1", "name %u: %lld leased permits are out of %lld", stake->name,
            (long long)valid, (long long)count->issued);
    }
}

/* ===== Keeping and losing ===== */

/* A clock that jumps, or a backend that forgets, ends leases that somebody relies on. */
void sim_permits_taken(struct sim_world *world, unsigned name)
{
    for (unsigned i = 0; i < world->plan.clients; i++) {
        for (unsigned k = 0; k <= world->plan.actors; k++) {
            struct sim_stake *stake = &world->clients[i].actors[k].stake;
            for (unsigned j = 0; stake->name == name && j < stake->permit_count; j++) {
                stake->permits[j].taken = true;
            }
        }
    }
}

static void check_one(const struct sim_permit *permit)
{
    const struct sim_client *client = permit->actor->client;
    struct sim_world *world = client->world;
    struct pawl__leases *leases = leases_of(permit);
    const unsigned name = permit->actor->stake.name;
    int64_t ends_us = 0;
    if (!permit->renewed || permit->told || permit->released || leases == NULL) {
        return;
    }
    const int64_t deadline_us = pawl__leases_deadline(leases, &permit->id);
    if (deadline_us == 0) {
        sim_fail(world, "C4", "name %u: client %u lost a permit, and nobody was told", name,
            client->index);
        return;
    }
    if (pawl__machine_due(&client->machine) > deadline_us) {
        sim_fail(world, "C4", "name %u: client %u has no timer for the end of a permit", name,
            client->index);
    }
    if (permit->taken || deadline_us <= sim_now(client)) {
        return;
    }
    const bool out = sim_count_has(world, name, &permit->id, &ends_us);
    if (!out || sim_true(client, deadline_us) + world->table_shift_us > ends_us) {
        sim_fail(world, "C4", "name %u: client %u relies on a permit that is not out%s", name,
            client->index, out ? " for so long" : "");
    }
}

void sim_permits_check(struct sim_client *client)
{
    for (unsigned i = 0; i <= client->world->plan.actors; i++) {
        const struct sim_stake *stake = &client->actors[i].stake;
        for (unsigned k = 0; k < stake->permit_count; k++) {
            check_one(&stake->permits[k]);
        }
    }
}

void sim_permit_told(struct pawl__request *request)
{
    struct sim_permit *permit = PAWL__CONTAINER(request, struct sim_permit, lost);
    struct sim_client *client = permit->actor->client;
    struct sim_world *world = client->world;
    const unsigned name = permit->actor->stake.name;
    int64_t ends_us;
    if (permit->told) {
        sim_fail(world, "C4", "name %u: client %u was told twice of a permit", name, client->index);
    }
    permit->told = true;
    if (request->status != PAWL_LOST) {
        permit->released = true; /* its handle or its client is closed */
        return;
    }
    world->stats.permits_lost++;
    const bool proof = request->lost.why == PAWL__LOSS_PROOF;
    if (proof && !permit->released && !permit->taken &&
        sim_count_has(world, name, &permit->id, &ends_us)) {
        sim_fail(world, "C4", "name %u: client %u was told that a permit is lost which is out",
            name, client->index);
    }
}

/* ===== Giving back ===== */

static void drop(struct sim_client *client, struct pawl__leases *leases,
    const struct pawl__permit_id *ids, size_t count, struct pawl__list *dropped)
{
    pawl__list_init(dropped);
    pawl__leases_drop(&client->machine, leases, ids, count, dropped);
}

/* Its caller gives back what it has, by their ids. */
void sim_permits_release(struct sim_actor *actor)
{
    struct sim_stake *stake = &actor->stake;
    for (unsigned i = 0; i < stake->permit_count; i++) {
        struct sim_permit *permit = &stake->permits[i];
        struct pawl__leases *leases = leases_of(permit);
        struct pawl__list dropped;
        stake->ids[i] = permit->id;
        if (leases != NULL && permit->renewed) {
            drop(actor->client, leases, &permit->id, 1, &dropped);
            free_list(&dropped);
        }
        permit->released = true;
    }
}

/* A handle is closed: its permits, whoever has them, into the ids of the actor that closes it. */
size_t sim_permits_drop_all(struct sim_actor *actor, struct sim_handle *handle)
{
    struct sim_client *client = actor->client;
    struct pawl__list dropped;
    size_t count = 0;
    if (pawl__handle_leases(&handle->handle) == NULL) {
        return 0;
    }
    drop(client, &handle->leases, NULL, SIM_IDS_MAX, &dropped);
    for (struct pawl__list *node = dropped.next; node != &dropped; node = node->next) {
        struct pawl__permit *permit = PAWL__CONTAINER(node, struct pawl__permit, node);
        PAWL__CONTAINER(permit->lost, struct sim_permit, lost)->released = true;
        actor->stake.ids[count++] = permit->id;
    }
    free_list(&dropped);
    return count;
}

void sim_permits_free(struct sim_client *client)
{
    for (unsigned i = 0; i < client->world->plan.handles; i++) {
        struct sim_handle *handle = &client->handles[i];
        if (handle->open && pawl__handle_leases(&handle->handle) != NULL) {
            free_list(&handle->leases.resting);
            free_list(&handle->leases.due);
            free_list(&handle->leases.asked);
            pawl__leases_free(&handle->handle);
        }
    }
    for (unsigned i = 0; i <= client->world->plan.actors; i++) {
        free_list(&client->actors[i].stake.prepared);
    }
}
