/* SPDX-License-Identifier: Apache-2.0 */
/* The usual answers of a healthy, empty, single Redis 7.0 server, as handlers of the scripted
 * server. INFO comes from a table of fields that tests can change one by one. */
#include "support/scripted_internal.h"

#include "support/sha1.h"

#include <string.h>
#include <strings.h>
#include <time.h>

/* A healthy server's INFO, as far as a lock client may look at it. */
static const struct {
    const char *name;
    const char *value;
} healthy[] = {
    {"redis_version", "7.0.15"},
    {"redis_mode", "standalone"},
    {"process_id", "4242"},
    {"run_id", "0123456789abcdef0123456789abcdef01234567"},
    {"uptime_in_seconds", "864000"},
    {"maxmemory", "0"},
    {"maxmemory_policy", "noeviction"},
    {"loading", "0"},
    {"async_loading", "0"},
    {"aof_enabled", "0"},
    {"aof_last_write_status", "ok"},
    {"evicted_keys", "0"},
    {"role", "master"},
    {"connected_slaves", "0"},
    {"master_failover_state", "no-failover"},
    {"master_replid", "89abcdef0123456789abcdef0123456789abcdef"},
    {"cluster_enabled", "0"},
};

/* A field's value: the test's word if there is one, else the table's. */
static const char *info_value(const struct scripted *scripted, const char *name)
{
    for (const struct info_field *field = scripted->info; field != NULL; field = field->next) {
        if (strcmp(field->name, name) == 0) {
            return field->value;
        }
    }
    for (size_t i = 0; i < sizeof healthy / sizeof healthy[0]; i++) {
        if (strcmp(healthy[i].name, name) == 0) {
            return healthy[i].value;
        }
    }
    return "";
}

static bool in_table(const char *name)
{
    for (size_t i = 0; i < sizeof healthy / sizeof healthy[0]; i++) {
        if (strcmp(healthy[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void add_bulk(struct text *reply, const char *data, size_t size)
{
    text_addf(reply, "$%zu\r\n", size);
    text_add(reply, data, size);
    text_add(reply, "\r\n", 2);
}

static void add_string(struct text *reply, const char *string)
{
    add_bulk(reply, string, strlen(string));
}

/* The mutex is taken here since handlers run without it. */
static void answer_info(struct scripted_turn *turn, void *arg)
{
    struct scripted *scripted = arg;
    struct text info = {0};
    pthread_mutex_lock(&scripted->mutex);
    text_add_string(&info, "# Server\r\n");
    for (size_t i = 0; i < sizeof healthy / sizeof healthy[0]; i++) {
        text_addf(&info, "%s:%s\r\n", healthy[i].name, info_value(scripted, healthy[i].name));
    }
    for (const struct info_field *field = scripted->info; field != NULL; field = field->next) {
        if (!in_table(field->name)) {
            text_addf(&info, "%s:%s\r\n", field->name, field->value);
        }
    }
    pthread_mutex_unlock(&scripted->mutex);
    if (turn->resp3) {
        text_addf(&turn->reply, "=%zu\r\ntxt:", info.size + 4);
        text_add(&turn->reply, info.data, info.size);
        text_add(&turn->reply, "\r\n", 2);
    } else {
        add_bulk(&turn->reply, info.data, info.size);
    }
    text_free(&info);
}

static void answer_hello(struct scripted_turn *turn, void *arg)
{
    struct scripted *scripted = arg;
    if (turn->words->count > 1) {
        turn->resp3 = strcmp(turn->words->items[1], "3") == 0;
    }
    struct text *reply = &turn->reply;
    text_add_string(reply, turn->resp3 ? "%7\r\n" : "*14\r\n");
    add_string(reply, "server");
    add_string(reply, "redis");
    add_string(reply, "version");
    pthread_mutex_lock(&scripted->mutex);
    add_string(reply, info_value(scripted, "redis_version"));
    text_addf(
        reply, "$5\r\nproto\r\n:%d\r\n$2\r\nid\r\n:%zu\r\n", turn->resp3 ? 3 : 2, turn->connection);
    add_string(reply, "mode");
    add_string(reply, info_value(scripted, "redis_mode"));
    add_string(reply, "role");
    const bool primary = strcmp(info_value(scripted, "role"), "master") == 0;
    pthread_mutex_unlock(&scripted->mutex);
    add_string(reply, primary ? "master" : "replica");
    add_string(reply, "modules");
    text_add_string(reply, "*0\r\n");
}

static void answer_client_id(struct scripted_turn *turn, void *arg)
{
    (void)arg;
    text_addf(&turn->reply, ":%zu\r\n", turn->connection);
}

static void answer_script_load(struct scripted_turn *turn, void *arg)
{
    (void)arg;
    if (turn->words->count != 3) {
        text_add_string(&turn->reply, "-ERR wrong number of arguments\r\n");
        return;
    }
    char hex[41];
    sha1_hex(turn->words->items[2], turn->words->sizes[2], hex);
    add_string(&turn->reply, hex);
}

static void answer_script_exists(struct scripted_turn *turn, void *arg)
{
    (void)arg;
    text_addf(&turn->reply, "*%zu\r\n", turn->words->count - 2);
    for (size_t i = 2; i < turn->words->count; i++) {
        text_add_string(&turn->reply, ":1\r\n");
    }
}

/* One confirmation for each channel. The count is that of this command alone. */
static void answer_subscribe(struct scripted_turn *turn, void *arg)
{
    const char *kind = arg;
    const bool leaving = strstr(kind, "un") != NULL;
    for (size_t i = 1; i < turn->words->count; i++) {
        text_add_string(&turn->reply, turn->resp3 ? ">3\r\n" : "*3\r\n");
        add_string(&turn->reply, kind);
        add_bulk(&turn->reply, turn->words->items[i], turn->words->sizes[i]);
        text_addf(&turn->reply, ":%zu\r\n", leaving ? 0 : i);
    }
    if (turn->words->count == 1) {
        text_addf(&turn->reply, "%c3\r\n", turn->resp3 ? '>' : '*');
        add_string(&turn->reply, kind);
        text_add_string(&turn->reply, turn->resp3 ? "_\r\n:0\r\n" : "$-1\r\n:0\r\n");
    }
}

static void answer_time(struct scripted_turn *turn, void *arg)
{
    (void)arg;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct text seconds = {0};
    struct text microseconds = {0};
    text_addf(&seconds, "%lld", (long long)now.tv_sec);
    text_addf(&microseconds, "%ld", now.tv_nsec / 1000);
    text_add_string(&turn->reply, "*2\r\n");
    add_string(&turn->reply, seconds.data);
    add_string(&turn->reply, microseconds.data);
    text_free(&seconds);
    text_free(&microseconds);
}

static void answer_config_get(struct scripted_turn *turn, void *arg)
{
    (void)arg;
    text_add_string(&turn->reply, turn->resp3 ? "%0\r\n" : "*0\r\n");
}

static void answer_quit(struct scripted_turn *turn, void *arg)
{
    (void)arg;
    text_add_string(&turn->reply, "+OK\r\n");
    turn->close = true;
}

void scripted_handshake(struct scripted *scripted)
{
    static char kinds[][16] = {
        "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        scripted_handle_with(scripted, kinds[i], answer_subscribe, kinds[i]);
    }
    scripted_handle(scripted, "CLIENT", "+OK\\r\\n");
    scripted_handle(scripted, "CLIENT KILL", ":1\\r\\n");
    scripted_handle_with(scripted, "CLIENT ID", answer_client_id, NULL);
    scripted_handle(scripted, "AUTH", "+OK\\r\\n");
    scripted_handle(scripted, "SELECT", "+OK\\r\\n");
    scripted_handle(scripted, "DEL", ":1\\r\\n");
    scripted_handle(scripted, "PING", "+PONG\\r\\n");
    scripted_handle(scripted, "ACL WHOAMI", "$7\\r\\ndefault\\r\\n");
    scripted_handle(scripted, "ROLE", "*3\\r\\n$6\\r\\nmaster\\r\\n:0\\r\\n*0\\r\\n");
    scripted_handle_with(scripted, "HELLO", answer_hello, scripted);
    scripted_handle_with(scripted, "INFO", answer_info, scripted);
    scripted_handle_with(scripted, "TIME", answer_time, NULL);
    scripted_handle_with(scripted, "CONFIG GET", answer_config_get, NULL);
    scripted_handle_with(scripted, "SCRIPT LOAD", answer_script_load, NULL);
    scripted_handle_with(scripted, "SCRIPT EXISTS", answer_script_exists, NULL);
    scripted_handle_with(scripted, "QUIT", answer_quit, NULL);
}
