/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of one machine: it does what core/client.c does in a real process. Each entry of the
 * machine stands between sim_client_begin() and sim_client_end(), which takes the outputs and has
 * everything checked.
 *
 * A paused client's events wait. When it goes on it finds them all at once, the clock far ahead,
 * and its timers overdue; whether it looks at its timers or at its mail first is a matter of
 * chance. */
#include "sim.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "core/machine_parts.h"
#include "core/tally.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define LEASE_LEAST_US 10000
#define LEASE_MOST_US 60000000
#define OWNERS_PER_LIFE 1000000

/* ===== Steps ===== */

void sim_client_begin(struct sim_client *client)
{
    client->world->in_machine = true;
    client->world->stepping = client;
}

static void take_operations(struct sim_client *client)
{
    struct pawl__machine *machine = &client->machine;
    struct pawl__op *op = machine->ops;
    machine->ops = NULL;
    machine->ops_end = &machine->ops;
    while (op != NULL) {
        struct pawl__op *next = op->next;
        sim_net_submit(client, op);
        op = next;
    }
}

static void take_wish_to_hear(struct sim_client *client)
{
    if (client->machine.hear) {
        client->machine.hear = false;
        sim_net_hear(client);
    }
}

static void take_notices(struct sim_client *client)
{
    struct sim_world *world = client->world;
    struct pawl__list *node;
    while ((node = pawl__list_pop(&client->machine.notices)) != NULL) {
        struct pawl__delivery *notice = PAWL__CONTAINER(node, struct pawl__delivery, node);
        sim_hold_notice(client, notice);
        int64_t at_us = world->now_us + sim_about(world, world->plan.delay_us);
        sim_event_at(world, at_us, SIM_EVENT_COURIER, client)->notice = notice;
    }
}

/* All are judged before the first of them goes on: they ended at once. */
static void take_finished(struct sim_client *client)
{
    struct pawl__list judged;
    struct pawl__list *node;
    pawl__list_init(&judged);
    while ((node = pawl__list_pop(&client->machine.finished)) != NULL) {
        struct pawl__request *request = PAWL__CONTAINER(node, struct pawl__request, node);
        if (sim_is_permit(request)) {
            sim_permit_told(request);
            continue;
        }
        struct sim_actor *actor = PAWL__CONTAINER(request, struct sim_actor, request);
        sim_request_finished(actor);
        pawl__free(request->error);
        request->error = NULL;
        pawl__list_push(&judged, node);
    }
    while ((node = pawl__list_pop(&judged)) != NULL) {
        struct pawl__request *request = PAWL__CONTAINER(node, struct pawl__request, node);
        sim_actor_finished(PAWL__CONTAINER(request, struct sim_actor, request));
    }
}

static void take_dead(struct sim_client *client)
{
    while (client->machine.dead != NULL) {
        struct pawl__name *name = client->machine.dead;
        client->machine.dead = name->next;
        pawl__name_free(name);
    }
}

static void arm_tick(struct sim_client *client)
{
    int64_t due_us = sim_true(client, pawl__machine_due(&client->machine));
    struct pawl__timer *timer = &client->tick->timer;
    due_us = pawl__max64(due_us, client->world->now_us);
    if (!timer->armed || timer->due_us != due_us) {
        pawl__timer_set(&client->world->queue, timer, due_us);
    }
}

void sim_client_end(struct sim_client *client)
{
    client->world->in_machine = false;
    client->world->stepping = NULL;
    client->step++;
    take_operations(client);
    take_wish_to_hear(client);
    take_notices(client);
    take_finished(client);
    take_dead(client);
    sim_holds_check(client);
    sim_requests_check(client);
    sim_orphans_check(client);
    sim_asks_check(client);
    sim_permits_check(client);
    arm_tick(client);
}

static void tick(struct sim_client *client)
{
    int64_t now_us = sim_now(client);
    if (pawl__machine_due(&client->machine) > now_us) {
        arm_tick(client);
        return;
    }
    sim_client_begin(client);
    pawl__machine_tick(&client->machine, now_us);
    sim_client_end(client);
    if (pawl__machine_due(&client->machine) <= now_us) {
        sim_fail(
            client->world, "O6", "client %u: a timer is due that was just served", client->index);
    }
}

static void wake(struct sim_client *client, unsigned name, uint64_t id)
{
    const struct pawl__place *place = &client->world->places[name];
    sim_say(client->world, client, "hears that name %u may be free for tenure %llu", name,
        (unsigned long long)id);
    sim_client_begin(client);
    pawl__machine_wake(&client->machine, place->name, place->name_size, id, sim_now(client));
    sim_client_end(client);
}

static void courier(struct sim_client *client, struct pawl__delivery *notice)
{
    sim_client_begin(client);
    pawl__machine_notice_done(&client->machine, notice, sim_now(client));
    sim_client_end(client);
}

static void handle(struct sim_client *client, struct sim_event *event)
{
    switch (event->kind) {
    case SIM_EVENT_SUBMIT:
        sim_net_send(client, event->call);
        break;
    case SIM_EVENT_REPLY:
        sim_net_reply(client, event->call);
        break;
    case SIM_EVENT_DEADLINE:
        sim_net_deadline(client, event->call);
        break;
    case SIM_EVENT_REFUSAL:
        sim_net_refusal(client, event->call);
        break;
    case SIM_EVENT_WAKE:
        wake(client, event->number, event->id);
        break;
    case SIM_EVENT_CUT:
        sim_net_cut_noticed(client, event->number);
        break;
    case SIM_EVENT_RECONNECT:
        sim_net_reconnect(client);
        break;
    case SIM_EVENT_PUSH_BACK:
        sim_net_push_back(client);
        break;
    case SIM_EVENT_TICK:
        tick(client);
        break;
    case SIM_EVENT_COURIER:
        courier(client, event->notice);
        break;
    case SIM_EVENT_ACTOR:
        client->actors[event->number].waiting_for_turn = false;
        sim_actor_act(&client->actors[event->number]);
        break;
    case SIM_EVENT_REQUEST:
    case SIM_EVENT_FAULT:
    case SIM_EVENT_BACKEND_UP:
    case SIM_EVENT_THAW:
    case SIM_EVENT_RESUME:
    case SIM_EVENT_REBIRTH:
        break; /* not the client's */
    }
}

/* Takes the event over. */
void sim_client_event(struct sim_client *client, struct sim_event *event)
{
    if (client->paused && event != client->tick) {
        event->next = NULL;
        *client->backlog_end = event;
        client->backlog_end = &event->next;
        return;
    }
    if (!client->paused) {
        handle(client, event);
    }
    if (event != client->tick) {
        sim_event_free(client->world, event);
    }
}

/* ===== Pauses ===== */

void sim_client_pause(struct sim_client *client, int64_t length_us)
{
    struct sim_world *world = client->world;
    client->paused = true;
    sim_event_at(world, world->now_us + length_us, SIM_EVENT_RESUME, client);
    sim_say(world, client, "stops for %.6f s", (double)length_us / 1e6);
}

static void clear_backlog(struct sim_client *client)
{
    client->backlog = NULL;
    client->backlog_end = &client->backlog;
}

void sim_client_resume(struct sim_client *client)
{
    struct sim_world *world = client->world;
    struct sim_event *event = client->backlog;
    client->paused = false;
    client->resumed_us = world->now_us;
    client->trouble_us = pawl__max64(client->trouble_us, world->now_us);
    clear_backlog(client);
    sim_say(world, client, "goes on");
    if (sim_draw(world, 2) > 0) {
        tick(client);
    }
    while (event != NULL) {
        struct sim_event *next = event->next;
        sim_event_push(world, event, world->now_us);
        event = next;
    }
    pawl__timer_clear(&world->queue, &client->tick->timer);
    arm_tick(client);
}

/* ===== Birth and death ===== */

static const struct pawl__engine remote = {
    .name = "simulated",
    .place_size = sizeof(struct pawl__place),
    .expires = true,
    .passes = true,
};

static const struct pawl__engine joining = {
    .name = "simulated",
    .place_size = sizeof(struct pawl__place),
    .expires = true,
    .passes = true,
    .joins = SIM_JOINS,
};

static const struct pawl__engine session = {
    .name = "simulated session",
    .place_size = sizeof(struct pawl__place),
    .sessions = true,
};

/* It wakes a caller that sleeps: there must be one. */
static void nudge(struct pawl__request *request)
{
    const struct sim_actor *actor = PAWL__CONTAINER(request, struct sim_actor, request);
    if (!actor->busy || request->finished) {
        sim_fail(actor->client->world, "O6", "a nudge for a request that is not under way");
    }
}

static void start_machine(struct sim_client *client)
{
    const struct sim_plan *plan = &client->world->plan;
    struct pawl__machine *machine = &client->machine;
    memset(machine, 0, sizeof *machine);
    machine->engine = plan->session ? &session : plan->joins ? &joining : &remote;
    machine->timeout_us = plan->timeout_us;
    machine->give_up_us = plan->give_up_us;
    machine->nudge = nudge;
    machine->motions_kept = (unsigned)(plan->seed % 3); /* none: holds have to wait for memory */
    machine->renewals_least = (unsigned)(plan->seed / 3 % 3); /* few: holds wait in line */
    pawl__random_seed(&machine->random, plan->seed * 1000 + client->index * 100 + client->life);
    if (!pawl__machine_init(machine)) {
        sim_fail(client->world, "simulator", "no memory");
    }
}

void sim_client_start(struct sim_client *client)
{
    struct sim_world *world = client->world;
    snprintf(client->uuid, sizeof client->uuid, "%08x-0000-4000-8000-%012x", client->index,
        client->life);
    pawl__memory_join(&client->peer, client->uuid);
    start_machine(client);
    client->alive = true;
    client->online = true;
    client->wired = true;
    client->paused = false;
    client->shutting = false;
    client->trouble_us = world->now_us;
    client->next_owner = 1 + client->life * (uint64_t)OWNERS_PER_LIFE;
    client->claim_count = 0;
    client->open_count = 0;
    client->held_count = 0;
    client->request_clear_us = 0;
    client->reply_clear_us = 0;
    client->ear_count = 0;
    memset(client->subscribed, 0, sizeof client->subscribed);
    memset(client->handles, 0, sizeof client->handles);
    memset(client->turns, 0, sizeof client->turns);
    for (int name = 0; name < SIM_NAMES_MAX; name++) {
        client->watching_us[name] = PAWL__NEVER;
        client->wanting_us[name] = PAWL__NEVER;
    }
    pawl__list_init(&client->calls);
    clear_backlog(client);
    client->tick = sim_event_at(world, PAWL__NEVER, SIM_EVENT_TICK, client);
    for (unsigned i = 0; i < world->plan.handles; i++) {
        sim_client_open_handle(client, &client->handles[i]);
    }
    sim_actors_start(client);
}

static void free_tenures(struct pawl__machine *machine, struct pawl__list *tenures)
{
    struct pawl__list *node;
    while ((node = pawl__list_pop(tenures)) != NULL) {
        struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, all);
        pawl__motion_end(machine, tenure);
        pawl__free(tenure);
    }
}

/* What a handle that is closed, or gone with its process, has left. */
void sim_client_drop_extra(struct sim_handle *handle)
{
    pawl__free(handle->handle.extra);
    handle->handle.extra = NULL;
}

/* The memory of a process that was killed: nobody runs, all is just gone. */
void sim_client_free(struct sim_client *client)
{
    struct pawl__machine *machine = &client->machine;
    sim_permits_free(client);
    for (unsigned i = 0; i < client->world->plan.handles; i++) {
        sim_client_drop_extra(&client->handles[i]);
    }
    pawl__tally_abolish(machine);
    pawl__ear_abolish(machine);
    free_tenures(machine, &machine->tenures);
    free_tenures(machine, &machine->ended);
    struct pawl__map_node *node;
    while ((node = pawl__map_next(&machine->names, NULL)) != NULL) {
        pawl__map_remove(&machine->names, node);
        pawl__name_free(PAWL__CONTAINER(node, struct pawl__name, node));
    }
    pawl__machine_fini(machine);
    while (client->backlog != NULL) {
        struct sim_event *event = client->backlog;
        client->backlog = event->next;
        sim_event_free(client->world, event);
    }
    sim_event_cancel(client->world, client->tick);
    client->alive = false;
}

/* The process is gone, one way or the other. Another one takes its place. */
static void leave_world(struct sim_client *client)
{
    struct sim_world *world = client->world;
    while (client->held_count > 0) {
        sim_hold_drop(client->held[0]);
    }
    for (size_t i = 0; i < client->claim_count; i++) {
        struct sim_claim *claim = client->claims[i];
        for (; claim != NULL; claim = claim->giver) {
            claim->in_machine = false;
            sim_claim_close(claim);
        }
    }
    sim_asks_die(client);
    client->last_connection = client->connection;
    sim_net_forget_client(client);
    if (world->plan.session) {
        sim_backend_bury(client);
    }
    sim_client_free(client);
    client->life++;
    int64_t at_us = world->now_us + sim_about(world, world->plan.lease_us / 2);
    sim_event_at(world, at_us, SIM_EVENT_REBIRTH, client);
}

void sim_client_crash(struct sim_client *client)
{
    sim_say(client->world, client, "is killed");
    leave_world(client);
}

/* The end of pawl_client_close(): what could not be drained is left to its lease. */
void sim_client_shut(struct sim_client *client)
{
    sim_say(client->world, client, "is closed");
    sim_net_stop(client);
    if (client->machine.pending > 0) {
        sim_fail(client->world, "O7", "client %u has ended operations under way", client->index);
    }
    pawl__machine_abolish(&client->machine);
    take_dead(client);
    leave_world(client);
}

/* ===== Handles ===== */

/* Of a read/write lock, the first and the third handle are one for each, so that most threads find
 * both; or, where each name has one handle, some clients read and others write. A team and its
 * twins have one for each. */
static pawl_kind kind_of(const struct sim_client *client, unsigned name, unsigned slot)
{
    const struct sim_world *world = client->world;
    const uint64_t turn = world->plan.joins ? client->index : 0;
    const bool first = world->plan.twins ? slot != 1 : slot == 0 || slot == 3;
    bool odd = ((world->plan.seed >> name ^ turn) & 1) != 0;
    switch ((int)world->plan.families[name]) {
    case PAWL__FAMILY_FAIR:
        return PAWL_FAIR;
    case PAWL__FAMILY_SHARED:
        return first == odd ? PAWL_READ : PAWL_WRITE;
    case PAWL__FAMILY_SPIN:
        return PAWL_SPIN;
    case PAWL__FAMILY_PLAIN:
        return PAWL_PLAIN;
    default:
        return PAWL_MUTEX;
    }
}

static void draw_options(struct sim_client *client, struct sim_handle *handle)
{
    struct sim_world *world = client->world;
    struct pawl__terms *options = &handle->terms;
    int64_t lease_us = world->plan.lease_us << sim_draw(world, 3);
    lease_us >>= sim_draw(world, 3); /* one after the other, whatever the compiler */
    options->lease_us = pawl__min64(pawl__max64(lease_us, LEASE_LEAST_US), LEASE_MOST_US);
    options->renew = sim_draw(world, 3) > 0;
    options->reentry = sim_draw(world, 2) > 0;
    options->unawaited = sim_draw(world, 6) == 0;
    options->warn_us = options->lease_us / (int64_t)(1 + sim_draw(world, 6));
    if (sim_draw(world, 5) == 0) {
        options->max_hold_us = LEASE_LEAST_US + options->lease_us / 2;
        options->max_hold_us += sim_about(world, options->lease_us);
    }
    if (handle->is_owner) {
        handle->handle.owner = world->plan.twins ? (client->life + 1) * (uint64_t)OWNERS_PER_LIFE
                                                 : client->next_owner++;
    }
    if (world->plan.handoff && options->kind == PAWL_MUTEX && sim_draw(world, 3) > 0) {
        options->handoff = 1 + (unsigned)sim_draw(world, 8);
    }
    if (world->plan.fair) {
        handle->handle.owner = 0;
        *options = (struct pawl__terms){.kind = options->kind,
            .handoff = world->plan.handoff ? 64 : 0,
            .renew = true,
            .lease_us = world->plan.lease_us,
            .warn_us = world->plan.lease_us / 3};
    }
}

/* What it is for follows from its place, so that an owner always finds another one to release
 * through. Without memory it stays closed; somebody will try again. */
void sim_client_open_handle(struct sim_client *client, struct sim_handle *handle)
{
    struct sim_world *world = client->world;
    unsigned index = (unsigned)(handle - client->handles);
    memset(handle, 0, sizeof *handle);
    handle->name = index % world->plan.names;
    const unsigned slot = index / world->plan.names;
    handle->is_owner = slot == 1 || (slot == 2 && world->plan.twins);
    handle->handle.terms = &handle->terms;
    handle->terms.kind = kind_of(client, handle->name, slot);
    draw_options(client, handle);
    const struct pawl__place *place = &world->places[handle->name];
    bool fresh;
    sim_client_begin(client);
    struct pawl__name *name =
        pawl__machine_name(&client->machine, place->name, place->name_size, place->family, &fresh);
    world->in_machine = false;
    if (name != NULL) {
        pawl__handle_attach(&handle->handle, name);
        handle->open = true;
        if (place->family == PAWL__FAMILY_PERMITS && handle->terms.renew) {
            handle->leases.lease_us = handle->terms.lease_us;
            pawl__handle_extra(&handle->handle); /* nothing fails outside the machine */
            const bool begun =
                pawl__leases_begin(&client->machine, &handle->handle, &handle->leases);
            assert(begun);
            (void)begun;
        }
    }
}

/* Whether nothing is left of all that was: no operation, no tenure, no name, no timer. */
bool sim_client_is_quiet(const struct sim_client *client)
{
    const struct pawl__machine *machine = &client->machine;
    return machine->pending == 0 && pawl__list_empty(&machine->tenures) &&
           pawl__list_empty(&machine->ended) && machine->names.count == 0 &&
           pawl__list_empty(&machine->tallies) && pawl__list_empty(&machine->leases) &&
           pawl__machine_due(machine) == PAWL__NEVER;
}
