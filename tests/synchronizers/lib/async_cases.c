/* SPDX-License-Identifier: Apache-2.0 */
/* Giving back and counting down without waiting: outside of callbacks, inside of them, in the
 * program's own event loop, and when the handle or the client is closed meanwhile. */
#include "synchronizers/lib/cases.h"

#include <poll.h>
#include <stdatomic.h>
#include <string.h>

/* What `done` was told, and how often. */
struct told {
    _Atomic int count;
    _Atomic int status;
    char error[200];
};

static void note(struct told *told, pawl_status status)
{
    snprintf(told->error, sizeof told->error, "%s", pawl_last_error());
    atomic_store(&told->status, (int)status);
    atomic_fetch_add(&told->count, 1);
}

static void tell(pawl_semaphore *semaphore, pawl_status status, void *arg)
{
    assert_non_null(semaphore);
    note(arg, status);
}

static void tell_latch(pawl_latch *latch, pawl_status status, void *arg)
{
    assert_non_null(latch);
    note(arg, status);
}

/* It is told so, and only once so far. */
static void await(struct told *told, int count, pawl_status status)
{
    WAIT_UNTIL(atomic_load(&told->count) >= count, SOON_MS);
    assert_int_equal(atomic_load(&told->count), count);
    assert_int_equal(atomic_load(&told->status), status);
}

static pawl_latch *open_latch(pawl_client *client, const char *name, int64_t count)
{
    pawl_latch *latch = NULL;
    EXPECT_OK(pawl_latch_open(client, name, &latch));
    EXPECT_OK(pawl_latch_set(latch, count, NULL));
    return latch;
}

static int64_t left(pawl_latch *latch)
{
    int64_t count = -77;
    EXPECT_OK(pawl_latch_count(latch, &count));
    return count;
}

/* ===== One by one ===== */

static void a_semaphore_gets_its_permits_back(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "async-back", false);
    struct told told = {0};
    struct caller caller;
    EXPECT_OK(pawl_semaphore_set(semaphore, 3, NULL));
    EXPECT_OK(pawl_semaphore_acquire(semaphore, 3, PAWL_TRY));
    EXPECT_OK(pawl_semaphore_release_async(semaphore, 2, tell, &told));
    await(&told, 1, PAWL_OK);
    assert_int_equal(available(semaphore), 2);
    call_acquire(&caller, semaphore, 3, PAWL_FOREVER);
    call_await_rest(&caller);
    EXPECT_OK(pawl_semaphore_release_async(semaphore, 1, tell, &told));
    EXPECT_OK(call_join(&caller)); /* who waits is woken */
    await(&told, 2, PAWL_OK);
    assert_int_equal(available(semaphore), 0);
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

static void a_latch_is_counted_down(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_latch *latch = open_latch(client, "async-down", 2);
    struct told told = {0};
    struct caller caller;
    EXPECT_OK(pawl_latch_count_down_async(latch, tell_latch, &told));
    await(&told, 1, PAWL_OK);
    assert_int_equal(left(latch), 1);
    call_wait(&caller, latch, PAWL_FOREVER);
    call_await_rest(&caller);
    EXPECT_OK(pawl_latch_count_down_async(latch, tell_latch, &told));
    EXPECT_OK(call_join(&caller));
    await(&told, 2, PAWL_OK);
    EXPECT_OK(pawl_latch_count_down_async(latch, tell_latch, &told)); /* does nothing */
    await(&told, 3, PAWL_OK);
    assert_int_equal(left(latch), 0);
    EXPECT_OK(pawl_latch_close(latch));
    EXPECT_OK(pawl_client_close(client));
}

static void count_lost(pawl_semaphore *semaphore, pawl_status status, const pawl_permit *permits,
    size_t count, void *arg)
{
    (void)semaphore;
    (void)status;
    (void)permits;
    atomic_fetch_add((_Atomic int *)arg, (int)count);
}

static pawl_semaphore *open_leased(
    pawl_client *client, const char *name, int64_t lease_ms, _Atomic int *lost)
{
    pawl_semaphore_options options = PAWL_SEMAPHORE_OPTIONS_INIT;
    pawl_semaphore *semaphore = NULL;
    options.leased = true;
    options.lease_ms = lease_ms;
    options.on_lost = count_lost;
    options.event_arg = lost;
    EXPECT_OK(pawl_semaphore_open(client, name, &options, &semaphore));
    return semaphore;
}

/* Has more time left than when it was last looked at? */
static bool is_renewed(pawl_semaphore *semaphore, const pawl_permit *permit, int64_t *left_ms)
{
    const int64_t before_ms = *left_ms;
    *left_ms = pawl_permit_remaining_ms(semaphore, permit);
    return *left_ms > before_ms;
}

/* They are renewed until then, given back at once, and never called lost. */
static void permits_are_given_back(void **state)
{
    (void)state;
    enum { MANY = PAWL_PERMITS_MAX };
    static pawl_permit permits[MANY];
    _Atomic int lost = 0;
    struct told told = {0};
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_leased(client, "async-permits", 900, &lost);
    EXPECT_OK(pawl_semaphore_set(semaphore, MANY, NULL));
    EXPECT_OK(pawl_permit_acquire(semaphore, MANY, PAWL_TRY, permits));
    int64_t left_ms = pawl_permit_remaining_ms(semaphore, &permits[MANY - 1]);
    for (int i = 0; i < MANY; i += 100) {
        if (i % 500 == 0) { /* the first and the sixth are given back while all are being renewed */
            WAIT_UNTIL(is_renewed(semaphore, &permits[MANY - 1], &left_ms), SOON_MS);
        }
        EXPECT_OK(pawl_permit_release_async(semaphore, permits + i, 100, tell, &told));
        assert_int_equal(pawl_permit_remaining_ms(semaphore, &permits[i]), 0);
        await(&told, i / 100 + 1, PAWL_OK);
    }
    assert_int_equal(available(semaphore), MANY);
    EXPECT_OK(pawl_permit_release_async(semaphore, permits, 2, tell, &told));
    await(&told, MANY / 100 + 1, PAWL_LOST); /* they were released before */
    assert_non_null(strstr(told.error, "2 of 2 permits were not out"));
    assert_int_equal(available(semaphore), MANY);
    assert_int_equal(atomic_load(&lost), 0);
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

/* ===== Inside of callbacks ===== */

/* A caller that lives in callbacks alone: takes, gives back, and so on; then it counts down. */
struct chain {
    pawl_semaphore *plain;
    pawl_semaphore *leased;
    pawl_latch *latch;
    int rounds;
    pthread_t thread; /* that its last callback ran on */
    _Atomic int failed;
    _Atomic bool ended;
};

static void chain_begin(struct chain *chain);

static void check_chain(struct chain *chain, pawl_status status)
{
    if (status != PAWL_OK) {
        atomic_store(&chain->failed, (int)status);
    }
}

static void chain_ended(pawl_latch *latch, pawl_status status, void *arg)
{
    struct chain *chain = arg;
    assert_ptr_equal(latch, chain->latch);
    check_chain(chain, status);
    chain->thread = pthread_self();
    atomic_store(&chain->ended, true);
}

static void chain_gave(pawl_semaphore *semaphore, pawl_status status, void *arg)
{
    struct chain *chain = arg;
    assert_ptr_equal(semaphore, chain->leased);
    check_chain(chain, status);
    if (--chain->rounds > 0) {
        chain_begin(chain);
    } else {
        EXPECT(PAWL_MISUSE, pawl_latch_count_down(chain->latch));
        EXPECT_OK(pawl_latch_count_down_async(chain->latch, chain_ended, chain));
    }
}

static void chain_has_permits(pawl_semaphore *semaphore, pawl_status status,
    const pawl_permit *permits, size_t count, void *arg)
{
    check_chain(arg, status);
    EXPECT(PAWL_MISUSE, pawl_permit_release(semaphore, permits, count));
    EXPECT_OK(pawl_permit_release_async(semaphore, permits, count, chain_gave, arg));
}

static void chain_gave_plain(pawl_semaphore *semaphore, pawl_status status, void *arg)
{
    struct chain *chain = arg;
    assert_ptr_equal(semaphore, chain->plain);
    check_chain(chain, status);
    EXPECT_OK(pawl_permit_acquire_async(chain->leased, 3, SOON_MS, chain_has_permits, chain));
}

static void chain_has_plain(pawl_semaphore *semaphore, pawl_status status, void *arg)
{
    check_chain(arg, status);
    EXPECT(PAWL_MISUSE, pawl_semaphore_release(semaphore, 2));
    EXPECT_OK(pawl_semaphore_release_async(semaphore, 2, chain_gave_plain, arg));
}

static void chain_begin(struct chain *chain)
{
    EXPECT_OK(pawl_semaphore_acquire_async(chain->plain, 2, SOON_MS, chain_has_plain, chain));
}

/* One turn of the program's own loop. */
static void turn_loop(pawl_client *client)
{
    struct pollfd item = {.fd = pawl_client_fd(client), .events = POLLIN};
    if (poll(&item, 1, 10) == 1) {
        EXPECT_OK(pawl_client_dispatch(client));
    }
}

/* Three of them; what there is does not suffice for two at a time. */
static void run_chains(pawl_client *client, void (*let_run)(pawl_client *client))
{
    enum { CHAINS = 3, ROUNDS = 20 };
    struct chain chains[CHAINS];
    _Atomic int lost = 0;
    pawl_semaphore *plain = open_semaphore(client, "async-chain", false);
    pawl_semaphore *leased = open_leased(client, "async-chain-leased", 3000, &lost);
    pawl_latch *latch = open_latch(client, "async-chain-latch", CHAINS);
    EXPECT_OK(pawl_semaphore_set(plain, 3, NULL));
    EXPECT_OK(pawl_semaphore_set(leased, 5, NULL));
    for (size_t i = 0; i < CHAINS; i++) {
        chains[i] =
            (struct chain){.plain = plain, .leased = leased, .latch = latch, .rounds = ROUNDS};
        chain_begin(&chains[i]);
    }
    for (size_t i = 0; i < CHAINS; i++) {
        WAIT_UNTIL((let_run(client), atomic_load(&chains[i].ended)), SOON_MS);
        assert_int_equal(
            pthread_equal(chains[i].thread, pthread_self()) != 0, let_run == turn_loop);
        assert_int_equal(chains[i].rounds, 0);
        assert_int_equal(atomic_load(&chains[i].failed), 0);
    }
    EXPECT_OK(pawl_latch_wait(latch, PAWL_TRY));
    assert_int_equal(available(plain), 3);
    assert_int_equal(available(leased), 5);
    assert_int_equal(atomic_load(&lost), 0);
    EXPECT_OK(pawl_latch_close(latch));
    EXPECT_OK(pawl_semaphore_close(leased));
    EXPECT_OK(pawl_semaphore_close(plain));
}

static void nothing(pawl_client *client)
{
    (void)client;
}

static void inside_of_callbacks(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    run_chains(client, nothing);
    EXPECT_OK(pawl_client_close(client));
}

static pawl_client *open_dispatch_client(void)
{
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    pawl_client *client = NULL;
    options.dispatch = true;
    EXPECT_OK(pawl_client_open(cases_url, &options, &client));
    return client;
}

static void in_an_event_loop(void **state)
{
    (void)state;
    pawl_client *client = open_dispatch_client();
    run_chains(client, turn_loop);
    EXPECT_OK(pawl_client_close(client));
}

/* ===== Closing meanwhile ===== */

enum { CALLS = 50 };

/* As many calls as that on each of these are under way. */
static void start_all(pawl_semaphore *plain, pawl_semaphore *leased, const pawl_permit *permits,
    pawl_latch *latch, struct told told[3])
{
    for (int i = 0; i < CALLS; i++) {
        EXPECT_OK(pawl_semaphore_release_async(plain, 1, tell, &told[0]));
        EXPECT_OK(pawl_permit_release_async(leased, permits + i, 1, tell, &told[1]));
        EXPECT_OK(pawl_latch_count_down_async(latch, tell_latch, &told[2]));
    }
}

static void close_with_calls_under_way(const char *name, bool client_first)
{
    static pawl_permit permits[CALLS];
    struct told told[3] = {0};
    _Atomic int lost = 0;
    char names[3][40];
    for (int i = 0; i < 3; i++) {
        snprintf(names[i], sizeof names[i], "%s-%d", name, i);
    }
    pawl_client *client = open_client();
    pawl_client *other = open_client();
    pawl_semaphore *plain = open_semaphore(client, names[0], false);
    pawl_semaphore *leased = open_leased(client, names[1], 30000, &lost);
    pawl_latch *latch = open_latch(client, names[2], CALLS + 1);
    EXPECT_OK(pawl_semaphore_set(plain, 0, NULL));
    EXPECT_OK(pawl_semaphore_set(leased, CALLS, NULL));
    EXPECT_OK(pawl_permit_acquire(leased, CALLS, PAWL_TRY, permits));
    start_all(plain, leased, permits, latch, told);
    if (client_first) {
        EXPECT_OK(pawl_client_close(client));
    }
    EXPECT_OK(pawl_semaphore_close(plain));
    EXPECT_OK(pawl_semaphore_close(leased));
    EXPECT_OK(pawl_latch_close(latch));
    for (int i = 0; i < 3 && !client_first; i++) {
        WAIT_UNTIL(atomic_load(&told[i].count) == CALLS, SOON_MS);
    }
    if (!client_first) {
        EXPECT_OK(pawl_client_close(client));
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(atomic_load(&told[i].count), CALLS);
        assert_int_equal(atomic_load(&told[i].status), PAWL_OK);
    }
    plain = open_semaphore(other, names[0], false);
    leased = open_leased(other, names[1], 30000, &lost);
    EXPECT_OK(pawl_latch_open(other, names[2], &latch));
    assert_int_equal(available(plain), CALLS);
    assert_int_equal(available(leased), CALLS);
    assert_int_equal(left(latch), 1);
    assert_int_equal(atomic_load(&lost), 0);
    EXPECT_OK(pawl_latch_close(latch));
    EXPECT_OK(pawl_semaphore_close(leased));
    EXPECT_OK(pawl_semaphore_close(plain));
    EXPECT_OK(pawl_client_close(other));
}

static void the_handles_are_closed_meanwhile(void **state)
{
    (void)state;
    close_with_calls_under_way("async-close", false);
}

static void the_client_is_closed_meanwhile(void **state)
{
    (void)state;
    close_with_calls_under_way("async-client-close", true);
}

/* Inside of the last `done` of a handle that was closed meanwhile. */
struct afterlife {
    int calls;
    pawl_status statuses[2];
};

static void use_closed(pawl_semaphore *semaphore, pawl_status status, void *arg)
{
    struct afterlife *afterlife = arg;
    assert_int_equal(status, PAWL_OK);
    afterlife->calls++;
    afterlife->statuses[0] = pawl_semaphore_release_async(semaphore, 1, use_closed, arg);
}

static void use_closed_latch(pawl_latch *latch, pawl_status status, void *arg)
{
    struct afterlife *afterlife = arg;
    assert_int_equal(status, PAWL_OK);
    afterlife->calls++;
    afterlife->statuses[1] = pawl_latch_count_down_async(latch, use_closed_latch, arg);
}

static void a_closed_handle_in_its_last_callback(void **state)
{
    (void)state;
    struct afterlife afterlife = {0};
    pawl_client *client = open_dispatch_client();
    pawl_semaphore *semaphore = open_semaphore(client, "async-afterlife", false);
    pawl_latch *latch = open_latch(client, "async-afterlife-latch", 2);
    EXPECT_OK(pawl_semaphore_set(semaphore, 0, NULL));
    EXPECT_OK(pawl_semaphore_release_async(semaphore, 1, use_closed, &afterlife));
    EXPECT_OK(pawl_latch_count_down_async(latch, use_closed_latch, &afterlife));
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_latch_close(latch));
    WAIT_UNTIL((turn_loop(client), afterlife.calls == 2), SOON_MS);
    assert_int_equal(afterlife.statuses[0], PAWL_MISUSE);
    assert_int_equal(afterlife.statuses[1], PAWL_MISUSE);
    EXPECT_OK(pawl_client_close(client));
    assert_int_equal(afterlife.calls, 2);
}

/* ===== Mistakes ===== */

static void refuses_nonsense(void **state)
{
    (void)state;
    _Atomic int lost = 0;
    struct told told = {0};
    pawl_permit permit = {"not an id"};
    pawl_client *client = open_client();
    pawl_semaphore *plain = open_semaphore(client, "async-nonsense", false);
    pawl_semaphore *leased = open_leased(client, "async-nonsense-leased", 30000, &lost);
    pawl_latch *latch = open_latch(client, "async-nonsense-latch", 1);
    EXPECT(PAWL_INVALID, pawl_semaphore_release_async(NULL, 1, tell, &told));
    EXPECT(PAWL_INVALID, pawl_semaphore_release_async(plain, 1, NULL, &told));
    EXPECT(PAWL_INVALID, pawl_semaphore_release_async(plain, 0, tell, &told));
    EXPECT(PAWL_INVALID, pawl_semaphore_release_async(plain, INT64_MAX, tell, &told));
    EXPECT(PAWL_INVALID, pawl_semaphore_release_async(leased, 1, tell, &told));
    assert_non_null(strstr(pawl_last_error(), "pawl_permit_"));
    EXPECT(PAWL_INVALID, pawl_permit_release_async(NULL, &permit, 1, tell, &told));
    EXPECT(PAWL_INVALID, pawl_permit_release_async(plain, &permit, 1, tell, &told));
    EXPECT(PAWL_INVALID, pawl_permit_release_async(leased, &permit, 1, tell, &told));
    EXPECT(PAWL_INVALID, pawl_permit_release_async(leased, NULL, 1, tell, &told));
    memset(permit.id, 'a', 32);
    EXPECT(PAWL_INVALID, pawl_permit_release_async(leased, &permit, 1, NULL, &told));
    EXPECT(PAWL_INVALID, pawl_permit_release_async(leased, &permit, 0, tell, &told));
    EXPECT(PAWL_INVALID,
        pawl_permit_release_async(leased, &permit, PAWL_PERMITS_MAX + 1, tell, &told));
    EXPECT(PAWL_INVALID, pawl_latch_count_down_async(NULL, tell_latch, &told));
    EXPECT(PAWL_INVALID, pawl_latch_count_down_async(latch, NULL, &told));
    EXPECT_OK(pawl_client_close(client));
    EXPECT(PAWL_MISUSE, pawl_semaphore_release_async(plain, 1, tell, &told));
    EXPECT(PAWL_MISUSE, pawl_permit_release_async(leased, &permit, 1, tell, &told));
    EXPECT(PAWL_MISUSE, pawl_latch_count_down_async(latch, tell_latch, &told));
    assert_int_equal(atomic_load(&told.count), 0);
    EXPECT_OK(pawl_latch_close(latch));
    EXPECT_OK(pawl_semaphore_close(leased));
    EXPECT_OK(pawl_semaphore_close(plain));
}

const struct CMUnitTest async_cases[] = {
    cmocka_unit_test(a_semaphore_gets_its_permits_back),
    cmocka_unit_test(a_latch_is_counted_down),
    cmocka_unit_test(permits_are_given_back),
    cmocka_unit_test(inside_of_callbacks),
    cmocka_unit_test(in_an_event_loop),
    cmocka_unit_test(the_handles_are_closed_meanwhile),
    cmocka_unit_test(the_client_is_closed_meanwhile),
    cmocka_unit_test(a_closed_handle_in_its_last_callback),
    cmocka_unit_test(refuses_nonsense),
};
const size_t async_case_count = sizeof async_cases / sizeof async_cases[0];
