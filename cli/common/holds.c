/* SPDX-License-Identifier: Apache-2.0 */
/* See holds.h. */
#include "common/holds.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_table_column columns[] = {
    {.title = "NAME", .columns_good = 30, .columns_min = 8},
    {.title = "HOST", .columns_good = 12, .columns_min = 6, .expendable = 3},
    {.title = "PID", .right = true, .expendable = 2},
    {.title = "COMMAND", .columns_good = 12, .columns_min = 6, .expendable = 4},
    {.title = "LEFT", .right = true, .expendable = 1},
    {.title = "WAITERS", .right = true, .expendable = 5},
    {.title = "COUNT", .right = true, .expendable = 7},
    {.title = "KIND", .expendable = 6},
    {.title = "TOKEN", .right = true, .expendable = 8},
    {.title = "OWNER", .expendable = 9},
};

/* ===== Collecting ===== */

static char *copy_of(const char *string)
{
    size_t size = strlen(string) + 1;
    char *copy = cli_memory_resize(NULL, size, 1);
    memcpy(copy, string, size);
    return copy;
}

struct cli_hold cli_hold_from(const pawl_entry *entry)
{
    return (struct cli_hold){
        .name = copy_of(entry->name),
        .holder = copy_of(entry->holder),
        .host = copy_of(entry->host),
        .command = copy_of(entry->command),
        .kind = entry->kind,
        .held = entry->held,
        .hold_count = entry->hold_count,
        .remaining_ms = entry->remaining_ms,
        .token = entry->token,
        .pid = entry->pid,
        .since_ms = entry->since_ms,
        .waiters = entry->waiters,
        .permits = entry->permits,
        .free_permits = entry->free_permits,
    };
}

void cli_hold_free(struct cli_hold *hold)
{
    free(hold->name);
    free(hold->holder);
    free(hold->host);
    free(hold->command);
    *hold = (struct cli_hold){0};
}

bool cli_holds_collect(const pawl_entry *entry, void *arg)
{
    struct cli_holds *holds = arg;
    if (holds->count == holds->room) {
        holds->room = holds->room == 0 ? 64 : holds->room * 2;
        holds->items = cli_memory_resize(holds->items, holds->room, sizeof *holds->items);
    }
    holds->items[holds->count++] = cli_hold_from(entry);
    atomic_store(&holds->seen, holds->count);
    return true;
}

static int compare(const void *left, const void *right)
{
    const struct cli_hold *a = left;
    const struct cli_hold *b = right;
    int order = strcmp(a->name, b->name);
    if (order == 0) {
        order = (b->kind == PAWL_WRITE) - (a->kind == PAWL_WRITE);
    }
    return order != 0 ? order : strcmp(a->holder, b->holder);
}

void cli_holds_sort(struct cli_holds *holds)
{
    if (holds->count > 1) {
        qsort(holds->items, holds->count, sizeof *holds->items, compare);
    }
}

void cli_holds_free(struct cli_holds *holds)
{
    for (size_t i = 0; i < holds->count; i++) {
        cli_hold_free(&holds->items[i]);
    }
    free(holds->items);
    holds->items = NULL;
    holds->count = holds->room = 0;
    atomic_store(&holds->seen, 0);
}

/* ===== For people ===== */

const char *cli_kind_name(pawl_kind kind)
{
    switch (kind) {
    case PAWL_MUTEX:
        return "mutex";
    case PAWL_FAIR:
        return "fair";
    case PAWL_READ:
        return "read";
    case PAWL_WRITE:
        return "write";
    case PAWL_SPIN:
        return "spin";
    case PAWL_PLAIN:
        return "plain";
    case PAWL_SEMAPHORE:
        return "semaphore";
    case PAWL_LATCH:
        return "latch";
    }
    return "unknown";
}

bool cli_kind_is_shared(pawl_kind kind)
{
    return kind == PAWL_READ || kind == PAWL_WRITE || kind == PAWL_SEMAPHORE;
}

void cli_hold_add_who(const struct cli_hold *hold, struct cli_text *text)
{
    if (hold->host[0] == '\0' && hold->pid == 0) {
        cli_text_add_safe(text, hold->holder[0] == '\0' ? "unknown" : hold->holder);
        return;
    }
    cli_text_add_safe(text, hold->host[0] == '\0' ? "?" : hold->host);
    if (hold->pid != 0) {
        cli_text_print(text, ":%" PRId64, hold->pid);
    }
    if (hold->command[0] != '\0') {
        cli_text_add_string(text, " ");
        cli_text_add_safe(text, hold->command);
    }
}

/* A number, or "-" if it is not known. */
static void add_number(struct cli_table *table, int64_t number, bool known)
{
    if (known) {
        cli_table_print(table, "%" PRId64, number);
    } else {
        cli_table_add(table, "-");
    }
}

static void add_safe_or_dash(struct cli_table *table, const char *text)
{
    cli_table_add_safe(table, text[0] == '\0' ? "-" : text);
}

static void add_row(struct cli_table *table, const struct cli_hold *hold)
{
    struct cli_text left = CLI_TEXT_INIT;
    cli_table_add_safe(table, hold->name);
    add_safe_or_dash(table, hold->host);
    add_number(table, hold->pid, hold->pid != 0);
    add_safe_or_dash(table, hold->command);
    if (hold->remaining_ms >= 0) {
        cli_text_add_duration(&left, hold->remaining_ms);
    }
    add_safe_or_dash(table, cli_text_string(&left));
    add_number(table, hold->waiters, hold->waiters >= 0);
    add_number(table, hold->hold_count, true);
    cli_table_add(table, cli_kind_name(hold->kind));
    if (hold->token != 0) {
        cli_table_print(table, "%" PRIu64, hold->token);
    } else {
        cli_table_add(table, "-");
    }
    add_safe_or_dash(table, hold->holder);
    cli_text_free(&left);
}

void cli_holds_table(
    const struct cli_holds *holds, const struct cli_table_limits *limits, struct cli_text *text)
{
    struct cli_table table;
    cli_table_open(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < holds->count; i++) {
        add_row(&table, &holds->items[i]);
    }
    cli_table_render(&table, limits, text);
    cli_table_close(&table);
}

/* ===== For programs ===== */

void cli_hold_json_holder(struct cli_json *json, const struct cli_hold *hold)
{
    cli_json_bytes_or_null(json, "owner", hold->holder);
    cli_json_bytes_or_null(json, "host", hold->host);
    cli_json_integer_or_null(json, "pid", hold->pid, hold->pid != 0);
    cli_json_bytes_or_null(json, "command", hold->command);
    cli_json_integer_or_null(json, "client_age_ms", hold->since_ms, hold->since_ms >= 0);
    cli_json_integer(json, "hold_count", hold->hold_count);
}

void cli_hold_json_members(struct cli_json *json, const struct cli_hold *hold)
{
    cli_json_bytes(json, "name", hold->name);
    cli_json_string(json, "kind", cli_kind_name(hold->kind));
    cli_json_bool(json, "held", hold->held);
    cli_hold_json_holder(json, hold);
    cli_json_integer_or_null(
        json, "remaining_ms", hold->remaining_ms, hold->held && hold->remaining_ms >= 0);
    cli_json_integer_or_null(json, "waiters", hold->waiters, hold->waiters >= 0);
    cli_json_token(json, "token", hold->token);
    const bool known = hold->permits != CLI_PERMITS_UNKNOWN;
    if (hold->kind == PAWL_LATCH) {
        cli_json_integer_or_null(json, "count", hold->permits, known);
    } else if (hold->kind == PAWL_SEMAPHORE) {
        cli_json_integer_or_null(json, "permits", hold->permits, known);
        cli_json_integer_or_null(json, "free_permits", hold->free_permits, known);
    }
}

void cli_hold_json(struct cli_json *json, const char *key, const struct cli_hold *hold)
{
    cli_json_object(json, key);
    cli_hold_json_members(json, hold);
    cli_json_object_end(json);
}

void cli_holds_json(struct cli_json *json, const char *key, const struct cli_holds *holds)
{
    cli_json_list(json, key);
    for (size_t i = 0; i < holds->count; i++) {
        cli_hold_json(json, NULL, &holds->items[i]);
    }
    cli_json_list_end(json);
}
