/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the file engine have in common: *sides*. A side is one client at the engine's
 * seam: the engine, opened on a directory, and a host that writes down what it is told. Two sides
 * in one process are as foreign to each other as two processes are. Included once by each test
 * program. */
#ifndef PAWL_UNIT_FILE_SIDE_H
#define PAWL_UNIT_FILE_SIDE_H

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/engine.h"
#include "engine/file/names.h"
#include "support/fail.h"
#include "support/process.h"
#include "support/resources.h"
#include "support/text.h"
#include "support/wait.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

extern const struct pawl__engine pawl__engine_file;

enum {
    BOUND_MS = 10000, /* for what must happen at once, on a busy machine */
    WAITS_MAX = 8     /* threads of one side that wait at once */
};

struct side {
    struct pawl__host host; /* first: the engine gives us back its address */
    void *self;
    pthread_mutex_t mutex;
    /* Guarded by the mutex. */
    unsigned completions;
    unsigned wakes;
    unsigned losses;
    uint64_t lost_id;
    unsigned attends;
    unsigned logs;
    char log[512];
    char told[PAWL__NAME_SIZE_MAX + 1]; /* the name in the last wake or loss */
    struct {
        const char *name;
        struct pawl__waiter *waiter; /* to be nudged when that name is woken; NULL: a free slot */
    } waits[WAITS_MAX];
};

/* ===== The host ===== */

static inline struct side *side_of(struct pawl__host *host)
{
    return (struct side *)(void *)host;
}

static inline void side_complete(struct pawl__host *host, struct pawl__op *ops)
{
    struct side *side = side_of(host);
    pthread_mutex_lock(&side->mutex);
    for (; ops != NULL; ops = ops->next) {
        side->completions++;
    }
    pthread_mutex_unlock(&side->mutex);
}

static inline void side_wake(
    struct pawl__host *host, const char *name, size_t name_size, uint64_t id)
{
    (void)id;
    struct side *side = side_of(host);
    pthread_mutex_lock(&side->mutex);
    side->wakes++;
    memcpy(side->told, name, name_size);
    side->told[name_size] = '\0';
    for (int i = 0; i < WAITS_MAX; i++) {
        if (side->waits[i].waiter != NULL && strcmp(side->waits[i].name, side->told) == 0) {
            pawl__waiter_nudge(side->waits[i].waiter);
        }
    }
    pthread_mutex_unlock(&side->mutex);
}

static inline void side_lost(
    struct pawl__host *host, const char *name, size_t name_size, uint64_t id)
{
    struct side *side = side_of(host);
    pthread_mutex_lock(&side->mutex);
    side->losses++;
    side->lost_id = id;
    memcpy(side->told, name, name_size);
    side->told[name_size] = '\0';
    pthread_mutex_unlock(&side->mutex);
}

static inline void side_attend(struct pawl__host *host)
{
    struct side *side = side_of(host);
    pthread_mutex_lock(&side->mutex);
    side->attends++;
    pthread_mutex_unlock(&side->mutex);
}

static inline void side_log(struct pawl__host *host, pawl_log_level level, const char *message)
{
    struct side *side = side_of(host);
    (void)level;
    pthread_mutex_lock(&side->mutex);
    side->logs++;
    snprintf(side->log, sizeof side->log, "%s", message);
    pthread_mutex_unlock(&side->mutex);
}

static inline unsigned read_counter(struct side *side, const unsigned *counter)
{
    pthread_mutex_lock(&side->mutex);
    unsigned value = *counter;
    pthread_mutex_unlock(&side->mutex);
    return value;
}

/* ===== Opening and closing ===== */

/* What opening answers; the side is usable only after PAWL_OK. `directory` NULL: the default. */
static inline pawl_status side_try_open(struct side *side, const char *directory)
{
    char path[512] = "";
    struct pawl__url url;
    memset(&url, 0, sizeof url);
    memset(side, 0, sizeof *side);
    if (directory != NULL) {
        snprintf(path, sizeof path, "%s", directory);
        url.path = path;
    }
    pthread_mutex_init(&side->mutex, NULL);
    side->host.complete = side_complete;
    side->host.wake = side_wake;
    side->host.lost = side_lost;
    side->host.attend = side_attend;
    side->host.log = side_log;
    assert_true(pawl__uuid(side->host.uuid));
    pawl_status status = pawl__engine_file.open(&url, &side->host, &side->self);
    if (status == PAWL_OK) {
        status = pawl__engine_file.connect(side->self, pawl__now_us() + 1000000);
        if (status != PAWL_OK) {
            pawl__engine_file.close(side->self);
        }
    }
    return status;
}

static inline void side_open(struct side *side, const char *directory)
{
    pawl_status status = side_try_open(side, directory);
    if (status != PAWL_OK) {
        support_fail("cannot open: %s", pawl__error_text());
    }
}

static inline void side_close(struct side *side)
{
    pawl__engine_file.close(side->self);
    pthread_mutex_destroy(&side->mutex);
}

static inline struct pawl__place *place_open_sized(
    struct side *side, const char *name, size_t name_size)
{
    struct pawl__place *place = support_alloc(pawl__engine_file.place_size);
    place->name = support_copy(name, name_size);
    place->name_size = (uint32_t)name_size;
    assert_int_equal(pawl__engine_file.place_open(side->self, place), PAWL_OK);
    return place;
}

static inline struct pawl__place *place_open(struct side *side, const char *name)
{
    return place_open_sized(side, name, strlen(name));
}

static inline void place_free(struct pawl__place *place)
{
    union {
        const char *given;
        char *owned; /* by place_open() */
    } name = {.given = place->name};
    free(name.owned);
    free(place);
}

static inline void place_close(struct side *side, struct pawl__place *place)
{
    pawl__engine_file.place_close(side->self, place);
    place_free(place);
}

/* ===== Operations ===== */

static inline void submit(struct side *side, struct pawl__op *op)
{
    unsigned before = read_counter(side, &side->completions);
    pawl__engine_file.submit(side->self, op, false);
    assert_true(read_counter(side, &side->completions) > before);
    assert_int_not_equal(op->answer, PAWL__PENDING);
}

/* Carry out an operation whose sentence does not matter. */
static inline struct pawl__op operate(
    struct side *side, struct pawl__place *place, enum pawl__op_kind kind, uint64_t id)
{
    struct pawl__op op = {.place = place, .kind = kind, .id = id, .lease_us = 30000000};
    submit(side, &op);
    pawl__free(op.error);
    op.error = NULL;
    return op;
}

static inline enum pawl__answer ask(
    struct side *side, struct pawl__place *place, enum pawl__op_kind kind, uint64_t id)
{
    return operate(side, place, kind, id).answer;
}

static inline struct pawl__op pass(
    struct side *side, struct pawl__place *place, uint64_t id, uint64_t heir_id, bool offer)
{
    struct pawl__op op = {
        .place = place, .kind = PAWL__OP_PASS, .id = id, .heir_id = heir_id, .offer = offer};
    submit(side, &op);
    pawl__free(op.error);
    op.error = NULL;
    return op;
}

static inline pawl_lock_info inspect(struct side *side, struct pawl__place *place)
{
    pawl_lock_info info;
    memset(&info, 0xff, sizeof info);
    struct pawl__op op = {.place = place, .kind = PAWL__OP_INSPECT, .info = &info};
    submit(side, &op);
    assert_int_equal(op.answer, PAWL__DONE);
    return info;
}

static inline void assert_failed(struct side *side, struct pawl__place *place,
    enum pawl__op_kind kind, pawl_status status, const char *needle)
{
    struct pawl__op op = {.place = place, .kind = kind, .id = 1};
    submit(side, &op);
    assert_int_equal(op.answer, PAWL__FAILED);
    assert_int_equal(op.status, status);
    assert_int_equal(op.again, status == PAWL_UNAVAILABLE);
    assert_non_null(op.error);
    if (strstr(op.error, needle) == NULL) {
        support_fail("\"%s\" is not in \"%s\"", needle, op.error);
    }
    pawl__free(op.error);
}

/* The path of the file that keeps a lock; to be freed. */
static inline char *lock_path(const char *directory, const char *name)
{
    char file_name[PAWL__FILE_NAME_SIZE_MAX + 1];
    struct text path = {0};
    pawl__name_to_file(name, strlen(name), file_name);
    text_addf(&path, "%s/%s", directory, file_name);
    return text_take(&path);
}

static inline void unlink_lock(const char *directory, const char *name)
{
    char *path = lock_path(directory, name);
    assert_int_equal(unlink(path), 0);
    free(path);
}

/* ===== File systems of their own ===== */

/* Mount a small file system where nobody else sees it. False: this process may not. */
static inline bool mount_privately(const char *where, const char *options)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", where, "tmpfs", 0, options) == 0;
}

static inline void run_with_own_mount(int (*body)(const struct child_pipes *pipes, void *arg))
{
    const char *directory = tempdir_make();
    char *copy = support_copy(directory, strlen(directory));
    struct child *child = child_fork(body, copy);
    int code = child_wait(child, BOUND_MS);
    child_free(child);
    free(copy);
    if (code == 77) {
        print_message("this process may not mount file systems\n");
        skip();
    }
    assert_int_equal(code, 0);
}

/* ===== Waiting ===== */

/* One round of what a client's keeper does. Always true, for conditions. */
static inline bool pump(struct side *side)
{
    struct pollfd fds[PAWL__POLL_MAX];
    int64_t due_us = PAWL__NEVER;
    size_t count = pawl__engine_file.poll(side->self, fds, &due_us);
    poll(fds, (nfds_t)count, 0);
    pawl__engine_file.pump(side->self, fds, count);
    return true;
}

/* Let wakes of this name nudge the waiter. The slot is for wait_end(). */
static inline int wait_begin(struct side *side, const char *name, struct pawl__waiter *waiter)
{
    int slot = 0;
    pthread_mutex_lock(&side->mutex);
    while (slot < WAITS_MAX - 1 && side->waits[slot].waiter != NULL) {
        slot++;
    }
    side->waits[slot].name = name;
    side->waits[slot].waiter = waiter;
    pthread_mutex_unlock(&side->mutex);
    return slot;
}

static inline void wait_end(struct side *side, int slot)
{
    pthread_mutex_lock(&side->mutex);
    side->waits[slot].waiter = NULL;
    pthread_mutex_unlock(&side->mutex);
}

/* As the core does: watch, try, sleep until a wake-up, try again. There is no backstop: who is not
 * woken waits until the deadline. Answers the token; 0: the deadline has come. */
static inline uint64_t acquire_waiting(
    struct side *side, struct pawl__place *place, uint64_t id, int64_t timeout_ms)
{
    int64_t deadline_us = pawl__now_us() + timeout_ms * 1000;
    assert_int_equal(ask(side, place, PAWL__OP_WATCH, 0), PAWL__DONE);
    uint64_t token = 0;
    while (token == 0 && pawl__now_us() < deadline_us) {
        struct pawl__waiter waiter;
        pawl__waiter_init(&waiter);
        int slot = wait_begin(side, place->name, &waiter);
        struct pawl__op op = operate(side, place, PAWL__OP_ACQUIRE, id);
        if (op.answer == PAWL__DONE) {
            token = op.token;
        } else {
            pawl__engine_file.drive(side->self, PAWL__AWAIT_WAKE, &waiter, deadline_us);
        }
        wait_end(side, slot);
    }
    assert_int_equal(ask(side, place, PAWL__OP_UNWATCH, 0), PAWL__DONE);
    return token;
}

#endif
