/* SPDX-License-Identifier: Apache-2.0 */
/* The read/write lock: readers of both languages together, a writer of either alone, and nobody's
 * release or renewal touches the other's hold. */
#include "common.h"

#define SHORT_MS 1500

/* Both halves of one name, as two clients of ours would have them. */
struct halves {
    pawl_lock *read;
    pawl_lock *write;
};

static struct halves open_halves(const char *name)
{
    struct halves halves;
    halves.read = own_kind(open_client(server_url(server), NULL), name, PAWL_READ, LONG_MS);
    halves.write = own_kind(open_client(server_url(server), NULL), name, PAWL_WRITE, LONG_MS);
    return halves;
}

static void await_shared_waiters(const char *name, int listeners, int64_t asked)
{
    char channel[300];
    snprintf(channel, sizeof channel, "redisson_rwlock:{%s}", name);
    await_waiters(channel, listeners, asked);
}

static void readers_share_and_keep_writers_out(void **state)
{
    (void)state;
    const struct halves ours = open_halves("readers");
    ASSERT_OK(pawl_lock_acquire(ours.read, PAWL_TRY));
    PEER_SAYS("true", java, "T1", "read readers tryLock -1 %d", LONG_MS);
    PEER_SAYS("false", java, "T2", "write readers tryLock");
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(ours.write, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(ours.read));
    PEER_SAYS("false", java, "T2", "write readers tryLock");
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(ours.write, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire(ours.read, PAWL_TRY));
    PEER_SAYS("ok", java, "T1", "read readers unlock");
    PEER_SAYS("false", java, "T2", "write readers tryLock");
    ASSERT_OK(pawl_lock_release(ours.read));
    assert_true(server_answers(server, "0", "EXISTS readers"));
    PEER_SAYS("true", java, "T2", "write readers tryLock");
}

static void a_writer_is_alone(void **state)
{
    (void)state;
    const struct halves ours = open_halves("writer");
    ASSERT_OK(pawl_lock_acquire(ours.write, PAWL_TRY));
    PEER_SAYS("false", java, "T1", "read writer tryLock");
    PEER_SAYS("false", java, "T1", "write writer tryLock");
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(ours.read, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(ours.write));
    PEER_SAYS("true", java, "T1", "write writer tryLock -1 %d", LONG_MS);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(ours.read, PAWL_TRY));
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(ours.write, PAWL_TRY));
    PEER_SAYS("ok", java, "T1", "write writer unlock");
    ASSERT_OK(pawl_lock_acquire(ours.write, PAWL_TRY));
}

static void our_writer_wakes_all_of_javas_readers(void **state)
{
    (void)state;
    const struct halves ours = open_halves("wake-all");
    ASSERT_OK(pawl_lock_acquire(ours.write, PAWL_TRY));
    const int64_t asked = scripts_run();
    const unsigned first = peer_ask(java, "T1", "read wake-all lock %d", LONG_MS);
    const unsigned second = peer_ask(java, "T2", "read wake-all lock %d", LONG_MS);
    await_shared_waiters("wake-all", 1, asked + 2);
    ASSERT_OK(pawl_lock_release(ours.write));
    PEER_ANSWERS("ok", java, first, WOKEN_MS);
    PEER_ANSWERS("ok", java, second, WOKEN_MS);
}

static void our_reader_wakes_javas_writer(void **state)
{
    (void)state;
    const struct halves ours = open_halves("wake-w");
    ASSERT_OK(pawl_lock_acquire(ours.read, PAWL_TRY));
    const int64_t asked = scripts_run();
    const unsigned waiting = peer_ask(java, "T1", "write wake-w lock %d", LONG_MS);
    await_shared_waiters("wake-w", 1, asked);
    ASSERT_OK(pawl_lock_release(ours.read));
    PEER_ANSWERS("ok", java, waiting, WOKEN_MS);
}

/* Java releases one half while we wait for one. A client that has listened before need not ask
 * twice, so each round has a new one (see await_waiters). */
static void assert_heard(const char *half, pawl_kind kind)
{
    const char *name = "hear";
    int64_t took_ms = PATIENCE_MS;
    for (int round = 0; round < 5 && took_ms >= HEARD_MS; round++) {
        pawl_client *client = open_client(server_url(server), NULL);
        pawl_lock *lock = own_kind(client, name, kind, LONG_MS);
        PEER_SAYS("ok", java, "T1", "%s %s lock %d", half, name, LONG_MS);
        const int64_t asked = scripts_run();
        struct caller *caller = caller_start(lock, LONG_MS);
        await_shared_waiters(name, 1, asked);
        PEER_SAYS("ok", java, "T1", "%s %s unlock", half, name);
        ASSERT_OK(caller_end(caller, &took_ms));
        ASSERT_OK(close_client(client));
    }
    assert_true(took_ms < HEARD_MS);
}

static void we_hear_java_release_either_half(void **state)
{
    (void)state;
    assert_heard("write", PAWL_READ);
    assert_heard("write", PAWL_WRITE);
    assert_heard("read", PAWL_WRITE);
}

/* Who writes may read, and go on reading when it no longer writes. */
static void a_writer_may_become_a_reader(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.kind = PAWL_WRITE;
    pawl_lock *write = open_lock_with(client, "down", &options);
    options.kind = PAWL_READ;
    pawl_lock *read = open_lock_with(client, "down", &options);
    ASSERT_OK(pawl_lock_acquire(write, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire(read, PAWL_TRY));
    PEER_SAYS("false", java, "T1", "read down tryLock");
    const int64_t asked = scripts_run();
    const unsigned waiting = peer_ask(java, "T1", "read down lock %d", LONG_MS);
    await_shared_waiters("down", 1, asked);
    ASSERT_OK(pawl_lock_release(write)); /* Redisson's own tells nobody here; ours does */
    PEER_ANSWERS("ok", java, waiting, WOKEN_MS);
    PEER_SAYS("false", java, "T2", "write down tryLock");
    PEER_SAYS("ok", java, "T1", "read down unlock");
    PEER_SAYS("false", java, "T2", "write down tryLock");
    ASSERT_OK(pawl_lock_release(read));

    PEER_SAYS("true", java, "T1", "write down tryLock -1 %d", LONG_MS);
    PEER_SAYS("true", java, "T1", "read down tryLock -1 %d", LONG_MS);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(read, PAWL_TRY));
    PEER_SAYS("ok", java, "T1", "write down unlock");
    ASSERT_OK(pawl_lock_acquire(read, PAWL_TRY));
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(open_halves("down").write, PAWL_TRY));
    PEER_SAYS("ok", java, "T1", "read down unlock");
    ASSERT_OK(pawl_lock_release(read));
    assert_true(server_answers(server, "0", "EXISTS down"));
}

/* One side reads for longer than its lease while readers of the other come and go, on two names at
 * once. Redisson drops the whole lock at a release if a reader that stays has no time left in its
 * own key. */
static void long_readers_stay_while_others_come_and_go(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *ours = own_kind(client, "ours", PAWL_READ, WATCHDOG_MS);
    const struct halves visitor = open_halves("theirs");
    ASSERT_OK(pawl_lock_acquire(ours, PAWL_TRY));
    PEER_SAYS("ok", java, "T1", "read theirs lock");
    const int64_t end_ms = boottime_ms() + WATCHDOG_MS + WATCHDOG_MS / 2;
    while (boottime_ms() < end_ms) {
        PEER_SAYS("true", java, "T2", "read ours tryLock -1 %d", LONG_MS);
        PEER_SAYS("ok", java, "T2", "read ours unlock");
        PEER_SAYS("false", java, "T2", "write ours tryLock");
        ASSERT_OK(pawl_lock_acquire(visitor.read, PAWL_TRY));
        ASSERT_OK(pawl_lock_release(visitor.read));
        ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(visitor.write, PAWL_TRY));
        nap_ms(100);
    }
    assert_true(pawl_lock_remaining_ms(ours) > 0);
    PEER_SAYS("true", java, "T1", "read theirs isHeld");
    ASSERT_OK(pawl_lock_release(ours));
    PEER_SAYS("true", java, "T2", "write ours tryLock");
    PEER_SAYS("ok", java, "T1", "read theirs unlock");
    ASSERT_OK(pawl_lock_acquire(visitor.write, PAWL_TRY));
}

/* The key of a hold is made of the lock's name, its braces and the owner. Redisson drops the lock
 * if it does not find that key when another reader leaves. */
static void javas_release_finds_our_hold_whatever_the_name(void **state)
{
    (void)state;
    static const char *const names[] = {"plain", "{tag}name", "na{me", "a}b"};
    pawl_client *client = open_client(server_url(server), NULL);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        pawl_lock *read = own_kind(client, names[i], PAWL_READ, LONG_MS);
        ASSERT_OK(pawl_lock_acquire(read, PAWL_TRY));
        PEER_SAYS("true", java, "T1", "read %s tryLock -1 %d", names[i], LONG_MS);
        PEER_SAYS("ok", java, "T1", "read %s unlock", names[i]);
        PEER_SAYS("false", java, "T2", "write %s tryLock", names[i]);
        PEER_SAYS("true", java, "T1", "read %s tryLock -1 %d", names[i], LONG_MS);
        ASSERT_OK(pawl_lock_release(read));
        PEER_SAYS("false", java, "T2", "write %s tryLock", names[i]);
        PEER_SAYS("ok", java, "T1", "read %s unlock", names[i]);
        assert_false(is_locked(server, names[i]));
    }
}

static void a_killed_reader_of_ours_ends_with_its_lease(void **state)
{
    (void)state;
    struct child *victim = start_victim("killed-r", PAWL_READ, SHORT_MS, PAWL_TRY);
    await_victim(victim);
    kill_victim(victim);
    PEER_SAYS("false", java, "T1", "write killed-r tryLock");
    PEER_SAYS("true", java, "T1", "write killed-r tryLock %d %d", PATIENCE_MS, LONG_MS);
}

static void a_killed_reader_of_java_ends_with_its_lease(void **state)
{
    (void)state;
    const struct halves ours = open_halves("killed-rj");
    struct peer *victim = peer_start(server_url(server), SHORT_MS);
    PEER_SAYS("ok", victim, "T1", "read killed-rj lock");
    peer_kill(victim);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(ours.write, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire(ours.write, PATIENCE_MS));
    PEER_SAYS("false", java, "T1", "read killed-rj tryLock");
}

static void writers_count_and_readers_see_them_whole(void **state)
{
    (void)state;
    enum { ROUNDS = 100 };
    const char *path = number_make();
    pawl_client *client = open_client(server_url(server), NULL);
    struct hammers *hammers = hammers_start(client, "rw", PAWL_WRITE, path, 2, ROUNDS);
    const unsigned writer = peer_ask(java, "T1", "write rw hammer %s %d", path, ROUNDS);
    const unsigned reader = peer_ask(java, "T2", "read rw peek %s %d", path, ROUNDS);
    hammers_end(hammers, 2 * LONG_MS);
    PEER_ANSWERS("ok", java, writer, 2 * LONG_MS);
    PEER_ANSWERS("moved 0", java, reader, 2 * LONG_MS);
    assert_int_equal(number_read(path), 3 * ROUNDS);
}

/* Redisson's own read/write lock does not see a plain lock of that name; ours does. */
static void a_plain_lock_of_java_keeps_both_halves_out(void **state)
{
    (void)state;
    const struct halves ours = open_halves("plain");
    PEER_SAYS("ok", java, "T1", "lock plain lock %d", LONG_MS);
    assert_int_not_equal(pawl_lock_acquire(ours.read, PAWL_TRY), PAWL_OK);
    assert_int_not_equal(pawl_lock_acquire(ours.write, PAWL_TRY), PAWL_OK);
    PEER_SAYS("ok", java, "T1", "lock plain unlock");
    ASSERT_OK(pawl_lock_acquire(ours.write, PAWL_TRY));
    PEER_SAYS("false", java, "T1", "lock plain tryLock");
}

static void our_mutex_respects_javas_readers_and_writers(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *mutex = own_handle(client, "mixed", LONG_MS, true);
    static const char *const halves[] = {"read", "write"};
    for (int i = 0; i < 2; i++) {
        PEER_SAYS("ok", java, "T1", "%s mixed lock %d", halves[i], LONG_MS);
        assert_int_not_equal(pawl_lock_acquire(mutex, PAWL_TRY), PAWL_OK);
        PEER_SAYS("true", java, "T1", "%s mixed isHeld", halves[i]);
        PEER_SAYS("ok", java, "T1", "%s mixed unlock", halves[i]);
    }
    ASSERT_OK(pawl_lock_acquire(mutex, PAWL_TRY));
}

int run_shared_cases(void)
{
    const struct CMUnitTest tests[] = {
        INTEROP_CASE(readers_share_and_keep_writers_out),
        INTEROP_CASE(a_writer_is_alone),
        INTEROP_CASE(our_writer_wakes_all_of_javas_readers),
        INTEROP_CASE(our_reader_wakes_javas_writer),
        INTEROP_CASE(we_hear_java_release_either_half),
        INTEROP_CASE(a_writer_may_become_a_reader),
        INTEROP_CASE(long_readers_stay_while_others_come_and_go),
        INTEROP_CASE(javas_release_finds_our_hold_whatever_the_name),
        INTEROP_CASE(a_killed_reader_of_ours_ends_with_its_lease),
        INTEROP_CASE(a_killed_reader_of_java_ends_with_its_lease),
        INTEROP_CASE(writers_count_and_readers_see_them_whole),
        INTEROP_CASE(a_plain_lock_of_java_keeps_both_halves_out),
        INTEROP_CASE(our_mutex_respects_javas_readers_and_writers),
    };
    return cmocka_run_group_tests_name("interop: read/write", tests, NULL, NULL);
}
