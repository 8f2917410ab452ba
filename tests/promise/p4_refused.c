/* SPDX-License-Identifier: Apache-2.0 */
/* P4 and P9 on a server that refuses: a release must free the lock whenever the server lets it,
 * also where it would not pass it on, and a close must say so when a release was refused. Further,
 * what re-entry and closed handles must not break: answers in time, and a loss that somebody is
 * told. */
#include "promise/lib/backend.h"

#define LEASE_MS 20000

static atomic_int told;
static atomic_int answered;
static atomic_int last_status;

static int begin(void **state)
{
    server = server_start(NULL);
    atomic_store(&told, 0);
    atomic_store(&answered, 0);
    return cleanup_setup(state);
}

static int end(void **state)
{
    int result = cleanup_teardown(state);
    server_stop(server);
    return result;
}

static void count_loss(const pawl_event *event, void *arg)
{
    assert_int_equal(event->status, PAWL_LOST);
    atomic_store((atomic_int *)arg, 1);
}

static void note_answer(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)arg;
    atomic_store(&last_status, (int)status);
    atomic_fetch_add(&answered, 1);
}

static pawl_lock *open_with(pawl_client *client, const pawl_lock_options *options)
{
    pawl_lock *lock = NULL;
    ASSERT_OK(pawl_lock_open(client, "x", options, &lock));
    return lock;
}

static void *wait_in_line(void *arg)
{
    pawl_lock *lock = arg;
    pawl_status status = pawl_lock_acquire(lock, LEASE_MS / 2);
    if (status == PAWL_OK) {
        status = pawl_lock_release(lock);
    }
    atomic_store(&last_status, (int)status);
    return NULL;
}

/* A holder and a caller of the same process behind it; then `command` makes passing on impossible.
 */
static void release_with_a_waiter(const char *command)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = LEASE_MS;
    options.on_lost = count_loss;
    options.event_arg = &told;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_with(client, &options);
    pthread_t waiter;
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    assert_int_equal(pthread_create(&waiter, NULL, wait_in_line, lock), 0);
    WAIT_UNTIL(stand_in_line(client, lock, 1), LEASE_MS / 4);
    free(server_command(server, "DEL redisson_lock_token:{x}"));
    free(server_command(server, "%s", command));
    ASSERT_OK(pawl_lock_release(lock));
    assert_int_equal(server_integer(server, "EXISTS x"), 0);
    free(server_command(server, "CONFIG SET maxmemory 0"));
    free(server_command(server, "DEL redisson_lock_token:{x}"));
    pthread_join(waiter, NULL);
    assert_int_equal(atomic_load(&told), 0);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_full_server_frees_what_it_cannot_pass_on(void **state)
{
    (void)state;
    release_with_a_waiter("CONFIG SET maxmemory 1");
}

static void a_broken_counter_is_no_loss(void **state)
{
    (void)state;
    release_with_a_waiter("SET redisson_lock_token:{x} garbage");
}

static void a_counter_of_another_type_is_no_loss(void **state)
{
    (void)state;
    release_with_a_waiter("RPUSH redisson_lock_token:{x} a");
}

static void close_says_that_a_release_was_refused(void **state)
{
    (void)state;
    free(server_command(server, "ACL SETUSER locker on >pw ~* &* +@all"));
    char url[URL_SIZE];
    snprintf(url, sizeof url, "redis://locker:pw@127.0.0.1:%u", (unsigned)server_port(server));
    pawl_client *client = NULL;
    ASSERT_OK(pawl_client_open(url, NULL, &client));
    pawl_lock *lock = open_with(client, NULL);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    free(server_command(server, "ACL SETUSER locker -hdel"));
    ASSERT_STATUS(PAWL_UNAVAILABLE, pawl_client_close(client));
    pawl_lock_close(lock);
    assert_int_equal(server_integer(server, "EXISTS x"), 1);
}

static void asynchronous_re_entry_on_a_fixed_lease_is_answered(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.owner = PAWL_OWNER_HANDLE;
    options.reentry = PAWL_REENTRY_ALLOW;
    options.renew = false;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_with(client, &options);
    for (int i = 1; i <= 5; i++) {
        ASSERT_OK(pawl_lock_acquire_async(lock, 1000, note_answer, NULL));
        WAIT_UNTIL(atomic_load(&answered) == i, 3000);
        assert_int_equal(atomic_load(&last_status), PAWL_OK);
    }
    assert_int_equal(pawl_lock_hold_count(lock), 5);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_loss_is_told_to_the_handle_that_still_holds(void **state)
{
    (void)state;
    static atomic_int first_told;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.on_lost = count_loss;
    options.event_arg = &first_told;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *first = open_with(client, &options);
    options.event_arg = &told;
    pawl_lock *second = open_with(client, &options);
    ASSERT_OK(pawl_lock_acquire(first, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire(second, PAWL_TRY));
    ASSERT_OK(pawl_lock_close(first));
    ASSERT_OK(pawl_lock_break(second));
    WAIT_UNTIL(atomic_load(&told) == 1, 3000);
    assert_int_equal(atomic_load(&first_told), 0);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(second));
    pawl_lock_close(second);
    ASSERT_OK(close_client(client));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_full_server_frees_what_it_cannot_pass_on, begin, end),
        cmocka_unit_test_setup_teardown(a_broken_counter_is_no_loss, begin, end),
        cmocka_unit_test_setup_teardown(a_counter_of_another_type_is_no_loss, begin, end),
        cmocka_unit_test_setup_teardown(close_says_that_a_release_was_refused, begin, end),
        cmocka_unit_test_setup_teardown(
            asynchronous_re_entry_on_a_fixed_lease_is_answered, begin, end),
        cmocka_unit_test_setup_teardown(a_loss_is_told_to_the_handle_that_still_holds, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
