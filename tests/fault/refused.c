/* SPDX-License-Identifier: Apache-2.0 */
/* Servers and keys that are not fit for a lock, through the public calls: wrong passwords, missing
 * rights, replicas, servers that evict, load, are too old or full, keys that are somebody else's.
 *
 * Each gets its own status and a sentence that names the thing and the remedy and no password. No
 * call hangs, no descriptor or thread is left, and no key. */
#include "fault/lib/fault.h"

#include "support/scripted.h"
#include "support/text.h"
#include "support/thread.h"

#define SECRET "canary-7Zp"
#define LIMITS "?timeout=500ms&connect_timeout=500ms"

enum { LIMIT_MS = 1000 };

static struct server *server;
static size_t descriptors;
static size_t threads;

static int begin(void **state)
{
    const int result = cleanup_setup(state);
    server = NULL;
    return result;
}

/* To be called when servers and whatever else the test needs are there. */
static void remember_resources(void)
{
    pace_first_thread();
    descriptors = open_descriptor_count();
    threads = thread_count();
}

static void check_resources_are_back(void)
{
    WAIT_UNTIL(open_descriptor_count() == descriptors && thread_count() == threads, 2000);
}

static void check_sentence(const char *thing, const char *remedy)
{
    const char *sentence = pawl_last_error();
    print_message("    %s\n", sentence);
    if (strstr(sentence, thing) == NULL || strstr(sentence, remedy) == NULL) {
        support_fail("\"%s\" does not say \"%s\" and \"%s\"", sentence, thing, remedy);
    }
    assert_null(strstr(sentence, SECRET));
}

/* Opening a client must end so, in time, with both parts in its sentence. */
static void assert_not_opened(
    const char *url, pawl_status wanted, const char *thing, const char *remedy)
{
    pawl_client *client = NULL;
    remember_resources();
    const int64_t began_ms = boottime_ms();
    ASSERT_STATUS(wanted, pawl_client_open(url, NULL, &client));
    assert_true(boottime_ms() - began_ms <= LIMIT_MS + SLACK_MS);
    assert_null(client);
    check_sentence(thing, remedy);
    check_resources_are_back();
}

/* A client that opens; the lock does not, or cannot be acquired. */
static void assert_no_lock(
    const char *url, pawl_status wanted, const char *thing, const char *remedy)
{
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    remember_resources();
    ASSERT_OK(pawl_client_open(url, NULL, &client));
    const int64_t began_ms = boottime_ms();
    pawl_status status = pawl_lock_open(client, "x", NULL, &lock);
    status = status == PAWL_OK ? pawl_lock_acquire(lock, PAWL_TRY) : status;
    assert_status_at(status, wanted, "open and acquire", __FILE__, __LINE__);
    assert_true(boottime_ms() - began_ms <= LIMIT_MS + SLACK_MS);
    check_sentence(thing, remedy);
    if (lock != NULL) {
        assert_true(pawl_lock_token(lock) == 0);
        ASSERT_STATUS(PAWL_NOT_HELD, pawl_lock_release(lock));
    }
    pawl_lock_close(lock);
    pawl_client_close(client);
    check_resources_are_back();
}

static const char *url_with(const char *user, const char *rest)
{
    static char url[URL_SIZE];
    snprintf(url, sizeof url, "redis://%s127.0.0.1:%u%s", user, server_port(server), rest);
    return url;
}

/* ===== Who we are ===== */

static void passwords(void **state)
{
    (void)state;
    static const char *const args[] = {"--requirepass", "right", NULL};
    const struct server_options options = {.args = args, .password = "right"};
    server = server_start(&options);
    assert_not_opened(url_with("", LIMITS), PAWL_DENIED, "password", "password_env");
    assert_not_opened(url_with(":" SECRET "@", LIMITS), PAWL_DENIED, "password", "default");
    assert_not_opened(url_with("bob:" SECRET "@", LIMITS), PAWL_DENIED, "password", "bob");
    assert_int_equal(server_integer(server, "DBSIZE"), 0);
}

static void deny(const char *rules)
{
    free(server_command(server, "ACL DELUSER bob"));
    assert_true(server_answers(server, "OK", "ACL SETUSER bob on >" SECRET " %s", rules));
}

static void rights(void **state)
{
    (void)state;
    server = server_start(NULL);
    const char *user = "bob:" SECRET "@";
    deny("~* &* +@all -pexpire");
    assert_no_lock(url_with(user, LIMITS), PAWL_DENIED, "PEXPIRE", "ACL SETUSER bob +pexpire '~x'");
    deny("~* +@all resetchannels");
    assert_no_lock(url_with(user, LIMITS), PAWL_DENIED, "redisson_lock__channel:{x}",
        "+publish +subscribe '&redisson_lock__channel:{x}'");
    deny("&* +@all resetkeys ~redisson_lock_token:*");
    assert_no_lock(url_with(user, LIMITS), PAWL_DENIED, "key 'x'", "~x");
    deny("&* +@all resetkeys ~x");
    assert_no_lock(
        url_with(user, LIMITS), PAWL_DENIED, "redisson_lock_token:{x}", "~redisson_lock_token:{x}");
    deny("~* &* +@all -evalsha -eval -script");
    assert_not_opened(url_with(user, LIMITS), PAWL_DENIED, "scripts", "+evalsha");
    deny("~* &* +@all -select");
    assert_not_opened(url_with(user, "/3" LIMITS), PAWL_DENIED, "database 3", "+select");
    assert_int_equal(server_integer(server, "DBSIZE"), 0);
}

/* Rights that are taken away in the middle: the hold is kept as long as it can be, then lost. */
static void rights_that_go(void **state)
{
    (void)state;
    server = server_start(NULL);
    deny("~* &* +@all");
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 500;
    remember_resources();
    ASSERT_OK(pawl_client_open(url_with("bob:" SECRET "@", LIMITS), NULL, &client));
    ASSERT_OK(pawl_lock_open(client, "x", &options, &lock));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    assert_true(server_answers(server, "OK", "ACL SETUSER bob -hexists -pexpire"));
    WAIT_UNTIL(pawl_lock_token(lock) == 0, 500 + SLACK_MS);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    ASSERT_STATUS(PAWL_DENIED, pawl_lock_acquire(lock, 300));
    check_sentence("lock 'x'", "ACL SETUSER");
    assert_true(server_answers(server, "OK", "ACL SETUSER bob +hexists +pexpire"));
    ASSERT_OK(pawl_lock_acquire(lock, 1000));
    ASSERT_OK(pawl_lock_release(lock));
    ASSERT_OK(pawl_lock_close(lock));
    ASSERT_OK(pawl_client_close(client));
    check_resources_are_back();
    assert_int_equal(server_integer(server, "EXISTS x"), 0);
}

/* A release that cannot be told to anybody is a release all the same. */
static void the_right_to_publish_goes(void **state)
{
    (void)state;
    server = server_start(NULL);
    deny("~* &* +@all");
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    ASSERT_OK(pawl_client_open(url_with("bob:" SECRET "@", LIMITS), NULL, &client));
    ASSERT_OK(pawl_lock_open(client, "x", NULL, &lock));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    assert_true(server_answers(server, "OK", "ACL SETUSER bob -publish"));
    ASSERT_OK(pawl_lock_release(lock));
    assert_int_equal(server_integer(server, "EXISTS x"), 0);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_break(lock));
    assert_int_equal(server_integer(server, "EXISTS x"), 0);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(lock));
    ASSERT_OK(pawl_lock_close(lock));
    ASSERT_OK(pawl_client_close(client));
}

/* ===== What the server is ===== */

static void databases(void **state)
{
    (void)state;
    server = server_start(NULL);
    assert_not_opened(url_with("", "/99" LIMITS), PAWL_INVALID, "database 99", "out of range");
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    ASSERT_OK(pawl_client_open(url_with("", "/5"), NULL, &client));
    ASSERT_OK(pawl_lock_open(client, "x", NULL, &lock));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    assert_int_equal(server_integer(server, "EXISTS x"), 0); /* it is in another one */
    free(server_command(server, "SELECT 5"));
    assert_int_equal(server_integer(server, "EXISTS x"), 1);
    ASSERT_OK(pawl_lock_release(lock));
    ASSERT_OK(pawl_lock_close(lock));
    ASSERT_OK(pawl_client_close(client));
}

static void replicas(void **state)
{
    (void)state;
    struct server *primary = server_start(NULL);
    server = server_start_replica_of(primary, NULL);
    assert_not_opened(url_with("", LIMITS), PAWL_REFUSED, "replica", "master");
    assert_no_lock(url_with("", LIMITS "&guard=off"), PAWL_REFUSED, "replica", "master");
    assert_int_equal(server_integer(primary, "DBSIZE"), 0);
}

static _Atomic unsigned warnings;

static void note_warning(pawl_log_level level, const char *message, void *arg)
{
    (void)arg;
    print_message("    log: %s\n", message);
    if (level == PAWL_LOG_WARNING && strstr(message, "maxmemory-policy") != NULL) {
        atomic_fetch_add(&warnings, 1);
    }
}

static void eviction(void **state)
{
    (void)state;
    static const char *const args[] = {
        "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", NULL};
    const struct server_options server_options = {.args = args};
    server = server_start(&server_options);
    assert_not_opened(url_with("", LIMITS), PAWL_REFUSED, "allkeys-lru", "guard=warn");
    assert_not_opened(url_with("", LIMITS), PAWL_REFUSED, "evict", "noeviction");

    pawl_client *client = NULL;
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    options.guard = PAWL_GUARD_WARN;
    options.log = note_warning;
    ASSERT_OK(pawl_client_open(url_with("", LIMITS), &options, &client));
    WAIT_UNTIL(atomic_load(&warnings) == 1, 2000);
    ASSERT_OK(pawl_client_close(client));
    free(server_command(server, "CONFIG SET maxmemory-policy noeviction"));
    ASSERT_OK(pawl_client_open(url_with("", LIMITS), NULL, &client));
    ASSERT_OK(pawl_client_close(client));
}

/* What a client was warned of, by words that each sentence has. */
struct warned {
    _Atomic unsigned eviction;
    _Atomic unsigned info;
    _Atomic unsigned restart;
};

static void count_warning(pawl_log_level level, const char *message, void *arg)
{
    struct warned *warned = arg;
    print_message("    log: %s\n", message);
    if (level == PAWL_LOG_WARNING) {
        warned->eviction += strstr(message, "evict locks when") != NULL ? 1 : 0;
        warned->info += strstr(message, "+info") != NULL ? 1 : 0;
        warned->restart += strstr(message, "was restarted") != NULL ? 1 : 0;
    }
}

static pawl_lock *open_warned(const char *url, struct warned *warned, pawl_client **client_out)
{
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    pawl_lock *lock = NULL;
    options.guard = PAWL_GUARD_WARN;
    options.log = count_warning;
    options.log_arg = warned;
    ASSERT_OK(pawl_client_open(url, &options, client_out));
    ASSERT_OK(pawl_lock_open(*client_out, "x", NULL, &lock));
    return lock;
}

static void reconnect(pawl_lock *lock)
{
    server_kill_clients(server, "normal");
    ASSERT_OK(pawl_lock_acquire(lock, 2000));
    ASSERT_OK(pawl_lock_release(lock));
}

/* A server that closes idle connections has us greet it every few minutes. Warnings come in order,
 * so when a later one was heard all before it were. */
static void warned_once(void **state)
{
    (void)state;
    static const char *const args[] = {
        "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", NULL};
    const struct server_options options = {.args = args};
    struct warned warned = {0};
    pawl_client *client = NULL;
    server = server_start(&options);
    pawl_lock *lock = open_warned(url_with("", LIMITS), &warned, &client);
    for (int i = 0; i < 3; i++) {
        reconnect(lock);
    }
    server_restart(server, false);
    reconnect(lock);
    WAIT_UNTIL(warned.restart == 1, 2000);
    assert_int_equal(warned.eviction, 2); /* another server: again */
    ASSERT_OK(pawl_lock_close(lock));
    ASSERT_OK(pawl_client_close(client));
}

static void warned_once_of_each(void **state)
{
    (void)state;
    struct warned warned = {0};
    pawl_client *client = NULL;
    server = server_start(NULL);
    deny("~* &* +@all -info");
    pawl_lock *lock = open_warned(url_with("bob:" SECRET "@", LIMITS), &warned, &client);
    for (int i = 0; i < 3; i++) {
        reconnect(lock);
    }
    free(server_command(server, "CONFIG SET maxmemory 100mb"));
    free(server_command(server, "CONFIG SET maxmemory-policy allkeys-lru"));
    assert_true(server_answers(server, "OK", "ACL SETUSER bob +info"));
    reconnect(lock);
    WAIT_UNTIL(warned.eviction == 1, 2000);
    assert_int_equal(warned.info, 1);
    assert_int_equal(warned.restart, 0);
    ASSERT_OK(pawl_lock_close(lock));
    pawl_client_close(client); /* what was on its way to a run without a name stays in doubt */
}

static void full_of_data(void **state)
{
    (void)state;
    server = server_start(NULL);
    free(server_command(server, "CONFIG SET maxmemory 1"));
    assert_no_lock(url_with("", LIMITS), PAWL_REFUSED, "memory limit", "maxmemory");
    assert_int_equal(server_integer(server, "DBSIZE"), 0);
}

static void full_of_clients(void **state)
{
    (void)state;
    server = server_start(NULL);
    free(server_command(server, "CONFIG SET maxclients 1")); /* the operator is that one */
    assert_not_opened(url_with("", LIMITS), PAWL_UNAVAILABLE, "clients", "max number of clients");
    free(server_command(server, "CONFIG SET maxclients 100"));
    pawl_client *client = NULL;
    ASSERT_OK(pawl_client_open(url_with("", LIMITS), NULL, &client));
    ASSERT_OK(pawl_client_close(client));
}

/* ===== Loading ===== */

static void *reload(void *arg)
{
    char *reply = server_command(server, "DEBUG RELOAD");
    *(bool *)arg = strcmp(reply, "OK") == 0;
    free(reply);
    return NULL;
}

/* The server reads its data slowly and says so to everybody else. */
static void loading(void **state)
{
    (void)state;
    static const char *const args[] = {
        "--key-load-delay", "5000", "--loading-process-events-interval-bytes", "1024", NULL};
    const struct server_options options = {.args = args};
    pthread_t thread;
    bool reloaded = false;
    server = server_start(&options);
    free(server_command(server, "DEBUG POPULATE 400 key 2000"));
    thread_start(&thread, reload, &reloaded);
    pawl_client *client = NULL;
    pawl_status status = PAWL_OK;
    const int64_t end_ms = boottime_ms() + 1500;
    while (status != PAWL_REFUSED && boottime_ms() < end_ms) { /* it begins when it likes */
        status = pawl_client_open(url_with("", LIMITS), NULL, &client);
        if (status == PAWL_OK) {
            pawl_client_close(client);
        }
    }
    assert_status_at(status, PAWL_REFUSED, "open", __FILE__, __LINE__);
    check_sentence("loading", "can be used when");
    pthread_join(thread, NULL);
    assert_true(reloaded);
    ASSERT_OK(pawl_client_open(url_with("", LIMITS), NULL, &client));
    ASSERT_OK(pawl_client_close(client));
}

static void too_old(void **state)
{
    (void)state;
    struct scripted *scripted = scripted_start();
    char url[URL_SIZE];
    scripted_handle(
        scripted, "HELLO", "-ERR unknown command `HELLO`, with args beginning with: `3`, \\r\\n");
    scripted_handle(scripted, "INFO", "$8\\r\\nrole:x\\r\\n\\r\\n");
    snprintf(url, sizeof url, "%s" LIMITS, scripted_url(scripted));
    assert_not_opened(url, PAWL_REFUSED, "older than Redis 6", "6.0 or later");
}

/* ===== What stands under the name ===== */

static void check_foreign_key(const char *command, const char *type)
{
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    free(server_command(server, "FLUSHALL"));
    free(server_command(server, "%s", command));
    assert_no_lock(url_with("", LIMITS), PAWL_REFUSED, "lock 'x'", "choose another name");
    ASSERT_OK(pawl_client_open(url_with("", LIMITS), NULL, &client));
    ASSERT_OK(pawl_lock_open(client, "x", NULL, &lock));
    ASSERT_STATUS(PAWL_REFUSED, pawl_lock_acquire(lock, 300));
    ASSERT_STATUS(PAWL_REFUSED, pawl_lock_break(lock));
    assert_true(server_answers(server, type, "TYPE x"));
    assert_int_equal(server_integer(server, "EXISTS redisson_lock_token:{x}"), 0);
    ASSERT_OK(pawl_lock_close(lock));
    ASSERT_OK(pawl_client_close(client));
}

static void keys_of_another_type(void **state)
{
    (void)state;
    server = server_start(NULL);
    check_foreign_key("SET x 1", "string");
    check_foreign_key("RPUSH x 1", "list");
    check_foreign_key("SADD x 1", "set");
    check_foreign_key("ZADD x 1 1", "zset");
    check_foreign_key("XADD x * a 1", "stream");
}

static void a_strange_token_counter(void **state)
{
    (void)state;
    server = server_start(NULL);
    free(server_command(server, "SET redisson_lock_token:{x} abc"));
    assert_no_lock(url_with("", LIMITS), PAWL_REFUSED, "token counter", "remove the key");
    assert_int_equal(server_integer(server, "EXISTS x"), 0);
    free(server_command(server, "DEL redisson_lock_token:{x}"));
    free(server_command(server, "RPUSH redisson_lock_token:{x} abc"));
    assert_no_lock(url_with("", LIMITS), PAWL_REFUSED, "lock 'x'", "remove");
    assert_int_equal(server_integer(server, "EXISTS x"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(passwords, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(rights, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(rights_that_go, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(the_right_to_publish_goes, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(databases, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(replicas, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(eviction, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(warned_once, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(warned_once_of_each, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(full_of_data, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(full_of_clients, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(loading, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(too_old, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(keys_of_another_type, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(a_strange_token_counter, begin, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
