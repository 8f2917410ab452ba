/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of a quorum; quorum_vote.h says what each number means. */
#include "compound/quorum_vote.h"

#include "base/clock.h"

#include <string.h>

#define PAUSE_LEAST_US 2000
#define PAUSE_FIRST_US 10000 /* the first pause is up to this long, */
#define PAUSE_MOST_US 100000 /* and later ones up to this */
#define PAUSE_DOUBLINGS 4
#define CLOCKS_AGREE_US 5000000

size_t pawl__majority(size_t count)
{
    return count / 2 + 1;
}

size_t pawl__votes_count(const enum pawl__vote votes[], size_t count, enum pawl__vote which)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        found += votes[i] == which ? 1 : 0;
    }
    return found;
}

enum pawl__verdict_now pawl__votes_judge(const enum pawl__vote votes[], size_t count)
{
    const size_t yes = pawl__votes_count(votes, count, PAWL__VOTE_YES);
    const size_t open = pawl__votes_count(votes, count, PAWL__VOTE_OPEN);
    if (yes >= pawl__majority(count)) {
        return PAWL__CARRIED;
    }
    return yes + open >= pawl__majority(count) ? PAWL__UNDECIDED : PAWL__FALLEN;
}

enum pawl__reason pawl__votes_reason(const enum pawl__vote votes[], size_t count, size_t twins)
{
    const size_t majority = pawl__majority(count);
    const size_t barred = pawl__votes_count(votes, count, PAWL__VOTE_BARRED);
    const size_t answered = pawl__votes_count(votes, count, PAWL__VOTE_YES) +
                            pawl__votes_count(votes, count, PAWL__VOTE_NO);
    if (count - pawl__votes_count(votes, count, PAWL__VOTE_NEVER) < majority) {
        return PAWL__REASON_REFUSED;
    }
    if (answered >= majority) {
        return PAWL__REASON_BUSY;
    }
    if (barred == 0 || answered + barred < majority) {
        return PAWL__REASON_SILENCE;
    }
    /* Had the barred ones been allowed to, a majority might have said yes. */
    return answered + barred - twins < majority ? PAWL__REASON_TWINS : PAWL__REASON_BARRED;
}

bool pawl__votes_reason_stands(const enum pawl__vote votes[], size_t count, size_t twins)
{
    static const enum pawl__vote may_be[] = {PAWL__VOTE_NO, PAWL__VOTE_NEVER};
    const enum pawl__reason reason = pawl__votes_reason(votes, count, twins);
    for (size_t i = 0; i < sizeof may_be / sizeof may_be[0]; i++) {
        enum pawl__vote then[PAWL__QUORUM_MAX];
        for (size_t at = 0; at < count; at++) {
            then[at] = votes[at] == PAWL__VOTE_OPEN ? may_be[i] : votes[at];
        }
        if (pawl__votes_reason(then, count, twins) != reason) {
            return false;
        }
    }
    return true;
}

pawl_status pawl__votes_release_status(const enum pawl__vote votes[], size_t count)
{
    const size_t yes = pawl__votes_count(votes, count, PAWL__VOTE_YES);
    const size_t silent = pawl__votes_count(votes, count, PAWL__VOTE_SILENT) +
                          pawl__votes_count(votes, count, PAWL__VOTE_OPEN);
    if (yes >= pawl__majority(count)) {
        return PAWL_OK;
    }
    return yes + silent >= pawl__majority(count) ? PAWL_UNAVAILABLE : PAWL_LOST;
}

int64_t pawl__quorum_deadline(const int64_t deadlines_us[], size_t count)
{
    int64_t sorted[PAWL__QUORUM_MAX] = {0};
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        while (at > 0 && sorted[at - 1] < deadlines_us[i]) {
            sorted[at] = sorted[at - 1];
            at--;
        }
        sorted[at] = deadlines_us[i];
    }
    return sorted[pawl__majority(count) - 1];
}

uint64_t pawl__tokens_greatest(const uint64_t tokens[], size_t count)
{
    uint64_t greatest = 0;
    for (size_t i = 0; i < count; i++) {
        greatest = tokens[i] > greatest ? tokens[i] : greatest;
    }
    return greatest;
}

size_t pawl__tokens_at(const uint64_t tokens[], size_t count, uint64_t token)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        found += tokens[i] == token ? 1 : 0;
    }
    return found;
}

int64_t pawl__quorum_pause_us(struct pawl__random *random, unsigned attempt)
{
    const int64_t doubled_us = (int64_t)PAUSE_FIRST_US
                               << (attempt < PAUSE_DOUBLINGS ? attempt : PAUSE_DOUBLINGS);
    const int64_t most_us = pawl__min64(doubled_us, PAUSE_MOST_US);
    return PAUSE_LEAST_US + (int64_t)pawl__random_below(random, (uint64_t)most_us);
}

/* Renewals are sent after a third of the lease; one that is late by a quarter of that has failed.
 */
int64_t pawl__quorum_risk_us(int64_t lease_us, int64_t warn_us)
{
    return pawl__min64(warn_us, lease_us - lease_us / 3 - lease_us / 12);
}

int64_t pawl__quarantine_us(int64_t age_us, int64_t max_lease_us)
{
    return pawl__max64(max_lease_us - pawl__max64(age_us, 0), 0);
}

int64_t pawl__uptime_believed_us(int64_t uptime_us, int64_t its_clock_us, int64_t our_clock_us)
{
    const int64_t apart_us =
        its_clock_us > our_clock_us ? its_clock_us - our_clock_us : our_clock_us - its_clock_us;
    return apart_us <= CLOCKS_AGREE_US ? pawl__max64(uptime_us, 0) : 0;
}
