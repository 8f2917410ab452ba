/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls about permits that have leases.
 *
 * Ids are drawn here, 16 random bytes each, and shown to users as hexadecimal digits, as Redisson
 * does. Where permits are renewed, all that the core needs to keep them alive, and to tell that one
 * was lost, is prepared before they are asked for. */
#include "permits.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "checks.h"

#include <string.h>

_Static_assert(PAWL_PERMITS_MAX == PAWL__PERMITS_AT_ONCE, "what a user may ask, an engine can");
_Static_assert(sizeof(pawl_permit) == 2 * PAWL__PERMIT_SIZE + 1, "two digits for a byte");

/* ===== Ids ===== */

static void show(const struct pawl__permit_id *id, pawl_permit *permit)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < PAWL__PERMIT_SIZE; i++) {
        permit->id[2 * i] = digits[id->bytes[i] >> 4];
        permit->id[2 * i + 1] = digits[id->bytes[i] & 15];
    }
    permit->id[2 * PAWL__PERMIT_SIZE] = '\0';
}

/* The value of a hexadecimal digit; -1: it is none. */
static int digit(char letter)
{
    if (letter >= '0' && letter <= '9') {
        return letter - '0';
    }
    if (letter >= 'a' && letter <= 'f') {
        return letter - 'a' + 10;
    }
    return letter >= 'A' && letter <= 'F' ? letter - 'A' + 10 : -1;
}

static bool read_id(const pawl_permit *permit, struct pawl__permit_id *id)
{
    for (size_t i = 0; i < PAWL__PERMIT_SIZE; i++) {
        const int high = digit(permit->id[2 * i]);
        const int low = high >= 0 ? digit(permit->id[2 * i + 1]) : -1;
        if (low < 0) {
            return false;
        }
        id->bytes[i] = (unsigned char)(high << 4 | low);
    }
    return permit->id[2 * PAWL__PERMIT_SIZE] == '\0';
}

/* The ids of these permits, to be freed. Sets the last error. */
static pawl_status read_ids(
    const pawl_permit *permits, size_t count, struct pawl__permit_id **ids_out)
{
    if (permits == NULL || count < 1 || count > PAWL_PERMITS_MAX) {
        return pawl__fail(
            PAWL_INVALID, "permits is NULL, or count not from 1 to %d", PAWL_PERMITS_MAX);
    }
    struct pawl__permit_id *ids = pawl__alloc(count * sizeof *ids);
    if (ids == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for %zu permits", count);
    }
    for (size_t i = 0; i < count; i++) {
        if (!read_id(&permits[i], &ids[i])) {
            pawl__free(ids);
            return pawl__fail(PAWL_INVALID, "permit %zu has no id of 32 hexadecimal digits", i);
        }
    }
    *ids_out = ids;
    return PAWL_OK;
}

/* ===== What is told when a permit is lost ===== */

/* An asynchronous call that ends when its permit is lost. */
struct news {
    struct pawl__async async; /* must be first: who delivers it frees it */
    struct pawl__permit_id id;
};

static void on_news(pawl_lock *lock, pawl_status status, void *arg)
{
    const struct news *news = arg;
    pawl_semaphore *semaphore = pawl__semaphore_of(lock);
    pthread_mutex_lock(&lock->client->mutex);
    const bool closed = lock->handle.closed;
    pthread_mutex_unlock(&lock->client->mutex);
    if (status == PAWL_LOST && !closed) {
        pawl_permit permit;
        show(&news->id, &permit);
        semaphore->on_lost(semaphore, PAWL_LOST, &permit, 1, semaphore->event_arg);
    }
}

static struct pawl__request *news_new(pawl_semaphore *semaphore, const struct pawl__permit_id *id)
{
    struct news *news = pawl__alloc(sizeof *news);
    if (news == NULL) {
        return NULL;
    }
    news->id = *id;
    news->async.done = on_news;
    news->async.arg = news;
    news->async.request.kind = PAWL__WANT_TALLY;
    news->async.request.handle = &semaphore->lock.handle;
    pawl__list_init(&news->async.request.node);
    pawl__lock_enter(&semaphore->lock); /* until it was told, or is not needed any more */
    return &news->async.request;
}

/* ===== What is kept alive ===== */

/* These permits are not kept alive, or not any more. */
static void free_permits(struct pawl__list *permits)
{
    struct pawl__list *node = NULL;
    while ((node = pawl__list_pop(permits)) != NULL) {
        struct pawl__permit *permit = PAWL__CONTAINER(node, struct pawl__permit, node);
        if (permit->lost != NULL) {
            struct pawl__async *async = PAWL__CONTAINER(permit->lost, struct pawl__async, request);
            pawl__lock_leave(pawl__async_lock(async));
            pawl__free(async);
        }
        pawl__free(permit);
    }
}

static bool permit_new(
    pawl_semaphore *semaphore, const struct pawl__permit_id *id, struct pawl__list *permits)
{
    struct pawl__permit *permit = pawl__alloc(sizeof *permit);
    if (permit == NULL) {
        return false;
    }
    permit->id = *id;
    pawl__list_push(permits, &permit->node);
    if (semaphore->on_lost == NULL) {
        return true;
    }
    permit->lost = news_new(semaphore, id);
    return permit->lost != NULL;
}

bool pawl__permits_begin(pawl_semaphore *semaphore)
{
    struct pawl_client *client = semaphore->lock.client;
    semaphore->leases.lease_us = semaphore->lease_us;
    pthread_mutex_lock(&client->mutex);
    const bool begun =
        pawl__leases_begin(&client->machine, &semaphore->lock.handle, &semaphore->leases);
    pthread_mutex_unlock(&client->mutex);
    return begun;
}

/* Do not renew these any more: any so many. Their ids, and how many they are. */
static size_t stop_renewing(
    pawl_semaphore *semaphore, size_t count, struct pawl__permit_id *ids_out)
{
    struct pawl_client *client = semaphore->lock.client;
    struct pawl__list dropped;
    size_t dropped_count = 0;
    pawl__list_init(&dropped);
    pthread_mutex_lock(&client->mutex);
    struct pawl__leases *leases = pawl__handle_leases(&semaphore->lock.handle);
    if (leases != NULL) {
        dropped_count = pawl__leases_drop(&client->machine, leases, NULL, count, &dropped);
    }
    pthread_mutex_unlock(&client->mutex);
    for (struct pawl__list *node = dropped.next; node != &dropped; node = node->next) {
        *ids_out++ = PAWL__CONTAINER(node, struct pawl__permit, node)->id;
    }
    free_permits(&dropped);
    return dropped_count;
}

/* ===== Acquire ===== */

/* Everything that an acquire prepares. */
struct acquisition {
    struct pawl__list permits; /* to be kept alive */
    struct pawl__permit_id *ids;
    size_t count;
    pawl_permit_callback done; /* asynchronously */
    void *arg;
};

static void acquisition_free(struct acquisition *acquisition)
{
    free_permits(&acquisition->permits);
    pawl__free(acquisition->ids);
    pawl__free(acquisition);
}

/* NULL: no memory, or no randomness; sets the last error. */
static struct acquisition *prepare(pawl_semaphore *semaphore, size_t count)
{
    struct acquisition *acquisition = pawl__alloc(sizeof *acquisition);
    struct pawl__permit_id *ids = pawl__alloc(count * sizeof *ids);
    if (acquisition == NULL || ids == NULL || !pawl__random_bytes(ids, count * sizeof *ids)) {
        pawl__free(acquisition);
        pawl__free(ids);
        pawl__fail(PAWL_NO_MEMORY, "no memory or randomness for %zu permits", count);
        return NULL;
    }
    acquisition->ids = ids;
    acquisition->count = count;
    pawl__list_init(&acquisition->permits);
    for (size_t i = 0; i < count && semaphore->leases.lease_us > 0; i++) {
        if (!permit_new(semaphore, &ids[i], &acquisition->permits)) {
            acquisition_free(acquisition);
            pawl__fail(PAWL_NO_MEMORY, "no memory for %zu permits", count);
            return NULL;
        }
    }
    return acquisition;
}

/* Check the arguments and fill the request. */
static pawl_status begin(pawl_semaphore *semaphore, size_t count, int64_t wait_ms,
    struct pawl__request *request, struct acquisition **acquisition_out)
{
    pawl_status status = pawl__semaphore_check(semaphore, true);
    if (status == PAWL_OK && (count < 1 || count > PAWL_PERMITS_MAX)) {
        status = pawl__fail(
            PAWL_INVALID, "count is %zu; it must be from 1 to %d", count, PAWL_PERMITS_MAX);
    }
    if (status == PAWL_OK) {
        status = pawl__check_wait(wait_ms, &request->wait_us);
    }
    if (status != PAWL_OK) {
        return status;
    }
    struct acquisition *acquisition = prepare(semaphore, count);
    if (acquisition == NULL) {
        return PAWL_NO_MEMORY;
    }
    request->verb = PAWL__TALLY_TAKE;
    request->amount = (int64_t)count;
    request->ids = acquisition->ids;
    request->permits = &acquisition->permits;
    request->lease_us = semaphore->lease_us;
    *acquisition_out = acquisition;
    return PAWL_OK;
}

pawl_status pawl_permit_acquire(
    pawl_semaphore *semaphore, size_t count, int64_t wait_ms, pawl_permit *permits_out)
{
    struct pawl__request request = {0};
    struct acquisition *acquisition = NULL;
    if (permits_out == NULL) {
        return pawl__fail(PAWL_INVALID, "permits_out is NULL");
    }
    pawl_status status = begin(semaphore, count, wait_ms, &request, &acquisition);
    if (status != PAWL_OK) {
        return status;
    }
    status = pawl__count_run(&semaphore->lock, &request, "pawl_permit_acquire()");
    for (size_t i = 0; i < count && status == PAWL_OK; i++) {
        show(&acquisition->ids[i], &permits_out[i]);
    }
    acquisition_free(acquisition);
    return status;
}

static void on_done(pawl_lock *lock, pawl_status status, void *arg)
{
    struct acquisition *acquisition = arg;
    pawl_semaphore *semaphore = pawl__semaphore_of(lock);
    const bool taken = status == PAWL_OK;
    pawl_permit permits[PAWL_PERMITS_MAX];
    for (size_t i = 0; i < acquisition->count && taken; i++) {
        show(&acquisition->ids[i], &permits[i]);
    }
    acquisition->done(semaphore, status, taken ? permits : NULL, taken ? acquisition->count : 0,
        acquisition->arg);
    acquisition_free(acquisition);
}

pawl_status pawl_permit_acquire_async(
    pawl_semaphore *semaphore, size_t count, int64_t wait_ms, pawl_permit_callback done, void *arg)
{
    struct pawl__request request = {0};
    struct acquisition *acquisition = NULL;
    if (done == NULL) {
        return pawl__fail(PAWL_INVALID, "an asynchronous call needs `done`");
    }
    pawl_status status = begin(semaphore, count, wait_ms, &request, &acquisition);
    if (status != PAWL_OK) {
        return status;
    }
    acquisition->done = done;
    acquisition->arg = arg;
    status = pawl__count_start(&semaphore->lock, &request, on_done, acquisition);
    if (status != PAWL_OK) {
        acquisition_free(acquisition);
    }
    return status;
}

/* ===== Release and extend ===== */

/* The question about `amount` ids was answered so. PAWL_LOST: fewer of them were out. */
static pawl_status judge(
    const struct pawl_lock *lock, const struct pawl__request *request, pawl_status status)
{
    if (status != PAWL_OK || request->value >= request->amount) {
        return status;
    }
    char shown[128];
    const char *name = pawl__lock_name(lock);
    return pawl__fail(PAWL_LOST,
        "semaphore '%s': %lld of %lld permits were not out any more: their lease had ended, or "
        "they were released before",
        pawl__printable(name, strlen(name), shown, sizeof shown),
        (long long)(request->amount - request->value), (long long)request->amount);
}

static pawl_status ask(pawl_semaphore *semaphore, struct pawl__request *request,
    const struct pawl__permit_id *ids, size_t count, const char *call)
{
    request->ids = ids;
    request->amount = (int64_t)count;
    const pawl_status status = pawl__count_run(&semaphore->lock, request, call);
    return judge(&semaphore->lock, request, status);
}

pawl_status pawl_permit_release(pawl_semaphore *semaphore, const pawl_permit *permits, size_t count)
{
    static const char call[] = "pawl_permit_release()";
    struct pawl__list dropped;
    struct pawl__request request = {.verb = PAWL__TALLY_GIVE, .permits = &dropped};
    struct pawl__permit_id *ids = NULL;
    pawl_status status = pawl__semaphore_check(semaphore, true);
    if (status == PAWL_OK) {
        status = read_ids(permits, count, &ids);
    }
    if (status == PAWL_OK) {
        pawl__list_init(&dropped);
        status = ask(semaphore, &request, ids, count, call);
        free_permits(&dropped);
    }
    pawl__free(ids);
    return status;
}

/* A release that nobody waits for. */
struct release {
    struct pawl__async async;
    struct pawl__list dropped; /* permits that were kept alive until then */
    pawl_semaphore_callback done;
    void *arg;
};

static void on_released(pawl_lock *lock, pawl_status status, void *arg)
{
    struct release *release = arg;
    const pawl_semaphore_callback done = release->done;
    void *const done_arg = release->arg;
    const pawl_status judged = judge(lock, &release->async.request, status);
    free_permits(&release->dropped);
    pawl__free(release);
    done(pawl__semaphore_of(lock), judged, done_arg);
}

/* The machine copies the ids. If it does not start, they are renewed as before. */
static pawl_status start_release(pawl_semaphore *semaphore, const struct pawl__permit_id *ids,
    size_t count, pawl_semaphore_callback done, void *arg)
{
    struct release *release = pawl__alloc(sizeof *release);
    if (release == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for an asynchronous call");
    }
    release->done = done;
    release->arg = arg;
    pawl__list_init(&release->dropped);
    release->async.done = on_released;
    release->async.arg = release;
    release->async.request.kept = true;
    release->async.request.kind = PAWL__WANT_TALLY;
    release->async.request.verb = PAWL__TALLY_GIVE;
    release->async.request.ids = ids;
    release->async.request.amount = (int64_t)count;
    release->async.request.permits = &release->dropped;
    const pawl_status status = pawl__call_launch(&semaphore->lock, &release->async);
    if (status != PAWL_OK) {
        pawl__free(release);
    }
    return status;
}

pawl_status pawl_permit_release_async(pawl_semaphore *semaphore, const pawl_permit *permits,
    size_t count, pawl_semaphore_callback done, void *arg)
{
    struct pawl__permit_id *ids = NULL;
    pawl_status status = pawl__semaphore_check(semaphore, true);
    if (status == PAWL_OK && done == NULL) {
        status = pawl__fail(PAWL_INVALID, "an asynchronous call needs `done`");
    }
    if (status == PAWL_OK) {
        status = read_ids(permits, count, &ids);
    }
    if (status == PAWL_OK) {
        status = start_release(semaphore, ids, count, done, arg);
    }
    pawl__free(ids);
    return status;
}

pawl_status pawl_permit_extend(
    pawl_semaphore *semaphore, const pawl_permit *permits, size_t count, int64_t lease_ms)
{
    struct pawl__request request = {.verb = PAWL__TALLY_EXTEND};
    struct pawl__permit_id *ids = NULL;
    pawl_status status = pawl__semaphore_check(semaphore, true);
    if (status == PAWL_OK) {
        status =
            pawl__count_check_range("lease_ms", lease_ms, PAWL__LEASE_MS_MIN, PAWL__LEASE_MS_MAX);
    }
    if (status == PAWL_OK) {
        status = read_ids(permits, count, &ids);
    }
    if (status == PAWL_OK) {
        request.lease_us = lease_ms * 1000; /* in range, so there is no overflow */
        status = ask(semaphore, &request, ids, count, "pawl_permit_extend()");
    }
    pawl__free(ids);
    return status;
}

int64_t pawl_permit_remaining_ms(const pawl_semaphore *semaphore, const pawl_permit *permit)
{
    struct pawl__permit_id id;
    if (semaphore == NULL || permit == NULL || !read_id(permit, &id)) {
        return 0;
    }
    const struct pawl_lock *lock = &semaphore->lock;
    if (pawl__count_check(lock, "semaphore") != PAWL_OK || !pawl__call_enter(lock->client)) {
        return 0;
    }
    struct pawl_client *client = lock->client;
    pthread_mutex_lock(&client->mutex);
    const struct pawl__leases *leases = pawl__handle_leases(&lock->handle);
    const int64_t deadline_us = leases != NULL ? pawl__leases_deadline(leases, &id) : 0;
    pthread_mutex_unlock(&client->mutex);
    pawl__call_leave(client);
    return pawl__max64(deadline_us - pawl__now_us(), 0) / 1000; /* down: it is a promise */
}

pawl_status pawl__permits_end(pawl_semaphore *semaphore)
{
    static const char call[] = "pawl_semaphore_close()";
    struct pawl_client *client = semaphore->lock.client;
    pawl_status worst = pawl__check_may_wait(call);
    struct pawl__permit_id *ids = pawl__alloc(PAWL_PERMITS_MAX * sizeof *ids);
    size_t count = 0;
    if (worst != PAWL_OK || ids == NULL || pawl__call_closing(client)) {
        pawl__free(ids); /* not renewed any more, they end by themselves */
        return worst;
    }
    while ((count = stop_renewing(semaphore, PAWL_PERMITS_MAX, ids)) > 0) {
        struct pawl__request request = {.verb = PAWL__TALLY_GIVE};
        pawl_status status = ask(semaphore, &request, ids, count, call);
        worst = status != PAWL_OK ? status : worst;
    }
    pawl__free(ids);
    return worst;
}
