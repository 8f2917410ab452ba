/* SPDX-License-Identifier: Apache-2.0 */
/* Judges what becomes of each question about a count (oracles C2 and C3).
 *
 * While the machine knows a question it may be busy asking it again or taking it back. When it has
 * forgotten it, nothing may be taken for nobody, and what was to be given back or counted down has
 * been, unless the machine had tried for as long as the backend remembers, or was told that it is
 * no use. What the dead leave undone is nobody's fault. */
#include "sim.h"

#include "base/clock.h"
#include "pawl.h"

#include <stdlib.h>
#include <string.h>

#define TRIES_US 4000000 /* it goes on at least so long, and twice the time to give up */

struct sim_ask *sim_ask_new(struct sim_world *world, struct sim_client *client, unsigned name)
{
    struct sim_ask *ask = calloc(1, sizeof *ask);
    if (ask == NULL) {
        abort();
    }
    ask->next = world->asks;
    world->asks = ask;
    ask->client = client;
    ask->life = client != NULL ? client->life : 0;
    ask->name = name;
    ask->first_us = world->now_us;
    return ask;
}

void sim_asks_free(struct sim_world *world)
{
    while (world->asks != NULL) {
        struct sim_ask *ask = world->asks;
        world->asks = ask->next;
        free(ask);
    }
}

/* ===== On the way ===== */

/* Numbers are given in their order, and the new ones are in front. */
static struct sim_ask *find(const struct sim_client *client, uint64_t number)
{
    for (size_t i = client->ask_count; i > 0; i--) {
        if (client->asks[i - 1]->number == number) {
            return client->asks[i - 1];
        }
    }
    return NULL;
}

static struct sim_ask *open_ask(struct sim_call *call, const struct pawl__tally *tally)
{
    struct sim_client *client = call->client;
    struct sim_ask *ask = sim_ask_new(client->world, client, call->name);
    if (client->ask_count == client->ask_room) {
        client->ask_room = client->ask_room == 0 ? 64 : 2 * client->ask_room;
        client->asks = realloc(client->asks, client->ask_room * sizeof *client->asks);
        if (client->asks == NULL) {
            abort();
        }
    }
    client->asks[client->ask_count++] = ask;
    ask->number = tally->number;
    ask->verb = tally->ask.verb;
    ask->amount = tally->ask.amount;
    ask->in_machine = true;
    return ask;
}

void sim_ask_copied(struct sim_call *copy)
{
    copy->copy.tally = &copy->question.ask;
    copy->question.ask.ids = copy->question.ids;
    copy->question.ask.gone = copy->question.gone;
}

void sim_ask_submit(struct sim_call *call, struct pawl__op *op)
{
    struct pawl__tally *tally = op->core;
    struct sim_question *question = &call->question;
    question->ask = tally->ask;
    const size_t count = (size_t)tally->ask.amount;
    if (tally->ask.ids != NULL && count > SIM_IDS_MAX) {
        sim_fail(call->client->world, "simulator", "more permits than an operation has room for");
        question->ask.amount = SIM_IDS_MAX;
    } else if (tally->ask.ids != NULL) {
        memcpy(question->ids, tally->ask.ids, count * sizeof *question->ids);
    }
    sim_ask_copied(call);
    struct sim_ask *ask = find(call->client, tally->number);
    question->known = ask != NULL ? ask : open_ask(call, tally);
    question->forgets = tally->ask.forget != 0 ? find(call->client, tally->ask.forget) : NULL;
    if (tally->request != NULL) {
        struct sim_actor *actor = PAWL__CONTAINER(tally->request, struct sim_actor, request);
        actor->stake.ask = question->known;
        question->known->stake_epoch = actor->stake.given_epoch;
    }
}

void sim_ask_answered(const struct sim_call *call)
{
    struct pawl__op *op = call->op;
    const struct sim_question *question = &call->question;
    const bool answered = op->answer != PAWL__FAILED && op->answer != PAWL__UNKNOWN;
    if (answered) {
        op->tally->value = question->ask.value;
        op->tally->unset = question->ask.unset;
    } else if (!op->again) {
        question->known->refused = true;
    }
    if (answered && question->ask.verb == PAWL__TALLY_EXTEND) {
        memcpy(
            op->tally->gone, question->gone, (size_t)question->ask.amount * sizeof *question->gone);
    }
}

/* ===== When the machine has forgotten it ===== */

/* May the machine have given it up, having tried for long enough or in vain? */
static bool may_give_up(const struct sim_ask *ask)
{
    const struct sim_world *world = ask->client->world;
    return ask->refused || ask->client->shutting ||
           world->now_us - ask->first_us >= TRIES_US + 2 * world->plan.give_up_us;
}

static void forgotten(struct sim_ask *ask)
{
    struct sim_world *world = ask->client->world;
    const struct sim_count *count = &world->counts[ask->name];
    const bool plain = world->plan.families[ask->name] != PAWL__FAMILY_PERMITS;
    const bool lives = ask->carried > 0 && ask->epoch == count->epoch && !ask->undone;
    const bool has = ask->told && ask->status == PAWL_OK;
    ask->in_machine = false;
    ask->given_up = ask->client->machine.unheard && may_give_up(ask);
    world->stats.given_up += ask->given_up;
    const bool slept = ask->lapsed && (ask->client->resumed_us >= ask->first_us ||
                                          count->jumped_us >= ask->first_us);
    if (ask->excused || ask->given_up || ask->refused || slept) {
        return;
    }
    if (plain && lives && ask->verb == PAWL__TALLY_TAKE && !has) {
        sim_fail(world, "C2", "name %u: client %u forgot take %llu, which had taken permits",
            ask->name, ask->client->index, (unsigned long long)ask->number);
    }
    if (ask->verb == PAWL__TALLY_GIVE && ask->carried == 0) {
        sim_fail(world, "C2", "name %u: client %u forgot give %llu, which was not carried out",
            ask->name, ask->client->index, (unsigned long long)ask->number);
    }
}

/* After each step of the machine; it says `unheard` of those that it gave up in this one. */
void sim_asks_check(struct sim_client *client)
{
    struct pawl__list *tallies = &client->machine.tallies;
    for (struct pawl__list *node = tallies->next; node != tallies; node = node->next) {
        const struct pawl__tally *tally = PAWL__CONTAINER(node, struct pawl__tally, all);
        struct sim_ask *ask = find(client, tally->number);
        if (ask != NULL) {
            ask->seen = client->step;
        }
    }
    for (size_t i = client->ask_open; i < client->ask_count; i++) {
        struct sim_ask *ask = client->asks[i];
        if (ask->in_machine && ask->seen != client->step) {
            forgotten(ask);
        }
    }
    while (client->ask_open < client->ask_count && !client->asks[client->ask_open]->in_machine) {
        client->ask_open++;
    }
    client->machine.unheard = false;
}

/* What it had, the backend will not get back. */
void sim_asks_die(struct sim_client *client)
{
    struct sim_world *world = client->world;
    for (size_t i = 0; i < client->ask_count; i++) {
        client->asks[i]->in_machine = false;
    }
    for (unsigned i = 0; i <= world->plan.actors; i++) {
        struct sim_stake *stake = &client->actors[i].stake;
        struct sim_count *count = &world->counts[stake->name];
        count->dead += stake->epoch == count->epoch ? stake->plain : 0;
        stake->plain = 0;
        stake->permit_count = 0;
    }
    client->ask_count = 0;
    client->ask_open = 0;
}

/* ===== How a call ended ===== */

static void wrong(const struct sim_actor *actor, const char *why)
{
    const struct pawl__request *request = &actor->request;
    sim_fail(actor->client->world, "C3", "client %u actor %u: %s ended with \"%s\" %s",
        actor->client->index, actor->index, sim_verb_text(request->verb),
        pawl_status_string(request->status), why);
}

void sim_count_started(struct sim_actor *actor)
{
    actor->stake.ask = NULL;
}

static bool was_carried(const struct sim_ask *ask)
{
    return ask != NULL && ask->carried > 0 && !ask->undone;
}

static void taken(struct sim_actor *actor, int64_t amount)
{
    struct sim_world *world = actor->client->world;
    struct sim_stake *stake = &actor->stake;
    struct sim_count *count = &world->counts[stake->name];
    const bool leased = world->plan.families[stake->name] == PAWL__FAMILY_PERMITS;
    if (!was_carried(stake->ask)) {
        wrong(actor, "but nothing was taken");
        return;
    }
    world->stats.takes++;
    if (leased) {
        sim_permits_granted(actor);
        return;
    }
    stake->plain = amount;
    stake->epoch = stake->ask->epoch;
    if (stake->epoch == count->epoch) {
        count->out += amount;
        if (count->out > count->issued) {
            sim_fail(world, "C1", "name %u: %lld permits are out of %lld", stake->name,
                (long long)count->out, (long long)count->issued);
        }
    }
}

/* It must have been at zero at some moment since the call began. */
static void opened(const struct sim_actor *actor)
{
    struct sim_world *world = actor->client->world;
    const struct sim_count *count = &world->counts[actor->handle->name];
    const int64_t start_us = sim_true(actor->client, actor->request.start_us);
    world->stats.opened++;
    if (count->set && count->zero_us < start_us) {
        wrong(actor, "but the latch has not been at zero since");
    }
}

static void fine(struct sim_actor *actor)
{
    const struct pawl__request *request = &actor->request;
    const struct sim_ask *ask = actor->stake.ask;
    switch ((int)request->verb) {
    case PAWL__TALLY_TAKE:
        taken(actor, request->amount);
        break;
    case PAWL__TALLY_DRAIN:
        if (request->value > 0) {
            taken(actor, request->value);
        }
        break;
    case PAWL__TALLY_AWAIT:
        opened(actor);
        break;
    case PAWL__TALLY_GIVE:
    case PAWL__TALLY_SET:
    case PAWL__TALLY_ADD:
    case PAWL__TALLY_RESET:
        if (!was_carried(ask)) {
            wrong(actor, "but it was not carried out");
        }
        break;
    case PAWL__TALLY_DOWN:
        actor->client->world->stats.downs++;
        if (!was_carried(ask) && request->value != 0) {
            wrong(actor, "but it was not counted");
        }
        break;
    default:
        break;
    }
}

void sim_count_finished(struct sim_actor *actor)
{
    struct sim_client *client = actor->client;
    const struct pawl__request *request = &actor->request;
    const bool waits = request->verb == PAWL__TALLY_TAKE || request->verb == PAWL__TALLY_AWAIT;
    if (actor->stake.ask != NULL) {
        actor->stake.ask->told = true;
        actor->stake.ask->status = request->status;
    }
    if (request->status == PAWL_OK) {
        fine(actor);
    } else if (request->status == PAWL_BUSY) {
        if (!waits || sim_now(client) < request->wait_us) {
            wrong(actor, "before its patience was over");
        }
    } else if (request->status == PAWL_CANCELED) {
        if (!waits || actor->cancels == actor->handle->cancels) {
            wrong(actor, "but nobody had canceled it");
        }
    } else if (request->status == PAWL_NOT_HELD) {
        if (request->verb != PAWL__TALLY_SET && request->verb != PAWL__TALLY_RESET) {
            wrong(actor, "which it cannot");
        }
    } else if (!sim_fault_is_fair(actor)) {
        wrong(actor, "without a reason");
    } else if (request->status == PAWL_UNAVAILABLE && waits && request->wait_us == PAWL__NEVER &&
               sim_now(client) < request->start_us + client->machine.give_up_us &&
               !(actor->stake.ask != NULL &&
                   (actor->stake.ask->refused || actor->stake.ask->carried > 0))) {
        wrong(actor, "before it was time to give up");
    }
    sim_permits_settle(actor);
}
