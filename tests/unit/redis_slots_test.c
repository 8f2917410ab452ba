/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of slots: first in, first out, through every growth and turn of the ring, and always
 * right about which reply is due first.
 *
 * Method: a long random run beside a plain array that says what must come out. */
#include "engine/redis/slots.h"

#include "base/alloc.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MODEL_MAX = 4096 };

struct model {
    struct pawl__slot slots[MODEL_MAX];
    size_t first;
    size_t last; /* behind the newest */
};

static void check(const struct pawl__slots *slots, const struct model *model)
{
    int64_t due_us = PAWL__NEVER;
    size_t awaited = 0;
    size_t orphans = 0;
    for (size_t i = model->first; i < model->last; i++) {
        due_us = pawl__min64(due_us, model->slots[i].deadline_us);
        awaited += model->slots[i].lazy ? 0 : 1;
        orphans += model->slots[i].orphan ? 1 : 0;
    }
    assert_int_equal(slots->count, model->last - model->first);
    assert_int_equal(slots->awaited_count, awaited);
    assert_int_equal(slots->orphan_count, orphans);
    assert_true(pawl__slots_due(slots) == due_us);
}

static void push(struct pawl__slots *slots, struct model *model, const struct pawl__slot *slot)
{
    assert_true(pawl__slots_reserve(slots));
    pawl__slots_push(slots, slot);
    model->slots[model->last++] = *slot;
}

static void pop(struct pawl__slots *slots, struct model *model)
{
    const struct pawl__slot slot = pawl__slots_pop(slots);
    const struct pawl__slot *expected = &model->slots[model->first++];
    assert_true(slot.begin == expected->begin);
    assert_true(slot.deadline_us == expected->deadline_us);
    assert_int_equal(slot.whole, expected->whole);
}

static void want_all(struct pawl__slots *slots, struct model *model)
{
    pawl__slots_want_all(slots);
    for (size_t i = model->first; i < model->last; i++) {
        model->slots[i].orphan = model->slots[i].orphan || model->slots[i].lazy;
        model->slots[i].lazy = false;
    }
}

/* `disorder`: how much a deadline may be before the last one. */
static void run(uint64_t seed, uint64_t disorder)
{
    static struct model model;
    struct pawl__slots slots;
    struct pawl__random random;
    int64_t now_us = 1000000;
    pawl__random_seed(&random, seed);
    pawl__slots_init(&slots);
    model.first = 0;
    model.last = 0;
    while (model.last < MODEL_MAX) {
        const bool filling = (model.last / 300) % 2 == 0;
        if (slots.count > 0 && pawl__random_below(&random, 3) < (filling ? 1u : 2u)) {
            pop(&slots, &model);
        } else if (pawl__random_below(&random, 50) == 0) {
            want_all(&slots, &model);
        } else {
            now_us += (int64_t)pawl__random_below(&random, 10);
            const uint64_t whose = pawl__random_below(&random, 4);
            const struct pawl__slot slot = {.begin = pawl__random_next(&random),
                .deadline_us = now_us - (int64_t)pawl__random_below(&random, disorder + 1),
                .whole = pawl__random_below(&random, 2) == 0,
                .lazy = whose == 0,
                .orphan = whose == 1};
            push(&slots, &model, &slot);
        }
        check(&slots, &model);
    }
    while (slots.count > 0) {
        pop(&slots, &model);
        check(&slots, &model);
    }
    assert_true(pawl__slots_due(&slots) == PAWL__NEVER);
    pawl__slots_free(&slots);
}

static void deadlines_in_order(void **state)
{
    (void)state;
    run(1, 0);
}

static void deadlines_out_of_order(void **state)
{
    (void)state;
    run(2, 3);
    run(3, 500);
}

static bool refuse(size_t size)
{
    (void)size;
    return false;
}

static void there_is_a_limit(void **state)
{
    (void)state;
    struct pawl__slots slots;
    const struct pawl__slot slot = {.deadline_us = 1};
    pawl__slots_init(&slots);
    pawl__alloc_hook = refuse;
    assert_false(pawl__slots_reserve(&slots));
    pawl__alloc_hook = NULL;
    for (size_t i = 0; i < PAWL__SLOTS_MAX; i++) {
        assert_true(pawl__slots_reserve(&slots));
        pawl__slots_push(&slots, &slot);
    }
    assert_false(pawl__slots_reserve(&slots));
    pawl__slots_pop(&slots);
    assert_true(pawl__slots_reserve(&slots));
    pawl__slots_free(&slots);
}

static void what_a_rush_needed_is_given_back(void **state)
{
    (void)state;
    struct pawl__slots slots;
    const struct pawl__slot slot = {.deadline_us = 1};
    pawl__slots_init(&slots);
    pawl__slots_trim(&slots);
    assert_int_equal(slots.capacity, 0);
    for (size_t i = 0; i < 1000; i++) {
        assert_true(pawl__slots_reserve(&slots));
        pawl__slots_push(&slots, &slot);
    }
    pawl__slots_trim(&slots); /* all of them are owed */
    assert_int_equal(slots.capacity, 1024);
    assert_true(pawl__slots_spacious(&slots));
    while (slots.count > 0) {
        pawl__slots_pop(&slots);
    }
    pawl__alloc_hook = refuse;
    pawl__slots_trim(&slots);
    pawl__alloc_hook = NULL;
    assert_int_equal(slots.capacity, 1024);
    pawl__slots_trim(&slots);
    assert_false(pawl__slots_spacious(&slots));
    assert_in_range(slots.capacity, 64, 1023);
    for (size_t i = 0; i < 1000; i++) {
        assert_true(pawl__slots_reserve(&slots));
        pawl__slots_push(&slots, &slot);
    }
    pawl__slots_free(&slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadlines_in_order),
        cmocka_unit_test(deadlines_out_of_order),
        cmocka_unit_test(there_is_a_limit),
        cmocka_unit_test(what_a_rush_needed_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
