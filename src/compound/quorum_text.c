/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences: which node said what. "lock 'jobs': no majority grants it; 2 of 3 are needed:
 * redis://127.0.0.1:7001: busy; redis://127.0.0.1:7002: no answer within 50 ms; ..." Nodes are
 * named without credentials. */
#include "compound/quorum.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_SIZE = 900, WORDS_SIZE = 200, NAME_SIZE = 128 };

/* What an answer is called in such a list. */
static const char *word_for(const struct pawl__request *request)
{
    if (request->status == PAWL_OK) {
        return request->kind == PAWL__WANT_ACQUIRE ? "granted" : "done";
    }
    return request->error != NULL ? request->error : pawl_status_string(request->status);
}

static void describe_ballot(const struct pawl__ballot *ballot, char words[WORDS_SIZE])
{
    const bool known = ballot->trouble[0] != '\0'; /* it is away, and not slow */
    if (ballot->apart) {                           /* it may still be out */
        snprintf(words, WORDS_SIZE, "granted anew, but not counted yet");
        return;
    }
    const int64_t waited_us = pawl__max64(ballot->panel->expired_us - ballot->asked_us, 0);
    switch (ballot->vote) {
    case PAWL__VOTE_OPEN:
        if (ballot->pending) {
            snprintf(words, WORDS_SIZE, "granted, but still being looked at");
        } else if (ballot->panel->expired_us == 0) {
            snprintf(words, WORDS_SIZE, "not waited for");
        } else {
            snprintf(words, WORDS_SIZE, "no answer within %lld ms%s%s%s",
                (long long)((waited_us + 500) / 1000), known ? " (before: " : "", ballot->trouble,
                known ? ")" : "");
        }
        return;
    case PAWL__VOTE_BARRED:
        pawl__guard_describe(ballot->node, words, WORDS_SIZE);
        return;
    case PAWL__VOTE_YES:
    case PAWL__VOTE_NO:
    case PAWL__VOTE_SILENT:
        break;
    }
    snprintf(words, WORDS_SIZE, "%s", word_for(&ballot->request));
}

/* Add "where: words"; each node gets its share of the room. */
static void add(char *out, size_t size, size_t count, const char *where, const char *words)
{
    const size_t used = strlen(out);
    const size_t share = size / count;
    const size_t room = size - used < share ? size - used : share;
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
    const char *text = quorum->name;
    return pawl__fail(
        status, "lock '%s': %s", pawl__printable(text, strlen(text), name, sizeof name), words);
}

pawl_status pawl__quorum_fail_votes(const struct pawl__quorum *quorum,
    const struct pawl__panel *panel, pawl_status status, const char *what)
{
    char text[TEXT_SIZE] = "";
    char all[TEXT_SIZE + WORDS_SIZE];
    for (size_t i = 0; i < panel->count; i++) {
        char words[WORDS_SIZE];
        describe_ballot(&panel->ballots[i], words);
        add(text, sizeof text, panel->count, panel->ballots[i].node->where, words);
    }
    snprintf(all, sizeof all, "%s; %zu of %zu servers are needed: %s", what,
        pawl__majority(quorum->count), quorum->count, text);
    return pawl__quorum_fail(quorum, status, all);
}

void pawl__quorum_describe(struct pawl__quorum *quorum, char *out, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; i < quorum->count; i++) {
        struct pawl__node_hold hold;
        bool lost = false;
        const bool held = pawl__node_look(&quorum->nodes[i], &hold, &lost);
        add(out, size, quorum->count, quorum->nodes[i].where,
            held && pawl__part_is(&quorum->nodes[i], hold.id) ? "held"
            : held                                            ? "granted anew, not counted yet"
            : lost                                            ? "lost"
                                                              : "not held");
    }
}
