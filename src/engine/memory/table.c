/* SPDX-License-Identifier: Apache-2.0 */
/* The table's operations, one function each. They all begin by finding the entry, with its lease
 * ended if the time has come, and then speak of a holder or of none.
 *
 * Tokens begin at the time in microseconds and go on by one, so a table that lost everything begins
 * again above whatever it gave out before, as long as its clock does not go back and it grants less
 * than once a microsecond. A dropped entry leaves its token behind in the table's floor.
 *
 * Read/write locks have their own operations in table_shared.c. */
#include "engine/memory/table_parts.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/memory/table_fair.h"
#include "engine/memory/table_tally.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ===== Entries ===== */

static struct pawl__memory_entry *entry_find(
    const struct pawl__memory_table *table, const struct pawl__place *place)
{
    struct pawl__map_node *node = pawl__map_find(&table->entries, place->name, place->name_size);
    return node != NULL ? PAWL__CONTAINER(node, struct pawl__memory_entry, node) : NULL;
}

struct pawl__memory_entry *pawl__memory_entry_new(
    struct pawl__memory_table *table, const struct pawl__place *place)
{
    struct pawl__memory_entry *entry = pawl__alloc(sizeof *entry);
    char *name = pawl__alloc(place->name_size + 1);
    if (entry == NULL || name == NULL) {
        pawl__free(entry);
        pawl__free(name);
        return NULL;
    }
    memcpy(name, place->name, place->name_size);
    entry->name = name;
    pawl__list_init(&entry->watches);
    pawl__list_init(&entry->queue);
    pawl__list_init(&entry->shares);
    pawl__map_add(&table->entries, &entry->node, name, place->name_size);
    return entry;
}

static void entry_free(struct pawl__memory_table *table, struct pawl__memory_entry *entry)
{
    pawl__memory_queue_end(entry);
    pawl__memory_shares_end(entry);
    pawl__map_remove(&table->entries, &entry->node);
    pawl__free(entry->name);
    pawl__free(entry);
}

static void entry_drop_unused(struct pawl__memory_table *table, struct pawl__memory_entry *entry)
{
    if (!entry->held && pawl__list_empty(&entry->watches) && pawl__list_empty(&entry->queue)) {
        if (entry->token + entry->token_more > table->token_floor) {
            table->token_floor = entry->token + entry->token_more;
        }
        entry_free(table, entry);
    }
}

static void expire(struct pawl__memory_entry *entry, int64_t now_us)
{
    pawl__memory_shares_expire(entry, now_us);
    entry->held = entry->held && now_us < entry->expires_us;
}

/* Whether the lock is held by this tenure of this client. */
static bool holds(
    const struct pawl__memory_entry *entry, const struct pawl__memory_client *client, uint64_t id)
{
    return entry != NULL && entry->held && entry->id == id &&
           strcmp(entry->uuid, client->uuid) == 0;
}

bool pawl__memory_watched_by_others(
    const struct pawl__memory_entry *entry, const struct pawl__memory_client *client)
{
    for (struct pawl__list *node = entry->watches.next; node != &entry->watches;
         node = node->next) {
        if (PAWL__CONTAINER(node, struct pawl__memory_watch, in_entry)->client != client) {
            return true;
        }
    }
    return false;
}

void pawl__memory_wake_all(struct pawl__memory_table *table, struct pawl__memory_entry *entry)
{
    for (struct pawl__list *node = entry->watches.next; node != &entry->watches;
         node = node->next) {
        struct pawl__memory_watch *watch =
            PAWL__CONTAINER(node, struct pawl__memory_watch, in_entry);
        if (pawl__list_empty(&watch->in_due)) {
            pawl__list_push(&table->due, &watch->in_due);
        }
    }
}

/* ===== Operations ===== */

void pawl__memory_fail(struct pawl__op *op)
{
    op->answer = PAWL__FAILED;
    op->status = PAWL_NO_MEMORY;
    op->again = true;
}

/* Let the lease last at least so long from now. Nothing shortens it. */
static void lengthen(struct pawl__memory_entry *entry, int64_t lease_us, int64_t now_us)
{
    entry->expires_us = pawl__max64(entry->expires_us, pawl__later(now_us, lease_us));
}

void pawl__memory_next_token(struct pawl__memory_table *table, struct pawl__memory_entry *entry,
    struct pawl__op *op, int64_t now_us)
{
    if (entry->token == 0) {
        uint64_t time = now_us > 0 ? (uint64_t)now_us : 0;
        entry->token = time > table->token_floor ? time : table->token_floor;
    }
    entry->token += entry->token_more + 1;
    entry->token_more = op->tokens > 1 ? op->tokens - 1 : 0;
    op->token = entry->token;
}

/* How people who look are told of it. */
static pawl_kind kind_of(enum pawl__family family)
{
    return family == PAWL__FAMILY_FAIR    ? PAWL_FAIR
           : family == PAWL__FAMILY_SPIN  ? PAWL_SPIN
           : family == PAWL__FAMILY_PLAIN ? PAWL_PLAIN
                                          : PAWL_MUTEX;
}

/* Give the lock, which is free, to a new tenure. */
static void give(struct pawl__memory_table *table, struct pawl__memory_entry *entry,
    const struct pawl__memory_client *client, uint64_t id, struct pawl__op *op, int64_t now_us)
{
    pawl__memory_next_token(table, entry, op, now_us);
    entry->held = true;
    entry->kind = kind_of(op->place->family);
    entry->count = 1;
    entry->id = id;
    entry->expires_us = pawl__later(now_us, op->lease_us);
    memcpy(entry->uuid, client->uuid, sizeof entry->uuid);
    op->answer = PAWL__DONE;
}

/* The tenure has it already: asked again, it is the same acquire. */
static void confirm(struct pawl__memory_entry *entry, struct pawl__op *op, int64_t now_us)
{
    lengthen(entry, op->lease_us, now_us);
    op->answer = PAWL__DONE;
    op->token = entry->token;
}

static void acquire(struct pawl__memory_table *table, struct pawl__memory_client *client,
    struct pawl__memory_entry *entry, struct pawl__op *op, int64_t now_us)
{
    if (holds(entry, client, op->id)) {
        confirm(entry, op, now_us);
        return;
    }
    if (entry != NULL && entry->held) {
        op->answer = PAWL__HELD;
        op->hint_us = entry->expires_us - now_us;
        return;
    }
    if (entry == NULL) {
        entry = pawl__memory_entry_new(table, op->place);
    }
    if (entry == NULL) {
        pawl__memory_fail(op);
        return;
    }
    give(table, entry, client, op->id, op, now_us);
}

static void release(struct pawl__memory_table *table, struct pawl__memory_client *client,
    struct pawl__memory_entry *entry, struct pawl__op *op)
{
    if (!holds(entry, client, op->id)) {
        op->answer = PAWL__GONE;
        return;
    }
    entry->held = false;
    pawl__memory_wake_all(table, entry);
    op->answer = PAWL__DONE;
    op->others = pawl__memory_watched_by_others(entry, client);
}

/* Does the end of a hold tell nobody? */
static bool is_quiet(const struct pawl__place *place)
{
    return place->family == PAWL__FAMILY_SPIN || place->family == PAWL__FAMILY_PLAIN;
}

static void release_quietly(
    const struct pawl__memory_client *client, struct pawl__memory_entry *entry, struct pawl__op *op)
{
    const bool ours = holds(entry, client, op->id);
    op->answer = ours ? PAWL__DONE : PAWL__GONE;
    if (ours) {
        entry->held = false;
    }
}

/* ===== The same for fair locks ===== */

/* Not now. Nobody is told to ask again at once. */
static void let_wait(struct pawl__memory_client *client, struct pawl__memory_entry *entry,
    const struct pawl__memory_waiter *head, struct pawl__op *op, int64_t now_us)
{
    const int64_t turn_us = head != NULL ? head->dead_us - now_us : 0;
    if (op->queue && !pawl__memory_queue_stand(entry, client, op->id, now_us)) {
        pawl__memory_fail(op);
        return;
    }
    op->answer = PAWL__HELD;
    op->hint_us =
        entry->held ? entry->expires_us - now_us : pawl__min64(turn_us, PAWL__MEMORY_FAIR_LOOK_US);
}

static void acquire_fair(struct pawl__memory_table *table, struct pawl__memory_client *client,
    struct pawl__memory_entry *entry, struct pawl__op *op, int64_t now_us)
{
    if (entry == NULL) {
        acquire(table, client, entry, op, now_us);
        return;
    }
    const struct pawl__memory_waiter *head =
        pawl__memory_queue_purge(entry, client, op->id, now_us);
    const bool first = head == NULL || pawl__memory_waiter_is(head, client, op->id);
    if (holds(entry, client, op->id) || (!entry->held && first)) {
        pawl__memory_queue_leave(entry, client, op->id);
        acquire(table, client, entry, op, now_us);
    } else {
        let_wait(client, entry, head, op, now_us);
    }
}

/* The lock is free: tell whose turn it is. */
static void call_next(struct pawl__memory_table *table, const struct pawl__memory_client *client,
    struct pawl__memory_entry *entry, struct pawl__op *op, int64_t now_us)
{
    const struct pawl__memory_waiter *head = pawl__memory_queue_purge(entry, NULL, 0, now_us);
    const bool other = head != NULL && strcmp(head->uuid, client->uuid) != 0;
    op->others = pawl__memory_queue_call(table, entry) && other;
}

static void release_fair(struct pawl__memory_table *table, struct pawl__memory_client *client,
    struct pawl__memory_entry *entry, struct pawl__op *op, int64_t now_us)
{
    const bool held = holds(entry, client, op->id);
    op->answer = held ? PAWL__DONE : PAWL__GONE;
    if (entry == NULL) {
        return;
    }
    const bool first = pawl__memory_waiter_is(pawl__memory_queue_head(entry), client, op->id);
    pawl__memory_queue_leave(entry, client, op->id);
    entry->held = entry->held && !held;
    if (!entry->held && (held || first)) {
        call_next(table, client, entry, op, now_us);
    }
}

static void pass(struct pawl__memory_table *table, struct pawl__memory_client *client,
    struct pawl__memory_entry *entry, struct pawl__op *op, int64_t now_us)
{
    if (holds(entry, client, op->heir_id)) {
        confirm(entry, op, now_us);
        return;
    }
    if (!holds(entry, client, op->id)) {
        op->answer = PAWL__GONE;
        return;
    }
    if (op->offer) {
        pawl__memory_wake_all(table, entry);
        op->others = pawl__memory_watched_by_others(entry, client);
    }
    entry->held = false;
    if (op->others) {
        op->answer = PAWL__LEFT;
    } else {
        give(table, entry, client, op->heir_id, op, now_us);
    }
}

static void inspect(const struct pawl__memory_client *client,
    const struct pawl__memory_entry *entry, const struct pawl__op *op, int64_t now_us)
{
    pawl_lock_info *info = op->info;
    info->held = entry != NULL && entry->held;
    info->hold_count = info->held ? entry->count : 0;
    info->remaining_ms = info->held ? (entry->expires_us - now_us + 999) / 1000 : 0;
    info->token = entry != NULL ? entry->token + entry->token_more : 0;
    info->holder[0] = '\0';
    if (info->held && !pawl__list_empty(&entry->shares)) {
        pawl__memory_share_inspect(entry, client, op->id, info);
    } else if (info->held) {
        snprintf(info->holder, sizeof info->holder, "%s:%llu", entry->uuid,
            (unsigned long long)entry->id);
    }
}

static void raise_token(
    struct pawl__memory_table *table, struct pawl__memory_entry *entry, struct pawl__op *op)
{
    uint64_t *token = entry != NULL ? &entry->token : &table->token_floor;
    *token = op->token > *token ? op->token : *token;
    op->answer = PAWL__DONE;
}

static void break_lock(struct pawl__memory_table *table, struct pawl__memory_client *client,
    struct pawl__memory_entry *entry, struct pawl__op *op, int64_t now_us)
{
    if (entry == NULL || !entry->held) {
        op->answer = PAWL__GONE;
        return;
    }
    pawl__memory_shares_end(entry);
    entry->held = false;
    op->answer = PAWL__DONE;
    if (op->place->family == PAWL__FAMILY_FAIR) {
        call_next(table, client, entry, op, now_us);
    } else if (!is_quiet(op->place)) {
        pawl__memory_wake_all(table, entry);
    }
}

/* ===== Watches ===== */

/* For whom the operation watches. */
static uint64_t watcher_of(const struct pawl__op *op)
{
    return op->place->family == PAWL__FAMILY_FAIR ? op->id : 0;
}

static struct pawl__memory_watch *watch_find(
    const struct pawl__memory_entry *entry, const struct pawl__memory_client *client, uint64_t id)
{
    for (struct pawl__list *node = entry->watches.next; node != &entry->watches;
         node = node->next) {
        struct pawl__memory_watch *watch =
            PAWL__CONTAINER(node, struct pawl__memory_watch, in_entry);
        if (watch->client == client && watch->id == id) {
            return watch;
        }
    }
    return NULL;
}

static void watch_end(struct pawl__memory_watch *watch)
{
    pawl__list_remove(&watch->in_entry);
    pawl__list_remove(&watch->in_client);
    pawl__list_remove(&watch->in_due);
    pawl__free(watch);
}

static void watch_begin(struct pawl__memory_table *table, struct pawl__memory_client *client,
    struct pawl__memory_entry *entry, struct pawl__op *op)
{
    op->answer = PAWL__DONE;
    if (entry != NULL && watch_find(entry, client, watcher_of(op)) != NULL) {
        return;
    }
    struct pawl__memory_watch *watch = pawl__alloc(sizeof *watch);
    if (entry == NULL && watch != NULL) {
        entry = pawl__memory_entry_new(table, op->place);
    }
    if (entry == NULL || watch == NULL) {
        pawl__free(watch);
        pawl__memory_fail(op);
        return;
    }
    watch->entry = entry;
    watch->client = client;
    watch->id = watcher_of(op);
    pawl__list_init(&watch->in_due);
    pawl__list_push(&entry->watches, &watch->in_entry);
    pawl__list_push(&client->watches, &watch->in_client);
}

static void unwatch(
    struct pawl__memory_client *client, struct pawl__memory_entry *entry, struct pawl__op *op)
{
    struct pawl__memory_watch *watch =
        entry != NULL ? watch_find(entry, client, watcher_of(op)) : NULL;
    if (watch != NULL) {
        watch_end(watch);
    }
    op->answer = PAWL__DONE;
}

/* ===== Entrances ===== */

bool pawl__memory_init(struct pawl__memory_table *table)
{
    table->token_floor = 0;
    pawl__list_init(&table->due);
    if (!pawl__map_init(&table->entries)) {
        return false;
    }
    if (!pawl__map_init(&table->counts)) {
        pawl__map_free(&table->entries);
        return false;
    }
    return true;
}

void pawl__memory_free(struct pawl__memory_table *table)
{
    struct pawl__map_node *node;
    while ((node = pawl__map_next(&table->entries, NULL)) != NULL) {
        struct pawl__memory_entry *entry = PAWL__CONTAINER(node, struct pawl__memory_entry, node);
        assert(pawl__list_empty(&entry->watches));
        entry_free(table, entry);
    }
    pawl__map_free(&table->entries);
    pawl__memory_tally_free(table);
}

void pawl__memory_join(struct pawl__memory_client *client, const char *uuid)
{
    client->uuid = uuid;
    pawl__list_init(&client->watches);
}

void pawl__memory_leave(struct pawl__memory_table *table, struct pawl__memory_client *client)
{
    while (!pawl__list_empty(&client->watches)) {
        struct pawl__memory_watch *watch =
            PAWL__CONTAINER(client->watches.next, struct pawl__memory_watch, in_client);
        struct pawl__memory_entry *entry = watch->entry;
        watch_end(watch);
        entry_drop_unused(table, entry);
    }
}

/* What an operation asks about the holder and nothing else. */
static void check(const struct pawl__memory_client *client, const struct pawl__memory_entry *entry,
    struct pawl__op *op)
{
    op->answer = holds(entry, client, op->id) ? PAWL__DONE : PAWL__GONE;
}

static void apply(struct pawl__memory_table *table, struct pawl__memory_client *client,
    struct pawl__memory_entry *entry, struct pawl__op *op, int64_t now_us)
{
    const bool fair = op->place->family == PAWL__FAMILY_FAIR;
    switch (op->kind) {
    case PAWL__OP_ACQUIRE:
        (fair ? acquire_fair : acquire)(table, client, entry, op, now_us);
        break;
    case PAWL__OP_RENEW:
        check(client, entry, op);
        if (op->answer == PAWL__DONE) {
            lengthen(entry, op->lease_us, now_us);
        }
        break;
    case PAWL__OP_VERIFY:
        check(client, entry, op);
        break;
    case PAWL__OP_COUNT:
        check(client, entry, op);
        if (op->answer == PAWL__DONE) {
            entry->count = op->count;
        }
        break;
    case PAWL__OP_RELEASE:
        if (fair) {
            release_fair(table, client, entry, op, now_us);
        } else if (is_quiet(op->place)) {
            release_quietly(client, entry, op);
        } else {
            release(table, client, entry, op);
        }
        break;
    case PAWL__OP_PASS:
        pass(table, client, entry, op, now_us);
        break;
    case PAWL__OP_INSPECT:
        inspect(client, entry, op, now_us);
        op->answer = PAWL__DONE;
        break;
    case PAWL__OP_BREAK:
        break_lock(table, client, entry, op, now_us);
        break;
    case PAWL__OP_TALLY:
        if (pawl__memory_tally(table, client, op, now_us) && entry != NULL) {
            pawl__memory_wake_all(table, entry);
        }
        break;
    case PAWL__OP_RAISE:
        raise_token(table, entry, op);
        break;
    case PAWL__OP_WATCH:
        watch_begin(table, client, entry, op);
        break;
    case PAWL__OP_UNWATCH:
        unwatch(client, entry, op);
        break;
    }
}

/* A plain lock has none. */
static void forget_token(struct pawl__op *op)
{
    op->token = 0;
    if (op->kind == PAWL__OP_INSPECT) {
        op->info->token = 0;
    }
}

void pawl__memory_apply(struct pawl__memory_table *table, struct pawl__memory_client *client,
    struct pawl__op *op, int64_t now_us)
{
    struct pawl__memory_entry *entry = entry_find(table, op->place);
    if (entry != NULL) {
        expire(entry, now_us);
    }
    if (op->place->family == PAWL__FAMILY_SHARED && pawl__memory_is_shared(op->kind)) {
        pawl__memory_apply_shared(table, client, entry, op, now_us);
    } else {
        apply(table, client, entry, op, now_us);
    }
    if (op->place->family == PAWL__FAMILY_PLAIN) {
        forget_token(op);
    }
    if (entry != NULL) {
        entry_drop_unused(table, entry);
    }
}

struct pawl__memory_watch *pawl__memory_woken(struct pawl__memory_table *table)
{
    struct pawl__list *node = pawl__list_pop(&table->due);
    return node != NULL ? PAWL__CONTAINER(node, struct pawl__memory_watch, in_due) : NULL;
}

const struct pawl__memory_entry *pawl__memory_look(
    const struct pawl__memory_table *table, const char *name, size_t name_size)
{
    struct pawl__map_node *node = pawl__map_find(&table->entries, name, name_size);
    return node != NULL ? PAWL__CONTAINER(node, const struct pawl__memory_entry, node) : NULL;
}
