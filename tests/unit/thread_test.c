/* SPDX-License-Identifier: Apache-2.0 */
/* base/thread.h: owner numbers, the exit hook, and threads of our own.
 *
 * Threads come and go, several at a time; each notes the number it drew, the hook counts its calls
 * for each number. System thread ids are used again all the while, owner numbers must not be. */
#include "base/thread.h"

#include "support/wait.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ROUND_COUNT 60
#define THREAD_COUNT 16
#define OWNERS_MAX 100000

static _Atomic int ended_count[OWNERS_MAX]; /* by owner number */
static _Atomic int ended_total;
static _Atomic int strange_count; /* hook calls with numbers that cannot be */

static void hook(uint64_t owner)
{
    if (owner == 0 || owner >= OWNERS_MAX || owner != pawl__owner_of_thread()) {
        atomic_fetch_add(&strange_count, 1);
    } else {
        atomic_fetch_add(&ended_count[owner], 1);
    }
    atomic_fetch_add(&ended_total, 1);
}

static int set_hook(void **state)
{
    (void)state;
    pawl__thread_set_exit_hook(hook);
    return 0;
}

/* ===== Owner numbers ===== */

struct visitor {
    pthread_t thread;
    bool draws;
    uint64_t first;
    uint64_t second;
    uint64_t handle;
};

static void *visit(void *arg)
{
    struct visitor *visitor = arg;
    if (visitor->draws) {
        visitor->first = pawl__owner_of_thread();
        visitor->handle = pawl__owner_new();
        visitor->second = pawl__owner_of_thread();
    }
    return NULL;
}

/* Note a number as given out; it must not have been given before. */
static void note(bool *given, uint64_t owner)
{
    assert_in_range(owner, 1, OWNERS_MAX - 1);
    assert_false(given[owner]);
    given[owner] = true;
}

static void run_round(struct visitor visitors[THREAD_COUNT])
{
    memset(visitors, 0, THREAD_COUNT * sizeof *visitors);
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        visitors[i].draws = i % 4 != 3;
        assert_int_equal(pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]), 0);
    }
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        assert_int_equal(pthread_join(visitors[i].thread, NULL), 0);
    }
}

static void numbers_are_unique(void **state)
{
    (void)state;
    static bool given[OWNERS_MAX];
    struct visitor visitors[THREAD_COUNT];
    const int total_before = atomic_load(&ended_total);
    int drawn_count = 0;
    note(given, pawl__owner_of_thread());
    for (int round = 0; round < ROUND_COUNT; round++) {
        run_round(visitors);
        for (size_t i = 0; i < THREAD_COUNT; i++) {
            if (visitors[i].draws) {
                note(given, visitors[i].first);
                note(given, visitors[i].handle);
                assert_int_equal(visitors[i].second, visitors[i].first);
                /* The destructors have run when the join returns. */
                assert_int_equal(atomic_load(&ended_count[visitors[i].first]), 1);
                assert_int_equal(atomic_load(&ended_count[visitors[i].handle]), 0);
                drawn_count++;
            }
        }
    }
    assert_int_equal(atomic_load(&ended_total) - total_before, drawn_count);
    assert_int_equal(atomic_load(&strange_count), 0);
    assert_int_equal(atomic_load(&ended_count[pawl__owner_of_thread()]), 0);
}

static void main_thread_keeps_its_number(void **state)
{
    (void)state;
    uint64_t self = pawl__owner_of_thread();
    assert_int_not_equal(self, 0);
    assert_int_not_equal(pawl__owner_new(), self);
    assert_int_equal(pawl__owner_of_thread(), self);
}

/* ===== Drawn again while the thread ends ===== */

static pthread_key_t late_key;

struct late {
    uint64_t first;
    uint64_t second;
};

/* A destructor of the program's that locks something: it runs after ours, being made later. */
static void draw_late(void *value)
{
    struct late *late = value;
    late->second = pawl__owner_of_thread();
}

static void *leave_late(void *arg)
{
    struct late *late = arg;
    late->first = pawl__owner_of_thread();
    pthread_setspecific(late_key, late);
    return NULL;
}

static void late_destructor_gets_its_own_number(void **state)
{
    (void)state;
    pthread_t thread;
    struct late late = {0, 0};
    pawl__owner_of_thread(); /* the library's key comes first */
    assert_int_equal(pthread_key_create(&late_key, draw_late), 0);
    assert_int_equal(pthread_create(&thread, NULL, leave_late, &late), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_key_delete(late_key);
    assert_int_not_equal(late.first, 0);
    assert_int_not_equal(late.second, 0);
    assert_int_not_equal(late.first, late.second);
    assert_int_equal(atomic_load(&ended_count[late.first]), 1);
    assert_int_equal(atomic_load(&ended_count[late.second]), 1);
    assert_int_equal(atomic_load(&strange_count), 0);
}

/* ===== Threads of our own ===== */

struct report {
    sigset_t mask;
    bool in_callback;
    _Atomic bool named;
};

static void *report(void *arg)
{
    struct report *out = arg;
    pthread_sigmask(SIG_BLOCK, NULL, &out->mask);
    out->in_callback = pawl__in_callback;
    /* The starter names the thread a moment after it runs. */
    char name[16] = "";
    const int64_t end_ms = boottime_ms() + 5000;
    while (strcmp(name, "pawl-test") != 0 && boottime_ms() < end_ms) {
        pthread_getname_np(pthread_self(), name, sizeof name);
    }
    atomic_store(&out->named, strcmp(name, "pawl-test") == 0);
    return out;
}

static bool can_be_blocked(int number)
{
    bool internal = number == 32 || number == 33; /* the C library keeps these for itself */
    return number != SIGKILL && number != SIGSTOP && !internal;
}

static void started_with_signals_blocked(void **state)
{
    (void)state;
    pthread_t thread;
    struct report out;
    memset(&out, 0, sizeof out);
    sigset_t before;
    sigset_t after;
    void *result = NULL;
    pawl__in_callback = true;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_true(pawl__thread_start(&thread, "pawl-test", report, &out));
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &out);
    for (int number = 1; number < 65; number++) {
        if (can_be_blocked(number)) {
            assert_int_equal(sigismember(&out.mask, number), 1);
        }
        assert_int_equal(sigismember(&after, number), sigismember(&before, number));
    }
    assert_true(atomic_load(&out.named));
    assert_false(out.in_callback); /* each thread has its own */
    assert_true(pawl__in_callback);
    pawl__in_callback = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_unique),
        cmocka_unit_test(main_thread_keeps_its_number),
        cmocka_unit_test(late_destructor_gets_its_own_number),
        cmocka_unit_test(started_with_signals_blocked),
    };
    return cmocka_run_group_tests(tests, set_hook, NULL);
}
