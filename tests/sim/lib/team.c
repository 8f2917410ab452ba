/* SPDX-License-Identifier: Apache-2.0 */
/* Several locks at once, in runs from seed SIM_MULTI_SEEDS on. What a multi-lock asks next is
 * decided by compound/multi_plan.c, which knows no clock and no threads; here a team of actors, one
 * for each name and all of them one owner, asks it, as multi_call.c does for its caller.
 *
 * Each member is a hold like any other and is judged as such; that two teams never wait for each
 * other is O7. In addition it is all or none (oracle M1): an acquire that has failed has left
 * nothing held, and one that went well has left all.
 *
 * In some runs the first team has twins: actors that are the same owner and ask for one name at a
 * time, through the team's handle or one of another kind. What they have does not count as the
 * team's. */
#include "sim.h"

#include "base/clock.h"
#include "compound/multi.h"

#include <stdlib.h>
#include <string.h>

/* Which team an actor is in; NULL: it works alone. */
static struct sim_team *team_of(const struct sim_actor *actor)
{
    const struct sim_plan *plan = &actor->client->world->plan;
    const unsigned team = actor->index / SIM_NAMES_MAX;
    return team < plan->teams ? &actor->client->teams[team] : NULL;
}

static bool is_twin(const struct sim_actor *actor)
{
    const struct sim_plan *plan = &actor->client->world->plan;
    const unsigned before = plan->teams * SIM_NAMES_MAX;
    return plan->twins && actor->index >= before && (actor->index - before) % 2 == 0;
}

bool sim_in_team(const struct sim_actor *actor)
{
    return team_of(actor) != NULL || is_twin(actor);
}

static struct sim_actor *hand(const struct sim_team *team, unsigned name)
{
    struct sim_client *client = team->client;
    const size_t number = (size_t)(team - client->teams);
    return &client->actors[number * SIM_NAMES_MAX + name];
}

static bool has_twins(const struct sim_team *team)
{
    return team->client->world->plan.twins && team == team->client->teams;
}

static struct sim_handle *handle_of(const struct sim_team *team, unsigned name)
{
    return &team->client->handles[(has_twins(team) ? SIM_NAMES_MAX : 0) + name];
}

void sim_teams_start(struct sim_client *client)
{
    for (unsigned i = 0; i < client->world->plan.teams; i++) {
        struct sim_team *team = &client->teams[i];
        struct pawl__multi_call *call = team->call;
        *team = (struct sim_team){.client = client, .call = call};
        if (team->call == NULL) {
            team->call = malloc(sizeof *call + SIM_NAMES_MAX * sizeof call->slots[0]);
        }
        if (team->call == NULL) {
            abort();
        }
        team->owner = has_twins(team) ? handle_of(team, 0)->handle.owner : hand(team, 0)->owner;
        for (unsigned name = 0; name < SIM_NAMES_MAX; name++) {
            hand(team, name)->who = team->owner;
        }
    }
}

void sim_teams_free(struct sim_client *client)
{
    for (unsigned i = 0; i < SIM_TEAMS_MAX; i++) {
        free(client->teams[i].call);
        client->teams[i].call = NULL;
    }
}

/* ===== Judging ===== */

static bool has_acquired(const struct sim_actor *actor)
{
    const struct pawl__request *request = &actor->request;
    return request->kind == PAWL__WANT_ACQUIRE && request->finished && request->status == PAWL_OK;
}

/* Some may have been granted theirs in this very moment. */
static unsigned twins_holding(const struct sim_team *team, unsigned name)
{
    const struct sim_client *client = team->client;
    unsigned count = 0;
    for (unsigned i = 0; has_twins(team) && i < client->world->plan.actors; i++) {
        const struct sim_actor *actor = &client->actors[i];
        count += is_twin(actor) && (actor->holds || (actor->busy && has_acquired(actor))) &&
                 actor->handle->name == name;
    }
    return count;
}

static void check_all_or_none(const struct sim_team *team, bool all)
{
    struct sim_client *client = team->client;
    for (unsigned name = 0; name < SIM_NAMES_MAX; name++) {
        const struct sim_claim *claim = sim_held(client, name, team->owner);
        const unsigned count = claim != NULL ? claim->count : 0;
        const bool held = count > twins_holding(team, name);
        if (held != all) {
            sim_fail(client->world, "M1", "client %u: of several locks, name %u is%s held",
                client->index, name, held ? "" : " not");
        }
    }
}

/* What took long to get may have lost its beginning meanwhile. */
static bool is_valid(const struct sim_team *team, size_t *lost_out)
{
    for (unsigned name = 0; name < SIM_NAMES_MAX; name++) {
        const struct sim_claim *claim = sim_held(team->client, name, team->owner);
        if (claim != NULL && (claim->lost || claim->tenure->deadline_us <= sim_now(team->client))) {
            *lost_out = name;
            return false;
        }
    }
    return true;
}

/* ===== Asking together ===== */

/* Whether the engine gives this name together with others. */
static bool joins(const struct sim_plan *plan, unsigned name)
{
    return (plan->joins & PAWL__FAMILY_BIT(plan->families[name])) != 0;
}

static void form_party(struct sim_team *team)
{
    const struct pawl__multi_call *call = team->call;
    size_t count = 0;
    for (unsigned name = 0; name < SIM_NAMES_MAX && !call->apart; name++) {
        const bool queues = team->client->world->plan.families[name] == PAWL__FAMILY_FAIR;
        if (call->slots[name].asked && call->ask == PAWL__WANT_ACQUIRE &&
            joins(&team->client->world->plan, name) &&
            (!queues || call->stage == PAWL__MULTI_WHOLE)) {
            team->together[count++] = &hand(team, name)->request;
        }
    }
    team->party = (struct pawl__party){.requests = team->together, .count = count};
}

struct pawl__party *sim_team_party(struct sim_actor *actor)
{
    struct sim_team *team = team_of(actor);
    for (size_t i = 0; team != NULL && team->busy && i < team->party.count; i++) {
        if (team->together[i] == &actor->request && team->party.count > 1) {
            return &team->party;
        }
    }
    return NULL;
}

/* ===== Rounds ===== */

static bool next_round(struct sim_team *team)
{
    struct pawl__multi_call *call = team->call;
    size_t lost = 0;
    if (pawl__multi_next(call, sim_now(team->client))) {
        return true;
    }
    if (call->kind == PAWL__WANT_ACQUIRE && call->status == PAWL_OK && !is_valid(team, &lost)) {
        pawl__multi_fail_lost(call, lost, "");
        return true;
    }
    return false;
}

static void conclude(struct sim_team *team)
{
    struct sim_world *world = team->client->world;
    const bool acquired = team->call->kind == PAWL__WANT_ACQUIRE && team->call->status == PAWL_OK;
    team->busy = false;
    team->holds = acquired;
    world->stats.several += acquired;
    sim_say(world, team->client, "several locks: %s %s", sim_request_text(team->call->kind),
        pawl_status_string(team->call->status));
    check_all_or_none(team, acquired);
    sim_actor_later(
        hand(team, 0), sim_about(world, acquired ? world->plan.hold_us : world->plan.think_us));
}

/* Those that were marked ask, all at once; some of them may be answered before the last has asked.
 */
static void ask(struct sim_team *team)
{
    const struct pawl__multi_call *call = team->call;
    bool asked[SIM_NAMES_MAX];
    form_party(team);
    team->pending = 1; /* until all have asked */
    for (unsigned name = 0; name < SIM_NAMES_MAX; name++) {
        asked[name] = call->slots[name].asked;
        team->pending += asked[name];
    }
    for (unsigned name = 0; name < SIM_NAMES_MAX; name++) {
        if (asked[name]) {
            sim_actor_start(hand(team, name), handle_of(team, name), call->ask, call->ask_wait_us);
        }
    }
    team->pending--;
}

static void go_on(struct sim_team *team)
{
    while (team->pending == 0) {
        if (!next_round(team)) {
            conclude(team);
            return;
        }
        ask(team);
    }
}

static void begin(struct sim_team *team, enum pawl__request_kind kind, int64_t wait_us)
{
    const struct sim_plan *plan = &team->client->world->plan;
    struct pawl__multi_call *call = team->call;
    memset(call, 0, sizeof *call + SIM_NAMES_MAX * sizeof call->slots[0]);
    call->kind = kind;
    call->count = SIM_NAMES_MAX;
    call->whole = true;
    for (unsigned name = 0; name < SIM_NAMES_MAX; name++) {
        call->whole = call->whole && joins(plan, name);
        call->queues = call->queues || plan->families[name] == PAWL__FAMILY_FAIR;
    }
    call->culprit = SIM_NAMES_MAX;
    call->error_slot = SIM_NAMES_MAX;
    call->until_us = pawl__later(sim_now(team->client), wait_us);
    team->busy = true;
    team->pending = 0;
    go_on(team);
}

/* Without memory a handle stays closed for a while. */
static bool can_ask(const struct sim_team *team)
{
    bool can = true;
    for (unsigned name = 0; name < SIM_NAMES_MAX; name++) {
        can = can && handle_of(team, name)->open;
    }
    return can;
}

/* ===== Twins ===== */

static void twin_act(struct sim_actor *actor)
{
    struct sim_client *client = actor->client;
    struct sim_world *world = client->world;
    if (actor->holds) {
        actor->holds = false;
        sim_actor_start(actor, actor->handle, PAWL__WANT_RELEASE, 0);
        return;
    }
    if (world->healing) {
        return;
    }
    const size_t drawn = SIM_NAMES_MAX + sim_draw(world, 2 * SIM_NAMES_MAX);
    struct sim_handle *handle = &client->handles[drawn];
    if (!handle->open) {
        sim_actor_later(actor, sim_about(world, world->plan.think_us) + 100);
        return;
    }
    actor->who = client->teams[0].owner;
    sim_actor_start(actor, handle, PAWL__WANT_ACQUIRE,
        sim_draw(world, 3) == 0 ? 0 : 1 + sim_about(world, world->plan.lease_us));
}

static void twin_finished(struct sim_actor *actor)
{
    const struct sim_plan *plan = &actor->client->world->plan;
    actor->holds = has_acquired(actor);
    sim_actor_later(
        actor, sim_about(actor->client->world, actor->holds ? plan->hold_us : plan->think_us));
}

/* ===== What the actors call ===== */

/* The first hand decides for all. */
void sim_team_act(struct sim_actor *actor)
{
    struct sim_team *team = team_of(actor);
    struct sim_world *world = actor->client->world;
    if (is_twin(actor)) {
        twin_act(actor);
        return;
    }
    if (actor != hand(team, 0) || team->busy) {
        return;
    }
    const uint64_t dice = sim_draw(world, 10);
    if (!can_ask(team)) {
        sim_actor_later(actor, sim_about(world, world->plan.think_us) + 100);
    } else if (team->holds) {
        begin(team, PAWL__WANT_RELEASE, 0);
    } else if (!world->healing) {
        const int64_t wait_us = dice < 3   ? 0
                                : dice < 7 ? 1 + sim_about(world, world->plan.lease_us)
                                           : PAWL__NEVER;
        begin(team, PAWL__WANT_ACQUIRE, wait_us);
    }
}

void sim_team_finished(struct sim_actor *actor)
{
    struct sim_team *team = team_of(actor);
    if (is_twin(actor)) {
        twin_finished(actor);
        return;
    }
    team->call->slots[actor->handle->name].spared = pawl__request_spared(&actor->request);
    pawl__multi_answer(team->call, actor->handle->name, actor->request.status, "");
    if (--team->pending == 0) {
        go_on(team);
    }
}
