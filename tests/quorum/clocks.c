/* SPDX-License-Identifier: Apache-2.0 */
/* Fault matrix rows 9, 14 and 36: a server of the quorum whose wall clock jumps. It ends its leases
 * early (or late), and must not vote until everything that it had granted is over. */
#include "nodes.h"

#include "base/clock.h"
#include "support/wall.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { MAX_LEASE_MS = 3000, LEASE_MS = 2000, LEFT_OVER_MS = 1000 };

#define MS_NS INT64_C(1000000)
#define S_NS (1000 * MS_NS)

static struct nodes nodes;
static struct wall walls[NODES_MAX];
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

/* Servers that somebody has seen long ago, each with a wall clock of its own. */
static void start(size_t count, bool proxied)
{
    memset(&nodes, 0, sizeof nodes);
    nodes.count = count;
    for (size_t i = 0; i < count; i++) {
        walls[i] = wall_make();
        nodes.servers[i] = wall_start_server(&walls[i], NULL);
        nodes.proxies[i] = proxied ? proxy_start_for(nodes.servers[i]) : NULL;
    }
    for (size_t i = 0; i < count; i++) {
        char *run_id = server_info(nodes.servers[i], "run_id");
        for (size_t other = 0; other < count; other++) {
            if (other != i) {
                free(server_command(nodes.servers[other], "SET pawl_seen:%s 1000", run_id));
            }
        }
        free(run_id);
    }
}

static void jump(size_t index, int64_t by_ns)
{
    atomic_fetch_add(walls[index].offset_ns, by_ns);
}

static void cut_off(size_t index)
{
    proxy_refuse(nodes.proxies[index], true);
    proxy_cut_now(nodes.proxies[index], PROXY_RST);
}

/* It need not wait for a quarantine, only for what a release before it has left to do. */
static void assert_takes_it(struct party *party)
{
    assert_ok(pawl_lock_acquire(party->lock, LEFT_OVER_MS));
    assert_ok(pawl_lock_release(party->lock));
}

/* ===== Kleppmann's first schedule, by a clock ===== */

enum arrival { BEFORE_THE_JUMP, AFTER_THE_JUMP };

/* One holder at A, B, C; the clock of C jumps beyond its lease; A and B cannot be reached any more;
 * another one asks C, D, E. Answers what it is told; OK only if the first one is still sure. */
static pawl_status second_holder(pawl_guard guard, enum arrival arrival)
{
    pawl_lock_options options = guarded(guard);
    start(5, true);
    struct nodes others_way = nodes; /* A and B by proxies that are cut off, too */
    memset(&others_way.proxies[2], 0, 3 * sizeof others_way.proxies[2]);
    party_open(&ours, &nodes, "?timeout=300ms", &options);
    if (arrival == BEFORE_THE_JUMP) {
        party_open(&theirs, &others_way, "?timeout=300ms", &options);
    }
    cut_off(3);
    cut_off(4);
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    assert_int_equal(nodes_holding(&nodes), 3);
    cut_off(2);
    jump(2, 60 * S_NS);
    cut_off(0);
    cut_off(1);
    if (arrival == AFTER_THE_JUMP) {
        party_open(&theirs, &others_way, "?timeout=300ms&lazy=1", &options);
    }
    const pawl_status status = pawl_lock_acquire(theirs.lock, PAWL_TRY);
    const bool sure = pawl_lock_remaining_ms(ours.lock) > 0;
    assert_true(status != PAWL_OK || sure);
    return status;
}

static void assert_names_the_clock(size_t index)
{
    assert_non_null(strstr(pawl_last_error(), server_url(nodes.servers[index])));
    assert_non_null(strstr(pawl_last_error(), "has a clock that jumped"));
    assert_non_null(strstr(pawl_last_error(), "does not vote for"));
    assert_non_null(strstr(pawl_last_error(), "pawl run -w"));
}

static void jumped_and_never_two_holders(void **state)
{
    (void)state;
    assert_status(second_holder(PAWL_GUARD_ENFORCE, BEFORE_THE_JUMP), PAWL_REFUSED);
    assert_names_the_clock(2);
    WAIT_UNTIL(server_integer(nodes.servers[2], "EXISTS " NAME) == 0, 5000);
}

static void jumped_and_never_two_holders_for_a_newcomer(void **state)
{
    (void)state;
    assert_status(second_holder(PAWL_GUARD_ENFORCE, AFTER_THE_JUMP), PAWL_REFUSED);
    assert_names_the_clock(2);
    WAIT_UNTIL(server_integer(nodes.servers[2], "EXISTS " NAME) == 0, 5000);
}

/* The test of the test; and what still helps then. */
static void without_the_guard_there_would_be_two(void **state)
{
    (void)state;
    assert_status(second_holder(PAWL_GUARD_OFF, BEFORE_THE_JUMP), PAWL_OK);
    assert_true(pawl_lock_token(theirs.lock) > pawl_lock_token(ours.lock));
}

static void without_the_guard_a_newcomer_would_be_one(void **state)
{
    (void)state;
    assert_status(second_holder(PAWL_GUARD_OFF, AFTER_THE_JUMP), PAWL_OK);
    assert_true(pawl_lock_token(theirs.lock) > pawl_lock_token(ours.lock));
}

/* ===== What is a jump ===== */

/* It is seen, and waited for. */
static void assert_is_waited_for(size_t index)
{
    const int64_t start_ms = boottime_ms();
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_REFUSED);
    assert_names_the_clock(index);
    assert_status(pawl_lock_acquire(ours.lock, 200), PAWL_REFUSED);
    assert_ok(pawl_lock_acquire(ours.lock, 10000));
    assert_in_range(boottime_ms() - start_ms, MAX_LEASE_MS - 500, MAX_LEASE_MS + 6000);
    assert_ok(pawl_lock_release(ours.lock));
}

static void forward_or_back_it_waits_and_votes_again(void **state)
{
    (void)state;
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    start(3, false);
    party_open(&ours, &nodes, "", &options);
    assert_takes_it(&ours);
    server_kill(nodes.servers[0]);
    jump(2, -60 * S_NS);
    assert_is_waited_for(2);
    jump(2, 1 * S_NS);
    assert_is_waited_for(2);
    assert_takes_it(&ours);
}

/* Durable or not: a lease that has ended early was not forgotten. */
static void a_durable_server_waits_too(void **state)
{
    (void)state;
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    start(3, false);
    for (size_t i = 0; i < 3; i++) {
        free(server_command(nodes.servers[i], "SET pawl_seen:durable 1000"));
    }
    party_open(&ours, &nodes, "?durable=1", &options);
    assert_takes_it(&ours);
    server_kill(nodes.servers[0]);
    jump(1, 60 * S_NS);
    assert_is_waited_for(1);
}

/* What it has kept ends by the clock as it is when it comes back. */
static void a_jump_while_it_was_down_is_one(void **state)
{
    (void)state;
    static const char *const args[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
    static const struct server_options durable = {.args = args, .aof = true};
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    start(3, false);
    server_stop(nodes.servers[2]);
    nodes.servers[2] = wall_start_server(&walls[2], &durable);
    free(server_command(nodes.servers[2], "SET pawl_seen:durable 1000"));
    party_open(&ours, &nodes, "", &options);
    assert_takes_it(&ours);
    server_kill(nodes.servers[0]);
    server_kill(nodes.servers[2]);
    jump(2, 60 * S_NS);
    wall_restart_server(&walls[2], nodes.servers[2], true);
    WAIT_UNTIL(pawl_lock_acquire(ours.lock, PAWL_TRY) == PAWL_REFUSED, 2000);
    assert_is_waited_for(2);
}

static int64_t uptime_s(struct server *server)
{
    char *text = server_info(server, "uptime_in_seconds");
    const int64_t uptime = strtoll(text, NULL, 10);
    free(text);
    return uptime;
}

/* Row 14: it has just been started, and by its clock it is an hour old. */
static void a_clock_makes_nobody_older(void **state)
{
    (void)state;
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    start(3, false);
    server_kill(nodes.servers[0]);
    wall_restart_server(&walls[2], nodes.servers[2], false);
    jump(2, 3600 * S_NS);
    WAIT_UNTIL(uptime_s(nodes.servers[2]) >= 3600, 5000);
    party_open(&ours, &nodes, "?lazy=1", &options);
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_REFUSED);
    assert_non_null(strstr(pawl_last_error(), server_url(nodes.servers[2])));
    assert_non_null(strstr(pawl_last_error(), "has restarted"));
    assert_ok(pawl_lock_acquire(ours.lock, 10000));
    assert_ok(pawl_lock_release(ours.lock));
}

static void others_are_a_majority_without_it(void **state)
{
    (void)state;
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    start(3, false);
    party_open(&ours, &nodes, "", &options);
    assert_takes_it(&ours);
    jump(2, 60 * S_NS);
    for (int i = 0; i < 5; i++) {
        assert_takes_it(&ours);
    }
    party_open(&theirs, &nodes, "", &options);
    assert_takes_it(&theirs);
}

/* Slewed, and steps that a synchronized clock may make. */
static void a_little_is_no_jump(void **state)
{
    (void)state;
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    start(3, false);
    party_open(&ours, &nodes, "", &options);
    server_kill(nodes.servers[0]);
    WAIT_UNTIL(pawl_lock_acquire(ours.lock, PAWL_TRY) == PAWL_OK, 2000);
    assert_ok(pawl_lock_release(ours.lock));
    for (int i = 0; i < 6; i++) {
        jump(2, (i % 2 == 0 ? 40 : -40) * MS_NS);
        assert_takes_it(&ours);
    }
    for (int i = 0; i < 20; i++) { /* but many of them are one */
        jump(2, 40 * MS_NS);
        const pawl_status status = pawl_lock_acquire(ours.lock, PAWL_TRY);
        if (status != PAWL_OK) {
            assert_status(status, PAWL_REFUSED);
            assert_names_the_clock(2);
            return;
        }
        assert_ok(pawl_lock_release(ours.lock));
    }
    support_fail("800 ms in steps were not seen");
}

static void a_server_that_stood_still_has_not_jumped(void **state)
{
    (void)state;
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    start(3, false);
    party_open(&ours, &nodes, "", &options);
    assert_takes_it(&ours);
    server_kill(nodes.servers[0]);
    server_pause(nodes.servers[2]);
    const int64_t start_ms = boottime_ms();
    while (boottime_ms() - start_ms < 2000) {
        assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_UNAVAILABLE);
    }
    server_resume(nodes.servers[2]);
    pawl_status status = PAWL_UNAVAILABLE;
    for (int64_t end_ms = boottime_ms() + 5000; status != PAWL_OK && boottime_ms() < end_ms;) {
        status = pawl_lock_acquire(ours.lock, PAWL_TRY); /* what it was asked is still taken back */
        assert_true(status != PAWL_REFUSED);
    }
    assert_ok(status);
    assert_ok(pawl_lock_release(ours.lock));
    assert_takes_it(&ours);
}

/* ===== The settings ===== */

static _Atomic int warnings; /* of clocks */
static char warning[400];

static void note_warning(pawl_log_level level, const char *message, void *arg)
{
    (void)arg;
    if (level == PAWL_LOG_WARNING && strstr(message, "clock") != NULL) {
        snprintf(warning, sizeof warning, "%s", message);
        atomic_fetch_add(&warnings, 1);
    }
}

/* Two of three, one of which jumps twice. */
static void jump_aloud(pawl_guard guard, pawl_status expected)
{
    pawl_lock_options options = guarded(guard);
    pawl_client_options loud = PAWL_CLIENT_OPTIONS_INIT;
    loud.log = note_warning;
    atomic_store(&warnings, 0);
    start(3, false);
    ours.count = 3;
    for (int i = 0; i < 3; i++) {
        assert_ok(pawl_client_open(server_url(nodes.servers[i]), &loud, &ours.clients[i]));
    }
    assert_ok(pawl_lock_open_quorum(ours.clients, 3, NAME, &options, &ours.lock));
    assert_takes_it(&ours);
    server_kill(nodes.servers[0]);
    for (int jumps = 1; jumps <= 2; jumps++) {
        jump(2, -3 * S_NS);
        for (int i = 0; i < 3; i++) {
            if (expected == PAWL_OK) {
                assert_takes_it(&ours);
            } else {
                assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), expected);
            }
        }
        if (expected == PAWL_REFUSED) {
            assert_ok(pawl_lock_acquire(ours.lock, 10000));
            assert_ok(pawl_lock_release(ours.lock));
        }
        if (guard != PAWL_GUARD_OFF) {
            WAIT_UNTIL(atomic_load(&warnings) >= jumps, 1000);
            assert_int_equal(atomic_load(&warnings), jumps);
            assert_non_null(strstr(warning, server_url(nodes.servers[2])));
            const char *by = strstr(warning, "jumped by ");
            double jumped_s = 0;
            assert_true(by != NULL && sscanf(by, "jumped by %lf s", &jumped_s) == 1);
            assert_true(jumped_s > -3.5 && jumped_s < -2.5); /* as well as it can be measured */
        }
    }
}

static void each_jump_is_told_once(void **state)
{
    (void)state;
    jump_aloud(PAWL_GUARD_ENFORCE, PAWL_REFUSED);
    assert_non_null(strstr(warning, "does not vote for"));
}

static void a_warning_is_all_if_the_user_says_so(void **state)
{
    (void)state;
    jump_aloud(PAWL_GUARD_WARN, PAWL_OK);
    assert_non_null(strstr(warning, "is let vote"));
}

static void nothing_is_looked_at_without_the_guard(void **state)
{
    (void)state;
    jump_aloud(PAWL_GUARD_OFF, PAWL_OK);
    assert_int_equal(atomic_load(&warnings), 0);
    for (int i = 1; i < 3; i++) {
        assert_true(server_answers(nodes.servers[i], "", "KEYS pawl_seen:*:clock"));
    }
}

/* ===== What the others have noted ===== */

static size_t count_notes(struct server *server)
{
    size_t count = 0;
    char *keys = server_command(server, "KEYS pawl_seen:*:clock");
    for (const char *at = keys; (at = strstr(at, ":clock")) != NULL; at++) {
        count++;
    }
    free(keys);
    return count;
}

/* What one server has noted of another's clock. */
static char *note_of(size_t subject, size_t witness)
{
    char *run_id = server_info(nodes.servers[subject], "run_id");
    char *note = server_command(nodes.servers[witness], "GET pawl_seen:%s:clock", run_id);
    free(run_id);
    return note;
}

static bool has_note(size_t subject, size_t witness, const char *note)
{
    char *found = note_of(subject, witness);
    const bool same = strcmp(found, note) == 0;
    free(found);
    return same;
}

/* Who comes after a jump that somebody else has seen, learns of it; and who comes later still, has
 * nothing to wait for. */
static void a_jump_is_passed_on(void **state)
{
    (void)state;
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    start(3, false);
    party_open(&ours, &nodes, "", &options);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(count_notes(nodes.servers[i]), 2);
    }
    assert_takes_it(&ours);
    jump(2, 60 * S_NS);
    const int64_t start_ms = boottime_ms();
    assert_takes_it(&ours);
    party_open(&theirs, &nodes, "", &options);
    party_close(&theirs); /* its notes are as things stand now */
    server_pause(nodes.servers[0]);
    party_open(&theirs, &nodes, "?timeout=300ms&lazy=1", &options);
    assert_status(pawl_lock_acquire(theirs.lock, PAWL_TRY), PAWL_REFUSED);
    assert_names_the_clock(2);
    assert_null(strstr(strstr(pawl_last_error(), "jumped") + 1, "jumped")); /* it alone */
    assert_ok(pawl_lock_acquire(theirs.lock, 10000));
    assert_true(boottime_ms() - start_ms >= MAX_LEASE_MS);
    assert_ok(pawl_lock_release(theirs.lock));
    party_close(&theirs);
    party_open(&theirs, &nodes, "?timeout=300ms&lazy=1", &options);
    assert_takes_it(&theirs);
    server_resume(nodes.servers[0]);
}

static _Atomic int64_t frozen_us; /* our clock says that; 0: it goes on, */
static _Atomic int64_t lag_us;    /* and is late by this */

static int64_t lagging_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    const int64_t frozen = atomic_load(&frozen_us);
    const int64_t real_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    return frozen != 0 ? frozen : real_us - atomic_load(&lag_us);
}

/* As in a virtual machine that is moved. */
static void stand_still(int64_t duration_ms)
{
    atomic_store(&frozen_us, lagging_us());
    nap_ms(duration_ms);
    atomic_fetch_add(&lag_us, duration_ms * 1000);
    atomic_store(&frozen_us, 0);
}

static int end_lagging(void **state)
{
    const int result = end(state);
    pawl__clock_hook = NULL;
    return result;
}

/* To who has stood still all servers seem to have jumped. It waits, for it cannot know; but others
 * do not have to, for between the servers nothing has changed. */
static void who_stood_still_stops_nobody_else(void **state)
{
    (void)state;
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    pawl__clock_hook = lagging_us;
    start(3, false);
    party_open(&ours, &nodes, "", &options);
    assert_takes_it(&ours);
    char *before[3];
    for (size_t i = 0; i < 3; i++) {
        before[i] = note_of(i, (i + 1) % 3);
        assert_string_equal(strrchr(before[i], ' '), " 0");
    }
    stand_still(300);
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_REFUSED);
    for (size_t i = 0; i < 3; i++) {
        assert_names_the_clock(i);
    }
    for (size_t i = 0; i < 3; i++) { /* it has looked around, and noted no jump */
        WAIT_UNTIL(!has_note(i, (i + 1) % 3, before[i]), 3000);
        char *after = note_of(i, (i + 1) % 3);
        assert_string_equal(strrchr(after, ' '), " 0");
        free(after);
        free(before[i]);
    }
    party_open(&theirs, &nodes, "", &options);
    assert_takes_it(&theirs);
    assert_ok(pawl_lock_acquire(ours.lock, 10000));
    assert_ok(pawl_lock_release(ours.lock));
}

/* Of two nobody can say which one it was. */
static void with_two_both_wait(void **state)
{
    (void)state;
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    start(3, false);
    party_open(&ours, &nodes, "", &options);
    party_close(&ours);
    jump(2, 60 * S_NS);
    server_pause(nodes.servers[0]);
    party_open(&ours, &nodes, "?timeout=300ms&lazy=1", &options);
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_REFUSED);
    assert_names_the_clock(1);
    assert_names_the_clock(2);
    const char *rival = strstr(pawl_last_error(), "unless it was that of ");
    assert_non_null(rival);
    assert_non_null(strstr(rival + 1, "unless it was that of "));
    assert_ok(pawl_lock_acquire(ours.lock, 10000));
    assert_ok(pawl_lock_release(ours.lock));
    server_resume(nodes.servers[0]);
}

/* Of an older version, or of nobody who can be understood. */
static void notes_without_clocks_are_understood(void **state)
{
    (void)state;
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    static const char *const values[] = {"", "1", "x y z", "1 2 3 4 5",
        "9223372036854775807 -9223372036854775808 9223372036854775807 9223372036854775807"};
    start(3, false);
    party_open(&ours, &nodes, "", &options); /* without any */
    assert_takes_it(&ours);
    for (size_t value = 0; value < sizeof values / sizeof values[0]; value++) {
        party_close(&ours);
        for (int i = 0; i < 3; i++) {
            char *run_id = server_info(nodes.servers[i], "run_id");
            struct server *witness = nodes.servers[(i + 1) % 3];
            free(server_command(witness, "SET pawl_seen:%s:clock '%s'", run_id, values[value]));
            assert_true(server_answers(witness, "1000", "GET pawl_seen:%s", run_id));
            free(run_id);
        }
        party_open(&ours, &nodes, "", &options);
        assert_takes_it(&ours);
    }
}

/* Clocks that are apart, but always were, are no matter. */
static void clocks_may_stand_anywhere(void **state)
{
    (void)state;
    pawl_lock_options options = guarded(PAWL_GUARD_ENFORCE);
    start(3, false);
    jump(0, -3600 * S_NS);
    jump(2, 7200 * S_NS);
    for (int i = 0; i < 3; i++) {
        party_open(&ours, &nodes, "", &options);
        assert_takes_it(&ours);
        party_close(&ours);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cleanup_setup, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(jumped_and_never_two_holders),
        TEST(jumped_and_never_two_holders_for_a_newcomer),
        TEST(without_the_guard_there_would_be_two),
        TEST(without_the_guard_a_newcomer_would_be_one),
        TEST(forward_or_back_it_waits_and_votes_again),
        TEST(a_durable_server_waits_too),
        TEST(a_jump_while_it_was_down_is_one),
        TEST(a_clock_makes_nobody_older),
        TEST(others_are_a_majority_without_it),
        TEST(a_little_is_no_jump),
        TEST(a_server_that_stood_still_has_not_jumped),
        TEST(each_jump_is_told_once),
        TEST(a_warning_is_all_if_the_user_says_so),
        TEST(nothing_is_looked_at_without_the_guard),
        TEST(a_jump_is_passed_on),
        cmocka_unit_test_setup_teardown(
            who_stood_still_stops_nobody_else, cleanup_setup, end_lagging),
        TEST(with_two_both_wait),
        TEST(notes_without_clocks_are_understood),
        TEST(clocks_may_stand_anywhere),
    };
    return cmocka_run_group_tests_name("quorum clocks", tests, NULL, NULL);
}
