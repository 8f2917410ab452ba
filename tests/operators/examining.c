/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_client_examine() on real servers that are configured well, badly, and so that little may be
 * asked.
 *
 * Every case names the topic, the verdict and words that must stand in the sentence or its remedy.
 * What is said to be pasted is pasted: the line for ACL SETUSER is given to a shell, and the user
 * that it makes then does everything. */
#include "operators/common.h"

#include <unistd.h>

#define UUID "5bd36e9c-7a0f-4f5e-9d6a-2a8f5a3c1b77"

/* ===== What was found ===== */

struct found {
    pawl_verdict verdict;
    char topic[32];
    char sentence[4096];
    char remedy[4096];
};

static struct found findings[32];
static size_t finding_count;

static void note(const pawl_finding *finding, void *arg)
{
    (void)arg;
    assert_true(finding_count < sizeof findings / sizeof findings[0]);
    assert_int_equal(finding->size, sizeof *finding);
    struct found *found = &findings[finding_count++];
    found->verdict = finding->verdict;
    snprintf(found->topic, sizeof found->topic, "%s", finding->topic);
    snprintf(found->sentence, sizeof found->sentence, "%s", finding->sentence);
    snprintf(found->remedy, sizeof found->remedy, "%s", finding->remedy);
    assert_true(found->sentence[0] != '\0');
    assert_int_equal(found->remedy[0] == '\0', found->verdict == PAWL_FIT);
}

static void examine(pawl_client *client)
{
    finding_count = 0;
    ASSERT_OK(pawl_client_examine(client, note, NULL));
}

static void examine_url(const char *url)
{
    examine(open_client(url, "?guard=off&lazy=1"));
}

static const struct found *topic(const char *name)
{
    const struct found *met = NULL;
    for (size_t i = 0; i < finding_count; i++) {
        if (strcmp(findings[i].topic, name) == 0) {
            assert_null(met); /* each topic once */
            met = &findings[i];
        }
    }
    if (met == NULL) {
        support_fail("nothing is said about %s", name);
    }
    return met;
}

static void assert_topic(
    const char *name, pawl_verdict verdict, const char *sentence, const char *remedy)
{
    const struct found *found = topic(name);
    if (found->verdict != verdict || strstr(found->sentence, sentence) == NULL ||
        strstr(found->remedy, remedy) == NULL) {
        support_fail("%s: verdict %d (not %d), '%s' (with '%s'?), remedy '%s' (with '%s'?)", name,
            (int)found->verdict, (int)verdict, found->sentence, sentence, found->remedy, remedy);
    }
}

/* ===== Good and bad servers ===== */

static void a_good_server_is_fit(void **state)
{
    (void)state;
    static const char *const args[] = {"--appendonly", "yes", "--appendfsync", "everysec", NULL};
    struct server *server = server_start(&(struct server_options){.args = args});
    examine_url(server_url(server));
    static const char *const topics[] = {"version", "mode", "role", "loading", "persistence",
        "eviction", "memory", "replicas", "clients", "events", "rights", "access", "clock",
        "latency"};
    assert_int_equal(finding_count, sizeof topics / sizeof topics[0]);
    for (size_t i = 0; i < finding_count; i++) {
        assert_string_equal(findings[i].topic, topics[i]);
        if (strcmp(topics[i], "latency") != 0 && strcmp(topics[i], "memory") != 0) {
            assert_topic(topics[i], PAWL_FIT, "", ""); /* those two are the machine's affair */
        }
    }
    assert_topic("version", PAWL_FIT, "Redis ", "");
    assert_topic("persistence", PAWL_FIT, "every second", "");
    assert_topic("rights", PAWL_FIT, "on every name", "");
    assert_topic("rights", PAWL_FIT, "ACL SETUSER pawl on '>PASSWORD'", "");
}

static void what_a_restart_would_lose(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    free(server_command(server, "CONFIG SET save ''"));
    examine_url(server_url(server));
    assert_topic("persistence", PAWL_WARNING, "forgets every lock and every token counter",
        "CONFIG SET appendonly yes");
    free(server_command(server, "CONFIG SET save '3600 1'"));
    free(server_command(server, "SET x 1"));
    examine_url(server_url(server));
    assert_topic("persistence", PAWL_WARNING, "save 3600 1", "appendonly yes");
    free(server_command(server, "CONFIG SET appendonly yes"));
    free(server_command(server, "CONFIG SET appendfsync no"));
    examine_url(server_url(server));
    assert_topic("persistence", PAWL_WARNING, "kernel", "appendfsync everysec");
    free(server_command(server, "CONFIG SET appendfsync always"));
    examine_url(server_url(server));
    assert_topic("persistence", PAWL_FIT, "forgets nothing", "");
}

static long long server_used(struct server *server)
{
    char *used = server_info(server, "used_memory");
    assert_non_null(used);
    const long long bytes = strtoll(used, NULL, 10);
    free(used);
    return bytes;
}

static void eviction_and_a_full_memory(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    free(server_command(server, "CONFIG SET maxmemory-policy allkeys-lru"));
    examine_url(server_url(server));
    assert_topic("eviction", PAWL_FIT, "no memory limit", "");
    free(server_command(server, "CONFIG SET maxmemory 1gb"));
    examine_url(server_url(server));
    assert_topic("eviction", PAWL_UNFIT, "allkeys-lru", "noeviction");
    assert_topic("memory", PAWL_FIT, "of 1.0 GB (maxmemory)", "");
    free(server_command(server, "CONFIG SET maxmemory-policy noeviction"));
    free(server_command(server, "CONFIG SET maxmemory 1mb"));
    examine_url(server_url(server));
    assert_topic("eviction", PAWL_FIT, "noeviction", "");
    assert_topic("memory", PAWL_UNFIT, "1.0 MB", "it is full");
    free(server_command(server, "CONFIG SET maxmemory %lld", server_used(server) * 106 / 100));
    examine_url(server_url(server));
    assert_topic("memory", PAWL_WARNING, "(maxmemory)", "raise maxmemory");
}

/* The master takes a moment longer than the replica to see that they are in step. */
static bool replica_is_online(struct server *server)
{
    char *replica = server_info(server, "slave0");
    const bool online = replica != NULL && strstr(replica, "state=online") != NULL;
    free(replica);
    return online;
}

static void a_master_and_its_replica(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    struct server *replica = server_start_replica_of(server, NULL);
    char master[URL_SIZE];
    snprintf(master, sizeof master, "redis://127.0.0.1:%u", (unsigned)server_port(server));
    examine_url(server_url(replica));
    assert_topic("role", PAWL_UNFIT, "a replica of 127.0.0.1", master);
    WAIT_UNTIL(replica_is_online(server), 5000);
    examine_url(server_url(server));
    assert_topic("role", PAWL_FIT, "a master", "");
    assert_topic("replicas", PAWL_WARNING, "1 replicas, 0 of them not in step",
        "refuse smaller fencing tokens");
}

static void a_node_of_a_cluster(void **state)
{
    (void)state;
    static const char *const args[] = {"--cluster-enabled", "yes", "--cluster-port", "0", NULL};
    struct server *server = server_start(&(struct server_options){.args = args});
    pawl_client *client = NULL;
    ASSERT_STATUS(PAWL_REFUSED, pawl_client_open(server_url(server), NULL, &client));
    assert_non_null(strstr(pawl_last_error(), "a node of a cluster"));
    examine_url(server_url(server));
    assert_topic("mode", PAWL_UNFIT, "MOVED", "stands alone");
}

static void who_may_come_in(void **state)
{
    (void)state;
    static const char *const open[] = {"--bind", "* -::*", "--protected-mode", "no", NULL};
    static const char *const guarded[] = {"--bind", "* -::*", "--protected-mode", "yes", NULL};
    struct server *server = server_start(&(struct server_options){.args = open});
    examine_url(server_url(server));
    assert_topic("access", PAWL_WARNING, "listens to other machines", "requirepass");
    server_stop(server);
    server = server_start(&(struct server_options){.args = guarded});
    examine_url(server_url(server));
    assert_topic("access", PAWL_FIT, "this machine only", "");
    server_stop(server);
    server = server_start(NULL);
    examine_url(server_url(server));
    assert_topic("access", PAWL_FIT, "this machine only", "");
    free(server_command(server, "ACL SETUSER app on >pw ~* &* +@all"));
    char url[URL_SIZE];
    snprintf(url, sizeof url, "redis://app:pw@127.0.0.1:%u", (unsigned)server_port(server));
    examine_url(url);
    assert_topic("access", PAWL_FIT, "with a password", "");
    for (size_t i = 0; i < finding_count; i++) {
        assert_null(strstr(findings[i].sentence, "pw@"));
        assert_null(strstr(findings[i].remedy, "pw"));
    }
}

static void connections_and_events(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    free(server_command(server, "CONFIG SET maxclients 3"));
    free(server_command(server, "CONFIG SET notify-keyspace-events Kghxz"));
    examine_url(server_url(server));
    assert_topic("events", PAWL_FIT, "told of everything", "");
    free(server_command(server, "CONFIG SET notify-keyspace-events Kg"));
    examine_url(server_url(server));
    assert_topic("events", PAWL_FIT, "Kghxz would tell everything", "");
    assert_topic("clients", PAWL_FIT, "of 3 (maxclients)", "");
}

/* ===== Rights ===== */

static char *user_url(struct server *server, const char *user)
{
    static char url[URL_SIZE];
    snprintf(url, sizeof url, "redis://%s:pw@127.0.0.1:%u", user, (unsigned)server_port(server));
    return url;
}

static void missing_rights_are_named(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    free(server_command(server, "ACL SETUSER a on >pw ~* &* +@all -hset -pttl -subscribe"));
    examine_url(user_url(server, "a"));
    assert_topic("rights", PAWL_UNFIT, "HSET, SUBSCRIBE (needed for every lock)", "+pttl +hset");
    free(server_command(server, "ACL SETUSER b on >pw ~* &* +@all -scan -del -client"));
    examine_url(user_url(server, "b"));
    assert_topic("rights", PAWL_WARNING, "SCAN (needed for listing locks)", "+scan");
    assert_topic("rights", PAWL_WARNING, "DEL (needed for breaking locks)", "'+client|kill'");
    free(server_command(server, "ACL SETUSER c on >pw ~* &* +@all -eval -evalsha"));
    examine_url(user_url(server, "c"));
    assert_topic("rights", PAWL_UNFIT, "may not run scripts", "+evalsha +eval");
}

/* What only some kinds need is told with them, and is no reason to keep no lock at all. */
static void missing_rights_of_a_kind_are_named(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"-rpush", "may not run RPUSH (needed for fair locks)", "+rpush"},
        {"-hlen -scan", "HLEN (needed for read/write locks)", "+hlen"},
        {"-del", "DEL (needed for plain locks)", "+del"},
        {"-incrby -decrby", "INCRBY, DECRBY (needed for semaphores)", "+incrby +decrby"},
        {"-zremrangebyscore", "ZREMRANGEBYSCORE (needed for permits with leases)",
            "+zremrangebyscore"},
        {"-decr", "DECR (needed for latches)", "+decr"},
        {"-expire", "EXPIRE (needed for Redlock)", "+expire"},
        {"-zcount", "ZCOUNT (needed for listing locks)", "+zcount"},
        {"resetchannels &redisson_lock__channel:*",
            "PUBLISH to redisson_sc:* (needed for semaphores)", "'&redisson_sc:*'"},
        {"resetchannels &redisson_lock__channel:*", "PUBLISH to redisson_rwlock:*",
            "'&redisson_rwlock:*' '&redisson_sc:*' '&redisson_countdownlatch__channel__*' -- or"},
    };
    struct server *server = server_start(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        free(server_command(server, "ACL SETUSER a reset on >pw ~* &* +@all %s", cases[i][0]));
        examine_url(user_url(server, "a"));
        assert_topic("rights", PAWL_WARNING, cases[i][1], cases[i][2]);
    }
    /* Each word stands there once, and nothing is cut off. */
    free(server_command(server, "ACL SETUSER a reset on >pw ~* &* +eval +hello +info"));
    examine_url(user_url(server, "a"));
    const char *remedy = topic("rights")->remedy;
    const char *end = strstr(remedy, " -- or");
    const char *first = strstr(remedy, " +del ");
    assert_true(first != NULL && end != NULL && first < end);
    first = strstr(first + 1, " +del ");
    assert_true(first == NULL || first > end);
    assert_non_null(
        strstr(topic("rights")->sentence, "HSET, PTTL, PEXPIRE, DEL (needed for showing"));
}

static void rights_for_some_names_are_fit(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    free(server_command(server,
        "ACL SETUSER a on >pw ~app:* ~redisson_lock_token:{app:* ~pawl_client:* "
        "&redisson_lock__channel:{app:* +@all -@dangerous +info +client"));
    examine_url(user_url(server, "a"));
    assert_topic("rights", PAWL_FIT, "on some names only", "");
    assert_topic("rights", PAWL_FIT, "'~pawl_seen:*' '&redisson_lock__channel:{NAME*'", "");
    free(server_command(server, "ACL SETUSER b on >pw ~app:* &* +@all"));
    examine_url(user_url(server, "b"));
    assert_topic("rights", PAWL_WARNING, "showing who holds", "'~pawl_client:*' '~NAME*'");
    assert_topic("rights", PAWL_WARNING, "", "'~pawl_seen:*' -- where NAME"); /* channels it has */
    free(server_command(server, "ACL SETUSER c on >pw ~* &redisson_lock__channel:{app:* +@all"));
    examine_url(user_url(server, "c"));
    assert_topic(
        "rights", PAWL_FIT, "ACL SETUSER c '&redisson_lock__channel:{NAME*'", ""); /* no keys */
}

static void what_may_not_be_asked_is_said(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    free(server_command(server, "ACL SETUSER a on >pw ~* &* +@all -config -info -time"));
    examine_url(user_url(server, "a"));
    assert_topic("info", PAWL_WARNING, "may not ask for INFO", "ACL SETUSER a +info");
    assert_topic("clock", PAWL_FIT, "may not be asked", "");
    free(server_command(server, "ACL SETUSER b on >pw ~* &* +@all -config"));
    examine_url(user_url(server, "b"));
    assert_topic("persistence", PAWL_WARNING, "may not be asked", "appendonly yes");
    assert_topic("events", PAWL_FIT, "may not be asked", "");
    assert_topic("clients", PAWL_FIT, "connections", "");
}

/* Take the line out of the sentence, as somebody with a mouse would. */
static void paste(const char *sentence)
{
    char line[2048];
    const char *begin = strstr(sentence, "redis-cli ");
    assert_non_null(begin);
    assert_non_null(strstr(begin, "ACL SETUSER pawl"));
    const char *password = strstr(begin, "PASSWORD");
    assert_non_null(password);
    snprintf(line, sizeof line, "%.*spw%s >/dev/null", (int)(password - begin), begin,
        password + strlen("PASSWORD"));
    assert_int_equal(system(line), 0);
}

static bool count_entry(const pawl_entry *entry, void *arg)
{
    (void)entry;
    ++*(size_t *)arg;
    return true;
}

/* Have every other kind, and give it back. */
static void use_kinds(pawl_client *client)
{
    static const pawl_kind kinds[] = {PAWL_FAIR, PAWL_READ, PAWL_WRITE, PAWL_SPIN, PAWL_PLAIN};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
        pawl_lock *lock = NULL;
        char name[16];
        snprintf(name, sizeof name, "kind-%d", (int)kinds[i]);
        options.kind = kinds[i];
        ASSERT_OK(pawl_lock_open(client, name, &options, &lock));
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
        ASSERT_OK(pawl_lock_release(lock));
        ASSERT_OK(pawl_lock_close(lock));
    }
    pawl_semaphore_options leased = PAWL_SEMAPHORE_OPTIONS_INIT;
    pawl_semaphore *semaphore = NULL;
    pawl_latch *latch = NULL;
    pawl_permit permit;
    pawl_entry entry = {.size = sizeof entry};
    leased.leased = true;
    ASSERT_OK(pawl_semaphore_open(client, "permits", &leased, &semaphore));
    ASSERT_OK(pawl_semaphore_set(semaphore, 2, NULL));
    ASSERT_OK(pawl_permit_acquire(semaphore, 1, PAWL_TRY, &permit));
    ASSERT_OK(pawl_client_look(client, "permits", &entry));
    assert_int_equal(entry.kind, PAWL_SEMAPHORE);
    ASSERT_OK(pawl_permit_release(semaphore, &permit, 1));
    ASSERT_OK(pawl_semaphore_close(semaphore));
    ASSERT_OK(pawl_latch_open(client, "latch", &latch));
    ASSERT_OK(pawl_latch_set(latch, 1, NULL));
    ASSERT_OK(pawl_latch_count_down(latch));
    ASSERT_OK(pawl_latch_close(latch));
}

static void the_line_to_paste_is_enough(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    pawl_watch_event event = {.size = sizeof event};
    pawl_entry entry = {.size = sizeof entry};
    pawl_watch *watch = NULL;
    size_t count = 0;
    free(server_command(server, "CONFIG SET notify-keyspace-events Kghxz"));
    examine_url(server_url(server));
    paste(topic("rights")->sentence);

    pawl_client *client = open_client(user_url(server, "pawl"), NULL);
    examine(client);
    assert_topic("rights", PAWL_FIT, "on every name", "");
    assert_topic("persistence", PAWL_WARNING, "", "");
    pawl_lock *lock = own_lock(client, "jobs", 20000, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_extend(lock, 30000));
    ASSERT_OK(pawl_client_list(client, NULL, count_entry, &count));
    assert_int_equal(count, 1);
    ASSERT_OK(pawl_client_look(client, "jobs", &entry));
    assert_int_equal(entry.pid, getpid());
    assert_int_equal(entry.waiters, 0);
    assert_true(entry.token == pawl_lock_token(lock));
    ASSERT_OK(pawl_watch_open(client, "j*", 600000, &watch));
    assert_true(pawl_watch_exact(watch));
    ASSERT_OK(pawl_lock_break(lock));
    ASSERT_OK(pawl_watch_next(watch, 5000, &event));
    assert_int_equal(event.change, PAWL_RELEASED);
    pawl_watch_close(watch);
    use_kinds(client);
}

/* ===== Servers that do not even greet ===== */

static void a_server_that_is_too_old(void **state)
{
    (void)state;
    struct scripted *scripted = scripted_start();
    scripted_handshake(scripted);
    scripted_handle(scripted, "HELLO", "-ERR unknown command `HELLO`\\r\\n");
    examine_url(scripted_url(scripted));
    assert_int_equal(finding_count, 1);
    assert_topic("version", PAWL_UNFIT, "older than Redis 6", "6.0 or later");
}

static void redis_6_cannot_be_asked_for_rights(void **state)
{
    (void)state;
    struct scripted *scripted = scripted_start();
    scripted_handshake(scripted);
    scripted_set_info(scripted, "redis_version", "6.0.16");
    examine_url(scripted_url(scripted));
    assert_topic("version", PAWL_FIT, "Redis 6.0.16", "");
    assert_topic("rights", PAWL_FIT, "cannot be asked before Redis 7.0", "");
}

static void a_server_that_loads_or_hands_over(void **state)
{
    (void)state;
    struct scripted *scripted = scripted_start();
    scripted_handshake(scripted);
    scripted_handle(scripted, "EVAL", "*0\\r\\n");
    scripted_set_info(scripted, "loading", "1");
    examine_url(scripted_url(scripted));
    assert_topic("loading", PAWL_UNFIT, "loading its data", "wait");
    scripted_set_info(scripted, "loading", "0");
    scripted_set_info(scripted, "master_failover_state", "waiting-for-sync");
    examine_url(scripted_url(scripted));
    assert_topic("loading", PAWL_UNFIT, "handing over", "new master");
}

/* What it does not answer now is left out, and that is no failure. */
static void a_server_that_answers_nobody(void **state)
{
    (void)state;
    struct scripted *scripted = scripted_start();
    scripted_handshake(scripted);
    scripted_handle(scripted, "EVAL", "-LOADING Redis is loading the dataset in memory\\r\\n");
    scripted_set_info(scripted, "loading", "1");
    examine_url(scripted_url(scripted));
    assert_topic("loading", PAWL_UNFIT, "loading its data", "wait");
    assert_string_equal(findings[finding_count - 1].topic, "events");
    scripted_set_info(scripted, "loading", "0");
    scripted_handle(scripted, "EVAL", "-BUSY Redis is busy running a script.\\r\\n");
    examine_url(scripted_url(scripted));
    assert_topic("busy", PAWL_UNFIT, "somebody's script", "SCRIPT KILL");
    scripted_handle(scripted, "INFO", "-BUSY Redis is busy running a script.\\r\\n");
    examine_url(scripted_url(scripted));
    assert_int_equal(finding_count, 1);
    assert_topic("busy", PAWL_UNFIT, "somebody's script", "SCRIPT KILL");
}

static void a_clock_that_is_wrong(void **state)
{
    (void)state;
    struct scripted *scripted = scripted_start();
    scripted_handshake(scripted);
    scripted_handle(scripted, "EVAL", "*0\\r\\n");
    scripted_handle(scripted, "TIME", "*2\\r\\n$10\\r\\n1500000000\\r\\n$1\\r\\n0\\r\\n");
    examine_url(scripted_url(scripted));
    assert_topic("clock", PAWL_WARNING, "beside ours", "NTP");
}

static void a_disk_that_is_full(void **state)
{
    (void)state;
    struct scripted *scripted = scripted_start();
    scripted_handshake(scripted);
    scripted_handle(scripted, "EVAL", "*0\\r\\n");
    scripted_set_info(scripted, "rdb_last_bgsave_status", "err");
    examine_url(scripted_url(scripted));
    assert_topic("persistence", PAWL_UNFIT, "refuses writes", "disk");
}

static void nonsense_is_no_crash(void **state)
{
    (void)state;
    static const char *const answers[] = {"+OK\\r\\n", ":7\\r\\n", "*0\\r\\n", "_\\r\\n",
        "*2\\r\\n_\\r\\n*0\\r\\n", "-ERR no\\r\\n", "$1\\r\\n:\\r\\n", "%%1\\r\\n+a\\r\\n+b\\r\\n"};
    static const char *const commands[] = {"INFO", "CONFIG", "EVAL", "TIME", "PING"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        for (size_t j = 0; j < sizeof answers / sizeof answers[0]; j++) {
            struct scripted *scripted = scripted_start();
            scripted_handshake(scripted);
            scripted_handle(scripted, "EVAL", "*0\\r\\n");
            scripted_handle(
                scripted, commands[i], answers[j][0] == '%' ? answers[j] + 1 : answers[j]);
            pawl_client *client = open_client(scripted_url(scripted), "?guard=off&lazy=1");
            finding_count = 0;
            const pawl_status status = pawl_client_examine(client, note, NULL);
            assert_true(status == PAWL_OK || status == PAWL_PROTOCOL);
            close_client(client);
            scripted_stop(scripted);
        }
    }
}

static void a_frozen_server_is_left_by_the_timeout(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    pawl_client *client = open_client(server_url(server), "?timeout=300ms&connect_timeout=300ms");
    server_pause(server);
    finding_count = 0;
    ASSERT_ENDS("examination of a frozen server", 600, PAWL_UNAVAILABLE,
        pawl_client_examine(client, note, NULL));
    server_resume(server);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, cleanup_setup, cleanup_teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_good_server_is_fit),
        CASE(what_a_restart_would_lose),
        CASE(eviction_and_a_full_memory),
        CASE(a_master_and_its_replica),
        CASE(a_node_of_a_cluster),
        CASE(who_may_come_in),
        CASE(connections_and_events),
        CASE(missing_rights_are_named),
        CASE(missing_rights_of_a_kind_are_named),
        CASE(rights_for_some_names_are_fit),
        CASE(what_may_not_be_asked_is_said),
        CASE(the_line_to_paste_is_enough),
        CASE(a_server_that_is_too_old),
        CASE(redis_6_cannot_be_asked_for_rights),
        CASE(a_server_that_loads_or_hands_over),
        CASE(a_server_that_answers_nobody),
        CASE(a_clock_that_is_wrong),
        CASE(a_disk_that_is_full),
        CASE(nonsense_is_no_crash),
        CASE(a_frozen_server_is_left_by_the_timeout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
