/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning of a connection: servers that greet us strangely, and the order of what we say.
 *
 * HELLO is first, and nothing of a lock is said before the server is known to be fit for one. A
 * connection that was lost with unanswered writes is killed before anything else is asked on the
 * next one. Each server that cannot be used gets its own status and sentence at once. */
#include "wire/lib/talk.h"

#include <strings.h>

#define HELLO_HEAD "$6\\r\\nserver\\r\\n$5\\r\\nredis\\r\\n$7\\r\\nversion\\r\\n"
#define HELLO_ID "$5\\r\\nproto\\r\\n:3\\r\\n$2\\r\\nid\\r\\n:1\\r\\n"
#define HELLO_GOOD "%4\\r\\n" HELLO_HEAD "$6\\r\\n7.0.15\\r\\n" HELLO_ID

static void assert_order(size_t connection, const char *wanted)
{
    char *order = talk_order(connection);
    if (strcasecmp(order, wanted) != 0) {
        support_fail("connection %zu said \"%s\", not \"%s\"", connection, order, wanted);
    }
    free(order);
}

/* ===== The order ===== */

static void of_a_first_connection(void **state)
{
    (void)state;
    assert_works(talk_lock(talk_client(NULL)));
    assert_order(1, "HELLO INFO LOAD RIGHTS ACQUIRE RELEASE");
    assert_int_equal(scripted_count(scripted, "HELLO 3"), 1);
    assert_int_equal(scripted_accepted(scripted), 1); /* nobody waited: no second one */
}

static void with_a_database_and_a_password(void **state)
{
    (void)state;
    char url[128];
    pawl_client *client = NULL;
    snprintf(url, sizeof url, "redis://ann:secret@127.0.0.1:%u/7", scripted_port(scripted));
    ASSERT_OK(pawl_client_open(url, NULL, &client));
    assert_order(1, "HELLO SELECT INFO LOAD RIGHTS");
    assert_int_equal(scripted_count(scripted, "HELLO 3 AUTH ann secret"), 1);
    assert_int_equal(scripted_count(scripted, "SELECT 7"), 1);
    ASSERT_OK(pawl_client_close(client));
}

static void every_script_of_a_mutex_is_loaded(void **state)
{
    (void)state;
    talk_client(NULL);
    const struct pawl__script *const scripts[] = {&pawl__script_acquire, &pawl__script_renew,
        &pawl__script_count, &pawl__script_release, &pawl__script_pass, &pawl__script_inspect,
        &pawl__script_break, &pawl__script_rights, &pawl__script_introduce};
    assert_int_equal(scripted_count(scripted, "SCRIPT LOAD *"), COUNT(scripts));
    for (size_t i = 0; i < COUNT(scripts); i++) {
        size_t found = 0;
        struct resp_words words;
        for (size_t j = 0; scripted_command_words(scripted, j, &words); j++) {
            found += words.count == 3 && words.sizes[2] == scripts[i]->text_size &&
                             memcmp(words.items[2], scripts[i]->text, words.sizes[2]) == 0
                         ? 1
                         : 0;
            resp_free_words(&words);
        }
        assert_int_equal(found, 1);
    }
}

/* Older servers cannot be asked about rights. */
static void of_redis_6(void **state)
{
    (void)state;
    scripted_set_info(scripted, "redis_version", "6.0.16");
    assert_works(talk_lock(talk_client(NULL)));
    assert_order(1, "HELLO INFO LOAD ACQUIRE RELEASE");
}

static void after_an_unanswered_write_the_old_one_is_killed_first(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    talk_then(&pawl__script_acquire, "RESET");
    assert_works(lock);
    assert_order(2, "HELLO INFO KILL LOAD RIGHTS ACQUIRE RELEASE");
    assert_int_equal(scripted_count(scripted, "CLIENT KILL ID 1"), 1);
}

/* A hold that was there before is looked at before anybody else's wish. */
static void after_a_lost_release_the_old_one_is_killed_first(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    talk_then(&pawl__script_release, "CLOSE");
    ASSERT_OK(pawl_lock_release(lock));
    assert_order(2, "HELLO INFO KILL LOAD RIGHTS RELEASE");
}

static void without_unanswered_writes_nobody_is_killed(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    pawl_lock_info info = {.size = sizeof info};
    talk_then(&pawl__script_inspect, "RESET"); /* a look: no harm if it comes late */
    const pawl_status status = pawl_lock_inspect(lock, &info);
    assert_true(status == PAWL_OK || status == PAWL_UNAVAILABLE);
    assert_works(lock);
    assert_order(2, status == PAWL_OK ? "HELLO INFO LOAD RIGHTS INSPECT ACQUIRE RELEASE"
                                      : "HELLO INFO LOAD RIGHTS ACQUIRE RELEASE");
}

/* Say anything, so that the client notices that the connection has gone. */
static void find_out(pawl_lock *lock)
{
    pawl_lock_info info = {.size = sizeof info};
    const pawl_status status = pawl_lock_inspect(lock, &info);
    assert_true(status == PAWL_OK || status == PAWL_UNAVAILABLE);
}

static void a_held_lock_is_verified_on_the_new_connection(void **state)
{
    (void)state;
    pawl_client *client = talk_client(NULL);
    pawl_lock *renewed = talk_lock(client);
    ASSERT_OK(pawl_lock_acquire(renewed, PAWL_TRY));
    scripted_play(scripted, "ON HELLO ...\nCLOSE");
    assert_true(scripted_wait_done(scripted, 2000));
    find_out(renewed);
    WAIT_UNTIL(talk_calls(&pawl__script_renew) >= 1, 3000);
    ASSERT_OK(pawl_lock_release(renewed));
}

static void a_fixed_one_is_only_looked_at(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock_with(talk_client(NULL), LEASE_MS, false, false);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    scripted_play(scripted, "ON HELLO ...\nCLOSE");
    assert_true(scripted_wait_done(scripted, 2000));
    find_out(lock);
    WAIT_UNTIL(scripted_count(scripted, "HEXISTS x *") >= 1, 3000);
    assert_int_equal(talk_calls(&pawl__script_renew), 0);
    ASSERT_OK(pawl_lock_release(lock));
}

/* ===== HELLO ===== */

struct greeting {
    const char *reply; /* to HELLO; NULL: the usual one */
    const char *field; /* of INFO, changed */
    const char *value;
    pawl_status status;
    const char *says;
};

static const struct greeting greetings[] = {
    {"-NOAUTH HELLO must be called with the client already authenticated\\r\\n", NULL, NULL,
        PAWL_DENIED, "password"},
    {"-WRONGPASS invalid username-password pair or user is disabled.\\r\\n", NULL, NULL,
        PAWL_DENIED, "does not let user 'default' in"},
    {"-NOPERM this user has no permissions to run the 'hello' command\\r\\n", NULL, NULL,
        PAWL_DENIED, "denies it"},
    {"-DENIED Redis is running in protected mode\\r\\n", NULL, NULL, PAWL_DENIED, "protected mode"},
    {"-NOPROTO unsupported protocol version\\r\\n", NULL, NULL, PAWL_REFUSED, "older than Redis 6"},
    {"-ERR unknown command `HELLO`\\r\\n", NULL, NULL, PAWL_REFUSED, "older than Redis 6"},
    {"-ERR max number of clients reached\\r\\n", NULL, NULL, PAWL_UNAVAILABLE, "maxclients"},
    {"-LOADING Redis is loading\\r\\n", NULL, NULL, PAWL_REFUSED, "LOADING"},
    {"-ERR what is this\\r\\n", NULL, NULL, PAWL_PROTOCOL, "what is this"},
    {"+OK\\r\\n", NULL, NULL, PAWL_PROTOCOL, "HELLO"},
    {"_\\r\\n", NULL, NULL, PAWL_PROTOCOL, "HELLO"},
    {":3\\r\\n", NULL, NULL, PAWL_PROTOCOL, "HELLO"},
    /* As if it had been asked for version 2. */
    {"*8\\r\\n" HELLO_HEAD
     "$6\\r\\n7.0.15\\r\\n$5\\r\\nproto\\r\\n:2\\r\\n$2\\r\\nid\\r\\n:1\\r\\n",
        NULL, NULL, PAWL_PROTOCOL, "HELLO"},
    /* No id, or one that is none. */
    {"%2\\r\\n" HELLO_HEAD "$6\\r\\n7.0.15\\r\\n", NULL, NULL, PAWL_PROTOCOL, "HELLO"},
    {"%3\\r\\n" HELLO_HEAD "$6\\r\\n7.0.15\\r\\n$2\\r\\nid\\r\\n$1\\r\\n1\\r\\n", NULL, NULL,
        PAWL_PROTOCOL, "HELLO"},
    {"%4\\r\\n" HELLO_HEAD "$5\\r\\n5.0.7\\r\\n" HELLO_ID, NULL, NULL, PAWL_REFUSED,
        "older than Redis 6"},
    {"%4\\r\\n" HELLO_HEAD "$0\\r\\n\\r\\n" HELLO_ID, NULL, NULL, PAWL_REFUSED,
        "older than Redis 6"},
    {"%5\\r\\n" HELLO_HEAD "$6\\r\\n7.0.15\\r\\n" HELLO_ID
     "$4\\r\\nrole\\r\\n$7\\r\\nreplica\\r\\n",
        NULL, NULL, PAWL_REFUSED, "replica"},
    {"%5\\r\\n" HELLO_HEAD "$6\\r\\n7.0.15\\r\\n" HELLO_ID
     "$4\\r\\nmode\\r\\n$8\\r\\nsentinel\\r\\n",
        NULL, NULL, PAWL_REFUSED, "Sentinel"},
    /* Fine, as far as HELLO goes. */
    {HELLO_GOOD, NULL, NULL, PAWL_OK, ""},
    {"|1\\r\\n+ttl\\r\\n:1\\r\\n" HELLO_GOOD, NULL, NULL, PAWL_OK, ""},
    {">2\\r\\n+invalidate\\r\\n_\\r\\n" HELLO_GOOD, NULL, NULL, PAWL_OK, ""},
    {"%4\\r\\n" HELLO_HEAD "$11\\r\\n255.255.255\\r\\n" HELLO_ID, NULL, NULL, PAWL_OK, ""},
    /* What INFO says. */
    {NULL, "role", "slave", PAWL_REFUSED, "replica"},
    {NULL, "loading", "1", PAWL_REFUSED, "loading"},
    {NULL, "async_loading", "1", PAWL_REFUSED, "loading"},
    {NULL, "master_failover_state", "waiting-for-sync", PAWL_REFUSED, "failover"},
    {NULL, "maxmemory_policy", "volatile-ttl", PAWL_OK, ""}, /* there is no limit */
};

static void greet(const struct greeting *greeting)
{
    void *state = NULL;
    talk_begin(&state);
    if (greeting->reply != NULL) {
        scripted_handle(scripted, "HELLO", greeting->reply);
    }
    if (greeting->field != NULL) {
        scripted_set_info(scripted, greeting->field, greeting->value);
    }
    const size_t descriptors = open_descriptor_count();
    const int64_t began_ms = boottime_ms();
    const pawl_status status = talk_open(NULL);
    assert_true(boottime_ms() - began_ms < SLACK_MS);
    assert_status_at(status, greeting->status,
        greeting->reply != NULL ? greeting->reply : greeting->field, __FILE__, __LINE__);
    assert_says(greeting->says);
    if (status != PAWL_OK) {
        assert_int_equal(talk_calls(&pawl__script_acquire), 0);
        assert_int_equal(scripted_accepted(scripted), 1); /* once is enough */
    }
    WAIT_UNTIL(scripted_open(scripted) == 0, 2000);
    assert_true(open_descriptor_count() <= descriptors); /* the server closes its side, too */
    talk_end(&state);
}

static void greetings_of_all_kinds(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(greetings); i++) {
        greet(&greetings[i]);
    }
}

static void a_limit_and_a_policy(void **state)
{
    (void)state;
    scripted_set_info(scripted, "maxmemory", "1000000");
    ASSERT_OK(talk_open(NULL));
    scripted_set_info(scripted, "maxmemory_policy", "volatile-lru");
    ASSERT_STATUS(PAWL_REFUSED, talk_open(NULL));
    assert_says("volatile-lru");
    ASSERT_OK(talk_open("?guard=warn"));
    ASSERT_OK(talk_open("?guard=off"));
    scripted_set_info(scripted, "role", "slave");
    ASSERT_STATUS(PAWL_REFUSED, talk_open("?guard=warn"));
    ASSERT_OK(talk_open("?guard=off"));
}

/* One node of a cluster is refused, unless the guard is off; what it does not keep it says then. */
static void a_node_of_a_cluster(void **state)
{
    (void)state;
    scripted_set_info(scripted, "redis_mode", "cluster");
    scripted_set_info(scripted, "cluster_enabled", "1");
    ASSERT_STATUS(PAWL_REFUSED, talk_open(NULL));
    assert_says("a node of a cluster");
    ASSERT_STATUS(PAWL_REFUSED, talk_open("?guard=warn"));
    pawl_lock *lock = talk_lock(talk_client("?guard=off"));
    talk_answer(&pawl__script_acquire, "-MOVED 16287 10.0.0.7:6379\\r\\n");
    ASSERT_STATUS(PAWL_REFUSED, pawl_lock_acquire(lock, PAWL_TRY));
    assert_says("another node of a cluster");
    assert_works(lock);
}

/* ===== The rest of the greeting ===== */

static void info_is_denied(void **state)
{
    (void)state;
    scripted_handle(scripted, "INFO", "-NOPERM this user has no permissions to run 'info'\\r\\n");
    assert_works(talk_lock(talk_client(NULL)));
}

static void info_is_no_text(void **state)
{
    (void)state;
    scripted_handle(scripted, "INFO", "*1\\r\\n:1\\r\\n");
    ASSERT_STATUS(PAWL_PROTOCOL, talk_open(NULL));
    assert_says("INFO");
}

static void info_is_long(void **state)
{
    (void)state;
    scripted_play(
        scripted, "EXPECT INFO\nSEND $900000\\r\\n\nBYTES 900000 padding:1\\r\\n\nSEND \\r\\n");
    ASSERT_OK(talk_open("?timeout=5s&connect_timeout=5s")); /* many modules */
    scripted_check(scripted);
}

static void info_is_too_long(void **state)
{
    (void)state;
    scripted_play(
        scripted, "EXPECT INFO\nSEND $2000000\\r\\n\nBYTES 2000000 padding:1\\r\\n\nSEND \\r\\n");
    ASSERT_STATUS(PAWL_PROTOCOL, talk_open(NULL));
}

static void the_database_is_refused(void **state)
{
    (void)state;
    char url[64];
    pawl_client *client = NULL;
    scripted_handle(scripted, "SELECT", "-ERR DB index is out of range\\r\\n");
    snprintf(url, sizeof url, "%s/12", scripted_url(scripted));
    ASSERT_STATUS(PAWL_INVALID, pawl_client_open(url, NULL, &client));
    assert_says("database 12");
}

/* Who may not load scripts sends their text when they are missing. */
static void loading_is_denied(void **state)
{
    (void)state;
    scripted_handle(scripted, "SCRIPT LOAD", "-NOPERM no permissions to run 'script|load'\\r\\n");
    pawl_lock *lock = talk_lock(talk_client(NULL));
    talk_answer(&pawl__script_acquire, "-NOSCRIPT No matching script.\\r\\n");
    assert_works(lock);
    assert_int_equal(talk_texts(&pawl__script_acquire), 1);
}

static void rights_cannot_be_asked(void **state)
{
    (void)state;
    talk_answer(&pawl__script_rights, "-ERR Unknown Redis command called from script\\r\\n");
    assert_works(talk_lock(talk_client(NULL)));
}

static void rights_are_missing(void **state)
{
    (void)state;
    pawl_lock *lock = NULL;
    talk_answer(&pawl__script_rights, "*1\\r\\n$12\\r\\nlock:PEXPIRE\\r\\n");
    pawl_client *client = talk_client(NULL); /* of some names, perhaps */
    talk_answer(&pawl__script_rights,
        "*2\\r\\n$12\\r\\nlock:PEXPIRE\\r\\n$17\\r\\nchannel:SUBSCRIBE\\r\\n");
    ASSERT_STATUS(PAWL_DENIED, pawl_lock_open(client, "x", NULL, &lock));
    assert_null(lock);
    assert_says("PEXPIRE on key 'x'");
    assert_says("SUBSCRIBE on channel 'redisson_lock__channel:{x}'");
    ASSERT_OK(pawl_lock_open(client, "y", NULL, &lock));
    ASSERT_OK(pawl_lock_close(lock));
    scripted_check(scripted);
}

static void it_hangs_up_while_greeting(void **state)
{
    (void)state;
    static const char *const moments[] = {"ACCEPT\nCLOSE", "EXPECT HELLO ...\nCLOSE",
        "EXPECT INFO\nRESET", "EXPECT SCRIPT ...\nCLOSE",
        "EXPECT HELLO ...\nSEND %7\\r\\n$6\\r\nCLOSE"};
    for (size_t i = 0; i < COUNT(moments); i++) {
        scripted_play(scripted, moments[i]);
        const int64_t began_ms = boottime_ms();
        ASSERT_STATUS(PAWL_UNAVAILABLE, talk_open(NULL));
        assert_true(boottime_ms() - began_ms <= 2 * TIMEOUT_MS + SLACK_MS);
        assert_says("127.0.0.1");
    }
    ASSERT_OK(talk_open(NULL));
}

static void it_says_nothing_while_greeting(void **state)
{
    (void)state;
    scripted_play(scripted, "EXPECT INFO\nSILENCE 1500");
    const int64_t began_ms = boottime_ms();
    ASSERT_STATUS(PAWL_UNAVAILABLE, talk_open(NULL));
    assert_true(boottime_ms() - began_ms <= 2 * TIMEOUT_MS + SLACK_MS);
    assert_says("does not answer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(of_a_first_connection),
        CASE(with_a_database_and_a_password),
        CASE(every_script_of_a_mutex_is_loaded),
        CASE(of_redis_6),
        CASE(after_an_unanswered_write_the_old_one_is_killed_first),
        CASE(after_a_lost_release_the_old_one_is_killed_first),
        CASE(without_unanswered_writes_nobody_is_killed),
        CASE(a_held_lock_is_verified_on_the_new_connection),
        CASE(a_fixed_one_is_only_looked_at),
        cmocka_unit_test(greetings_of_all_kinds),
        CASE(a_limit_and_a_policy),
        CASE(a_node_of_a_cluster),
        CASE(info_is_denied),
        CASE(info_is_no_text),
        CASE(info_is_long),
        CASE(info_is_too_long),
        CASE(the_database_is_refused),
        CASE(loading_is_denied),
        CASE(rights_cannot_be_asked),
        CASE(rights_are_missing),
        CASE(it_hangs_up_while_greeting),
        CASE(it_says_nothing_while_greeting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
