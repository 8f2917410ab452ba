/* SPDX-License-Identifier: Apache-2.0 */
/* Judging INFO; guard.h says what for. The text is lines "field:value" with CRLF, and titles with
 * '#'. */
#include "engine/redis/guard.h"

#include <stdio.h>
#include <string.h>

struct value {
    const char *text; /* NULL: there is no such field */
    size_t size;
};

static struct value value_of(const char *info, size_t info_size, const char *field)
{
    const size_t field_size = strlen(field);
    const char *end = info + info_size;
    for (const char *line = info; line < end;) {
        const char *line_end = memchr(line, '\n', (size_t)(end - line));
        const char *stop = line_end != NULL ? line_end : end;
        const size_t size = (size_t)(stop - line);
        if (size > field_size && line[field_size] == ':' && memcmp(line, field, field_size) == 0) {
            const char *text = line + field_size + 1;
            size_t text_size = (size_t)(stop - text);
            if (text_size > 0 && text[text_size - 1] == '\r') {
                text_size--;
            }
            return (struct value){text, text_size};
        }
        line = line_end != NULL ? line_end + 1 : end;
    }
    return (struct value){NULL, 0};
}

static bool is(struct value value, const char *text)
{
    return value.text != NULL && value.size == strlen(text) &&
           memcmp(value.text, text, value.size) == 0;
}

static bool is_present_and_not(struct value value, const char *text)
{
    return value.text != NULL && !is(value, text);
}

/* Copy what fits and looks like a word; anything else becomes "". */
static void copy_word(char *to, size_t to_size, struct value value)
{
    to[0] = '\0';
    if (value.text == NULL || value.size >= to_size) {
        return;
    }
    for (size_t i = 0; i < value.size; i++) {
        if (value.text[i] <= ' ' || value.text[i] > '~') {
            return;
        }
    }
    memcpy(to, value.text, value.size);
    to[value.size] = '\0';
}

/* A plain number of up to 18 digits; anything else is 0. */
static int64_t number_of(struct value value)
{
    int64_t number = 0;
    for (size_t i = 0; i < value.size; i++) {
        if (value.size > 18 || value.text[i] < '0' || value.text[i] > '9') {
            return 0;
        }
        number = number * 10 + (value.text[i] - '0');
    }
    return number;
}

void pawl__redis_facts_read(struct pawl__redis_facts *facts, const char *info, size_t info_size)
{
    const struct value policy = value_of(info, info_size, "maxmemory_policy");
    const struct value limit = value_of(info, info_size, "maxmemory");
    copy_word(facts->run_id, sizeof facts->run_id, value_of(info, info_size, "run_id"));
    copy_word(facts->policy, sizeof facts->policy, policy);
    facts->time_us = number_of(value_of(info, info_size, "server_time_usec"));
    facts->replica = is_present_and_not(value_of(info, info_size, "role"), "master");
    facts->loading = is(value_of(info, info_size, "loading"), "1") ||
                     is(value_of(info, info_size, "async_loading"), "1");
    facts->failing_over =
        is_present_and_not(value_of(info, info_size, "master_failover_state"), "no-failover");
    facts->evicts = is_present_and_not(limit, "0") && is_present_and_not(policy, "noeviction");
}

static void refuse(struct pawl__fitness *fitness, const char *sentence)
{
    fitness->status = PAWL_REFUSED;
    fitness->sentence = sentence;
}

void pawl__redis_guard(
    const struct pawl__redis_facts *facts, pawl_guard guard, struct pawl__fitness *fitness)
{
    fitness->status = PAWL_OK;
    fitness->sentence = NULL;
    if (guard == PAWL_GUARD_OFF) {
        return;
    }
    if (facts->replica) {
        refuse(fitness, "the server is a replica and no place for a lock; name its master");
    } else if (facts->loading) {
        refuse(fitness, "the server is still loading its data; try again when it has finished");
    } else if (facts->failing_over) {
        refuse(fitness, "the server is handing over to another one (failover); try again after it");
    } else if (facts->evicts) {
        snprintf(fitness->text, sizeof fitness->text,
            "the server may evict locks when memory is short (maxmemory is set, with "
            "maxmemory-policy %s)%s",
            facts->policy[0] != '\0' ? facts->policy : "?",
            guard == PAWL_GUARD_ENFORCE
                ? "; set maxmemory-policy noeviction, or accept it with ?guard=warn"
                : "; maxmemory-policy noeviction would keep them");
        fitness->status = guard == PAWL_GUARD_ENFORCE ? PAWL_REFUSED : PAWL_OK;
        fitness->sentence = fitness->text;
    }
}
