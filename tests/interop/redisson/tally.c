/* SPDX-License-Identifier: Apache-2.0 */
/* Semaphores, permits with leases, and latches, counted by both. */
#include "common.h"

#include "support/text.h"
#include "support/thread.h"

#define SHORT_MS 1500

/* ===== C callers that wait ===== */

/* A call that waits, in a thread of its own. Never freed before its end: the clean-up cancels it
 * and joins. */
struct wait {
    pthread_t thread;
    pawl_semaphore *semaphore; /* one of these two */
    pawl_latch *latch;
    pawl_permit permit;
    int64_t count;
    bool leased;
    pawl_status status;
    int64_t took_ms;
    _Atomic bool done;
};

static void *wait_body(void *arg)
{
    struct wait *wait = arg;
    const int64_t began_ms = boottime_ms();
    if (wait->latch != NULL) {
        wait->status = pawl_latch_wait(wait->latch, LONG_MS);
    } else if (wait->leased) {
        wait->status = pawl_permit_acquire(wait->semaphore, 1, LONG_MS, &wait->permit);
    } else {
        wait->status = pawl_semaphore_acquire(wait->semaphore, wait->count, LONG_MS);
    }
    wait->took_ms = boottime_ms() - began_ms;
    atomic_store(&wait->done, true);
    return NULL;
}

static void end_wait(void *object)
{
    struct wait *wait = object;
    if (wait->latch != NULL) {
        pawl_latch_cancel(wait->latch);
    } else {
        pawl_semaphore_cancel(wait->semaphore);
    }
    pthread_join(wait->thread, NULL);
    free(wait);
}

static struct wait *start_wait(const struct wait *what)
{
    struct wait *wait = support_alloc(sizeof *wait);
    wait->semaphore = what->semaphore;
    wait->latch = what->latch;
    wait->count = what->count;
    wait->leased = what->leased;
    thread_start(&wait->thread, wait_body, wait);
    cleanup_add(end_wait, wait);
    return wait;
}

/* Wait for its end, which must be a success; how long it took. The clean-up frees it. */
static int64_t join_wait(struct wait *wait)
{
    WAIT_UNTIL(atomic_load(&wait->done), PATIENCE_MS);
    ASSERT_OK(wait->status);
    return wait->took_ms;
}

/* ===== Opening ===== */

static void close_semaphore(void *object)
{
    pawl_semaphore_close(object);
}

static void close_latch(void *object)
{
    pawl_latch_close(object);
}

static pawl_semaphore *own_semaphore(const char *name, bool leased, int64_t lease_ms)
{
    pawl_semaphore_options options = PAWL_SEMAPHORE_OPTIONS_INIT;
    options.leased = leased;
    options.lease_ms = lease_ms;
    pawl_semaphore *semaphore = NULL;
    ASSERT_OK(
        pawl_semaphore_open(open_client(server_url(server), NULL), name, &options, &semaphore));
    cleanup_add(close_semaphore, semaphore);
    return semaphore;
}

static pawl_latch *own_latch(const char *name)
{
    pawl_latch *latch = NULL;
    ASSERT_OK(pawl_latch_open(open_client(server_url(server), NULL), name, &latch));
    cleanup_add(close_latch, latch);
    return latch;
}

static int64_t available(pawl_semaphore *semaphore)
{
    int64_t permits = -1;
    ASSERT_OK(pawl_semaphore_available(semaphore, &permits));
    return permits;
}

/* ===== Semaphores ===== */

static void both_count_the_same_permits(void **state)
{
    (void)state;
    pawl_semaphore *ours = own_semaphore("permits", false, LONG_MS);
    bool set = false;
    ASSERT_OK(pawl_semaphore_set(ours, 5, &set));
    assert_true(set);
    PEER_SAYS("false", java, "T1", "semaphore permits trySetPermits 9");
    PEER_SAYS("true", java, "T1", "semaphore permits tryAcquire 3");
    assert_int_equal(available(ours), 2);
    ASSERT_STATUS(PAWL_BUSY, pawl_semaphore_acquire(ours, 3, PAWL_TRY));
    ASSERT_OK(pawl_semaphore_acquire(ours, 2, PAWL_TRY));
    PEER_SAYS("0", java, "T1", "semaphore permits available");
    PEER_SAYS("false", java, "T1", "semaphore permits tryAcquire 1");
    ASSERT_OK(pawl_semaphore_release(ours, 2));
    PEER_SAYS("2", java, "T1", "semaphore permits drain");
    PEER_SAYS("ok", java, "T1", "semaphore permits release 5");
    PEER_SAYS("ok", java, "T1", "semaphore permits addPermits 2");
    ASSERT_OK(pawl_semaphore_add(ours, -3));
    PEER_SAYS("4", java, "T1", "semaphore permits available");
    int64_t drained = 0;
    ASSERT_OK(pawl_semaphore_drain(ours, &drained));
    assert_int_equal(drained, 4);
}

/* Java waits for permits without any limit: what it does not hear it never learns. */
static void java_hears_what_we_give_back(void **state)
{
    (void)state;
    pawl_semaphore *ours = own_semaphore("give", false, LONG_MS);
    ASSERT_OK(pawl_semaphore_set(ours, 2, NULL));
    ASSERT_OK(pawl_semaphore_acquire(ours, 2, PAWL_TRY));
    int64_t asked = scripts_run();
    unsigned waiting = peer_ask(java, "T1", "semaphore give acquire 2");
    await_waiters("redisson_sc:{give}", 1, asked);
    ASSERT_OK(pawl_semaphore_release(ours, 1));
    ASSERT_OK(pawl_semaphore_release(ours, 1));
    PEER_ANSWERS("ok", java, waiting, WOKEN_MS);
    asked = scripts_run();
    waiting = peer_ask(java, "T1", "semaphore give acquire 1");
    await_waiters("redisson_sc:{give}", 1, asked);
    ASSERT_OK(pawl_semaphore_add(ours, 1));
    PEER_ANSWERS("ok", java, waiting, WOKEN_MS);
}

static void java_hears_that_we_set_permits(void **state)
{
    (void)state;
    pawl_semaphore *ours = own_semaphore("begin", false, LONG_MS);
    const int64_t asked = scripts_run();
    const unsigned waiting = peer_ask(java, "T1", "semaphore begin acquire 1");
    await_waiters("redisson_sc:{begin}", 1, asked);
    ASSERT_OK(pawl_semaphore_set(ours, 1, NULL));
    PEER_ANSWERS("ok", java, waiting, WOKEN_MS);
}

static void we_hear_what_java_gives_back(void **state)
{
    (void)state;
    int64_t took_ms = PATIENCE_MS;
    for (int round = 0; round < 5 && took_ms >= HEARD_MS; round++) {
        char name[16];
        char channel[40];
        snprintf(name, sizeof name, "back-%d", round);
        snprintf(channel, sizeof channel, "redisson_sc:{%s}", name);
        PEER_SAYS("true", java, "T1", "semaphore %s trySetPermits 1", name);
        PEER_SAYS("true", java, "T1", "semaphore %s tryAcquire 1", name);
        pawl_semaphore *ours = own_semaphore(name, false, LONG_MS);
        const int64_t asked = scripts_run();
        struct wait *wait = start_wait(&(struct wait){.semaphore = ours, .count = 1});
        await_waiters(channel, 1, asked);
        PEER_SAYS("ok", java, "T1", "semaphore %s release 1", name);
        took_ms = join_wait(wait);
    }
    assert_true(took_ms < HEARD_MS);
}

/* ===== Permits that have a lease ===== */

static void a_leased_permit_may_be_given_back_by_the_other(void **state)
{
    (void)state;
    pawl_semaphore *ours = own_semaphore("ids", true, LONG_MS);
    ASSERT_OK(pawl_semaphore_set(ours, 2, NULL));
    pawl_permit mine;
    pawl_permit theirs;
    ASSERT_OK(pawl_permit_acquire(ours, 1, PAWL_TRY, &mine));
    const char *id = peer_call(java, "T1", "permits ids acquire 1 %d", LONG_MS);
    assert_int_equal(strlen(id), 32);
    snprintf(theirs.id, sizeof theirs.id, "%s", id);
    PEER_SAYS("null", java, "T1", "permits ids acquire 200 %d", LONG_MS);
    PEER_SAYS("0", java, "T1", "permits ids available");
    PEER_SAYS("true", java, "T1", "permits ids update %s %d", mine.id, LONG_MS);
    ASSERT_OK(pawl_permit_extend(ours, &theirs, 1, LONG_MS));
    ASSERT_OK(pawl_permit_release(ours, &theirs, 1));
    PEER_SAYS("false", java, "T1", "permits ids tryRelease %s", theirs.id);
    PEER_SAYS("true", java, "T1", "permits ids tryRelease %s", mine.id);
    ASSERT_STATUS(PAWL_LOST, pawl_permit_release(ours, &mine, 1));
    assert_int_equal(available(ours), 2);
}

static void leased_permits_wake_across(void **state)
{
    (void)state;
    pawl_semaphore *ours = own_semaphore("wake", true, LONG_MS);
    ASSERT_OK(pawl_semaphore_set(ours, 1, NULL));
    pawl_permit mine;
    ASSERT_OK(pawl_permit_acquire(ours, 1, PAWL_TRY, &mine));
    int64_t asked = scripts_run();
    const unsigned waiting = peer_ask(java, "T1", "permits wake acquire %d %d", LONG_MS, LONG_MS);
    await_waiters("redisson_sc:{wake}", 1, asked);
    ASSERT_OK(pawl_permit_release(ours, &mine, 1));
    const char *id = peer_answer(java, waiting, WOKEN_MS);
    assert_int_equal(strlen(id), 32);
    asked = scripts_run();
    struct wait *wait = start_wait(&(struct wait){.semaphore = ours, .leased = true});
    await_waiters("redisson_sc:{wake}", 1, asked);
    PEER_SAYS("ok", java, "T1", "permits wake release %s", id);
    join_wait(wait);
    ASSERT_OK(pawl_permit_release(ours, &wait->permit, 1));
}

/* What nobody gives back comes back when its lease is over; what is renewed stays out. */
static void a_leased_permit_ends_for_the_other(void **state)
{
    (void)state;
    pawl_semaphore *ours = own_semaphore("ends", true, SHORT_MS);
    ASSERT_OK(pawl_semaphore_set(ours, 1, NULL));
    assert_int_equal(strlen(peer_call(java, "T1", "permits ends acquire 1 %d", SHORT_MS)), 32);
    pawl_permit mine;
    ASSERT_STATUS(PAWL_BUSY, pawl_permit_acquire(ours, 1, PAWL_TRY, &mine));
    ASSERT_OK(pawl_permit_acquire(ours, 1, PATIENCE_MS, &mine));
    PEER_SAYS("null", java, "T1", "permits ends acquire %d 1000", SHORT_MS + SHORT_MS / 2);
    ASSERT_OK(pawl_permit_release(ours, &mine, 1));
}

/* ===== Latches ===== */

static int64_t left(pawl_latch *latch)
{
    int64_t count = -1;
    ASSERT_OK(pawl_latch_count(latch, &count));
    return count;
}

static void both_count_one_latch_down(void **state)
{
    (void)state;
    pawl_latch *ours = own_latch("latch");
    bool set = false;
    ASSERT_OK(pawl_latch_set(ours, 3, &set));
    assert_true(set);
    PEER_SAYS("false", java, "T1", "latch latch trySetCount 2");
    PEER_SAYS("ok", java, "T1", "latch latch countDown");
    assert_int_equal(left(ours), 2);
    ASSERT_OK(pawl_latch_count_down(ours));
    PEER_SAYS("1", java, "T1", "latch latch count");
    PEER_SAYS("false", java, "T1", "latch latch await 100");
    ASSERT_STATUS(PAWL_BUSY, pawl_latch_wait(ours, PAWL_TRY));
    PEER_SAYS("ok", java, "T1", "latch latch countDown");
    ASSERT_OK(pawl_latch_wait(ours, PAWL_TRY));
    assert_true(server_answers(server, "0", "EXISTS latch"));
    PEER_SAYS("true", java, "T1", "latch latch trySetCount 1");
    ASSERT_STATUS(PAWL_BUSY, pawl_latch_wait(ours, PAWL_TRY));
    ASSERT_OK(pawl_latch_count_down(ours));
    PEER_SAYS("true", java, "T1", "latch latch await 100");
}

/* Java sleeps until it is told; all of its threads are. */
static void java_hears_our_last_count(void **state)
{
    (void)state;
    pawl_latch *ours = own_latch("gate");
    ASSERT_OK(pawl_latch_set(ours, 1, NULL));
    const unsigned first = peer_ask(java, "T1", "latch gate await %d", LONG_MS);
    const unsigned second = peer_ask(java, "T2", "latch gate await %d", LONG_MS);
    await_listeners("redisson_countdownlatch__channel__{gate}", 1);
    nap_ms(100); /* Java reads the count by GET after that, which nobody can tell from ours */
    assert_true(peer_is_waiting(java, first) && peer_is_waiting(java, second));
    ASSERT_OK(pawl_latch_count_down(ours));
    PEER_ANSWERS("true", java, first, WOKEN_MS);
    PEER_ANSWERS("true", java, second, WOKEN_MS);
}

static void we_hear_javas_last_count(void **state)
{
    (void)state;
    int64_t took_ms = PATIENCE_MS;
    for (int round = 0; round < 5 && took_ms >= HEARD_MS; round++) {
        char name[16];
        char channel[64];
        snprintf(name, sizeof name, "last-%d", round);
        snprintf(channel, sizeof channel, "redisson_countdownlatch__channel__{%s}", name);
        PEER_SAYS("true", java, "T1", "latch %s trySetCount 1", name);
        struct wait *wait = start_wait(&(struct wait){.latch = own_latch(name)});
        await_listeners(channel, 1);
        nap_ms(100);
        assert_false(atomic_load(&wait->done));
        PEER_SAYS("ok", java, "T1", "latch %s countDown", name);
        took_ms = join_wait(wait);
    }
    assert_true(took_ms < HEARD_MS);
}

int run_tally_cases(void)
{
    const struct CMUnitTest tests[] = {
        INTEROP_CASE(both_count_the_same_permits),
        INTEROP_CASE(java_hears_what_we_give_back),
        INTEROP_CASE(java_hears_that_we_set_permits),
        INTEROP_CASE(we_hear_what_java_gives_back),
        INTEROP_CASE(a_leased_permit_may_be_given_back_by_the_other),
        INTEROP_CASE(leased_permits_wake_across),
        INTEROP_CASE(a_leased_permit_ends_for_the_other),
        INTEROP_CASE(both_count_one_latch_down),
        INTEROP_CASE(java_hears_our_last_count),
        INTEROP_CASE(we_hear_javas_last_count),
    };
    return cmocka_run_group_tests_name("interop: semaphore and latch", tests, NULL, NULL);
}
