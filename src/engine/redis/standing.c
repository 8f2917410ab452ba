/* SPDX-License-Identifier: Apache-2.0 */
/* Who a server is, and who it has seen; standing.h says what for. */
#include "engine/redis/standing.h"

#include "base/clock.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEY_SIZE = 16 + PAWL__IDENTITY_SIZE, NUMBER_SIZE = 24 };

#define NOTE_TTL_S "2592000" /* 30 days */

void pawl__identity_note(struct pawl__server_identity *identity, const struct pawl__greet *greet)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall); /* uptimes are by the server's */
    *identity = (struct pawl__server_identity){.database = greet->config->db,
        .replica = greet->replica,
        .durable = greet->config->durable,
        .uptime_us = pawl__max64(greet->uptime_us - 1000000, 0), /* it is in whole seconds */
        .clock_us = greet->time_us,
        .wall_us = (int64_t)wall.tv_sec * 1000000 + wall.tv_nsec / 1000,
        .read_us = pawl__now_us()};
    memcpy(identity->run_id, greet->run_id, sizeof identity->run_id);
}

/* ===== Does it forget? ===== */

/* The value in CONFIG GET's answer is this. */
static pawl_status config_is(
    struct pawl__console *console, const char *parameter, const char *value, bool *is_out)
{
    const char *const words[] = {"CONFIG", "GET", parameter};
    const struct pawl__resp_node *reply = NULL;
    const pawl_status status = pawl__console_ask(console, 3, words, &reply);
    if (status != PAWL_OK) {
        return status;
    }
    const struct pawl__resp_reader *reader = &console->link.reader;
    const struct pawl__resp_node *found =
        reply->type == PAWL__RESP_MAP ? pawl__resp_map_get(reader, reply, parameter) : NULL;
    *is_out = found != NULL && pawl__resp_text_equals(reader, found, value);
    return PAWL_OK;
}

pawl_status pawl__standing_durable(const struct pawl__redis_config *config, bool *durable_out)
{
    struct pawl__console console;
    bool appends = false;
    bool always = false;
    *durable_out = config->durable;
    if (config->durable) {
        return PAWL_OK;
    }
    pawl_status status = pawl__console_open(&console, config);
    if (status != PAWL_OK) {
        return status;
    }
    status = config_is(&console, "appendonly", "yes", &appends);
    if (status == PAWL_OK) {
        status = config_is(&console, "appendfsync", "always", &always);
    }
    *durable_out = status == PAWL_OK && appends && always;
    pawl__console_close(&console);
    return status;
}

/* ===== Whom has it seen? ===== */

/* A number in decimal text; -1 if it is none. */
static int64_t number_of(const struct pawl__resp_reader *reader, const struct pawl__resp_node *node)
{
    char text[NUMBER_SIZE];
    if (node == NULL || node->type != PAWL__RESP_TEXT || node->text_size == 0 ||
        node->text_size >= sizeof text - 4) {
        return -1;
    }
    memcpy(text, pawl__resp_text(reader, node), node->text_size);
    text[node->text_size] = '\0';
    char *end = NULL;
    const long long number = strtoll(text, &end, 10);
    return *end == '\0' && number >= 0 ? number : -1;
}

static pawl_status ask_time(struct pawl__console *console, int64_t *now_ms_out)
{
    const char *const words[] = {"TIME"};
    const struct pawl__resp_node *reply = NULL;
    const pawl_status status = pawl__console_ask(console, 1, words, &reply);
    if (status != PAWL_OK) {
        return status;
    }
    const struct pawl__resp_reader *reader = &console->link.reader;
    if (reply->type != PAWL__RESP_ARRAY || reply->child_count != 2) {
        return pawl__console_fail(console, reply, "ask for the time", "+time");
    }
    const struct pawl__resp_node *seconds = pawl__resp_first(reader, reply);
    const int64_t s = number_of(reader, seconds);
    const int64_t us = number_of(reader, pawl__resp_next(reader, reply, seconds));
    *now_ms_out = s * 1000 + us / 1000;
    return PAWL_OK;
}

/* Look up one run, and note it if it is not there and that was asked for. Errors of the server mean
 * that there is no note: the user may have no right to these keys. */
static pawl_status look_up(
    struct pawl__console *console, struct pawl__sighting *sighting, int64_t now_ms)
{
    char key[KEY_SIZE];
    char value[NUMBER_SIZE];
    const struct pawl__resp_node *reply = NULL;
    snprintf(key, sizeof key, "pawl_seen:%s", sighting->run_id);
    const char *const get[] = {"GET", key};
    const char *const keep[] = {"EXPIRE", key, NOTE_TTL_S};
    const char *const set[] = {"SET", key, value, "NX", "EX", NOTE_TTL_S};
    pawl_status status = pawl__console_ask(console, 2, get, &reply);
    if (status != PAWL_OK) {
        return status;
    }
    const int64_t seen_ms = number_of(&console->link.reader, reply);
    sighting->age_us = seen_ms < 0 ? -1 : pawl__max64(now_ms - seen_ms, 0) * 1000;
    if (seen_ms >= 0 && !sighting->lasting) {
        return pawl__console_ask(console, 3, keep, &reply);
    }
    if (seen_ms >= 0 || sighting->note_us < 0) {
        return PAWL_OK;
    }
    snprintf(value, sizeof value, "%" PRId64, now_ms - sighting->note_us / 1000);
    return pawl__console_ask(console, sighting->lasting ? 4 : 6, set, &reply);
}

pawl_status pawl__standing_seen(
    const struct pawl__redis_config *config, struct pawl__sighting *sightings, size_t count)
{
    struct pawl__console console;
    int64_t now_ms = 0;
    pawl_status status = pawl__console_open(&console, config);
    if (status != PAWL_OK) {
        return status;
    }
    status = ask_time(&console, &now_ms);
    for (size_t i = 0; status == PAWL_OK && i < count; i++) {
        status = look_up(&console, &sightings[i], now_ms);
    }
    pawl__console_close(&console);
    return status;
}
