/* SPDX-License-Identifier: Apache-2.0 */
/* See view.h. */
#include "common/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOLD_MAX = 64 }; /* holders of one lock; of more, some are left out */

static const struct cli_table_column holder_columns[] = {
    {.title = "KIND"},
    {.title = "HOST"},
    {.title = "PID", .right = true},
    {.title = "COMMAND"},
    {.title = "RUNNING", .right = true},
    {.title = "LEFT", .right = true},
    {.title = "COUNT", .right = true},
    {.title = "OWNER"},
};

static const struct cli_table_column permit_columns[] = {
    {.title = "PERMIT"},
    {.title = "LEFT", .right = true},
};

static const struct cli_table_column queue_columns[] = {
    {.title = "QUEUE", .right = true},
    {.title = "HOST"},
    {.title = "PID", .right = true},
    {.title = "COMMAND"},
    {.title = "ALIVE", .right = true},
    {.title = "OWNER"},
};

/* ===== Taking ===== */

/* The pattern that means this one name. */
static void pattern_of(const char *name, struct cli_text *pattern)
{
    for (const char *at = name; *at != '\0'; at++) {
        if (strchr("*?[]\\^-", *at) != NULL) {
            cli_text_add_string(pattern, "\\");
        }
        cli_text_add(pattern, at, 1);
    }
}

static bool collect_waiter(const pawl_waiter *waiter, void *arg)
{
    struct cli_view *view = arg;
    if (view->queue_count == view->queue_room) {
        view->queue_room = view->queue_room == 0 ? 16 : view->queue_room * 2;
        view->queue = cli_memory_resize(view->queue, view->queue_room, sizeof *view->queue);
    }
    view->queue[view->queue_count++] = *waiter;
    return true;
}

/* Everybody who holds it. */
static pawl_status take_holders(
    pawl_client *client, const pawl_entry *entry, struct cli_holds *holders)
{
    pawl_status status = PAWL_OK;
    if (entry->held && cli_kind_is_shared(entry->kind)) {
        struct cli_text pattern = CLI_TEXT_INIT;
        pattern_of(entry->name, &pattern);
        status = pawl_client_list(client, cli_text_string(&pattern), cli_holds_collect, holders);
        cli_text_free(&pattern);
    }
    if (holders->count == 0 && entry->held) {
        cli_holds_collect(entry, holders);
    }
    cli_holds_sort(holders);
    return status;
}

/* Engines without queues say so; then nobody stands in one. */
static pawl_status take_queue(pawl_client *client, const pawl_entry *entry, struct cli_view *view)
{
    if (entry->kind != PAWL_FAIR) {
        return PAWL_OK;
    }
    const pawl_status status = pawl_client_queue(client, entry->name, collect_waiter, view);
    return status == PAWL_UNSUPPORTED ? PAWL_OK : status;
}

pawl_status cli_view_take(pawl_client *client, const char *name, struct cli_view *view_out)
{
    pawl_entry entry = {.size = sizeof entry};
    pawl_status status = pawl_client_look(client, name, &entry);
    if (status != PAWL_OK) {
        return status;
    }
    *view_out = (struct cli_view){.holders = CLI_HOLDS_INIT};
    status = take_holders(client, &entry, &view_out->holders);
    if (status == PAWL_OK) {
        status = take_queue(client, &entry, view_out);
    }
    view_out->unheld = cli_hold_from(&entry);
    if (status != PAWL_OK) {
        cli_view_free(view_out);
    }
    return status;
}

/* How many permits are free; asking counts those back whose lease is over. */
static pawl_status ask_free_permits(pawl_client *client, const char *name, int64_t *free_out)
{
    pawl_semaphore *semaphore = NULL;
    pawl_semaphore_options options = PAWL_SEMAPHORE_OPTIONS_INIT;
    options.leased = true;
    pawl_status status = pawl_semaphore_open(client, name, &options, &semaphore);
    if (status == PAWL_OK) {
        status = pawl_semaphore_available(semaphore, free_out);
        pawl_semaphore_close(semaphore);
    }
    return status;
}

/* Of a number that nobody holds, or nobody can be seen to. */
static void view_number(const char *name, pawl_kind kind, int64_t number, struct cli_view *view_out)
{
    pawl_entry entry = {.kind = kind,
        .remaining_ms = -1,
        .permits = number,
        .free_permits = number,
        .since_ms = -1,
        .waiters = -1};
    snprintf(entry.name, sizeof entry.name, "%s", name);
    *view_out = (struct cli_view){.holders = CLI_HOLDS_INIT, .unheld = cli_hold_from(&entry)};
}

/* What is no lock and has no permits out may be a semaphore that nobody uses; what is a lock is
 * refused by the question. */
pawl_status cli_view_take_semaphore(
    pawl_client *client, const char *name, struct cli_view *view_out)
{
    int64_t free_permits = 0;
    pawl_status status = cli_view_take(client, name, view_out);
    if (status == PAWL_OK && cli_view_lock(view_out)->kind == PAWL_SEMAPHORE) {
        return PAWL_OK;
    }
    if (status == PAWL_OK) {
        cli_view_free(view_out);
    } else if (status != PAWL_REFUSED) {
        return status;
    }
    status = ask_free_permits(client, name, &free_permits);
    if (status == PAWL_OK) {
        view_number(name, PAWL_SEMAPHORE, free_permits, view_out);
        view_out->unheld.held = free_permits <= 0; /* whoever asks has to wait */
    }
    return status;
}

pawl_status cli_view_take_latch(pawl_client *client, const char *name, struct cli_view *view_out)
{
    int64_t count = 0;
    pawl_latch *latch = NULL;
    pawl_status status = pawl_latch_open(client, name, &latch);
    if (status == PAWL_OK) {
        status = pawl_latch_count(latch, &count);
        pawl_latch_close(latch);
    }
    if (status == PAWL_OK) {
        view_number(name, PAWL_LATCH, count, view_out);
        view_out->unheld.held = count > 0;
    }
    return status;
}

void cli_view_free(struct cli_view *view)
{
    cli_hold_free(&view->unheld);
    cli_holds_free(&view->holders);
    free(view->queue);
    *view = (struct cli_view){.holders = CLI_HOLDS_INIT};
}

const struct cli_hold *cli_view_lock(const struct cli_view *view)
{
    return view->holders.count > 0 ? &view->holders.items[0] : &view->unheld;
}

/* ===== For people ===== */

/* A labelled line; the value follows. */
static void begin_line(struct cli_text *text, size_t indent, const char *label)
{
    cli_text_add_spaces(text, indent);
    cli_text_print(text, "%-10s", label);
}

static void add_line(struct cli_text *text, size_t indent, const char *label, const char *value)
{
    if (value[0] != '\0') {
        begin_line(text, indent, label);
        cli_text_add_safe(text, value);
        cli_text_add_string(text, "\n");
    }
}

/* Of several who hold it: of the last one. */
static void add_left(const struct cli_holds *holders, size_t indent, struct cli_text *text)
{
    int64_t left_ms = 0;
    for (size_t i = 0; i < holders->count && left_ms >= 0; i++) {
        const int64_t own_ms = holders->items[i].remaining_ms;
        left_ms = own_ms < 0 || own_ms > left_ms ? own_ms : left_ms;
    }
    begin_line(text, indent, "left");
    if (left_ms < 0) {
        /* A lock in a file ends with its process; what a server keeps without a limit does not. */
        cli_text_print(text, "no limit: until it is released%s\n",
            holders->items[0].pid != 0 ? " or its process ends" : "");
        return;
    }
    cli_text_add_duration(text, left_ms);
    cli_text_add_string(text, ", if nobody renews it\n");
}

static void add_holder_lines(const struct cli_hold *hold, size_t indent, struct cli_text *text)
{
    add_line(text, indent, "host", hold->host);
    if (hold->pid != 0) {
        begin_line(text, indent, "pid");
        cli_text_print(text, "%" PRId64 "\n", hold->pid);
    }
    add_line(text, indent, "command", hold->command);
    if (hold->since_ms >= 0) {
        begin_line(text, indent, "running");
        cli_text_add_string(text, "for ");
        cli_text_add_duration(text, hold->since_ms);
        cli_text_add_string(text, " (the process that holds it)\n");
    }
    add_line(text, indent, "owner", hold->holder);
    begin_line(text, indent, "count");
    cli_text_print(text, "%u\n", hold->hold_count);
}

/* "1 free"; fewer than none after somebody has taken the number down. */
static void add_free_count(int64_t count, struct cli_text *text)
{
    cli_text_print(text, "%" PRId64 " free", count);
    if (count < 0) {
        cli_text_print(text, ": %" PRId64 " have to come back before one is", 1 - count);
    }
}

/* "2 taken, 1 free" */
static void add_permit_count(const struct cli_view *view, size_t indent, struct cli_text *text)
{
    const struct cli_hold *hold = cli_view_lock(view);
    const int64_t taken = hold->permits - hold->free_permits;
    begin_line(text, indent, "permits");
    if (view->holders.count > 0) {
        cli_text_print(text, "%" PRId64 " taken, ", taken);
    }
    add_free_count(hold->free_permits, text);
    if (view->holders.count == 0) {
        cli_text_print(text, "%s and none with a lease is out", hold->free_permits < 0 ? ";" : ",");
    } else if (taken > (int64_t)view->holders.count) {
        cli_text_print(text, "; %zu of them are shown", view->holders.count);
    }
    cli_text_add_string(text, "\n");
}

/* "1 writer, 2 readers", and below the other lines a table of them. */
static void add_holder_count(const struct cli_view *view, size_t indent, struct cli_text *text)
{
    size_t writers = 0;
    for (size_t i = 0; i < view->holders.count; i++) {
        writers += view->holders.items[i].kind == PAWL_WRITE ? 1 : 0;
    }
    const size_t readers = view->holders.count - writers;
    begin_line(text, indent, "holders");
    if (writers > 0) {
        cli_text_print(text, "%zu writer%s, ", writers, writers == 1 ? "" : "s");
    }
    cli_text_print(text, "%zu%s reader%s\n", readers,
        view->holders.count >= TOLD_MAX ? " or more" : "", readers == 1 ? "" : "s");
}

static void add_waiters(const struct cli_hold *hold, size_t indent, struct cli_text *text)
{
    if (hold->waiters < 0) {
        return;
    }
    begin_line(text, indent, "waiters");
    if (hold->waiters == 0) {
        cli_text_add_string(text, "none known\n");
    } else {
        cli_text_print(text, "%" PRId64 "%s\n", hold->waiters,
            hold->kind == PAWL_FAIR ? ", in a queue" : " or more");
    }
}

/* An empty line, and the table, indented as the lines are. */
static void add_table(const struct cli_table *table, size_t indent, struct cli_text *text)
{
    struct cli_text rendered = CLI_TEXT_INIT;
    cli_table_render(table, &(struct cli_table_limits){0}, &rendered);
    cli_text_add_string(text, "\n");
    const char *line = cli_text_string(&rendered);
    while (*line != '\0') {
        const size_t size = strcspn(line, "\n") + 1;
        cli_text_add_spaces(text, indent);
        cli_text_add(text, line, size);
        line += size;
    }
    cli_text_free(&rendered);
}

static void add_process(struct cli_table *table, const char *host, int64_t pid, const char *command)
{
    cli_table_add_safe(table, host[0] != '\0' ? host : "-");
    if (pid != 0) {
        cli_table_print(table, "%" PRId64, pid);
    } else {
        cli_table_add(table, "-");
    }
    cli_table_add_safe(table, command[0] != '\0' ? command : "-");
}

static void add_duration(struct cli_table *table, int64_t duration_ms)
{
    struct cli_text text = CLI_TEXT_INIT;
    if (duration_ms >= 0) {
        cli_text_add_duration(&text, duration_ms);
    }
    cli_table_add(table, duration_ms >= 0 ? cli_text_string(&text) : "-");
    cli_text_free(&text);
}

static void add_holders(const struct cli_holds *holders, size_t indent, struct cli_text *text)
{
    struct cli_table table;
    cli_table_open(&table, holder_columns, sizeof holder_columns / sizeof holder_columns[0]);
    for (size_t i = 0; i < holders->count; i++) {
        const struct cli_hold *hold = &holders->items[i];
        cli_table_add(&table, cli_kind_name(hold->kind));
        add_process(&table, hold->host, hold->pid, hold->command);
        add_duration(&table, hold->since_ms);
        add_duration(&table, hold->remaining_ms);
        cli_table_print(&table, "%u", hold->hold_count);
        cli_table_add_safe(&table, hold->holder);
    }
    add_table(&table, indent, text);
    cli_table_close(&table);
}

static void add_permits(const struct cli_holds *holders, size_t indent, struct cli_text *text)
{
    struct cli_table table;
    cli_table_open(&table, permit_columns, sizeof permit_columns / sizeof permit_columns[0]);
    for (size_t i = 0; i < holders->count; i++) {
        cli_table_add_safe(&table, holders->items[i].holder);
        add_duration(&table, holders->items[i].remaining_ms);
    }
    add_table(&table, indent, text);
    cli_table_close(&table);
}

static void add_queue(const struct cli_view *view, size_t indent, struct cli_text *text)
{
    struct cli_table table;
    cli_table_open(&table, queue_columns, sizeof queue_columns / sizeof queue_columns[0]);
    for (size_t i = 0; i < view->queue_count; i++) {
        const pawl_waiter *waiter = &view->queue[i];
        cli_table_print(&table, "%u", waiter->position);
        add_process(&table, waiter->host, waiter->pid, waiter->command);
        if (waiter->alive_ms > 0) {
            add_duration(&table, waiter->alive_ms);
        } else {
            cli_table_add(&table, "dead");
        }
        cli_table_add_safe(&table, waiter->owner);
    }
    add_table(&table, indent, text);
    cli_table_close(&table);
}

/* The lines about those who hold it, above their table if there is one. */
static void add_holding(const struct cli_view *view, size_t indent, struct cli_text *text)
{
    const struct cli_hold *hold = cli_view_lock(view);
    if (hold->kind == PAWL_SEMAPHORE) {
        add_permit_count(view, indent, text);
        return;
    }
    if (hold->kind == PAWL_LATCH) {
        begin_line(text, indent, "count");
        cli_text_print(text, "%" PRId64 " to go\n", hold->permits);
        return;
    }
    if (view->holders.count > 1) {
        add_holder_count(view, indent, text);
    } else if (hold->held) {
        add_holder_lines(hold, indent, text);
    }
    if (hold->held) {
        add_left(&view->holders, indent, text);
    }
}

static const char *state_of(const struct cli_hold *hold)
{
    if (hold->kind == PAWL_LATCH) {
        return hold->held ? "shut" : "open";
    }
    if (hold->kind == PAWL_SEMAPHORE && hold->free_permits <= 0) {
        return "no permit is free";
    }
    return hold->held ? "held" : "free";
}

void cli_view_add_lines(const struct cli_view *view, size_t indent, struct cli_text *text)
{
    const struct cli_hold *hold = cli_view_lock(view);
    add_line(text, indent, "name", hold->name);
    add_line(text, indent, "state", state_of(hold));
    if (hold->held || hold->kind != PAWL_MUTEX) { /* a free one leaves no trace of what it was */
        add_line(text, indent, "kind", cli_kind_name(hold->kind));
    }
    add_holding(view, indent, text);
    add_waiters(hold, indent, text);
    if (hold->token != 0) {
        begin_line(text, indent, "token");
        cli_text_print(text, "%" PRIu64 "\n", hold->token);
    }
    if (hold->kind == PAWL_SEMAPHORE && view->holders.count > 0) {
        add_permits(&view->holders, indent, text);
    } else if (view->holders.count > 1) {
        add_holders(&view->holders, indent, text);
    }
    if (view->queue_count > 0) {
        add_queue(view, indent, text);
    }
}

/* ===== For programs ===== */

static void holders_json(struct cli_json *json, const struct cli_holds *holders)
{
    cli_json_list(json, "holders");
    for (size_t i = 0; i < holders->count; i++) {
        cli_json_object(json, NULL);
        cli_json_string(json, "kind", cli_kind_name(holders->items[i].kind));
        cli_hold_json_holder(json, &holders->items[i]);
        cli_json_integer_or_null(json, "remaining_ms", holders->items[i].remaining_ms,
            holders->items[i].remaining_ms >= 0);
        cli_json_object_end(json);
    }
    cli_json_list_end(json);
}

static void queue_json(struct cli_json *json, const struct cli_view *view)
{
    cli_json_list(json, "queue");
    for (size_t i = 0; i < view->queue_count; i++) {
        const pawl_waiter *waiter = &view->queue[i];
        cli_json_object(json, NULL);
        cli_json_integer(json, "position", waiter->position);
        cli_json_bytes(json, "owner", waiter->owner);
        cli_json_bytes_or_null(json, "host", waiter->host);
        cli_json_integer_or_null(json, "pid", waiter->pid, waiter->pid != 0);
        cli_json_bytes_or_null(json, "command", waiter->command);
        cli_json_integer(json, "alive_ms", waiter->alive_ms);
        cli_json_object_end(json);
    }
    cli_json_list_end(json);
}

void cli_view_json(struct cli_json *json, const struct cli_view *view)
{
    cli_json_object(json, NULL);
    cli_hold_json_members(json, cli_view_lock(view));
    holders_json(json, &view->holders);
    queue_json(json, view);
    cli_json_object_end(json);
}
