/* SPDX-License-Identifier: Apache-2.0 */
/* Listing, looking, watching and examining on the memory engine, at its seam: two clients of one
 * table, one of which looks. */
#include "base/alloc.h"
#include "base/clock.h"
#include "core/engine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

extern const struct pawl__engine pawl__engine_memory;

enum { SEEN_MAX = 8 };

/* ===== Clients ===== */

struct side {
    struct pawl__host host;
    void *self;
};

static void ignore_completed(struct pawl__host *host, struct pawl__op *ops)
{
    (void)host;
    (void)ops;
}

static void ignore_wake(struct pawl__host *host, const char *name, size_t name_size, uint64_t id)
{
    (void)id;
    (void)host;
    (void)name;
    (void)name_size;
}

static void side_open(struct side *side)
{
    char path[] = "memory_list_test";
    struct pawl__url url = {.path = path};
    memset(side, 0, sizeof *side);
    side->host.complete = ignore_completed;
    side->host.wake = ignore_wake;
    assert_true(pawl__uuid(side->host.uuid));
    assert_int_equal(pawl__engine_memory.open(&url, &side->host, &side->self), PAWL_OK);
}

static void side_close(struct side *side)
{
    pawl__engine_memory.stop(side->self);
    pawl__engine_memory.close(side->self);
}

static struct pawl__op operate_as(struct side *side, const char *name, enum pawl__op_kind kind,
    uint64_t id, enum pawl__family family, pawl_kind as)
{
    struct pawl__place place = {
        .name = name, .name_size = (uint32_t)strlen(name), .family = family};
    struct pawl__op op = {.place = &place, .kind = kind, .id = id, .as = as, .lease_us = 30000000};
    pawl__engine_memory.submit(side->self, &op, false);
    op.place = NULL;
    return op;
}

static struct pawl__op operate(
    struct side *side, const char *name, enum pawl__op_kind kind, uint64_t id)
{
    return operate_as(side, name, kind, id, PAWL__FAMILY_MUTEX, PAWL_MUTEX);
}

struct stage {
    struct side looker;
    struct side holder;
};

static int stage_setup(void **state)
{
    static struct stage stage;
    side_open(&stage.looker);
    side_open(&stage.holder);
    *state = &stage;
    return 0;
}

static int stage_teardown(void **state)
{
    struct stage *stage = *state;
    pawl__alloc_hook = NULL;
    side_close(&stage->looker);
    side_close(&stage->holder);
    return 0;
}

/* ===== Looking ===== */

struct seen {
    pawl_entry entries[SEEN_MAX];
    size_t count;
    size_t enough;
};

static bool see(const pawl_entry *entry, void *arg)
{
    struct seen *seen = arg;
    assert_true(seen->count < SEEN_MAX);
    assert_int_equal(entry->size, sizeof *entry);
    seen->entries[seen->count++] = *entry;
    return seen->count != seen->enough;
}

static struct seen list(struct stage *s, const char *pattern)
{
    struct seen seen = {.count = 0};
    assert_int_equal(pawl__engine_memory.list(s->looker.self, pattern, see, &seen), PAWL_OK);
    return seen;
}

static pawl_entry look(struct stage *s, const char *name)
{
    pawl_entry entry = {.size = sizeof entry, .since_ms = -1, .waiters = -1};
    snprintf(entry.name, sizeof entry.name, "%s", name);
    assert_int_equal(pawl__engine_memory.look(s->looker.self, name, strlen(name), &entry), PAWL_OK);
    return entry;
}

/* Everybody who reads is told, and of which kind each hold is. */
static void every_kind_is_told(void **state)
{
    struct stage *s = *state;
    const enum pawl__family shared = PAWL__FAMILY_SHARED;
    const struct pawl__op first =
        operate_as(&s->holder, "r", PAWL__OP_ACQUIRE, 1, shared, PAWL_READ);
    operate_as(&s->looker, "r", PAWL__OP_ACQUIRE, 2, shared, PAWL_READ);
    operate_as(&s->holder, "w", PAWL__OP_ACQUIRE, 3, shared, PAWL_WRITE);
    operate_as(&s->holder, "p", PAWL__OP_ACQUIRE, 4, PAWL__FAMILY_PLAIN, PAWL_PLAIN);
    operate_as(&s->holder, "s", PAWL__OP_ACQUIRE, 5, PAWL__FAMILY_SPIN, PAWL_SPIN);
    assert_int_equal(list(s, NULL).count, 5);
    const struct seen readers = list(s, "r");
    assert_int_equal(readers.count, 2);
    char holder[80];
    for (unsigned i = 0; i < 2; i++) {
        const char *uuid = i == 0 ? s->holder.host.uuid : s->looker.host.uuid;
        snprintf(holder, sizeof holder, "%s:%u", uuid, i + 1);
        assert_string_equal(readers.entries[i].holder, holder);
        assert_int_equal(readers.entries[i].kind, PAWL_READ);
        assert_true(readers.entries[i].token == first.token + i);
        assert_in_range(readers.entries[i].remaining_ms, 20000, 30000);
    }
    assert_int_equal(look(s, "r").kind, PAWL_READ);
    snprintf(holder, sizeof holder, "%s:3:write", s->holder.host.uuid);
    assert_string_equal(look(s, "w").holder, holder);
    assert_int_equal(look(s, "w").kind, PAWL_WRITE);
    assert_int_equal(look(s, "p").kind, PAWL_PLAIN);
    assert_int_equal(look(s, "p").token, 0);
    assert_int_equal(look(s, "s").kind, PAWL_SPIN);
    assert_int_equal(list(s, "[rw]").count, 3);
    operate_as(&s->holder, "r", PAWL__OP_BREAK, 0, shared, PAWL_READ);
    assert_int_equal(list(s, "r").count, 0);
}

static void what_is_held_is_told(void **state)
{
    struct stage *s = *state;
    char holder[80];
    snprintf(holder, sizeof holder, "%s:7", s->holder.host.uuid);
    assert_int_equal(list(s, NULL).count, 0);
    assert_false(look(s, "jobs").held);
    struct pawl__op op = operate(&s->holder, "jobs", PAWL__OP_ACQUIRE, 7);
    assert_int_equal(op.answer, PAWL__DONE);
    assert_int_equal(operate(&s->looker, "jobs", PAWL__OP_WATCH, 0).answer, PAWL__DONE);
    struct seen seen = list(s, NULL);
    assert_int_equal(seen.count, 1);
    const pawl_entry *entry = &seen.entries[0];
    assert_string_equal(entry->name, "jobs");
    assert_true(entry->held);
    assert_int_equal(entry->hold_count, 1);
    assert_in_range(entry->remaining_ms, 20000, 30000);
    assert_int_equal(entry->token, op.token);
    assert_string_equal(entry->holder, holder);
    assert_int_equal(entry->pid, getpid());
    assert_string_equal(entry->command, program_invocation_short_name);
    assert_true(strlen(entry->host) > 0);
    assert_in_range(entry->since_ms, 0, 10000);
    assert_int_equal(entry->waiters, 1);
    assert_string_equal(look(s, "jobs").holder, holder);

    assert_int_equal(operate(&s->holder, "jobs", PAWL__OP_RELEASE, 7).answer, PAWL__DONE);
    assert_int_equal(list(s, NULL).count, 0); /* only watched */
    pawl_entry free_one = look(s, "jobs");
    assert_false(free_one.held);
    assert_int_equal(free_one.token, op.token);
    assert_int_equal(free_one.waiters, 1);
    assert_string_equal(free_one.holder, "");
    assert_int_equal(operate(&s->looker, "jobs", PAWL__OP_UNWATCH, 0).answer, PAWL__DONE);
    assert_int_equal(look(s, "jobs").waiters, 0);
}

static void only_what_matches_is_told(void **state)
{
    struct stage *s = *state;
    assert_int_equal(operate(&s->holder, "a1", PAWL__OP_ACQUIRE, 1).answer, PAWL__DONE);
    assert_int_equal(operate(&s->holder, "a2", PAWL__OP_ACQUIRE, 2).answer, PAWL__DONE);
    assert_int_equal(operate(&s->holder, "b1", PAWL__OP_ACQUIRE, 3).answer, PAWL__DONE);
    assert_int_equal(list(s, NULL).count, 3);
    assert_int_equal(list(s, "a?").count, 2);
    assert_string_equal(list(s, "b*").entries[0].name, "b1");
    struct seen some = {.enough = 2};
    assert_int_equal(pawl__engine_memory.list(s->looker.self, NULL, see, &some), PAWL_OK);
    assert_int_equal(some.count, 2);
}

/* The table goes on without the holder's client until the lease ends. */
static void a_holder_that_left_is_told(void **state)
{
    struct stage *s = *state;
    assert_int_equal(operate(&s->holder, "left", PAWL__OP_ACQUIRE, 1).answer, PAWL__DONE);
    side_close(&s->holder);
    pawl_entry entry = look(s, "left");
    assert_true(entry.held);
    assert_int_equal(entry.since_ms, -1);
    side_open(&s->holder);
}

static bool refuse(size_t size)
{
    (void)size;
    return false;
}

static void without_memory_it_says_so(void **state)
{
    struct stage *s = *state;
    struct seen seen = {.count = 0};
    void *watch = NULL;
    pawl__alloc_hook = refuse;
    assert_int_equal(pawl__engine_memory.list(s->looker.self, NULL, see, &seen), PAWL_NO_MEMORY);
    assert_int_equal(pawl__engine_memory.watch_open(s->looker.self, NULL, &watch), PAWL_NO_MEMORY);
    pawl__alloc_hook = NULL;
}

/* ===== Watching and examining ===== */

static void a_watch_hears_of_changes(void **state)
{
    struct stage *s = *state;
    void *watch = NULL;
    struct pawl__hint hint;
    assert_int_equal(pawl__engine_memory.watch_open(s->looker.self, NULL, &watch), PAWL_OK);
    assert_non_null(watch);
    assert_false(pawl__engine_memory.watch_exact(s->looker.self, watch));
    int64_t begin_us = pawl__now_us();
    assert_int_equal(
        pawl__engine_memory.watch_wait(s->looker.self, watch, begin_us + 20000, &hint), PAWL_BUSY);
    assert_true(pawl__now_us() - begin_us >= 20000);
    for (uint64_t id = 1; id < 4; id++) {
        assert_int_equal(operate(&s->holder, "jobs", PAWL__OP_ACQUIRE, id).answer, PAWL__DONE);
        memset(&hint, 0xff, sizeof hint);
        assert_int_equal(
            pawl__engine_memory.watch_wait(s->looker.self, watch, PAWL__NEVER, &hint), PAWL_OK);
        assert_string_equal(hint.name, "");
        assert_int_equal(hint.change, 0);
        assert_int_equal(operate(&s->holder, "jobs", PAWL__OP_RELEASE, id).answer, PAWL__DONE);
        assert_int_equal(
            pawl__engine_memory.watch_wait(s->looker.self, watch, PAWL__NEVER, &hint), PAWL_OK);
    }
    pawl__engine_memory.watch_close(s->looker.self, watch);
}

static void find_out(const pawl_finding *finding, void *arg)
{
    unsigned *count = arg;
    assert_int_equal(finding->size, sizeof *finding);
    assert_int_equal(finding->verdict, PAWL_WARNING);
    assert_non_null(strstr(finding->sentence, "one process"));
    assert_non_null(strstr(finding->remedy, "file:///"));
    ++*count;
}

static void it_is_for_one_process(void **state)
{
    struct stage *s = *state;
    unsigned count = 0;
    assert_int_equal(pawl__engine_memory.examine(s->looker.self, find_out, &count), PAWL_OK);
    assert_int_equal(count, 1);
}

#define STAGED(test) cmocka_unit_test_setup_teardown(test, stage_setup, stage_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGED(every_kind_is_told),
        STAGED(what_is_held_is_told),
        STAGED(only_what_matches_is_told),
        STAGED(a_holder_that_left_is_told),
        STAGED(without_memory_it_says_so),
        STAGED(a_watch_hears_of_changes),
        STAGED(it_is_for_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
