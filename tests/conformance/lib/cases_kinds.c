/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine may have, flag by flag: it works, or it is refused in so many words. */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"

#include "support/text.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE 8

/* One at a time, as a mutex. */
static void check_excludes(const struct suite *suite, const pawl_lock_options *options)
{
    pawl_lock *one = open_lock(open_client(suite), suite->name, options);
    pawl_lock *two = open_lock(open_client(suite), suite->name, options);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(one, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(two, PAWL_TRY));
    actor_acquire(actor, two, PAWL_FOREVER);
    actor_await_sleep(actor);
    EXPECT(PAWL_OK, pawl_lock_release(one));
    EXPECT(PAWL_OK, actor_answer(actor));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(one, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(two));
}

/* ===== Kinds ===== */

/* Clients get it in the order in which they came. */
static void fair_clients_come_first_served(const struct suite *suite)
{
    const pawl_lock_options options = kinded(handle_options(), PAWL_FAIR);
    pawl_lock *holder = open_lock(open_client(suite), suite->name, &options);
    pawl_lock *locks[4];
    struct actor *actors[4];
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    for (size_t i = 0; i < 4; i++) {
        locks[i] = open_lock(open_client(suite), suite->name, &options);
        actors[i] = actor_new();
        actor_acquire(actors[i], locks[i], PAWL_FOREVER);
        actor_await_sleep(actors[i]);
    }
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    for (size_t i = 0; i < 4; i++) {
        EXPECT(PAWL_OK, actor_answer(actors[i]));
        EXPECT(PAWL_OK, pawl_lock_release(locks[i]));
    }
}

static void fair_is_refused(const struct suite *suite)
{
    expect_kind_refused(suite, PAWL_FAIR);
}

static void readers_share_and_writers_do_not(const struct suite *suite)
{
    const pawl_lock_options reading = kinded(handle_options(), PAWL_READ);
    const pawl_lock_options writing = kinded(handle_options(), PAWL_WRITE);
    pawl_lock *reader = open_lock(open_client(suite), suite->name, &reading);
    pawl_lock *second = open_lock(open_client(suite), suite->name, &reading);
    pawl_lock *writer = open_lock(open_client(suite), suite->name, &writing);
    EXPECT(PAWL_OK, pawl_lock_acquire(reader, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_acquire(second, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(writer, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(reader));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(writer, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(second));
    EXPECT(PAWL_OK, pawl_lock_acquire(writer, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_lock_acquire(reader, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_lock_release(writer));
}

static void read_and_write_are_refused(const struct suite *suite)
{
    expect_kind_refused(suite, PAWL_READ);
    expect_kind_refused(suite, PAWL_WRITE);
}

static void spin_excludes(const struct suite *suite)
{
    const pawl_lock_options options = kinded(handle_options(), PAWL_SPIN);
    check_excludes(suite, &options);
}

static void spin_is_refused(const struct suite *suite)
{
    expect_kind_refused(suite, PAWL_SPIN);
}

static void plain_excludes(const struct suite *suite)
{
    const pawl_lock_options options = kinded(handle_options(), PAWL_PLAIN);
    check_excludes(suite, &options);
}

static void plain_is_refused(const struct suite *suite)
{
    expect_kind_refused(suite, PAWL_PLAIN);
}

static void handoff_excludes(const struct suite *suite)
{
    pawl_lock_options options = handle_options();
    options.handoff = 4;
    check_excludes(suite, &options);
}

static void handoff_is_refused(const struct suite *suite)
{
    pawl_lock_options options = thread_options();
    options.handoff = 4;
    expect_refused(suite, &options);
    options.handoff = (unsigned)-1;
    expect_refused(suite, &options);
}

/* ===== How a release is carried out ===== */

struct trier {
    pawl_lock *lock;
    _Atomic bool enough;
    _Atomic unsigned tries;
    _Atomic unsigned got;
};

/* Try without a pause; whoever only tries does not count as waiting. */
static pawl_status keep_trying(void *arg)
{
    struct trier *trier = arg;
    pawl_status status = PAWL_BUSY;
    while (!atomic_load(&trier->enough) && (status == PAWL_BUSY || status == PAWL_OK)) {
        status = pawl_lock_acquire(trier->lock, PAWL_TRY);
        atomic_fetch_add(&trier->tries, 1);
        if (status == PAWL_OK) {
            atomic_fetch_add(&trier->got, 1);
            status = pawl_lock_release(trier->lock);
        }
    }
    return status;
}

/* Let the lock go through a queue of one client, while another client tries to get in between. */
static unsigned watch_queue(const struct suite *suite)
{
    static struct trier trier;
    pawl_lock *lock = open_thread_lock(open_client(suite), suite->name);
    atomic_store(&trier.enough, false);
    atomic_store(&trier.tries, 0);
    atomic_store(&trier.got, 0);
    trier.lock = open_thread_lock(open_client(suite), suite->name);
    struct actor *actors[QUEUE];
    struct actor *stranger = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    for (size_t i = 0; i < QUEUE; i++) {
        actors[i] = actor_new();
        actor_acquire(actors[i], lock, PAWL_FOREVER);
        actor_await_sleep(actors[i]);
    }
    actor_call(stranger, keep_trying, &trier);
    stop_at_end(&trier.enough);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    for (size_t i = 0; i < QUEUE; i++) {
        EXPECT(PAWL_OK, actor_answer(actors[i]));
        const unsigned tries = atomic_load(&trier.tries);
        WAIT_UNTIL(atomic_load(&trier.tries) > tries, SOON_MS);
        if (i + 1 < QUEUE) {
            EXPECT(PAWL_OK, actor_release_now(actors[i], lock));
        }
    }
    const unsigned got = atomic_load(&trier.got);
    EXPECT(PAWL_OK, actor_release_now(actors[QUEUE - 1], lock));
    WAIT_UNTIL(atomic_load(&trier.got) > got, SOON_MS); /* it does get what is free */
    atomic_store(&trier.enough, true);
    actor_answer(stranger);
    return got;
}

static void a_lock_that_is_passed_on_is_never_free(const struct suite *suite)
{
    assert_int_equal(watch_queue(suite), 0);
}

static void a_lock_is_free_between_two_of_a_queue(const struct suite *suite)
{
    watch_queue(suite); /* everybody got it; who got in between is nobody's promise */
}

/* The median of some wake-ups; a backend that is only looked at now and then takes much longer. */
static void a_release_wakes_at_once(const struct suite *suite)
{
    pawl_lock *holder = open_handle_lock(open_client(suite), suite->name);
    pawl_lock *rival = open_handle_lock(open_client(suite), suite->name);
    struct actor *actor = actor_new();
    unsigned late = 0;
    for (int i = 0; i < 9; i++) {
        EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
        actor_acquire(actor, rival, PAWL_FOREVER);
        actor_await_sleep(actor);
        const int64_t released_us = boottime_us();
        EXPECT(PAWL_OK, pawl_lock_release(holder));
        EXPECT(PAWL_OK, actor_answer(actor));
        const int64_t late_us = actor_ended_us(actor) - released_us;
        suite_late("wake-up", late_us);
        late += late_us > INT64_C(50000) * SUITE_SCALE ? 1 : 0;
        EXPECT(PAWL_OK, pawl_lock_release(rival));
    }
    assert_true(late < 5);
}

static void a_release_is_noticed_in_the_end(const struct suite *suite)
{
    pawl_lock *holder = open_handle_lock(open_client(suite), suite->name);
    pawl_lock *rival = open_handle_lock(open_client(suite), suite->name);
    struct actor *actor = actor_new();
    EXPECT(PAWL_OK, pawl_lock_acquire(holder, PAWL_TRY));
    actor_acquire(actor, rival, PAWL_FOREVER);
    actor_await_sleep(actor);
    EXPECT(PAWL_OK, pawl_lock_release(holder));
    EXPECT(PAWL_OK, actor_answer(actor));
}

/* ===== Semaphores and latches; tests/synchronizers has much more about them ===== */

static void semaphore_counts(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_semaphore *semaphore = NULL;
    EXPECT(PAWL_OK, pawl_semaphore_open(client, suite->name, NULL, &semaphore));
    EXPECT(PAWL_OK, pawl_semaphore_set(semaphore, 2, NULL));
    EXPECT(PAWL_OK, pawl_semaphore_acquire(semaphore, 2, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_semaphore_acquire(semaphore, 1, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_semaphore_release(semaphore, 1));
    EXPECT(PAWL_OK, pawl_semaphore_acquire(semaphore, 1, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_semaphore_close(semaphore));
}

static void semaphore_is_refused(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_semaphore *semaphore = NULL;
    EXPECT(PAWL_UNSUPPORTED, pawl_semaphore_open(client, suite->name, NULL, &semaphore));
    assert_null(semaphore);
    assert_non_null(strstr(pawl_last_error(), "a semaphore"));
}

static void latch_opens(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_latch *latch = NULL;
    EXPECT(PAWL_OK, pawl_latch_open(client, suite->name, &latch));
    EXPECT(PAWL_OK, pawl_latch_set(latch, 1, NULL));
    EXPECT(PAWL_BUSY, pawl_latch_wait(latch, PAWL_TRY));
    EXPECT(PAWL_OK, pawl_latch_count_down(latch));
    EXPECT(PAWL_OK, pawl_latch_wait(latch, PAWL_FOREVER));
    EXPECT(PAWL_OK, pawl_latch_close(latch));
}

static void latch_is_refused(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_latch *latch = NULL;
    EXPECT(PAWL_UNSUPPORTED, pawl_latch_open(client, suite->name, &latch));
    assert_null(latch);
    assert_non_null(strstr(pawl_last_error(), "a latch"));
}

/* ===== What pawl.h has no call for =====
 *
 * There is nothing to ask an engine for yet. When the header gets the calls these cases fail, and
 * real ones belong here. */

static bool header_has(const char *word)
{
    FILE *file = fopen(PAWL_TEST_SOURCE_DIR "/../include/pawl.h", "re");
    assert_non_null(file);
    struct text header = {0};
    char chunk[4096];
    size_t size = 0;
    while ((size = fread(chunk, 1, sizeof chunk, file)) > 0) {
        text_add(&header, chunk, size);
    }
    fclose(file);
    const bool real = bytes_contain(header.data, header.size, "pawl_lock_open");
    const bool found = bytes_contain(header.data, header.size, word);
    text_free(&header);
    assert_true(real);
    return found;
}

static void no_case_yet(const struct suite *suite)
{
    fail_msg("the %s engine has a flag that nothing here tests", suite->engine->name);
}

/* Neither an option nor a parameter of the URL; one that is asked for all the same is refused, not
 * ignored. */
static void there_is_no_acknowledgement(const struct suite *suite)
{
    struct text url = {0};
    pawl_client *client = NULL;
    text_addf(&url, "%s?replicas=1", suite->url);
    const pawl_status status = pawl_client_open(url.data, NULL, &client);
    text_free(&url);
    EXPECT(PAWL_INVALID, status);
    assert_false(header_has("replicas"));
}

static const struct suite_case cases[] = {
    SUITE_EITHER(
        FLAG_PASS, a_lock_that_is_passed_on_is_never_free, a_lock_is_free_between_two_of_a_queue),
    SUITE_EITHER(FLAG_PUSH, a_release_wakes_at_once, a_release_is_noticed_in_the_end),
    SUITE_EITHER(FLAG_FAIR, fair_clients_come_first_served, fair_is_refused),
    SUITE_EITHER(FLAG_READ_WRITE, readers_share_and_writers_do_not, read_and_write_are_refused),
    SUITE_EITHER(FLAG_SPIN, spin_excludes, spin_is_refused),
    SUITE_EITHER(FLAG_PLAIN, plain_excludes, plain_is_refused),
    SUITE_EITHER(FLAG_HANDOFF, handoff_excludes, handoff_is_refused),
    SUITE_EITHER(FLAG_SEMAPHORE, semaphore_counts, semaphore_is_refused),
    SUITE_EITHER(FLAG_LATCH, latch_opens, latch_is_refused),
    SUITE_EITHER(FLAG_REPLICAS, no_case_yet, there_is_no_acknowledgement),
};

SUITE_GROUP(suite_kinds, cases);
