/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about counts: asking, listening, asking again, taking back; tally.h has the picture. */
#include "core/tally.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "core/leases.h"
#include "core/machine_parts.h"

#include <assert.h>
#include <string.h>

#define RETRY_FIRST_US 20000
#define RETRY_MOST_US 500000
#define LISTEN_LEAST_US 1000 /* never a sleep of nothing */
#define NEXT_COUNT 2         /* so many ask when one was granted */
#define MARGIN_US 5000000    /* for what we do not know about the backend's record */
#define LATE_GRANTS_MAX 5

static bool is_try(const struct pawl__request *request)
{
    return request->wait_us == request->start_us;
}

static bool is_forever(const struct pawl__request *request)
{
    return request->wait_us == PAWL__NEVER;
}

/* May it have to wait until others have done something? */
static bool waits(const struct pawl__tally *tally)
{
    return tally->ask.verb == PAWL__TALLY_TAKE || tally->ask.verb == PAWL__TALLY_AWAIT;
}

/* Does it take permits, which are to come back if nobody knows that they were taken? */
static bool takes(const struct pawl__tally *tally)
{
    return tally->ask.verb == PAWL__TALLY_TAKE || tally->ask.verb == PAWL__TALLY_DRAIN;
}

/* Does it go on if its caller leaves without an answer? */
static bool goes_on(const struct pawl__tally *tally)
{
    return tally->ask.verb == PAWL__TALLY_GIVE || tally->ask.verb == PAWL__TALLY_DOWN;
}

static struct pawl__tally *tally_of(struct pawl__list *node)
{
    return PAWL__CONTAINER(node, struct pawl__tally, node);
}

/* ===== The end ===== */

/* Whose record the next tally of this name may have dropped: our own, unless a copy may still come
 * that has to find it; or, if we were not answered, had to wait or only looked, that of the one
 * before, which is still there. 0: none. */
static uint64_t leftover(const struct pawl__tally *tally)
{
    const enum pawl__tally_verb verb = tally->ask.verb;
    const bool looked =
        verb == PAWL__TALLY_READ || verb == PAWL__TALLY_AWAIT || verb == PAWL__TALLY_EXTEND;
    const bool recorded =
        tally->op != NULL && (tally->op->answer == PAWL__DONE || tally->op->answer == PAWL__GONE);
    if (looked || !recorded) {
        return tally->ask.forget;
    }
    return tally->doubt ? 0 : tally->number;
}

/* Nothing of it is left but its record. */
static void end(struct pawl__machine *machine, struct pawl__tally *tally)
{
    struct pawl__name *name = tally->name;
    assert(!tally->out && tally->request == NULL);
    pawl__timer_clear(&machine->timers, &tally->timer);
    pawl__list_remove(&tally->node);
    pawl__list_remove(&tally->all);
    pawl__tally_clear(tally);
    tally->number = leftover(tally);
    if (tally->op != NULL) { /* the better ones come first */
        pawl__list_push_front(&name->traffic->own->tally_spares, &tally->all);
    } else {
        pawl__list_push(&name->traffic->own->tally_spares, &tally->all);
    }
    name->uses--;
    pawl__touch(machine, name);
}

/* ===== Asking ===== */

/* When it was last safe to ask it again: later, the backend may have forgotten that it was asked
 * before. */
static int64_t last_us(const struct pawl__machine *machine, const struct pawl__tally *tally)
{
    return pawl__later(tally->copy_us, tally->ask.keep_us - 2 * machine->timeout_us - MARGIN_US);
}

/* Asked again it might count twice. Permits with ids never do, nor does what counts nothing. */
static bool is_too_late(
    const struct pawl__machine *machine, const struct pawl__tally *tally, int64_t now_us)
{
    const enum pawl__tally_verb verb = tally->ask.verb;
    const bool looks = verb == PAWL__TALLY_READ || verb == PAWL__TALLY_AWAIT;
    return tally->ask.ids == NULL && !looks && verb != PAWL__TALLY_UNDO &&
           now_us > last_us(machine, tally);
}

static void ask(struct pawl__machine *machine, struct pawl__tally *tally, int64_t now_us)
{
    assert(!tally->out);
    if (is_too_late(machine, tally, now_us)) {
        pawl__timer_set(&machine->timers, &tally->timer, now_us); /* it gives up */
        return;
    }
    if (tally->op == NULL && !pawl__tally_equip(tally)) {
        const int64_t pause_us = pawl__random_jitter(&machine->random, PAWL__POLL_US);
        pawl__timer_set(&machine->timers, &tally->timer, now_us + pause_us);
        return;
    }
    tally->out = true;
    tally->wakes = tally->name->traffic->wakes;
    tally->copy_us = pawl__min64(tally->copy_us, now_us);
    pawl__timer_clear(&machine->timers, &tally->timer);
    if (tally->request != NULL) {
        pawl__set_phase(machine, tally->request, PAWL__ASKING);
    }
    pawl__submit(machine, tally->op, PAWL__OP_TALLY, now_us);
}

static bool is_first(const struct pawl__tally *tally)
{
    return tally->name->traffic->tally_queue.next == &tally->node;
}

/* Let so many of those who wait ask, the oldest first. Nobody asks past one who does already: that
 * was asked in another step, maybe on another thread, and may reach the backend later. */
static void ask_next(
    struct pawl__machine *machine, struct pawl__name *name, unsigned count, int64_t now_us)
{
    const struct pawl__list *queue = &name->traffic->tally_queue;
    struct pawl__list *node = queue->next;
    for (; node != queue && count > 0; node = node->next, count--) {
        struct pawl__tally *tally = tally_of(node);
        if (tally->out) {
            return;
        }
        ask(machine, tally, now_us);
    }
}

void pawl__tally_wake(struct pawl__machine *machine, struct pawl__name *name, int64_t now_us)
{
    ask_next(machine, name, 1, now_us); /* one that is asking sees the wake-up when it is told no */
}

/* Take it out of the queue; whoever is first now may want less. */
static void leave_queue(struct pawl__machine *machine, struct pawl__tally *tally, int64_t now_us)
{
    const bool first = is_first(tally);
    pawl__list_remove(&tally->node);
    if (first) {
        ask_next(machine, tally->name, 1, now_us);
    }
}

static void finish(
    struct pawl__machine *machine, struct pawl__tally *tally, pawl_status status, char *error)
{
    struct pawl__request *request = tally->request;
    tally->request = NULL;
    request->tally = NULL;
    request->value = tally->out ? 0 : tally->ask.value; /* while out, it is the engine's */
    pawl__finish(machine, request, status, error);
}

/* Whose time the others of its name wait for: it listens. */
static void listen(
    struct pawl__machine *machine, struct pawl__tally *tally, int64_t hint_us, int64_t now_us)
{
    struct pawl__traffic *traffic = tally->name->traffic->own;
    if (pawl__list_empty(&tally->node)) {
        pawl__list_push(&traffic->tally_queue, &tally->node);
    }
    if (is_first(tally) && traffic->watch == PAWL__WATCHED && traffic->wakes != tally->wakes) {
        ask(machine, tally, now_us); /* something happened while we asked */
        return;
    }
    pawl__set_phase(machine, tally->request, PAWL__LISTENING);
    if (is_first(tally)) {
        int64_t sleep_us = pawl__random_jitter(&machine->random, PAWL__POLL_US);
        if (hint_us >= 0) {
            sleep_us = pawl__min64(sleep_us, hint_us + LISTEN_LEAST_US);
        }
        pawl__timer_set(
            &machine->timers, &tally->timer, now_us + pawl__max64(sleep_us, LISTEN_LEAST_US));
    } else if (!tally->doubt) {
        pawl__tally_strip(tally); /* in doubt, it may have to be taken back */
    }
    pawl__watch_need(machine, tally->name, now_us);
}

/* Permits that are given back are not kept alive any more. */
static void let_go(struct pawl__machine *machine, struct pawl__request *request)
{
    struct pawl__leases *leases = pawl__handle_leases(request->handle);
    if (leases != NULL && request->verb == PAWL__TALLY_GIVE && request->permits != NULL) {
        pawl__leases_drop(machine, leases, request->ids, (size_t)request->amount, request->permits);
    }
}

void pawl__tally_start(struct pawl__machine *machine, struct pawl__request *request, int64_t now_us)
{
    struct pawl__tally *tally = NULL;
    const bool wants = request->verb == PAWL__TALLY_TAKE || request->verb == PAWL__TALLY_AWAIT;
    if (wants && request->handle->closed) {
        pawl__finish(machine, request, PAWL_CANCELED, NULL);
        return;
    }
    tally = pawl__tally_new(
        machine, request->handle->name, request->verb, request->amount, request->ids);
    if (tally == NULL) {
        pawl__finish(machine, request, PAWL_NO_MEMORY, NULL);
        return;
    }
    tally->op->lease_us = request->lease_us;
    tally->request = request;
    request->tally = tally;
    let_go(machine, request);
    int64_t due_us = request->end_us;
    if (wants && !is_try(request)) {
        due_us = is_forever(request) ? pawl__later(now_us, machine->give_up_us) : request->wait_us;
    }
    pawl__timer_set(&machine->timers, &request->timer, due_us);
    const bool behind = request->verb == PAWL__TALLY_TAKE && !is_try(request) &&
                        !pawl__list_empty(&tally->name->traffic->tally_queue);
    if (behind) {
        listen(machine, tally, -1, now_us);
    } else {
        ask(machine, tally, now_us);
    }
}

struct pawl__tally *pawl__tally_alone(struct pawl__machine *machine, struct pawl__name *name,
    enum pawl__tally_verb verb, const struct pawl__permit_id *ids, size_t count, int64_t lease_us,
    int64_t now_us)
{
    struct pawl__tally *tally = pawl__tally_new(machine, name, verb, (int64_t)count, ids);
    if (tally != NULL) {
        tally->op->lease_us = lease_us;
        ask(machine, tally, now_us);
    }
    return tally;
}

/* ===== When the caller has left ===== */

/* Ask again later, for as long as the backend remembers what it was asked. */
static void persist(struct pawl__machine *machine, struct pawl__tally *tally, int64_t now_us)
{
    int64_t pause_us = pawl__backoff_us(machine, tally->attempt++, RETRY_FIRST_US, RETRY_MOST_US);
    if (!tally->op->again || now_us + pause_us > last_us(machine, tally)) {
        machine->unheard |= pawl__tally_at_stake(tally);
        end(machine, tally);
        return;
    }
    pawl__timer_set(&machine->timers, &tally->timer, now_us + pause_us);
}

static void undo(struct pawl__machine *machine, struct pawl__tally *tally, int64_t now_us)
{
    tally->undoing = true;
    tally->ask.verb = PAWL__TALLY_UNDO;
    ask(machine, tally, now_us);
}

/* Its request was finished without an answer that says what became of it. */
static void left(struct pawl__machine *machine, struct pawl__tally *tally, int64_t now_us)
{
    pawl__timer_clear(&machine->timers, &tally->timer);
    leave_queue(machine, tally, now_us);
    if (tally->out) {
        return; /* its answer tells what is to be done */
    }
    if (takes(tally) && tally->doubt) {
        undo(machine, tally, now_us);
    } else if (goes_on(tally)) {
        persist(machine, tally, now_us);
    } else {
        end(machine, tally);
    }
}

static void answered_alone(struct pawl__machine *machine, struct pawl__tally *tally, int64_t now_us)
{
    const struct pawl__op *op = tally->op;
    const bool answered = op->answer != PAWL__FAILED && op->answer != PAWL__UNKNOWN;
    if (tally->leases != NULL) {
        pawl__leases_answered(machine, tally, now_us);
        end(machine, tally);
    } else if (takes(tally) && (op->answer == PAWL__DONE || tally->doubt)) {
        undo(machine, tally, now_us);
    } else if (!answered && (tally->undoing || goes_on(tally))) {
        persist(machine, tally, now_us);
    } else {
        if (answered && op->answer == PAWL__DONE && (tally->undoing || goes_on(tally))) {
            pawl__tally_wake(machine, tally->name, now_us);
        }
        end(machine, tally);
    }
}

/* ===== Answers ===== */

/* A latch was at zero after this question was sent: so it was for everybody who waited for it then.
 * Who came later asks for itself; it may have been set anew. */
static void open_latch(
    struct pawl__machine *machine, struct pawl__name *name, int64_t sent_us, int64_t now_us)
{
    const struct pawl__list *queue = &name->traffic->tally_queue;
    struct pawl__list *node = queue->next;
    while (node != queue) {
        struct pawl__tally *tally = tally_of(node);
        node = node->next;
        if (tally->request->start_us > sent_us) {
            continue;
        }
        pawl__list_remove(&tally->node);
        finish(machine, tally, PAWL_OK, NULL);
        if (!tally->out) {
            end(machine, tally);
        }
    }
    ask_next(machine, name, 1, now_us);
}

/* Permits that its handle renews were granted or extended. */
static void keep_alive(struct pawl__machine *machine, struct pawl__tally *tally, int64_t now_us)
{
    const struct pawl__request *request = tally->request;
    struct pawl__leases *leases = pawl__handle_leases(request->handle);
    if (leases != NULL && tally->ask.verb == PAWL__TALLY_TAKE && request->permits != NULL) {
        pawl__leases_add(machine, leases, request->permits, tally->op);
    } else if (leases != NULL && tally->ask.verb == PAWL__TALLY_EXTEND) {
        pawl__leases_extended(machine, leases, tally->op, now_us);
    }
}

static void done(struct pawl__machine *machine, struct pawl__tally *tally, int64_t now_us)
{
    struct pawl__name *name = tally->name;
    const enum pawl__tally_verb verb = tally->ask.verb;
    const int64_t sent_us = tally->op->sent_us;
    pawl__list_remove(&tally->node);
    keep_alive(machine, tally, now_us);
    finish(machine, tally, PAWL_OK, NULL);
    end(machine, tally);
    if (verb == PAWL__TALLY_AWAIT) {
        open_latch(machine, name, sent_us, now_us);
    } else if (verb != PAWL__TALLY_READ && verb != PAWL__TALLY_DRAIN) {
        ask_next(machine, name, NEXT_COUNT, now_us);
    }
}

static void held(struct pawl__machine *machine, struct pawl__tally *tally, int64_t now_us)
{
    tally->attempt = 0;
    tally->copy_us = tally->doubt ? tally->op->sent_us : PAWL__NEVER; /* nothing was taken so far */
    if (now_us >= tally->request->wait_us) {
        finish(machine, tally, PAWL_BUSY, pawl__tally_explain(tally, PAWL_BUSY));
        left(machine, tally, now_us);
    } else {
        listen(machine, tally, tally->op->hint_us, now_us);
    }
}

/* Whoever is told that it was refused may ask anew. That must not count twice, so it is not said of
 * what goes on, nor of what an earlier copy may have done. */
static pawl_status unanswered_status(const struct pawl__tally *tally)
{
    const bool open = goes_on(tally) || (tally->doubt && !waits(tally));
    return open && tally->op->again ? PAWL_UNAVAILABLE : tally->op->status;
}

static void no_answer(struct pawl__machine *machine, struct pawl__tally *tally, int64_t now_us)
{
    struct pawl__op *op = tally->op;
    struct pawl__request *request = tally->request;
    const bool patient = waits(tally) && !is_try(request);
    if (!op->again || now_us >= request->end_us || (!patient && op->answer == PAWL__FAILED)) {
        finish(machine, tally, unanswered_status(tally), pawl__take_error(op));
        left(machine, tally, now_us);
    } else if (!patient) {
        ask(machine, tally, now_us); /* the same number: it is the same question */
    } else {
        if (pawl__list_empty(&tally->node)) {
            pawl__list_push(&tally->name->traffic->own->tally_queue, &tally->node);
        }
        pawl__set_phase(machine, request, PAWL__LISTENING);
        int64_t pause_us =
            pawl__backoff_us(machine, tally->attempt++, RETRY_FIRST_US, PAWL__POLL_US);
        pawl__timer_set(&machine->timers, &tally->timer, now_us + pause_us);
    }
}

/* Permits were granted, but their lease may be over by now. */
static bool is_late(const struct pawl__tally *tally, int64_t now_us)
{
    return tally->ask.verb == PAWL__TALLY_TAKE && tally->ask.ids != NULL &&
           now_us >= pawl__valid_until(tally->op);
}

/* That counts as no answer; asked again with the same ids, the lease begins anew. */
static void granted_late(struct pawl__machine *machine, struct pawl__tally *tally, int64_t now_us)
{
    struct pawl__op *op = tally->op;
    tally->doubt = true;
    op->answer = PAWL__UNKNOWN;
    op->status = PAWL_UNAVAILABLE;
    op->again = tally->attempt < LATE_GRANTS_MAX;
    op->error =
        pawl__format("the permits were granted, but their lease of %lld ms was over when the "
                     "answer came; lease_ms must be longer than the way there and back",
            (long long)(op->lease_us / 1000));
    no_answer(machine, tally, now_us);
}

void pawl__tally_answered(struct pawl__machine *machine, struct pawl__tally *tally, int64_t now_us)
{
    const struct pawl__op *op = tally->op;
    tally->out = false;
    tally->unset = tally->ask.unset;
    if (op->answer == PAWL__UNKNOWN) {
        tally->doubt = true;
    } else if (op->answer != PAWL__FAILED && op->fenced) {
        tally->doubt = false;
    }
    if (op->answer == PAWL__FAILED && !tally->doubt) {
        tally->copy_us = PAWL__NEVER; /* nothing has reached the backend yet */
    }
    pawl__touch(machine, tally->name);
    if (tally->request == NULL) {
        answered_alone(machine, tally, now_us);
        return;
    }
    switch (op->answer) {
    case PAWL__DONE:
        if (is_late(tally, now_us)) {
            granted_late(machine, tally, now_us);
        } else {
            done(machine, tally, now_us);
        }
        break;
    case PAWL__HELD:
        held(machine, tally, now_us);
        break;
    case PAWL__GONE: /* an answer: no */
        finish(machine, tally, PAWL_NOT_HELD, NULL);
        end(machine, tally);
        break;
    case PAWL__FAILED:
    case PAWL__UNKNOWN:
        no_answer(machine, tally, now_us);
        break;
    case PAWL__PENDING:
    case PAWL__SPARED:
    case PAWL__LEFT:
        assert(false && "not an answer about a count");
        break;
    }
}

/* ===== Time ===== */

/* What a caller is told whose time is up: that it has to wait for others, if the backend's last
 * word about this name is not too old. */
static pawl_status verdict(const struct pawl__tally *tally)
{
    const struct pawl__name *name = tally->name;
    const bool in_line = !pawl__list_empty(&tally->node);
    const bool heard =
        name->answered_us >= tally->request->start_us || (in_line && name->answered_us > 0);
    return heard && name->traffic->silent_us == PAWL__NEVER ? PAWL_BUSY : PAWL_UNAVAILABLE;
}

/* Its limit was that of its patience, and it may be worth to wait for an answer until the end. */
static bool may_still_hear(const struct pawl__tally *tally)
{
    const bool unknown =
        tally->name->traffic->silent_us == PAWL__NEVER && verdict(tally) != PAWL_BUSY;
    return tally->out || unknown;
}

void pawl__tally_timeout(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us)
{
    struct pawl__tally *tally = request->tally;
    pawl_status status = PAWL_UNAVAILABLE;
    if (waits(tally) && is_forever(request)) {
        const int64_t silent_us = tally->name->traffic->silent_us;
        const int64_t since_us = silent_us == PAWL__NEVER ? now_us : silent_us;
        const int64_t end_us = pawl__later(since_us, machine->give_up_us);
        if (now_us < end_us) {
            pawl__timer_set(&machine->timers, &request->timer, end_us);
            return;
        }
    } else if (waits(tally)) {
        if (now_us < request->end_us && may_still_hear(tally)) {
            pawl__timer_set(&machine->timers, &request->timer, request->end_us);
            return;
        }
        status = verdict(tally);
    }
    finish(machine, tally, status, pawl__tally_explain(tally, status));
    left(machine, tally, now_us);
}

void pawl__tally_timer(struct pawl__machine *machine, struct pawl__tally *tally, int64_t now_us)
{
    if (!is_too_late(machine, tally, now_us)) {
        ask(machine, tally, now_us);
        return;
    }
    if (tally->request != NULL) {
        finish(machine, tally, PAWL_UNAVAILABLE, pawl__tally_explain(tally, PAWL_UNAVAILABLE));
        left(machine, tally, now_us);
    } else {
        persist(machine, tally, now_us);
    }
}

void pawl__tally_reconnected(struct pawl__machine *machine, int64_t now_us)
{
    struct pawl__list *node = machine->tallies.next;
    for (; node != &machine->tallies; node = node->next) {
        struct pawl__tally *tally = PAWL__CONTAINER(node, struct pawl__tally, all);
        if (tally->timer.armed) {
            ask(machine, tally, now_us);
        }
    }
}

void pawl__tally_cancel(
    struct pawl__machine *machine, const struct pawl__handle *handle, int64_t now_us)
{
    struct pawl__list *node = machine->tallies.next;
    while (node != &machine->tallies) {
        struct pawl__tally *tally = PAWL__CONTAINER(node, struct pawl__tally, all);
        node = node->next;
        if (tally->request != NULL && tally->request->handle == handle && waits(tally)) {
            finish(machine, tally, PAWL_CANCELED, pawl__tally_explain(tally, PAWL_CANCELED));
            left(machine, tally, now_us);
        }
    }
}
