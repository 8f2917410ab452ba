/* SPDX-License-Identifier: Apache-2.0 */
/* A quorum lock while servers fail: rows 20, 35 and 36 of the fault matrix, and a server that hangs
 * in each phase. */
#include "nodes.h"

#include "support/process.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

static struct nodes nodes; /* six of them, or fewer */
static struct party ours;
static struct party theirs;

static int begin(void **state)
{
    nodes.count = 6;
    nodes_reset(&nodes);
    return cleanup_setup(state);
}

static int end(void **state)
{
    nodes_resume(&nodes);
    party_close(&ours);
    party_close(&theirs);
    return cleanup_teardown(state);
}

/* ===== Words ===== */

static void assert_says(size_t index, const char *words)
{
    char text[160];
    snprintf(text, sizeof text, "%s: %s", server_url(nodes.servers[index]), words);
    if (strstr(pawl_last_error(), text) == NULL) {
        support_fail("'%s' is not in: %s", text, pawl_last_error());
    }
}

static void tell_lost(const pawl_event *event, void *arg)
{
    atomic_store((_Atomic bool *)arg, event->status == PAWL_LOST);
}

/* Whether the loss is found by the release, or was told before. */
static void lose_with_one_that_hangs(pawl_event_callback on_lost)
{
    static _Atomic bool lost;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 600;
    options.on_lost = on_lost;
    options.event_arg = &lost;
    atomic_store(&lost, false);
    nodes.count = 3;
    party_open(&ours, &nodes, "?durable=1&timeout=300ms", &options);
    server_pause(nodes.servers[0]);
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    server_pause(nodes.servers[1]);
    WAIT_UNTIL(on_lost != NULL ? atomic_load(&lost) : pawl_lock_remaining_ms(ours.lock) == 0, 5000);
    const pawl_status status = pawl_lock_release(ours.lock);
    assert_true(status == PAWL_LOST || (on_lost == NULL && status == PAWL_UNAVAILABLE));
    assert_says(0, "no answer");
}

static void a_loss_names_who_did_not_answer(void **state)
{
    (void)state;
    lose_with_one_that_hangs(NULL);
}

static void a_loss_that_was_told_names_who_did_not_answer(void **state)
{
    (void)state;
    lose_with_one_that_hangs(tell_lost);
}

/* ===== The 2X + 1 rule ===== */

static void survives(size_t count, size_t failures)
{
    nodes.count = count;
    nodes_reset(&nodes);
    party_open(&ours, &nodes, "?durable=1&timeout=300ms", NULL);
    for (size_t failed = 0; failed < failures; failed++) {
        server_kill(nodes.servers[failed]);
    }
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    assert_true(nodes_holding(&nodes) >= count / 2 + 1);
    assert_ok(pawl_lock_release(ours.lock));
    server_kill(nodes.servers[failures]);
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_UNAVAILABLE);
    assert_non_null(strstr(pawl_last_error(), server_url(nodes.servers[failures])));
    const int64_t start_ms = boottime_ms();
    assert_status(pawl_lock_acquire(ours.lock, 300), PAWL_UNAVAILABLE);
    assert_true(boottime_ms() - start_ms < 5000);
    WAIT_UNTIL(nodes_holding(&nodes) == 0, 2000); /* nothing is left at those that did answer */
    party_close(&ours);
}

static void three_survive_one(void **state)
{
    (void)state;
    survives(3, 1);
}

static void four_survive_one(void **state)
{
    (void)state;
    survives(4, 1);
}

static void five_survive_two(void **state)
{
    (void)state;
    survives(5, 2);
}

static void six_survive_two(void **state)
{
    (void)state;
    survives(6, 2);
}

/* ===== A server that hangs ===== */

/* It costs nothing: the others decide. These are given as long as a call may take, for on a busy
 * machine they may be late, too. */
static void one_hangs_while_it_is_acquired(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.node_timeout_ms = 1000;
    nodes.count = 3;
    party_open(&ours, &nodes, NULL, &options);
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
    assert_ok(pawl_lock_release(ours.lock));
    WAIT_UNTIL(nodes_holding(&nodes) == 0, 1000);
    server_pause(nodes.servers[1]);
    const int64_t start_ms = boottime_ms();
    for (int i = 0; i < 10; i++) {
        assert_ok(pawl_lock_acquire(ours.lock, PAWL_TRY));
        assert_ok(pawl_lock_release(ours.lock));
    }
    assert_true(boottime_ms() - start_ms < 10 * 900); /* each less than the node timeout */
    server_resume(nodes.servers[1]);
    WAIT_UNTIL(nodes_holding(&nodes) == 0, 5000); /* what it granted late was taken back */
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    assert_ok(pawl_lock_release(ours.lock));
}

/* Renewals at the majority keep it; when the server is back it is asked for it again. */
static void one_hangs_while_it_is_held(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 1500;
    nodes.count = 3;
    party_open(&ours, &nodes, "?durable=1&timeout=500ms", &options);
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    WAIT_UNTIL(nodes_holding(&nodes) == 3, 1000);
    server_pause(nodes.servers[2]);
    const int64_t end_ms = boottime_ms() + 2500;
    while (boottime_ms() < end_ms) {
        assert_true(pawl_lock_remaining_ms(ours.lock) > 0);
        nap_ms(10);
    }
    server_resume(nodes.servers[2]);
    WAIT_UNTIL(nodes_holding(&nodes) == 3, 5000);
    nodes_await_renewal(&nodes);
    server_pause(nodes.servers[0]); /* another one: the healed one counts */
    const int64_t later_ms = boottime_ms() + 2500;
    while (boottime_ms() < later_ms) {
        assert_true(pawl_lock_remaining_ms(ours.lock) > 0);
        nap_ms(10);
    }
    server_resume(nodes.servers[0]);
    assert_ok(pawl_lock_release(ours.lock));
    WAIT_UNTIL(nodes_holding(&nodes) == 0, 5000);
}

static void one_hangs_while_it_is_released(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 3000;
    nodes.count = 3;
    party_open(&ours, &nodes, "?durable=1&timeout=10s", &options);
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    WAIT_UNTIL(nodes_holding(&nodes) == 3, 1000);
    nodes_await_renewal(&nodes); /* the grant of the slowest has been read, too */
    server_pause(nodes.servers[0]);
    const int64_t start_ms = boottime_ms();
    assert_ok(pawl_lock_release(ours.lock));
    assert_true(boottime_ms() - start_ms < 5000); /* which is not the timeout */
    assert_int_equal(nodes_holding(&nodes), 0);
    server_resume(nodes.servers[0]);
    WAIT_UNTIL(nodes_holding(&nodes) == 0, 5000);
}

struct news {
    _Atomic int lost;
    _Atomic int risk;
    _Atomic int64_t lost_ms;
};

static void note_lost(const pawl_event *event, void *arg)
{
    struct news *news = arg;
    if (event->status == PAWL_LOST) {
        atomic_store(&news->lost_ms, boottime_ms());
        atomic_fetch_add(&news->lost, 1);
    } else {
        atomic_fetch_add(&news->risk, 1);
    }
}

/* Nobody answers: told in danger once, and lost once, in time. */
static void a_majority_hangs_while_it_is_held(void **state)
{
    (void)state;
    static struct news news;
    memset(&news, 0, sizeof news);
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 1500;
    options.on_lost = note_lost;
    options.on_risk = note_lost;
    options.event_arg = &news;
    nodes.count = 3;
    party_open(&ours, &nodes, "?durable=1&timeout=500ms", &options);
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    WAIT_UNTIL(nodes_holding(&nodes) == 3, 1000);
    server_pause(nodes.servers[1]);
    server_pause(nodes.servers[2]);
    WAIT_UNTIL(pawl_lock_remaining_ms(ours.lock) == 0, 3000);
    const int64_t over_ms = boottime_ms();
    WAIT_UNTIL(atomic_load(&news.lost) == 1, 1000);
    assert_true(atomic_load(&news.lost_ms) - over_ms < 500);
    assert_int_equal(atomic_load(&news.risk), 1);
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_LOST);
    server_resume(nodes.servers[1]);
    server_resume(nodes.servers[2]);
    WAIT_UNTIL(nodes_holding(&nodes) == 0, 5000);
    assert_status(pawl_lock_release(ours.lock), PAWL_LOST);
    assert_non_null(strstr(pawl_last_error(), "was lost"));
    assert_status(pawl_lock_release(ours.lock), PAWL_NOT_HELD);
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    assert_ok(pawl_lock_release(ours.lock));
    assert_int_equal(atomic_load(&news.lost), 1);
}

/* It is lost while an extension waits for an answer: what the third one has is given back when that
 * is over, and is not renewed until somebody asks again. */
static void it_is_lost_while_it_is_extended(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 400;
    nodes.count = 3;
    party_open(&ours, &nodes, "?durable=1&timeout=1s", &options);
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    WAIT_UNTIL(nodes_holding(&nodes) == 3, 1000);
    server_pause(nodes.servers[1]);
    server_pause(nodes.servers[2]);
    pawl_status status = PAWL_UNAVAILABLE;
    while (status == PAWL_UNAVAILABLE) { /* they give up a little before its time is over */
        status = pawl_lock_extend(ours.lock, 400);
    }
    assert_status(status, PAWL_LOST);
    nodes.count = 1;
    WAIT_UNTIL(nodes_holding(&nodes) == 0, 2000);
    nodes.count = 3;
    server_resume(nodes.servers[1]);
    server_resume(nodes.servers[2]);
    assert_status(pawl_lock_release(ours.lock), PAWL_LOST);
}

/* Two of three hang before they can answer: what the third granted, and what they grant when they
 * go on, is taken back. */
static void fewer_than_a_majority_answer(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.node_timeout_ms = 500; /* so that the one that answers is heard */
    nodes.count = 3;
    party_open(&ours, &nodes, "?durable=1&timeout=10s", &options);
    server_pause(nodes.servers[0]);
    server_pause(nodes.servers[2]);
    const int64_t start_ms = boottime_ms();
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_UNAVAILABLE);
    assert_true(boottime_ms() - start_ms < 5000);
    /* 500 ms, less what passed until it was asked. */
    assert_non_null(strstr(pawl_last_error(), "no answer within "));
    assert_non_null(strstr(pawl_last_error(), "granted"));
    WAIT_UNTIL(nodes_holding(&nodes) == 0, 2000);
    server_resume(nodes.servers[0]);
    server_resume(nodes.servers[2]);
    WAIT_UNTIL(nodes_holding(&nodes) == 0, 2000);
    const int64_t end_ms = boottime_ms() + 1500; /* nor does anything come later */
    while (boottime_ms() < end_ms) {
        nap_ms(50);
    }
    assert_int_equal(nodes_holding(&nodes), 0);
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    assert_ok(pawl_lock_release(ours.lock));
}

/* ===== Delays ===== */

/* A grant that takes longer than the lease is none, and is released everywhere. */
static void a_grant_that_comes_too_late(void **state)
{
    (void)state;
    struct nodes far;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 60;
    options.node_timeout_ms = 1000;
    nodes_start(&far, 3, true);
    party_open(&ours, &far, "?durable=1&timeout=1000ms", &options);
    for (int i = 0; i < 3; i++) {
        proxy_set_delay(far.proxies[i], PROXY_TO_CLIENT, 80, 0);
    }
    assert_int_equal(pawl_lock_acquire(ours.lock, PAWL_TRY) == PAWL_OK, false);
    assert_int_equal(pawl_lock_remaining_ms(ours.lock), 0);
    for (int i = 0; i < 3; i++) {
        proxy_set_delay(far.proxies[i], PROXY_TO_CLIENT, 0, 0);
    }
    WAIT_UNTIL(nodes_holding(&far) == 0, 2000);
    party_close(&ours);
}

/* However long a server is given: a call ends when it has to. */
static void a_limit_is_kept(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.node_timeout_ms = 5000;
    nodes.count = 3;
    party_open(&ours, &nodes, "?durable=1&timeout=1000ms", &options);
    server_pause(nodes.servers[0]);
    server_pause(nodes.servers[1]);
    const int64_t start_ms = boottime_ms();
    assert_status(pawl_lock_acquire(ours.lock, 1200), PAWL_UNAVAILABLE);
    assert_true(boottime_ms() - start_ms >= 1000);
    assert_true(boottime_ms() - start_ms < 4500);
}

/* A wait that outlasts the timeout says what was found out, also if it ends amid a round. */
static void a_long_wait_ends_busy(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.node_timeout_ms = 1000; /* or a late server makes a whole round without an answer */
    nodes.count = 3;
    party_open(&ours, &nodes, NULL, NULL);
    party_open(&theirs, &nodes, "?durable=1&timeout=300ms", &options);
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    for (int wait_ms = 350; wait_ms < 370; wait_ms += 2) {
        assert_status(pawl_lock_acquire(theirs.lock, wait_ms), PAWL_BUSY);
    }
    assert_ok(pawl_lock_release(ours.lock));
}

/* Two have refused, so nobody waits for the third one, and nothing is said of how long it took. */
static void one_that_was_not_waited_for(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.node_timeout_ms = 500;
    nodes.count = 3;
    party_open(&ours, &nodes, NULL, &options);
    for (int i = 0; i < 2; i++) {
        free(server_command(nodes.servers[i], "HSET " NAME " other:1 1"));
        free(server_command(nodes.servers[i], "PEXPIRE " NAME " 60000"));
    }
    server_pause(nodes.servers[2]);
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_BUSY);
    assert_non_null(strstr(pawl_last_error(), "had not answered yet when the others decided it"));
    assert_null(strstr(pawl_last_error(), "no answer within"));
    server_pause(nodes.servers[1]);
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_UNAVAILABLE);
    /* 500 ms, less what passed until it was asked. */
    assert_non_null(strstr(pawl_last_error(), "no answer within "));
}

/* The client pauses between its attempts to connect, for longer than a round lasts: what the last
 * one found is told all the same. */
static void one_that_is_away_is_not_called_slow(void **state)
{
    (void)state;
    nodes.count = 3;
    party_open(&ours, &nodes, NULL, NULL);
    server_kill(nodes.servers[1]);
    server_kill(nodes.servers[2]);
    for (int i = 0; i < 2; i++) {
        assert_status(pawl_lock_acquire(ours.lock, 1200), PAWL_UNAVAILABLE);
    }
    const char *second = strstr(pawl_last_error(), server_url(nodes.servers[1]));
    assert_non_null(second);
    assert_non_null(strstr(second, "cannot connect"));
    assert_non_null(strstr(strstr(second, "cannot connect") + 1, "cannot connect"));
}

/* ===== Callbacks ===== */

struct slow {
    _Atomic int at_risk;
    _Atomic int released;
    _Atomic int lost;
};

static void be_slow(const pawl_event *event, void *arg)
{
    struct slow *slow = arg;
    (void)event;
    atomic_fetch_add(&slow->at_risk, 1);
    const int64_t end_ms = boottime_ms() + 10000;
    while (atomic_load(&slow->released) == 0 && boottime_ms() < end_ms) {
        nap_ms(5);
    }
}

static void note_loss(const pawl_event *event, void *arg)
{
    struct slow *slow = arg;
    (void)event;
    atomic_fetch_add(&slow->lost, 1);
}

static void lost_and_released_while_on_risk_runs(void **state)
{
    (void)state;
    static struct slow slow;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    slow = (struct slow){0};
    options.lease_ms = 600;
    options.on_risk = be_slow;
    options.on_lost = note_loss;
    options.event_arg = &slow;
    nodes.count = 3;
    party_open(&ours, &nodes, "?durable=1&timeout=200ms", &options);
    assert_ok(pawl_lock_acquire(ours.lock, 2000));
    server_pause(nodes.servers[0]);
    server_pause(nodes.servers[1]);
    WAIT_UNTIL(atomic_load(&slow.at_risk) == 1, 3000);
    WAIT_UNTIL(pawl_lock_token(ours.lock) == 0, 3000);
    assert_status(pawl_lock_release(ours.lock), PAWL_LOST);
    assert_int_equal(atomic_load(&slow.lost), 0);
    atomic_store(&slow.released, 1);
    WAIT_UNTIL(atomic_load(&slow.lost) == 1, 2000);
    assert_status(pawl_lock_release(ours.lock), PAWL_NOT_HELD);
}

/* ===== Split votes ===== */

enum { CONTENDERS = 5, ROUNDS = 20 };

static int contend(const struct child_pipes *pipes, const char *arg)
{
    struct party party = {.count = 5};
    char urls[5][64];
    (void)pipes;
    if (sscanf(arg, "%63s %63s %63s %63s %63s", urls[0], urls[1], urls[2], urls[3], urls[4]) != 5) {
        return 2;
    }
    for (int i = 0; i < 5; i++) {
        if (pawl_client_open(urls[i], NULL, &party.clients[i]) != PAWL_OK) {
            return 3;
        }
    }
    if (pawl_lock_open_quorum(party.clients, 5, NAME, NULL, &party.lock) != PAWL_OK) {
        return 4;
    }
    FILE *counter = fopen(strrchr(arg, ' ') + 1, "r+");
    if (counter == NULL) {
        return 5;
    }
    for (int i = 0; i < ROUNDS; i++) {
        long number = 0;
        if (pawl_lock_acquire(party.lock, 60000) != PAWL_OK) {
            return 6;
        }
        rewind(counter);
        fflush(counter);
        if (fscanf(counter, "%ld", &number) != 1) {
            return 7;
        }
        rewind(counter);
        fprintf(counter, "%ld\n", number + 1);
        fflush(counter);
        if (pawl_lock_release(party.lock) != PAWL_OK) {
            return 8;
        }
    }
    fclose(counter);
    party_close(&party);
    return 0;
}

/* Five processes that begin at once add to a number that nothing else guards. */
static void contenders_do_not_lose_a_count(void **state)
{
    (void)state;
    char path[] = "/tmp/pawl-quorum-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *counter = fdopen(fd, "r+");
    assert_non_null(counter);
    fprintf(counter, "0\n");
    fflush(counter);
    nodes.count = 5;
    char arg[512] = "";
    for (int i = 0; i < 5; i++) {
        const size_t used = strlen(arg);
        snprintf(arg + used, sizeof arg - used, "%s?durable=1 ", server_url(nodes.servers[i]));
    }
    strncat(arg, path, sizeof arg - strlen(arg) - 1);
    struct child *children[CONTENDERS];
    for (int i = 0; i < CONTENDERS; i++) {
        children[i] = child_start("contend", arg);
    }
    for (int i = 0; i < CONTENDERS; i++) {
        assert_int_equal(child_wait(children[i], 90000), 0);
        child_free(children[i]);
    }
    long number = 0;
    rewind(counter);
    assert_int_equal(fscanf(counter, "%ld", &number), 1);
    fclose(counter);
    remove(path);
    assert_int_equal(number, CONTENDERS * ROUNDS);
    WAIT_UNTIL(nodes_holding(&nodes) == 0, 2000);
}

/* A holder that is killed: the others get it when its lease is over. */
static void a_holder_that_dies(void **state)
{
    (void)state;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 500;
    nodes.count = 3;
    party_open(&ours, &nodes, NULL, &options);
    for (int i = 0; i < 3; i++) { /* as somebody left it who died */
        free(server_command(nodes.servers[i], "HSET " NAME " dead:1 1"));
        free(server_command(nodes.servers[i], "PEXPIRE " NAME " 1500"));
    }
    assert_status(pawl_lock_acquire(ours.lock, PAWL_TRY), PAWL_BUSY);
    const int64_t start_ms = boottime_ms();
    assert_ok(pawl_lock_acquire(ours.lock, PAWL_FOREVER));
    assert_true(boottime_ms() - start_ms < 6000);
    assert_ok(pawl_lock_release(ours.lock));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(int argc, char *argv[])
{
    static const struct child_role roles[] = {{"contend", contend}};
    child_dispatch(argc, argv, roles, 1);
    const struct CMUnitTest tests[] = {
        TEST(three_survive_one),
        TEST(four_survive_one),
        TEST(five_survive_two),
        TEST(six_survive_two),
        TEST(one_hangs_while_it_is_acquired),
        TEST(one_hangs_while_it_is_held),
        TEST(one_hangs_while_it_is_released),
        TEST(a_majority_hangs_while_it_is_held),
        TEST(it_is_lost_while_it_is_extended),
        TEST(a_loss_names_who_did_not_answer),
        TEST(a_loss_that_was_told_names_who_did_not_answer),
        TEST(fewer_than_a_majority_answer),
        TEST(a_grant_that_comes_too_late),
        TEST(a_limit_is_kept),
        TEST(a_long_wait_ends_busy),
        TEST(one_that_was_not_waited_for),
        TEST(one_that_is_away_is_not_called_slow),
        TEST(lost_and_released_while_on_risk_runs),
        TEST(contenders_do_not_lose_a_count),
        TEST(a_holder_that_dies),
    };
    nodes_start(&nodes, 6, false);
    return cmocka_run_group_tests_name("quorum failures", tests, NULL, NULL);
}
