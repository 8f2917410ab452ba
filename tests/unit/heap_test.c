/* SPDX-License-Identifier: Apache-2.0 */
/* base/heap.h: timers in order of their time.
 *
 * Random operations (arm, move, disarm, take the first) run against an array that is searched from
 * end to end; few different times make ties common. After each step the first timer must be the
 * same, and now and then the whole heap is emptied in order. The shape of the heap is checked as
 * well. */
#include "base/clock.h"
#include "base/heap.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TIMER_COUNT 200

/* The heap, and beside it what is armed, when, and in which order it was armed. */
struct model {
    struct pawl__heap heap;
    struct pawl__timer timers[TIMER_COUNT];
    bool armed[TIMER_COUNT];
    int64_t due_us[TIMER_COUNT];
    int order[TIMER_COUNT];
    int clock;
};

static void model_set(struct model *model, size_t index, int64_t due_us)
{
    pawl__timer_set(&model->heap, &model->timers[index], due_us);
    model->armed[index] = due_us != PAWL__NEVER;
    model->due_us[index] = due_us;
    model->order[index] = model->clock++;
}

static void model_clear(struct model *model, size_t index)
{
    pawl__timer_clear(&model->heap, &model->timers[index]);
    model->armed[index] = false;
}

static bool is_before(const struct model *model, size_t a, size_t b)
{
    return model->due_us[a] < model->due_us[b] ||
           (model->due_us[a] == model->due_us[b] && model->order[a] < model->order[b]);
}

/* The index of the timer that should be first; TIMER_COUNT: none is armed. */
static size_t model_first(const struct model *model)
{
    size_t first = TIMER_COUNT;
    for (size_t i = 0; i < TIMER_COUNT; i++) {
        if (model->armed[i] && (first == TIMER_COUNT || is_before(model, i, first))) {
            first = i;
        }
    }
    return first;
}

static size_t check_first(const struct model *model)
{
    size_t first = model_first(model);
    const struct pawl__timer *wanted = first < TIMER_COUNT ? &model->timers[first] : NULL;
    assert_ptr_equal(pawl__heap_first(&model->heap), wanted);
    return first;
}

static void check_flags(const struct model *model)
{
    for (size_t i = 0; i < TIMER_COUNT; i++) {
        assert_int_equal(model->timers[i].armed, model->armed[i]);
        if (model->armed[i]) {
            assert_int_equal(model->timers[i].due_us, model->due_us[i]);
        }
    }
}

/* Count the timers under a parent; none may be earlier than it, all links must match. */
static size_t check_children(const struct pawl__timer *parent)
{
    size_t count = 0;
    const struct pawl__timer *prev = parent;
    for (const struct pawl__timer *child = parent->child; child != NULL; child = child->next) {
        assert_ptr_equal(child->prev, prev);
        assert_true(child->armed);
        assert_true(child->due_us > parent->due_us ||
                    (child->due_us == parent->due_us && child->order > parent->order));
        count += 1 + check_children(child);
        prev = child;
    }
    return count;
}

static void check_shape(const struct model *model)
{
    size_t armed = 0;
    for (size_t i = 0; i < TIMER_COUNT; i++) {
        armed += model->armed[i] ? 1 : 0;
    }
    const struct pawl__timer *root = model->heap.root;
    assert_int_equal(root == NULL ? 0 : 1 + check_children(root), armed);
}

static void empty_in_order(struct model *model)
{
    for (size_t first = check_first(model); first < TIMER_COUNT; first = check_first(model)) {
        model_clear(model, first);
    }
    assert_null(model->heap.root);
}

static void nothing_armed(void **state)
{
    (void)state;
    struct pawl__heap heap = {0};
    struct pawl__timer timer = {0};
    assert_null(pawl__heap_first(&heap));
    pawl__timer_clear(&heap, &timer);
    pawl__timer_set(&heap, &timer, PAWL__NEVER);
    assert_null(pawl__heap_first(&heap));
    assert_false(timer.armed);
    pawl__timer_set(&heap, &timer, 5);
    assert_ptr_equal(pawl__heap_first(&heap), &timer);
    pawl__timer_set(&heap, &timer, PAWL__NEVER);
    assert_null(pawl__heap_first(&heap));
}

static void ties_in_order(void **state)
{
    (void)state;
    struct model model = {0};
    for (size_t i = 0; i < TIMER_COUNT; i++) {
        model_set(&model, i, 1000);
    }
    model_set(&model, 0, 1000); /* armed again: now behind all others */
    for (size_t i = 1; i < TIMER_COUNT; i++) {
        assert_ptr_equal(pawl__heap_first(&model.heap), &model.timers[i]);
        model_clear(&model, i);
    }
    assert_ptr_equal(pawl__heap_first(&model.heap), &model.timers[0]);
}

static void extreme_times(void **state)
{
    (void)state;
    struct model model = {0};
    model_set(&model, 0, PAWL__NEVER - 1);
    model_set(&model, 1, INT64_MIN);
    model_set(&model, 2, 0);
    model_set(&model, 3, -1);
    static const size_t wanted[] = {1, 3, 2, 0};
    for (size_t i = 0; i < 4; i++) {
        assert_ptr_equal(pawl__heap_first(&model.heap), &model.timers[wanted[i]]);
        model_clear(&model, wanted[i]);
    }
}

/* Rising and falling times give the two extreme shapes of the heap. */
static void sorted_input(void **state)
{
    (void)state;
    struct model model = {0};
    for (size_t i = 0; i < TIMER_COUNT; i++) {
        model_set(&model, i, (int64_t)i);
    }
    check_shape(&model);
    empty_in_order(&model);
    for (size_t i = 0; i < TIMER_COUNT; i++) {
        model_set(&model, i, -(int64_t)i);
    }
    check_shape(&model);
    empty_in_order(&model);
}

static void random_operations(void **state)
{
    (void)state;
    struct model model = {0};
    struct pawl__random random;
    for (uint64_t seed = 0; seed < 20; seed++) {
        pawl__random_seed(&random, seed);
        uint64_t times = seed % 2 == 0 ? 10 : 1000000; /* many ties, or hardly any */
        for (int step = 0; step < 2000; step++) {
            size_t index = pawl__random_below(&random, TIMER_COUNT);
            uint64_t dice = pawl__random_below(&random, 100);
            if (dice < 50) {
                model_set(&model, index, (int64_t)pawl__random_below(&random, times));
            } else if (dice < 55) {
                model_set(&model, index, PAWL__NEVER);
            } else if (dice < 80) {
                model_clear(&model, index);
            } else if (model_first(&model) < TIMER_COUNT) {
                model_clear(&model, model_first(&model));
            }
            check_first(&model);
            if (step % 50 == 0) {
                check_shape(&model);
                check_flags(&model);
            }
        }
        empty_in_order(&model);
        check_flags(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_armed),
        cmocka_unit_test(ties_in_order),
        cmocka_unit_test(extreme_times),
        cmocka_unit_test(sorted_input),
        cmocka_unit_test(random_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
