/* SPDX-License-Identifier: Apache-2.0 */
/* Carrying out a call on a multi-lock, round by round. All of a client's members are asked in one
 * go, and all clients before any is waited for. A blocking caller then lends its thread to one
 * client after the other, until everything is answered. An asynchronous call is carried on by
 * whoever brings the last answer of a round.
 *
 * Everything that an acquire can still need is there before it begins: the room for giving back,
 * the record of the hold, and the call of its release. So nothing fails half-way for want of
 * memory.
 *
 * Canceling: each acquire has a stop flag of its own, which the core looks at under the client's
 * mutex when a wait begins. Whoever cancels sets the flag and then ends the waits that have begun.
 */
#include "compound/multi.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 128 }; /* of a lock's name in a sentence */

struct pawl__multi_call *pawl__multi_call_new(
    struct pawl__multi *multi, enum pawl__request_kind kind, uint64_t owner)
{
    const size_t count = multi->count;
    struct pawl__multi_call *call =
        pawl__alloc(sizeof *call + count * (sizeof call->slots[0] + sizeof call->together[0]));
    if (call == NULL) {
        pawl__fail(PAWL_NO_MEMORY, "no memory for a call on a multi-lock");
        return NULL;
    }
    call->together = (struct pawl__request **)(void *)&call->slots[count];
    call->multi = multi;
    call->kind = kind;
    call->owner = owner;
    call->count = count;
    call->whole = multi->whole;
    call->queues = multi->queues;
    call->culprit = count;
    call->error_slot = count;
    pawl__list_init(&call->node);
    for (size_t i = 0; i < count; i++) {
        call->slots[i].call = call;
    }
    if (kind == PAWL__WANT_ACQUIRE) {
        call->hold = pawl__alloc(sizeof *call->hold);
        call->release = pawl__multi_call_new(multi, PAWL__WANT_RELEASE, owner);
        if (call->hold == NULL || call->release == NULL) {
            pawl__multi_call_free(call);
            pawl__fail(PAWL_NO_MEMORY, "no memory for a call on a multi-lock");
            return NULL;
        }
    }
    return call;
}

void pawl__multi_call_free(struct pawl__multi_call *call)
{
    pawl__free(call->hold);
    pawl__free(call->release);
    pawl__free(call);
}

void pawl__multi_stop_calls(struct pawl__multi *multi)
{
    pthread_mutex_lock(&multi->mutex);
    for (struct pawl__list *node = multi->calls.next; node != &multi->calls; node = node->next) {
        atomic_store(&PAWL__CONTAINER(node, struct pawl__multi_call, node)->stop, true);
    }
    pthread_mutex_unlock(&multi->mutex);
    for (size_t i = 0; i < multi->count; i++) {
        pawl_lock_cancel(multi->members[i].twin);
    }
}

/* ===== What both drivers share ===== */

static struct pawl__multi_slot *slot_of(struct pawl__request *request)
{
    return PAWL__CONTAINER(request, struct pawl__multi_slot, async.request);
}

static void prepare(struct pawl__multi_call *call, size_t index)
{
    struct pawl__multi_slot *slot = &call->slots[index];
    struct pawl_lock *twin = call->multi->members[index].twin;
    memset(&slot->async, 0, sizeof slot->async);
    struct pawl__request *request = &slot->async.request;
    request->kind = call->ask;
    request->handle = &twin->handle;
    request->owner = twin->handle.owner != 0 ? twin->handle.owner : call->owner;
    request->wait_us = call->ask_wait_us;
    request->lease_us = call->lease_us;
    if (call->ask == PAWL__WANT_ACQUIRE) {
        request->stop = &call->stop;
    } else if (call->ask == PAWL__WANT_INSPECT) {
        request->info_out = &slot->info;
    }
    slot->info = (pawl_lock_info){.size = sizeof slot->info};
}

/* Whether an earlier slot of this round is of the same client. */
static bool is_gathered(const struct pawl__multi_call *call, size_t index)
{
    const struct pawl_client *client = call->multi->members[index].twin->client;
    for (size_t i = 0; i < index; i++) {
        if (call->slots[i].asked && call->multi->members[i].twin->client == client) {
            return true;
        }
    }
    return false;
}

/* Those that the backend gives together are one question. */
static void form_party(struct pawl__request **together, size_t count)
{
    if (count > 1) {
        struct pawl__party *party = &slot_of(together[0])->party;
        *party = (struct pawl__party){.requests = together, .count = count};
        for (size_t i = 0; i < count; i++) {
            together[i]->party = party;
        }
    }
}

/* Is it asked together with others of its client? One that may have to be waited for in a queue is
 * only if nothing could be kept meanwhile: the others would have to be had again. */
static bool joins(const struct pawl__multi_call *call, const struct pawl_lock *twin)
{
    const bool queues = twin->handle.terms->kind == PAWL_FAIR;
    return pawl__multi_joins(twin) && (!queues || call->stage == PAWL__MULTI_WHOLE);
}

/* Gather those of them that are given together, or those that are not; how many they are. */
static size_t gather_joint(
    struct pawl__multi_call *call, size_t first, struct pawl__request **together, bool joint)
{
    const struct pawl_client *client = call->multi->members[first].twin->client;
    size_t count = 0;
    for (size_t i = first; i < call->count; i++) {
        const struct pawl_lock *twin = call->multi->members[i].twin;
        if (call->slots[i].asked && twin->client == client && joins(call, twin) == joint) {
            prepare(call, i);
            together[count++] = &call->slots[i].async.request;
        }
    }
    return count;
}

/* Gather the requests of all members of this one's client; how many they are. */
static size_t gather_client(
    struct pawl__multi_call *call, size_t first, struct pawl__request **together)
{
    const size_t count = gather_joint(call, first, together, true);
    if (call->ask == PAWL__WANT_ACQUIRE && !call->apart) {
        form_party(together, count);
    }
    return count + gather_joint(call, first, together + count, false);
}

/* Gather everything that this round asks, client by client. How many clients there are. */
static size_t gather(struct pawl__multi_call *call)
{
    size_t clients = 0;
    size_t used = 0;
    for (size_t i = 0; i < call->count; i++) {
        struct pawl__multi_slot *slot = &call->slots[i];
        const bool first = slot->asked && !is_gathered(call, i);
        slot->group = first ? gather_client(call, i, call->together + used) : 0;
        used += slot->group;
        clients += first ? 1 : 0;
    }
    return clients;
}

static void answered(struct pawl__multi_slot *slot, pawl_status status, const char *error)
{
    struct pawl__multi_call *call = slot->call;
    const size_t index = (size_t)(slot - call->slots);
    if (call->ask == PAWL__WANT_ACQUIRE || call->ask == PAWL__WANT_RELEASE) {
        const bool spared = pawl__request_spared(&slot->async.request);
        call->slots[index].spared = spared;
        atomic_store(&call->multi->members[index].status, (int)(spared ? PAWL_OK : status));
    }
    pawl__multi_answer(call, index, status, error);
}

static const char *show_name(const struct pawl__multi_call *call, size_t slot, char *out)
{
    const char *name = pawl__lock_name(call->multi->members[slot].twin);
    return pawl__printable(name, strlen(name), out, NAME_SIZE);
}

static void answer_closed(struct pawl__multi_slot *slot)
{
    char name[NAME_SIZE];
    char sentence[NAME_SIZE + 32];
    const size_t index = (size_t)(slot - slot->call->slots);
    snprintf(sentence, sizeof sentence, "lock '%s': its client is closed",
        show_name(slot->call, index, name));
    answered(slot, PAWL_MISUSE, sentence);
}

/* All is acquired. The mutex is held. */
static void keep(struct pawl__multi_call *call)
{
    struct pawl__multi *multi = call->multi;
    struct pawl__multi_hold *hold = pawl__multi_find_hold(multi, call->owner);
    if (hold == NULL) {
        hold = call->hold;
        call->hold = NULL;
        hold->owner = call->owner;
        pawl__list_init(&hold->releases);
        pawl__list_push(&multi->holds, &hold->node);
    }
    hold->count++;
    pawl__list_push(&hold->releases, &call->release->node);
    call->release = NULL;
}

/* The last round is over. */
static void conclude(struct pawl__multi_call *call)
{
    struct pawl__multi *multi = call->multi;
    pthread_mutex_lock(&multi->mutex);
    pawl__list_remove(&call->node);
    if (call->kind == PAWL__WANT_ACQUIRE && call->status == PAWL_OK) {
        keep(call);
    }
    pthread_mutex_unlock(&multi->mutex);
    if (call->kind == PAWL__WANT_ACQUIRE && call->status == PAWL_OK) {
        pawl__multi_confirm(multi, call->owner);
    }
}

/* What takes long to get may lose its beginning meanwhile: nobody waits for the rest then. True: so
 * it is, and everything is given back. */
static bool is_late(struct pawl__multi_call *call, bool more)
{
    char name[NAME_SIZE];
    size_t first = 0;
    const bool over = more && call->until_us <= pawl__now_us(); /* it ends anyway */
    const int64_t left_us = over ? PAWL__NEVER : pawl__multi_left_us(call, &first);
    if (left_us < 0) {
        pawl__multi_fail_lost(call, first, show_name(call, first, name));
    } else if (call->stage == PAWL__MULTI_WAIT) {
        call->ask_wait_us = pawl__min64(call->ask_wait_us, left_us);
    }
    return left_us < 0;
}

/* Prepare the next round. */
static bool next(struct pawl__multi_call *call)
{
    const bool more = pawl__multi_next(call, pawl__now_us());
    const bool acquires = call->kind == PAWL__WANT_ACQUIRE;
    if (acquires && (more || call->status == PAWL_OK) && is_late(call, more)) {
        return true;
    }
    if (!more) {
        conclude(call);
    }
    return more;
}

static pawl_status explain(const struct pawl__multi_call *call)
{
    if (call->status == PAWL_OK) {
        return PAWL_OK;
    }
    if (call->culprit == call->count) {
        return pawl__fail(call->status, "multi-lock: it was closed");
    }
    return pawl__fail(call->status, "member %zu of %zu of a multi-lock: %s",
        call->multi->members[call->culprit].index + 1, call->count, call->reason);
}

/* ===== Blocking ===== */

/* A thread that ends is looked for among the holders only if it may be one. */
static void count_hold(const struct pawl__request *request)
{
    const bool by_thread = request->owner == pawl__owner_of_thread(); /* not if it is a close */
    if (by_thread && request->kind == PAWL__WANT_ACQUIRE && request->status == PAWL_OK) {
        pawl__registry_count(1);
    }
    if (by_thread && request->kind == PAWL__WANT_RELEASE && request->status != PAWL_NOT_HELD) {
        pawl__registry_count(-1);
    }
}

/* Ask the members of one client. `alone`: no other client is asked. */
static void ask_client(
    struct pawl_client *client, struct pawl__request **together, size_t count, bool alone)
{
    const bool entered = pawl__call_enter(client);
    for (size_t i = 0; i < count; i++) {
        struct pawl__multi_slot *slot = slot_of(together[i]);
        pawl__waiter_init(&slot->waiter);
        together[i]->waiter = entered ? &slot->waiter : NULL;
        if (!entered) {
            answer_closed(slot);
        }
    }
    if (entered) {
        pawl__call_ask_all(client, together, count, alone);
    }
}

/* Wait until all of them have answered. */
static void await_client(struct pawl_client *client, struct pawl__request **together, size_t count)
{
    if (together[0]->waiter == NULL) {
        return; /* it was closed */
    }
    pawl__call_await_all(client, together, count);
    for (size_t i = 0; i < count; i++) {
        struct pawl__request *request = together[i];
        struct pawl__multi_slot *slot = slot_of(request);
        const size_t index = (size_t)(slot - slot->call->slots);
        count_hold(request);
        pawl__call_explain(slot->call->multi->members[index].twin, request);
        answered(slot, request->status, request->status == PAWL_OK ? "" : pawl__error_text());
    }
    pawl__call_leave(client);
}

/* One round. The engine of a client that is alone may count on our thread to send what was asked;
 * one of several has to see to it itself, for we may be waiting for another. */
static void ask_and_await(struct pawl__multi_call *call)
{
    const bool alone = gather(call) == 1;
    struct pawl__request **together = call->together;
    for (size_t i = 0; i < call->count; together += call->slots[i++].group) {
        if (call->slots[i].group > 0) {
            struct pawl_client *client = call->multi->members[i].twin->client;
            ask_client(client, together, call->slots[i].group, alone);
        }
    }
    together = call->together;
    for (size_t i = 0; i < call->count; together += call->slots[i++].group) {
        if (call->slots[i].group > 0) {
            struct pawl_client *client = call->multi->members[i].twin->client;
            await_client(client, together, call->slots[i].group);
        }
    }
}

/* What was seen of all members, in one. */
static void sum_up(const struct pawl__multi_call *call)
{
    pawl_lock_info *info = call->info_out;
    info->held = true;
    info->remaining_ms = -1;
    info->hold_count = 0;
    for (size_t i = 0; i < call->count; i++) {
        const pawl_lock_info *one = &call->slots[i].info;
        info->held = info->held && one->held;
        if (one->remaining_ms >= 0 &&
            (info->remaining_ms < 0 || one->remaining_ms < info->remaining_ms)) {
            info->remaining_ms = one->remaining_ms;
        }
        if (i == 0 || one->hold_count < info->hold_count) {
            info->hold_count = one->hold_count;
        }
        if (call->multi->members[i].index == 0) {
            memcpy(info->holder, one->holder, sizeof info->holder);
        }
    }
    if (!info->held) {
        info->remaining_ms = 0;
        info->holder[0] = '\0';
    }
}

pawl_status pawl__multi_run(struct pawl__multi_call *call)
{
    while (next(call)) {
        ask_and_await(call);
    }
    if (call->info_out != NULL && call->status == PAWL_OK) {
        sum_up(call);
    }
    pawl_status status = explain(call);
    pawl__multi_call_free(call);
    return status;
}

/* ===== Asynchronous ===== */

static void on_answer(pawl_lock *twin, pawl_status status, void *arg);

/* The multi-lock's mutex is held. */
static void start_client(struct pawl__multi_call *call, struct pawl_client *client,
    struct pawl__request **together, size_t count)
{
    const bool entered = pawl__call_enter(client);
    for (size_t i = 0; i < count; i++) {
        struct pawl__multi_slot *slot = slot_of(together[i]);
        if (!entered) {
            answer_closed(slot);
            continue;
        }
        slot->async.done = on_answer;
        slot->async.arg = slot;
        slot->async.request.kept = true;
        pawl__lock_enter(pawl__async_lock(&slot->async)); /* until its callback has returned */
    }
    if (entered) {
        call->pending += count;
        pawl__call_ask_all(client, together, count, false);
        pawl__call_leave(client);
    }
}

/* Ask, round by round. False: whoever brings the last answer goes on, and the call may be gone. No
 * answer is taken while questions are being asked, so nobody but a callback ever ends an acquire of
 * which a part was asked. */
static bool advance(struct pawl__multi_call *call)
{
    struct pawl__multi *multi = call->multi;
    while (next(call)) {
        pthread_mutex_lock(&multi->mutex);
        struct pawl__request **together = call->together;
        gather(call);
        call->pending = 0;
        for (size_t i = 0; i < call->count; together += call->slots[i++].group) {
            if (call->slots[i].group > 0) {
                start_client(call, multi->members[i].twin->client, together, call->slots[i].group);
            }
        }
        const bool pending = call->pending > 0;
        pthread_mutex_unlock(&multi->mutex);
        if (pending) {
            return false;
        }
    }
    return true;
}

/* Tell the user. */
static void deliver(struct pawl__multi_call *call)
{
    struct pawl__multi *multi = call->multi;
    const pawl_callback done = call->done;
    void *arg = call->arg;
    const pawl_status status = explain(call);
    pawl__multi_call_free(call);
    done(&multi->lock, status, arg);
    pawl__multi_drop(multi);
}

/* The multi-lock was closed, and all that it held was released with it. */
static void end_closed(struct pawl__multi_call *call)
{
    if (call->stage == PAWL__MULTI_ALL) {
        pawl__multi_next(call, pawl__now_us());
    } else if (call->stage != PAWL__MULTI_UNDO) {
        call->status = PAWL_CANCELED;
        call->culprit = call->count;
    }
    conclude(call);
}

static void on_answer(pawl_lock *twin, pawl_status status, void *arg)
{
    struct pawl__multi_slot *slot = arg;
    struct pawl__multi_call *call = slot->call;
    struct pawl__multi *multi = call->multi;
    (void)twin;
    pthread_mutex_lock(&multi->mutex); /* callbacks of several clients may come at once */
    answered(slot, status, status == PAWL_OK ? "" : pawl__error_text());
    call->pending--;
    const bool last = call->pending == 0;
    pthread_mutex_unlock(&multi->mutex);
    if (!last) {
        return;
    }
    if (!pawl__multi_enter(multi)) {
        end_closed(call);
        deliver(call);
        return;
    }
    bool finished = advance(call);
    pawl__multi_leave(multi);
    if (finished) {
        deliver(call);
    }
}

pawl_status pawl__multi_start(struct pawl__multi_call *call)
{
    struct pawl__multi *multi = call->multi;
    if (!advance(call)) {
        return PAWL_OK;
    }
    const pawl_status status = explain(call); /* every client is closed: nobody can call back */
    pawl__multi_call_free(call);
    pawl__multi_drop(multi);
    return status;
}
