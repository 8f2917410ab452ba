/* SPDX-License-Identifier: Apache-2.0 */
/* The memory engine: does its table do what engine.h asks of a backend, and does the engine wake
 * the right clients at the right moment, also while they go away?
 *
 * Method: the table is asked single operations at times of our choosing. The engine is opened for
 * two clients whose hosts write down what they hear; the last case lets four threads loose on it,
 * for the thread sanitizer to watch. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/engine.h"
#include "engine/memory/table.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LEASE_US 1000
#define UUID_A "aaaaaaaa-0000-4000-8000-000000000000"
#define UUID_B "bbbbbbbb-0000-4000-8000-000000000000"

/* --- A table with two clients --- */

struct bench {
    struct pawl__memory_table table;
    struct pawl__memory_client a;
    struct pawl__memory_client b;
    struct pawl__place place;
    pawl_lock_info info;
};

static int begin(void **state)
{
    static struct bench bench;
    memset(&bench, 0, sizeof bench);
    bench.place = (struct pawl__place){.name = "alpha", .name_size = 5};
    pawl__memory_join(&bench.a, UUID_A);
    pawl__memory_join(&bench.b, UUID_B);
    *state = &bench;
    return pawl__memory_init(&bench.table) ? 0 : -1;
}

static int end(void **state)
{
    struct bench *bench = *state;
    pawl__alloc_hook = NULL;
    pawl__memory_leave(&bench->table, &bench->a);
    pawl__memory_leave(&bench->table, &bench->b);
    pawl__memory_free(&bench->table);
    return 0;
}

static struct pawl__op ask(struct bench *bench, struct pawl__memory_client *client,
    enum pawl__op_kind kind, uint64_t id, int64_t now_us)
{
    struct pawl__op op = {.kind = kind, .id = id, .lease_us = LEASE_US, .hint_us = -1};
    op.place = &bench->place;
    op.info = &bench->info;
    pawl__memory_apply(&bench->table, client, &op, now_us);
    return op;
}

static struct pawl__op pass(struct bench *bench, uint64_t id, uint64_t heir_id, bool offer)
{
    struct pawl__op op = {.kind = PAWL__OP_PASS, .id = id, .heir_id = heir_id, .offer = offer};
    op.place = &bench->place;
    op.lease_us = LEASE_US;
    pawl__memory_apply(&bench->table, &bench->a, &op, 10);
    return op;
}

static unsigned count_woken(struct bench *bench, const struct pawl__memory_client *client)
{
    unsigned count = 0;
    struct pawl__memory_watch *watch;
    while ((watch = pawl__memory_woken(&bench->table)) != NULL) {
        count += watch->client == client;
    }
    return count;
}

/* --- The table --- */

static void one_tenure_holds_until_its_lease_ends(void **state)
{
    struct bench *bench = *state;
    assert_int_equal(ask(bench, &bench->a, PAWL__OP_ACQUIRE, 1, 0).answer, PAWL__DONE);
    struct pawl__op held = ask(bench, &bench->b, PAWL__OP_ACQUIRE, 1, 400);
    assert_int_equal(held.answer, PAWL__HELD);
    assert_int_equal(held.hint_us, LEASE_US - 400);
    assert_int_equal(ask(bench, &bench->a, PAWL__OP_VERIFY, 1, LEASE_US - 1).answer, PAWL__DONE);
    assert_int_equal(ask(bench, &bench->a, PAWL__OP_VERIFY, 1, LEASE_US).answer, PAWL__GONE);
    assert_int_equal(ask(bench, &bench->b, PAWL__OP_ACQUIRE, 1, LEASE_US).answer, PAWL__DONE);
}

static void asking_again_is_the_same_acquire(void **state)
{
    struct bench *bench = *state;
    struct pawl__op first = ask(bench, &bench->a, PAWL__OP_ACQUIRE, 1, 0);
    struct pawl__op second = ask(bench, &bench->a, PAWL__OP_ACQUIRE, 1, 500);
    assert_int_equal(second.answer, PAWL__DONE);
    assert_true(first.token == second.token);
    ask(bench, &bench->a, PAWL__OP_INSPECT, 0, 500);
    assert_int_equal(bench->info.hold_count, 1);
    assert_int_equal(ask(bench, &bench->a, PAWL__OP_VERIFY, 1, 1400).answer, PAWL__DONE);
    assert_int_equal(ask(bench, &bench->a, PAWL__OP_ACQUIRE, 2, 600).answer, PAWL__HELD);
}

static void tokens_grow_whatever_is_forgotten(void **state)
{
    struct bench *bench = *state;
    uint64_t last = 0;
    for (uint64_t id = 1; id < 5; id++) {
        struct pawl__op op = ask(bench, &bench->a, PAWL__OP_ACQUIRE, id, 100);
        assert_true(op.token > last);
        last = op.token;
        ask(bench, &bench->a, PAWL__OP_RELEASE, id, 100);
    }
    assert_int_equal(bench->table.entries.count, 0); /* nobody holds, nobody watches */

    pawl__memory_free(&bench->table);
    assert_true(pawl__memory_init(&bench->table));
    assert_true(ask(bench, &bench->a, PAWL__OP_ACQUIRE, 9, 200).token > last);
}

static void only_the_holder_can_do_anything(void **state)
{
    static const enum pawl__op_kind kinds[] = {
        PAWL__OP_RENEW, PAWL__OP_VERIFY, PAWL__OP_COUNT, PAWL__OP_RELEASE, PAWL__OP_PASS};
    struct bench *bench = *state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        assert_int_equal(ask(bench, &bench->a, kinds[i], 1, 0).answer, PAWL__GONE);
    }
    ask(bench, &bench->a, PAWL__OP_ACQUIRE, 1, 0);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        assert_int_equal(ask(bench, &bench->a, kinds[i], 2, 1).answer, PAWL__GONE);
        assert_int_equal(ask(bench, &bench->b, kinds[i], 1, 1).answer, PAWL__GONE);
    }
    ask(bench, &bench->a, PAWL__OP_INSPECT, 0, 0);
    assert_true(bench->info.held);
    assert_string_equal(bench->info.holder, UUID_A ":1");
    assert_int_equal(bench->info.remaining_ms, 1);
    assert_int_equal(ask(bench, &bench->a, PAWL__OP_RELEASE, 1, 1).answer, PAWL__DONE);
    ask(bench, &bench->a, PAWL__OP_INSPECT, 0, 0);
    assert_false(bench->info.held);
    assert_string_equal(bench->info.holder, "");
}

static void a_lease_is_never_shortened(void **state)
{
    struct bench *bench = *state;
    ask(bench, &bench->a, PAWL__OP_ACQUIRE, 1, 1000);
    struct pawl__op brief = {.kind = PAWL__OP_RENEW, .id = 1, .lease_us = 1};
    brief.place = &bench->place;
    pawl__memory_apply(&bench->table, &bench->a, &brief, 1000);
    assert_int_equal(brief.answer, PAWL__DONE);
    assert_int_equal(ask(bench, &bench->a, PAWL__OP_VERIFY, 1, 1999).answer, PAWL__DONE);
}

static void passing_on_is_one_step_and_can_be_repeated(void **state)
{
    struct bench *bench = *state;
    struct pawl__op first = ask(bench, &bench->a, PAWL__OP_ACQUIRE, 1, 0);
    struct pawl__op passed = pass(bench, 1, 2, false);
    assert_int_equal(passed.answer, PAWL__DONE);
    assert_true(passed.token > first.token);
    struct pawl__op again = pass(bench, 1, 2, false);
    assert_int_equal(again.answer, PAWL__DONE);
    assert_true(again.token == passed.token);
    assert_int_equal(pass(bench, 1, 3, false).answer, PAWL__GONE);
}

static void an_offer_leaves_the_lock_to_others_if_any_watch(void **state)
{
    struct bench *bench = *state;
    ask(bench, &bench->a, PAWL__OP_ACQUIRE, 1, 0);
    ask(bench, &bench->a, PAWL__OP_WATCH, 0, 0);
    assert_int_equal(pass(bench, 1, 2, true).answer, PAWL__DONE);
    assert_int_equal(count_woken(bench, &bench->a), 1);

    ask(bench, &bench->b, PAWL__OP_WATCH, 0, 0);
    assert_int_equal(pass(bench, 2, 3, false).answer, PAWL__DONE);
    assert_int_equal(count_woken(bench, &bench->b), 0);
    struct pawl__op left = pass(bench, 3, 4, true);
    assert_int_equal(left.answer, PAWL__LEFT);
    assert_true(left.others);
    assert_int_equal(count_woken(bench, &bench->b), 1);
    assert_int_equal(ask(bench, &bench->b, PAWL__OP_ACQUIRE, 1, 20).answer, PAWL__DONE);
}

static void watchers_hear_releases_and_breaks_once_each(void **state)
{
    struct bench *bench = *state;
    ask(bench, &bench->b, PAWL__OP_WATCH, 0, 0);
    ask(bench, &bench->b, PAWL__OP_WATCH, 0, 0);
    ask(bench, &bench->a, PAWL__OP_ACQUIRE, 1, 0);
    assert_int_equal(count_woken(bench, &bench->b), 0);
    assert_true(ask(bench, &bench->a, PAWL__OP_RELEASE, 1, 0).others);
    assert_int_equal(count_woken(bench, &bench->b), 1);

    assert_int_equal(ask(bench, &bench->b, PAWL__OP_BREAK, 0, 0).answer, PAWL__GONE);
    ask(bench, &bench->a, PAWL__OP_ACQUIRE, 2, 0);
    assert_int_equal(ask(bench, &bench->b, PAWL__OP_BREAK, 0, 0).answer, PAWL__DONE);
    assert_int_equal(count_woken(bench, &bench->b), 1);
    assert_int_equal(ask(bench, &bench->a, PAWL__OP_RENEW, 2, 0).answer, PAWL__GONE);

    ask(bench, &bench->b, PAWL__OP_UNWATCH, 0, 0);
    ask(bench, &bench->a, PAWL__OP_ACQUIRE, 3, 0);
    assert_false(ask(bench, &bench->a, PAWL__OP_RELEASE, 3, 0).others);
    assert_int_equal(count_woken(bench, &bench->b), 0);
}

static int allocations_left;

static bool count_down(size_t size)
{
    (void)size;
    return allocations_left-- > 0;
}

static void without_memory_nothing_happens(void **state)
{
    struct bench *bench = *state;
    pawl__alloc_hook = count_down;
    for (int allowed = 0; allowed < 2; allowed++) {
        allocations_left = allowed;
        struct pawl__op op = ask(bench, &bench->a, PAWL__OP_ACQUIRE, 1, 0);
        assert_int_equal(op.answer, PAWL__FAILED);
        assert_int_equal(op.status, PAWL_NO_MEMORY);
        assert_true(op.again);
    }
    for (int allowed = 0; allowed < 3; allowed++) {
        allocations_left = allowed;
        assert_int_equal(ask(bench, &bench->a, PAWL__OP_WATCH, 0, 0).answer, PAWL__FAILED);
    }
    pawl__alloc_hook = NULL;
    assert_int_equal(bench->table.entries.count, 0);
}

/* --- The engine, with hosts that write down what they hear --- */

struct side {
    struct pawl__host host;
    void *self;
    atomic_uint wakes;
    atomic_bool closed;
    atomic_bool heard_when_closed;
    char woken_name[16];
};

static const struct pawl__engine *engine;

static void on_complete(struct pawl__host *host, struct pawl__op *ops)
{
    (void)host;
    for (; ops != NULL; ops = ops->next) {
        assert_int_not_equal(ops->answer, PAWL__PENDING);
    }
}

static void on_wake(struct pawl__host *host, const char *name, size_t name_size, uint64_t id)
{
    (void)id;
    struct side *side = PAWL__CONTAINER(host, struct side, host);
    if (side->closed) {
        side->heard_when_closed = true;
    }
    if (side->wakes++ == 0 && name_size < sizeof side->woken_name) {
        memcpy(side->woken_name, name, name_size);
    }
}

static pawl_status side_open(struct side *side, const char *url, const char *uuid)
{
    struct pawl__url parsed;
    memset(side, 0, sizeof *side);
    memcpy(side->host.uuid, uuid, sizeof side->host.uuid);
    side->host.complete = on_complete;
    side->host.wake = on_wake;
    assert_int_equal(pawl__url_parse(url, &parsed), PAWL_OK);
    pawl_status status = engine->open(&parsed, &side->host, &side->self);
    pawl__url_free(&parsed);
    return status;
}

static void side_close(struct side *side)
{
    engine->stop(side->self);
    side->closed = true;
    engine->close(side->self);
}

static enum pawl__answer side_ask(
    struct side *side, enum pawl__op_kind kind, uint64_t id, const char *name)
{
    struct pawl__place place = {.name = name, .name_size = (uint32_t)strlen(name)};
    struct pawl__op op = {.kind = kind, .id = id, .lease_us = 60000000, .place = &place};
    engine->submit(side->self, &op, false);
    return op.answer;
}

static int find_engine(void **state)
{
    (void)state;
    engine = pawl__engine_find("memory");
    return engine != NULL ? 0 : -1;
}

static void clients_of_one_name_exclude_each_other(void **state)
{
    (void)state;
    struct side a, b, c;
    assert_int_equal(side_open(&a, "memory:one", UUID_A), PAWL_OK);
    assert_int_equal(side_open(&b, "memory:one", UUID_B), PAWL_OK);
    assert_int_equal(side_open(&c, "memory:two", UUID_B), PAWL_OK);
    assert_int_equal(engine->connect(a.self, PAWL__NEVER), PAWL_OK);
    assert_int_equal(side_ask(&a, PAWL__OP_ACQUIRE, 1, "x"), PAWL__DONE);
    assert_int_equal(side_ask(&b, PAWL__OP_ACQUIRE, 1, "x"), PAWL__HELD);
    assert_int_equal(side_ask(&b, PAWL__OP_ACQUIRE, 1, "y"), PAWL__DONE);
    assert_int_equal(side_ask(&c, PAWL__OP_ACQUIRE, 1, "x"), PAWL__DONE);
    side_close(&a);
    side_close(&b);
    side_close(&c);
}

static void a_table_ends_with_its_last_client(void **state)
{
    (void)state;
    struct side a, b;
    assert_int_equal(side_open(&a, "memory:one", UUID_A), PAWL_OK);
    assert_int_equal(side_ask(&a, PAWL__OP_ACQUIRE, 1, "x"), PAWL__DONE);
    side_close(&a);
    assert_int_equal(side_open(&b, "memory:one", UUID_B), PAWL_OK);
    assert_int_equal(side_ask(&b, PAWL__OP_ACQUIRE, 1, "x"), PAWL__DONE);
    side_close(&b);
}

static void a_release_wakes_who_watches(void **state)
{
    (void)state;
    struct side a, b;
    assert_int_equal(side_open(&a, "memory:one", UUID_A), PAWL_OK);
    assert_int_equal(side_open(&b, "memory:one", UUID_B), PAWL_OK);
    side_ask(&b, PAWL__OP_WATCH, 0, "x");
    side_ask(&a, PAWL__OP_ACQUIRE, 1, "x");
    assert_int_equal(b.wakes, 0);
    side_ask(&a, PAWL__OP_RELEASE, 1, "x");
    assert_int_equal(b.wakes, 1);
    assert_string_equal(b.woken_name, "x");
    assert_int_equal(a.wakes, 0);
    side_close(&b);
    side_ask(&a, PAWL__OP_ACQUIRE, 2, "x");
    side_ask(&a, PAWL__OP_RELEASE, 2, "x");
    assert_false(b.heard_when_closed);
    side_close(&a);
}

static void a_stopped_engine_fails_everything(void **state)
{
    (void)state;
    struct side a;
    assert_int_equal(side_open(&a, "memory:one", UUID_A), PAWL_OK);
    engine->stop(a.self);
    assert_int_equal(side_ask(&a, PAWL__OP_ACQUIRE, 1, "x"), PAWL__FAILED);
    engine->close(a.self);
}

static void urls_that_name_nothing_are_refused(void **state)
{
    static const char *const urls[] = {"memory:", "memory://host", "memory://host/name"};
    (void)state;
    struct side a;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        assert_int_equal(side_open(&a, urls[i], UUID_A), PAWL_INVALID);
        assert_non_null(strstr(pawl__error_text(), "memory:NAME"));
    }
}

static void opening_survives_want_of_memory(void **state)
{
    (void)state;
    struct side a;
    pawl_status status = PAWL_NO_MEMORY;
    int allowed = 1; /* one for taking the URL apart */
    for (; status == PAWL_NO_MEMORY && allowed < 20; allowed++) {
        allocations_left = allowed;
        pawl__alloc_hook = count_down;
        status = side_open(&a, "memory:one", UUID_A);
        pawl__alloc_hook = NULL;
    }
    assert_int_equal(status, PAWL_OK);
    assert_true(allowed > 3);
    side_close(&a);
}

/* --- Threads --- */

#define ROUNDS 2000

static atomic_int inside; /* who holds, if the locks work: never more than one */

/* Open, watch, hold a few times, close while the others wake us. */
static void *crowd(void *argument)
{
    char uuid[PAWL__UUID_SIZE + 1];
    struct side side;
    memcpy(uuid, UUID_A, sizeof uuid);
    uuid[0] = (char)('0' + *(int *)argument);
    bool fine = true;
    for (uint64_t id = 1; id <= ROUNDS && fine; id++) {
        if (id % 100 == 1) {
            fine = side_open(&side, "memory:crowd", uuid) == PAWL_OK;
            side_ask(&side, PAWL__OP_WATCH, 0, "x");
        }
        if (side_ask(&side, PAWL__OP_ACQUIRE, id, "x") == PAWL__DONE) {
            fine = fine && atomic_fetch_add(&inside, 1) == 0;
            atomic_fetch_sub(&inside, 1);
            fine = fine && side_ask(&side, PAWL__OP_RELEASE, id, "x") == PAWL__DONE;
        }
        if (id % 100 == 0) {
            side_close(&side);
            fine = fine && !side.heard_when_closed;
        }
    }
    return fine ? argument : NULL;
}

static void threads_come_and_go(void **state)
{
    (void)state;
    pthread_t threads[4];
    int numbers[4];
    for (int i = 0; i < 4; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, crowd, &numbers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *fine = NULL;
        pthread_join(threads[i], &fine);
        assert_non_null(fine);
    }
}

#define TABLE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest cases[] = {
        TABLE(one_tenure_holds_until_its_lease_ends),
        TABLE(asking_again_is_the_same_acquire),
        TABLE(tokens_grow_whatever_is_forgotten),
        TABLE(only_the_holder_can_do_anything),
        TABLE(a_lease_is_never_shortened),
        TABLE(passing_on_is_one_step_and_can_be_repeated),
        TABLE(an_offer_leaves_the_lock_to_others_if_any_watch),
        TABLE(watchers_hear_releases_and_breaks_once_each),
        TABLE(without_memory_nothing_happens),
        cmocka_unit_test(clients_of_one_name_exclude_each_other),
        cmocka_unit_test(a_table_ends_with_its_last_client),
        cmocka_unit_test(a_release_wakes_who_watches),
        cmocka_unit_test(a_stopped_engine_fails_everything),
        cmocka_unit_test(urls_that_name_nothing_are_refused),
        cmocka_unit_test(opening_survives_want_of_memory),
        cmocka_unit_test(threads_come_and_go),
    };
    return cmocka_run_group_tests_name("memory", cases, find_engine, NULL);
}
