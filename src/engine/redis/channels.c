/* SPDX-License-Identifier: Apache-2.0 */
/* Names, channels and events; see channels.h. */
#include "engine/redis/channels.h"

#include "base/glob.h"
#include "base/limits.h"
#include "base/random.h"

#include <string.h>

#define LEASES ":timeout" /* behind a semaphore's name, in its braces */

static bool add(struct pawl__buffer *out, const char *text)
{
    return text[0] == '\0' || pawl__buffer_append(out, text, strlen(text));
}

/* What stands around the names, by source. */
static const struct {
    const char *before;
    const char *behind;
    bool all;
} shapes[] = {
    [PAWL__SOURCE_BRACED] = {":{", "}*", false},
    [PAWL__SOURCE_BARE] = {":", "*", false},
    [PAWL__SOURCE_ALL] = {":", "", true},
    [PAWL__SOURCE_LATCHES] = {"", "", true},
    [PAWL__SOURCE_KEYS] = {":", "", false},
    [PAWL__SOURCE_BRACED_LEASES] = {":{", "}" LEASES, false},
    [PAWL__SOURCE_BARE_LEASES] = {":", LEASES, false},
    [PAWL__SOURCE_ALL_KEYS] = {":", "", true},
};

bool pawl__channel_pattern(struct pawl__buffer *out, enum pawl__channel_source source,
    const char *prefix, const char *pattern)
{
    const char *names = pattern == NULL || shapes[source].all ? "*" : pattern;
    return add(out, prefix) && add(out, shapes[source].before) && add(out, names) &&
           add(out, shapes[source].behind);
}

static bool has_brace(struct pawl__redis_text text)
{
    return memchr(text.bytes, '{', text.size) != NULL;
}

static bool matches(const char *pattern, struct pawl__redis_text name)
{
    return name.size > 0 && name.size <= PAWL__NAME_SIZE_MAX &&
           memchr(name.bytes, '\0', name.size) == NULL &&
           pawl__glob_matches(pattern, name.bytes, name.size);
}

/* "<uuid>:<number>", and nothing behind it? */
static bool is_owner(const char *text, size_t size)
{
    static const size_t dashes[] = {8, 13, 18, 23};
    if (size < PAWL__UUID_SIZE + 2 || text[PAWL__UUID_SIZE] != ':') {
        return false;
    }
    for (size_t i = 0; i < sizeof dashes / sizeof dashes[0]; i++) {
        if (text[dashes[i]] != '-') {
            return false;
        }
    }
    size_t at = PAWL__UUID_SIZE + 1;
    while (at < size && text[at] >= '0' && text[at] <= '9') {
        at++;
    }
    return at == size;
}

/* The channel of the lock itself, if it is that of a waiter. */
static struct pawl__redis_text without_owner(struct pawl__redis_text rest)
{
    for (size_t at = rest.size; at-- > 0;) {
        if (rest.bytes[at] == ':' && is_owner(rest.bytes + at + 1, rest.size - at - 1)) {
            return (struct pawl__redis_text){rest.bytes, at};
        }
    }
    return rest;
}

/* What stands in the braces, if the name has none of its own; size 0: it is not so. */
static struct pawl__redis_text inner_of(struct pawl__redis_text rest)
{
    const struct pawl__redis_text none = {rest.bytes, 0};
    if (rest.size < 3 || rest.bytes[0] != '{' || rest.bytes[rest.size - 1] != '}') {
        return none;
    }
    const struct pawl__redis_text inner = {rest.bytes + 1, rest.size - 2};
    return has_brace(inner) ? none : inner;
}

/* A latch's channel has braces round any name. */
static struct pawl__channel_meaning latch_of(struct pawl__redis_text rest, const char *pattern)
{
    const bool braces = rest.size > 2 && rest.bytes[0] == '{' && rest.bytes[rest.size - 1] == '}';
    const struct pawl__redis_text name = {rest.bytes + 1, braces ? rest.size - 2 : 0};
    return (struct pawl__channel_meaning){
        {name.bytes, matches(pattern, name) ? name.size : 0}, braces, false};
}

struct pawl__channel_meaning pawl__channel_meaning(struct pawl__redis_text channel,
    enum pawl__channel_source source, const char *prefix, const char *pattern)
{
    const size_t skipped = strlen(prefix) + (source == PAWL__SOURCE_LATCHES ? 0 : 1);
    struct pawl__channel_meaning meaning = {{channel.bytes, 0}, false, false};
    if (channel.size <= skipped) {
        return meaning;
    }
    const struct pawl__redis_text whole = {channel.bytes + skipped, channel.size - skipped};
    if (source == PAWL__SOURCE_LATCHES) {
        return latch_of(whole, pattern);
    }
    const struct pawl__redis_text rest = without_owner(whole);
    const struct pawl__redis_text inner = inner_of(rest);
    const bool inner_matches = matches(pattern, inner);
    meaning.waiter = rest.size < whole.size;
    meaning.sure = inner_matches || inner.size == 0;
    if (inner_matches && source != PAWL__SOURCE_BARE) { /* that the braced pattern has brought */
        meaning.name = inner;
    } else if (!inner_matches && source != PAWL__SOURCE_BRACED && has_brace(rest) &&
               matches(pattern, rest)) {
        meaning.name = rest;
    }
    return meaning;
}

struct pawl__redis_text pawl__leases_name(struct pawl__redis_text key, const char *pattern)
{
    const size_t size = strlen(LEASES);
    const struct pawl__redis_text none = {key.bytes, 0};
    if (key.size <= size || memcmp(key.bytes + key.size - size, LEASES, size) != 0) {
        return none;
    }
    const struct pawl__redis_text stem = {key.bytes, key.size - size};
    const struct pawl__redis_text inner = inner_of(stem);
    const struct pawl__redis_text name = inner.size > 0 ? inner : stem;
    return has_brace(stem) && matches(pattern, name) ? name : none;
}

/* An event and what it means; the last one has none. */
struct rule {
    const char *event;
    int change;
};

static int change_by(const struct rule *rules, struct pawl__redis_text event)
{
    for (; rules->event != NULL; rules++) {
        if (event.size == strlen(rules->event) &&
            memcmp(event.bytes, rules->event, event.size) == 0) {
            return rules->change;
        }
    }
    return -1;
}

int pawl__keyspace_change(struct pawl__redis_text event)
{
    static const struct rule rules[] = {
        {"hset", PAWL_ACQUIRED},
        {"hincrby", PAWL_ACQUIRED},
        {"expired", PAWL_EXPIRED},
        {"evicted", PAWL_EXPIRED},
        {"hdel", 0},
        {"del", 0},
        {"rename_from", 0},
        {"rename_to", 0},
        {NULL, 0},
    };
    return change_by(rules, event);
}

int pawl__leases_change(struct pawl__redis_text event)
{
    static const struct rule rules[] = {
        {"zadd", PAWL_ACQUIRED},
        {"expired", PAWL_EXPIRED},
        {"evicted", PAWL_EXPIRED},
        {"zrem", 0},
        {"zremrangebyscore", 0},
        {"del", 0},
        {NULL, 0},
    };
    return change_by(rules, event);
}

bool pawl__keyspace_suffices(const char *setting, size_t setting_size)
{
    static const char needed[] = "ghxz"; /* generic, hash, expired, sorted set; A: all */
    const bool all = setting_size > 0 && memchr(setting, 'A', setting_size) != NULL;
    bool suffices = setting_size > 0 && memchr(setting, 'K', setting_size) != NULL;
    for (const char *flag = needed; *flag != '\0' && suffices && !all; flag++) {
        suffices = memchr(setting, *flag, setting_size) != NULL;
    }
    return suffices;
}
