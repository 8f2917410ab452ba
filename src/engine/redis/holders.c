/* SPDX-License-Identifier: Apache-2.0 */
/* Asking who holds what; holders.h says how.
 *
 * Nothing that the server says is believed to be well-formed: what is not as look.lua writes it is
 * a broken protocol, and texts are made fit to print. */
#include "engine/redis/holders.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/redis/errors.h"
#include "engine/redis/introduce.h"
#include "engine/redis/lua_scripts.h"

#include <assert.h>
#include <string.h>

enum {
    US_PER_MS = 1000,
    ENTRIES_MIN = 64,
    ENTRIES_MAX = PAWL__HOLDERS_NAMES_MAX * 66, /* look.lua tells of so many of one lock */
    CLIENTS_MAX = 256,                          /* that are asked for at once */
    DIGITS_MAX = 18,
};

void pawl__holders_init(struct pawl__holders *holders, struct pawl__console *console)
{
    *holders = (struct pawl__holders){.console = console};
}

void pawl__holders_fini(struct pawl__holders *holders)
{
    pawl__free(holders->entries);
    holders->entries = NULL;
}

static pawl_status strange(const struct pawl__holders *holders)
{
    return pawl__fail(PAWL_PROTOCOL, "%s answers as no Redis server does when asked for a lock",
        holders->console->config->peer);
}

/* ===== Texts and numbers ===== */

/* A plain number; -1: it is none, or too large. */
static int64_t number_of(const struct pawl__resp_reader *reader, const struct pawl__resp_node *node)
{
    if (node == NULL || node->type != PAWL__RESP_TEXT || node->text_size == 0 ||
        node->text_size > DIGITS_MAX) {
        return -1;
    }
    const char *text = pawl__resp_text(reader, node);
    int64_t number = 0;
    for (uint32_t i = 0; i < node->text_size; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        number = number * 10 + (text[i] - '0');
    }
    return number;
}

static void copy_shown(const struct pawl__resp_reader *reader, const struct pawl__resp_node *node,
    char *to, size_t to_size)
{
    if (node != NULL && node->type == PAWL__RESP_TEXT) {
        pawl__printable(pawl__resp_text(reader, node), node->text_size, to, to_size);
    }
}

/* ===== What is this key ===== */

static bool put_look(struct pawl__holders *holders, struct pawl__redis_text name, bool whole)
{
    const struct pawl__script *script = &pawl__script_look;
    char token[PAWL__COMPOSED_SIZE_MAX];
    char channel[PAWL__COMPOSED_SIZE_MAX];
    char rw_channel[PAWL__COMPOSED_SIZE_MAX];
    char queue[PAWL__COMPOSED_SIZE_MAX];
    const struct pawl__redis_text parts[] = {
        {whole ? "EVAL" : "EVALSHA", whole ? 4 : 7},
        {whole ? script->text : script->sha1, whole ? script->text_size : PAWL__RESP_SHA_SIZE},
        {"1", 1},
        name,
        pawl__redis_compose(token, PAWL__TOKEN_PREFIX, name.bytes, name.size),
        pawl__redis_compose(channel, PAWL__CHANNEL_PREFIX, name.bytes, name.size),
        pawl__redis_compose(rw_channel, PAWL__RW_CHANNEL_PREFIX, name.bytes, name.size),
        pawl__redis_compose(queue, PAWL__QUEUE_PREFIX, name.bytes, name.size),
    };
    enum { PART_COUNT = sizeof parts / sizeof parts[0] };
    const char *words[PART_COUNT];
    size_t sizes[PART_COUNT];
    for (size_t i = 0; i < PART_COUNT; i++) {
        words[i] = parts[i].bytes;
        sizes[i] = parts[i].size;
    }
    holders->loaded = holders->loaded || whole; /* the text loads it, too */
    return pawl__resp_put_command(&holders->console->link.out, PART_COUNT, words, sizes);
}

pawl_entry *pawl__holders_add(struct pawl__holders *holders)
{
    if (holders->entry_count == holders->entry_capacity) {
        const size_t capacity =
            holders->entry_capacity == 0 ? ENTRIES_MIN : 2 * holders->entry_capacity;
        pawl_entry *entries = pawl__realloc(holders->entries, capacity * sizeof *entries);
        if (entries == NULL) {
            return NULL;
        }
        holders->entries = entries;
        holders->entry_capacity = capacity;
    }
    return &holders->entries[holders->entry_count++];
}

/* The part of an entry that is the lock's. */
static bool read_lock(const struct pawl__resp_reader *reader, const struct pawl__resp_node *reply,
    struct pawl__redis_text name, pawl_entry *entry)
{
    const struct pawl__resp_node *ttl = pawl__resp_child(reader, reply, 1);
    const struct pawl__resp_node *waiters = pawl__resp_child(reader, reply, 3);
    if (ttl == NULL || ttl->type != PAWL__RESP_INTEGER || waiters == NULL ||
        waiters->type != PAWL__RESP_INTEGER) {
        return false;
    }
    const int64_t token = number_of(reader, pawl__resp_child(reader, reply, 2));
    *entry = (pawl_entry){.size = sizeof *entry,
        .remaining_ms = ttl->integer == -2 ? 0 : pawl__max64(ttl->integer, -1),
        .token = token > 0 ? (uint64_t)token : 0,
        .since_ms = -1,
        .waiters = pawl__max64(waiters->integer, -1)};
    memcpy(entry->name, name.bytes, name.size);
    return true;
}

/* Does the owner string say that it is a writer's? */
static bool is_writer(const char *holder)
{
    const size_t size = strlen(holder);
    return size > 6 && strcmp(holder + size - 6, ":write") == 0;
}

static pawl_status take_holders(struct pawl__holders *holders, const struct pawl__resp_node *reply,
    const pawl_entry *lock, bool shared)
{
    const struct pawl__resp_reader *reader = &holders->console->link.reader;
    const struct pawl__resp_node *owner = pawl__resp_child(reader, reply, 4);
    while (owner != NULL && holders->entry_count < ENTRIES_MAX) {
        const struct pawl__resp_node *count = pawl__resp_next(reader, reply, owner);
        const struct pawl__resp_node *left =
            count != NULL ? pawl__resp_next(reader, reply, count) : NULL;
        pawl_entry *entry = pawl__holders_add(holders);
        if (entry == NULL) {
            return pawl__fail(PAWL_NO_MEMORY, "no memory for a list of locks");
        }
        *entry = *lock;
        entry->held = true;
        entry->hold_count = (unsigned)pawl__max64(number_of(reader, count), 0);
        entry->remaining_ms = number_of(reader, left);
        copy_shown(reader, owner, entry->holder, sizeof entry->holder);
        if (shared) {
            entry->kind = is_writer(entry->holder) ? PAWL_WRITE : PAWL_READ;
        }
        owner = left != NULL ? pawl__resp_next(reader, reply, left) : NULL;
    }
    return PAWL_OK;
}

/* The permits of a semaphore that are out, each with its own lease. */
static pawl_status take_permits(
    struct pawl__holders *holders, const struct pawl__resp_node *reply, pawl_entry *lock)
{
    lock->kind = PAWL_SEMAPHORE;
    lock->permits = pawl__resp_child(&holders->console->link.reader, reply, 1)->integer;
    lock->free_permits = (int64_t)((uint64_t)lock->permits - lock->token); /* whatever it says */
    lock->token = 0;
    return take_holders(holders, reply, lock, false);
}

static pawl_status take_look(struct pawl__holders *holders, const struct pawl__resp_node *reply,
    struct pawl__redis_text name, enum pawl__key_kind *kind_out)
{
    const struct pawl__resp_reader *reader = &holders->console->link.reader;
    const struct pawl__resp_node *what = pawl__resp_first(reader, reply);
    if (reply->type != PAWL__RESP_ARRAY || what == NULL) {
        return strange(holders);
    }
    const bool veiled = pawl__resp_text_equals(reader, what, "veiled");
    if (veiled || pawl__resp_text_equals(reader, what, "other")) {
        *kind_out = veiled ? PAWL__KEY_VEILED : PAWL__KEY_OTHER;
        return PAWL_OK;
    }
    pawl_entry lock;
    if (!read_lock(reader, reply, name, &lock)) {
        return strange(holders);
    }
    const bool fair = pawl__resp_text_equals(reader, what, "fair");
    lock.kind = fair ? PAWL_FAIR : PAWL_MUTEX;
    if (pawl__resp_text_equals(reader, what, "free") || (fair && reply->child_count == 4)) {
        *kind_out = PAWL__KEY_FREE;
        holders->free = lock;
        return PAWL_OK;
    }
    if (reply->child_count < 7) {
        return strange(holders); /* a lock has a holder */
    }
    if (pawl__resp_text_equals(reader, what, "semaphore")) {
        *kind_out = PAWL__KEY_LOCK;
        return take_permits(holders, reply, &lock);
    }
    const bool plain = pawl__resp_text_equals(reader, what, "plain");
    const bool shared = !plain && !fair && !pawl__resp_text_equals(reader, what, "mutex");
    lock.kind = plain ? PAWL_PLAIN : fair ? PAWL_FAIR : PAWL_MUTEX;
    *kind_out = PAWL__KEY_LOCK;
    return take_holders(holders, reply, &lock, shared);
}

static pawl_status take_error(struct pawl__holders *holders, const struct pawl__resp_node *reply,
    enum pawl__key_kind *kind_out)
{
    const struct pawl__console *console = holders->console;
    const char *text = pawl__resp_text(&console->link.reader, reply);
    if (pawl__resp_error_is(&console->link.reader, reply, "NOSCRIPT")) {
        holders->loaded = false;
        return PAWL_OK; /* it stays unasked */
    }
    if (pawl__redis_error_hides_key(text, reply->text_size)) {
        *kind_out = PAWL__KEY_HIDDEN;
        return PAWL_OK;
    }
    return pawl__console_fail(console, reply, "look at locks", PAWL__LOOK_RIGHTS);
}

/* One flight for all names that have not been answered yet. */
static pawl_status ask_unasked(struct pawl__holders *holders, const struct pawl__redis_text *names,
    size_t name_count, enum pawl__key_kind *kinds)
{
    bool asked[PAWL__HOLDERS_NAMES_MAX] = {false};
    for (size_t i = 0; i < name_count; i++) {
        asked[i] = kinds[i] == PAWL__KEY_UNASKED;
        if (asked[i] && !put_look(holders, names[i], !holders->loaded)) {
            return pawl__console_no_memory();
        }
    }
    const int64_t deadline_us = pawl__console_deadline(holders->console);
    pawl_status status = PAWL_OK;
    for (size_t i = 0; i < name_count && status == PAWL_OK; i++) {
        const struct pawl__resp_node *reply = NULL;
        if (!asked[i]) {
            continue;
        }
        status = pawl__console_reply(holders->console, deadline_us, &reply);
        if (status == PAWL_OK) {
            status = pawl__resp_is_error(reply) ? take_error(holders, reply, &kinds[i])
                                                : take_look(holders, reply, names[i], &kinds[i]);
        }
    }
    return status;
}

/* ===== Who are the holders ===== */

/* The client of an entry, if its owner string has one. */
static bool client_of(const pawl_entry *entry, char uuid[PAWL__UUID_SIZE + 1])
{
    if (strcspn(entry->holder, ":") != PAWL__UUID_SIZE) {
        return false;
    }
    memcpy(uuid, entry->holder, PAWL__UUID_SIZE);
    uuid[PAWL__UUID_SIZE] = '\0';
    return true;
}

typedef char client_uuid[PAWL__UUID_SIZE + 1];

static size_t find_clients(const struct pawl__holders *holders, client_uuid *clients)
{
    size_t count = 0;
    for (size_t i = 0; i < holders->entry_count && count < CLIENTS_MAX; i++) {
        size_t at = 0;
        if (!client_of(&holders->entries[i], clients[count])) {
            continue;
        }
        while (strcmp(clients[at], clients[count]) != 0) {
            at++;
        }
        count += at == count ? 1 : 0;
    }
    return count;
}

/* What a client says about itself, put into all its entries. */
static void tell_client(
    struct pawl__holders *holders, const struct pawl__resp_node *reply, const char *uuid)
{
    const struct pawl__resp_reader *reader = &holders->console->link.reader;
    const int64_t start_us = number_of(reader, pawl__resp_child(reader, reply, 3));
    const int64_t now_us = holders->server_us + (pawl__now_us() - holders->local_us);
    for (size_t i = 0; i < holders->entry_count; i++) {
        pawl_entry *entry = &holders->entries[i];
        if (strncmp(entry->holder, uuid, PAWL__UUID_SIZE) != 0) {
            continue;
        }
        copy_shown(reader, pawl__resp_child(reader, reply, 0), entry->host, sizeof entry->host);
        entry->pid = pawl__max64(number_of(reader, pawl__resp_child(reader, reply, 1)), 0);
        copy_shown(
            reader, pawl__resp_child(reader, reply, 2), entry->command, sizeof entry->command);
        if (start_us > 0 && holders->server_us > 0) {
            entry->since_ms = pawl__max64(now_us - start_us, 0) / US_PER_MS;
        }
    }
}

static pawl_status ask_clients(struct pawl__holders *holders, client_uuid *clients, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char key[PAWL__CLIENT_KEY_SIZE + 1];
        pawl__client_key(clients[i], key);
        const char *const words[] = {"HMGET", key, "host", "pid", "command", "start"};
        if (!pawl__resp_put_command(
                &holders->console->link.out, sizeof words / sizeof words[0], words, NULL)) {
            return pawl__console_no_memory();
        }
    }
    const int64_t deadline_us = pawl__console_deadline(holders->console);
    pawl_status status = PAWL_OK;
    for (size_t i = 0; i < count && status == PAWL_OK; i++) {
        const struct pawl__resp_node *reply = NULL;
        status = pawl__console_reply(holders->console, deadline_us, &reply);
        if (status == PAWL_OK && reply->type == PAWL__RESP_ARRAY) {
            tell_client(holders, reply, clients[i]);
        }
        /* An error: the user may not know, so nobody is named. */
    }
    return status;
}

pawl_status pawl__holders_introduce(struct pawl__holders *holders)
{
    client_uuid *clients = pawl__alloc((CLIENTS_MAX + 1) * sizeof *clients);
    if (clients == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for a list of locks");
    }
    const size_t count = find_clients(holders, clients);
    const pawl_status status = count > 0 ? ask_clients(holders, clients, count) : PAWL_OK;
    pawl__free(clients);
    return status;
}

/* ===== The server's clock ===== */

static pawl_status ask_time(struct pawl__holders *holders)
{
    const struct pawl__resp_reader *reader = &holders->console->link.reader;
    const struct pawl__resp_node *reply = NULL;
    const char *const words[] = {"TIME"};
    const pawl_status status = pawl__console_ask(holders->console, 1, words, &reply);
    if (status != PAWL_OK) {
        return status;
    }
    const int64_t seconds = number_of(reader, pawl__resp_child(reader, reply, 0));
    const int64_t rest_us = number_of(reader, pawl__resp_child(reader, reply, 1));
    if (seconds > 0 && seconds < INT64_C(1) << 40 && rest_us >= 0 && rest_us < 1000 * US_PER_MS) {
        holders->server_us = seconds * 1000 * US_PER_MS + rest_us;
    }
    holders->local_us = pawl__now_us();
    return PAWL_OK;
}

pawl_status pawl__holders_ask(struct pawl__holders *holders, const struct pawl__redis_text *names,
    size_t name_count, enum pawl__key_kind *kinds_out)
{
    assert(name_count <= PAWL__HOLDERS_NAMES_MAX);
    pawl_status status = holders->local_us == 0 ? ask_time(holders) : PAWL_OK;
    holders->entry_count = 0;
    for (size_t i = 0; i < name_count; i++) {
        kinds_out[i] = PAWL__KEY_UNASKED;
    }
    if (status == PAWL_OK) {
        status = ask_unasked(holders, names, name_count, kinds_out);
    }
    if (status == PAWL_OK && !holders->loaded) { /* the server had forgotten the script */
        status = ask_unasked(holders, names, name_count, kinds_out);
    }
    if (status == PAWL_OK && holders->entries != NULL && holders->entry_count > 0) {
        status = pawl__holders_introduce(holders);
    }
    return status;
}
