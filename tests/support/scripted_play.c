/* SPDX-License-Identifier: Apache-2.0 */
/* Playing the script: what happens with a command, and how far the script can go on by itself.
 *
 * Outgoing bytes are queued here and written by the loop in scripted.c. All functions are called
 * with the mutex held; it is let go only while a handler of the test runs. */
#include "support/scripted_internal.h"

#include "support/wait.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATTERN_SIZE_MIN 65536

void scripted__complain(struct scripted *scripted, const char *format, ...)
{
    if (scripted->error != NULL) {
        return;
    }
    va_list args;
    va_start(args, format);
    if (vasprintf(&scripted->error, format, args) < 0) {
        abort();
    }
    va_end(args);
}

static void queue(
    struct connection *connection, enum output_kind kind, const struct text *bytes, uint64_t size)
{
    if (connection->fd < 0) {
        return;
    }
    struct output *output = support_alloc(sizeof *output);
    output->kind = kind;
    output->data = support_copy(bytes != NULL ? bytes->data : "", bytes != NULL ? bytes->size : 0);
    output->data_size = bytes != NULL ? bytes->size : 0;
    output->left = size;
    if (connection->last != NULL) {
        connection->last->next = output;
    } else {
        connection->first = output;
    }
    connection->last = output;
}

static void queue_text(struct connection *connection, const struct text *bytes)
{
    if (bytes->size > 0) {
        queue(connection, OUTPUT_DATA, bytes, bytes->size);
    }
}

/* A short pattern is repeated first, for a system call per repetition would take for ever. */
static void queue_pattern(struct connection *connection, const struct text *pattern, uint64_t size)
{
    struct text repeated = {0};
    do {
        text_add(&repeated, pattern->data, pattern->size);
    } while (repeated.size < PATTERN_SIZE_MIN);
    queue(connection, OUTPUT_DATA, &repeated, size);
    text_free(&repeated);
}

static struct record *remember(
    struct scripted *scripted, const struct connection *connection, struct resp_words *words)
{
    if (scripted->record_count == scripted->record_capacity) {
        scripted->record_capacity = scripted->record_capacity * 2 + 64;
        scripted->records =
            realloc(scripted->records, scripted->record_capacity * sizeof *scripted->records);
        if (scripted->records == NULL) {
            abort();
        }
    }
    struct text joined = {0};
    resp_join_words(words, &joined);
    struct record *record = &scripted->records[scripted->record_count++];
    *record = (struct record){
        .connection = connection->number, .words = *words, .joined_size = joined.size};
    record->joined = text_take(&joined);
    return record;
}

static const struct step *current_step(const struct scripted *scripted)
{
    return scripted->step_index < scripted->step_count ? &scripted->steps[scripted->step_index]
                                                       : NULL;
}

static bool expects(const struct scripted *scripted, const struct record *record)
{
    const struct step *step = current_step(scripted);
    return step != NULL && step->kind == STEP_EXPECT &&
           scripted__pattern_matches(
               &step->pattern, &record->words, record->joined, record->joined_size);
}

static void complain_about(struct scripted *scripted, const struct record *record)
{
    const struct step *step = current_step(scripted);
    if (step != NULL && step->kind == STEP_EXPECT) {
        scripted__complain(scripted,
            "line %u of the script: expected \"%s\", but connection %zu sent \"%s\", for which "
            "there is no handler either",
            step->line, step->pattern.source, record->connection, record->joined);
    } else {
        scripted__complain(scripted,
            "connection %zu sent \"%s\": the script expects nothing at this point (step %zu of "
            "%zu), and there is no handler",
            record->connection, record->joined, scripted->step_index, scripted->step_count);
    }
}

/* Answer by a handler. The records may move while the mutex is open, so the words' own arrays,
 * which do not, are what the handler gets. */
static void handle(struct scripted *scripted, struct connection *connection,
    const struct handler *handler, const struct resp_words words)
{
    struct scripted_turn turn = {
        .connection = connection->number, .resp3 = connection->resp3, .words = &words};
    if (handler->function != NULL) {
        pthread_mutex_unlock(&scripted->mutex);
        handler->function(&turn, handler->arg);
        pthread_mutex_lock(&scripted->mutex);
    } else {
        scripted__expand(&handler->reply, &words, &turn.reply);
    }
    connection->resp3 = turn.resp3;
    queue_text(connection, &turn.reply);
    text_free(&turn.reply);
    if (turn.close) {
        queue(connection, OUTPUT_CLOSE, NULL, 0);
    }
}

static const struct handler *find_handler(
    const struct scripted *scripted, const struct resp_words *words)
{
    const struct handler *handler = scripted->handlers;
    while (handler != NULL && !scripted__begins_with(words, &handler->prefix)) {
        handler = handler->next;
    }
    return handler;
}

/* A whole command has come; the words become the record's. */
void scripted__take_command(
    struct scripted *scripted, struct connection *connection, struct resp_words *words)
{
    const struct record *record = remember(scripted, connection, words);
    if (expects(scripted, record)) {
        scripted->current = connection;
        scripted->last_record = scripted->record_count - 1;
        scripted->step_index++;
        return;
    }
    const struct handler *handler = find_handler(scripted, &record->words);
    if (handler != NULL) {
        handle(scripted, connection, handler, record->words);
        return;
    }
    complain_about(scripted, record);
    static const char refusal[] = "-ERR the scripted server did not expect this\r\n";
    struct text reply = {0};
    text_add_string(&reply, refusal);
    queue_text(connection, &reply);
    text_free(&reply);
}

static struct connection *find_connection(const struct scripted *scripted, size_t number)
{
    struct connection *connection = scripted->connections;
    while (connection != NULL && connection->number != number) {
        connection = connection->next;
    }
    return connection;
}

/* The connection that last sent a matching command, or NULL. */
static struct connection *find_sender(
    const struct scripted *scripted, const struct pattern *pattern)
{
    for (size_t i = scripted->record_count; i > 0; i--) {
        const struct record *record = &scripted->records[i - 1];
        if (scripted__pattern_matches(
                pattern, &record->words, record->joined, record->joined_size)) {
            return find_connection(scripted, record->connection);
        }
    }
    return NULL;
}

static bool play_accept(struct scripted *scripted)
{
    if (scripted->claimed == scripted->accepted) {
        return false;
    }
    scripted->claimed++;
    scripted->current = find_connection(scripted, scripted->claimed);
    return true;
}

static bool play_on(struct scripted *scripted, const struct step *step)
{
    struct connection *sender = find_sender(scripted, &step->pattern);
    if (sender == NULL) {
        return false;
    }
    scripted->current = sender;
    return true;
}

static bool play_silence(struct scripted *scripted, const struct step *step)
{
    if (scripted->silent_until_ms == 0) {
        scripted->silent_until_ms = step->number < 0 ? INT64_MAX : boottime_ms() + step->number;
    }
    if (boottime_ms() < scripted->silent_until_ms) {
        return false;
    }
    scripted->silent_until_ms = 0;
    return true;
}

/* Steps that send; they need somebody to send to. */
static bool play_output(struct scripted *scripted, const struct step *step)
{
    struct connection *connection =
        scripted->current != NULL ? scripted->current : scripted->connections;
    if (connection == NULL) {
        return false;
    }
    if (step->kind == STEP_SEND) {
        static const struct resp_words no_words;
        const bool met = scripted->last_record != SIZE_MAX;
        struct text expanded = {0};
        scripted__expand(&step->bytes,
            met ? &scripted->records[scripted->last_record].words : &no_words, &expanded);
        queue_text(connection, &expanded);
        text_free(&expanded);
    } else if (step->kind == STEP_BYTES) {
        queue_pattern(connection, &step->bytes, (uint64_t)step->number);
    } else {
        queue(connection, step->kind == STEP_CLOSE ? OUTPUT_CLOSE : OUTPUT_RESET, NULL, 0);
    }
    return true;
}

static void play_end(struct scripted *scripted, const struct step *step)
{
    struct step *start = &scripted->steps[step->start];
    start->left -= start->left > 0 ? 1 : 0;
    if (start->left != 0) {
        scripted->step_index = step->start; /* the caller goes on with the step behind it */
    }
}

/* Play one step; false when it has to wait for something. */
static bool play_step(struct scripted *scripted)
{
    struct step *step = &scripted->steps[scripted->step_index];
    switch (step->kind) {
    case STEP_EXPECT:
        return false;
    case STEP_ACCEPT:
        return play_accept(scripted);
    case STEP_ON:
        return play_on(scripted, step);
    case STEP_SILENCE:
        return play_silence(scripted, step);
    case STEP_SEND:
    case STEP_BYTES:
    case STEP_CLOSE:
    case STEP_RESET:
        return play_output(scripted, step);
    case STEP_REPEAT:
        step->left = step->number;
        return true;
    case STEP_END:
        play_end(scripted, step);
        return true;
    }
    return false;
}

/* Go on as far as possible without another command. */
void scripted__advance(struct scripted *scripted)
{
    while (scripted->step_index < scripted->step_count && play_step(scripted)) {
        scripted->step_index++;
    }
}

bool scripted__is_silent(const struct scripted *scripted)
{
    return scripted->silent_until_ms != 0;
}

/* A script that stands inside REPEAT without a number has nothing left that must come. */
static bool loops_for_ever(const struct scripted *scripted)
{
    for (size_t i = scripted->step_index; i < scripted->step_count; i++) {
        if (scripted->steps[i].kind == STEP_REPEAT) {
            return false;
        }
        if (scripted->steps[i].kind == STEP_END) {
            return scripted->steps[scripted->steps[i].start].number < 0;
        }
    }
    return false;
}

bool scripted__is_done(const struct scripted *scripted)
{
    for (const struct connection *connection = scripted->connections; connection != NULL;
         connection = connection->next) {
        if (connection->first != NULL) {
            return false;
        }
    }
    return scripted->step_index == scripted->step_count || loops_for_ever(scripted);
}
