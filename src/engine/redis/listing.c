/* SPDX-License-Identifier: Apache-2.0 */
/* Walking through the keys; listing.h says how. */
#include "engine/redis/listing.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/limits.h"
#include "base/map.h"
#include "engine/redis/errors.h"
#include "engine/redis/lua_scripts.h"
#include "engine/redis/rights.h"

#include <string.h>

#define PAGE_COUNT "500" /* keys that the server looks at for one page */

enum {
    PAGE_SIZE = 4 << 20,  /* bytes of their names at most */
    TOLD_MAX = 256 << 10, /* names that are remembered; beyond, one may come twice */
    CURSOR_SIZE = 24,
    SHOWN_SIZE = 128,
};

/* A name that was told. */
struct told {
    struct pawl__map_node node;
    char name[];
};

struct walk {
    struct pawl__console *console;
    const char *pattern;
    pawl_entry_callback each;
    void *arg;
    bool enough;  /* the callback has said so */
    bool strings; /* hashes are done, now those */
    char cursor[CURSOR_SIZE];
    struct pawl__buffer page; /* its names, each with its size before it */
    struct pawl__map told;
    struct pawl__holders holders;
};

/* ===== Pages ===== */

static pawl_status page_failed(const struct walk *walk, const struct pawl__resp_node *reply)
{
    const struct pawl__console *console = walk->console;
    if (pawl__resp_is_error(reply)) {
        const char *text = pawl__resp_text(&console->link.reader, reply);
        return pawl__redis_error_hides_key(text, reply->text_size)
                   ? pawl__console_fail(
                         console, reply, "see which numbers are semaphores", "'~*:timeout'")
                   : pawl__console_fail(
                         console, reply, "list its keys", "+scan " PAWL__LOOK_RIGHTS);
    }
    return pawl__fail(
        PAWL_PROTOCOL, "%s answers SCAN as no Redis server does", console->config->peer);
}

static bool add_name(struct walk *walk, const char *name, size_t name_size)
{
    const uint16_t size = (uint16_t)name_size;
    return pawl__buffer_append(&walk->page, &size, sizeof size) &&
           pawl__buffer_append(&walk->page, name, name_size);
}

/* Keep the names of a page: the reply is gone with the next question. */
static pawl_status keep_page(struct walk *walk, const struct pawl__resp_node *keys)
{
    const struct pawl__resp_reader *reader = &walk->console->link.reader;
    pawl__buffer_clear(&walk->page);
    for (const struct pawl__resp_node *key = pawl__resp_first(reader, keys); key != NULL;
         key = pawl__resp_next(reader, keys, key)) {
        const char *name = pawl__resp_text(reader, key);
        const bool fits = key->type == PAWL__RESP_TEXT && key->text_size > 0 &&
                          key->text_size <= PAWL__NAME_SIZE_MAX &&
                          memchr(name, '\0', key->text_size) == NULL;
        if (fits && !add_name(walk, name, key->text_size)) {
            return pawl__fail(PAWL_NO_MEMORY, "no memory for a list of locks");
        }
    }
    return PAWL_OK;
}

static pawl_status ask_page(struct walk *walk)
{
    const struct pawl__resp_reader *reader = &walk->console->link.reader;
    const struct pawl__resp_node *reply = NULL;
    const char *pattern = walk->pattern != NULL ? walk->pattern : "*";
    const char *const scan[] = {
        "SCAN", walk->cursor, "MATCH", pattern, "COUNT", PAGE_COUNT, "TYPE", "hash"};
    const char *const sift[] = {
        "EVAL", pawl__script_sift.text, "0", walk->cursor, pattern, PAGE_COUNT};
    const pawl_status status =
        walk->strings
            ? pawl__console_ask(walk->console, sizeof sift / sizeof sift[0], sift, &reply)
            : pawl__console_ask(walk->console, sizeof scan / sizeof scan[0], scan, &reply);
    if (status != PAWL_OK) {
        return status;
    }
    const struct pawl__resp_node *cursor = pawl__resp_child(reader, reply, 0);
    const struct pawl__resp_node *keys = pawl__resp_child(reader, reply, 1);
    if (cursor == NULL || cursor->type != PAWL__RESP_TEXT || cursor->text_size == 0 ||
        cursor->text_size >= CURSOR_SIZE || keys == NULL || keys->type != PAWL__RESP_ARRAY) {
        return page_failed(walk, reply);
    }
    memcpy(walk->cursor, pawl__resp_text(reader, cursor), cursor->text_size);
    walk->cursor[cursor->text_size] = '\0';
    return keep_page(walk, keys);
}

/* ===== Telling ===== */

static void remember(struct walk *walk, struct pawl__redis_text name)
{
    struct told *told = walk->told.count < TOLD_MAX ? pawl__alloc(sizeof *told + name.size) : NULL;
    if (told != NULL) {
        memcpy(told->name, name.bytes, name.size);
        pawl__map_add(&walk->told, &told->node, told->name, name.size);
    }
}

static bool is_among(
    const struct pawl__redis_text *names, size_t count, struct pawl__redis_text name)
{
    for (size_t i = 0; i < count; i++) {
        if (names[i].size == name.size && memcmp(names[i].bytes, name.bytes, name.size) == 0) {
            return true;
        }
    }
    return false;
}

/* The next names of the page that were not told yet; good until the page is asked for. */
static size_t take_names(struct walk *walk, struct pawl__redis_text *names)
{
    size_t count = 0;
    while (pawl__buffer_size(&walk->page) > 0 && count < PAWL__HOLDERS_NAMES_MAX) {
        uint16_t size;
        memcpy(&size, pawl__buffer_data(&walk->page), sizeof size);
        pawl__buffer_consume(&walk->page, sizeof size);
        const struct pawl__redis_text name = {pawl__buffer_data(&walk->page), size};
        pawl__buffer_consume(&walk->page, size);
        if (pawl__map_find(&walk->told, name.bytes, name.size) == NULL &&
            !is_among(names, count, name)) {
            names[count++] = name;
        }
    }
    return count;
}

static pawl_status tell(struct walk *walk, const struct pawl__redis_text *names, size_t name_count)
{
    enum pawl__key_kind kinds[PAWL__HOLDERS_NAMES_MAX];
    const pawl_status status = pawl__holders_ask(&walk->holders, names, name_count, kinds);
    if (status != PAWL_OK) {
        return status;
    }
    for (size_t i = 0; i < name_count; i++) {
        if (kinds[i] == PAWL__KEY_LOCK) {
            remember(walk, names[i]);
        } else if (kinds[i] == PAWL__KEY_VEILED) {
            return pawl__redis_look_result(
                kinds[i], names[i].bytes, names[i].size, walk->console->config->grant);
        }
    }
    for (size_t i = 0; i < walk->holders.entry_count && !walk->enough; i++) {
        walk->enough = !walk->each(&walk->holders.entries[i], walk->arg);
    }
    return PAWL_OK;
}

static pawl_status tell_page(struct walk *walk)
{
    pawl_status status = PAWL_OK;
    while (status == PAWL_OK && !walk->enough && pawl__buffer_size(&walk->page) > 0) {
        struct pawl__redis_text names[PAWL__HOLDERS_NAMES_MAX];
        const size_t count = take_names(walk, names);
        if (count > 0) {
            status = tell(walk, names, count);
        }
    }
    return status;
}

/* ===== Walking ===== */

static void walk_fini(struct walk *walk)
{
    struct pawl__map_node *node = pawl__map_next(&walk->told, NULL);
    while (node != NULL) {
        struct told *told = PAWL__CONTAINER(node, struct told, node);
        node = pawl__map_next(&walk->told, node);
        pawl__free(told);
    }
    pawl__map_free(&walk->told);
    pawl__buffer_free(&walk->page);
    pawl__holders_fini(&walk->holders);
}

/* After the last page of hashes comes the first one of strings. */
static bool walks_on(struct walk *walk)
{
    if (strcmp(walk->cursor, "0") != 0) {
        return true;
    }
    const bool on = !walk->strings;
    walk->strings = true;
    return on;
}

static pawl_status walk_all(struct walk *walk, struct pawl__host *host)
{
    pawl_status status = PAWL_OK;
    do {
        if (host->closing != NULL && host->closing(host)) {
            return pawl__fail(PAWL_CANCELED, "the client was closed");
        }
        status = ask_page(walk);
        if (status == PAWL_OK) {
            status = tell_page(walk);
        }
    } while (status == PAWL_OK && !walk->enough && walks_on(walk));
    return status;
}

pawl_status pawl__redis_list(struct pawl__console *console, struct pawl__host *host,
    const char *pattern, pawl_entry_callback each, void *arg)
{
    struct walk walk = {
        .console = console, .pattern = pattern, .each = each, .arg = arg, .cursor = "0"};
    char name[2 * PAWL__NAME_SIZE_MAX + 1];
    pawl_status status = PAWL_OK;
    pawl__buffer_init(&walk.page, PAGE_SIZE);
    pawl__holders_init(&walk.holders, console);
    if (!pawl__map_init(&walk.told)) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for a list of locks");
    }
    if (!pawl__glob_literal(pattern, name)) {
        status = walk_all(&walk, host);
    } else if (name[0] != '\0' && strlen(name) <= PAWL__NAME_SIZE_MAX) {
        const struct pawl__redis_text only = {name, strlen(name)};
        status = tell(&walk, &only, 1);
    }
    walk_fini(&walk);
    return status;
}

/* ===== One name ===== */

pawl_status pawl__redis_look(struct pawl__console *console, const char *name, size_t name_size,
    pawl_entry *entry_out, enum pawl__key_kind *kind_out)
{
    const struct pawl__redis_text only = {name, name_size};
    struct pawl__holders holders;
    pawl__holders_init(&holders, console);
    const pawl_status status = pawl__holders_ask(&holders, &only, 1, kind_out);
    if (status == PAWL_OK && *kind_out == PAWL__KEY_LOCK) {
        *entry_out = holders.entries[0];
    } else if (status == PAWL_OK && *kind_out == PAWL__KEY_FREE) {
        *entry_out = holders.free;
    }
    pawl__holders_fini(&holders);
    return status;
}

static pawl_status hidden(struct pawl__redis_text name, const char *shown, const char *grant)
{
    char word[PAWL__RIGHTS_WORD_SIZE];
    return pawl__fail(PAWL_DENIED, "the user may not see the key '%s'; add the right with: %s %s",
        shown, grant, pawl__rights_key(name, word));
}

static pawl_status veiled(struct pawl__redis_text name, const char *shown, const char *grant)
{
    char key[PAWL__COMPOSED_SIZE_MAX];
    char shown_key[SHOWN_SIZE];
    char word[PAWL__RIGHTS_WORD_SIZE];
    const struct pawl__redis_text leases = pawl__redis_compose_leases(key, name.bytes, name.size);
    return pawl__fail(PAWL_DENIED,
        "'%s' is a number, and the user may not see the key '%s', which has the permits that are "
        "out if it is a semaphore; add the right with: %s %s",
        shown, pawl__printable(leases.bytes, leases.size, shown_key, sizeof shown_key), grant,
        pawl__rights_key(leases, word));
}

pawl_status pawl__redis_look_result(
    enum pawl__key_kind kind, const char *name, size_t name_size, const char *grant)
{
    char shown[SHOWN_SIZE];
    pawl__printable(name, name_size, shown, sizeof shown);
    switch (kind) {
    case PAWL__KEY_FREE:
    case PAWL__KEY_LOCK:
        return PAWL_OK;
    case PAWL__KEY_OTHER:
        return pawl__fail(PAWL_REFUSED, "the key '%s' exists and is not a lock", shown);
    case PAWL__KEY_HIDDEN:
        return hidden((struct pawl__redis_text){name, name_size}, shown, grant);
    case PAWL__KEY_VEILED:
        return veiled((struct pawl__redis_text){name, name_size}, shown, grant);
    case PAWL__KEY_UNASKED:
        break;
    }
    return pawl__fail(PAWL_REFUSED, "the server forgets our scripts as soon as it knows them");
}
