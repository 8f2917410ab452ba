/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis engine: one server, by TCP or unix socket. Locks are kept as Redisson keeps them, so
 * that programs in C and in Java exclude each other; scripts/ has the operations, place.h the
 * names.
 *
 * Two connections. Commands share one (conn.h), led by one of the callers who wait; messages that a
 * lock was released come on the other (push.h), opened when a name is first watched. People who
 * look at all locks have connections of their own (looking.h). This file is the seam: it takes
 * operations apart by connection and has nothing else of its own. */
#include "base/alloc.h"
#include "base/error.h"
#include "engine/redis/conn.h"
#include "engine/redis/looking.h"
#include "engine/redis/push.h"
#include "engine/redis/standing.h"
#include "engine/redis/watching.h"

#include <stdio.h>

/* Declared in core/engines.c, where all engines are listed. */
extern const struct pawl__engine pawl__engine_redis;

struct redis {
    struct pawl__redis_config config;
    struct pawl__conn conn;
    struct pawl__push push;
    struct pawl__looking looking;
};

static void redis_stop(void *self)
{
    struct redis *redis = self;
    pawl__push_stop(&redis->push);
    pawl__conn_stop(&redis->conn);
}

static void redis_close(void *self)
{
    struct redis *redis = self;
    pawl__push_close(&redis->push);
    pawl__conn_close(&redis->conn);
    pawl__looking_close(&redis->looking);
    pawl__redis_config_free(&redis->config);
    pawl__free(redis);
}

static pawl_status redis_open(struct pawl__url *url, struct pawl__host *host, void **self_out)
{
    struct redis *redis = pawl__alloc(sizeof *redis);
    if (redis == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for a client");
    }
    const pawl_status status = pawl__redis_config_read(&redis->config, url, &host->settings);
    if (status != PAWL_OK) {
        pawl__free(redis);
        return status;
    }
    pawl__looking_init(&redis->looking, host, &redis->config);
    const bool conn = pawl__conn_init(&redis->conn, host, &redis->config);
    const bool push = pawl__push_init(&redis->push, host, &redis->config, &redis->conn);
    if (!push || !conn) {
        redis_close(redis);
        return pawl__fail(PAWL_NO_MEMORY, "no memory or descriptors left for a client");
    }
    *self_out = redis;
    return PAWL_OK;
}

static pawl_status redis_connect(void *self, int64_t deadline_us)
{
    struct redis *redis = self;
    return pawl__conn_connect(&redis->conn, deadline_us);
}

static pawl_status redis_place_open(void *self, struct pawl__place *place)
{
    (void)self;
    pawl__redis_place_init(pawl__redis_place_of(place));
    return PAWL_OK;
}

static pawl_status redis_place_check(void *self, struct pawl__place *place)
{
    struct redis *redis = self;
    return pawl__conn_check_rights(&redis->conn, pawl__redis_place_of(place));
}

static void redis_place_close(void *self, struct pawl__place *place)
{
    struct redis *redis = self;
    pawl__push_forget(&redis->push, pawl__redis_place_of(place));
}

static bool is_watch(const struct pawl__op *op)
{
    return op->kind == PAWL__OP_WATCH || op->kind == PAWL__OP_UNWATCH;
}

static void redis_submit(void *self, struct pawl__op *ops, bool driven)
{
    struct redis *redis = self;
    if (ops->next == NULL && !is_watch(ops)) { /* the common case */
        pawl__conn_submit(&redis->conn, ops, driven);
        return;
    }
    struct pawl__op *lists[2] = {NULL, NULL}; /* commands, watches */
    struct pawl__op **ends[2] = {&lists[0], &lists[1]};
    while (ops != NULL) {
        struct pawl__op *op = ops;
        ops = op->next;
        const bool watch = is_watch(op);
        op->next = NULL;
        *ends[watch] = op;
        ends[watch] = &op->next;
    }
    if (lists[0] != NULL) {
        pawl__conn_submit(&redis->conn, lists[0], driven);
    }
    if (lists[1] != NULL) {
        pawl__push_submit(&redis->push, lists[1]);
    }
}

static void redis_drive(
    void *self, enum pawl__await what, struct pawl__waiter *waiter, int64_t deadline_us)
{
    struct redis *redis = self;
    if (what == PAWL__AWAIT_ANSWER) {
        pawl__conn_drive(&redis->conn, waiter, deadline_us);
    } else {
        pawl__push_drive(&redis->push, waiter, deadline_us);
    }
}

static void redis_ask(
    void *self, struct pawl__op *ops, struct pawl__waiter *waiter, int64_t deadline_us)
{
    struct redis *redis = self;
    if (ops->next == NULL && !is_watch(ops)) { /* the common case */
        pawl__conn_ask(&redis->conn, ops, waiter, deadline_us);
        return;
    }
    redis_submit(redis, ops, true);
    pawl__conn_drive(&redis->conn, waiter, deadline_us);
}

static void redis_hear(void *self)
{
    struct redis *redis = self;
    pawl__conn_hear(&redis->conn);
}

static size_t redis_poll(void *self, struct pollfd *fds, int64_t *due_us)
{
    struct redis *redis = self;
    const size_t count = pawl__conn_poll(&redis->conn, fds, due_us);
    return count + pawl__push_poll(&redis->push, fds + count, due_us);
}

/* What is ready is tried, not looked up: a descriptor may have changed since it was polled. But an
 * idle connection is only tried if what was polled for its end says something. */
static void redis_pump(void *self, const struct pollfd *fds, size_t count)
{
    struct redis *redis = self;
    bool ended = false;
    for (size_t i = 0; i < count; i++) {
        ended = ended || (fds[i].events == POLLRDHUP && fds[i].revents != 0);
    }
    pawl__conn_pump(&redis->conn, ended);
    pawl__push_pump(&redis->push);
}

static size_t redis_glance(void *self, struct pollfd *fds, int64_t *due_us)
{
    struct redis *redis = self;
    return pawl__conn_glance(&redis->conn, fds, due_us);
}

static void redis_gather(void *self)
{
    struct redis *redis = self;
    pawl__conn_pump(&redis->conn, false);
}

static void redis_where(void *self, char *out, size_t size)
{
    const struct redis *redis = self;
    const bool local = redis->config.path != NULL;
    snprintf(out, size, "%s://%s", local ? "redis+unix" : "redis", redis->config.peer);
}

static bool redis_identity(void *self, struct pawl__server_identity *identity_out)
{
    struct redis *redis = self;
    return pawl__conn_identity(&redis->conn, identity_out);
}

static pawl_status redis_durable(void *self, bool *durable_out)
{
    const struct redis *redis = self;
    return pawl__standing_durable(&redis->config, durable_out);
}

static pawl_status redis_seen(void *self, struct pawl__sighting *sightings, size_t count,
    struct pawl__clock_sample *sample_out)
{
    const struct redis *redis = self;
    return pawl__standing_seen(&redis->config, sightings, count, sample_out);
}

static pawl_status redis_list(void *self, const char *pattern, pawl_entry_callback each, void *arg)
{
    struct redis *redis = self;
    return pawl__looking_list(&redis->looking, pattern, each, arg);
}

static pawl_status redis_look(void *self, const char *name, size_t name_size, pawl_entry *entry_out)
{
    struct redis *redis = self;
    return pawl__looking_look(&redis->looking, name, name_size, entry_out);
}

static pawl_status redis_queue(
    void *self, const char *name, size_t name_size, pawl_waiter_callback each, void *arg)
{
    struct redis *redis = self;
    return pawl__looking_queue(&redis->looking, name, name_size, each, arg);
}

static pawl_status redis_watch_open(void *self, const char *pattern, void **watch_out)
{
    struct redis *redis = self;
    struct pawl__watching *watching = NULL;
    const pawl_status status = pawl__watching_open(&redis->looking, pattern, &watching);
    *watch_out = watching;
    return status;
}

static pawl_status redis_watch_wait(
    void *self, void *watch, int64_t deadline_us, struct pawl__hint *hint_out)
{
    (void)self;
    return pawl__watching_wait(watch, deadline_us, hint_out);
}

static void redis_watch_close(void *self, void *watch)
{
    (void)self;
    pawl__watching_close(watch);
}

static bool redis_watch_exact(void *self, void *watch)
{
    (void)self;
    return pawl__watching_exact(watch);
}

static bool redis_watch_hears_releases(void *self, void *watch)
{
    (void)self;
    return pawl__watching_hears_releases(watch);
}

static pawl_status redis_examine(void *self, pawl_finding_callback each, void *arg)
{
    struct redis *redis = self;
    return pawl__looking_examine(&redis->looking, each, arg);
}

static const char *const schemes[] = {"redis", "redis+unix", NULL};

const struct pawl__engine pawl__engine_redis = {
    .name = "redis",
    .schemes = schemes,
    .families = PAWL__FAMILY_BIT(PAWL__FAMILY_MUTEX) | PAWL__FAMILY_BIT(PAWL__FAMILY_FAIR) |
                PAWL__FAMILY_BIT(PAWL__FAMILY_SHARED) | PAWL__FAMILY_BIT(PAWL__FAMILY_SPIN) |
                PAWL__FAMILY_BIT(PAWL__FAMILY_PLAIN) | PAWL__FAMILY_BIT(PAWL__FAMILY_SEMAPHORE) |
                PAWL__FAMILY_BIT(PAWL__FAMILY_PERMITS) | PAWL__FAMILY_BIT(PAWL__FAMILY_LATCH),
    .joins = PAWL__FAMILY_BIT(PAWL__FAMILY_MUTEX) | PAWL__FAMILY_BIT(PAWL__FAMILY_FAIR) |
             PAWL__FAMILY_BIT(PAWL__FAMILY_SHARED) | PAWL__FAMILY_BIT(PAWL__FAMILY_SPIN) |
             PAWL__FAMILY_BIT(PAWL__FAMILY_PLAIN),
    .place_size = sizeof(struct pawl__redis_place),
    .expires = true,
    .sessions = false,
    .passes = true,
    .raises = true,
    .rows = true,
    .open = redis_open,
    .connect = redis_connect,
    .stop = redis_stop,
    .close = redis_close,
    .place_open = redis_place_open,
    .place_close = redis_place_close,
    .place_check = redis_place_check,
    .submit = redis_submit,
    .drive = redis_drive,
    .ask = redis_ask,
    .hear = redis_hear,
    .poll = redis_poll,
    .pump = redis_pump,
    .glance = redis_glance,
    .gather = redis_gather,
    .where = redis_where,
    .identity = redis_identity,
    .durable = redis_durable,
    .seen = redis_seen,
    .list = redis_list,
    .look = redis_look,
    .queue = redis_queue,
    .watch_open = redis_watch_open,
    .watch_wait = redis_watch_wait,
    .watch_close = redis_watch_close,
    .watch_exact = redis_watch_exact,
    .watch_hears_releases = redis_watch_hears_releases,
    .examine = redis_examine,
};
