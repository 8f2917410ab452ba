/* SPDX-License-Identifier: Apache-2.0 */
/* Counts in the table. Each operation begins by taking back permits whose lease is over and by
 * looking whether the request was carried out before; what it answered is kept with the count for
 * as long as the request says. */
#include "engine/memory/table_tally.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/heap.h"

#include <string.h>

struct lease {
    struct pawl__list node;
    struct pawl__map_node by_id;
    struct pawl__timer end;
    struct pawl__permit_id id;
};

/* A request that was carried out, or is void. */
struct record {
    struct pawl__list node;
    char uuid[PAWL__UUID_SIZE + 1];
    uint64_t number;
    int64_t value;
    int64_t ends_us;
};

struct count {
    struct pawl__map_node node;
    char *name;
    bool set;
    int64_t value;
    struct pawl__list leases;
    struct pawl__map ids; /* of the leases, */
    struct pawl__heap ends;
    struct pawl__list records;
};

/* What an operation works with. */
struct work {
    struct count *count;
    const struct pawl__memory_client *client;
    struct pawl__op *op;
    struct record *record; /* a new one, if this request may need it */
    int64_t now_us;
    bool wake;
};

static struct count *count_find(struct pawl__memory_table *table, const struct pawl__place *place)
{
    struct pawl__map_node *node = pawl__map_find(&table->counts, place->name, place->name_size);
    return node != NULL ? PAWL__CONTAINER(node, struct count, node) : NULL;
}

static struct count *count_new(struct pawl__memory_table *table, const struct pawl__place *place)
{
    struct count *count = pawl__alloc(sizeof *count);
    char *name = pawl__alloc(place->name_size + 1);
    if (count == NULL || name == NULL || !pawl__map_init(&count->ids)) {
        pawl__free(count);
        pawl__free(name);
        return NULL;
    }
    memcpy(name, place->name, place->name_size);
    count->name = name;
    pawl__list_init(&count->leases);
    pawl__list_init(&count->records);
    pawl__map_add(&table->counts, &count->node, name, place->name_size);
    return count;
}

static struct lease *lease_of(struct pawl__list *node)
{
    return PAWL__CONTAINER(node, struct lease, node);
}

static struct record *record_of(struct pawl__list *node)
{
    return PAWL__CONTAINER(node, struct record, node);
}

static void lease_end(struct count *count, struct lease *lease)
{
    pawl__list_remove(&lease->node);
    pawl__map_remove(&count->ids, &lease->by_id);
    pawl__timer_clear(&count->ends, &lease->end);
    pawl__free(lease);
}

static void leases_end(struct count *count)
{
    while (!pawl__list_empty(&count->leases)) {
        lease_end(count, lease_of(count->leases.next));
    }
}

static void record_end(struct record *record)
{
    pawl__list_remove(&record->node);
    pawl__free(record);
}

static void count_end(struct pawl__memory_table *table, struct count *count)
{
    pawl__map_remove(&table->counts, &count->node);
    pawl__map_free(&count->ids);
    pawl__free(count->name);
    pawl__free(count);
}

void pawl__memory_tally_free(struct pawl__memory_table *table)
{
    struct pawl__map_node *node;
    while ((node = pawl__map_next(&table->counts, NULL)) != NULL) {
        struct count *count = PAWL__CONTAINER(node, struct count, node);
        leases_end(count);
        while (!pawl__list_empty(&count->records)) {
            record_end(record_of(count->records.next));
        }
        count_end(table, count);
    }
    pawl__map_free(&table->counts);
}

static void drop_unused(struct pawl__memory_table *table, struct count *count)
{
    if (!count->set && pawl__list_empty(&count->leases) && pawl__list_empty(&count->records)) {
        count_end(table, count);
    }
}

/* ===== Leases ===== */

static struct lease *lease_find(const struct count *count, const struct pawl__permit_id *id)
{
    struct pawl__map_node *node =
        pawl__map_find(&count->ids, (const char *)id->bytes, sizeof id->bytes);
    return node != NULL ? PAWL__CONTAINER(node, struct lease, by_id) : NULL;
}

static void lease_last(struct count *count, struct lease *lease, int64_t ends_us)
{
    if (!lease->end.armed || lease->end.due_us < ends_us) {
        pawl__timer_set(&count->ends, &lease->end, ends_us);
    }
}

/* So many permits more, if there is a count. */
static void give_back(struct work *work, int64_t amount)
{
    if (work->count->set && amount > 0) {
        work->count->value += amount;
        work->wake = true;
    }
}

static void reclaim(struct work *work)
{
    struct count *count = work->count;
    struct pawl__timer *first = NULL;
    int64_t over = 0;
    while ((first = pawl__heap_first(&count->ends)) != NULL && first->due_us <= work->now_us) {
        lease_end(count, PAWL__CONTAINER(first, struct lease, end));
        over++;
    }
    give_back(work, over);
}

/* In how long the first lease ends; < 0: there is none. */
static int64_t first_end_us(const struct count *count, int64_t now_us)
{
    const struct pawl__timer *first = pawl__heap_first(&count->ends);
    return first == NULL ? -1 : first->due_us - now_us;
}

/* ===== Records ===== */

static struct record *record_find(const struct work *work, uint64_t number)
{
    struct pawl__list *node = work->count->records.next;
    for (; node != &work->count->records; node = node->next) {
        struct record *record = record_of(node);
        if (record->number == number && strcmp(record->uuid, work->client->uuid) == 0) {
            return record;
        }
    }
    return NULL;
}

static void drop_records(const struct work *work)
{
    const uint64_t forget = work->op->tally->forget;
    struct pawl__list *node = work->count->records.next;
    while (node != &work->count->records) {
        struct record *record = record_of(node);
        node = node->next;
        if (record->ends_us <= work->now_us ||
            (record->number == forget && strcmp(record->uuid, work->client->uuid) == 0)) {
            record_end(record);
        }
    }
}

static void remember(struct work *work, int64_t value)
{
    struct record *record = work->record;
    work->record = NULL;
    memcpy(record->uuid, work->client->uuid, sizeof record->uuid);
    record->number = work->op->id;
    record->value = value;
    record->ends_us = pawl__later(work->now_us, work->op->tally->keep_us);
    pawl__list_push(&work->count->records, &record->node);
}

static void answer(struct work *work, enum pawl__answer how, int64_t value)
{
    work->op->answer = how;
    work->op->tally->value = value;
}

static void answer_and_remember(struct work *work, int64_t value)
{
    answer(work, PAWL__DONE, value);
    remember(work, value);
}

/* An answer, too: an earlier copy that arrives late must not find things otherwise. */
static void deny(struct work *work)
{
    answer(work, PAWL__GONE, 0);
    remember(work, 0);
}

/* ===== Verbs ===== */

static void held(struct work *work)
{
    work->op->answer = PAWL__HELD;
    work->op->hint_us = first_end_us(work->count, work->now_us);
    work->op->tally->unset = !work->count->set;
}

static void no_memory(struct pawl__op *op)
{
    op->answer = PAWL__FAILED;
    op->status = PAWL_NO_MEMORY;
    op->again = true;
}

/* Leases for those of the ids that have none, in a list. False: no memory. */
static bool make_leases(const struct work *work, struct pawl__list *made, int64_t *count_out)
{
    const struct pawl__tally_ask *ask = work->op->tally;
    *count_out = 0;
    for (int64_t i = 0; i < ask->amount; i++) {
        if (lease_find(work->count, &ask->ids[i]) != NULL) {
            continue;
        }
        struct lease *lease = pawl__alloc(sizeof *lease);
        if (lease == NULL) {
            return false;
        }
        lease->id = ask->ids[i];
        pawl__map_add(
            &work->count->ids, &lease->by_id, (const char *)lease->id.bytes, sizeof lease->id);
        pawl__list_push(made, &lease->node);
        ++*count_out;
    }
    return true;
}

static void take_leased(struct work *work)
{
    struct pawl__op *op = work->op;
    struct pawl__list made;
    int64_t missing = 0;
    pawl__list_init(&made);
    const bool enough_memory = make_leases(work, &made, &missing);
    const bool enough = work->count->set && work->count->value >= missing;
    if (!enough_memory || !enough) {
        while (!pawl__list_empty(&made)) {
            lease_end(work->count, lease_of(made.next));
        }
        if (enough_memory) {
            held(work);
        } else {
            no_memory(op);
        }
        return;
    }
    pawl__list_splice(&work->count->leases, &made);
    work->count->value -= missing;
    for (int64_t i = 0; i < op->tally->amount; i++) {
        struct lease *lease = lease_find(work->count, &op->tally->ids[i]);
        lease_last(work->count, lease, pawl__later(work->now_us, op->lease_us));
    }
    op->answer = PAWL__DONE;
}

static void take(struct work *work)
{
    const int64_t amount = work->op->tally->amount;
    if (!work->count->set || work->count->value < amount) {
        held(work);
        return;
    }
    work->count->value -= amount;
    answer_and_remember(work, 1);
}

static void give_leased(struct work *work)
{
    const struct pawl__tally_ask *ask = work->op->tally;
    int64_t back = 0;
    for (int64_t i = 0; i < ask->amount; i++) {
        struct lease *lease = lease_find(work->count, &ask->ids[i]);
        if (lease != NULL) {
            lease_end(work->count, lease);
            back++;
        }
    }
    give_back(work, back);
    answer_and_remember(work, back);
}

static void extend(struct work *work)
{
    const struct pawl__tally_ask *ask = work->op->tally;
    int64_t out_count = 0;
    for (int64_t i = 0; i < ask->amount; i++) {
        struct lease *lease = lease_find(work->count, &ask->ids[i]);
        ask->gone[i] = lease == NULL;
        if (lease != NULL) {
            out_count++;
            lease_last(work->count, lease, pawl__later(work->now_us, work->op->lease_us));
        }
    }
    answer(work, PAWL__DONE, out_count);
}

static void add(struct work *work)
{
    const int64_t sum = work->count->value + work->op->tally->amount;
    if (sum > INT32_MAX || sum < INT32_MIN) {
        work->op->answer = PAWL__FAILED;
        work->op->status = PAWL_INVALID;
        work->op->error = pawl__format(
            "the semaphore would have more than 2147483647 permits, or fewer than -2147483648");
        return;
    }
    work->wake = work->wake || work->op->tally->amount > 0;
    work->count->set = true;
    work->count->value = sum;
    answer_and_remember(work, 1);
}

static void set(struct work *work)
{
    struct count *count = work->count;
    if (count->set) {
        deny(work);
        return;
    }
    count->set = true;
    count->value = work->op->tally->amount;
    leases_end(count);
    work->wake = true;
    answer_and_remember(work, 1);
}

static void drain(struct work *work)
{
    const int64_t value = work->count->value;
    if (value > 0) {
        work->count->value = 0;
    }
    answer_and_remember(work, value > 0 ? value : 0);
}

static void down(struct work *work)
{
    struct count *count = work->count;
    if (!count->set) {
        answer_and_remember(work, 0);
        return;
    }
    count->value = count->value > 1 ? count->value - 1 : 0;
    count->set = count->value > 0;
    work->wake = !count->set;
    answer_and_remember(work, count->value);
}

static void reset(struct work *work)
{
    if (!work->count->set) {
        deny(work);
        return;
    }
    work->count->set = false;
    work->count->value = 0;
    work->wake = true;
    answer_and_remember(work, 1);
}

/* What a take or a drain of this number took, if it did; of a drain, the record says how many. The
 * record stays and says that it is void. */
static void undo(struct work *work)
{
    struct record *record = record_find(work, work->op->id);
    const int64_t amount = work->op->tally->amount;
    const bool taken = record != NULL && record->value > 0;
    if (taken) {
        give_back(work, amount > 0 ? amount : record->value);
    }
    if (record != NULL) {
        record_end(record);
    }
    answer_and_remember(work, 0);
    work->op->tally->value = taken ? 1 : 0;
}

/* Are permits named one by one? Those that a drain took are not. */
static bool by_ids(const struct work *work)
{
    return work->op->tally->ids != NULL;
}

static void carry_out(struct work *work)
{
    const bool leased = work->op->place->family == PAWL__FAMILY_PERMITS;
    switch (work->op->tally->verb) {
    case PAWL__TALLY_READ:
        answer(work, PAWL__DONE, work->count->value);
        break;
    case PAWL__TALLY_AWAIT:
        answer(work, work->count->value <= 0 ? PAWL__DONE : PAWL__HELD, work->count->value);
        break;
    case PAWL__TALLY_SET:
        set(work);
        break;
    case PAWL__TALLY_ADD:
        add(work);
        break;
    case PAWL__TALLY_DRAIN:
        drain(work);
        break;
    case PAWL__TALLY_TAKE:
        (leased ? take_leased : take)(work);
        break;
    case PAWL__TALLY_GIVE:
        (leased ? give_leased : add)(work);
        break;
    case PAWL__TALLY_UNDO:
        (by_ids(work) ? give_leased : undo)(work);
        break;
    case PAWL__TALLY_EXTEND:
        extend(work);
        break;
    case PAWL__TALLY_DOWN:
        down(work);
        break;
    case PAWL__TALLY_RESET:
        reset(work);
        break;
    }
}

/* The request was carried out before: the same answer. True: so it was. */
static bool asked_before(struct work *work)
{
    const enum pawl__tally_verb verb = work->op->tally->verb;
    const bool leased = work->op->place->family == PAWL__FAMILY_PERMITS;
    const struct record *record = record_find(work, work->op->id);
    if (record == NULL || (verb == PAWL__TALLY_UNDO && !by_ids(work))) {
        return false;
    }
    if (verb == PAWL__TALLY_TAKE && (leased || record->value == 0)) {
        held(work); /* it is void */
    } else if ((verb == PAWL__TALLY_SET || verb == PAWL__TALLY_RESET) && record->value == 0) {
        answer(work, PAWL__GONE, 0);
    } else {
        answer(work, PAWL__DONE, record->value);
    }
    return true;
}

bool pawl__memory_tally(struct pawl__memory_table *table, const struct pawl__memory_client *client,
    struct pawl__op *op, int64_t now_us)
{
    struct work work = {count_find(table, op->place), client, op, NULL, now_us, false};
    if (work.count == NULL) {
        work.count = count_new(table, op->place);
    }
    work.record = pawl__alloc(sizeof *work.record);
    if (work.count == NULL || work.record == NULL) {
        pawl__free(work.record);
        no_memory(op);
        return false;
    }
    pawl__list_init(&work.record->node);
    drop_records(&work);
    reclaim(&work);
    if (!asked_before(&work)) {
        carry_out(&work);
    }
    pawl__free(work.record);
    drop_unused(table, work.count);
    return work.wake;
}
