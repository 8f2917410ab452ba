/* SPDX-License-Identifier: Apache-2.0 */
/* base/wait.h: the seat.
 *
 * First as a model: random steps of a few waiters in one thread, where after each step a free seat
 * with a queue must have a nudge under way to the oldest. Then for real: in each of many rounds,
 * threads wait for answers that only a leader delivers. A round ends when all are served, so that a
 * lost nudge leaves its last sleepers behind, and they notice. */
#include "base/wait.h"

#include "base/clock.h"
#include "base/random.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* ===== One thing after another ===== */

static bool is_nudged(const struct pawl__waiter *waiter)
{
    return (atomic_load(&waiter->word) & PAWL__WAITER_NUDGED) != 0;
}

static void take_and_yield(void **state)
{
    (void)state;
    struct pawl__seat seat;
    struct pawl__waiter waiters[3];
    pawl__seat_init(&seat);
    for (int i = 0; i < 3; i++) {
        pawl__waiter_init(&waiters[i]);
    }
    assert_true(pawl__seat_take(&seat, &waiters[0]));
    assert_false(pawl__seat_take(&seat, &waiters[1]));
    assert_false(pawl__seat_take(&seat, &waiters[2]));
    assert_false(pawl__seat_take(&seat, &waiters[1])); /* again: it keeps its place */
    assert_true(pawl__seat_yield(&seat));
    assert_true(is_nudged(&waiters[1]));
    assert_false(is_nudged(&waiters[2]));
    pawl__seat_leave(&seat, &waiters[1]); /* it will not lead: the nudge goes on */
    assert_true(is_nudged(&waiters[2]));
    assert_true(pawl__seat_take(&seat, &waiters[2]));
    assert_false(pawl__seat_yield(&seat));
    pawl__seat_leave(&seat, &waiters[0]); /* not queued: nothing */
    assert_true(pawl__seat_take(&seat, &waiters[0]));
}

#define MODEL_COUNT 6

struct model {
    struct pawl__seat seat;
    struct pawl__waiter waiters[MODEL_COUNT];
    int leader;             /* -1: none */
    int queue[MODEL_COUNT]; /* oldest first */
    int queue_count;
};

static int place_of(const struct model *model, int who)
{
    for (int i = 0; i < model->queue_count; i++) {
        if (model->queue[i] == who) {
            return i;
        }
    }
    return -1;
}

static void unqueue(struct model *model, int who)
{
    int place = place_of(model, who);
    if (place >= 0) {
        model->queue_count--;
        memmove(&model->queue[place], &model->queue[place + 1],
            (size_t)(model->queue_count - place) * sizeof model->queue[0]);
    }
}

/* Somebody who is not the leader looks at the seat, whatever woke it. */
static void model_take(struct model *model, int who)
{
    pawl__waiter_sleep(&model->waiters[who], 0);
    bool leads = pawl__seat_take(&model->seat, &model->waiters[who]);
    assert_int_equal(leads, model->leader < 0);
    if (leads) {
        unqueue(model, who);
        model->leader = who;
    } else if (place_of(model, who) < 0) {
        model->queue[model->queue_count++] = who;
    }
}

static void model_step(struct model *model, struct pawl__random *random)
{
    int who = (int)pawl__random_below(random, MODEL_COUNT);
    if (who == model->leader) {
        assert_int_equal(pawl__seat_yield(&model->seat), model->queue_count > 0);
        model->leader = -1;
    } else if (pawl__random_below(random, 3) == 0) {
        pawl__waiter_sleep(&model->waiters[who], 0);
        pawl__seat_leave(&model->seat, &model->waiters[who]);
        unqueue(model, who);
    } else {
        model_take(model, who);
    }
}

static void model_check(const struct model *model)
{
    assert_int_equal(model->seat.taken, model->leader >= 0);
    const struct pawl__list *node = model->seat.followers.next;
    for (int i = 0; i < model->queue_count; i++) {
        assert_ptr_equal(node, &model->waiters[model->queue[i]].node);
        node = node->next;
    }
    assert_ptr_equal(node, &model->seat.followers);
    if (model->leader < 0 && model->queue_count > 0) {
        assert_true(is_nudged(&model->waiters[model->queue[0]]));
    }
}

static void free_seat_means_nudge(void **state)
{
    (void)state;
    struct model model = {.leader = -1};
    struct pawl__random random;
    pawl__random_seed(&random, 11);
    pawl__seat_init(&model.seat);
    for (int i = 0; i < MODEL_COUNT; i++) {
        pawl__waiter_init(&model.waiters[i]);
    }
    for (int step = 0; step < 200000; step++) {
        model_step(&model, &random);
        model_check(&model);
    }
}

/* ===== Many threads ===== */

#define CALLER_COUNT 8
#define STRESS_US 1500000
#define PATIENCE_US 15000000 /* nobody waits so long unless a nudge was lost */

struct request {
    struct pawl__waiter waiter;
    int64_t deadline_us;
    bool patient;
};

/* What the callers share: a connection whose answers come in any order. */
static struct {
    pthread_mutex_t mutex; /* guards all but what is atomic */
    struct pawl__seat seat;
    struct request *open[CALLER_COUNT]; /* not answered yet */
    size_t open_count;
    struct pawl__random random;
    int leading; /* how many think they lead */
    pthread_barrier_t barrier;
    _Atomic bool stop;
    _Atomic int lost_count;  /* patient callers that nobody served */
    _Atomic int crowd_count; /* times there were two leaders */
    _Atomic long answer_count;
    _Atomic long expiry_count;
    _Atomic long follow_count; /* times somebody slept */
} shared = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static uint64_t draw(uint64_t bound)
{
    return pawl__random_below(&shared.random, bound);
}

static void close_request(struct request *request)
{
    for (size_t i = 0; i < shared.open_count; i++) {
        if (shared.open[i] == request) {
            shared.open[i] = shared.open[--shared.open_count];
            return;
        }
    }
}

/* Read once, as the leader: nothing, or answers for some of those who wait. */
static void read_answers(void)
{
    uint64_t dice = draw(4);
    pthread_mutex_unlock(&shared.mutex);
    for (uint64_t i = 0; i < dice; i++) {
        sched_yield();
    }
    pthread_mutex_lock(&shared.mutex);
    for (uint64_t count = draw(3); count > 0 && shared.open_count > 0; count--) {
        struct request *request = shared.open[draw(shared.open_count)];
        close_request(request);
        pawl__waiter_finish(&request->waiter);
    }
}

static bool is_over(const struct request *request)
{
    return pawl__waiter_done(&request->waiter) || pawl__now_us() >= request->deadline_us;
}

/* Lead until the own wait is over, or just for a while. */
static void lead(const struct request *request)
{
    if (++shared.leading != 1) {
        atomic_fetch_add(&shared.crowd_count, 1);
    }
    do {
        read_answers();
    } while (!is_over(request) && draw(6) != 0);
    shared.leading--;
    pawl__seat_yield(&shared.seat);
}

static void follow(struct request *request)
{
    atomic_fetch_add(&shared.follow_count, 1);
    pthread_mutex_unlock(&shared.mutex);
    bool woken = pawl__waiter_sleep(&request->waiter, request->deadline_us);
    pthread_mutex_lock(&shared.mutex);
    if (!woken && request->patient) {
        atomic_fetch_add(&shared.lost_count, 1);
    }
}

/* One request, waited for as a caller of the library does. */
static void call(void)
{
    struct request request;
    pthread_mutex_lock(&shared.mutex);
    pawl__waiter_init(&request.waiter);
    request.patient = draw(3) != 0;
    request.deadline_us = pawl__now_us() + (request.patient ? PATIENCE_US : (int64_t)draw(300));
    shared.open[shared.open_count++] = &request;
    while (!is_over(&request)) {
        if (pawl__seat_take(&shared.seat, &request.waiter)) {
            lead(&request);
        } else {
            follow(&request);
        }
    }
    pawl__seat_leave(&shared.seat, &request.waiter);
    close_request(&request);
    bool done = pawl__waiter_done(&request.waiter);
    pthread_mutex_unlock(&shared.mutex);
    atomic_fetch_add(done ? &shared.answer_count : &shared.expiry_count, 1);
}

static void *call_in_rounds(void *arg)
{
    (void)arg;
    for (;;) {
        pthread_barrier_wait(&shared.barrier);
        if (atomic_load(&shared.stop)) {
            return NULL;
        }
        call();
        pthread_barrier_wait(&shared.barrier);
    }
}

static void nobody_sleeps_beside_a_free_seat(void **state)
{
    (void)state;
    pthread_t threads[CALLER_COUNT];
    pawl__random_seed(&shared.random, 12);
    pawl__seat_init(&shared.seat);
    assert_int_equal(pthread_barrier_init(&shared.barrier, NULL, CALLER_COUNT + 1), 0);
    for (int i = 0; i < CALLER_COUNT; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, call_in_rounds, NULL), 0);
    }
    const int64_t end_us = pawl__now_us() + STRESS_US;
    int round_count = 0;
    while (pawl__now_us() < end_us && atomic_load(&shared.lost_count) == 0) {
        pthread_barrier_wait(&shared.barrier); /* all begin */
        pthread_barrier_wait(&shared.barrier); /* all are served */
        round_count++;
    }
    atomic_store(&shared.stop, true);
    pthread_barrier_wait(&shared.barrier);
    for (int i = 0; i < CALLER_COUNT; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    pthread_barrier_destroy(&shared.barrier);
    print_message("%d rounds, %ld answered, %ld expired, %ld sleeps\n", round_count,
        atomic_load(&shared.answer_count), atomic_load(&shared.expiry_count),
        atomic_load(&shared.follow_count));
    assert_int_equal(atomic_load(&shared.lost_count), 0);
    assert_int_equal(atomic_load(&shared.crowd_count), 0);
    assert_false(shared.seat.taken);
    assert_true(pawl__list_empty(&shared.seat.followers));
    assert_true(atomic_load(&shared.answer_count) > round_count);
    assert_true(atomic_load(&shared.expiry_count) > 0);
    assert_true(atomic_load(&shared.follow_count) > round_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(take_and_yield),
        cmocka_unit_test(free_seat_means_nudge),
        cmocka_unit_test(nobody_sleeps_beside_a_free_seat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
