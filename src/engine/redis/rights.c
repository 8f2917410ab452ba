/* SPDX-License-Identifier: Apache-2.0 */
/* Missing rights in words; see rights.h. The reply is an array of "what:COMMAND".
 *
 * The remedy is a command that can be pasted into a shell as it stands. A name becomes a pattern
 * that matches it: what is not plain text in it is a '?', and a long one ends with a '*'. */
#include "engine/redis/rights.h"

#include "base/alloc.h"
#include "base/error.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum {
    TEXT_SIZE = 720, /* of the sentence */
    SHOWN_SIZE = 64, /* of a key in it */
};

/* What rights can be about, as the script says it, and how the access list names it. */
struct subject {
    const char *what;
    const char *kind; /* in the sentence; NULL: about nothing in particular */
    char sign;
    struct pawl__redis_text name;
    const char *tail; /* of a pattern, behind the name */
};

struct sentence {
    char text[TEXT_SIZE];
    size_t size;
};

static void add(struct sentence *sentence, const char *text, size_t size)
{
    const size_t left = sizeof sentence->text - 1 - sentence->size;
    const size_t fits = size < left ? size : left;
    memcpy(sentence->text + sentence->size, text, fits);
    sentence->size += fits;
    sentence->text[sentence->size] = '\0';
}

static void add_text(struct sentence *sentence, const char *text)
{
    add(sentence, text, strlen(text));
}

static void add_name(struct sentence *sentence, struct pawl__redis_text name)
{
    char shown[SHOWN_SIZE];
    add_text(sentence, pawl__printable(name.bytes, name.size, shown, sizeof shown));
}

/* The sign and a pattern that matches the name and its tail. */
static const char *pattern_of(const struct subject *subject, char out[SHOWN_SIZE])
{
    const struct pawl__redis_text name = subject->name;
    const char *tail = subject->tail;
    size_t size = 0;
    out[size++] = subject->sign;
    for (size_t i = 0; i < name.size; i++) {
        const char c = name.bytes[i];
        const bool special = strchr("*?[]\\^", c) != NULL;
        if (size + 3 + strlen(tail) > SHOWN_SIZE - 1) {
            tail = "*";
            break;
        }
        if (special) {
            out[size++] = '\\';
        }
        out[size++] = (char)(c > ' ' && c <= '~' ? c : '?');
    }
    memcpy(out + size, tail, strlen(tail) + 1);
    return out;
}

static const char *word_of(const struct subject *subject, char out[PAWL__RIGHTS_WORD_SIZE])
{
    char pattern[SHOWN_SIZE];
    static_assert(PAWL__RIGHTS_WORD_SIZE >= 4 * SHOWN_SIZE + 8, "each byte may be quoted");
    return pawl__shell_word(pattern_of(subject, pattern), out, PAWL__RIGHTS_WORD_SIZE);
}

const char *pawl__rights_key(struct pawl__redis_text key, char out[PAWL__RIGHTS_WORD_SIZE])
{
    const struct subject subject = {.sign = '~', .name = key, .tail = ""};
    return word_of(&subject, out);
}

static void add_pattern(struct sentence *sentence, const struct subject *subject)
{
    char word[PAWL__RIGHTS_WORD_SIZE];
    add(sentence, " ", 1);
    add_text(sentence, word_of(subject, word));
}

/* The command of an item if it is about this subject; size 0 otherwise. */
static struct pawl__redis_text command_of(const struct pawl__resp_reader *reader,
    const struct pawl__resp_node *item, const struct subject *subject)
{
    const size_t what_size = strlen(subject->what);
    const char *text = pawl__resp_text(reader, item);
    if (item->type != PAWL__RESP_TEXT || item->text_size <= what_size + 1 ||
        text[what_size] != ':' || memcmp(text, subject->what, what_size) != 0) {
        return (struct pawl__redis_text){NULL, 0};
    }
    return (struct pawl__redis_text){text + what_size + 1, item->text_size - what_size - 1};
}

static void add_lower(struct sentence *sentence, struct pawl__redis_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        const char letter = (char)tolower((unsigned char)text.bytes[i]);
        add(sentence, &letter, 1);
    }
}

/* "PTTL, HSET on key 'x'" and, for the remedy, "+pttl +hset '~x'". */
static void add_subject(struct sentence *problem, struct sentence *remedy,
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *reply,
    const struct subject *subject)
{
    bool any = false;
    for (const struct pawl__resp_node *item = pawl__resp_first(reader, reply); item != NULL;
         item = pawl__resp_next(reader, reply, item)) {
        const struct pawl__redis_text command = command_of(reader, item, subject);
        if (command.size > 0) {
            add_text(problem, any ? ", " : problem->size > 0 ? "; " : "");
            add(problem, command.bytes, command.size);
            add_text(remedy, " +");
            add_lower(remedy, command);
            any = true;
        }
    }
    if (any && subject->kind != NULL) {
        add_text(problem, subject->kind);
        add_name(problem, subject->name);
        add_text(problem, subject->tail);
        add_text(problem, "'");
        add_pattern(remedy, subject);
    }
}

bool pawl__rights_any_missing(const struct pawl__resp_node *reply)
{
    return reply->type == PAWL__RESP_ARRAY && reply->child_count > 0;
}

char *pawl__rights_sentence(const struct pawl__resp_reader *reader,
    const struct pawl__resp_node *reply, const char *grant, const struct pawl__redis_place *place)
{
    const struct pawl__redis_text lock = {place->place.name, place->place.name_size};
    const bool fair = place->place.family == PAWL__FAMILY_FAIR;
    char keys[3][PAWL__COMPOSED_SIZE_MAX];
    const struct pawl__redis_text token = pawl__redis_token(keys[0], &place->place);
    const struct pawl__redis_text stem = pawl__redis_stem(keys[1], &place->place);
    const struct pawl__redis_text channel = pawl__redis_channel(keys[2], &place->place);
    char queue[PAWL__COMPOSED_SIZE_MAX];
    char timeouts[PAWL__COMPOSED_SIZE_MAX];
    char leases[PAWL__COMPOSED_SIZE_MAX];
    const struct subject subjects[] = {
        {"lock", " on key '", '~', lock, ""},
        {"token", " on key '", '~', token, ""},
        {"hold", " on keys '", '~', stem, ":*:rwlock_timeout:*"},
        {"queue", " on key '", '~',
            pawl__redis_compose(queue, PAWL__QUEUE_PREFIX, lock.bytes, lock.size), ""},
        {"timeouts", " on key '", '~',
            pawl__redis_compose(timeouts, PAWL__TIMEOUTS_PREFIX, lock.bytes, lock.size), ""},
        {"record", " on keys '", '~', token, ":*"},
        {"leases", " on key '", '~', pawl__redis_compose_leases(leases, lock.bytes, lock.size), ""},
        {"channel", " on channel '", '&', channel, fair ? "*" : ""},
        {"server", NULL, '\0', {NULL, 0}, ""},
    };
    struct sentence problem = {.size = 0};
    struct sentence remedy = {.size = 0};
    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) {
        add_subject(&problem, &remedy, reader, reply, &subjects[i]);
    }
    return pawl__format(
        "the user may not run %s; add the rights with: %s%s", problem.text, grant, remedy.text);
}
