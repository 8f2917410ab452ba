/* SPDX-License-Identifier: Apache-2.0 */
/* Latches. */
#include "synchronizers/lib/cases.h"

#include <stdatomic.h>
#include <string.h>

static pawl_latch *open_latch(pawl_client *client, const char *name)
{
    pawl_latch *latch = NULL;
    EXPECT_OK(pawl_latch_open(client, name, &latch));
    return latch;
}

static int64_t left(pawl_latch *latch)
{
    int64_t count = -77;
    EXPECT_OK(pawl_latch_count(latch, &count));
    return count;
}

static void counts_down(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_latch *latch = open_latch(client, "latch-counts");
    bool set = false;
    assert_int_equal(left(latch), 0);
    EXPECT_OK(pawl_latch_wait(latch, PAWL_TRY)); /* nobody has set it: it is at zero */
    EXPECT_OK(pawl_latch_count_down(latch));
    assert_int_equal(left(latch), 0);
    EXPECT_OK(pawl_latch_set(latch, 2, &set));
    assert_true(set);
    EXPECT_OK(pawl_latch_set(latch, 5, &set));
    assert_false(set);
    EXPECT(PAWL_BUSY, pawl_latch_wait(latch, PAWL_TRY));
    assert_non_null(strstr(pawl_last_error(), "latch 'latch-counts'"));
    EXPECT_OK(pawl_latch_count_down(latch));
    assert_int_equal(left(latch), 1);
    EXPECT(PAWL_BUSY, pawl_latch_wait(latch, 50));
    EXPECT_OK(pawl_latch_count_down(latch));
    EXPECT_OK(pawl_latch_wait(latch, PAWL_FOREVER));
    EXPECT_OK(pawl_latch_set(latch, 1, &set)); /* again */
    assert_true(set);
    EXPECT_OK(pawl_latch_reset(latch));
    EXPECT_OK(pawl_latch_reset(latch));
    assert_int_equal(left(latch), 0);
    EXPECT_OK(pawl_latch_close(latch));
    EXPECT_OK(pawl_client_close(client));
}

/* How long it takes until all who wait, in two clients, go on; `how` brings the latch to zero. */
static int64_t wake_all(const char *name, pawl_status (*how)(pawl_latch *latch))
{
    enum { CALLERS = 12 };
    pawl_client *clients[2] = {open_client(), open_client()};
    pawl_latch *latches[2];
    struct caller callers[CALLERS];
    for (size_t i = 0; i < 2; i++) {
        latches[i] = open_latch(clients[i], name);
    }
    EXPECT_OK(pawl_latch_set(latches[0], 1, NULL));
    for (size_t i = 0; i < CALLERS; i++) {
        call_wait(&callers[i], latches[i % 2], PAWL_FOREVER);
        call_await_rest(&callers[i]);
    }
    assert_int_equal(left(latches[0]), 1); /* answered behind their questions */
    assert_int_equal(left(latches[1]), 1);
    for (size_t i = 0; i < CALLERS; i++) {
        assert_false(call_is_over(&callers[i]));
    }
    int64_t began_ms = boottime_ms();
    EXPECT_OK(how(latches[0]));
    for (size_t i = 0; i < CALLERS; i++) {
        EXPECT_OK(call_join(&callers[i]));
    }
    const int64_t took_ms = boottime_ms() - began_ms;
    for (size_t i = 0; i < 2; i++) {
        EXPECT_OK(pawl_latch_close(latches[i]));
        EXPECT_OK(pawl_client_close(clients[i]));
    }
    return took_ms;
}

/* They go on at once, by message. */
static void wakes_all(const char *name, pawl_status (*how)(pawl_latch *latch))
{
    int64_t took_ms = INT64_MAX;
    for (int i = 0; i < 4 && took_ms >= LOOK_MS; i++) { /* the machine may be busy */
        took_ms = wake_all(name, how);
    }
    assert_true(took_ms < LOOK_MS);
}

static void zero_wakes_all(void **state)
{
    (void)state;
    wakes_all("latch-zero", pawl_latch_count_down);
}

static void reset_wakes_all(void **state)
{
    (void)state;
    wakes_all("latch-reset", pawl_latch_reset);
}

static void cancels(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_latch *latch = open_latch(client, "latch-cancels");
    struct caller caller;
    EXPECT_OK(pawl_latch_set(latch, 1, NULL));
    call_wait(&caller, latch, PAWL_FOREVER);
    call_await_rest(&caller);
    WAIT_UNTIL((pawl_latch_cancel(latch), call_is_over(&caller)), SOON_MS);
    EXPECT(PAWL_CANCELED, call_join(&caller));
    EXPECT_OK(pawl_latch_close(latch));
    EXPECT_OK(pawl_client_close(client));
}

static void tell(pawl_latch *latch, pawl_status status, void *arg)
{
    assert_non_null(latch);
    atomic_store((_Atomic int *)arg, (int)status);
}

static void asynchronously(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_latch *latch = open_latch(client, "latch-async");
    _Atomic int told = -1;
    EXPECT_OK(pawl_latch_set(latch, 1, NULL));
    EXPECT_OK(pawl_latch_wait_async(latch, PAWL_FOREVER, tell, &told));
    assert_int_equal(left(latch), 1); /* answered behind it */
    assert_int_equal(atomic_load(&told), -1);
    EXPECT_OK(pawl_latch_count_down(latch));
    WAIT_UNTIL(atomic_load(&told) == PAWL_OK, SOON_MS);
    EXPECT_OK(pawl_latch_close(latch));
    EXPECT_OK(pawl_client_close(client));
}

static void refuses_nonsense(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_latch *latch = open_latch(client, "latch-nonsense");
    pawl_semaphore *semaphore = NULL;
    EXPECT(PAWL_INVALID, pawl_latch_set(latch, 0, NULL));
    EXPECT(PAWL_INVALID, pawl_latch_set(latch, INT64_C(2147483648), NULL));
    EXPECT(PAWL_INVALID, pawl_latch_wait(latch, -2));
    EXPECT(PAWL_INVALID, pawl_latch_wait(NULL, PAWL_TRY));
    EXPECT(PAWL_INVALID, pawl_latch_count(latch, NULL));
    EXPECT(PAWL_INVALID, pawl_semaphore_open(client, "latch-nonsense", NULL, &semaphore));
    EXPECT_OK(pawl_client_close(client));
    EXPECT(PAWL_MISUSE, pawl_latch_count_down(latch));
    EXPECT_OK(pawl_latch_close(latch));
}

const struct CMUnitTest latch_cases[] = {
    cmocka_unit_test(counts_down),
    cmocka_unit_test(zero_wakes_all),
    cmocka_unit_test(reset_wakes_all),
    cmocka_unit_test(cancels),
    cmocka_unit_test(asynchronously),
    cmocka_unit_test(refuses_nonsense),
};
const size_t latch_case_count = sizeof latch_cases / sizeof latch_cases[0];
