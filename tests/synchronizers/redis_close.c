/* SPDX-License-Identifier: Apache-2.0 */
/* What the close of a client says that leaves something behind at a server that stands still: what
 * may be so, and no more. */
#include "support/process.h"
#include "support/server.h"
#include "synchronizers/lib/cases.h"

#include <stdlib.h>

enum { PERMITS = 3 };

enum taker { NOBODY, SEMAPHORE, LEASED, LATCH };

static struct server *server;

/* A request that the server does not answer any more. */
static void ask_in_vain(
    enum taker taker, pawl_semaphore *semaphore, pawl_semaphore *leased, pawl_latch *latch)
{
    pawl_permit permit;
    if (taker == SEMAPHORE) {
        EXPECT(PAWL_UNAVAILABLE, pawl_semaphore_acquire(semaphore, 1, PAWL_TRY));
    } else if (taker == LEASED) {
        EXPECT(PAWL_UNAVAILABLE, pawl_permit_acquire(leased, 1, PAWL_TRY, &permit));
    } else if (taker == LATCH) {
        EXPECT(PAWL_UNAVAILABLE, pawl_latch_wait(latch, PAWL_TRY));
    }
}

static void assert_close_says(enum taker taker, pawl_status expected, const char *words)
{
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "s", false);
    pawl_semaphore *leased = open_semaphore(client, "p", true);
    pawl_latch *latch = NULL;
    pawl_permit permits[PERMITS + 1];
    EXPECT_OK(pawl_latch_open(client, "l", &latch));
    EXPECT_OK(pawl_semaphore_set(semaphore, PERMITS, NULL));
    EXPECT_OK(pawl_semaphore_set(leased, PERMITS, NULL));
    EXPECT(PAWL_BUSY, pawl_semaphore_acquire(semaphore, PERMITS + 1, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_permit_acquire(leased, PERMITS + 1, PAWL_TRY, permits));
    server_pause(server);
    ask_in_vain(taker, semaphore, leased, latch);
    EXPECT(expected, pawl_client_close(client));
    if (expected != PAWL_OK) {
        assert_string_equal(pawl_last_error(), words);
    }
    server_resume(server);
    EXPECT_OK(pawl_latch_close(latch));
    EXPECT_OK(pawl_semaphore_close(leased));
    EXPECT_OK(pawl_semaphore_close(semaphore));
}

static int begin(void **state)
{
    cleanup_setup(state);
    server = server_start(NULL);
    cases_url = server_url(server);
    return 0;
}

static void who_asked_for_nothing_leaves_nothing(void **state)
{
    (void)state;
    assert_close_says(NOBODY, PAWL_OK, NULL);
    assert_close_says(LATCH, PAWL_OK, NULL); /* it only looked */
}

static void who_held_nothing_releases_nothing(void **state)
{
    (void)state;
    assert_close_says(LEASED, PAWL_UNAVAILABLE,
        "what an acquire without an answer may have got was not taken back; what has a lease ends "
        "with it");
    free(server_command(server, "FLUSHALL"));
    assert_close_says(SEMAPHORE, PAWL_UNAVAILABLE,
        "what an acquire without an answer may have got was not taken back; permits without a "
        "lease may stay taken");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            who_asked_for_nothing_leaves_nothing, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(who_held_nothing_releases_nothing, begin, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
