/* SPDX-License-Identifier: Apache-2.0 */
/* Error replies, one table; errors.h says what for.
 *
 * The first word is the code. Errors that were raised inside a script are harder: Redis 7 puts the
 * code first and the place in the script behind, Redis 6 begins with "ERR Error running script" and
 * has it somewhere in the middle, and both have denials of the access list without any code. */
#include "engine/redis/errors.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

enum {
    SHOWN_SIZE = 200,      /* of the server's words in a sentence */
    SHOWN_NAME_SIZE = 100, /* of the lock's name */
};

struct rule {
    const char *code;
    pawl_status status;
    bool again;
    bool foreign;
    bool demoted;
    const char *meaning; /* stands behind "lock 'x': " */
};

static const struct rule rules[] = {
    {"WRONGTYPE", PAWL_REFUSED, false, true, false,
        "the key exists and is not a lock of this kind: another kind, or somebody's data; use it "
        "as what it is, or choose another name"},
    {"NOPERM", PAWL_DENIED, false, false, false,
        "the server's access list forbids it; add the right with ACL SETUSER"},
    {"NOAUTH", PAWL_DENIED, false, false, false,
        "the server wants a password; give one in the URL or by ?password_env="},
    {"OOM", PAWL_REFUSED, true, false, false,
        "the server has reached its memory limit; raise maxmemory or free some"},
    {"MISCONF", PAWL_REFUSED, true, false, false,
        "the server cannot save its data and refuses writes; look at its disk and its log"},
    {"NOREPLICAS", PAWL_REFUSED, true, false, false,
        "the server has fewer good replicas than min-replicas-to-write asks for; start them, or "
        "lower it"},
    {"READONLY", PAWL_REFUSED, true, false, true,
        "the server is a read-only replica; connect to its master"},
    {"MASTERDOWN", PAWL_REFUSED, true, false, true,
        "the server is a replica that has lost its master; connect to the master"},
    {"LOADING", PAWL_REFUSED, true, false, false,
        "the server is still loading its data, and can be used when it has finished"},
    {"BUSY", PAWL_REFUSED, true, false, false,
        "the server is busy running somebody's script; SCRIPT KILL may end that"},
    {"TRYAGAIN", PAWL_REFUSED, true, false, false, "the cluster is moving the key at the moment"},
    {"CLUSTERDOWN", PAWL_REFUSED, true, false, false,
        "the cluster is down; CLUSTER INFO says more"},
    {"MOVED", PAWL_REFUSED, true, false, false,
        "the key belongs to another node of a cluster; name a server that is none, or choose "
        "another name"},
    {"ASK", PAWL_REFUSED, true, false, false, "the key is moving to another node of a cluster"},
    {"CROSSSLOT", PAWL_REFUSED, false, false, false,
        "the name's braces put its keys on different nodes of a cluster; choose another name"},
};

/* The same for errors without a code of their own: a part of the text. */
static const struct rule uncoded[] = {
    {"max number of clients", PAWL_UNAVAILABLE, true, false, false,
        "the server has no room for another client; raise its maxclients, or end clients that "
        "nobody needs (CLIENT LIST shows them)"},
};

#define UNCOUNTABLE "its token counter, is not a number or has reached the last one; remove the key"

/* About the lock's token counter: the script says so, or INCR does. Stands behind the key. */
static const struct rule counters[] = {
    {"TOKENTYPE", PAWL_REFUSED, false, false, false,
        "which is to count its tokens, is something else (a hash, a list, ...): choose another "
        "name or remove the key"},
    {"not an integer", PAWL_REFUSED, false, false, false, UNCOUNTABLE},
    {"would overflow", PAWL_REFUSED, false, false, false, UNCOUNTABLE},
};

/* The same for the keys of a fair lock's queue. */
static const struct rule queue_type = {"QUEUETYPE", PAWL_REFUSED, false, false, false,
    "one of the keys of its queue, redisson_lock_queue and redisson_lock_timeout, is something "
    "else: choose another name or remove the key"};

enum { DENIED_RULE = 1 };

static bool begins(const char *text, size_t size, const char *start)
{
    const size_t start_size = strlen(start);
    return size >= start_size && memcmp(text, start, start_size) == 0;
}

bool pawl__redis_error_is(const char *text, size_t text_size, const char *code)
{
    const size_t code_size = strlen(code);
    return begins(text, text_size, code) && (text_size == code_size || text[code_size] == ' ');
}

static bool contains(const char *text, size_t size, const char *part)
{
    return memmem(text, size, part, strlen(part)) != NULL;
}

/* The same in the middle of a text: a word of its own, perhaps with the minus of an error reply. */
static bool contains_code(const char *text, size_t size, const char *code)
{
    const size_t code_size = strlen(code);
    for (size_t i = 1; i + code_size < size; i++) {
        if ((text[i - 1] == ' ' || text[i - 1] == '-') && text[i + code_size] == ' ' &&
            memcmp(text + i, code, code_size) == 0) {
            return true;
        }
    }
    return false;
}

/* Raised inside a script and told in the words of Redis 6, with or without its own in front. */
static bool is_nested(const char *text, size_t size)
{
    return begins(text, size, "ERR Error running script") || begins(text, size, "@user_script");
}

bool pawl__redis_error_is_denial(const char *text, size_t text_size)
{
    return pawl__redis_error_is(text, text_size, "NOPERM") ||
           contains(text, text_size, "The user executing the script can't") ||
           (is_nested(text, text_size) && contains_code(text, text_size, "NOPERM"));
}

bool pawl__redis_error_hides_key(const char *text, size_t text_size)
{
    return pawl__redis_error_is_denial(text, text_size) && contains(text, text_size, "key");
}

static const struct rule *find_rule(const char *text, size_t size)
{
    if (pawl__redis_error_is_denial(text, size)) {
        return &rules[DENIED_RULE];
    }
    const bool nested = is_nested(text, size);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (pawl__redis_error_is(text, size, rules[i].code) ||
            (nested && contains_code(text, size, rules[i].code))) {
            return &rules[i];
        }
    }
    return NULL;
}

static const struct rule *find_part(
    const struct rule *list, size_t count, const char *text, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (contains(text, size, list[i].code)) {
            return &list[i];
        }
    }
    return NULL;
}

/* Where in which script it happened helps nobody who reads the sentence. */
static size_t without_place(const char *text, size_t size)
{
    const char *place = memmem(text, size, " script: ", strlen(" script: "));
    const bool is_place =
        place != NULL && contains(place, size - (size_t)(place - text), "on @user_script");
    return is_place ? (size_t)(place - text) : size;
}

const char *pawl__redis_show(
    const char *text, size_t text_size, const char *secret, char *out, size_t out_size)
{
    static const char hidden[] = "an error that repeats the password";
    const bool leaks = secret != NULL && secret[0] != '\0' && contains(text, text_size, secret);
    const char *shown = leaks ? hidden : text;
    return pawl__printable(
        shown, leaks ? sizeof hidden - 1 : without_place(text, text_size), out, out_size);
}

static struct pawl__verdict verdict_by(const struct rule *rule, char *sentence)
{
    return (struct pawl__verdict){
        rule->status, rule->again, rule->foreign, rule->demoted, rule->meaning, sentence};
}

struct pawl__verdict pawl__redis_judge(
    const char *text, size_t text_size, const char *name, size_t name_size, const char *secret)
{
    static const struct rule unknown = {NULL, PAWL_PROTOCOL, false, false, false, NULL};
    char shown[SHOWN_SIZE];
    char shown_name[SHOWN_NAME_SIZE];
    pawl__redis_show(text, text_size, secret, shown, sizeof shown);
    pawl__printable(name, name_size, shown_name, sizeof shown_name);

    const struct rule *rule = find_rule(text, text_size);
    if (rule == NULL && contains(text, text_size, queue_type.code)) {
        rule = &queue_type;
    }
    if (rule == NULL) {
        rule = find_part(uncoded, sizeof uncoded / sizeof uncoded[0], text, text_size);
    }
    if (rule != NULL) {
        return verdict_by(
            rule, pawl__format("lock '%s': %s (%s)", shown_name, rule->meaning, shown));
    }
    rule = find_part(counters, sizeof counters / sizeof counters[0], text, text_size);
    if (rule != NULL) {
        const bool braces = memchr(name, '{', name_size) == NULL; /* as place.h has it */
        return verdict_by(rule,
            pawl__format("lock '%s': the key 'redisson_lock_token:%s%s%s', %s (%s)", shown_name,
                braces ? "{" : "", shown_name, braces ? "}" : "", rule->meaning, shown));
    }
    return verdict_by(&unknown,
        pawl__format("lock '%s': the server answered with an error: %s", shown_name, shown));
}
