/* SPDX-License-Identifier: Apache-2.0 */
/* P6: one token for each tenure, and each greater than all before it under that name: across
 * clients, processes, restarts without data, and whatever somebody does to the counter.
 *
 * Holders write their tokens to one file while they hold the lock; the file must be sorted. */
#include "promise/lib/backend.h"

#include <fcntl.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#define LEASE_MS 30000
#define TOKEN_KEY "redisson_lock_token:{x}"
#define TOKEN_MIN UINT64_C(1000000000000000) /* 10^15 */
#define WEEK_S (7 * 24 * 3600)
#define ROUNDS 500
#define NAMES 10000

/* The token of one more tenure. */
static uint64_t draw(pawl_lock *lock)
{
    ASSERT_OK(pawl_lock_acquire(lock, 3000));
    const uint64_t token = pawl_lock_token(lock);
    ASSERT_OK(pawl_lock_release(lock));
    assert_int_equal(pawl_lock_token(lock), 0);
    return token;
}

/* ===== Growing ===== */

static void each_tenure_has_one_and_it_grows(void **state)
{
    (void)state;
    pawl_client *clients[2];
    pawl_lock *locks[2];
    uint64_t last = 0;
    for (size_t i = 0; i < 2; i++) {
        clients[i] = open_client(server_url(server), NULL);
        locks[i] = open_lock(clients[i], "x", LEASE_MS, true);
    }
    for (size_t i = 0; i < 20; i++) {
        pawl_lock *lock = locks[i % 2];
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
        const uint64_t token = pawl_lock_token(lock);
        assert_true(token > last);
        last = token;
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY)); /* the same tenure */
        assert_true(pawl_lock_token(lock) == token);
        ASSERT_OK(pawl_lock_release(lock));
        assert_true(pawl_lock_token(lock) == token);
        assert_int_equal(pawl_lock_token(locks[(i + 1) % 2]), 0); /* the caller's, or none */
        ASSERT_OK(pawl_lock_release(lock));
    }
    for (size_t i = 0; i < 2; i++) {
        pawl_lock_close(locks[i]);
        ASSERT_OK(close_client(clients[i]));
    }
}

static void it_begins_with_the_servers_clock_and_no_digit_is_lost(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    struct timespec before;
    struct timespec after;
    clock_gettime(CLOCK_REALTIME, &before);
    const uint64_t first = draw(lock);
    clock_gettime(CLOCK_REALTIME, &after);
    assert_true(first >= TOKEN_MIN);
    assert_in_range(first, (uint64_t)before.tv_sec * 1000000 + (uint64_t)before.tv_nsec / 1000,
        (uint64_t)after.tv_sec * 1000000 + (uint64_t)after.tv_nsec / 1000);
    for (uint64_t i = 1; i <= 100; i++) {
        const uint64_t token = draw(lock);
        char digits[32];
        snprintf(digits, sizeof digits, "%" PRIu64, token);
        assert_true(token == first + i);
        assert_true(server_answers(server, digits, "GET " TOKEN_KEY)); /* no e+15, no .0 */
    }
    /* Also close to where a double can no longer count by one. */
    free(server_command(server, "SET " TOKEN_KEY " 9007199254740981"));
    for (uint64_t i = 1; i <= 10; i++) {
        assert_true(draw(lock) == UINT64_C(9007199254740981) + i);
    }
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void it_grows_whatever_happens_to_the_counter(void **state)
{
    (void)state;
    static const char *const mischief[] = {"DEL " TOKEN_KEY, "FLUSHALL", "SET " TOKEN_KEY " 42",
        "SET " TOKEN_KEY " 0", "SET " TOKEN_KEY " -7", "SET " TOKEN_KEY " 999999999999998"};
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    uint64_t last = draw(lock);
    for (size_t i = 0; i < sizeof mischief / sizeof mischief[0]; i++) {
        free(server_command(server, "%s", mischief[i]));
        for (int j = 0; j < 3; j++) {
            const uint64_t token = draw(lock);
            if (token <= last) {
                support_fail(
                    "after %s: %" PRIu64 " does not follow %" PRIu64, mischief[i], token, last);
            }
            last = token;
        }
    }
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_counter_that_is_no_number_is_refused(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    free(server_command(server, "SET " TOKEN_KEY " garbage"));
    ASSERT_STATUS(PAWL_REFUSED, pawl_lock_acquire(lock, PAWL_TRY));
    assert_non_null(strstr(pawl_last_error(), "token"));
    assert_false(is_locked(server, "x"));
    free(server_command(server, "DEL " TOKEN_KEY));
    free(server_command(server, "RPUSH " TOKEN_KEY " a"));
    ASSERT_STATUS(PAWL_REFUSED, pawl_lock_acquire(lock, PAWL_TRY));
    assert_false(is_locked(server, "x"));
    assert_true(server_answers(server, "list", "TYPE " TOKEN_KEY)); /* it is somebody's */
    free(server_command(server, "DEL " TOKEN_KEY));
    assert_true(draw(lock) >= TOKEN_MIN);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void it_grows_over_a_restart_without_data(void **state)
{
    (void)state;
    struct server *forgetful = server_start(NULL);
    pawl_client *client = open_client(server_url(forgetful), NULL);
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    uint64_t last = draw(lock);
    for (int i = 0; i < 2; i++) {
        server_restart(forgetful, false);
        const uint64_t token = draw(lock);
        assert_true(token > last);
        last = token;
    }
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
    server_stop(forgetful);
}

/* A server that comes back with an older counter has given out greater tokens already. */
static void it_grows_over_a_restart_from_an_old_snapshot(void **state)
{
    (void)state;
    struct server *forgetful = server_start(NULL);
    pawl_client *client = open_client(server_url(forgetful), NULL);
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    const uint64_t saved = draw(lock);
    const uint64_t next = draw(lock);
    const uint64_t last = draw(lock);
    assert_true(saved < next && next < last);
    server_restart(forgetful, false);
    free(server_command(forgetful, "SET " TOKEN_KEY " %" PRIu64, saved));
    assert_true(draw(lock) > last);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
    server_stop(forgetful);
}

/* ===== How long the counter lives ===== */

static int64_t ttl_with(const char *query)
{
    free(server_command(server, "DEL " TOKEN_KEY));
    pawl_client *client = open_client(server_url(server), query);
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    draw(lock);
    const int64_t seeded_s = server_integer(server, "TTL " TOKEN_KEY);
    draw(lock);
    const int64_t later_s = server_integer(server, "TTL " TOKEN_KEY);
    assert_true(later_s <= seeded_s);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
    return seeded_s;
}

static void the_counter_ends_by_itself_as_asked(void **state)
{
    (void)state;
    assert_in_range(ttl_with(NULL), WEEK_S - 60, WEEK_S);
    assert_in_range(ttl_with("?token_ttl=1h"), 3540, 3600);
    assert_int_equal(ttl_with("?token_ttl=0"), -1);
}

static void a_small_counter_of_redisson_gets_a_lifetime_when_it_is_lifted(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
    free(server_command(server, "SET " TOKEN_KEY " 17"));
    assert_true(draw(lock) >= TOKEN_MIN);
    assert_in_range(server_integer(server, "TTL " TOKEN_KEY), WEEK_S - 60, WEEK_S);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

/* Names that were used once do not fill the server up. */
static void ten_thousand_names_end_by_themselves(void **state)
{
    (void)state;
    static const char *const endless[] = {"EVAL",
        "local n = 0 "
        "for _, k in ipairs(redis.call('KEYS', '*')) do "
        "if redis.call('PTTL', k) < 0 then n = n + 1 end end return n",
        "0"};
    pawl_client *client = open_client(server_url(server), NULL);
    for (int i = 0; i < NAMES; i++) {
        char name[32];
        snprintf(name, sizeof name, "name-%d", i);
        pawl_lock *lock = open_lock(client, name, LEASE_MS, true);
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
        if (i % 100 != 0) {
            ASSERT_OK(pawl_lock_release(lock));
        } /* closing releases the others */
        ASSERT_OK(pawl_lock_close(lock));
    }
    /* The counters, the client's own key, and no lock. */
    assert_int_equal(server_integer(server, "DBSIZE"), NAMES + 1);
    char *count = server_command_words(server, 3, endless);
    assert_string_equal(count, "0");
    free(count);
    ASSERT_OK(close_client(client));
}

/* ===== Many holders ===== */

/* Writes down the token while it holds the lock. */
static bool hold_and_write(pawl_lock *lock, int fd)
{
    if (pawl_lock_acquire(lock, 20000) != PAWL_OK) {
        return false;
    }
    const uint64_t token = pawl_lock_token(lock);
    const bool written = write(fd, &token, sizeof token) == (ssize_t)sizeof token;
    return pawl_lock_release(lock) == PAWL_OK && written;
}

/* `where` is "file url". */
static int hold_many_times(const struct child_pipes *pipes, const char *where)
{
    char path[URL_SIZE];
    char go = 0;
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    const char *space = strchr(where, ' ');
    snprintf(path, sizeof path, "%.*s", (int)(space - where), where);
    const int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0 || pawl_client_open(space + 1, NULL, &client) != PAWL_OK ||
        pawl_lock_open(client, "x", NULL, &lock) != PAWL_OK || dprintf(pipes->out, "ready\n") < 0 ||
        read(pipes->in, &go, 1) != 1) {
        return 1;
    }
    for (int i = 0; i < ROUNDS; i++) {
        if (!hold_and_write(lock, fd)) {
            dprintf(pipes->out, "%s\n", pawl_last_error());
            return 2;
        }
    }
    pawl_lock_close(lock);
    close(fd);
    return pawl_client_close(client) == PAWL_OK ? 0 : 3;
}

/* All tokens in the file are there, each greater than the one before. */
static void assert_sorted(const char *path, size_t count)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t last = 0;
    uint64_t token = 0;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(read(fd, &token, sizeof token), sizeof token);
        assert_true(token > last);
        last = token;
    }
    assert_int_equal(read(fd, &token, sizeof token), 0);
    close(fd);
}

static void two_processes_draw_growing_tokens(const char *url)
{
    char path[URL_SIZE];
    char where[2 * URL_SIZE + 1];
    struct child *children[2];
    snprintf(path, sizeof path, "%s/tokens", tempdir_make());
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    snprintf(where, sizeof where, "%s %s", path, url);
    for (size_t i = 0; i < 2; i++) {
        children[i] = child_start("drawer", where);
        char *line = child_read_line(children[i], 5000 * SLOWNESS);
        assert_non_null(line);
        free(line);
    }
    for (size_t i = 0; i < 2; i++) {
        child_write(children[i], "go\n");
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(child_wait(children[i], 60000), 0);
        child_free(children[i]);
    }
    assert_sorted(path, 2 * ROUNDS);
}

static void two_processes_by_turns(void **state)
{
    (void)state;
    char url[URL_SIZE];
    snprintf(url, sizeof url, "file://%s", tempdir_make());
    two_processes_draw_growing_tokens(server_url(server));
    two_processes_draw_growing_tokens(url);
}

struct drawer {
    pthread_t thread;
    pawl_client *client;
    int fd;
    bool well;
};

static void *draw_in_thread(void *arg)
{
    struct drawer *drawer = arg;
    pawl_lock *lock = NULL;
    drawer->well = pawl_lock_open(drawer->client, "x", NULL, &lock) == PAWL_OK;
    for (int i = 0; i < ROUNDS / 5 && drawer->well; i++) {
        drawer->well = hold_and_write(lock, drawer->fd);
    }
    pawl_lock_close(lock);
    return NULL;
}

/* Passed on from thread to thread without being free in between. */
static void threads_by_turns(void **state)
{
    (void)state;
    char path[URL_SIZE];
    struct drawer drawers[8];
    pawl_client *client = open_client(server_url(server), NULL);
    snprintf(path, sizeof path, "%s/tokens", tempdir_make());
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    for (size_t i = 0; i < 8; i++) {
        drawers[i] = (struct drawer){.client = client, .fd = fd};
        assert_int_equal(pthread_create(&drawers[i].thread, NULL, draw_in_thread, &drawers[i]), 0);
    }
    for (size_t i = 0; i < 8; i++) {
        pthread_join(drawers[i].thread, NULL);
        assert_true(drawers[i].well);
    }
    close(fd);
    assert_sorted(path, 8 * (ROUNDS / 5));
    ASSERT_OK(close_client(client));
}

static void on_files_it_grows_also_when_the_file_was_removed(void **state)
{
    (void)state;
    char url[URL_SIZE];
    const char *directory = tempdir_make();
    uint64_t last = 0;
    snprintf(url, sizeof url, "file://%s", directory);
    for (int i = 0; i < 6; i++) {
        pawl_client *client = open_client(url, NULL);
        pawl_lock *lock = open_lock(client, "x", LEASE_MS, true);
        for (int j = 0; j < 3; j++) {
            const uint64_t token = draw(lock);
            assert_true(token > last);
            last = token;
        }
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
        last = pawl_lock_token(lock);
        ASSERT_OK(pawl_lock_break(lock)); /* carries the token over */
        ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
        pawl_lock_close(lock);
        ASSERT_OK(close_client(client));
        if (i >= 3) {
            char command[2 * URL_SIZE];
            snprintf(command, sizeof command, "find %s -type f -delete", directory);
            assert_int_equal(system(command), 0);
        }
    }
    assert_true(last >= TOKEN_MIN);
}

int main(int argc, char *argv[])
{
    static const struct child_role roles[] = {{"drawer", hold_many_times}};
    child_dispatch(argc, argv, roles, 1);
    const struct CMUnitTest tests[] = {
        CASE(backend_begin, each_tenure_has_one_and_it_grows),
        CASE(backend_begin, it_begins_with_the_servers_clock_and_no_digit_is_lost),
        CASE(backend_begin, it_grows_whatever_happens_to_the_counter),
        CASE(backend_begin, a_counter_that_is_no_number_is_refused),
        CASE(backend_begin, it_grows_over_a_restart_without_data),
        CASE(backend_begin, it_grows_over_a_restart_from_an_old_snapshot),
        CASE(backend_begin, the_counter_ends_by_itself_as_asked),
        CASE(backend_begin, a_small_counter_of_redisson_gets_a_lifetime_when_it_is_lifted),
        CASE(backend_begin, ten_thousand_names_end_by_themselves),
        CASE(backend_begin, two_processes_by_turns),
        CASE(backend_begin, threads_by_turns),
        CASE(backend_begin, on_files_it_grows_also_when_the_file_was_removed),
    };
    return cmocka_run_group_tests(tests, backend_start, NULL);
}
