/* SPDX-License-Identifier: Apache-2.0 */
/* The restart guard: servers that have just been started, or restarted, and may have forgotten what
 * they had granted; and what makes no quorum at all. */
#include "nodes.h"

#include <stdatomic.h>
#include <stdio.h>

enum { MAX_LEASE_MS = 3000, LEASE_MS = 2000 };

static struct nodes nodes;
static struct party ours;
static struct party theirs;

static int end(void **state)
{
    party_close(&ours);
    party_close(&theirs);
    return cleanup_teardown(state);
}

static pawl_lock_options guarded(pawl_guard guard)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = LEASE_MS;
    options.max_lease_ms = MAX_LEASE_MS;
    options.node_timeout_ms = 500; /* on a busy machine, too */
    options.restart_guard = guard;
    return options;
}

/* So that they may vote: as if somebody had seen them long ago. */
static void make_known(const struct nodes *known)
{
    for (size_t i = 0; i < known->count; i++) {
        char *run_id = server_info(known->servers[i], "run_id");
        for (size_t other = 0; other < known->count; other++) {
            if (other != i) {
                free(server_command(known->servers[other], "SET pawl_seen:%s 1000", run_id));
            }
        }
        free(run_id);
    }
}

static void new_servers_do_not_vote_yet(void **state)
{
    (void)state;
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    nodes_start(&nodes, 3, false);
    const int64_t start_ms = boottime_ms();
    party_open(&ours, &nodes, "", &options);
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_REFUSED);
    for (int i = 0; i < 3; i++) {
        assert_non_null(strstr(pawl_last_error(), server_url(nodes.servers[i])));
    }
    assert_non_null(strstr(pawl_last_error(), "does not vote for"));
    assert_non_null(strstr(pawl_last_error(), "pawl run -w"));
    assert_status(pawl_lock_acquire(ours.lock, 200), PAWL_REFUSED);
    assert_int_equal(nodes_holding(&nodes), 0);
    assert_ok(pawl_lock_acquire(ours.lock, 10000));               /* it waits for them */
    assert_true(boottime_ms() - start_ms >= MAX_LEASE_MS - 1200); /* uptimes are whole seconds */
    assert_ok(pawl_lock_release(ours.lock));
}

/* What was seen is noted at the others, and outlives whoever saw it. */
static void sightings_are_noted_at_the_others(void **state)
{
    (void)state;
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    nodes_start(&nodes, 3, false);
    party_open(&ours, &nodes, "", &options);
    for (int i = 0; i < 3; i++) {
        char *run_id = server_info(nodes.servers[i], "run_id");
        char key[80];
        snprintf(key, sizeof key, "pawl_seen:%s", run_id);
        assert_int_equal(nodes_with_key(&nodes, key), 2);
        assert_int_equal(server_integer(nodes.servers[i], "EXISTS %s", key), 0);
        const int64_t ttl_s = server_integer(nodes.servers[(i + 1) % 3], "TTL %s", key);
        assert_true(ttl_s > 29 * 86400 && ttl_s <= 30 * 86400);
        free(run_id);
    }
    party_close(&ours);
    make_known(&nodes);
    party_open(&ours, &nodes, "", &options);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_ok(pawl_lock_release(ours.lock));
}

static void a_restarted_server_waits(void **state)
{
    (void)state;
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    nodes_start(&nodes, 3, false);
    make_known(&nodes);
    party_open(&ours, &nodes, "", &options);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_ok(pawl_lock_release(ours.lock));
    server_restart(nodes.servers[0], false);
    server_kill(nodes.servers[1]);
    const int64_t start_ms = boottime_ms();
    WAIT_UNTIL(pawl_lock_acquire(ours.lock, PAWL_TRY) == PAWL_REFUSED, 2000);
    assert_non_null(strstr(pawl_last_error(), server_url(nodes.servers[0])));
    assert_int_equal(nodes_holding(&nodes), 0);
    assert_ok(pawl_lock_acquire(ours.lock, 10000));
    assert_true(boottime_ms() - start_ms >= MAX_LEASE_MS - 1200);
    assert_ok(pawl_lock_release(ours.lock));
}

/* Kleppmann's first schedule: one holder at A, B, C; C forgets; another one at C, D, E. */
static pawl_status second_holder(pawl_guard guard)
{
    struct nodes direct;
    pawl_lock_options options = guarded(guard);
    nodes_start(&nodes, 5, true);
    direct = nodes;
    memset(direct.proxies, 0, sizeof direct.proxies);
    make_known(&nodes);
    party_open(&ours, &nodes, "?timeout=300ms", &options);
    party_open(&theirs, &direct, "?timeout=300ms", &options);
    for (int i = 3; i < 5; i++) {
        proxy_refuse(nodes.proxies[i], true);
        proxy_cut_now(nodes.proxies[i], PROXY_RST);
    }
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    assert_int_equal(nodes_holding(&nodes), 3);
    server_restart(nodes.servers[2], false);
    server_pause(nodes.servers[0]);
    server_pause(nodes.servers[1]);
    pawl_status status = PAWL_UNAVAILABLE;
    const int64_t start_ms = boottime_ms(); /* longer if it has to be met again */
    while (status != PAWL_OK &&
           boottime_ms() - start_ms < (status == PAWL_REFUSED ? 700 : MAX_LEASE_MS / 2)) {
        status = pawl_lock_acquire(theirs.lock, PAWL_TRY);
    }
    const bool both = status == PAWL_OK && pawl_lock_remaining_ms(ours.lock) > 0;
    server_resume(nodes.servers[0]);
    server_resume(nodes.servers[1]);
    return both ? PAWL_OK : status;
}

static void forgotten_by_one_and_never_two_holders(void **state)
{
    (void)state;
    assert_status(second_holder(PAWL_GUARD_ENFORCE), PAWL_REFUSED);
}

/* The test of the test. */
static void without_the_guard_there_would_be_two(void **state)
{
    (void)state;
    assert_status(second_holder(PAWL_GUARD_OFF), PAWL_OK);
}

/* Three that have just been started may vote, and the first one's client tells it to the log. */
static void open_with_a_log(pawl_log_callback log)
{
    const pawl_lock_options options = guarded(PAWL_GUARD_WARN);
    pawl_client_options loud = PAWL_CLIENT_OPTIONS_INIT;
    loud.log = log;
    nodes_start(&nodes, 3, false);
    party_connect(&ours, &nodes, "");
    pawl_client_close(ours.clients[0]);
    assert_ok(pawl_client_open(server_url(nodes.servers[0]), &loud, &ours.clients[0]));
    assert_ok(pawl_lock_open_quorum(ours.clients, 3, NAME, &options, &ours.lock));
}

static _Atomic int warnings;
static char warning[400];

static void note_warning(pawl_log_level level, const char *message, void *arg)
{
    (void)arg;
    if (level == PAWL_LOG_WARNING) {
        snprintf(warning, sizeof warning, "%s", message);
        atomic_fetch_add(&warnings, 1);
    }
}

static void a_warning_is_all_if_the_user_says_so(void **state)
{
    (void)state;
    atomic_store(&warnings, 0);
    open_with_a_log(note_warning);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_ok(pawl_lock_release(ours.lock));
    WAIT_UNTIL(atomic_load(&warnings) == 3, 1000);
    assert_non_null(strstr(warning, "has restarted"));
}

/* A reader of warnings who calls back, and takes its time. */
static _Atomic bool reading;
static _Atomic bool may_return;

static void read_slowly(pawl_log_level level, const char *message, void *arg)
{
    pawl_lock_info info = {.size = sizeof info};
    (void)level;
    (void)message;
    (void)arg;
    atomic_store(&reading, true);
    for (int i = 0; i < 300 && !atomic_load(&may_return); i++) {
        nap_ms(10);
    }
    if (atomic_load(&may_return)) {
        assert_status(pawl_lock_inspect(ours.lock, &info), PAWL_MISUSE); /* it might wait */
        assert_int_equal(pawl_lock_token(ours.lock), 0);
    }
    atomic_store(&reading, false);
}

static void who_reads_warnings_slowly_holds_up_nobody(void **state)
{
    (void)state;
    pawl_lock_info info = {.size = sizeof info};
    atomic_store(&may_return, false);
    open_with_a_log(read_slowly);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    WAIT_UNTIL(atomic_load(&reading), 1000);
    assert_ok(pawl_lock_inspect(ours.lock, &info));
    assert_ok(pawl_lock_release(ours.lock));
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_ok(pawl_lock_release(ours.lock));
    assert_true(atomic_load(&reading)); /* all that was while it read */
    atomic_store(&may_return, true);
    WAIT_UNTIL(!atomic_load(&reading), 1000);
}

static void start_durable(size_t durable_count, size_t count)
{
    static const char *const args[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
    static const struct server_options durable = {.args = args, .aof = true};
    memset(&nodes, 0, sizeof nodes);
    nodes.count = count;
    for (size_t i = 0; i < count; i++) {
        nodes.servers[i] = server_start(i < durable_count ? &durable : NULL);
    }
}

static void durable_servers_vote_at_once(void **state)
{
    (void)state;
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    start_durable(2, 3);
    for (int i = 0; i < 3; i++) { /* of one that is not durable it says nothing */
        free(server_command(nodes.servers[i], "SET pawl_seen:durable 1000"));
    }
    party_open(&ours, &nodes, "", &options);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_int_equal(nodes_holding(&nodes), 2);
    server_restart(nodes.servers[0], true);
    assert_ok(pawl_lock_release(ours.lock));
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    assert_ok(pawl_lock_release(ours.lock));
}

/* How it is configured now says nothing of what it has kept. */
static void a_durable_server_with_a_new_disk_waits(void **state)
{
    (void)state;
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    start_durable(3, 3);
    party_open(&ours, &nodes, "", &options);
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_REFUSED);
    assert_non_null(strstr(pawl_last_error(), "its data is new"));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(server_integer(nodes.servers[i], "TTL pawl_seen:durable"), -1);
    }
    assert_ok(pawl_lock_acquire(ours.lock, 10000));
    for (int i = 1; i < 3; i++) {
        server_restart(nodes.servers[i], false);
    }
    party_open(&theirs, &nodes, "", &options);
    assert_status(pawl_lock_acquire(theirs.lock, PAWL_TRY), PAWL_REFUSED);
    assert_in_range(nodes_holding(&nodes), 0, 1); /* ours gives up its rest when it has noticed */
    for (int i = 1; i < 3; i++) { /* again, and with the same disk: the note is not old enough */
        server_restart(nodes.servers[i], true);
    }
    party_close(&theirs);
    party_open(&theirs, &nodes, "", &options);
    assert_status(pawl_lock_acquire(theirs.lock, PAWL_TRY), PAWL_REFUSED);
    assert_ok(pawl_lock_acquire(theirs.lock, 15000));
    assert_ok(pawl_lock_release(theirs.lock));
    assert_status(pawl_lock_release(ours.lock), PAWL_LOST);
}

static void what_makes_no_quorum(void **state)
{
    (void)state;
    pawl_lock *lock = NULL;
    pawl_client *clients[16];
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    nodes_start(&nodes, 2, false);
    party_connect(&ours, &nodes, "?durable=1");
    for (int i = 0; i < 16; i++) {
        clients[i] = ours.clients[0];
    }
    assert_status(pawl_lock_open_quorum(clients, 0, NAME, NULL, &lock), PAWL_INVALID);
    assert_status(pawl_lock_open_quorum(clients, 16, NAME, NULL, &lock), PAWL_INVALID);
    assert_status(pawl_lock_open_quorum(clients, 2, NAME, NULL, &lock), PAWL_INVALID);
    assert_status(pawl_lock_open_quorum(NULL, 3, NAME, NULL, &lock), PAWL_INVALID);
    assert_status(pawl_lock_open_quorum(ours.clients, 2, "", NULL, &lock), PAWL_INVALID);
    assert_status(pawl_lock_open_quorum(ours.clients, 2, NAME, NULL, NULL), PAWL_INVALID);
    options.lease_ms = 30001;
    assert_status(pawl_lock_open_quorum(ours.clients, 2, NAME, &options, &lock), PAWL_INVALID);
    assert_non_null(strstr(pawl_last_error(), "max_lease_ms"));
    options.lease_ms = 30000;
    options.node_timeout_ms = -1;
    assert_status(pawl_lock_open_quorum(ours.clients, 2, NAME, &options, &lock), PAWL_INVALID);
    options.node_timeout_ms = 20;
    assert_status(pawl_lock_open(ours.clients[0], NAME, &options, &lock), PAWL_INVALID);
    options.node_timeout_ms = 0;
    options.handoff = 1;
    assert_status(pawl_lock_open_quorum(ours.clients, 2, NAME, &options, &lock), PAWL_INVALID);
    assert_non_null(strstr(pawl_last_error(), "handoff"));
    options.handoff = 0;
    options.kind = PAWL_PLAIN;
    assert_status(pawl_lock_open_quorum(ours.clients, 2, NAME, &options, &lock), PAWL_UNSUPPORTED);
    assert_null(lock);

    /* The same server by another name. */
    pawl_client *again = NULL;
    assert_ok(pawl_client_open(server_unix_url(nodes.servers[0]), NULL, &again));
    clients[1] = again;
    assert_status(pawl_lock_open_quorum(clients, 2, NAME, NULL, &lock), PAWL_INVALID);
    assert_non_null(strstr(pawl_last_error(), "the same server"));
    assert_ok(pawl_client_close(again));

    /* A replica that its client was told to accept. */
    struct server *replica = server_start_replica_of(nodes.servers[1], NULL);
    char url[200];
    snprintf(url, sizeof url, "%s?guard=off", server_url(replica));
    assert_ok(pawl_client_open(url, NULL, &again));
    clients[1] = again;
    assert_status(pawl_lock_open_quorum(clients, 2, NAME, NULL, &lock), PAWL_REFUSED);
    assert_non_null(strstr(pawl_last_error(), "replica"));
    assert_ok(pawl_client_close(again));
}

static void small_and_even_numbers_draw_a_warning(void **state)
{
    (void)state;
    pawl_client_options loud = PAWL_CLIENT_OPTIONS_INIT;
    pawl_client *clients[4];
    pawl_lock *lock = NULL;
    loud.log = note_warning;
    for (int i = 0; i < 4; i++) {
        char url[32];
        snprintf(url, sizeof url, "memory:quorum-%d", i);
        assert_ok(pawl_client_open(url, &loud, &clients[i]));
    }
    for (size_t count = 1; count <= 4; count++) {
        atomic_store(&warnings, 0);
        assert_ok(pawl_lock_open_quorum(clients, count, NAME, NULL, &lock));
        if (count != 3) {
            WAIT_UNTIL(atomic_load(&warnings) == 1, 1000);
            assert_non_null(strstr(warning, count == 4 ? "odd number" : "survives no failure"));
        }
        assert_ok(pawl_lock_acquire(lock, PAWL_TRY)); /* engines without restarts vote always */
        assert_ok(pawl_lock_release(lock));
        assert_ok(pawl_lock_close(lock));
        assert_int_equal(atomic_load(&warnings), count != 3 ? 1 : 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_ok(pawl_client_close(clients[i]));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cleanup_setup, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(new_servers_do_not_vote_yet),
        TEST(sightings_are_noted_at_the_others),
        TEST(a_restarted_server_waits),
        TEST(forgotten_by_one_and_never_two_holders),
        TEST(without_the_guard_there_would_be_two),
        TEST(a_warning_is_all_if_the_user_says_so),
        TEST(who_reads_warnings_slowly_holds_up_nobody),
        TEST(durable_servers_vote_at_once),
        TEST(a_durable_server_with_a_new_disk_waits),
        TEST(what_makes_no_quorum),
        TEST(small_and_even_numbers_draw_a_warning),
    };
    return cmocka_run_group_tests_name("quorum guard", tests, NULL, NULL);
}
