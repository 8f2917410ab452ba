/* SPDX-License-Identifier: Apache-2.0 */
/* A multi-lock as its user sees it: opening, closing, and the functions that the public calls go
 * to. multi.h tells how it works. */
#include "compound/multi.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fds.h"
#include "base/thread.h"

#include <stdlib.h>
#include <string.h>

static struct pawl__multi *multi_of(struct pawl_lock *lock)
{
    return PAWL__CONTAINER(lock, struct pawl__multi, lock);
}

static uint64_t owner_of(const struct pawl__multi *multi)
{
    const uint64_t owner = multi->lock.handle.owner;
    return owner != 0 ? owner : pawl__owner_of_thread();
}

/* ===== Coming and going ===== */

bool pawl__multi_enter(struct pawl__multi *multi)
{
    pthread_mutex_lock(&multi->mutex);
    const bool open = !multi->closing;
    multi->inside += open ? 1 : 0;
    pthread_mutex_unlock(&multi->mutex);
    if (!open) {
        pawl__fail(PAWL_MISUSE, "the multi-lock is closed");
    }
    return open;
}

void pawl__multi_leave(struct pawl__multi *multi)
{
    pthread_mutex_lock(&multi->mutex);
    multi->inside--;
    pthread_cond_broadcast(&multi->changed);
    pthread_mutex_unlock(&multi->mutex);
}

static void multi_free(struct pawl__multi *multi)
{
    pthread_cond_destroy(&multi->changed);
    pthread_mutex_destroy(&multi->mutex);
    pawl__free(multi);
}

void pawl__multi_drop(struct pawl__multi *multi)
{
    pthread_mutex_lock(&multi->mutex);
    multi->users--;
    const bool last = multi->users == 0;
    pthread_mutex_unlock(&multi->mutex);
    if (last) {
        multi_free(multi);
    }
}

struct pawl__multi_hold *pawl__multi_find_hold(struct pawl__multi *multi, uint64_t owner)
{
    for (struct pawl__list *node = multi->holds.next; node != &multi->holds; node = node->next) {
        struct pawl__multi_hold *hold = PAWL__CONTAINER(node, struct pawl__multi_hold, node);
        if (hold->owner == owner) {
            return hold;
        }
    }
    return NULL;
}

/* ===== Calls ===== */

/* One hold less, and the call that releases it; the mutex is held. NULL: there was none. */
static struct pawl__multi_call *take_hold(struct pawl__multi *multi, uint64_t owner)
{
    struct pawl__multi_hold *hold = pawl__multi_find_hold(multi, owner);
    if (hold == NULL) {
        return NULL;
    }
    struct pawl__list *node = pawl__list_pop(&hold->releases);
    hold->count--;
    if (hold->count == 0) {
        pawl__list_remove(&hold->node);
        pawl__free(hold);
    }
    return PAWL__CONTAINER(node, struct pawl__multi_call, node);
}

/* NULL: *status_out says why, and the last error is set. */
static struct pawl__multi_call *make_call(struct pawl__multi *multi, enum pawl__request_kind kind,
    int64_t wait_us, pawl_status *status_out)
{
    const uint64_t owner = owner_of(multi);
    const bool releases = kind == PAWL__WANT_RELEASE;
    struct pawl__multi_call *call = releases ? NULL : pawl__multi_call_new(multi, kind, owner);
    if (call == NULL && !releases) {
        *status_out = PAWL_NO_MEMORY;
        return NULL;
    }
    pthread_mutex_lock(&multi->mutex);
    call = releases ? take_hold(multi, owner) : call;
    if (call != NULL) {
        pawl__list_push(&multi->calls, &call->node);
    }
    pthread_mutex_unlock(&multi->mutex);
    if (call == NULL) {
        *status_out = pawl__fail(PAWL_NOT_HELD, "the caller does not hold the multi-lock");
        return NULL;
    }
    const int64_t now_us = pawl__now_us();
    call->until_us = wait_us == 0 ? now_us : pawl__later(now_us, wait_us);
    return call;
}

static pawl_status run_inside(struct pawl__multi *multi, struct pawl__request *request)
{
    pawl_status status = PAWL_OK;
    struct pawl__multi_call *call = make_call(multi, request->kind, request->wait_us, &status);
    if (call == NULL) {
        return status;
    }
    call->lease_us = request->lease_us;
    call->info_out = request->kind == PAWL__WANT_INSPECT ? request->info_out : NULL;
    return pawl__multi_run(call);
}

static bool look(struct pawl_lock *lock, struct pawl__hold *hold_out);

static pawl_status run(struct pawl_lock *lock, struct pawl__request *request)
{
    struct pawl__multi *multi = multi_of(lock);
    struct pawl__hold hold;
    if (request->kind == PAWL__WANT_BREAK) {
        return pawl__fail(PAWL_UNSUPPORTED,
            "a multi-lock is not broken as a whole; break the member that is stuck");
    }
    if (!pawl__multi_enter(multi)) {
        return PAWL_MISUSE;
    }
    pawl__cancel_off(); /* a thread that ends half-way would leave members behind */
    pawl_status status = run_inside(multi, request);
    if (request->kind == PAWL__WANT_INSPECT && status == PAWL_OK) {
        request->info_out->held_by_caller = look(lock, &hold) && hold.valid;
    }
    pawl__multi_leave(multi);
    pawl__cancel_on();
    return status;
}

static pawl_status start(struct pawl_lock *lock, enum pawl__request_kind kind, int64_t wait_us,
    pawl_callback done, void *arg)
{
    struct pawl__multi *multi = multi_of(lock);
    pawl_status status = PAWL_OK;
    if (!pawl__multi_enter(multi)) {
        return PAWL_MISUSE;
    }
    pawl__cancel_off();
    struct pawl__multi_call *call = make_call(multi, kind, wait_us, &status);
    if (call != NULL) {
        call->done = done;
        call->arg = arg;
        pthread_mutex_lock(&multi->mutex);
        multi->users++;
        pthread_mutex_unlock(&multi->mutex);
        status = pawl__multi_start(call);
    }
    pawl__multi_leave(multi);
    pawl__cancel_on();
    return status;
}

/* ===== What the caller holds ===== */

/* The owner's hold of this member, with the client's mutex held until leave(). NULL: it has none;
 * leave() is to be called all the same, unless *entered_out is false. */
static struct pawl__tenure *find_hold(
    struct pawl_lock *twin, uint64_t owner, int64_t now_us, bool *entered_out)
{
    struct pawl_client *client = twin->client;
    *entered_out = pawl__call_enter(client);
    if (!*entered_out) {
        return NULL;
    }
    pawl__client_lock(client);
    return pawl__machine_find(&client->machine, &twin->handle,
        twin->handle.owner != 0 ? twin->handle.owner : owner, now_us);
}

static void leave(struct pawl_client *client)
{
    pawl__client_unlock(client, false);
    pawl__call_leave(client);
}

/* How long the owner still holds this member; < 0: it does not. */
static int64_t member_left_us(struct pawl_lock *twin, uint64_t owner)
{
    const int64_t now_us = pawl__now_us();
    int64_t left_us = -1;
    bool entered = false;
    const struct pawl__tenure *tenure = find_hold(twin, owner, now_us, &entered);
    if (tenure != NULL && tenure->state == PAWL__TENURE_HELD) {
        left_us = tenure->deadline_us == PAWL__NEVER ? PAWL__NEVER : tenure->deadline_us - now_us;
    }
    if (entered) {
        leave(twin->client);
    }
    return left_us;
}

/* The least of all members; < 0: one is not held, and *lost_out says which. */
static int64_t least_left_us(struct pawl__multi *multi, uint64_t owner, size_t *lost_out)
{
    int64_t least_us = PAWL__NEVER;
    for (size_t i = 0; i < multi->count; i++) {
        const int64_t left_us = member_left_us(multi->members[i].twin, owner);
        if (left_us < 0) {
            *lost_out = i;
            return left_us;
        }
        least_us = pawl__min64(least_us, left_us);
    }
    return least_us;
}

int64_t pawl__multi_left_us(const struct pawl__multi_call *call, size_t *first_out)
{
    int64_t least_us = PAWL__NEVER;
    for (size_t i = 0; i < call->count; i++) {
        struct pawl_lock *twin = call->multi->members[i].twin;
        const int64_t left_us =
            call->slots[i].has ? member_left_us(twin, call->owner) : PAWL__NEVER;
        const bool ends = left_us < 0 || !twin->handle.terms->renew;
        if (ends && left_us < least_us) {
            least_us = left_us;
            *first_out = i;
        }
    }
    return least_us;
}

void pawl__multi_confirm(struct pawl__multi *multi, uint64_t owner)
{
    for (size_t i = 0; i < multi->count; i++) {
        struct pawl_lock *twin = multi->members[i].twin;
        const struct pawl__terms *terms = twin->handle.terms;
        if (terms->on_lost != NULL || terms->on_risk != NULL) {
            bool entered = false;
            struct pawl__tenure *tenure = find_hold(twin, owner, pawl__now_us(), &entered);
            if (tenure != NULL) {
                pawl__machine_confirm(&twin->client->machine, tenure);
            }
            if (entered) {
                leave(twin->client);
            }
        }
    }
}

static bool look(struct pawl_lock *lock, struct pawl__hold *hold_out)
{
    struct pawl__multi *multi = multi_of(lock);
    const uint64_t owner = owner_of(multi);
    size_t ignored = 0;
    if (!pawl__multi_enter(multi)) {
        return false;
    }
    pthread_mutex_lock(&multi->mutex);
    const struct pawl__multi_hold *hold = pawl__multi_find_hold(multi, owner);
    const unsigned count = hold != NULL ? hold->count : 0;
    pthread_mutex_unlock(&multi->mutex);
    if (count > 0) {
        const int64_t left_us = least_left_us(multi, owner, &ignored);
        *hold_out = (struct pawl__hold){.valid = left_us >= 0, .count = count, .left_us = left_us};
    }
    pawl__multi_leave(multi);
    return count > 0;
}

static void owner_string(struct pawl_lock *lock, char *owner_out)
{
    struct pawl__multi *multi = multi_of(lock);
    owner_out[0] = '\0';
    if (!pawl__multi_enter(multi)) {
        return;
    }
    for (size_t i = 0; i < multi->count; i++) {
        if (multi->members[i].index == 0 &&
            pawl_lock_owner(multi->members[i].twin, owner_out, PAWL_OWNER_SIZE) != PAWL_OK) {
            owner_out[0] = '\0'; /* lost since it was looked at */
        }
    }
    pawl__multi_leave(multi);
}

/* ===== Ending waits, closing ===== */

static void cancel(struct pawl_lock *lock)
{
    struct pawl__multi *multi = multi_of(lock);
    if (pawl__multi_enter(multi)) {
        pawl__multi_stop_calls(multi);
        pawl__multi_leave(multi);
    }
}

/* Nobody else is inside. Whoever closes releases for the owners, all members of one in one go. */
static pawl_status release_holds(struct pawl__multi *multi)
{
    pawl_status worst = PAWL_OK;
    while (!pawl__list_empty(&multi->holds)) {
        const uint64_t owner =
            PAWL__CONTAINER(multi->holds.next, struct pawl__multi_hold, node)->owner;
        pthread_mutex_lock(&multi->mutex);
        struct pawl__multi_call *call = take_hold(multi, owner);
        pthread_mutex_unlock(&multi->mutex);
        const pawl_status status = pawl__multi_run(call);
        const bool gone = status == PAWL_NOT_HELD; /* its thread has ended, and all with it */
        worst = status != PAWL_OK && !gone ? status : worst;
    }
    return worst;
}

static pawl_status close_twins(struct pawl__multi *multi, pawl_status worst)
{
    for (size_t i = 0; i < multi->count; i++) {
        if (multi->members[i].twin != NULL) {
            const pawl_status status = pawl_lock_close(multi->members[i].twin);
            worst = status != PAWL_OK ? status : worst;
        }
    }
    return worst;
}

static pawl_status close(struct pawl_lock *lock)
{
    struct pawl__multi *multi = multi_of(lock);
    pawl__cancel_off();
    pthread_mutex_lock(&multi->mutex);
    const bool again = multi->closing;
    multi->closing = true;
    pthread_mutex_unlock(&multi->mutex);
    if (again) {
        pawl__cancel_on();
        return pawl__fail(PAWL_MISUSE, "the multi-lock is closed");
    }
    pawl__multi_stop_calls(multi);
    pthread_mutex_lock(&multi->mutex);
    while (multi->inside > 0) { /* by the limits of their calls, which wait for no lock any more */
        pthread_cond_wait(&multi->changed, &multi->mutex);
    }
    pthread_mutex_unlock(&multi->mutex);
    const pawl_status status = close_twins(multi, release_holds(multi));
    pawl__multi_drop(multi);
    pawl__cancel_on();
    return status;
}

static const struct pawl__composite composite = {
    .run = run,
    .start = start,
    .look = look,
    .owner = owner_string,
    .cancel = cancel,
    .close = close,
};

pawl_status pawl__multi_status(const struct pawl_lock *lock, size_t index)
{
    if (pawl__lock_composite(lock) != &composite) {
        return pawl__fail(PAWL_INVALID, "the lock is no multi-lock");
    }
    struct pawl__multi *multi = multi_of(pawl__lock_self(lock));
    for (size_t i = 0; i < multi->count; i++) {
        if (multi->members[i].index == index) {
            return (pawl_status)atomic_load(&multi->members[i].status);
        }
    }
    return pawl__fail(
        PAWL_INVALID, "index is %zu; the multi-lock has %zu members", index, multi->count);
}

/* ===== Opening ===== */

int pawl__multi_compare(const char *name, const char *backend, pawl_kind kind,
    const char *other_name, const char *other_backend, pawl_kind other_kind)
{
    int order = strcmp(name, other_name);
    order = order != 0 ? order : strcmp(backend, other_backend);
    return order != 0 ? order : (int)kind - (int)other_kind;
}

static int compare(const void *a, const void *b)
{
    const struct pawl_lock *one = ((const struct pawl__multi_member *)a)->twin;
    const struct pawl_lock *other = ((const struct pawl__multi_member *)b)->twin;
    return pawl__multi_compare(pawl__lock_name(one), one->client->backend, one->handle.terms->kind,
        pawl__lock_name(other), other->client->backend, other->handle.terms->kind);
}

/* Another handle on the same name, with the same options and the same owner. */
static pawl_status open_twin(struct pawl_lock *lock, struct pawl_lock **twin_out)
{
    struct pawl_client *client = lock->client;
    struct pawl_lock *twin = pawl__alloc(sizeof *twin);
    if (twin == NULL || pawl__handle_extra(&twin->handle) == NULL) {
        pawl__free(twin);
        return pawl__fail(PAWL_NO_MEMORY, "no memory for a lock");
    }
    pawl__client_lock(client);
    const bool closed = lock->handle.closed;
    pawl__client_unlock(client, false);
    twin->client = client;
    twin->forks = lock->forks;
    twin->handle.owner = lock->handle.owner;
    twin->handle.extra->stands_for = lock;
    pawl__lock_enter(lock);
    const pawl_status status =
        closed ? pawl__fail(PAWL_MISUSE, "a member is closed")
               : pawl__client_attach(client, twin, pawl__lock_name(lock),
                     pawl__family_of(lock->handle.terms->kind), lock->handle.terms);
    if (status != PAWL_OK) {
        pawl__lock_close(twin);
        return status;
    }
    *twin_out = twin;
    return PAWL_OK;
}

static pawl_status open_twins(struct pawl__multi *multi, struct pawl_lock *const locks[])
{
    for (size_t i = 0; i < multi->count; i++) {
        struct pawl_client *client = locks[i]->client;
        multi->members[i].index = i;
        if (!pawl__call_enter(client)) {
            return pawl__fail(PAWL_MISUSE, "the client of member %zu is closed", i + 1);
        }
        const pawl_status status = open_twin(locks[i], &multi->members[i].twin);
        pawl__call_leave(client);
        if (status != PAWL_OK) {
            return status;
        }
    }
    return PAWL_OK;
}

/* Who the server of this client is. False: not known, as nobody has connected yet. */
static bool identify(struct pawl_client *client, struct pawl__server_identity *identity_out)
{
    if (client->engine->identity == NULL || !pawl__call_enter(client)) {
        return false;
    }
    const bool known = client->engine->identity(client->self, identity_out);
    pawl__call_leave(client);
    return known;
}

/* Do both keep their locks in the same place, whatever their URLs call it? */
static bool same_backend(struct pawl_client *one, struct pawl_client *other)
{
    struct pawl__server_identity identity;
    struct pawl__server_identity other_identity;
    if (one == other || strcmp(one->backend, other->backend) == 0) {
        return true;
    }
    return one->engine == other->engine && identify(one, &identity) &&
           identify(other, &other_identity) && identity.database == other_identity.database &&
           strcmp(identity.run_id, other_identity.run_id) == 0;
}

static pawl_status fail_twice(const struct pawl_lock *one, const struct pawl_lock *other)
{
    char name[128];
    char first[128];
    char second[128];
    const char *bytes = pawl__lock_name(one);
    const char *backend = one->client->backend;
    const char *other_backend = other->client->backend;
    pawl__printable(bytes, strlen(bytes), name, sizeof name);
    if (strcmp(backend, other_backend) == 0) {
        return pawl__fail(PAWL_INVALID, "'%s' is among the members twice", name);
    }
    return pawl__fail(PAWL_INVALID,
        "'%s' is among the members twice: %s and %s are the same server", name,
        pawl__printable(backend, strlen(backend), first, sizeof first),
        pawl__printable(other_backend, strlen(other_backend), second, sizeof second));
}

/* Put the members in order. Of the same thing twice the second would wait for the first. */
static pawl_status sort(struct pawl__multi *multi)
{
    qsort(multi->members, multi->count, sizeof multi->members[0], compare);
    for (size_t i = 0; i < multi->count; i++) {
        const struct pawl_lock *one = multi->members[i].twin;
        for (size_t j = i + 1; j < multi->count; j++) {
            const struct pawl_lock *other = multi->members[j].twin;
            if (strcmp(pawl__lock_name(one), pawl__lock_name(other)) != 0) {
                break; /* names that are the same stand together */
            }
            if (same_backend(one->client, other->client)) {
                return fail_twice(one, other);
            }
        }
    }
    return PAWL_OK;
}

/* Can its backend give it together with others? */
bool pawl__multi_joins(const struct pawl_lock *twin)
{
    return (twin->client->engine->joins &
               PAWL__FAMILY_BIT(pawl__family_of(twin->handle.terms->kind))) != 0;
}

/* Is one question enough for all of them? */
static void find_whole(struct pawl__multi *multi)
{
    multi->whole = true;
    for (size_t i = 0; i < multi->count; i++) {
        const struct pawl_lock *twin = multi->members[i].twin;
        const bool same = twin->client == multi->members[0].twin->client;
        multi->whole = multi->whole && same && pawl__multi_joins(twin);
        multi->queues = multi->queues || twin->handle.terms->kind == PAWL_FAIR;
    }
}

pawl_status pawl__multi_open(
    struct pawl_lock *const locks[], size_t count, struct pawl_lock **lock_out)
{
    struct pawl__multi *multi = pawl__alloc(sizeof *multi + count * sizeof multi->members[0]);
    if (multi == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for a multi-lock");
    }
    pthread_mutex_init(&multi->mutex, NULL);
    pthread_cond_init(&multi->changed, NULL);
    pawl__list_init(&multi->calls);
    pawl__list_init(&multi->holds);
    multi->users = 1;
    multi->count = count;
    multi->lock.forks = pawl__fork_count();
    multi->compound.composite = &composite;
    multi->lock.handle.owner = locks[0]->handle.owner != 0 ? pawl__owner_new() : 0;
    pawl_status status = open_twins(multi, locks);
    if (status == PAWL_OK) {
        status = sort(multi);
    }
    if (status != PAWL_OK) {
        char *error = pawl__strdup(pawl__error_text()); /* closing may have something to say, too */
        close_twins(multi, PAWL_OK);
        multi_free(multi);
        return pawl__fail_text(status, error);
    }
    find_whole(multi);
    *lock_out = &multi->lock;
    return PAWL_OK;
}
