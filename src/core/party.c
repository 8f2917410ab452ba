/* SPDX-License-Identifier: Apache-2.0 */
/* Parties: claims that are granted together or not at all, where the engine can do that.
 *
 * They take their turns in this process one after the other, in the order of the list; who has its
 * turn is WAITING and asks nothing. When all have theirs, all ask, as operations that are one to
 * the engine. Then either all are granted, or one has something else to say, and the others were
 * spared. That one is the speaker: it listens, or asks again, as it would alone, and when it is to
 * ask, all do.
 *
 * While the speaker listens, somebody else holds its lock. Those behind it in the list give up
 * their turns then and take them again before the next question: nobody waits for a lock with the
 * turn at a later one, so no ring of callers that keep to the order can wait for each other.
 *
 * One that fails ends the party. The others are told at the end of the step, for whoever made it
 * fail may be walking through a list in which they are. Nothing of a party is in a name's queue as
 * an heir: it would be given one lock alone. */
#include "core/machine_parts.h"

#include "base/clock.h"

#include <assert.h>

static bool is_waiting(const struct pawl__request *request)
{
    return request->tenure != NULL && request->tenure->state == PAWL__TENURE_WAITING;
}

/* It has its turn, or the lock. */
static bool has_turn(const struct pawl__request *request)
{
    return request->finished || is_waiting(request);
}

static void list(struct pawl__machine *machine, struct pawl__party *party)
{
    if (!party->listed) {
        party->listed = true;
        party->next = machine->restless;
        machine->restless = party;
    }
}

/* The thread that waits for all of them looks after the speaker. */
static void set_speaker(
    struct pawl__machine *machine, struct pawl__party *party, struct pawl__request *speaker)
{
    struct pawl__request *before = party->speaker;
    party->speaker = speaker;
    if (before != NULL && before != speaker && !before->finished && !before->fresh &&
        machine->nudge != NULL) {
        machine->nudge(before);
    }
}

struct pawl__request *pawl__request_voice(struct pawl__request *request)
{
    const struct pawl__party *party = pawl__request_party(request);
    if (party == NULL || request->finished) {
        return request;
    }
    if (party->speaker != NULL && !party->speaker->finished) {
        return party->speaker;
    }
    struct pawl__request *voice = NULL; /* who stood in line knows for whom they all waited */
    for (size_t i = 0; i < party->joined; i++) {
        struct pawl__request *other = party->requests[i];
        if (!other->finished && (voice == NULL || (other->stood && !voice->stood))) {
            voice = other;
        }
    }
    return voice != NULL ? voice : request;
}

/* It waits for another lock, or for another caller at one, and not for the backend. */
static bool waits_for_others(const struct pawl__party *party)
{
    const struct pawl__request *speaker = party->speaker;
    return speaker != NULL && (!is_waiting(speaker) || speaker->tenure->attempt == 0);
}

bool pawl__party_is_first(const struct pawl__name *name, const struct pawl__request *request)
{
    const struct pawl__tenure *active = name->active;
    return active != NULL && active->state == PAWL__TENURE_WAITING && active->request != request &&
           active->request->party != NULL && waits_for_others(active->request->party);
}

/* ===== Turns ===== */

static void ask_all(struct pawl__machine *machine, struct pawl__party *party, int64_t now_us)
{
    assert(party->out == 0);
    party->asked = true;
    set_speaker(machine, party, NULL);
    for (size_t i = 0; i < party->count; i++) {
        struct pawl__request *request = party->requests[i];
        if (!request->finished) {
            request->tenure->motion->main.joint = party->out > 0;
            party->out++;
            pawl__claim_submit(machine, request->tenure, now_us);
        }
    }
}

/* Somebody else of this process is first. Who only tries a lock of which we have the turn need not
 * wait until it is our turn everywhere. */
static void refuse_tries(struct pawl__machine *machine, struct pawl__party *party, int64_t now_us)
{
    for (size_t i = 0; i < party->joined; i++) {
        if (is_waiting(party->requests[i])) {
            pawl__claim_tries_busy(machine, party->requests[i]->handle->name, now_us);
        }
    }
}

/* The first that has to wait for its turn, or to enter where its owner is already. NULL: none. */
static struct pawl__request *find_late(const struct pawl__party *party)
{
    for (size_t i = 0; i < party->joined; i++) {
        if (!has_turn(party->requests[i])) {
            return party->requests[i];
        }
    }
    return NULL;
}

/* Take the next turns, as far as they are to be had, and ask if they all are. */
static void advance(struct pawl__machine *machine, struct pawl__party *party, int64_t now_us)
{
    if (party->moving || party->over || party->asked) {
        return;
    }
    party->moving = true;
    while (!party->over && party->joined < party->arrived &&
           (party->joined == 0 || has_turn(party->requests[party->joined - 1]))) {
        struct pawl__request *request = party->requests[party->joined++];
        if (!request->finished) {
            set_speaker(machine, party, request);
            pawl__claim_start(machine, request, now_us);
        }
    }
    party->moving = false;
    if (party->over || party->arrived < party->count) {
        return;
    }
    struct pawl__request *late = find_late(party);
    if (late == NULL) {
        ask_all(machine, party, now_us);
    } else {
        set_speaker(machine, party, late);
        refuse_tries(machine, party, now_us);
    }
}

void pawl__party_arrive(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us)
{
    struct pawl__party *party = request->party;
    assert(request == party->requests[party->arrived]);
    if (party->arrived++ == 0) {
        pawl__list_push(&machine->parties, &party->node);
    }
    if (party->over) {
        pawl__finish(machine, request, party->status, NULL);
        return;
    }
    advance(machine, party, now_us);
}

/* Whoever starts them starts all before it waits for any: until then none needs a nudge, which
 * would have it look in vain. */
void pawl__party_started(struct pawl__request *request)
{
    const struct pawl__party *party = request->party;
    const bool all = party->arrived == party->count;
    for (size_t i = all ? 0 : party->arrived - 1; i < party->arrived; i++) {
        party->requests[i]->fresh = !all;
    }
}

/* Its turn has come, or it was called, or has waited for long enough. What the others hear does not
 * count. */
void pawl__party_ask(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    struct pawl__party *party = tenure->request->party;
    const bool speaks = tenure->request == party->speaker;
    if (party->over || (tenure->state == PAWL__TENURE_WAITING && !speaks)) {
        return;
    }
    tenure->state = PAWL__TENURE_WAITING;
    pawl__timer_clear(&machine->timers, &tenure->timer);
    pawl__set_phase(machine, tenure->request, PAWL__QUEUED);
    advance(machine, party, now_us);
}

/* ===== Answers ===== */

/* An earlier question may have been granted: take that back, and go on with our turn as another. */
static void begin_anew(struct pawl__machine *machine, struct pawl__request *request, int64_t now_us)
{
    pawl__tenure_clean(machine, request->tenure, now_us);
    request->tenure = NULL;
    struct pawl__tenure *tenure = pawl__claim_enter(machine, request);
    if (tenure != NULL) {
        tenure->state = PAWL__TENURE_WAITING;
    }
}

/* Nobody waits for the speaker's lock with something in the backend. */
static void give_back(
    struct pawl__machine *machine, const struct pawl__party *party, int64_t now_us)
{
    for (size_t i = 0; i < party->joined; i++) {
        struct pawl__request *request = party->requests[i];
        if (!request->finished && request != party->speaker && request->tenure != NULL &&
            (request->tenure->granted || request->tenure->doubt)) {
            begin_anew(machine, request, now_us);
        }
    }
}

/* Give up the turns behind the speaker. */
static void yield_turns(struct pawl__machine *machine, struct pawl__party *party, int64_t now_us)
{
    while (party->requests[party->joined - 1] != party->speaker) {
        struct pawl__request *request = party->requests[--party->joined];
        if (!request->finished) {
            pawl__tenure_clean(machine, request->tenure, now_us);
            pawl__timer_clear(&machine->timers, &request->timer);
            request->tenure = NULL;
        }
    }
}

/* Granted, and its lease is not over. */
static bool is_granted(const struct pawl__request *request, int64_t now_us)
{
    const struct pawl__op *op = &request->tenure->motion->main;
    return op->answer == PAWL__DONE && now_us < pawl__valid_until(op);
}

static bool is_spared(const struct pawl__request *request)
{
    return request->tenure->motion->main.answer == PAWL__SPARED;
}

/* For good: there is nothing to wait for. */
static bool is_refused(const struct pawl__request *request)
{
    const struct pawl__op *op = &request->tenure->motion->main;
    return op->answer == PAWL__FAILED && !op->again;
}

/* Who has something else to say than that it was granted, or spared: the first, but one that is
 * refused before one that is busy. NULL: nobody. */
static struct pawl__request *find_speaker(const struct pawl__party *party, int64_t now_us)
{
    struct pawl__request *speaker = NULL;
    for (size_t i = 0; i < party->count; i++) {
        struct pawl__request *request = party->requests[i];
        if (!request->finished && !is_spared(request) && !is_granted(request, now_us) &&
            (speaker == NULL || (is_refused(request) && !is_refused(speaker)))) {
            speaker = request;
        }
    }
    return speaker;
}

static void grant_all(struct pawl__machine *machine, struct pawl__party *party, int64_t now_us)
{
    for (size_t i = 0; i < party->count; i++) {
        struct pawl__request *request = party->requests[i];
        if (!request->finished) {
            struct pawl__tenure *tenure = request->tenure;
            pawl__claim_answered(machine, tenure, &tenure->motion->main, now_us);
        }
    }
}

static bool is_claiming(const struct pawl__request *request)
{
    return request->tenure != NULL && request->tenure->state == PAWL__TENURE_CLAIMING;
}

/* Those that have asked wait, with their turns. */
static void stop_asking(struct pawl__machine *machine, const struct pawl__party *party)
{
    for (size_t i = 0; i < party->count; i++) {
        struct pawl__request *request = party->requests[i];
        if (!request->finished && request != party->speaker && is_claiming(request)) {
            request->tenure->state = PAWL__TENURE_WAITING;
            pawl__set_phase(machine, request, PAWL__QUEUED);
        }
    }
}

/* The others wait for this one. */
static void let_speak(struct pawl__machine *machine, struct pawl__party *party,
    struct pawl__request *speaker, int64_t now_us)
{
    struct pawl__tenure *tenure = speaker->tenure;
    const bool held = tenure->motion->main.answer == PAWL__HELD;
    set_speaker(machine, party, speaker);
    stop_asking(machine, party);
    pawl__claim_answered(machine, tenure, &tenure->motion->main, now_us);
    if (!party->over && !party->asked && party->speaker == speaker) {
        if (held) {
            yield_turns(machine, party, now_us);
            give_back(machine, party, now_us);
        }
        refuse_tries(machine, party, now_us);
    }
}

static bool any_spared(const struct pawl__party *party)
{
    bool any = false;
    for (size_t i = 0; i < party->count; i++) {
        const struct pawl__request *request = party->requests[i];
        any = any || (!request->finished && is_spared(request));
    }
    return any;
}

/* The last that has no answer: the hold that it was about to enter has ended. NULL: none. */
static struct pawl__request *find_unasked(const struct pawl__party *party)
{
    struct pawl__request *unasked = NULL;
    for (size_t i = 0; i < party->count; i++) {
        struct pawl__request *request = party->requests[i];
        unasked = !request->finished && !is_claiming(request) ? request : unasked;
    }
    return unasked;
}

/* Its turn has to come, or has come meanwhile. Then all ask again. */
static void wait_for_turn(struct pawl__machine *machine, struct pawl__party *party,
    struct pawl__request *unasked, int64_t now_us)
{
    set_speaker(machine, party, unasked);
    stop_asking(machine, party);
    if (find_late(party) != NULL) {
        yield_turns(machine, party, now_us);
        give_back(machine, party, now_us);
    }
    advance(machine, party, now_us);
}

/* All answers count when the last one is there: one that came when its lease was over is asked for
 * again, with the others. So are those that were spared for one that has entered meanwhile. */
static void judge(struct pawl__machine *machine, struct pawl__party *party, int64_t now_us)
{
    struct pawl__request *unasked = find_unasked(party);
    struct pawl__request *speaker = unasked == NULL ? find_speaker(party, now_us) : NULL;
    party->asked = false;
    if (unasked != NULL) {
        wait_for_turn(machine, party, unasked, now_us);
    } else if (speaker != NULL) {
        let_speak(machine, party, speaker, now_us);
    } else if (any_spared(party)) {
        ask_all(machine, party, now_us);
    } else {
        grant_all(machine, party, now_us);
    }
}

/* It enters where its owner has just come in by another claim. What was asked for it does not count
 * any more: that it has entered does. */
void pawl__party_reenters(const struct pawl__request *request)
{
    struct pawl__party *party = pawl__request_party(request);
    if (party != NULL && party->asked && (request->tenure == NULL || !request->tenure->main_out)) {
        party->out++;
    }
}

/* The hold that it was about to enter ends: it gets in line, and nothing comes of what the others
 * have asked. */
void pawl__party_returns(struct pawl__machine *machine, const struct pawl__request *request)
{
    struct pawl__party *party = pawl__request_party(request);
    if (party != NULL && party->asked && --party->out == 0) {
        list(machine, party);
    }
}

void pawl__party_answered(
    struct pawl__machine *machine, struct pawl__tenure *tenure, struct pawl__op *op, int64_t now_us)
{
    struct pawl__party *party = tenure->request->party;
    assert(party->out > 0);
    party->out--;
    if (op->answer == PAWL__UNKNOWN) {
        tenure->doubt = true;
    } else if (op->answer == PAWL__DONE || op->answer == PAWL__HELD) {
        tenure->granted = op->answer == PAWL__DONE;
        tenure->doubt = tenure->doubt && !op->fenced;
    } /* who was spared may hold it since an earlier question */
    if (party->out == 0 && !party->over) {
        judge(machine, party, now_us);
    }
}

/* ===== The end ===== */

void pawl__party_finished(struct pawl__machine *machine, struct pawl__request *request)
{
    struct pawl__party *party = request->party;
    if (++party->finished == party->count) {
        pawl__list_remove(&party->node);
    }
    if (party->over) {
        return;
    }
    if (request->status != PAWL_OK) {
        party->over = true;
        party->status = request->status;
        party->culprit = request;
        list(machine, party);
    } else if (!party->asked || --party->out == 0) {
        list(machine, party); /* it had the lock before: the others go on without it */
    }
}

static void end_others(struct pawl__machine *machine, struct pawl__party *party, int64_t now_us)
{
    for (size_t i = 0; i < party->arrived; i++) {
        struct pawl__request *request = party->requests[i];
        if (request->finished) {
            continue;
        }
        const struct pawl__tenure *tenure = request->tenure;
        if (i >= party->joined || (tenure != NULL && tenure->state == PAWL__TENURE_HELD)) {
            pawl__finish(machine, request, party->status, NULL);
        } else {
            pawl__claim_end(machine, request, party->status, NULL, now_us);
        }
    }
}

/* Those that stand in no line, and have no turn, are in no list but this. */
void pawl__parties_cancel(struct pawl__machine *machine, const struct pawl__handle *handle)
{
    struct pawl__list *node = machine->parties.next;
    while (node != &machine->parties) {
        struct pawl__party *party = PAWL__CONTAINER(node, struct pawl__party, node);
        node = node->next;
        for (size_t i = party->joined; i < party->arrived; i++) {
            struct pawl__request *request = party->requests[i];
            if (!request->finished && request->handle == handle) {
                pawl__finish(machine, request, PAWL_CANCELED, NULL);
            }
        }
    }
}

void pawl__parties_settle(struct pawl__machine *machine, int64_t now_us)
{
    while (machine->restless != NULL) {
        struct pawl__party *party = machine->restless;
        machine->restless = party->next;
        party->listed = false;
        if (party->over) {
            end_others(machine, party, now_us);
        } else if (!party->asked) {
            advance(machine, party, now_us);
        } else if (party->out == 0) {
            judge(machine, party, now_us);
        }
    }
}
