/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-locks whose members one server gives with one script, when something goes wrong: it is told
 * of the member that it is about, or of the server, and leaves nothing of the others. */
#include "fault/lib/sets.h"

static void expect_refusal(pawl_lock *multi, const char *member, const char *sentence)
{
    const pawl_status status = pawl_lock_acquire(multi, BOUND_MS);
    assert_int_equal(status, PAWL_REFUSED);
    assert_non_null(strstr(pawl_last_error(), member));
    assert_non_null(strstr(pawl_last_error(), sentence));
}

/* The sentence is that of a single lock. */
static void keys_of_another_type(void **state)
{
    (void)state;
    pawl_lock *members[FEW];
    pawl_lock *multi = open_set(open_client(0), FEW, members);
    free(server_command(servers[0], "SET m002 something"));
    ASSERT_STATUS(PAWL_REFUSED, pawl_lock_acquire(members[2], BOUND_MS));
    char alone[512];
    snprintf(alone, sizeof alone, "%s", pawl_last_error());
    expect_refusal(multi, "member 2 of 4", alone);
    assert_int_equal(held_count(0), 1);
    free(server_command(servers[0], "DEL m002"));

    free(server_command(servers[0], "DEL redisson_lock_token:{m001}"));
    free(server_command(servers[0], "RPUSH redisson_lock_token:{m001} something"));
    expect_refusal(multi, "member 3 of 4", "redisson_lock_token:{m001}");
    assert_int_equal(held_count(0), 0);
    free(server_command(servers[0], "DEL redisson_lock_token:{m001}"));
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(multi));
}

static void server_without_memory(void **state)
{
    (void)state;
    pawl_lock *members[FEW];
    pawl_lock *multi = open_set(open_client(0), FEW, members);
    warm_up(multi);
    free(server_command(servers[0], "CONFIG SET maxmemory 1"));
    const pawl_status status = pawl_lock_acquire(multi, PAWL_TRY);
    assert_true(status != PAWL_OK && status != PAWL_BUSY);
    assert_non_null(strstr(pawl_last_error(), "OOM"));
    free(server_command(servers[0], "CONFIG SET maxmemory 0"));
    assert_int_equal(held_count(0), 0);
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(multi));
}

/* The answer is lost on its way. Asked again it is the same question: nothing is counted twice. Or
 * it is not asked again, and everything is taken back. */
static void lost_answer(void **state)
{
    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        struct proxy *proxy = proxy_start_for(servers[0]);
        pawl_client *client = open_at(proxy_url(proxy), TIMEOUT_MS);
        pawl_lock *members[FEW];
        pawl_lock *multi = open_set(client, FEW, members);
        warm_up(multi);
        proxy_cut_reply_of(proxy, "EVALSHA", 1, PROXY_RST);
        const pawl_status status = pawl_lock_acquire(multi, waits == 0 ? PAWL_TRY : BOUND_MS);
        if (waits == 1) {
            ASSERT_OK(status);
        }
        if (status == PAWL_OK) {
            assert_int_equal(held_count(0), FEW);
            for (size_t i = 0; i < FEW; i++) {
                char *counts = server_command(servers[0], "HVALS m%03zu", i);
                assert_string_equal(counts, "1");
                free(counts);
            }
            ASSERT_OK(pawl_lock_release(multi));
        }
        WAIT_UNTIL(held_count(0) == 0, BOUND_MS);
    }
}

/* Its caller has gone when the answer comes. */
static void frozen_server(void **state)
{
    (void)state;
    pawl_lock *members[FEW];
    pawl_lock *multi = open_set(open_client(0), FEW, members);
    warm_up(multi);
    server_pause(servers[0]);
    ASSERT_STATUS(PAWL_UNAVAILABLE, pawl_lock_acquire(multi, PAWL_TRY));
    ASSERT_STATUS(PAWL_UNAVAILABLE, pawl_lock_acquire(multi, 50));
    server_resume(servers[0]);
    WAIT_UNTIL(held_count(0) == 0, BOUND_MS);
    ASSERT_OK(pawl_lock_acquire(multi, BOUND_MS));
    assert_int_equal(held_count(0), FEW);
    ASSERT_OK(pawl_lock_release(multi));
}

static void server_that_restarts(void **state)
{
    (void)state;
    pawl_lock *members[FEW];
    pawl_lock *multi = open_set(open_client(0), FEW, members);
    warm_up(multi);
    occupy(0, 2);
    start_waiting(multi, 2);
    server_restart(servers[0], false);
    await_grant(multi);
    assert_int_equal(held_count(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(keys_of_another_type),
        CASE(server_without_memory),
        CASE(lost_answer),
        CASE(frozen_server),
        CASE(server_that_restarts),
    };
    return cmocka_run_group_tests(tests, start_servers, NULL);
}
