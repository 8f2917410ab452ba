/* SPDX-License-Identifier: Apache-2.0 */
/* Error replies, each at each operation: what the caller is told, what is tried again, and that
 * everything works afterwards.
 *
 * An error means that nothing was done. Those of a server that is out of sorts for a while are
 * waited out by whoever has time; a try tells them at once. Those that will not go away are told at
 * once to everybody. A key of another type under a holder's feet proves that it has lost its lock.
 * An error that nobody knows may mean anything, so what may have been done is undone. */
#include "wire/lib/talk.h"

struct error {
    const char *reply;
    pawl_status status; /* what a try is told */
    bool passes;        /* it may go away by itself */
    bool retires;       /* the server is none for locks any more: a new connection is made */
    const char *says;
};

static const struct error errors[] = {
    {"-LOADING Redis is loading the dataset in memory", PAWL_REFUSED, true, false, "loading"},
    {"-READONLY You can't write against a read only replica.", PAWL_REFUSED, true, true, "replica"},
    {"-MASTERDOWN Link with MASTER is down", PAWL_REFUSED, true, true, "lost its master"},
    {"-OOM command not allowed when used memory > 'maxmemory'.", PAWL_REFUSED, true, false,
        "maxmemory"},
    {"-MISCONF Redis is configured to save RDB snapshots", PAWL_REFUSED, true, false, "disk"},
    {"-NOREPLICAS Not enough good replicas to write.", PAWL_REFUSED, true, false,
        "min-replicas-to-write"},
    {"-BUSY Redis is busy running a script.", PAWL_REFUSED, true, false, "busy"},
    {"-TRYAGAIN Multiple keys request during rehashing of slot", PAWL_REFUSED, true, false,
        "cluster"},
    {"-CLUSTERDOWN The cluster is down", PAWL_REFUSED, true, false, "cluster"},
    {"-MOVED 3999 127.0.0.1:6381", PAWL_REFUSED, true, false, "another node"},
    {"-ASK 3999 127.0.0.1:6381", PAWL_REFUSED, true, false, "moving"},
    {"-CROSSSLOT Keys in request don't hash to the same slot", PAWL_REFUSED, false, false,
        "braces"},
    {"-NOPERM this user has no permissions to run the 'evalsha' command", PAWL_DENIED, false, false,
        "ACL SETUSER"},
    {"-NOAUTH Authentication required.", PAWL_DENIED, false, false, "password"},
    {"-ERR The user executing the script can't access at least one of the keys", PAWL_DENIED, false,
        false, "ACL SETUSER"},
    {"-ERR max number of clients reached", PAWL_UNAVAILABLE, true, false, "no room"},
    {"-ERR value is not an integer or out of range", PAWL_REFUSED, false, false, "token counter"},
    {"-ERR increment or decrement would overflow", PAWL_REFUSED, false, false, "token counter"},
    {"-TOKENTYPE not a counter", PAWL_REFUSED, false, false, "redisson_lock_token:{x}"},
};

/* As Redis 6 words it when it happens inside a script. */
static const struct error nested[] = {
    {"-ERR Error running script (call to f_0123): @user_script:1: "
     "OOM command not allowed when used memory > 'maxmemory'.",
        PAWL_REFUSED, true, false, "maxmemory"},
    {"-ERR Error running script (call to f_0123): @user_script: 1: "
     "@user_script: 1: NOPERM this user has no permissions",
        PAWL_DENIED, false, false, "ACL SETUSER"},
    {"-ERR Error running script (call to f_0123): @user_script:1: "
     "WRONGTYPE Operation against a key holding the wrong kind of value",
        PAWL_REFUSED, false, false, "another name"},
};

static void answer_error(const struct pawl__script *script, const struct error *error)
{
    char reply[256];
    snprintf(reply, sizeof reply, "%s\\r\\n", error->reply);
    talk_answer(script, reply);
}

/* Everything on the first connection, unless the error asks for another one. */
static void assert_connections(const struct error *error)
{
    const size_t wanted = error->retires ? 2 : 1;
    if (scripted_accepted(scripted) != wanted) {
        support_fail("%s: %zu connections", error->reply, scripted_accepted(scripted));
    }
}

/* Play one case with a server and a client of its own. */
static void each(const struct error *list, size_t count,
    void (*play)(const struct error *error, pawl_lock *lock))
{
    for (size_t i = 0; i < count; i++) {
        void *state = NULL;
        talk_begin(&state);
        play(&list[i], talk_lock_with(talk_client(NULL), LEASE_MS, true, false));
        scripted_check(scripted);
        talk_end(&state);
    }
}

/* ===== Acquire ===== */

static void try_once(const struct error *error, pawl_lock *lock)
{
    answer_error(&pawl__script_acquire, error);
    const int64_t began_ms = boottime_ms();
    const pawl_status status = pawl_lock_acquire(lock, PAWL_TRY);
    assert_true(boottime_ms() - began_ms <= TIMEOUT_MS + SLACK_MS);
    assert_status_at(status, error->status, error->reply, __FILE__, __LINE__);
    assert_says(error->says);
    assert_true(pawl_lock_token(lock) == 0);
    assert_int_equal(pawl_lock_hold_count(lock), 0);
    assert_works(lock);
    assert_connections(error);
    assert_int_equal(talk_calls(&pawl__script_release), 1); /* nothing had to be undone */
}

static void wait_through(const struct error *error, pawl_lock *lock)
{
    answer_error(&pawl__script_acquire, error);
    const pawl_status status = pawl_lock_acquire(lock, 3000);
    assert_status_at(
        status, error->passes ? PAWL_OK : error->status, error->reply, __FILE__, __LINE__);
    if (status == PAWL_OK) {
        ASSERT_OK(pawl_lock_release(lock));
    }
    assert_works(lock);
    assert_connections(error);
}

static void a_try_is_told_at_once(void **state)
{
    (void)state;
    each(errors, COUNT(errors), try_once);
    each(nested, COUNT(nested), try_once);
}

static void who_waits_waits_it_out(void **state)
{
    (void)state;
    each(errors, COUNT(errors), wait_through);
    each(nested, COUNT(nested), wait_through);
}

/* ===== Release ===== */

static void release_through(const struct error *error, pawl_lock *lock)
{
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    answer_error(&pawl__script_release, error);
    const pawl_status status = pawl_lock_release(lock);
    assert_status_at(
        status, error->passes ? PAWL_OK : error->status, error->reply, __FILE__, __LINE__);
    ASSERT_STATUS(PAWL_NOT_HELD, pawl_lock_release(lock)); /* whatever it said */
    assert_works(lock);
    assert_connections(error);
}

static void a_release_is_asked_again_if_that_may_help(void **state)
{
    (void)state;
    each(errors, COUNT(errors), release_through);
    each(nested, 2, release_through); /* the third: see below */
}

/* ===== Renewal ===== */

static void extend_through(const struct error *error, pawl_lock *lock)
{
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    answer_error(&pawl__script_renew, error);
    const pawl_status status = pawl_lock_extend(lock, 2 * LEASE_MS);
    assert_status_at(status, error->status, error->reply, __FILE__, __LINE__);
    assert_says(error->says);
    assert_true(pawl_lock_remaining_ms(lock) > LEASE_MS / 2); /* it is still what it was */
    ASSERT_OK(pawl_lock_extend(lock, 2 * LEASE_MS));
    assert_true(pawl_lock_remaining_ms(lock) > LEASE_MS);
    ASSERT_OK(pawl_lock_release(lock));
    assert_connections(error);
}

static void an_extend_is_told_and_changes_nothing(void **state)
{
    (void)state;
    each(errors, COUNT(errors), extend_through);
    each(nested, 2, extend_through);
}

/* One of the locks that share a script is refused, or all are: they are asked for again, and kept.
 */
static void renew_through(const struct error *error, pawl_lock *lock)
{
    (void)lock;
    char reply[256];
    pawl_client *client = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *renewed = NULL;
    options.lease_ms = 600;
    ASSERT_OK(pawl_client_open(scripted_url(scripted), NULL, &client));
    ASSERT_OK(pawl_lock_open(client, "y", &options, &renewed));
    ASSERT_OK(pawl_lock_acquire(renewed, PAWL_TRY));
    snprintf(reply, sizeof reply, "*1\\r\\n%s\\r\\n", error->reply);
    talk_answer(&pawl__script_renew, reply);
    answer_error(&pawl__script_renew, error);
    WAIT_UNTIL(talk_calls(&pawl__script_renew) >= 3, 3000);
    const pawl_status status = pawl_lock_release(renewed);
    assert_status_at(status, PAWL_OK, error->reply, __FILE__, __LINE__);
    pawl_lock_close(renewed);
    ASSERT_OK(pawl_client_close(client));
}

static void a_renewal_is_tried_again_until_the_end(void **state)
{
    (void)state;
    static const struct error some[] = {
        {"-LOADING Redis is loading", PAWL_REFUSED, true, false, ""},
        {"-NOPERM no", PAWL_DENIED, false, false, ""},
        {"-MISCONF disk", PAWL_REFUSED, true, false, ""},
        {"-ERR who knows", PAWL_PROTOCOL, false, false, ""},
    };
    each(some, COUNT(some), renew_through);
}

/* ===== Inspect and break ===== */

static void look_through(const struct error *error, pawl_lock *lock)
{
    pawl_lock_info info = {.size = sizeof info};
    answer_error(&pawl__script_inspect, error);
    const pawl_status status = pawl_lock_inspect(lock, &info);
    assert_status_at(status, error->status, error->reply, __FILE__, __LINE__);
    assert_says(error->says);
    ASSERT_OK(pawl_lock_inspect(lock, &info));
    assert_connections(error);
}

static void break_through(const struct error *error, pawl_lock *lock)
{
    answer_error(&pawl__script_break, error);
    const pawl_status status = pawl_lock_break(lock);
    assert_status_at(status, error->status, error->reply, __FILE__, __LINE__);
    assert_says(error->says);
    ASSERT_OK(pawl_lock_break(lock));
    assert_connections(error);
}

static void inspect_and_break_are_told(void **state)
{
    (void)state;
    each(errors, COUNT(errors), look_through);
    each(errors, COUNT(errors), break_through);
}

/* ===== A key that is no lock ===== */

#define WRONGTYPE "-WRONGTYPE Operation against a key holding the wrong kind of value\\r\\n"

static void a_foreign_key_is_refused_or_proves_the_loss(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    talk_answer(&pawl__script_acquire, WRONGTYPE);
    ASSERT_STATUS(PAWL_REFUSED, pawl_lock_acquire(lock, 1000));
    assert_says("lock 'x'");
    assert_says("choose another name");

    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    talk_answer(&pawl__script_renew, "*1\\r\\n" WRONGTYPE);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_extend(lock, 2 * LEASE_MS));
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));

    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    talk_answer(&pawl__script_release, WRONGTYPE);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    assert_works(lock);
    scripted_check(scripted);
}

/* ===== An error that nobody knows ===== */

static void an_unknown_error_is_undone(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    talk_answer(&pawl__script_acquire, "-ODD \\x01\\x02 something\\r\\n");
    ASSERT_STATUS(PAWL_PROTOCOL, pawl_lock_acquire(lock, 1000));
    assert_says("ODD");
    assert_null(strchr(pawl_last_error(), '\x01'));
    WAIT_UNTIL(talk_calls(&pawl__script_release) >= 1, 2000);
    assert_works(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_try_is_told_at_once),
        cmocka_unit_test(who_waits_waits_it_out),
        cmocka_unit_test(a_release_is_asked_again_if_that_may_help),
        cmocka_unit_test(an_extend_is_told_and_changes_nothing),
        cmocka_unit_test(a_renewal_is_tried_again_until_the_end),
        cmocka_unit_test(inspect_and_break_are_told),
        CASE(a_foreign_key_is_refused_or_proves_the_loss),
        CASE(an_unknown_error_is_undone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
