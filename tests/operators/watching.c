/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_watch_...() on a real Redis server: by the locks' channels and by looking, and exactly where
 * keyspace events are on.
 *
 * One thread acts and watches in turn, so what has to come next is known. An event is waited for
 * with a bound, and that nothing else comes is seen by a last event that is caused on purpose. */
#include "operators/common.h"

#include <unistd.h>

#define UUID "5bd36e9c-7a0f-4f5e-9d6a-2a8f5a3c1b77"
#define OTHER_UUID "0c2b0000-7a0f-4f5e-9d6a-2a8f5a3c1b77"
#define BOUND_MS (5000 * SLOWNESS)
#define NEVER_MS 600000 /* looks that do not come during a test */

static struct server *server;

static int begin(void **state)
{
    free(server_command(server, "CONFIG SET notify-keyspace-events ''"));
    return flush_and_setup(server, state);
}

static int begin_exactly(void **state)
{
    free(server_command(server, "CONFIG SET notify-keyspace-events Kghxz"));
    return flush_and_setup(server, state);
}

/* ===== Watching ===== */

static void close_watch(void *object)
{
    pawl_watch_close(object);
}

static pawl_watch *watch(pawl_client *client, const char *pattern, int64_t look_ms)
{
    pawl_watch *opened = NULL;
    ASSERT_OK(pawl_watch_open(client, pattern, look_ms, &opened));
    cleanup_add(close_watch, opened);
    return opened;
}

static pawl_watch_event next(pawl_watch *watched)
{
    pawl_watch_event event = {.size = sizeof event};
    ASSERT_OK(pawl_watch_next(watched, BOUND_MS, &event));
    return event;
}

static const char *const changes[] = {"nothing", "acquired", "released", "expired"};

static pawl_watch_event assert_next_at(
    pawl_watch *watched, pawl_change change, const char *name, const char *file, int line)
{
    const pawl_watch_event event = next(watched);
    if (event.change != change || strcmp(event.entry.name, name) != 0) {
        support_fail("%s:%d: '%s' was %s, but '%s' should have been %s", file, line,
            event.entry.name, changes[event.change], name, changes[change]);
    }
    return event;
}

#define ASSERT_NEXT(watched, change, name) assert_next_at(watched, change, name, __FILE__, __LINE__)

static void assert_nothing(pawl_watch *watched)
{
    pawl_watch_event event = {.size = sizeof event};
    ASSERT_STATUS(PAWL_BUSY, pawl_watch_next(watched, 50, &event));
}

/* ===== By channel and by looking ===== */

static void releases_are_told_and_acquisitions_found(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = own_lock(client, "jobs", 20000, true);
    pawl_watch *watched = watch(client, NULL, 50);
    char owner[PAWL_OWNER_SIZE];
    assert_false(pawl_watch_exact(watched));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_owner(lock, owner, sizeof owner));
    const pawl_watch_event acquired = ASSERT_NEXT(watched, PAWL_ACQUIRED, "jobs");
    assert_false(acquired.exact);
    assert_string_equal(acquired.entry.holder, owner);
    assert_int_equal(acquired.entry.pid, getpid());
    assert_true(acquired.entry.held);
    assert_true(acquired.entry.token == pawl_lock_token(lock));
    ASSERT_OK(pawl_lock_release(lock));
    const pawl_watch_event released = ASSERT_NEXT(watched, PAWL_RELEASED, "jobs");
    assert_string_equal(released.entry.holder, owner);
    assert_false(released.entry.held);
    assert_nothing(watched);
}

static void what_is_held_at_first_is_no_event(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    free(server_command(server, "HSET old " UUID ":1 1"));
    pawl_watch *watched = watch(client, NULL, 20);
    assert_nothing(watched);
    free(server_command(server, "HSET new " UUID ":2 1"));
    ASSERT_NEXT(watched, PAWL_ACQUIRED, "new");
    free(server_command(server, "DEL old"));
    ASSERT_NEXT(watched, PAWL_RELEASED, "old");
}

/* Too short to be seen by looking: nothing but the message tells of it. */
static void a_short_hold_is_told_by_its_release(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = own_lock(client, "short", 20000, true);
    pawl_watch *watched = watch(client, NULL, NEVER_MS);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(lock));
    const pawl_watch_event event = ASSERT_NEXT(watched, PAWL_RELEASED, "short");
    assert_true(event.exact);
    assert_string_equal(event.entry.holder, "");
    assert_int_equal(event.entry.since_ms, -1);
    assert_nothing(watched);
}

static void an_expiry_is_found(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_watch *watched = watch(client, NULL, 50);
    free(server_command(server, "HSET dead " UUID ":1 1"));
    free(server_command(server, "PEXPIRE dead 400"));
    ASSERT_NEXT(watched, PAWL_ACQUIRED, "dead");
    const pawl_watch_event event = ASSERT_NEXT(watched, PAWL_EXPIRED, "dead");
    assert_false(event.exact);
    assert_string_equal(event.entry.holder, UUID ":1");
}

static void a_lock_that_changed_hands_is_released_and_acquired(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    free(server_command(server, "HSET x " UUID ":1 1"));
    pawl_watch *watched = watch(client, NULL, 100);
    const char *const words[] = {"EVAL",
        "redis.call('DEL', 'x') return redis.call('HSET', 'x', '" OTHER_UUID ":9', 1)", "0"};
    free(server_command_words(server, 3, words));
    assert_string_equal(ASSERT_NEXT(watched, PAWL_RELEASED, "x").entry.holder, UUID ":1");
    assert_string_equal(ASSERT_NEXT(watched, PAWL_ACQUIRED, "x").entry.holder, OTHER_UUID ":9");
    assert_nothing(watched);
}

static void each_reader_comes_and_goes_alone(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    free(server_command(server, "HSET x mode read " UUID ":1 1"));
    pawl_watch *watched = watch(client, "x", 50);
    free(server_command(server, "HSET x " OTHER_UUID ":2 1"));
    const pawl_watch_event event = ASSERT_NEXT(watched, PAWL_ACQUIRED, "x");
    assert_string_equal(event.entry.holder, OTHER_UUID ":2");
    assert_int_equal(event.entry.kind, PAWL_READ);
    free(server_command(server, "HDEL x " UUID ":1"));
    assert_string_equal(ASSERT_NEXT(watched, PAWL_RELEASED, "x").entry.holder, UUID ":1");
    assert_nothing(watched);
}

static void only_what_matches_is_told(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    static const char *const names[] = {"other", "job:1", "{job}:2", "job{3}", "end"};
    pawl_watch *watched = watch(client, "[je{]*[1-3nd}]", NEVER_MS);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        pawl_lock *lock = own_lock(client, names[i], 20000, true);
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
        ASSERT_OK(pawl_lock_release(lock));
    }
    for (size_t i = 1; i < sizeof names / sizeof names[0]; i++) {
        ASSERT_NEXT(watched, PAWL_RELEASED, names[i]);
    }
    assert_nothing(watched);
}

static void one_name_may_be_watched(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = own_lock(client, "odd*name[1]", 20000, true);
    pawl_lock *other = own_lock(client, "odd-name1", 20000, true);
    pawl_watch *watched = watch(client, "odd\\*name\\[1]", 50);
    ASSERT_OK(pawl_lock_acquire(other, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(other));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_NEXT(watched, PAWL_ACQUIRED, "odd*name[1]");
    ASSERT_OK(pawl_lock_release(lock));
    ASSERT_NEXT(watched, PAWL_RELEASED, "odd*name[1]");
}

static void a_broken_lock_counts_as_released(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = own_lock(client, "x", 20000, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    pawl_watch *watched = watch(client, NULL, NEVER_MS);
    ASSERT_OK(pawl_lock_break(lock));
    assert_true(ASSERT_NEXT(watched, PAWL_RELEASED, "x").exact);
}

/* A look and a message of the same release, in whatever order, are one event. */
static void nothing_is_told_twice(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = own_lock(client, "x", 20000, true);
    pawl_watch *watched = watch(client, NULL, 1);
    for (int i = 0; i < 200; i++) {
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
        ASSERT_NEXT(watched, PAWL_ACQUIRED, "x");
        ASSERT_OK(pawl_lock_release(lock));
        ASSERT_NEXT(watched, PAWL_RELEASED, "x");
    }
    assert_nothing(watched);
}

/* The look comes first, because it is due, and the message of the same release is read after it. */
static void a_message_that_comes_late_is_no_second_release(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = own_lock(client, "x", 20000, true);
    pawl_watch *watched = watch(client, NULL, 1);
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
        ASSERT_NEXT(watched, PAWL_ACQUIRED, "x");
        ASSERT_OK(pawl_lock_release(lock));
        nap_ms(100);
        assert_false(ASSERT_NEXT(watched, PAWL_RELEASED, "x").exact);
        assert_nothing(watched);
    }
}

/* ===== Exactly ===== */

static void events_tell_everything_at_once(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = own_lock(client, "x", 20000, true);
    pawl_watch *watched = watch(client, NULL, NEVER_MS);
    assert_true(pawl_watch_exact(watched));
    for (int i = 0; i < 20; i++) {
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
        const pawl_watch_event acquired = ASSERT_NEXT(watched, PAWL_ACQUIRED, "x");
        assert_true(acquired.exact);
        assert_true(acquired.entry.token == pawl_lock_token(lock));
        ASSERT_OK(pawl_lock_release(lock));
        assert_true(ASSERT_NEXT(watched, PAWL_RELEASED, "x").exact);
    }
    assert_nothing(watched);
}

static void an_expiry_is_told(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_watch *watched = watch(client, NULL, NEVER_MS);
    free(server_command(server, "HSET dead " UUID ":1 1"));
    assert_string_equal(ASSERT_NEXT(watched, PAWL_ACQUIRED, "dead").entry.holder, UUID ":1");
    free(server_command(server, "PEXPIRE dead 50"));
    assert_true(ASSERT_NEXT(watched, PAWL_EXPIRED, "dead").exact);
}

static void deleting_the_key_is_a_release(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_watch *watched = watch(client, NULL, NEVER_MS);
    free(server_command(server, "HSET x " UUID ":1 1"));
    ASSERT_NEXT(watched, PAWL_ACQUIRED, "x");
    free(server_command(server, "DEL x"));
    ASSERT_NEXT(watched, PAWL_RELEASED, "x");
}

static void other_keys_are_no_events(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_watch *watched = watch(client, NULL, NEVER_MS);
    free(server_command(server, "HSET user:1 name Ann email a@example.org"));
    free(server_command(server, "SET text x"));
    free(server_command(server, "DEL user:1 text"));
    free(server_command(server, "SET text x PX 10"));
    free(server_command(server, "HSET x " UUID ":1 1"));
    ASSERT_NEXT(watched, PAWL_ACQUIRED, "x");
}

static void re_entry_is_no_event(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = own_lock(client, "x", 20000, true);
    pawl_watch *watched = watch(client, NULL, NEVER_MS);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_NEXT(watched, PAWL_ACQUIRED, "x");
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(lock));
    ASSERT_OK(pawl_lock_release(lock));
    ASSERT_NEXT(watched, PAWL_RELEASED, "x");
    assert_nothing(watched);
}

/* More than the queue of hints has room for: what is dropped is found by looking. */
static void a_flood_loses_nothing_that_lasts(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_watch *watched = watch(client, NULL, NEVER_MS);
    static const char script[] = "for i = 1, 20000 do local key = 'a-name-that-is-not-short:' .. i "
                                 "redis.call('HSET', key, '" UUID ":' .. i, 1) "
                                 "if i % 20 ~= 0 then redis.call('DEL', key) end end return 1";
    const char *const words[] = {"EVAL", script, "0"};
    free(server_command_words(server, 3, words));
    size_t held = 0;
    while (held < 1000) {
        held += next(watched).change == PAWL_ACQUIRED ? 1 : 0;
    }
    assert_nothing(watched);
}

/* ===== Rights ===== */

static char *user_url(const char *user)
{
    static char url[URL_SIZE];
    snprintf(url, sizeof url, "redis://%s:pw@127.0.0.1:%u", user, (unsigned)server_port(server));
    return url;
}

static const char release_job1[] =
    "redis.call('DEL', 'job1') redis.call('PUBLISH', 'redisson_lock__channel:{job1}', '0') "
    "redis.call('PUBLISH', 'redisson_lock__channel:{other}', '0') return 1";

static void rights_decide_how_much_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *rights;
        bool told; /* releases by message */
    } cases[] = {
        {"&* +@all", true},
        {"resetchannels &redisson_lock__channel:* +@all -config", true},
        {"resetchannels +@all -config", false},
        {"&* +@all -config -psubscribe", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        free(server_command(server, "ACL SETUSER w reset on >pw ~* %s", cases[i].rights));
        pawl_client *client = open_client(user_url("w"), "?lazy=1");
        pawl_watch *watched = watch(client, "job*", 50);
        assert_int_equal(pawl_watch_exact(watched), i == 0);
        assert_int_equal(pawl_watch_hears_releases(watched), cases[i].told);
        free(server_command(server, "HSET job1 " UUID ":1 1"));
        ASSERT_NEXT(watched, PAWL_ACQUIRED, "job1");
        const char *const words[] = {"EVAL", release_job1, "0"};
        free(server_command_words(server, 3, words));
        const pawl_watch_event event = ASSERT_NEXT(watched, PAWL_RELEASED, "job1");
        if (!cases[i].told) {
            assert_false(event.exact);
        }
        assert_nothing(watched);
        cleanup_drop(watched);
        pawl_watch_close(watched);
        close_client(client);
        free(server_command(server, "ACL DELUSER w"));
    }
}

/* ===== Connections that break ===== */

static void a_connection_that_was_killed_is_made_anew(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = own_lock(client, "x", 20000, true);
    pawl_watch *watched = watch(client, NULL, NEVER_MS);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(lock));
    ASSERT_NEXT(watched, PAWL_RELEASED, "x");
    assert_true(server_kill_clients(server, "pubsub") > 0);
    free(server_command(server, "HSET meanwhile " UUID ":1 1"));
    ASSERT_NEXT(watched, PAWL_ACQUIRED, "meanwhile"); /* it looks after a gap */
    WAIT_UNTIL(server_client_count(server, "pubsub") == 1, BOUND_MS);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(lock));
    ASSERT_NEXT(watched, PAWL_RELEASED, "x");
}

static void a_server_that_was_restarted_is_found_again(void **state)
{
    (void)state;
    struct server *own = server_start(NULL);
    pawl_client *client = open_client(server_url(own), NULL);
    pawl_watch_event event = {.size = sizeof event};
    free(server_command(own, "HSET old " UUID ":1 1"));
    pawl_watch *watched = watch(client, NULL, 50);
    server_kill(own);
    ASSERT_STATUS(PAWL_UNAVAILABLE, pawl_watch_next(watched, 300, &event));
    server_restart(own, false);
    ASSERT_NEXT(watched, PAWL_RELEASED, "old");
    free(server_command(own, "HSET new " UUID ":2 1"));
    ASSERT_NEXT(watched, PAWL_ACQUIRED, "new");
}

static void a_frozen_server_does_not_hold_us_long(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), "?timeout=300ms&connect_timeout=300ms");
    pawl_watch *watched = watch(client, NULL, 50);
    pawl_watch_event event = {.size = sizeof event};
    server_pause(server);
    ASSERT_ENDS("watch on a frozen server", 200 + 600, PAWL_UNAVAILABLE,
        pawl_watch_next(watched, 200, &event));
    server_resume(server);
    free(server_command(server, "HSET x " UUID ":1 1"));
    ASSERT_NEXT(watched, PAWL_ACQUIRED, "x");
}

/* ===== Closing, forking, misusing ===== */

static _Atomic int ended_with;
static _Atomic pid_t watcher;
static pawl_watch *shared;

static void *wait_for_ever(void *arg)
{
    (void)arg;
    pawl_watch_event event = {.size = sizeof event};
    atomic_store(&watcher, gettid());
    atomic_store(&ended_with, (int)pawl_watch_next(shared, PAWL_FOREVER, &event));
    return NULL;
}

static void closing_the_client_ends_a_wait(void **state)
{
    (void)state;
    pthread_t thread;
    pawl_watch_event event = {.size = sizeof event};
    pawl_client *client = open_client(server_url(server), NULL);
    shared = watch(client, NULL, NEVER_MS);
    atomic_store(&ended_with, -1);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, NULL), 0);
    WAIT_UNTIL(atomic_load(&watcher) != 0, BOUND_MS);
    WAIT_UNTIL(process_state(atomic_load(&watcher)) == 'S', BOUND_MS); /* it waits */
    ASSERT_ENDS("close while somebody watches", 500, PAWL_OK, close_client(client));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&ended_with), PAWL_CANCELED);
    ASSERT_STATUS(PAWL_MISUSE, pawl_watch_next(shared, PAWL_TRY, &event));
    assert_false(pawl_watch_exact(shared));
    WAIT_UNTIL(server_client_count(server, NULL) == 0, BOUND_MS);
}

static void close_inside(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)status;
    pawl_watch_close(arg);
}

/* The close runs the callback, and is what it would wait for. */
static int close_around(const struct child_pipes *pipes, void *url)
{
    (void)pipes;
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    pawl_watch *watched = NULL;
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    pawl_lock_options by_handle = PAWL_LOCK_OPTIONS_INIT;
    options.dispatch = true;
    by_handle.owner = PAWL_OWNER_HANDLE;
    ASSERT_OK(pawl_client_open(url, &options, &client));
    ASSERT_OK(pawl_watch_open(client, NULL, NEVER_MS, &watched));
    ASSERT_OK(pawl_lock_open(client, "x", &by_handle, &lock));
    ASSERT_OK(pawl_lock_acquire_async(lock, PAWL_TRY, close_inside, watched));
    ASSERT_OK(pawl_client_close(client));
    ASSERT_OK(pawl_lock_close(lock));
    return 0;
}

static void a_callback_may_close_a_watch_while_its_client_is_closed(void **state)
{
    (void)state;
    char *url = support_copy(server_url(server), strlen(server_url(server)));
    struct child *child = child_fork(close_around, url);
    assert_int_equal(child_wait(child, BOUND_MS), 0);
    child_free(child);
    free(url);
    WAIT_UNTIL(server_client_count(server, NULL) == 0, BOUND_MS);
}

static int watch_in_the_child(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    pawl_watch_event event = {.size = sizeof event};
    const bool refused = pawl_watch_next(arg, PAWL_TRY, &event) == PAWL_MISUSE;
    pawl_watch_close(arg);
    return refused && !pawl_watch_exact(arg) ? 0 : 1;
}

static void a_forked_child_may_not_watch(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_watch *watched = watch(client, NULL, 50);
    struct child *child = child_fork(watch_in_the_child, watched);
    assert_int_equal(child_wait(child, BOUND_MS), 0);
    free(server_command(server, "HSET x " UUID ":1 1"));
    ASSERT_NEXT(watched, PAWL_ACQUIRED, "x");
}

static void mistakes_are_named(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_watch_event event = {.size = 0};
    pawl_watch *watched = NULL;
    ASSERT_STATUS(PAWL_INVALID, pawl_watch_open(client, "", 0, &watched));
    ASSERT_STATUS(PAWL_INVALID, pawl_watch_open(client, NULL, -1, &watched));
    ASSERT_STATUS(PAWL_INVALID, pawl_watch_open(client, NULL, 0, NULL));
    ASSERT_STATUS(PAWL_INVALID, pawl_watch_open(NULL, NULL, 0, &watched));
    watched = watch(client, NULL, 0);
    ASSERT_STATUS(PAWL_INVALID, pawl_watch_next(watched, 0, &event));
    event.size = sizeof event;
    ASSERT_STATUS(PAWL_INVALID, pawl_watch_next(watched, -2, &event));
    ASSERT_STATUS(PAWL_INVALID, pawl_watch_next(NULL, 0, &event));
    ASSERT_STATUS(PAWL_BUSY, pawl_watch_next(watched, PAWL_TRY, &event));
    pawl_watch_close(NULL);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, cleanup_teardown)
#define EXACT(test) cmocka_unit_test_setup_teardown(test, begin_exactly, cleanup_teardown)
    const struct CMUnitTest tests[] = {
        CASE(releases_are_told_and_acquisitions_found),
        CASE(what_is_held_at_first_is_no_event),
        CASE(a_short_hold_is_told_by_its_release),
        CASE(an_expiry_is_found),
        CASE(a_lock_that_changed_hands_is_released_and_acquired),
        CASE(each_reader_comes_and_goes_alone),
        CASE(only_what_matches_is_told),
        CASE(one_name_may_be_watched),
        CASE(a_broken_lock_counts_as_released),
        CASE(nothing_is_told_twice),
        CASE(a_message_that_comes_late_is_no_second_release),
        EXACT(events_tell_everything_at_once),
        EXACT(an_expiry_is_told),
        EXACT(deleting_the_key_is_a_release),
        EXACT(other_keys_are_no_events),
        EXACT(re_entry_is_no_event),
        EXACT(a_flood_loses_nothing_that_lasts),
        EXACT(rights_decide_how_much_is_told),
        CASE(a_connection_that_was_killed_is_made_anew),
        CASE(a_server_that_was_restarted_is_found_again),
        CASE(a_frozen_server_does_not_hold_us_long),
        CASE(closing_the_client_ends_a_wait),
        CASE(a_callback_may_close_a_watch_while_its_client_is_closed),
        CASE(a_forked_child_may_not_watch),
        CASE(mistakes_are_named),
    };
    server = server_start(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
