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

enum {
    KEY_SIZE = 16 + PAWL__IDENTITY_SIZE,
    NUMBER_SIZE = 24,
    CLOCK_NUMBERS = 4,
    CLOCK_SIZE = CLOCK_NUMBERS * NUMBER_SIZE,
    US_PER_S = 1000000
};

#define TIME_MAX_S INT64_C(100000000000)
#define APART_MAX_US (TIME_MAX_S * US_PER_S) /* so far no two clocks are */

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
        .read_us = pawl__now_us(),
        .sample = identity->sample}; /* with it comes a grant that may not have been judged yet */
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

/* ===== What time is it there? ===== */

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

/* Its clock, which says 0 if it makes no sense. */
static pawl_status ask_time(struct pawl__console *console, struct pawl__clock_sample *sample_out)
{
    const char *const words[] = {"TIME"};
    const struct pawl__resp_node *reply = NULL;
    sample_out->asked_us = pawl__now_us();
    const pawl_status status = pawl__console_ask(console, 1, words, &reply);
    sample_out->heard_us = pawl__now_us();
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
    const bool sound = s >= 0 && s <= TIME_MAX_S && us >= 0 && us < US_PER_S;
    sample_out->clock_us = sound ? s * US_PER_S + us : 0;
    return PAWL_OK;
}

/* ===== How did its clock differ? ===== */

static void write_clock(const struct pawl__clock_note *note, int64_t now_ms, char out[CLOCK_SIZE])
{
    const int64_t jumped_ms = note->jumped_us < 0 ? 0 : now_ms - note->jumped_us / 1000;
    snprintf(out, CLOCK_SIZE, "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, note->least_us,
        note->most_us, now_ms, pawl__max64(jumped_ms, 0));
}

/* False: it is no such text. */
static bool read_numbers(const char *text, int64_t numbers[CLOCK_NUMBERS])
{
    for (int i = 0; i < CLOCK_NUMBERS; i++) {
        char *end = NULL;
        numbers[i] = strtoll(text, &end, 10);
        const bool last = i == CLOCK_NUMBERS - 1;
        if (end == text || *end != (last ? '\0' : ' ') || numbers[i] > APART_MAX_US ||
            numbers[i] < (i < 2 ? -APART_MAX_US : 0)) {
            return false;
        }
        text = end + 1;
    }
    return numbers[0] <= numbers[1];
}

static struct pawl__clock_note read_clock(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *reply, int64_t now_ms)
{
    struct pawl__clock_note note = {0, 0, -1, -1};
    char text[CLOCK_SIZE];
    int64_t numbers[CLOCK_NUMBERS];
    if (reply->type != PAWL__RESP_TEXT || reply->text_size >= sizeof text) {
        return note;
    }
    memcpy(text, pawl__resp_text(reader, reply), reply->text_size);
    text[reply->text_size] = '\0';
    if (read_numbers(text, numbers)) {
        note.least_us = numbers[0];
        note.most_us = numbers[1];
        note.age_us = pawl__max64(now_ms - numbers[2], 0) * 1000;
        note.jumped_us = numbers[3] == 0 ? -1 : pawl__max64(now_ms - numbers[3], 0) * 1000;
    }
    return note;
}

/* ===== Whom has it seen? ===== */

/* A few questions at once, in as many turns as one takes. */
struct questions {
    struct pawl__console *console;
    size_t count;
    bool put;
};

static void put(struct questions *questions, size_t word_count, const char *const words[])
{
    questions->put = questions->put &&
                     pawl__resp_put_command(&questions->console->link.out, word_count, words, NULL);
    questions->count++;
}

/* The next of the replies. */
static pawl_status take(struct questions *questions, const struct pawl__resp_node **reply_out)
{
    struct pawl__console *console = questions->console;
    if (!questions->put) {
        pawl__console_no_memory();
        return PAWL_NO_MEMORY;
    }
    questions->count--;
    return pawl__console_reply(console, pawl__console_deadline(console), reply_out);
}

static pawl_status take_rest(struct questions *questions)
{
    const struct pawl__resp_node *reply = NULL;
    pawl_status status = PAWL_OK;
    while (status == PAWL_OK && questions->count > 0) {
        status = take(questions, &reply);
    }
    return status;
}

/* Note what is not there, if that was asked for, and keep what is. */
static pawl_status note(struct pawl__console *console, const struct pawl__sighting *sighting,
    const char *key, const char *clock_key, int64_t now_ms)
{
    char value[NUMBER_SIZE];
    char clock[CLOCK_SIZE];
    const char *const keep[] = {"EXPIRE", key, NOTE_TTL_S};
    const char *const set[] = {"SET", key, value, "NX", "EX", NOTE_TTL_S};
    const char *const set_clock[] = {"SET", clock_key, clock, "EX", NOTE_TTL_S};
    struct questions questions = {console, 0, true};
    if (sighting->age_us >= 0 && !sighting->lasting) {
        put(&questions, 3, keep);
    } else if (sighting->age_us < 0 && sighting->note_us >= 0) {
        snprintf(value, sizeof value, "%" PRId64, now_ms - sighting->note_us / 1000);
        put(&questions, sighting->lasting ? 4 : 6, set);
    }
    if (sighting->clock.age_us >= 0) {
        write_clock(&sighting->clock, now_ms, clock);
        put(&questions, 5, set_clock);
    }
    return take_rest(&questions);
}

/* Look up one run, and note what there is to be noted. Errors of the server mean that there is no
 * note: the user may have no right to these keys. */
static pawl_status look_up(
    struct pawl__console *console, struct pawl__sighting *sighting, int64_t now_ms)
{
    char key[KEY_SIZE];
    char clock_key[KEY_SIZE + 8];
    const struct pawl__resp_node *reply = NULL;
    struct questions questions = {console, 0, true};
    snprintf(key, sizeof key, "pawl_seen:%s", sighting->run_id);
    snprintf(clock_key, sizeof clock_key, "%s:clock", key);
    const char *const get[] = {"GET", key};
    const char *const get_clock[] = {"GET", clock_key};
    put(&questions, 2, get);
    put(&questions, 2, get_clock);
    pawl_status status = take(&questions, &reply);
    if (status != PAWL_OK) {
        return status;
    }
    const int64_t seen_ms = number_of(&console->link.reader, reply);
    sighting->age_us = seen_ms < 0 ? -1 : pawl__max64(now_ms - seen_ms, 0) * 1000;
    status = take(&questions, &reply);
    if (status != PAWL_OK) {
        return status;
    }
    const struct pawl__clock_note noted = read_clock(&console->link.reader, reply, now_ms);
    status = note(console, sighting, key, clock_key, now_ms);
    sighting->clock = noted;
    return status;
}

pawl_status pawl__standing_seen(const struct pawl__redis_config *config,
    struct pawl__sighting *sightings, size_t count, struct pawl__clock_sample *sample_out)
{
    struct pawl__console console;
    *sample_out = (struct pawl__clock_sample){0};
    pawl_status status = pawl__console_open(&console, config);
    if (status != PAWL_OK) {
        return status;
    }
    status = ask_time(&console, sample_out);
    for (size_t i = 0; status == PAWL_OK && i < count; i++) {
        status = look_up(&console, &sightings[i], sample_out->clock_us / 1000);
    }
    pawl__console_close(&console);
    return status;
}
