/* SPDX-License-Identifier: Apache-2.0 */
/* Names, channels and events; see channels.h. */
#include "engine/redis/channels.h"

#include "base/glob.h"
#include "base/limits.h"
#include "base/random.h"

#include <string.h>

static bool add(struct pawl__buffer *out, const char *text)
{
    return text[0] == '\0' || pawl__buffer_append(out, text, strlen(text));
}

bool pawl__channel_pattern(struct pawl__buffer *out, enum pawl__channel_source source,
    const char *prefix, const char *pattern)
{
    const bool braced = source == PAWL__SOURCE_BRACED;
    const bool all = source == PAWL__SOURCE_ALL || source == PAWL__SOURCE_ALL_KEYS;
    const char *names = pattern == NULL || all ? "*" : pattern;
    return add(out, prefix) && add(out, braced ? ":{" : ":") && add(out, names) &&
           add(out, braced ? "}" : "");
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

/* A waiter for a fair lock has a channel of its own: "{name}:<uuid>:<number>". Where the braces
 * end, or the whole. */
static size_t without_owner(struct pawl__redis_text rest)
{
    const char *end = rest.size > 0 ? memrchr(rest.bytes, '}', rest.size) : NULL;
    const size_t size = end != NULL ? (size_t)(end - rest.bytes) + 1 : rest.size;
    const bool owner = rest.size > size + 2 + PAWL__UUID_SIZE && rest.bytes[size] == ':' &&
                       rest.bytes[size + 1 + PAWL__UUID_SIZE] == ':';
    return owner ? size : rest.size;
}

/* What stands in the braces, if the name has none of its own; size 0: it is not so. */
static struct pawl__redis_text inner_of(struct pawl__redis_text rest)
{
    const size_t size = without_owner(rest);
    if (size < 3 || rest.bytes[0] != '{' || rest.bytes[size - 1] != '}') {
        return (struct pawl__redis_text){rest.bytes, 0};
    }
    const struct pawl__redis_text inner = {rest.bytes + 1, size - 2};
    return has_brace(inner) ? (struct pawl__redis_text){rest.bytes, 0} : inner;
}

struct pawl__redis_text pawl__channel_name(struct pawl__redis_text channel,
    enum pawl__channel_source source, const char *prefix, const char *pattern, bool *sure_out)
{
    const size_t skipped = strlen(prefix) + 1;
    const struct pawl__redis_text none = {channel.bytes, 0};
    if (channel.size <= skipped) {
        return none;
    }
    const struct pawl__redis_text rest = {channel.bytes + skipped, channel.size - skipped};
    const struct pawl__redis_text inner = inner_of(rest);
    const bool inner_matches = matches(pattern, inner);
    *sure_out = inner_matches || inner.size == 0;
    if (inner_matches) {
        /* The braced pattern has brought it, too. */
        return source == PAWL__SOURCE_BARE ? none : inner;
    }
    return source != PAWL__SOURCE_BRACED && has_brace(rest) && matches(pattern, rest) ? rest : none;
}

int pawl__keyspace_change(struct pawl__redis_text event)
{
    static const struct {
        const char *event;
        int change;
    } rules[] = {
        {"hset", PAWL_ACQUIRED},
        {"hincrby", PAWL_ACQUIRED},
        {"expired", PAWL_EXPIRED},
        {"evicted", PAWL_EXPIRED},
        {"hdel", 0},
        {"del", 0},
        {"rename_from", 0},
        {"rename_to", 0},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (event.size == strlen(rules[i].event) &&
            memcmp(event.bytes, rules[i].event, event.size) == 0) {
            return rules[i].change;
        }
    }
    return -1;
}

bool pawl__keyspace_suffices(const char *setting, size_t setting_size)
{
    static const char needed[] = "ghx"; /* generic, hash, expired; A means all */
    const bool all = setting_size > 0 && memchr(setting, 'A', setting_size) != NULL;
    bool suffices = setting_size > 0 && memchr(setting, 'K', setting_size) != NULL;
    for (const char *flag = needed; *flag != '\0' && suffices && !all; flag++) {
        suffices = memchr(setting, *flag, setting_size) != NULL;
    }
    return suffices;
}
