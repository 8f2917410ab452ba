/* SPDX-License-Identifier: Apache-2.0 */
/* The host and its calls; redis_side.h describes them from outside. */
#include "redis_side.h"

static struct side *side_of(struct pawl__host *host)
{
    return PAWL__CONTAINER(host, struct side, host);
}

static void on_complete(struct pawl__host *host, struct pawl__op *ops)
{
    (void)host;
    while (ops != NULL) {
        struct pawl__op *op = ops;
        ops = op->next;
        if (op->answer == PAWL__PENDING) {
            support_fail("an operation was completed without an answer");
        }
        pawl__waiter_finish(&((struct call *)op->core)->waiter);
    }
}

static void on_wake(struct pawl__host *host, const char *name, size_t name_size, uint64_t id)
{
    struct side *side = side_of(host);
    if (name == NULL) {
        atomic_fetch_add(&side->wakes_of_all, 1);
        return;
    }
    pthread_mutex_lock(&side->mutex);
    snprintf(side->woken, sizeof side->woken, "%.*s", (int)name_size, name);
    side->woken_id = id;
    pthread_mutex_unlock(&side->mutex);
    atomic_fetch_add(&side->wakes, 1);
}

static void on_lost(struct pawl__host *host, const char *name, size_t name_size, uint64_t id)
{
    (void)host;
    (void)name;
    (void)name_size;
    (void)id;
}

static void on_reconnected(struct pawl__host *host)
{
    atomic_fetch_add(&side_of(host)->reconnects, 1);
}

static void on_attend(struct pawl__host *host)
{
    struct side *side = side_of(host);
    atomic_fetch_add(&side->attends, 1);
    if (side->has_keeper) {
        thread_wake(side->keeper_wake);
    }
}

static void on_log(struct pawl__host *host, pawl_log_level level, const char *message)
{
    struct side *side = side_of(host);
    (void)level;
    pthread_mutex_lock(&side->mutex);
    const size_t used = strlen(side->log);
    snprintf(side->log + used, sizeof side->log - used, "%s\n", message);
    pthread_mutex_unlock(&side->mutex);
}

bool side_logged(struct side *side, const char *part)
{
    pthread_mutex_lock(&side->mutex);
    const bool found = strstr(side->log, part) != NULL;
    pthread_mutex_unlock(&side->mutex);
    return found;
}

/* ===== Opening and closing ===== */

void side_init(struct side *side)
{
    *side = (struct side){0};
    side->host.settings = (struct pawl__settings){
        .timeout_us = TIMEOUT_US, .connect_timeout_us = TIMEOUT_US, .guard = PAWL_GUARD_ENFORCE};
    side->host.complete = on_complete;
    side->host.wake = on_wake;
    side->host.lost = on_lost;
    side->host.reconnected = on_reconnected;
    side->host.attend = on_attend;
    side->host.log = on_log;
    pthread_mutex_init(&side->mutex, NULL);
    assert_true(pawl__uuid(side->host.uuid));
}

pawl_status side_prepare(struct side *side, const char *url_text)
{
    struct pawl__url url;
    pawl_status status = pawl__url_parse(url_text, &url);
    if (status == PAWL_OK) {
        status = pawl__engine_redis.open(&url, &side->host, &side->self);
        if (status == PAWL_OK) {
            assert_int_equal(pawl__url_check_unused(&url), PAWL_OK);
        }
        pawl__url_free(&url);
    }
    return status;
}

pawl_status side_try_connect(struct side *side)
{
    const int64_t limit_us =
        side->host.settings.connect_timeout_us + side->host.settings.timeout_us;
    return pawl__engine_redis.connect(side->self, pawl__now_us() + limit_us);
}

void side_open(struct side *side, const char *url_text)
{
    side_init(side);
    if (side_prepare(side, url_text) != PAWL_OK || side_try_connect(side) != PAWL_OK) {
        support_fail("cannot open %s: %s", url_text, pawl__error_text());
    }
}

void assert_refused(struct side *side, const char *url_text, pawl_status status, const char *part)
{
    assert_int_equal(side_prepare(side, url_text), PAWL_OK);
    assert_int_equal(side_try_connect(side), status);
    if (strstr(pawl__error_text(), part) == NULL) {
        support_fail("\"%s\" does not say \"%s\"", pawl__error_text(), part);
    }
    side_close(side);
}

/* ===== The keeper ===== */

static void *keeper_run(void *arg)
{
    struct side *side = arg;
    while (!atomic_load(&side->keeper_stops)) {
        struct pollfd fds[1 + PAWL__POLL_MAX] = {{side->keeper_wake, POLLIN, 0}};
        int64_t due_us = pawl__now_us() + 1000000;
        const size_t count = pawl__engine_redis.poll(side->self, fds + 1, &due_us);
        const int64_t left_us = pawl__max64(due_us - pawl__now_us(), 0);
        poll(fds, (nfds_t)(1 + count), (int)((left_us + 999) / 1000));
        if (fds[0].revents != 0) {
            thread_clear_wake(side->keeper_wake);
        }
        pawl__engine_redis.pump(side->self, fds + 1, count);
    }
    return NULL;
}

void keeper_start(struct side *side)
{
    side->keeper_wake = thread_make_wake();
    side->has_keeper = true;
    thread_start(&side->keeper, keeper_run, side);
}

static void keeper_stop(struct side *side)
{
    atomic_store(&side->keeper_stops, true);
    thread_wake(side->keeper_wake);
    pthread_join(side->keeper, NULL);
    side->has_keeper = false;
    close(side->keeper_wake);
}

void side_close(struct side *side)
{
    if (side->has_keeper) {
        keeper_stop(side);
    }
    pawl__engine_redis.stop(side->self);
    pawl__engine_redis.close(side->self);
    side->self = NULL;
    pthread_mutex_destroy(&side->mutex);
}

/* ===== Places ===== */

struct pawl__place *place_make(const char *name, size_t name_size)
{
    struct pawl__place *place = support_alloc(pawl__engine_redis.place_size);
    place->name = support_copy(name, name_size);
    place->name_size = (uint32_t)name_size;
    return place;
}

void place_discard(struct pawl__place *place)
{
    free((void *)(uintptr_t)place->name);
    free(place);
}

pawl_status place_try(struct side *side, struct pawl__place *place)
{
    pawl_status status = pawl__engine_redis.place_open(side->self, place);
    if (status == PAWL_OK) {
        status = pawl__engine_redis.place_check(side->self, place);
        if (status != PAWL_OK) {
            pawl__engine_redis.place_close(side->self, place);
        }
    }
    return status;
}

struct pawl__place *place_open_as(struct side *side, const char *name, enum pawl__family family)
{
    struct pawl__place *place = place_make(name, strlen(name));
    place->family = family;
    if (place_try(side, place) != PAWL_OK) {
        support_fail("cannot open '%s': %s", name, pawl__error_text());
    }
    return place;
}

struct pawl__place *place_open(struct side *side, const char *name)
{
    return place_open_as(side, name, PAWL__FAMILY_MUTEX);
}

void place_close(struct side *side, struct pawl__place *place)
{
    pawl__engine_redis.place_close(side->self, place);
    place_discard(place);
}

/* ===== Calls ===== */

void call_init(struct call *call, struct pawl__place *place, enum pawl__op_kind kind, uint64_t id)
{
    *call = (struct call){0};
    pawl__waiter_init(&call->waiter);
    call->op.place = place;
    call->op.kind = kind;
    call->op.id = id;
    call->op.lease_us = LEASE_US;
    call->op.hint_us = -1;
    call->op.sent_us = pawl__now_us();
    call->op.deadline_us = call->op.sent_us + TIMEOUT_US;
    call->op.core = call;
}

void call_finish(struct side *side, struct call *call)
{
    const bool watch = call->op.kind == PAWL__OP_WATCH || call->op.kind == PAWL__OP_UNWATCH;
    while (!pawl__waiter_done(&call->waiter)) {
        pawl__engine_redis.drive(side->self, watch ? PAWL__AWAIT_WAKE : PAWL__AWAIT_ANSWER,
            &call->waiter, call->op.deadline_us);
        if (pawl__now_us() > call->op.deadline_us + BOUND_MS * 1000) {
            support_fail("an operation of kind %d has not ended", (int)call->op.kind);
        }
    }
}

void call_run(struct side *side, struct call *call)
{
    pawl__engine_redis.submit(side->self, &call->op, true);
    call_finish(side, call);
}

void call_free(struct call *call)
{
    pawl__free(call->op.error);
    call->op.error = NULL;
}

enum pawl__answer ask(struct side *side, struct call *call, struct pawl__place *place,
    enum pawl__op_kind kind, uint64_t id)
{
    call_init(call, place, kind, id);
    call_run(side, call);
    return call->op.answer;
}

void assert_answer(struct side *side, struct pawl__place *place, enum pawl__op_kind kind,
    uint64_t id, enum pawl__answer answer)
{
    struct call call;
    const enum pawl__answer given = ask(side, &call, place, kind, id);
    if (given != answer) {
        support_fail("kind %d of tenure %llu: answer %d (%s), expected %d", (int)kind,
            (unsigned long long)id, (int)given, call.op.error != NULL ? call.op.error : "-",
            (int)answer);
    }
    call_free(&call);
}

uint64_t acquire(struct side *side, struct pawl__place *place, uint64_t id)
{
    struct call call;
    if (ask(side, &call, place, PAWL__OP_ACQUIRE, id) != PAWL__DONE) {
        support_fail("not granted: answer %d, %s", (int)call.op.answer,
            call.op.error != NULL ? call.op.error : "-");
    }
    return call.op.token;
}

void assert_ended(
    struct call *call, enum pawl__answer answer, pawl_status status, bool again, const char *part)
{
    if (call->op.answer != answer || call->op.status != status || call->op.again != again ||
        call->op.error == NULL || strstr(call->op.error, part) == NULL) {
        support_fail("answer %d, status %d, again %d, \"%s\"; expected %d, %d, %d, \"%s\"",
            (int)call->op.answer, (int)call->op.status, call->op.again,
            call->op.error != NULL ? call->op.error : "-", (int)answer, (int)status, again, part);
    }
    call_free(call);
}
