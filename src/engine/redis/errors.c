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
        "the key exists and is not a lock (a string, a list, ...): choose another name or remove "
        "it"},
    {"NOPERM", PAWL_DENIED, false, false, false,
        "the server's access list forbids it; add the right with ACL SETUSER"},
    {"NOAUTH", PAWL_DENIED, false, false, false,
        "the server wants a password; give one in the URL or by ?password_env="},
    {"OOM", PAWL_REFUSED, true, false, false,
        "the server has reached its memory limit; raise maxmemory or free some"},
    {"MISCONF", PAWL_REFUSED, true, false, false,
        "the server cannot save its data and refuses writes; look at its disk and its log"},
    {"NOREPLICAS", PAWL_REFUSED, true, false, false,
        "the server has fewer good replicas than min-replicas-to-write asks for"},
    {"READONLY", PAWL_REFUSED, true, false, true,
        "the server is a read-only replica; connect to its master"},
    {"MASTERDOWN", PAWL_REFUSED, true, false, true,
        "the server is a replica that has lost its master"},
    {"LOADING", PAWL_REFUSED, true, false, false, "the server is still loading its data"},
    {"BUSY", PAWL_REFUSED, true, false, false, "the server is busy running somebody's script"},
    {"TRYAGAIN", PAWL_REFUSED, true, false, false, "the cluster is moving the key at the moment"},
    {"CLUSTERDOWN", PAWL_REFUSED, true, false, false, "the cluster is down"},
    {"MOVED", PAWL_REFUSED, true, false, false, "the key belongs to another node of a cluster"},
    {"ASK", PAWL_REFUSED, true, false, false, "the key is moving to another node of a cluster"},
    {"CROSSSLOT", PAWL_REFUSED, false, false, false,
        "the name's braces put its keys on different nodes of a cluster; choose another name"},
};

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

/* The same in the middle of a text: between two spaces. */
static bool contains_code(const char *text, size_t size, const char *code)
{
    const size_t code_size = strlen(code);
    for (size_t i = 1; i + code_size < size; i++) {
        if (text[i - 1] == ' ' && text[i + code_size] == ' ' &&
            memcmp(text + i, code, code_size) == 0) {
            return true;
        }
    }
    return false;
}

bool pawl__redis_error_is_denial(const char *text, size_t text_size)
{
    return pawl__redis_error_is(text, text_size, "NOPERM") ||
           contains(text, text_size, "The user executing the script can't") ||
           (begins(text, text_size, "ERR Error running script") &&
               contains_code(text, text_size, "NOPERM"));
}

static const struct rule *find_rule(const char *text, size_t size)
{
    if (pawl__redis_error_is_denial(text, size)) {
        return &rules[DENIED_RULE];
    }
    const bool nested = begins(text, size, "ERR Error running script");
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (pawl__redis_error_is(text, size, rules[i].code) ||
            (nested && contains_code(text, size, rules[i].code))) {
            return &rules[i];
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

struct pawl__verdict pawl__redis_judge(
    const char *text, size_t text_size, const char *name, size_t name_size, const char *secret)
{
    char shown[SHOWN_SIZE];
    char shown_name[SHOWN_NAME_SIZE];
    pawl__redis_show(text, text_size, secret, shown, sizeof shown);
    pawl__printable(name, name_size, shown_name, sizeof shown_name);

    const struct rule *rule = find_rule(text, text_size);
    if (rule != NULL) {
        return (struct pawl__verdict){rule->status, rule->again, rule->foreign, rule->demoted,
            pawl__format("lock '%s': %s (%s)", shown_name, rule->meaning, shown)};
    }
    if (contains(text, text_size, "max number of clients")) {
        return (struct pawl__verdict){PAWL_UNAVAILABLE, true, false, false,
            pawl__format("the server has no room for another client (%s)", shown)};
    }
    if (contains(text, text_size, "not an integer")) {
        return (struct pawl__verdict){PAWL_REFUSED, false, false, false,
            pawl__format("lock '%s': its token counter is not a number; remove the key "
                         "'redisson_lock_token:...' of this lock (%s)",
                shown_name, shown)};
    }
    return (struct pawl__verdict){PAWL_PROTOCOL, false, false, false,
        pawl__format("lock '%s': the server answered with an error: %s", shown_name, shown)};
}
