/* SPDX-License-Identifier: Apache-2.0 */
/* What a multi-lock says, and of which member, on a real server. */
#include "fault/lib/sets.h"

/* A user that may do everything, but nothing to the keys of this member. */
static pawl_lock *open_forbidden(size_t forbidden, pawl_lock **members_out)
{
    pawl_client *client = NULL;
    char url[128];
    free(server_command(servers[0], "ACL SETUSER most reset on >secret ~* &* +@all"));
    snprintf(
        url, sizeof url, "redis://most:secret@127.0.0.1:%u", (unsigned)server_port(servers[0]));
    ASSERT_OK(pawl_client_open(url, NULL, &client));
    cleanup_add(end_client, client);
    pawl_lock *multi = open_set(client, FEW, members_out);
    warm_up(multi);
    free(server_command(servers[0], "ACL SETUSER most resetkeys"));
    for (size_t i = 0; i < FEW; i++) {
        if (i != forbidden) {
            free(server_command(servers[0], "ACL SETUSER most ~m%03zu ~*{m%03zu}*", i, i));
        }
    }
    return multi;
}

/* The server refuses the whole command and does not say because of which key. */
static void a_member_that_is_denied(void **state)
{
    (void)state;
    pawl_lock *members[FEW];
    pawl_lock *multi = open_forbidden(2, members);
    for (int64_t wait_ms = 0; wait_ms < 3000; wait_ms += 2000) {
        ASSERT_STATUS(PAWL_DENIED, pawl_lock_acquire(multi, wait_ms));
        assert_non_null(strstr(pawl_last_error(), "member 2 of 4 of a multi-lock: "));
        assert_non_null(strstr(pawl_last_error(), "m002"));
        assert_int_equal(pawl_lock_member_status(multi, 1), PAWL_DENIED);
        assert_int_equal(pawl_lock_member_status(multi, 2), PAWL_OK);
        WAIT_UNTIL(held_count(0) == 0, BOUND_MS);
    }
}

/* The others are released all the same. */
static void a_release_that_is_denied(void **state)
{
    (void)state;
    pawl_lock *members[FEW];
    pawl_lock *multi = open_forbidden(FEW, members);
    ASSERT_OK(pawl_lock_acquire(multi, PAWL_TRY));
    free(server_command(servers[0], "ACL SETUSER most resetkeys ~m000 ~m002 ~m003 ~*{m*"));
    ASSERT_STATUS(PAWL_DENIED, pawl_lock_release(multi));
    assert_non_null(strstr(pawl_last_error(), "m001"));
    assert_int_equal(pawl_lock_member_status(multi, 2), PAWL_DENIED);
    assert_int_equal(pawl_lock_member_status(multi, 1), PAWL_OK);
    assert_int_equal(server_integer(servers[0], "EXISTS m000 m001 m002 m003"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_member_that_is_denied),
        CASE(a_release_that_is_denied),
    };
    return cmocka_run_group_tests(tests, start_servers, NULL);
}
