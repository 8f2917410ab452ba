/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis engine at the door: URLs, passwords, rights, and servers that are not fit to keep
 * locks.
 *
 * Method: real servers, set up as badly as they come; a scripted one for what no installed version
 * does. Each refusal must have its own status and a sentence that names the thing and the remedy,
 * and no sentence may have the password. */
#include "redis_side.h"

#include "support/scripted.h"

#define PASSWORD "s3cr3t-canary"

static struct server *server;

static int start(void **state)
{
    (void)state;
    server = server_start(NULL);
    return 0;
}

static void assert_works(struct side *side, const char *name)
{
    struct pawl__place *place = place_open(side, name);
    acquire(side, place, 1);
    assert_answer(side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    place_close(side, place);
}

static char *url_with(const char *credentials, const char *rest)
{
    struct text url = {0};
    text_addf(&url, "redis://%s127.0.0.1:%u%s", credentials, server_port(server), rest);
    return text_take(&url);
}

/* ===== URLs ===== */

static void bad_urls(void **state)
{
    (void)state;
    static const struct {
        const char *url, *part;
    } cases[] = {
        {"redis://h1,h2", "names one server"},
        {"redis://h/x", "the number of a database"},
        {"redis://h/1/2", "the number of a database"},
        {"redis://h/-1", "the number of a database"},
        {"redis://h/9999999999", "the number of a database"},
        {"redis://h?token_ttl=soon", "token_ttl"},
        {"redis+unix://h/x.sock", "full path"},
        {"redis+unix:///", "full path"},
        {"redis+unix:///x?db=many", "db"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct side side;
        side_init(&side);
        assert_int_equal(side_prepare(&side, cases[i].url), PAWL_INVALID);
        if (strstr(pawl__error_text(), cases[i].part) == NULL) {
            support_fail(
                "%s: \"%s\" does not say \"%s\"", cases[i].url, pawl__error_text(), cases[i].part);
        }
    }
}

static void unix_socket_and_database(void **state)
{
    (void)state;
    struct side side;
    char url[256];
    snprintf(url, sizeof url, "%s?db=3", server_unix_url(server));
    side_open(&side, url);
    struct pawl__place *place = place_open(&side, "in-three");
    acquire(&side, place, 1);
    assert_true(server_answers(server, "OK", "SELECT 3"));
    assert_int_equal(server_integer(server, "EXISTS in-three"), 1);
    assert_true(server_answers(server, "OK", "SELECT 0"));
    assert_int_equal(server_integer(server, "EXISTS in-three"), 0);
    place_close(&side, place);
    side_close(&side);

    char *tcp = url_with("", "/3");
    side_open(&side, tcp);
    place = place_open(&side, "in-three");
    assert_answer(&side, place, PAWL__OP_ACQUIRE, 2, PAWL__HELD);
    assert_answer(&side, place, PAWL__OP_BREAK, 0, PAWL__DONE);
    place_close(&side, place);
    side_close(&side);
    free(tcp);
}

static void database_out_of_range(void **state)
{
    (void)state;
    struct side side;
    char *url = url_with("", "/99");
    side_init(&side);
    assert_refused(&side, url, PAWL_INVALID,
        "has no database 99: they are counted from 0, and there are 16 unless `databases`");
    free(url);

    struct scripted *scripted = scripted_start(); /* a node of a cluster */
    scripted_handshake(scripted);
    scripted_handle(scripted, "SELECT", "-ERR SELECT is not allowed in cluster mode\\r\\n");
    char cluster[64];
    snprintf(cluster, sizeof cluster, "redis://127.0.0.1:%u/3", scripted_port(scripted));
    side_init(&side);
    assert_refused(&side, cluster, PAWL_INVALID, "database 0 alone; leave the 3 out");
}

static void nobody_is_there(void **state)
{
    (void)state;
    struct side side;
    side_init(&side);
    assert_refused(&side, "redis://127.0.0.1:1", PAWL_UNAVAILABLE,
        "cannot connect to 127.0.0.1:1: Connection refused");
    side_init(&side);
    assert_refused(&side, "redis+unix:///nowhere/x.sock", PAWL_UNAVAILABLE,
        "cannot connect to /nowhere/x.sock: No such file");
    side_init(&side);
    assert_refused(&side, "redis://[::1]:1", PAWL_UNAVAILABLE, "cannot connect to [::1]:1");
    side_init(&side);
    side.host.settings.connect_timeout_us = 5000000; /* the resolver's time is not ours */
    assert_refused(
        &side, "redis://no-such-host.invalid", PAWL_UNAVAILABLE, "no-such-host.invalid:6379");
}

static void names_are_looked_up(void **state)
{
    (void)state;
    struct side side;
    char url[64];
    snprintf(url, sizeof url, "redis://localhost:%u", server_port(server));
    side_open(&side, url);
    assert_works(&side, "by-name");
    side_close(&side);
}

/* A listener that accepts and says nothing. */
static void silence_ends_in_time(void **state)
{
    (void)state;
    struct side side;
    struct scripted *scripted = scripted_start();
    scripted_play(scripted, "SILENCE");
    side_init(&side);
    side.host.settings.timeout_us = 200000;
    const int64_t start_us = pawl__now_us();
    assert_refused(&side, scripted_url(scripted), PAWL_UNAVAILABLE, "does not answer the greeting");
    assert_true(pawl__now_us() - start_us < BOUND_MS * 1000);
}

static void not_a_redis(void **state)
{
    (void)state;
    struct side side;
    struct scripted *scripted = scripted_start();
    scripted_handle(scripted, "HELLO", "HTTP/1.1 400 Bad Request\\r\\n\\r\\n");
    side_init(&side);
    assert_refused(
        &side, scripted_url(scripted), PAWL_PROTOCOL, "does not speak the Redis protocol");

    scripted_handle(scripted, "HELLO", "+OK\\r\\n");
    side_init(&side);
    assert_refused(&side, scripted_url(scripted), PAWL_PROTOCOL, "as no Redis server does");
}

static void too_old(void **state)
{
    (void)state;
    struct side side;
    struct scripted *scripted = scripted_start();
    scripted_handle(scripted, "HELLO", "-ERR unknown command `HELLO`, with args\\r\\n");
    side_init(&side);
    assert_refused(&side, scripted_url(scripted), PAWL_REFUSED, "older than Redis 6");
}

static void turned_away(void **state)
{
    (void)state;
    struct side side;
    struct scripted *scripted = scripted_start();
    scripted_handle(scripted, "HELLO", "-ERR max number of clients reached\\r\\n");
    side_init(&side);
    assert_refused(&side, scripted_url(scripted), PAWL_UNAVAILABLE,
        "has no room for another client; raise its maxclients");
    assert_non_null(strstr(pawl__error_text(), "(ERR max number of clients reached)"));
    scripted_handle(scripted, "HELLO", "-DENIED Redis is running in protected mode\\r\\n");
    side_init(&side);
    assert_refused(&side, scripted_url(scripted), PAWL_DENIED, "protected mode");
}

/* ===== Passwords ===== */

static void passwords(void **state)
{
    (void)state;
    struct side side;
    free(server_command(server, "ACL SETUSER me on >%s ~* &* +@all", PASSWORD));
    char *url = url_with("me:" PASSWORD "@", "");
    side_open(&side, url);
    assert_works(&side, "with-password");
    side_close(&side);
    free(url);

    side_init(&side);
    url = url_with("me:not" PASSWORD "@", "");
    assert_refused(&side, url, PAWL_DENIED, "does not let user 'me' in");
    assert_non_null(strstr(pawl__error_text(), "?password_env=NAME or ?password_file=PATH"));
    assert_null(strstr(pawl__error_text(), PASSWORD));
    free(url);

    free(server_command(server, "ACL SETUSER idle on nopass ~* &* +@all"));
    struct pawl__url parsed;
    void *self = NULL;
    url = url_with("idle@", ""); /* it would quietly be the default user */
    assert_int_equal(pawl__url_parse(url, &parsed), PAWL_OK);
    assert_int_equal(pawl__engine_redis.open(&parsed, &side.host, &self), PAWL_INVALID);
    assert_non_null(strstr(pawl__error_text(), "names a user but no password"));
    pawl__url_free(&parsed);
    free(url);
    url = url_with("idle:any@", "");
    side_open(&side, url);
    assert_works(&side, "without-password");
    side_close(&side);
    free(url);
}

static void default_user_has_a_password(void **state)
{
    (void)state;
    struct side side;
    const char *const args[] = {"--requirepass", PASSWORD, NULL};
    const struct server_options options = {.args = args, .password = PASSWORD};
    struct server *locked = server_start(&options);
    side_init(&side);
    assert_refused(&side, server_url(locked), PAWL_DENIED, "wants a password");

    char url[128];
    snprintf(url, sizeof url, "redis://:%s@127.0.0.1:%u", PASSWORD, server_port(locked));
    side_open(&side, url);
    assert_works(&side, "lock");
    side_close(&side);
}

/* ===== Rights ===== */

#define KEYS "~lock:* ~redisson_lock_token:{lock:* "
#define CHANNELS "&redisson_lock__channel:{lock:* "
#define COMMANDS                                                                                \
    "-@all +hello +auth +evalsha +eval +script|load +pttl +hexists +hset +hdel +pexpire +incr " \
    "+get +set +time +publish +subscribe +unsubscribe +ping "

/* Open as a user with these rights, and no others. */
static void open_restricted(struct side *side, const char *rights)
{
    free(server_command(server, "ACL DELUSER few"));
    free(server_command(server, "ACL SETUSER few reset on >%s %s", PASSWORD, rights));
    char *url = url_with("few:" PASSWORD "@", "");
    side_open(side, url);
    free(url);
}

static void assert_place_denied(struct side *side, const char *name, const char *part)
{
    struct pawl__place *place = place_make(name, strlen(name));
    assert_int_equal(place_try(side, place), PAWL_DENIED);
    if (strstr(pawl__error_text(), part) == NULL) {
        support_fail("\"%s\" does not say \"%s\"", pawl__error_text(), part);
    }
    place_discard(place);
}

static void fewest_rights_suffice(void **state)
{
    (void)state;
    struct side side;
    open_restricted(&side, KEYS CHANNELS COMMANDS "+info +client|kill");
    assert_works(&side, "lock:1");
    struct pawl__place *place = place_open(&side, "lock:2");
    acquire(&side, place, 1);
    assert_answer(&side, place, PAWL__OP_VERIFY, 1, PAWL__DONE);
    assert_answer(&side, place, PAWL__OP_RENEW, 1, PAWL__DONE);
    assert_answer(&side, place, PAWL__OP_COUNT, 1, PAWL__DONE);
    struct call call;
    call_init(&call, place, PAWL__OP_PASS, 1);
    call.op.heir_id = 2;
    call.op.offer = true;
    call_run(&side, &call);
    assert_int_equal(call.op.answer, PAWL__DONE);
    assert_answer(&side, place, PAWL__OP_RELEASE, 2, PAWL__DONE);
    assert_false(side_logged(&side, "add"));
    place_close(&side, place);
    side_close(&side);
}

static void info_is_denied(void **state)
{
    (void)state;
    struct side side;
    open_restricted(&side, KEYS CHANNELS COMMANDS);
    assert_true(side_logged(&side, "with: redis-cli ACL SETUSER few +info"));
    assert_works(&side, "lock:1");
    side_close(&side);
}

static void missing_rights_are_named(void **state)
{
    (void)state;
    struct side side;
    open_restricted(&side, KEYS CHANNELS COMMANDS "+info");
    assert_place_denied(&side, "other", "PTTL, HEXISTS, HSET, HDEL, PEXPIRE on key 'other'");
    assert_non_null(
        strstr(pawl__error_text(), "INCR, GET, SET on key 'redisson_lock_token:{other}'"));
    assert_non_null(strstr(
        pawl__error_text(), "PUBLISH, SUBSCRIBE on channel 'redisson_lock__channel:{other}'"));
    assert_non_null(strstr(pawl__error_text(), "with: redis-cli ACL SETUSER few +pttl +hexists"));
    assert_non_null(strstr(pawl__error_text(), " '~other' "));
    assert_non_null(strstr(pawl__error_text(), " '&redisson_lock__channel:{other}'"));
    assert_works(&side, "lock:1");
    side_close(&side);

    open_restricted(&side, KEYS CHANNELS COMMANDS "-pexpire +info");
    assert_place_denied(&side, "lock:1",
        "may not run PEXPIRE on key 'lock:1'; add the rights with: redis-cli ACL SETUSER few "
        "+pexpire '~lock:1'");
    side_close(&side);
    open_restricted(&side, KEYS COMMANDS "+info");
    assert_place_denied(&side, "lock:1", "PUBLISH, SUBSCRIBE on channel");
    side_close(&side);
    open_restricted(&side, KEYS CHANNELS COMMANDS "-time +info");
    assert_place_denied(
        &side, "lock:1", "may not run TIME; add the rights with: redis-cli ACL SETUSER few +time");
    side_close(&side);
}

/* The advice is a command: a shell that gets it as it stands does what is meant. */
static void advice_can_be_pasted(void **state)
{
    (void)state;
    static const char *const names[] = {"plain", "it's \"odd\" $HOME `x`", "~root|&;<>(){}!#",
        "stars *?[a-z]^\\ \x01\xff end",
        "a name so long that it is cut in the sentence: 0123456789012345678901234567890123456789"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct side side;
        open_restricted(&side, KEYS CHANNELS COMMANDS "+info");
        assert_place_denied(&side, names[i], "redis-cli ");
        const char *advice = strstr(pawl__error_text(), "redis-cli ") + strlen("redis-cli ");
        char command[1200];
        snprintf(
            command, sizeof command, "redis-cli -p %u %s >/dev/null", server_port(server), advice);
        assert_int_equal(system(command), 0);
        assert_works(&side, names[i]);
        struct pawl__place *place = place_make("unlike", strlen("unlike")); /* nothing else */
        assert_int_equal(place_try(&side, place), PAWL_DENIED);
        place_discard(place);
        side_close(&side);
    }
}

/* A user who may use every key may still lack a command that only fair locks need. */
static void one_command_is_missing(void **state)
{
    (void)state;
    struct side side;
    open_restricted(&side, "~* &* +@all -rpush");
    assert_works(&side, "lock:1"); /* a mutex needs it not */
    struct pawl__place *place = place_make("lock:1", strlen("lock:1"));
    place->family = PAWL__FAMILY_FAIR;
    assert_int_equal(place_try(&side, place), PAWL_DENIED);
    assert_non_null(strstr(pawl__error_text(), "RPUSH"));
    place_discard(place);
    side_close(&side);
}

/* A fair lock needs more, and says so. */
static void fair_locks_need_more(void **state)
{
    (void)state;
    struct side side;
    open_restricted(&side, KEYS CHANNELS COMMANDS "+info");
    assert_works(&side, "lock:1"); /* a mutex does not */
    struct pawl__place *place = place_make("lock:1", strlen("lock:1"));
    place->family = PAWL__FAMILY_FAIR;
    assert_int_equal(place_try(&side, place), PAWL_DENIED);
    assert_non_null(strstr(pawl__error_text(), "LINDEX"));
    assert_non_null(strstr(pawl__error_text(), "on key 'redisson_lock_queue:{lock:1}'"));
    assert_non_null(strstr(pawl__error_text(), "on key 'redisson_lock_timeout:{lock:1}'"));
    const char *advice = strstr(pawl__error_text(), "redis-cli ") + strlen("redis-cli ");
    char command[1600];
    snprintf(command, sizeof command, "redis-cli -p %u %s >/dev/null", server_port(server), advice);
    assert_int_equal(system(command), 0);
    place_discard(place);

    place = place_open_as(&side, "lock:1", PAWL__FAMILY_FAIR);
    struct call call;
    acquire(&side, place, 1);
    for (uint64_t id = 2; id <= 3; id++) {
        call_init(&call, place, PAWL__OP_ACQUIRE, id);
        call.op.queue = true;
        call_run(&side, &call);
        assert_int_equal(call.op.answer, PAWL__HELD);
        assert_answer(&side, place, PAWL__OP_WATCH, id, PAWL__DONE);
    }
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    acquire(&side, place, 2);
    assert_answer(&side, place, PAWL__OP_RELEASE, 3, PAWL__GONE);
    assert_answer(&side, place, PAWL__OP_RELEASE, 2, PAWL__DONE);
    assert_int_equal(server_integer(server, "EXISTS redisson_lock_queue:{lock:1}"), 0);
    place_close(&side, place);
    side_close(&side);
}

/* A user who may use any channel by its name, but no longer one. */
static void channels_of_waiters_are_denied(void **state)
{
    (void)state;
    struct side side;
    open_restricted(&side, "~* &redisson_lock__channel:{lock:1} +@all");
    struct pawl__place *place = place_make("lock:1", strlen("lock:1"));
    place->family = PAWL__FAMILY_FAIR;
    assert_int_equal(place_try(&side, place), PAWL_DENIED);
    assert_non_null(strstr(pawl__error_text(), "on channel 'redisson_lock__channel:{lock:1}*'"));
    assert_non_null(strstr(pawl__error_text(), "'&redisson_lock__channel:{lock:1}*'"));
    place_discard(place);
    side_close(&side);
}

static void scripts_are_denied(void **state)
{
    (void)state;
    struct side side;
    free(server_command(server, "ACL SETUSER few reset on >%s ~* &* +@all -evalsha", PASSWORD));
    char *url = url_with("few:" PASSWORD "@", "");
    side_init(&side);
    assert_refused(
        &side, url, PAWL_DENIED, "with: redis-cli ACL SETUSER few +evalsha +eval '+script|load'");
    free(url);
}

/* Rights that go away later: the operation says so and leaves nothing half done. */
static void rights_are_taken_away(void **state)
{
    (void)state;
    struct side side;
    struct call call;
    free(server_command(server, "FLUSHALL"));
    open_restricted(&side, KEYS CHANNELS COMMANDS "+info");
    struct pawl__place *place = place_open(&side, "lock:1");
    acquire(&side, place, 1);

    free(server_command(server, "ACL SETUSER few -publish"));
    assert_answer(&side, place, PAWL__OP_RELEASE, 1, PAWL__DONE);
    assert_int_equal(server_integer(server, "EXISTS lock:1"), 0);

    free(server_command(server, "ACL SETUSER few -pexpire"));
    ask(&side, &call, place, PAWL__OP_ACQUIRE, 2);
    assert_ended(&call, PAWL__FAILED, PAWL_DENIED, false, "access list forbids it");
    assert_int_equal(server_integer(server, "EXISTS lock:1"), 0);

    free(server_command(server, "ACL SETUSER few resetkeys"));
    ask(&side, &call, place, PAWL__OP_ACQUIRE, 2);
    assert_ended(&call, PAWL__FAILED, PAWL_DENIED, false, "access list forbids it");
    place_close(&side, place);
    side_close(&side);
}

/* One key that is out of bounds must not keep the others from being renewed. */
static void one_renewal_is_denied(void **state)
{
    (void)state;
    enum { COUNT = 5 };
    struct side side;
    struct pawl__place *places[COUNT];
    struct call calls[COUNT];
    open_restricted(&side, "~lock:* ~lick:* ~redisson_lock_token:* &* " COMMANDS "+info");
    for (size_t i = 0; i < COUNT; i++) {
        char name[16];
        snprintf(name, sizeof name, "%s:%zu", i == 2 ? "lick" : "lock", i);
        places[i] = place_open(&side, name);
        acquire(&side, places[i], i + 1);
    }
    free(server_command(server, "ACL SETUSER few resetkeys ~lock:* ~redisson_lock_token:*"));
    for (size_t i = 0; i < COUNT; i++) {
        call_init(&calls[i], places[i], PAWL__OP_RENEW, i + 1);
        calls[i].op.next = i + 1 < COUNT ? &calls[i + 1].op : NULL;
    }
    pawl__engine_redis.submit(side.self, &calls[0].op, true);
    for (size_t i = 0; i < COUNT; i++) {
        call_finish(&side, &calls[i]);
        if (i == 2) {
            assert_ended(&calls[i], PAWL__FAILED, PAWL_DENIED, false, "lick:2");
        } else {
            assert_int_equal(calls[i].op.answer, PAWL__DONE);
        }
        place_close(&side, places[i]);
    }
    side_close(&side);
}

/* ===== The guard ===== */

static void replicas(void **state)
{
    (void)state;
    struct side side;
    struct server *replica = server_start_replica_of(server, NULL);
    side_init(&side);
    assert_refused(&side, server_url(replica), PAWL_REFUSED, "is a replica");
    side_init(&side);
    side.host.settings.guard = PAWL_GUARD_WARN;
    assert_refused(&side, server_url(replica), PAWL_REFUSED, "is a replica");

    side_init(&side);
    side.host.settings.guard = PAWL_GUARD_OFF;
    assert_int_equal(side_prepare(&side, server_url(replica)), PAWL_OK);
    assert_int_equal(side_try_connect(&side), PAWL_OK);
    struct pawl__place *place = place_open(&side, "lock");
    struct call call;
    ask(&side, &call, place, PAWL__OP_ACQUIRE, 1);
    assert_ended(&call, PAWL__FAILED, PAWL_REFUSED, true, "read-only replica");
    place_close(&side, place);
    side_close(&side);
}

static void eviction(void **state)
{
    (void)state;
    struct side side;
    const char *const args[] = {"--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru", NULL};
    const struct server_options options = {.args = args};
    struct server *evicting = server_start(&options);
    side_init(&side);
    assert_refused(&side, server_url(evicting), PAWL_REFUSED,
        "maxmemory-policy volatile-lru); set maxmemory-policy noeviction, or accept it with "
        "?guard=warn");
    side_init(&side);
    side.host.settings.guard = PAWL_GUARD_WARN;
    assert_int_equal(side_prepare(&side, server_url(evicting)), PAWL_OK);
    assert_int_equal(side_try_connect(&side), PAWL_OK);
    assert_true(side_logged(&side, "may evict locks"));
    side_close(&side);

    free(server_command(evicting, "CONFIG SET maxmemory-policy noeviction"));
    side_open(&side, server_url(evicting));
    assert_false(side_logged(&side, "evict"));
    side_close(&side);
}

static void loading_and_failing_over(void **state)
{
    (void)state;
    struct side side;
    struct scripted *scripted = scripted_start();
    scripted_handshake(scripted);
    scripted_set_info(scripted, "loading", "1");
    side_init(&side);
    assert_refused(&side, scripted_url(scripted), PAWL_REFUSED, "still loading");
    scripted_set_info(scripted, "loading", "0");
    scripted_set_info(scripted, "master_failover_state", "waiting-for-sync");
    side_init(&side);
    assert_refused(&side, scripted_url(scripted), PAWL_REFUSED, "failover");
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, cleanup_setup, cleanup_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(bad_urls),
        CASE(unix_socket_and_database),
        CASE(database_out_of_range),
        CASE(nobody_is_there),
        CASE(names_are_looked_up),
        CASE(silence_ends_in_time),
        CASE(not_a_redis),
        CASE(too_old),
        CASE(turned_away),
        CASE(passwords),
        CASE(default_user_has_a_password),
        CASE(fewest_rights_suffice),
        CASE(info_is_denied),
        CASE(missing_rights_are_named),
        CASE(advice_can_be_pasted),
        CASE(scripts_are_denied),
        CASE(one_command_is_missing),
        CASE(fair_locks_need_more),
        CASE(channels_of_waiters_are_denied),
        CASE(rights_are_taken_away),
        CASE(one_renewal_is_denied),
        CASE(replicas),
        CASE(eviction),
        CASE(loading_and_failing_over),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
