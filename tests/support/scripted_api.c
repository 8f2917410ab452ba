/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted server as the test sees it while it runs: handlers, scripts, what was received.
 * Every function takes the mutex; nothing here fails the test while holding it. */
#include "support/scripted_internal.h"

#include "support/fail.h"
#include "support/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void add_handler(struct scripted *scripted, const char *words, struct handler *handler)
{
    struct pattern prefix;
    if (words[0] == '~' || !scripted__pattern_parse(words, &prefix)) {
        support_fail("no words for a handler: %s", words);
    }
    handler->prefix = prefix.words;
    prefix.words = (struct resp_words){0};
    scripted__pattern_free(&prefix);
    pthread_mutex_lock(&scripted->mutex);
    handler->next = scripted->handlers;
    scripted->handlers = handler;
    pthread_mutex_unlock(&scripted->mutex);
}

void scripted_handle(struct scripted *scripted, const char *words, const char *reply)
{
    struct handler *handler = support_alloc(sizeof *handler);
    if (!scripted__unescape(reply, &handler->reply)) {
        support_fail("a wrong escape in the reply: %s", reply);
    }
    add_handler(scripted, words, handler);
}

void scripted_handle_with(
    struct scripted *scripted, const char *words, scripted_handler function, void *arg)
{
    struct handler *handler = support_alloc(sizeof *handler);
    handler->function = function;
    handler->arg = arg;
    add_handler(scripted, words, handler);
}

void scripted_set_info(struct scripted *scripted, const char *name, const char *value)
{
    struct info_field *field = support_alloc(sizeof *field);
    field->name = support_copy(name, strlen(name));
    field->value = support_copy(value, strlen(value));
    pthread_mutex_lock(&scripted->mutex);
    field->next = scripted->info;
    scripted->info = field;
    pthread_mutex_unlock(&scripted->mutex);
}

/* A script that was read, not yet part of a server's. */
struct draft {
    struct step *steps;
    size_t count;
    size_t open_repeat; /* SIZE_MAX: none */
    bool waits;         /* the open REPEAT has a step that waits */
    unsigned line;
};

/* Keep track of REPEAT and END; returns a mistake or NULL. */
static const char *check_nesting(struct draft *draft, struct step *step)
{
    draft->waits = draft->waits || step->kind == STEP_EXPECT || step->kind == STEP_ACCEPT ||
                   step->kind == STEP_SILENCE;
    if (step->kind == STEP_REPEAT) {
        if (draft->open_repeat != SIZE_MAX) {
            return "REPEAT inside REPEAT";
        }
        draft->open_repeat = draft->count;
        draft->waits = false;
    }
    if (step->kind == STEP_END) {
        if (draft->open_repeat == SIZE_MAX) {
            return "END without REPEAT";
        }
        if (!draft->waits) {
            return "a REPEAT must have an EXPECT, ACCEPT or SILENCE";
        }
        step->start = draft->open_repeat;
        draft->open_repeat = SIZE_MAX;
    }
    return NULL;
}

/* Read one line; returns a mistake or NULL. */
static const char *read_line(struct draft *draft, const char *line)
{
    line += strspn(line, " \t");
    draft->line++;
    if (line[0] == '\0' || line[0] == '#') {
        return NULL;
    }
    struct step step;
    const char *mistake = NULL;
    if (!scripted__parse(line, &step, &mistake)) {
        scripted__step_free(&step);
        return mistake;
    }
    step.line = draft->line;
    mistake = check_nesting(draft, &step);
    draft->steps[draft->count++] = step;
    return mistake;
}

static void free_steps(struct step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        scripted__step_free(&steps[i]);
    }
    free(steps);
}

/* Read a whole script; returns a mistake or NULL, and the line where it was found. */
static const char *read_script(const char *script, struct draft *draft)
{
    char *lines = support_copy(script, strlen(script));
    const char *mistake = NULL;
    draft->open_repeat = SIZE_MAX;
    draft->steps = support_alloc((strlen(script) / 2 + 1) * sizeof *draft->steps);
    char *rest = lines;
    for (char *line = strsep(&rest, "\n"); line != NULL && mistake == NULL;
         line = strsep(&rest, "\n")) {
        mistake = read_line(draft, line);
    }
    if (mistake == NULL && draft->open_repeat != SIZE_MAX) {
        mistake = "REPEAT without END";
    }
    free(lines);
    return mistake;
}

void scripted_play(struct scripted *scripted, const char *script)
{
    struct draft draft = {0};
    const char *mistake = read_script(script, &draft);
    if (mistake != NULL) {
        free_steps(draft.steps, draft.count);
        support_fail("line %u of the script: %s", draft.line, mistake);
    }
    pthread_mutex_lock(&scripted->mutex);
    const size_t before = scripted->step_count;
    struct step *steps = support_alloc((before + draft.count + 1) * sizeof *steps);
    if (before > 0) {
        memcpy(steps, scripted->steps, before * sizeof *steps);
    }
    for (size_t i = 0; i < draft.count; i++) {
        steps[before + i] = draft.steps[i];
        steps[before + i].line += scripted->line;
        steps[before + i].start += before;
    }
    free(scripted->steps);
    free(draft.steps);
    scripted->steps = steps;
    scripted->step_count = before + draft.count;
    scripted->line += draft.line;
    thread_wake(scripted->wake_fd);
    pthread_mutex_unlock(&scripted->mutex);
}

bool scripted_wait_done(struct scripted *scripted, int64_t timeout_ms)
{
    const struct timespec end = thread_deadline(timeout_ms);
    int error = 0;
    pthread_mutex_lock(&scripted->mutex);
    while (scripted->error == NULL && !scripted__is_done(scripted) && error == 0) {
        error = pthread_cond_timedwait(&scripted->changed, &scripted->mutex, &end);
    }
    const bool done = scripted->error == NULL && scripted__is_done(scripted);
    pthread_mutex_unlock(&scripted->mutex);
    return done;
}

char *scripted_error(struct scripted *scripted)
{
    pthread_mutex_lock(&scripted->mutex);
    const char *error = scripted->error;
    char *copy = error != NULL ? support_copy(error, strlen(error)) : NULL;
    pthread_mutex_unlock(&scripted->mutex);
    return copy;
}

void scripted_check(struct scripted *scripted)
{
    char message[1000] = "";
    pthread_mutex_lock(&scripted->mutex);
    if (scripted->error != NULL) {
        snprintf(message, sizeof message, "%s", scripted->error);
    } else if (!scripted__is_done(scripted) && scripted->step_index < scripted->step_count) {
        snprintf(message, sizeof message,
            "the script was not played to its end: it stands at line "
            "%u",
            scripted->steps[scripted->step_index].line);
    } else if (!scripted__is_done(scripted)) {
        snprintf(message, sizeof message, "the client has not taken all that was sent");
    }
    pthread_mutex_unlock(&scripted->mutex);
    if (message[0] != '\0') {
        support_fail("%s", message);
    }
}

size_t scripted_count(struct scripted *scripted, const char *source)
{
    struct pattern pattern = {0};
    if (source != NULL && !scripted__pattern_parse(source, &pattern)) {
        scripted__pattern_free(&pattern);
        support_fail("no pattern: %s", source);
    }
    size_t count = 0;
    pthread_mutex_lock(&scripted->mutex);
    for (size_t i = 0; i < scripted->record_count; i++) {
        const struct record *record = &scripted->records[i];
        count += source == NULL || scripted__pattern_matches(&pattern, &record->words,
                                       record->joined, record->joined_size)
                     ? 1
                     : 0;
    }
    pthread_mutex_unlock(&scripted->mutex);
    scripted__pattern_free(&pattern);
    return count;
}

char *scripted_command(struct scripted *scripted, size_t index)
{
    char *copy = NULL;
    pthread_mutex_lock(&scripted->mutex);
    if (index < scripted->record_count) {
        const struct record *record = &scripted->records[index];
        copy = support_copy(record->joined, record->joined_size);
    }
    pthread_mutex_unlock(&scripted->mutex);
    return copy;
}

bool scripted_command_words(struct scripted *scripted, size_t index, struct resp_words *words_out)
{
    *words_out = (struct resp_words){0};
    pthread_mutex_lock(&scripted->mutex);
    const bool found = index < scripted->record_count;
    if (found) {
        const struct resp_words *words = &scripted->records[index].words;
        words_out->items = support_alloc((words->count + 1) * sizeof *words_out->items);
        words_out->sizes = support_alloc((words->count + 1) * sizeof *words_out->sizes);
        for (size_t i = 0; i < words->count; i++) {
            words_out->items[i] = support_copy(words->items[i], words->sizes[i]);
            words_out->sizes[i] = words->sizes[i];
        }
        words_out->count = words->count;
    }
    pthread_mutex_unlock(&scripted->mutex);
    return found;
}

size_t scripted_command_connection(struct scripted *scripted, size_t index)
{
    pthread_mutex_lock(&scripted->mutex);
    const size_t number = index < scripted->record_count ? scripted->records[index].connection : 0;
    pthread_mutex_unlock(&scripted->mutex);
    return number;
}

size_t scripted_accepted(struct scripted *scripted)
{
    pthread_mutex_lock(&scripted->mutex);
    const size_t accepted = scripted->accepted;
    pthread_mutex_unlock(&scripted->mutex);
    return accepted;
}

size_t scripted_open(struct scripted *scripted)
{
    size_t count = 0;
    pthread_mutex_lock(&scripted->mutex);
    for (const struct connection *connection = scripted->connections; connection != NULL;
         connection = connection->next) {
        count += connection->fd >= 0 ? 1 : 0;
    }
    pthread_mutex_unlock(&scripted->mutex);
    return count;
}

uint64_t scripted_sent_size(struct scripted *scripted)
{
    pthread_mutex_lock(&scripted->mutex);
    const uint64_t size = scripted->sent_size;
    pthread_mutex_unlock(&scripted->mutex);
    return size;
}
