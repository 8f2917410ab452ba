/* SPDX-License-Identifier: Apache-2.0 */
/* The greeting; greet.h says what is said and why.
 *
 * Two flights: HELLO, SELECT and INFO go out together; what depends on their answers follows
 * together. Replies come in the order of the commands, so each step in its turn takes its own. */
#include "engine/redis/greet.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "engine/redis/commands.h"
#include "engine/redis/errors.h"
#include "engine/redis/rights.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VERSION_MIN = 6,
    VERSION_WITH_ACL_CHECK = 7,
    SHOWN_SIZE = 160, /* of the server's words in a sentence */
};

static enum pawl__greet_result fail(struct pawl__greet *greet, pawl_status status, char *sentence)
{
    greet->status = status;
    pawl__free(greet->sentence);
    greet->sentence = sentence;
    return PAWL__GREET_FAILED;
}

static enum pawl__greet_result fail_memory(struct pawl__greet *greet)
{
    return fail(greet, PAWL_NO_MEMORY, pawl__strdup("no memory for the greeting"));
}

/* One warning is kept; more than one at a time hardly happens, and the first is the worst. */
static void warn(struct pawl__greet *greet, enum pawl__greet_cause cause, char *warning)
{
    if (greet->warning == NULL) {
        greet->warning = warning;
        greet->cause = cause;
    } else {
        pawl__free(warning);
    }
}

/* ===== What is said ===== */

static bool put_hello(const struct pawl__greet *greet, struct pawl__buffer *out)
{
    const char *password = greet->config->password;
    const char *user = greet->config->user != NULL ? greet->config->user : "default";
    const char *const words[] = {"HELLO", "3", "AUTH", user, password};
    return pawl__resp_put_command(out, password != NULL ? 5 : 2, words, NULL);
}

static bool put_select(const struct pawl__greet *greet, struct pawl__buffer *out)
{
    return pawl__resp_put_array(out, 2) && pawl__resp_put_text(out, "SELECT") &&
           pawl__resp_put_int(out, greet->config->db);
}

static bool put_info(struct pawl__buffer *out)
{
    const char *const words[] = {"INFO"};
    return pawl__resp_put_command(out, 1, words, NULL);
}

static bool put_kill(const struct pawl__doubt *doubt, bool by_address, struct pawl__buffer *out)
{
    return pawl__resp_put_array(out, by_address ? 6 : 4) && pawl__resp_put_text(out, "CLIENT") &&
           pawl__resp_put_text(out, "KILL") && pawl__resp_put_text(out, "ID") &&
           pawl__resp_put_int(out, doubt->client_id) &&
           (!by_address ||
               (pawl__resp_put_text(out, "ADDR") && pawl__resp_put_text(out, doubt->address)));
}

/* A name that nobody's pattern is likely to match, unless it matches all. */
static bool put_probe(struct pawl__buffer *out, bool whole)
{
    char text[PAWL__UUID_SIZE + 1];
    if (!pawl__uuid(text)) {
        return false;
    }
    return pawl__command_put_probe(out, (struct pawl__redis_text){text, PAWL__UUID_SIZE}, whole);
}

enum pawl__greet_result pawl__greet_begin(struct pawl__greet *greet,
    const struct pawl__redis_config *config, const struct pawl__doubt *doubt,
    struct pawl__buffer *out)
{
    pawl__greet_free(greet);
    greet->config = config;
    greet->doubt = doubt;
    greet->step = PAWL__GREET_HELLO;
    greet->fenced = true;
    const bool put =
        put_hello(greet, out) &&
        (doubt == NULL || ((config->db == 0 || put_select(greet, out)) && put_info(out)));
    return put ? PAWL__GREET_MORE : fail_memory(greet);
}

void pawl__greet_free(struct pawl__greet *greet)
{
    pawl__free(greet->sentence);
    pawl__free(greet->warning);
    *greet = (struct pawl__greet){0};
}

/* ===== Errors ===== */

static enum pawl__greet_result fail_hello(struct pawl__greet *greet, const char *text, size_t size)
{
    char shown[SHOWN_SIZE];
    const char *peer = greet->config->peer;
    pawl__redis_show(text, size, greet->config->password, shown, sizeof shown);
    if (pawl__redis_error_is(text, size, "WRONGPASS")) {
        return fail(greet, PAWL_DENIED,
            pawl__format("%s does not let user '%s' in: no such user, another password, or it is "
                         "switched off; the password is what redis://user:password@host, "
                         "?password_env=NAME or ?password_file=PATH says",
                peer, greet->config->shown_user));
    }
    if (pawl__redis_error_is(text, size, "NOAUTH")) {
        return fail(greet, PAWL_DENIED,
            pawl__format("%s wants a password: redis://:password@host, or ?password_env=NAME, or "
                         "?password_file=PATH",
                peer));
    }
    if (pawl__redis_error_is(text, size, "NOPERM") || pawl__redis_error_is(text, size, "DENIED")) {
        return fail(greet, PAWL_DENIED, pawl__format("%s denies it: %s", peer, shown));
    }
    if (memmem(text, size, "unknown command", 15) != NULL ||
        pawl__redis_error_is(text, size, "NOPROTO")) {
        return fail(greet, PAWL_REFUSED,
            pawl__format("%s is older than Redis %d; pawl needs %d.0 or later", peer, VERSION_MIN,
                VERSION_MIN));
    }
    const struct pawl__verdict verdict = pawl__redis_judge(text, size, "", 0, NULL);
    pawl__free(verdict.sentence);
    return fail(greet, verdict.status,
        verdict.meaning != NULL ? pawl__format("%s: %s (%s)", peer, verdict.meaning, shown)
                                : pawl__format("%s does not greet us: %s", peer, shown));
}

static enum pawl__greet_result fail_strange(struct pawl__greet *greet, const char *command)
{
    return fail(greet, PAWL_PROTOCOL,
        pawl__format("%s answers %s as no Redis server does", greet->config->peer, command));
}

/* How many databases there are, only CONFIG would tell, which few users may ask. */
static enum pawl__greet_result fail_database(struct pawl__greet *greet, const char *shown)
{
    const char *peer = greet->config->peer;
    const long long db = (long long)greet->config->db;
    if (strstr(shown, "cluster mode") != NULL) {
        return fail(greet, PAWL_INVALID,
            pawl__format("%s is a node of a cluster, which has database 0 alone; leave the %lld "
                         "out of the URL (%s)",
                peer, db, shown));
    }
    return fail(greet, PAWL_INVALID,
        pawl__format("%s has no database %lld: they are counted from 0, and there are 16 unless "
                     "`databases` in its configuration says otherwise; choose another in the URL, "
                     "or raise that (%s)",
            peer, db, shown));
}

static enum pawl__greet_result fail_select(struct pawl__greet *greet, const char *text, size_t size)
{
    char shown[SHOWN_SIZE];
    pawl__redis_show(text, size, greet->config->password, shown, sizeof shown);
    const long long db = (long long)greet->config->db;
    if (pawl__redis_error_is_denial(text, size)) {
        return fail(greet, PAWL_DENIED,
            pawl__format("the user may not choose database %lld; add the right with: %s +select",
                db, greet->config->grant));
    }
    const struct pawl__verdict verdict = pawl__redis_judge(text, size, "", 0, NULL);
    pawl__free(verdict.sentence);
    if (verdict.status == PAWL_PROTOCOL) {
        return fail_database(greet, shown);
    }
    return fail(greet, verdict.status,
        pawl__format("%s does not give us database %lld: %s", greet->config->peer, db, shown));
}

/* ===== What is answered ===== */

static unsigned major_version(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *version)
{
    unsigned major = 0;
    if (version != NULL && version->type == PAWL__RESP_TEXT) {
        const char *text = pawl__resp_text(reader, version);
        for (uint32_t i = 0; i < version->text_size && i < 6 && text[i] >= '0' && text[i] <= '9';
             i++) {
            major = major * 10 + (unsigned)(text[i] - '0');
        }
    }
    return major;
}

static bool role_is_fit(const struct pawl__greet *greet, const struct pawl__resp_reader *reader,
    const struct pawl__resp_node *role)
{
    return greet->config->settings.guard == PAWL_GUARD_OFF || role == NULL ||
           pawl__resp_text_equals(reader, role, "master");
}

/* Why a server of this mode is no place for locks; NULL: it is one. Who only looks may look at a
 * node of a cluster. */
static const char *judge_mode(const struct pawl__greet *greet,
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *mode)
{
    if (pawl__resp_text_equals(reader, mode, "sentinel")) {
        return "a Sentinel, which keeps no locks; name the server it watches";
    }
    if (pawl__resp_text_equals(reader, mode, "cluster") && greet->doubt != NULL &&
        greet->config->settings.guard != PAWL_GUARD_OFF) {
        return "a node of a cluster, where most names belong to other nodes; name a server that "
               "stands alone (this version of pawl does not speak to clusters yet)";
    }
    return NULL;
}

static enum pawl__greet_result take_hello(struct pawl__greet *greet,
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *reply)
{
    if (pawl__resp_is_error(reply)) {
        return fail_hello(greet, pawl__resp_text(reader, reply), reply->text_size);
    }
    const struct pawl__resp_node *id = pawl__resp_map_get(reader, reply, "id");
    const struct pawl__resp_node *mode = pawl__resp_map_get(reader, reply, "mode");
    if (reply->type != PAWL__RESP_MAP || id == NULL || id->type != PAWL__RESP_INTEGER) {
        return fail_strange(greet, "HELLO");
    }
    greet->client_id = id->integer;
    greet->version_major = major_version(reader, pawl__resp_map_get(reader, reply, "version"));
    const char *unfit = mode != NULL ? judge_mode(greet, reader, mode) : NULL;
    if (unfit != NULL) {
        return fail(greet, PAWL_REFUSED, pawl__format("%s is %s", greet->config->peer, unfit));
    }
    if (greet->version_major < VERSION_MIN) {
        return fail_hello(greet, "NOPROTO", strlen("NOPROTO"));
    }
    /* The push connection may meet a replica: it hears what its master publishes. */
    if (greet->doubt != NULL &&
        !role_is_fit(greet, reader, pawl__resp_map_get(reader, reply, "role"))) {
        return fail(greet, PAWL_REFUSED,
            pawl__format(
                "%s is a replica and no place for a lock; name its master", greet->config->peer));
    }
    if (greet->doubt == NULL) {
        greet->step = PAWL__GREET_DONE;
        return PAWL__GREET_READY;
    }
    greet->step = greet->config->db == 0 ? PAWL__GREET_INFO : PAWL__GREET_SELECT;
    return PAWL__GREET_MORE;
}

static enum pawl__greet_result take_select(struct pawl__greet *greet,
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *reply)
{
    if (pawl__resp_is_error(reply)) {
        return fail_select(greet, pawl__resp_text(reader, reply), reply->text_size);
    }
    greet->step = PAWL__GREET_INFO;
    return PAWL__GREET_MORE;
}

/* Can the old connection be named so that nobody else is meant? */
static bool may_kill(const struct pawl__greet *greet, bool *by_address_out)
{
    const struct pawl__doubt *doubt = greet->doubt;
    const bool same_run = greet->run_id[0] != '\0' && strcmp(greet->run_id, doubt->run_id) == 0;
    *by_address_out = !same_run;
    return same_run || doubt->address[0] != '\0';
}

/* The second flight: what the first one's answers ask for. */
static enum pawl__greet_result say_rest(struct pawl__greet *greet, struct pawl__buffer *out)
{
    const struct pawl__doubt *doubt = greet->doubt;
    const bool known = greet->run_id[0] != '\0' && doubt->run_id[0] != '\0';
    const bool other_run = known && strcmp(greet->run_id, doubt->run_id) != 0;
    bool by_address = false;
    bool put = true;
    greet->step = PAWL__GREET_LOAD;
    if (doubt->open && !other_run) {
        if (may_kill(greet, &by_address)) {
            greet->step = PAWL__GREET_KILL;
            put = put_kill(doubt, by_address, out);
        }
        greet->fenced = false; /* until the server says that it is */
    }
    put = put && pawl__command_put_loads(out, &greet->loads_left);
    if (greet->version_major >= VERSION_WITH_ACL_CHECK) {
        put = put && put_probe(out, false);
    }
    return put ? PAWL__GREET_MORE : fail_memory(greet);
}

static enum pawl__greet_result judge_info(
    struct pawl__greet *greet, const char *info, size_t info_size, struct pawl__buffer *out)
{
    struct pawl__redis_facts facts;
    struct pawl__fitness fitness;
    pawl__redis_facts_read(&facts, info, info_size);
    pawl__redis_guard(&facts, greet->config->settings.guard, &fitness);
    memcpy(greet->run_id, facts.run_id, sizeof greet->run_id);
    greet->time_us = facts.time_us;
    greet->uptime_us = facts.uptime_us;
    greet->replica = facts.replica;
    if (fitness.status != PAWL_OK) {
        return fail(
            greet, fitness.status, pawl__format("%s: %s", greet->config->peer, fitness.sentence));
    }
    if (fitness.sentence != NULL) {
        warn(greet, PAWL__GREET_EVICTS,
            pawl__format("%s: %s", greet->config->peer, fitness.sentence));
    }
    return say_rest(greet, out);
}

static enum pawl__greet_result take_info(struct pawl__greet *greet,
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *reply,
    struct pawl__buffer *out)
{
    const char *text = pawl__resp_text(reader, reply);
    if (reply->type == PAWL__RESP_TEXT) {
        return judge_info(greet, text, reply->text_size, out);
    }
    if (!pawl__resp_is_error(reply)) {
        return fail_strange(greet, "INFO");
    }
    if (!pawl__redis_error_is_denial(text, reply->text_size)) {
        return fail_hello(greet, text, reply->text_size);
    }
    if (greet->config->settings.guard != PAWL_GUARD_OFF) {
        warn(greet, PAWL__GREET_INFO_DENIED,
            pawl__format("%s does not let us look whether it may evict locks; add the right with: "
                         "%s +info",
                greet->config->peer, greet->config->grant));
    }
    return say_rest(greet, out);
}

/* How many clients were killed. None is as good if the id is surely ours: it is gone already. */
static enum pawl__greet_result take_kill(
    struct pawl__greet *greet, const struct pawl__resp_node *reply)
{
    bool by_address = false;
    const bool meant = may_kill(greet, &by_address) && !by_address;
    greet->fenced =
        !greet->doubt->older && reply->type == PAWL__RESP_INTEGER && (meant || reply->integer > 0);
    if (pawl__resp_is_error(reply)) {
        warn(greet, PAWL__GREET_KILL_DENIED,
            pawl__format("%s does not let us end an old connection of our own; add the right with: "
                         "%s '+client|kill'",
                greet->config->peer, greet->config->grant));
    }
    greet->step = PAWL__GREET_LOAD;
    return PAWL__GREET_MORE;
}

static enum pawl__greet_result finish(struct pawl__greet *greet)
{
    greet->step = PAWL__GREET_DONE;
    return PAWL__GREET_READY;
}

/* Errors do not matter: whoever may not load a script sends its text when it is missing. */
static enum pawl__greet_result take_load(struct pawl__greet *greet)
{
    greet->loads_left--;
    if (greet->loads_left > 0) {
        return PAWL__GREET_MORE;
    }
    if (greet->version_major < VERSION_WITH_ACL_CHECK) {
        return finish(greet);
    }
    greet->step = PAWL__GREET_RIGHTS;
    return PAWL__GREET_MORE;
}

static enum pawl__greet_result take_rights(struct pawl__greet *greet,
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *reply,
    struct pawl__buffer *out)
{
    const char *text = pawl__resp_text(reader, reply);
    if (pawl__resp_error_is(reader, reply, "NOSCRIPT")) {
        return put_probe(out, true) ? PAWL__GREET_MORE : fail_memory(greet);
    }
    if (pawl__resp_is_error(reply) && pawl__redis_error_is_denial(text, reply->text_size)) {
        return fail(greet, PAWL_DENIED,
            pawl__format("%s does not let the user run scripts; add the rights with: %s "
                         "+evalsha +eval '+script|load'",
                greet->config->peer, greet->config->grant));
    }
    greet->restricted = pawl__rights_any_missing(reply);
    return finish(greet);
}

enum pawl__greet_result pawl__greet_reply(struct pawl__greet *greet,
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *reply,
    struct pawl__buffer *out)
{
    switch (greet->step) {
    case PAWL__GREET_HELLO:
        return take_hello(greet, reader, reply);
    case PAWL__GREET_SELECT:
        return take_select(greet, reader, reply);
    case PAWL__GREET_INFO:
        return take_info(greet, reader, reply, out);
    case PAWL__GREET_KILL:
        return take_kill(greet, reply);
    case PAWL__GREET_LOAD:
        return take_load(greet);
    case PAWL__GREET_RIGHTS:
        return take_rights(greet, reader, reply, out);
    case PAWL__GREET_DONE:
        break;
    }
    return fail_strange(greet, "the greeting");
}
