/* SPDX-License-Identifier: Apache-2.0 */
/* P3 on a real server: owner strings, the count that is shown, and what a late release does.
 *
 * The proxy keeps a release back and delivers it when the lock has long been taken again; once the
 * client may have the server kill the old connection first, once the access list forbids it. With
 * a clock of our own: p3_tenures_clock.c. */
#include "promise/lib/backend.h"

#include "engine/redis/lua_scripts.h"

#include <ctype.h>
#include <inttypes.h>

#define LEASE_MS 30000
#define UUID_SIZE 36

static struct losses losses;

static int start_server(void **state)
{
    (void)state;
    server = server_start(NULL);
    if (!server_answers(server, "OK", "ACL SETUSER modest on >modest ~* &* +@all -client|kill")) {
        return -1;
    }
    return 0;
}

/* ===== Owner strings ===== */

struct owner {
    char uuid[UUID_SIZE + 1];
    uint64_t number;
    unsigned count; /* as shown */
};

/* The one holder that the lock's hash has. */
static struct owner read_owner(const char *name)
{
    struct owner owner = {.number = 0};
    char *text = holder_of(server, name);
    char *number = text + UUID_SIZE + 1;
    char *end = NULL;
    if (strlen(text) < UUID_SIZE + 4 || text[UUID_SIZE] != ':' || !isdigit(number[0])) {
        support_fail("not an owner and a count: '%s'", text);
    }
    memcpy(owner.uuid, text, UUID_SIZE);
    owner.number = strtoull(number, &end, 10);
    owner.count = (unsigned)strtoul(end, &end, 10);
    assert_string_equal(end, ""); /* nobody else */
    free(text);
    return owner;
}

static void assert_is_uuid(const char *text)
{
    for (size_t i = 0; i < UUID_SIZE; i++) {
        if (i == 8 || i == 13 || i == 18 || i == 23) {
            assert_int_equal(text[i], '-');
        } else {
            assert_true(isdigit(text[i]) || (text[i] >= 'a' && text[i] <= 'f'));
        }
    }
    assert_int_equal(text[14], '8'); /* of our own making */
    assert_non_null(strchr("89ab", text[19]));
}

static void the_owner_is_client_and_tenure_and_never_the_same_again(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *locks[] = {
        open_lock(client, "one", LEASE_MS, true),
        open_lock(client, "one", LEASE_MS, false),
        open_handle(client, "one", LEASE_MS, true),
        open_lock(client, "two", LEASE_MS, true),
    };
    uint64_t last = 0;
    char uuid[UUID_SIZE + 1] = "";
    for (size_t i = 0; i < 12; i++) {
        pawl_lock *lock = locks[i % 4];
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
        const struct owner owner = read_owner(i % 4 == 3 ? "two" : "one");
        assert_is_uuid(owner.uuid);
        assert_true(i == 0 || strcmp(uuid, owner.uuid) == 0);
        memcpy(uuid, owner.uuid, sizeof uuid);
        assert_true(owner.number > last);
        assert_int_equal(owner.count, 1);
        last = owner.number;
        ASSERT_OK(pawl_lock_release(lock));
    }
    pawl_client *second = open_client(server_url(server), NULL);
    pawl_lock *lock = open_lock(second, "one", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    assert_string_not_equal(read_owner("one").uuid, uuid);
    pawl_lock_info info = {.size = sizeof info};
    ASSERT_OK(pawl_lock_inspect(locks[0], &info));
    assert_memory_equal(info.holder, read_owner("one").uuid, UUID_SIZE);
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    for (size_t i = 0; i < 4; i++) {
        pawl_lock_close(locks[i]);
    }
    ASSERT_OK(close_client(second));
    ASSERT_OK(close_client(client));
}

static void two_clients_are_two_owners(void **state)
{
    (void)state;
    pawl_client *first = open_client(server_url(server), NULL);
    pawl_client *second = open_client(server_url(server), NULL);
    pawl_lock *ours = open_lock(first, "x", LEASE_MS, true);
    pawl_lock *theirs = open_lock(second, "x", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(ours, PAWL_TRY));
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(theirs, PAWL_TRY)); /* the same thread */
    ASSERT_STATUS(PAWL_NOT_HELD, pawl_lock_release(theirs));
    ASSERT_OK(pawl_lock_release(ours));
    pawl_lock_close(ours);
    pawl_lock_close(theirs);
    ASSERT_OK(close_client(first));
    ASSERT_OK(close_client(second));
}

/* ===== The count ===== */

static bool shows(const char *name, unsigned count)
{
    return read_owner(name).count == count;
}

static void the_count_is_shown_and_the_lease_left_alone(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_lock(client, "counted", LEASE_MS, true);
    pawl_lock *twin = open_lock(client, "counted", 1000, false); /* the first one's options rule */
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    const struct owner owner = read_owner("counted");
    const uint64_t token = pawl_lock_token(lock);
    nap_ms(200);
    ASSERT_OK(pawl_lock_acquire(twin, PAWL_TRY));
    WAIT_UNTIL(shows("counted", 2), 1000);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    WAIT_UNTIL(shows("counted", 3), 1000);
    assert_int_equal(pawl_lock_hold_count(lock), 3);
    assert_int_equal(pawl_lock_hold_count(twin), 3);
    assert_true(read_owner("counted").number == owner.number);
    assert_true(pawl_lock_token(twin) == token);
    assert_true(server_integer(server, "PTTL counted") <= LEASE_MS - 200);
    ASSERT_OK(pawl_lock_release(twin));
    WAIT_UNTIL(shows("counted", 2), 1000);
    assert_in_range(server_integer(server, "PTTL counted"), LEASE_MS / 2, LEASE_MS - 200);
    ASSERT_OK(pawl_lock_release(lock));
    WAIT_UNTIL(shows("counted", 1), 1000);
    ASSERT_OK(pawl_lock_release(twin));
    assert_false(is_locked(server, "counted"));
    ASSERT_STATUS(PAWL_NOT_HELD, pawl_lock_release(lock));
    pawl_lock_close(twin);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void nothing_is_decided_by_the_shown_count(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_lock(client, "painted", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    const struct owner owner = read_owner("painted");
    free(server_command(server, "HSET painted %s:%" PRIu64 " 7", owner.uuid, owner.number));
    ASSERT_OK(pawl_lock_release(lock)); /* once acquired, once released */
    assert_false(is_locked(server, "painted"));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_count_that_finds_nothing_is_proof_of_loss(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_watched(client, "vanished", LEASE_MS, true, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    assert_int_equal(server_integer(server, "DEL vanished"), 1);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY)); /* decided here; nobody knows yet */
    pawl_lock_info info = {.size = sizeof info};
    ASSERT_OK(pawl_lock_inspect(lock, &info));            /* reads what was not waited for */
    WAIT_UNTIL(atomic_load(&losses.count) > 0, SLACK_MS); /* a renewal is far away */
    assert_false(is_locked(server, "vanished"));          /* and the count has made no key */
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    ASSERT_STATUS(PAWL_NOT_HELD, pawl_lock_release(lock));
    assert_int_equal(atomic_load(&losses.count), 1);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_re_entry_extends_a_fixed_lease_and_never_shortens_it(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_lock(client, "fixed", 5000, false);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    nap_ms(300);
    const int64_t left_ms = pawl_lock_remaining_ms(lock);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    assert_true(pawl_lock_remaining_ms(lock) > left_ms + 200);
    assert_true(server_integer(server, "PTTL fixed") > 4700);
    ASSERT_OK(pawl_lock_extend(lock, 60000));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    assert_true(pawl_lock_remaining_ms(lock) > 50000);
    assert_true(server_integer(server, "PTTL fixed") > 50000);
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(pawl_lock_release(lock));
    }
    assert_false(is_locked(server, "fixed"));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

/* ===== Late releases ===== */

/* The first release gets stuck on the way; the second copy, on a new connection, does it; the lock
 * is taken again; then the first copy arrives. */
static void a_late_release(const char *credentials, bool arrives)
{
    char url[URL_SIZE];
    const char *release = pawl__script_release.sha1;
    proxy = proxy_start_for(server);
    snprintf(url, sizeof url, "redis://%s127.0.0.1:%u", credentials, proxy_port(proxy));
    pawl_client *client = open_client(url, "?timeout=400ms");
    pawl_lock *lock = open_lock(client, "again", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    const struct owner old = read_owner("again");
    proxy_hold_from(proxy, release);
    const pawl_status status = pawl_lock_release(lock);
    assert_true(status == PAWL_OK || status == PAWL_UNAVAILABLE);
    WAIT_UNTIL(!is_locked(server, "again"), 5000); /* repeated in the background */

    ASSERT_OK(pawl_lock_acquire(lock, 2000));
    const struct owner owner = read_owner("again");
    const uint64_t token = pawl_lock_token(lock);
    assert_true(owner.number > old.number);
    const uint64_t before = proxy_forwarded(proxy, release);
    const struct proxy_stats stats = proxy_stats(proxy);
    proxy_release(proxy, PROXY_TO_SERVER);
    if (arrives) {
        assert_true(proxy_wait_forwarded(proxy, release, before + 1, 5000));
    }
    nap_ms(200);
    print_message("%s: the late copy %s\n", arrives ? "kill forbidden" : "kill allowed",
        proxy_forwarded(proxy, release) > before ? "went out" : "did not go out");
    assert_true(
        proxy_stats(proxy).bytes_passed[PROXY_TO_SERVER] >= stats.bytes_passed[PROXY_TO_SERVER]);
    const struct owner after = read_owner("again");
    assert_true(after.number == owner.number);
    assert_true(pawl_lock_token(lock) == token);
    ASSERT_OK(pawl_lock_extend(lock, LEASE_MS)); /* the server says that it is ours */
    ASSERT_OK(pawl_lock_release(lock));
    assert_false(is_locked(server, "again"));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_late_release_does_not_touch_the_next_hold(void **state)
{
    (void)state;
    a_late_release("", false);
}

static void nor_where_the_old_connection_may_not_be_killed(void **state)
{
    (void)state;
    a_late_release("modest:modest@", true);
}

static void a_duplicated_release_does_not_touch_the_next_hold(void **state)
{
    (void)state;
    proxy = proxy_start_for(server);
    pawl_client *client = open_client(proxy_url(proxy), NULL);
    pawl_lock *lock = open_lock(client, "twice", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    proxy_duplicate_next(proxy, pawl__script_release.sha1, true);
    ASSERT_OK(pawl_lock_release(lock));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    const struct owner owner = read_owner("twice");
    proxy_release_copies(proxy);
    WAIT_UNTIL(proxy_stats(proxy).copies_answered == 1, 5000);
    assert_true(read_owner("twice").number == owner.number);
    ASSERT_OK(pawl_lock_extend(lock, LEASE_MS));
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(backend_begin, the_owner_is_client_and_tenure_and_never_the_same_again),
        CASE(backend_begin, two_clients_are_two_owners),
        CASE(backend_begin, the_count_is_shown_and_the_lease_left_alone),
        CASE(backend_begin, nothing_is_decided_by_the_shown_count),
        CASE(backend_begin, a_count_that_finds_nothing_is_proof_of_loss),
        CASE(backend_begin, a_re_entry_extends_a_fixed_lease_and_never_shortens_it),
        CASE(backend_begin, a_late_release_does_not_touch_the_next_hold),
        CASE(backend_begin, nor_where_the_old_connection_may_not_be_killed),
        CASE(backend_begin, a_duplicated_release_does_not_touch_the_next_hold),
    };
    return cmocka_run_group_tests(tests, start_server, NULL);
}
