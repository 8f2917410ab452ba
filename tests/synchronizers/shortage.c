/* SPDX-License-Identifier: Apache-2.0 */
/* Semaphores and latches when memory is short: every single allocation of a whole life fails once.
 * Each call answers with a clean status, a callback that was promised comes once, and when all is
 * over no permit is missing and none is there twice. Under the address sanitizer nothing leaks. */
#include "base/alloc.h"
#include "synchronizers/lib/cases.h"

#include <inttypes.h>
#include <stdatomic.h>

enum { PERMITS = 3, DOWNS = 5, LIVES_MAX = 2000 };

/* ===== The hook ===== */

static _Atomic uint64_t allocation_count;
static _Atomic uint64_t failing; /* which; 0: none */

static bool may_allocate(size_t size)
{
    (void)size;
    return atomic_fetch_add(&allocation_count, 1) + 1 != atomic_load(&failing);
}

/* ===== One life ===== */

struct life {
    pawl_client *client;
    pawl_semaphore *plain;
    pawl_semaphore *leased;
    pawl_latch *latch;
    int64_t held; /* plain permits */
    pawl_permit permits[PERMITS];
    int permits_held;
    int64_t downs; /* that were counted, or will be */
    _Atomic int lost;
};

struct call {
    _Atomic int count;
    _Atomic int status;
};

/* PAWL_OK, or that there was no memory. True: it was done, or goes on in the background. */
static bool is_done(pawl_status status, const char *what)
{
    if (status != PAWL_OK && status != PAWL_NO_MEMORY && status != PAWL_UNAVAILABLE) {
        support_fail("allocation %" PRIu64 ": %s answered %s: %s", atomic_load(&failing), what,
            pawl_status_string(status), pawl_last_error());
    }
    return status != PAWL_NO_MEMORY;
}

#define DONE(call) is_done(call, #call)

static void note(pawl_semaphore *semaphore, pawl_status status, void *arg)
{
    struct call *call = arg;
    (void)semaphore;
    atomic_store(&call->status, (int)status);
    atomic_fetch_add(&call->count, 1);
}

static void note_latch(pawl_latch *latch, pawl_status status, void *arg)
{
    (void)latch;
    note(NULL, status, arg);
}

static void note_permits(pawl_semaphore *semaphore, pawl_status status, const pawl_permit *permits,
    size_t count, void *arg)
{
    struct life *life = arg;
    (void)semaphore;
    (void)permits;
    atomic_fetch_add(&life->lost, status == PAWL_LOST ? (int)count : 0);
}

/* What an asynchronous call came to: `done` was called once, if that was promised. */
static bool await(struct call *call, pawl_status started, const char *what)
{
    const int promised = started == PAWL_OK ? 1 : 0;
    const bool begun = is_done(started, what) && promised == 1;
    WAIT_UNTIL(atomic_load(&call->count) >= promised, SOON_MS);
    const pawl_status status = (pawl_status)atomic_exchange(&call->status, 0);
    assert_int_equal(atomic_exchange(&call->count, 0), promised);
    return begun && is_done(status, what);
}

#define AWAIT(told, call) await(&(told), call, #call)

static bool open_all(struct life *life)
{
    pawl_semaphore_options options = PAWL_SEMAPHORE_OPTIONS_INIT;
    char name[40];
    options.leased = true;
    options.on_lost = note_permits;
    options.event_arg = life;
    snprintf(name, sizeof name, "memory:shortage-%" PRIu64, atomic_load(&failing));
    return DONE(pawl_client_open(name, NULL, &life->client)) &&
           DONE(pawl_semaphore_open(life->client, "s", NULL, &life->plain)) &&
           DONE(pawl_semaphore_open(life->client, "p", &options, &life->leased)) &&
           DONE(pawl_latch_open(life->client, "l", &life->latch));
}

static void use_plain(struct life *life)
{
    struct call told = {0};
    if (pawl_semaphore_acquire(life->plain, 2, PAWL_TRY) == PAWL_OK) {
        life->held = 2;
    }
    if (life->held > 0 && AWAIT(told, pawl_semaphore_release_async(life->plain, 1, note, &told))) {
        life->held--;
    }
    if (life->held > 0 && DONE(pawl_semaphore_release(life->plain, 1))) {
        life->held--;
    }
}

static void use_leased(struct life *life)
{
    struct call told = {0};
    pawl_permit *permits = life->permits;
    if (pawl_permit_acquire(life->leased, PERMITS, PAWL_TRY, permits) != PAWL_OK) {
        return;
    }
    life->permits_held = PERMITS;
    DONE(pawl_permit_extend(life->leased, permits, PERMITS, 40000));
    if (AWAIT(told, pawl_permit_release_async(life->leased, permits + 2, 1, note, &told))) {
        life->permits_held--;
    } else { /* it is kept alive as before */
        assert_true(pawl_permit_remaining_ms(life->leased, permits + 2) > 0);
        return;
    }
    if (DONE(pawl_permit_release(life->leased, permits + 1, 1))) {
        life->permits_held--;
    } else {
        assert_true(pawl_permit_remaining_ms(life->leased, permits + 1) > 0);
    }
}

static void use_latch(struct life *life)
{
    struct call told = {0};
    if (AWAIT(told, pawl_latch_count_down_async(life->latch, note_latch, &told))) {
        life->downs++;
    }
    if (DONE(pawl_latch_count_down(life->latch))) {
        life->downs++;
    }
}

/* With memory again: what is held is given back, and everything is there. */
static void settle(struct life *life)
{
    int64_t left = 0;
    if (life->held > 0) {
        EXPECT_OK(pawl_semaphore_release(life->plain, life->held));
    }
    if (life->permits_held > 0) {
        EXPECT_OK(pawl_permit_release(life->leased, life->permits, (size_t)life->permits_held));
    }
    WAIT_UNTIL(available(life->plain) == PERMITS && available(life->leased) == PERMITS, SOON_MS);
    WAIT_UNTIL(
        pawl_latch_count(life->latch, &left) == PAWL_OK && left == DOWNS - life->downs, SOON_MS);
    assert_int_equal(atomic_load(&life->lost), 0);
}

/* True: its n-th allocation failed, so there was one. */
static bool live(uint64_t nth)
{
    struct life life = {0};
    atomic_store(&failing, nth);
    atomic_store(&allocation_count, 0);
    const bool opened = open_all(&life);
    if (opened) {
        bool set = DONE(pawl_semaphore_set(life.plain, PERMITS, NULL));
        set = DONE(pawl_semaphore_set(life.leased, PERMITS, NULL)) && set;
        set = DONE(pawl_latch_set(life.latch, DOWNS, NULL)) && set;
        if (set) {
            use_plain(&life);
            use_leased(&life);
            use_latch(&life);
            const uint64_t count = atomic_load(&allocation_count);
            atomic_store(&allocation_count, LIVES_MAX); /* enough memory */
            settle(&life);
            atomic_store(&allocation_count, count);
        }
    }
    if (life.latch != NULL) {
        EXPECT_OK(pawl_latch_close(life.latch));
    }
    DONE(pawl_semaphore_close(life.leased));
    EXPECT_OK(pawl_semaphore_close(life.plain));
    EXPECT_OK(pawl_client_close(life.client));
    return atomic_load(&allocation_count) >= nth;
}

static void every_allocation_fails_once(void **state)
{
    (void)state;
    uint64_t nth = 1;
    while (live(nth) && nth < LIVES_MAX) {
        nth++;
    }
    print_message("%" PRIu64 " allocations\n", nth - 1);
    assert_in_range(nth, 40, LIVES_MAX - 1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_fails_once)};
    pawl__alloc_hook = may_allocate;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
