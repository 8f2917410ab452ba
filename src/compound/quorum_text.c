/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences: which node said what. "lock 'jobs': no majority grants it; 2 of 3 are needed:
 * redis://127.0.0.1:7001: busy; redis://127.0.0.1:7002: no answer within 50 ms; ..." Nodes are
 * named without credentials. */
#include "compound/quorum.h"

#include "base/clock.h"
#include "base/error.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_SIZE = 1280, WORDS_SIZE = 400, NAME_SIZE = 128 };

static const char *show_name(const struct pawl__quorum *quorum, char out[NAME_SIZE])
{
    return pawl__printable(quorum->name, strlen(quorum->name), out, NAME_SIZE);
}

/* A node that has no part of the hold. */
static const char *word_without_part(const struct pawl__node *node)
{
    return node->answers ? "not held" : "no answer";
}

/* What an answer is called in such a list, which begins with the lock's name. */
static const char *word_for(const struct pawl__ballot *ballot)
{
    const struct pawl__request *request = &ballot->request;
    char name[NAME_SIZE];
    char start[NAME_SIZE + 16];
    if (request->status == PAWL_OK) {
        return request->kind == PAWL__WANT_ACQUIRE ? "granted" : "done";
    }
    if (request->status == PAWL_NOT_HELD) {
        return word_without_part(ballot->node);
    }
    if (request->error == NULL) {
        return pawl_status_string(request->status);
    }
    snprintf(start, sizeof start, "lock '%s': ", show_name(ballot->node->quorum, name));
    const bool named = strncmp(request->error, start, strlen(start)) == 0;
    return request->error + (named ? strlen(start) : 0);
}

/* What a server says of itself begins with its address, which the list has said already. */
static const char *without_address(const char *where, const char *words)
{
    const char *end = strstr(words, ": ");
    const bool said = end != NULL && end > words &&
                      memmem(where, strlen(where), words, (size_t)(end - words)) != NULL;
    return said ? end + 2 : words;
}

static void describe_silence(const struct pawl__ballot *ballot, char words[WORDS_SIZE])
{
    const bool known = ballot->trouble != NULL; /* it is away, and not slow */
    const int64_t waited_us = pawl__max64(ballot->panel->expired_us - ballot->asked_us, 0);
    const bool whole = waited_us * 4 >= ballot->node->quorum->node_timeout_us * 3;
    snprintf(words, WORDS_SIZE, "no answer %s %lld ms%s%s%s%s", whole ? "within" : "in the",
        (long long)((waited_us + 500) / 1000), whole ? "" : " that were left",
        known ? " (before: " : "",
        known ? without_address(ballot->node->where, ballot->trouble) : "", known ? ")" : "");
}

static void describe_ballot(const struct pawl__ballot *ballot, char words[WORDS_SIZE])
{
    if (ballot->apart) { /* it may still be out */
        snprintf(words, WORDS_SIZE, "granted anew, but not counted yet");
        return;
    }
    switch (ballot->vote) {
    case PAWL__VOTE_OPEN:
        if (ballot->pending) {
            snprintf(words, WORDS_SIZE, "granted, but still being looked at");
        } else if (ballot->panel->expired_us == 0) {
            snprintf(words, WORDS_SIZE, "had not answered yet when the others decided it");
        } else {
            describe_silence(ballot, words);
        }
        return;
    case PAWL__VOTE_BARRED:
        pawl__guard_describe(ballot->node, true, words, WORDS_SIZE);
        return;
    case PAWL__VOTE_YES:
    case PAWL__VOTE_NO:
    case PAWL__VOTE_SILENT:
    case PAWL__VOTE_NEVER:
        break;
    }
    snprintf(words, WORDS_SIZE, "%s", without_address(ballot->node->where, word_for(ballot)));
}

/* Add "where: words". Each of the `left` nodes gets its share of the room, and what those before it
 * have left of theirs. */
static void add(char *out, size_t size, size_t left, const char *where, const char *words)
{
    const size_t used = strlen(out);
    const size_t room = (size - used) / left;
    const char *between = used > 0 ? "; " : "";
    const int written = snprintf(out + used, room, "%s%s: %s", between, where, words);
    if (written > 0 && (size_t)written >= room && room > 4) {
        memcpy(out + used + room - 4, "...", 4);
    }
}

pawl_status pawl__quorum_fail(
    const struct pawl__quorum *quorum, pawl_status status, const char *words)
{
    char name[NAME_SIZE];
    return pawl__fail(status, "lock '%s': %s", show_name(quorum, name), words);
}

pawl_status pawl__quorum_fail_votes(const struct pawl__quorum *quorum,
    const struct pawl__panel *panel, pawl_status status, const char *what)
{
    char text[TEXT_SIZE] = "";
    char all[TEXT_SIZE + WORDS_SIZE];
    for (size_t i = 0; i < panel->count; i++) {
        char words[WORDS_SIZE];
        describe_ballot(&panel->ballots[i], words);
        add(text, sizeof text, panel->count - i, panel->ballots[i].node->where, words);
    }
    snprintf(all, sizeof all, "%s; %zu of %zu servers are needed: %s", what,
        pawl__majority(quorum->count), quorum->count, text);
    return pawl__quorum_fail(quorum, status, all);
}

pawl_status pawl__quorum_fail_refused(
    const struct pawl__quorum *quorum, const struct pawl__panel *panel)
{
    const struct pawl__ballot *first = NULL;
    char name[NAME_SIZE];
    char who[TEXT_SIZE] = "";
    for (size_t i = 0; i < panel->count; i++) {
        const struct pawl__ballot *ballot = &panel->ballots[i];
        const size_t used = strlen(who);
        if (ballot->vote == PAWL__VOTE_NEVER) {
            snprintf(
                who + used, sizeof who - used, "%s%s", used > 0 ? ", " : "", ballot->node->where);
            first = first != NULL ? first : ballot;
        }
    }
    assert(first != NULL); /* or it would not have fallen for that */
    return pawl__fail(first->request.status,
        "lock '%s': %s; refused by %s, and %zu of %zu servers are needed", show_name(quorum, name),
        word_for(first), who, pawl__majority(quorum->count), quorum->count);
}

void pawl__quorum_warn_missing(struct pawl__ballot *ballot, size_t standing, const char *why)
{
    struct pawl__node *node = ballot->node;
    struct pawl_client *client = node->client;
    char name[NAME_SIZE];
    char text[NAME_SIZE + WORDS_SIZE + 160];
    snprintf(text, sizeof text, "the lock '%s' stands on %zu of %zu servers: %s: %.*s",
        show_name(node->quorum, name), standing, node->quorum->count, node->where, WORDS_SIZE,
        why != NULL ? why : word_for(ballot));
    if (pawl__call_enter(client)) {
        client->host.log(&client->host, PAWL_LOG_WARNING, text);
        pawl__call_leave(client);
    }
}

/* How a node stands that has no part of the hold. */
static const char *word_of_absent(
    struct pawl__node *node, bool held, bool lost, char words[WORDS_SIZE])
{
    if (lost) {
        return "lost";
    }
    if (pawl__guard_admits(node) == PAWL__BARRED) {
        pawl__guard_describe(node, false, words, WORDS_SIZE);
        return words;
    }
    return held ? "granted anew, not counted yet" : word_without_part(node);
}

void pawl__quorum_describe(struct pawl__quorum *quorum, char *out, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; i < quorum->count; i++) {
        struct pawl__node *node = &quorum->nodes[i];
        struct pawl__node_hold hold;
        char words[WORDS_SIZE];
        bool lost = false;
        const bool held = pawl__node_look(node, &hold, &lost);
        add(out, size, quorum->count - i, node->where,
            held && pawl__part_is(node, hold.id) ? "held"
                                                 : word_of_absent(node, held, lost, words));
    }
}
