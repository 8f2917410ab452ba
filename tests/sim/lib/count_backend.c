/* SPDX-License-Identifier: Apache-2.0 */
/* Counts in the backend, and a second opinion on each operation about one (oracle C1). The opinion
 * keeps the counts once more, as engine.h tells it: a question is carried out once and answers the
 * same for as long as its record is kept, permits come back when their leases are over, nothing
 * shortens a lease, and nobody gets what is not there. */
#include "sim.h"

#include "base/clock.h"

#include <string.h>

#define SAFE_US 4000000 /* a message on its way for longer, and two timeouts, may be too late */
#define HEAL_US 1000000
#define SPARE 100 /* permits, so that there are enough */
#define OPERATOR_UUID "ffffffff-0000-4000-8000-000000000000"

/* What the table should have answered. */
struct expected {
    enum pawl__answer answer;
    int64_t value;
    int64_t hint_us;
    bool unset;
    bool gone[SIM_IDS_MAX];
};

struct opinion {
    struct sim_world *world;
    struct sim_count *count;
    const struct sim_call *call;
    struct sim_ask *ask;
    int64_t now_us; /* the backend's */
    struct expected expected;
};

bool sim_is_count(const struct sim_world *world, unsigned name)
{
    return pawl__family_counts(world->plan.families[name]);
}

/* ===== Leases and records ===== */

static struct sim_lease *lease_find(struct sim_count *count, const struct pawl__permit_id *id)
{
    for (unsigned i = 0; i < count->lease_count; i++) {
        if (memcmp(&count->leases[i].id, id, sizeof *id) == 0) {
            return &count->leases[i];
        }
    }
    return NULL;
}

bool sim_count_has(const struct sim_world *world, unsigned name, const struct pawl__permit_id *id,
    int64_t *ends_us_out)
{
    const struct sim_count *count = &world->counts[name];
    for (unsigned i = 0; i < count->lease_count; i++) {
        if (memcmp(&count->leases[i].id, id, sizeof *id) == 0) {
            *ends_us_out = count->leases[i].ends_us;
            return *ends_us_out > sim_backend_now(world);
        }
    }
    return false;
}

/* So many are free again, if anybody has set a count. */
static void give_back(struct sim_count *count, int64_t amount)
{
    count->value += count->set ? amount : 0;
}

static void lease_end(struct sim_count *count, struct sim_lease *lease)
{
    *lease = count->leases[--count->lease_count];
}

static void record_end(struct sim_count *count, struct sim_ask *ask)
{
    struct sim_ask **link = &count->records;
    while (*link != ask) {
        link = &(*link)->next_record;
    }
    *link = ask->next_record;
    ask->recorded = false;
}

static void record(struct opinion *opinion, int64_t value)
{
    struct sim_ask *ask = opinion->ask;
    ask->recorded = true;
    ask->value = value;
    ask->record_end_us = pawl__later(opinion->now_us, opinion->call->question.ask.keep_us);
    ask->next_record = opinion->count->records;
    opinion->count->records = ask;
}

/* What time has ended, and whose record is not needed any more. */
static void sweep(struct opinion *opinion)
{
    struct sim_count *count = opinion->count;
    struct sim_ask *forgets = opinion->call->question.forgets;
    if (forgets != NULL && forgets->recorded) {
        record_end(count, forgets);
    }
    for (struct sim_ask *ask = count->records; ask != NULL;) {
        struct sim_ask *next = ask->next_record;
        if (ask->record_end_us <= opinion->now_us) {
            ask->lapsed = true;
            record_end(count, ask);
        }
        ask = next;
    }
    for (unsigned i = 0; i < count->lease_count;) {
        if (count->leases[i].ends_us <= opinion->now_us) {
            lease_end(count, &count->leases[i]);
            give_back(count, 1);
        } else {
            i++;
        }
    }
}

/* ===== Effects ===== */

/* A copy that came so late that nothing could stop it, or its record was lost: with everything
 * else, or because the clock has ended it too soon. */
static bool is_excused(const struct opinion *opinion)
{
    const struct sim_world *world = opinion->world;
    const struct sim_call *call = opinion->call;
    const int64_t way_us = world->now_us - call->submitted_us;
    const bool late = way_us > SAFE_US + 2 * world->plan.timeout_us;
    const bool lost = opinion->count->jumped_us >= opinion->ask->first_us;
    return opinion->ask->excused || late || lost || opinion->ask->given_up ||
           opinion->ask->client == NULL;
}

/* A question that changes the count does so. */
static void effect(struct opinion *opinion)
{
    struct sim_ask *ask = opinion->ask;
    const struct sim_call *call = opinion->call;
    const bool again = ask->carried > 0 && ask->epoch == opinion->count->epoch;
    const bool leased = call->copy.place->family == PAWL__FAMILY_PERMITS;
    const bool gone = ask->client != NULL && ask->life != ask->client->life;
    if (is_excused(opinion)) {
        ask->excused = true; /* whatever becomes of it */
    } else if (again && !leased) {
        sim_fail(opinion->world, "C1", "name %u: %s %llu of client %u counted twice", ask->name,
            sim_verb_text(ask->verb), (unsigned long long)ask->number, call->client->index);
    } else if (ask->verb == PAWL__TALLY_TAKE && !leased && !gone && !ask->in_machine) {
        sim_fail(opinion->world, "C2", "name %u: take %llu of client %u took when it was over",
            ask->name, (unsigned long long)ask->number, call->client->index);
    }
    ask->carried = again ? ask->carried + 1 : 1;
    ask->epoch = opinion->count->epoch;
    ask->undone = false;
    opinion->world->stats.counted++;
}

static void answer(struct opinion *opinion, enum pawl__answer how, int64_t value)
{
    opinion->expected.answer = how;
    opinion->expected.value = value;
}

static void held(struct opinion *opinion)
{
    const struct sim_count *count = opinion->count;
    int64_t first_us = PAWL__NEVER;
    for (unsigned i = 0; i < count->lease_count; i++) {
        first_us = pawl__min64(first_us, count->leases[i].ends_us);
    }
    answer(opinion, PAWL__HELD, 0);
    opinion->expected.hint_us = first_us == PAWL__NEVER ? -1 : first_us - opinion->now_us;
    opinion->expected.unset = !count->set;
}

static void take(struct opinion *opinion)
{
    struct sim_count *count = opinion->count;
    const int64_t amount = opinion->call->question.ask.amount;
    if (!count->set || count->value < amount) {
        held(opinion);
        return;
    }
    count->value -= amount;
    effect(opinion);
    record(opinion, 1);
    answer(opinion, PAWL__DONE, 1);
}

static void lengthen(struct opinion *opinion, struct sim_lease *lease)
{
    const int64_t end_us = pawl__later(opinion->now_us, opinion->call->copy.lease_us);
    lease->ends_us = pawl__max64(lease->ends_us, end_us);
}

static void take_leased(struct opinion *opinion)
{
    struct sim_count *count = opinion->count;
    const struct sim_question *question = &opinion->call->question;
    int64_t missing = 0;
    for (int64_t i = 0; i < question->ask.amount; i++) {
        missing += lease_find(count, &question->ids[i]) == NULL;
    }
    if (!count->set || count->value < missing) {
        held(opinion);
        return;
    }
    count->value -= missing;
    for (int64_t i = 0; i < question->ask.amount; i++) {
        struct sim_lease *lease = lease_find(count, &question->ids[i]);
        if (lease == NULL && count->lease_count == SIM_LEASES_MAX) {
            sim_fail(opinion->world, "simulator", "more leases than it can see");
            return;
        }
        if (lease == NULL) {
            lease = &count->leases[count->lease_count++];
            *lease = (struct sim_lease){.id = question->ids[i]};
        }
        lengthen(opinion, lease);
    }
    effect(opinion);
    answer(opinion, PAWL__DONE, 0);
}

static void give_leased(struct opinion *opinion)
{
    struct sim_count *count = opinion->count;
    const struct sim_question *question = &opinion->call->question;
    int64_t back = 0;
    for (int64_t i = 0; i < question->ask.amount; i++) {
        struct sim_lease *lease = lease_find(count, &question->ids[i]);
        if (lease != NULL) {
            lease_end(count, lease);
            back++;
        }
    }
    give_back(count, back);
    effect(opinion);
    record(opinion, back);
    answer(opinion, PAWL__DONE, back);
}

static void extend(struct opinion *opinion)
{
    const struct sim_question *question = &opinion->call->question;
    int64_t out = 0;
    for (int64_t i = 0; i < question->ask.amount; i++) {
        struct sim_lease *lease = lease_find(opinion->count, &question->ids[i]);
        opinion->expected.gone[i] = lease == NULL;
        if (lease != NULL) {
            out++;
            lengthen(opinion, lease);
        }
    }
    answer(opinion, PAWL__DONE, out);
}

static void add(struct opinion *opinion)
{
    struct sim_count *count = opinion->count;
    const int64_t amount = opinion->call->question.ask.amount;
    const bool gives = opinion->call->question.ask.verb == PAWL__TALLY_GIVE;
    effect(opinion);
    const bool foreign = opinion->ask->stake_epoch != count->epoch; /* taken from another count */
    const bool extra = !gives || opinion->ask->excused || foreign;
    count->issued += extra && amount > 0 ? amount : 0;
    count->set = true;
    count->value += amount;
    record(opinion, 1);
    answer(opinion, PAWL__DONE, 1);
}

static void set(struct opinion *opinion)
{
    struct sim_count *count = opinion->count;
    if (count->set) {
        answer(opinion, PAWL__GONE, 0);
        return;
    }
    count->zero_us = opinion->world->now_us;
    count->set = true;
    count->value = opinion->call->question.ask.amount;
    count->issued += count->value;
    count->lease_count = 0;
    effect(opinion);
    record(opinion, 1);
    answer(opinion, PAWL__DONE, 1);
}

static void drain(struct opinion *opinion)
{
    const int64_t value = opinion->count->value;
    answer(opinion, PAWL__DONE, value > 0 ? value : 0);
    if (value > 0) {
        opinion->count->value = 0;
        effect(opinion);
        record(opinion, value);
    }
}

static void down(struct opinion *opinion)
{
    struct sim_count *count = opinion->count;
    answer(opinion, PAWL__DONE, 0);
    if (count->set) {
        count->value--;
        count->set = count->value > 0;
        effect(opinion);
        record(opinion, count->value);
        answer(opinion, PAWL__DONE, count->value);
    }
}

static void reset(struct opinion *opinion)
{
    struct sim_count *count = opinion->count;
    answer(opinion, PAWL__GONE, 0);
    if (count->set) {
        count->set = false;
        count->value = 0;
        effect(opinion);
        record(opinion, 1);
        answer(opinion, PAWL__DONE, 1);
    }
}

/* It must never be carried out from now on, and if it was, that is taken back. */
static void undo(struct opinion *opinion)
{
    struct sim_ask *ask = opinion->ask;
    const bool taken = ask->recorded && ask->value == 1;
    if (taken) {
        give_back(opinion->count, opinion->call->question.ask.amount);
        ask->undone = true;
    }
    if (ask->recorded) {
        record_end(opinion->count, ask);
    }
    record(opinion, 0);
    answer(opinion, PAWL__DONE, taken ? 1 : 0);
}

static void carry_out(struct opinion *opinion)
{
    const struct sim_count *count = opinion->count;
    const bool leased = opinion->call->copy.place->family == PAWL__FAMILY_PERMITS;
    switch (opinion->call->question.ask.verb) {
    case PAWL__TALLY_READ:
        answer(opinion, PAWL__DONE, count->value);
        break;
    case PAWL__TALLY_AWAIT:
        answer(opinion, count->value <= 0 ? PAWL__DONE : PAWL__HELD, count->value);
        break;
    case PAWL__TALLY_SET:
        set(opinion);
        break;
    case PAWL__TALLY_DRAIN:
        drain(opinion);
        break;
    case PAWL__TALLY_TAKE:
        (leased ? take_leased : take)(opinion);
        break;
    case PAWL__TALLY_ADD:
        add(opinion);
        break;
    case PAWL__TALLY_GIVE:
        (leased ? give_leased : add)(opinion);
        break;
    case PAWL__TALLY_UNDO:
        (leased ? give_leased : undo)(opinion);
        break;
    case PAWL__TALLY_EXTEND:
        extend(opinion);
        break;
    case PAWL__TALLY_DOWN:
        down(opinion);
        break;
    case PAWL__TALLY_RESET:
        reset(opinion);
        break;
    }
}

static void form(struct opinion *opinion)
{
    const struct sim_ask *ask = opinion->ask;
    const enum pawl__tally_verb verb = opinion->call->question.ask.verb;
    const bool leased = opinion->call->copy.place->family == PAWL__FAMILY_PERMITS;
    opinion->expected.hint_us = -1;
    sweep(opinion);
    if (!ask->recorded || (verb == PAWL__TALLY_UNDO && !leased)) {
        carry_out(opinion);
    } else if (verb == PAWL__TALLY_TAKE && (leased || ask->value == 0)) {
        held(opinion); /* void */
    } else {
        answer(opinion, PAWL__DONE, ask->value);
    }
}

/* ===== Comparing ===== */

static void compare(const struct opinion *opinion)
{
    const struct expected *expected = &opinion->expected;
    const struct sim_call *call = opinion->call;
    const struct pawl__tally_ask *ask = &call->question.ask;
    const char *verb = sim_verb_text(ask->verb);
    const unsigned long long number = opinion->ask->number;
    if (call->copy.answer != expected->answer) {
        sim_fail(opinion->world, "C1", "name %u: %s %llu was answered \"%s\", not \"%s\"",
            call->name, verb, number, sim_answer_text(call->copy.answer),
            sim_answer_text(expected->answer));
    } else if (ask->verb == PAWL__TALLY_TAKE) {
        const bool told =
            expected->answer != PAWL__HELD ||
            (call->copy.hint_us == expected->hint_us && ask->unset == expected->unset);
        if (!told) {
            sim_fail(
                opinion->world, "C1", "name %u: a wrong hint when permits come back", call->name);
        }
    } else if (expected->answer == PAWL__DONE && ask->value != expected->value) {
        sim_fail(opinion->world, "C1", "name %u: %s %llu was told %lld, not %lld", call->name, verb,
            number, (long long)ask->value, (long long)expected->value);
    }
    for (int64_t i = 0; ask->verb == PAWL__TALLY_EXTEND && i < ask->amount; i++) {
        if (call->question.gone[i] != expected->gone[i]) {
            sim_fail(
                opinion->world, "C1", "name %u: wrong news whether a permit is out", call->name);
        }
    }
}

static void apply(struct sim_world *world, struct sim_call *call, struct pawl__memory_client *peer,
    int64_t now_us)
{
    struct opinion opinion = {.world = world,
        .count = &world->counts[call->name],
        .call = call,
        .ask = call->question.known,
        .now_us = now_us};
    /* Without memory for a lease some of the rest is done, and nobody could tell what. */
    world->in_machine = call->copy.place->family != PAWL__FAMILY_PERMITS ||
                        call->question.ask.verb != PAWL__TALLY_TAKE;
    pawl__memory_apply(&world->table, peer, &call->copy, now_us);
    world->in_machine = false;
    call->applied = true;
    sim_hash(world, (uint64_t)call->copy.answer << 8 | (uint64_t)call->question.ask.verb);
    sim_hash(world, (uint64_t)call->question.ask.value);
    if (call->copy.answer != PAWL__FAILED) { /* no memory: nothing happened */
        form(&opinion);
        compare(&opinion);
    }
    sim_say(world, call->client, "table: %s %llu on name %u: %s, now %lld",
        sim_verb_text(call->question.ask.verb), (unsigned long long)call->copy.id, call->name,
        sim_answer_text(call->copy.answer), (long long)opinion.count->value);
    sim_net_wakes(world);
}

void sim_count_apply(struct sim_world *world, struct sim_call *call, int64_t now_us)
{
    struct pawl__memory_client stranger; /* a client that died since */
    const bool stale = call->life != call->client->life;
    if (stale) {
        pawl__memory_join(&stranger, call->uuid);
    }
    apply(world, call, stale ? &stranger : &call->client->peer, now_us);
}

/* ===== Disasters, and who repairs ===== */

void sim_count_forget(struct sim_world *world, unsigned name)
{
    struct sim_count *count = &world->counts[name];
    while (count->records != NULL) {
        record_end(count, count->records);
    }
    if (count->set) {
        count->zero_us = world->now_us;
    }
    count->set = false;
    count->value = 0;
    count->issued = 0;
    count->out = 0;
    count->dead = 0;
    count->lease_count = 0;
    count->epoch++;
    count->jumped_us = world->now_us;
    sim_permits_taken(world, name);
}

void sim_count_jump(struct sim_world *world, unsigned name)
{
    world->counts[name].jumped_us = world->now_us;
    sim_permits_taken(world, name);
}

int64_t sim_count_remaining(const struct sim_world *world, unsigned name)
{
    const struct sim_count *count = &world->counts[name];
    int64_t most_us = 0;
    for (unsigned i = 0; i < count->lease_count; i++) {
        most_us = pawl__max64(most_us, count->leases[i].ends_us - sim_backend_now(world));
    }
    return most_us;
}

static void operate(
    struct sim_world *world, unsigned name, enum pawl__tally_verb verb, int64_t amount)
{
    struct pawl__memory_client operator;
    struct sim_ask *ask = sim_ask_new(world, NULL, name);
    struct sim_call *call = sim_call_new(world);
    pawl__memory_join(&operator, OPERATOR_UUID);
    ask->number = ++world->operations;
    ask->verb = verb;
    call->name = name;
    call->question.known = ask;
    call->question.ask = (struct pawl__tally_ask){
        .verb = verb, .amount = amount, .keep_us = 1, .ids = call->question.ids};
    call->copy = (struct pawl__op){.kind = PAWL__OP_TALLY,
        .place = &world->places[name],
        .id = ask->number,
        .hint_us = -1,
        .tally = &call->question.ask};
    apply(world, call, &operator, sim_backend_now(world));
    sim_call_settle(world, call);
}

static void heal(struct sim_world *world, unsigned name)
{
    if (world->plan.families[name] == PAWL__FAMILY_LATCH) {
        operate(world, name, PAWL__TALLY_RESET, 0);
    } else {
        const int64_t value = world->counts[name].value;
        operate(world, name, PAWL__TALLY_SET, SPARE);
        operate(world, name, PAWL__TALLY_ADD, SPARE - (value < 0 ? value : 0));
    }
}

/* Is there anything that nobody of those who are left would put right? */
static bool ails(const struct sim_world *world, unsigned name)
{
    const struct sim_count *count = &world->counts[name];
    return world->plan.families[name] == PAWL__FAMILY_LATCH ? count->set
                                                            : count->value < SIM_TAKE_MOST;
}

/* Nobody waits in vain when everything heals: a semaphore gets enough permits, whatever the dead
 * took with them, and a latch is opened, also if somebody's last word was to set it. */
void sim_counts_heal(struct sim_world *world)
{
    for (unsigned name = 0; name < world->plan.names; name++) {
        struct sim_count *count = &world->counts[name];
        const bool due = count->healed_us == 0 || world->now_us > count->healed_us + HEAL_US;
        if (sim_is_count(world, name) && due && ails(world, name)) {
            count->healed_us = world->now_us;
            heal(world, name);
        }
    }
}
