/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis engine: read/write locks next to holds of Redisson, to readers that are gone, and to
 * other things under the same name.
 *
 * Method: what a peer in Java does is done here by single commands, in the order in which its
 * scripts do them. */
#include "redis_shared.h"

#define JAVA "285475da-9152-4c83-822a-67ee2f116a79:54"
#define JAVA_HOLD "{lock}:" JAVA ":rwlock_timeout:"

/* ===== A peer in Java ===== */

static void java_reads(const char *count, int64_t lease_ms)
{
    if (server_integer(server, "EXISTS lock") == 0) {
        free(server_command(server, "HSET lock mode read"));
    }
    free(server_command(server, "HSET lock " JAVA " %s", count));
    free(server_command(server, "SET " JAVA_HOLD "%s 1 PX %lld", count, (long long)lease_ms));
    if (server_integer(server, "PTTL lock") < lease_ms) {
        free(server_command(server, "PEXPIRE lock %lld", (long long)lease_ms));
    }
}

/* The release of its only hold. As Redisson's does, it asks which holds of all readers are alive;
 * answers 1 if it has deleted the lock. */
static int64_t java_leaves(void)
{
    static const char script[] =
        "redis.call('HDEL', KEYS[1], ARGV[1]) "
        "redis.call('DEL', '{lock}:' .. ARGV[1] .. ':rwlock_timeout:1') "
        "local longest = -3 "
        "for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do "
        "  for i = tonumber(redis.call('HGET', KEYS[1], field)) or 0, 1, -1 do "
        "    local key = '{lock}:' .. field .. ':rwlock_timeout:' .. i "
        "    longest = math.max(longest, redis.call('PTTL', key)) "
        "  end "
        "end "
        "if longest > 0 then redis.call('PEXPIRE', KEYS[1], longest) return 0 end "
        "if redis.call('HGET', KEYS[1], 'mode') == 'write' then return 0 end "
        "return redis.call('DEL', KEYS[1])";
    const char *const words[] = {"EVAL", script, "1", "lock", JAVA};
    char *answer = server_command_words(server, sizeof words / sizeof words[0], words);
    const int64_t deleted = strtoll(answer, NULL, 10);
    free(answer);
    return deleted;
}

/* ===== Next to Redisson ===== */

static void java_and_we_read(void **state)
{
    (void)state;
    java_reads("1", 40000);
    assert_int_equal(reads(1, 30000), PAWL__DONE);
    assert_mode("read", 3);
    assert_reads(1, 30000);
    assert_ttl("lock", 40000);
    assert_int_equal(releases(1), PAWL__DONE);
    assert_mode("read", 2);
    assert_field(JAVA, "1");
    assert_ttl("lock", 40000);

    /* Java's release looks for the keys of everybody's holds, by these very names. */
    assert_int_equal(reads(2, 30000), PAWL__DONE);
    assert_int_equal(java_leaves(), 0);
    assert_mode("read", 2);
    assert_reads(2, 30000);
    assert_ttl("lock", 30000);
    assert_answer(&side, place, PAWL__OP_VERIFY, 2, PAWL__DONE);
    assert_int_equal(writes(3, 30000), PAWL__HELD);
    assert_int_equal(releases(2), PAWL__DONE);
    assert_free();
}

/* Trap 3: its first hold has expired, its second has only the key :2. */
static void java_reads_twice(void **state)
{
    (void)state;
    java_reads("2", 40000);
    assert_int_equal(writes(1, 30000), PAWL__HELD);
    assert_mode("read", 2);
    assert_int_equal(reads(2, 60000), PAWL__DONE);
    assert_int_equal(releases(2), PAWL__DONE);
    assert_field(JAVA, "2");
    assert_ttl("lock", 40000);
    assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__DONE);
    assert_free();
}

static void java_writes(void **state)
{
    (void)state;
    free(server_command(server, "HSET lock mode write " JAVA ":write 1"));
    free(server_command(server, "PEXPIRE lock 30000"));
    assert_int_equal(reads(1, 30000), PAWL__HELD);
    assert_int_equal(writes(2, 30000), PAWL__HELD);
    assert_int_equal(releases(1), PAWL__GONE);

    /* It reads, too, and then it only reads. */
    java_reads("1", 20000);
    assert_int_equal(reads(1, 30000), PAWL__HELD);
    free(server_command(server, "HDEL lock " JAVA ":write"));
    free(server_command(server, "HSET lock mode read"));
    assert_int_equal(reads(1, 30000), PAWL__DONE);
    assert_mode("read", 3);
    assert_ttl("lock", 30000);
    assert_int_equal(java_leaves(), 0);
    assert_reads(1, 30000);
}

/* What was a writer of ours has the key that keeps Java from deleting it, and a renewal makes it
 * anew. */
static void java_leaves_a_former_writer(void **state)
{
    (void)state;
    assert_int_equal(writes(1, 30000), PAWL__DONE);
    assert_int_equal(renews(PAWL_READ, 1, 30000), PAWL__DONE);
    java_reads("1", 20000);
    assert_int_equal(java_leaves(), 0);
    assert_reads(1, 30000);
    free(server_command(server, "DEL %s", hold(1)));
    java_reads("1", 20000);
    assert_int_equal(renews(PAWL_READ, 1, 40000), PAWL__DONE);
    assert_int_equal(java_leaves(), 0);
    assert_ttl("lock", 40000);
    assert_int_equal(releases(1), PAWL__DONE);
    assert_free();
}

/* A hold of ours among a writer of theirs is strange, but must not shorten the writer's. */
static void a_reader_leaves_a_writer_alone(void **state)
{
    (void)state;
    reads(1, 10000);
    free(server_command(server, "HSET lock mode write " JAVA ":write 1"));
    free(server_command(server, "PEXPIRE lock 60000"));
    const int fd = listener();
    assert_int_equal(releases(1), PAWL__DONE);
    assert_mode("write", 2);
    assert_ttl("lock", 60000);
    assert_int_equal(server_integer(server, "EXISTS %s", hold(1)), 0);
    assert_nothing_heard(fd);
    close(fd);
}

/* The other way round: our writer leaves, and theirs read on. */
static void a_writer_leaves_readers_behind(void **state)
{
    (void)state;
    writes(1, 60000);
    java_reads("1", 20000);
    const int fd = listener();
    assert_int_equal(releases(1), PAWL__DONE);
    assert_mode("read", 2);
    assert_ttl("lock", 20000);
    assert_heard(fd, "1");

    free(server_command(server, "DEL lock " JAVA_HOLD "1"));
    writes(2, 60000);
    free(server_command(server, "HSET lock " JAVA " 1")); /* a reader that is gone */
    assert_int_equal(releases(2), PAWL__DONE);
    assert_free();
    assert_heard(fd, "1");
    close(fd);
}

/* ===== Readers that are gone ===== */

/* A reader whose key is gone may be one that Redisson forgot to renew: it keeps a writer out until
 * the lock's own time is over, or until the last that is alive leaves. */
static void gone_readers_count_until_the_last_leaves(void **state)
{
    (void)state;
    java_reads("1", 40000);
    free(server_command(server, "DEL " JAVA_HOLD "1"));
    assert_int_equal(writes(1, 30000), PAWL__HELD);
    assert_mode("read", 2);

    reads(2, 30000);
    assert_int_equal(writes(3, 30000), PAWL__HELD);
    assert_field(owner(2), "1");

    /* The last that is alive takes the dead with it. */
    java_reads("1", 40000);
    free(server_command(server, "DEL " JAVA_HOLD "1"));
    const int fd = listener();
    assert_int_equal(releases(2), PAWL__DONE);
    assert_free();
    assert_heard(fd, "0");
    close(fd);
}

static void add_gone_readers(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        free(server_command(server, "HSET lock mode read 00000000-0000-4000-8000-%012u:1 1", i));
    }
    free(server_command(server, "PEXPIRE lock 60000"));
}

/* Too many to know how long they live: nothing is shortened. */
static void a_crowd_that_is_gone(void **state)
{
    (void)state;
    add_gone_readers(600);
    reads(2, 90000);
    assert_ttl("lock", 90000);
    assert_int_equal(releases(2), PAWL__DONE);
    assert_mode("read", 601);
    assert_ttl("lock", 90000);
}

/* ===== Other families under the same name ===== */

static void a_mutex_excludes_both(void **state)
{
    (void)state;
    free(server_command(server, "HSET lock " JAVA " 1"));
    free(server_command(server, "PEXPIRE lock 30000"));
    const struct pawl__op read = operate(PAWL__OP_ACQUIRE, PAWL_READ, 1, 30000);
    assert_int_equal(read.answer, PAWL__HELD);
    assert_true(read.hint_us > 20000000 && read.hint_us <= 30000000);
    assert_int_equal(writes(2, 30000), PAWL__HELD);
    assert_true(server_answers(server, JAVA " 1", "HGETALL lock"));
    const int fd = listener();
    assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__DONE);
    assert_heard(fd, "0");
    assert_message(fd, "pmessage * redisson_lock__channel:{lock} 0");
    assert_int_equal(server_integer(server, "EXISTS lock"), 0);
    close(fd);
}

static void a_mutex_is_excluded(void **state)
{
    (void)state;
    struct side other;
    side_open(&other, server_url(server));
    struct pawl__place *mutex = place_open(&other, "lock");
    reads(1, 30000);
    assert_answer(&other, mutex, PAWL__OP_ACQUIRE, 1, PAWL__HELD);
    assert_mode("read", 2);
    place_close(&other, mutex);
    side_close(&other);
}

static void a_key_of_another_type(void **state)
{
    (void)state;
    static const enum pawl__op_kind gone[] = {
        PAWL__OP_RENEW, PAWL__OP_VERIFY, PAWL__OP_COUNT, PAWL__OP_RELEASE};
    free(server_command(server, "SET lock data"));
    for (int i = 0; i < 3; i++) {
        struct call call;
        call_init(&call, place, i == 2 ? PAWL__OP_BREAK : PAWL__OP_ACQUIRE, 1);
        call.op.as = i == 0 ? PAWL_READ : PAWL_WRITE;
        call_run(&side, &call);
        assert_ended(&call, PAWL__FAILED, PAWL_REFUSED, false, "is not a lock");
    }
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        assert_answer(&side, place, gone[i], 1, PAWL__GONE);
    }
    assert_true(server_answers(server, "data", "GET lock"));
    char *keys = server_command(server, "KEYS *timeout*");
    assert_string_equal(keys, "");
    free(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHARED_CASE(java_and_we_read),
        SHARED_CASE(java_reads_twice),
        SHARED_CASE(java_writes),
        SHARED_CASE(java_leaves_a_former_writer),
        SHARED_CASE(a_reader_leaves_a_writer_alone),
        SHARED_CASE(a_writer_leaves_readers_behind),
        SHARED_CASE(gone_readers_count_until_the_last_leaves),
        SHARED_CASE(a_crowd_that_is_gone),
        SHARED_CASE(a_mutex_excludes_both),
        SHARED_CASE(a_mutex_is_excluded),
        SHARED_CASE(a_key_of_another_type),
    };
    return cmocka_run_group_tests(tests, fixture_start, NULL);
}
