/* SPDX-License-Identifier: Apache-2.0 */
/* The language of the scripted server: reading its lines, matching commands against patterns,
 * escapes and the %{} of replies. Pure functions; see scripted.h for the language. */
#include "support/scripted_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int hex_value(char digit)
{
    const char *digits = "0123456789abcdef";
    const char *found = digit != '\0' ? strchr(digits, tolower((unsigned char)digit)) : NULL;
    return found != NULL ? (int)(found - digits) : -1;
}

/* One escape, the cursor standing behind the backslash; false if there is no such escape. */
static bool take_escape(const char **cursor, char *byte_out)
{
    static const char escapes[] = "rnt0\\\"";
    const char *plain = strchr(escapes, **cursor);
    if (**cursor == 'x') {
        const int high = hex_value((*cursor)[1]);
        const int low = high >= 0 ? hex_value((*cursor)[2]) : -1;
        *byte_out = (char)(high * 16 + low);
        *cursor += 3;
        return low >= 0;
    }
    if (**cursor == '\0' || plain == NULL) {
        return false;
    }
    static const char meant[] = "\r\n\t\0\\\"";
    *byte_out = meant[plain - escapes];
    (*cursor)++;
    return true;
}

bool scripted__unescape(const char *source, struct text *bytes)
{
    while (*source != '\0') {
        char byte = *source++;
        if (byte == '\\' && !take_escape(&source, &byte)) {
            return false;
        }
        text_add(bytes, &byte, 1);
    }
    return true;
}

/* One word of a pattern, quoted or not; false if a quote or an escape is wrong. */
static bool take_word(const char **cursor, struct text *word)
{
    const bool quoted = **cursor == '"';
    *cursor += quoted ? 1 : 0;
    while (**cursor != '\0' && **cursor != (quoted ? '"' : ' ')) {
        char byte = *(*cursor)++;
        if (byte == '\\' && !take_escape(cursor, &byte)) {
            return false;
        }
        text_add(word, &byte, 1);
    }
    if (quoted && **cursor != '"') {
        return false;
    }
    *cursor += quoted ? 1 : 0;
    return true;
}

static bool read_words(const char *source, struct resp_words *words_out)
{
    const size_t words_max = strlen(source) / 2 + 1;
    *words_out = (struct resp_words){0};
    words_out->items = support_alloc(words_max * sizeof *words_out->items);
    words_out->sizes = support_alloc(words_max * sizeof *words_out->sizes);
    for (source += strspn(source, " "); *source != '\0'; source += strspn(source, " ")) {
        struct text word = {0};
        const bool good = take_word(&source, &word);
        const size_t size = word.size;
        char *item = text_take(&word);
        if (!good || words_out->count == words_max) {
            free(item);
            return false;
        }
        words_out->items[words_out->count] = item;
        words_out->sizes[words_out->count] = size;
        words_out->count++;
    }
    return words_out->count > 0;
}

bool scripted__pattern_parse(const char *source, struct pattern *pattern_out)
{
    *pattern_out = (struct pattern){.source = support_copy(source, strlen(source))};
    if (source[0] == '~') {
        struct text part = {0};
        const bool good = scripted__unescape(source + 1, &part);
        pattern_out->part = text_take(&part);
        return good && pattern_out->part[0] != '\0';
    }
    return read_words(source, &pattern_out->words);
}

void scripted__pattern_free(struct pattern *pattern)
{
    free(pattern->source);
    free(pattern->part);
    resp_free_words(&pattern->words);
    *pattern = (struct pattern){0};
}

static bool word_is(const struct resp_words *words, size_t index, const char *special)
{
    return strcmp(words->items[index], special) == 0;
}

static bool same_word(
    const struct resp_words *one, const struct resp_words *other, size_t index, bool any_case)
{
    if (one->sizes[index] != other->sizes[index]) {
        return false;
    }
    return any_case ? strcasecmp(one->items[index], other->items[index]) == 0
                    : memcmp(one->items[index], other->items[index], one->sizes[index]) == 0;
}

bool scripted__pattern_matches(const struct pattern *pattern, const struct resp_words *words,
    const char *joined, size_t joined_size)
{
    if (pattern->part != NULL) {
        return bytes_contain(joined, joined_size, pattern->part);
    }
    const struct resp_words *wanted = &pattern->words;
    for (size_t i = 0; i < wanted->count; i++) {
        if (i + 1 == wanted->count && word_is(wanted, i, "...")) {
            return words->count >= i;
        }
        if (i >= words->count) {
            return false;
        }
        if (!word_is(wanted, i, "*") && !same_word(wanted, words, i, i == 0)) {
            return false;
        }
    }
    return words->count == wanted->count;
}

bool scripted__begins_with(const struct resp_words *words, const struct resp_words *prefix)
{
    for (size_t i = 0; i < prefix->count; i++) {
        if (i >= words->count || !same_word(prefix, words, i, true)) {
            return false;
        }
    }
    return true;
}

/* Replace one %{...}; the cursor stands behind "%{". Returns where the text goes on, or NULL if
 * this is no reference to a word that exists. */
static const char *expand_one(
    const char *cursor, const char *end, const struct resp_words *words, struct text *expanded)
{
    const bool bulk = end - cursor > 5 && strncmp(cursor, "bulk ", 5) == 0;
    cursor += bulk ? 5 : 0;
    size_t index = 0;
    const char *digits = cursor;
    for (; cursor < end && isdigit((unsigned char)*cursor); cursor++) {
        index = index * 10 + (size_t)(*cursor - '0');
    }
    if (cursor == digits || cursor == end || *cursor != '}' || index >= words->count) {
        return NULL;
    }
    if (bulk) {
        text_addf(expanded, "$%zu\r\n", words->sizes[index]);
    }
    text_add(expanded, words->items[index], words->sizes[index]);
    text_add(expanded, "\r\n", bulk ? 2 : 0);
    return cursor + 1;
}

void scripted__expand(
    const struct text *bytes, const struct resp_words *words, struct text *expanded)
{
    const char *cursor = bytes->data;
    const char *end = bytes->data + bytes->size;
    while (cursor < end) {
        const char *next = NULL;
        if (end - cursor > 2 && cursor[0] == '%' && cursor[1] == '{') {
            next = expand_one(cursor + 2, end, words, expanded);
        }
        if (next == NULL) {
            text_add(expanded, cursor, 1);
            next = cursor + 1;
        }
        cursor = next;
    }
}

/* The number at the beginning of an argument; -1 when there is none at all. */
static bool take_number(const char **argument, int64_t *number_out)
{
    *number_out = -1;
    if (**argument == '\0') {
        return true;
    }
    char *end = NULL;
    errno = 0;
    *number_out = strtoll(*argument, &end, 10);
    const bool good = end != *argument && (*end == '\0' || *end == ' ') && errno == 0;
    *argument = end + (*end == ' ' ? 1 : 0);
    return good && *number_out >= 0;
}

static bool parse_argument(const char *argument, struct step *step)
{
    switch (step->kind) {
    case STEP_EXPECT:
    case STEP_ON:
        return scripted__pattern_parse(argument, &step->pattern);
    case STEP_SEND:
        return scripted__unescape(argument, &step->bytes) && step->bytes.size > 0;
    case STEP_BYTES:
        return take_number(&argument, &step->number) && step->number > 0 &&
               scripted__unescape(argument, &step->bytes) && step->bytes.size > 0;
    case STEP_SILENCE:
        return take_number(&argument, &step->number) && *argument == '\0';
    case STEP_REPEAT:
        return take_number(&argument, &step->number) && step->number != 0 && *argument == '\0';
    case STEP_CLOSE:
    case STEP_RESET:
    case STEP_ACCEPT:
    case STEP_END:
        return *argument == '\0';
    }
    return false;
}

/* One line that is neither empty nor a comment. */
bool scripted__parse(const char *line, struct step *step_out, const char **mistake_out)
{
    static const struct {
        const char *name;
        enum step_kind kind;
    } verbs[] = {{"EXPECT", STEP_EXPECT}, {"SEND", STEP_SEND}, {"BYTES", STEP_BYTES},
        {"CLOSE", STEP_CLOSE}, {"RESET", STEP_RESET}, {"SILENCE", STEP_SILENCE},
        {"ACCEPT", STEP_ACCEPT}, {"ON", STEP_ON}, {"REPEAT", STEP_REPEAT}, {"END", STEP_END}};
    const size_t size = strcspn(line, " ");
    const char *argument = line + size + (line[size] == ' ' ? 1 : 0);
    *step_out = (struct step){0};
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strlen(verbs[i].name) == size && strncmp(verbs[i].name, line, size) == 0) {
            step_out->kind = verbs[i].kind;
            *mistake_out = "what follows the verb is wrong";
            return parse_argument(argument, step_out);
        }
    }
    *mistake_out = "there is no such verb";
    return false;
}

void scripted__step_free(struct step *step)
{
    scripted__pattern_free(&step->pattern);
    text_free(&step->bytes);
}
