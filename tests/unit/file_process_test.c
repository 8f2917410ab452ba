/* SPDX-License-Identifier: Apache-2.0 */
/* The file engine among processes: holders that are killed or stopped, waiters that must not miss a
 * release, forks, and a storm.
 *
 * Waiting is done without any backstop (acquire_waiting() in file_side.h), so a wake-up that is
 * missed shows as a wait that does not end. In the storm, processes acquire and release while
 * another one deletes, moves and breaks the lock under their hands. Each tenure writes down when it
 * held; those whose release was answered "done" were never lost, so no two of them may overlap, and
 * their tokens must grow. */
#include "file_side.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

static void *share(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Tell the parent that something was done, and wait for its word to go on. */
static void meet(const struct child_pipes *pipes)
{
    char word;
    assert_int_equal(write(pipes->out, "\n", 1), 1);
    assert_int_equal(read(pipes->in, &word, 1), 1);
}

static void wait_for_child(struct child *child)
{
    char *line = child_read_line(child, BOUND_MS);
    assert_non_null(line);
    free(line);
}

/* ===== Killed and stopped holders ===== */

static int hold_until_killed(const struct child_pipes *pipes, void *arg)
{
    struct side side;
    side_open(&side, arg);
    struct pawl__place *place = place_open(&side, "lock");
    if (ask(&side, place, PAWL__OP_ACQUIRE, 1) != PAWL__DONE) {
        return 1;
    }
    meet(pipes);
    return 0;
}

enum { KILLS = 400 };

static void a_killed_holder_is_followed_at_once(void **state)
{
    (void)state;
    const char *made = tempdir_make();
    char *directory = support_copy(made, strlen(made));
    struct side side;
    side_open(&side, directory);
    struct pawl__place *place = place_open(&side, "lock");
    int64_t waits_us[KILLS];
    uint64_t last = 0;
    for (uint64_t i = 0; i < KILLS; i++) {
        struct child *child = child_fork(hold_until_killed, directory);
        wait_for_child(child);
        assert_int_equal(ask(&side, place, PAWL__OP_WATCH, 0), PAWL__DONE);
        assert_int_equal(ask(&side, place, PAWL__OP_ACQUIRE, i), PAWL__HELD);
        int64_t before_us = pawl__now_us();
        child_signal(child, SIGKILL);
        uint64_t token = acquire_waiting(&side, place, i, BOUND_MS);
        waits_us[i] = pawl__now_us() - before_us;
        assert_true(token > 0);
        assert_true(token >= last + 2 || last == 0); /* the child's own grant in between */
        last = token;
        assert_int_equal(ask(&side, place, PAWL__OP_RELEASE, i), PAWL__DONE);
        child_free(child);
    }
    qsort(waits_us, KILLS, sizeof waits_us[0], by_value);
    print_message("%d kills: next grant after p50 %lld us, p99 %lld us, at most %lld us\n", KILLS,
        (long long)waits_us[KILLS / 2], (long long)waits_us[KILLS * 99 / 100],
        (long long)waits_us[KILLS - 1]);
    /* A process needs a while to die, above all on a busy machine and with a sanitizer. */
    assert_true(waits_us[KILLS / 2] < 100000);
    assert_true(waits_us[KILLS * 99 / 100] < 1000000);
    place_close(&side, place);
    side_close(&side);
    free(directory);
}

static int hold_and_release(const struct child_pipes *pipes, void *arg)
{
    struct side side;
    side_open(&side, arg);
    struct pawl__place *place = place_open(&side, "lock");
    if (ask(&side, place, PAWL__OP_ACQUIRE, 1) != PAWL__DONE) {
        return 1;
    }
    meet(pipes);
    /* Nobody has read an event in this process since. */
    return ask(&side, place, PAWL__OP_RELEASE, 1) == PAWL__GONE ? 0 : 2;
}

static void a_stopped_holder_learns_that_it_was_broken(void **state)
{
    (void)state;
    const char *made = tempdir_make();
    char *directory = support_copy(made, strlen(made));
    struct side side;
    side_open(&side, directory);
    struct pawl__place *place = place_open(&side, "lock");
    struct child *child = child_fork(hold_and_release, directory);
    wait_for_child(child);
    child_stop(child);
    assert_int_equal(ask(&side, place, PAWL__OP_ACQUIRE, 1), PAWL__HELD);
    assert_int_equal(ask(&side, place, PAWL__OP_BREAK, 0), PAWL__DONE);
    assert_int_equal(ask(&side, place, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    child_continue(child);
    assert_true(child_write(child, "\n"));
    assert_int_equal(child_wait(child, BOUND_MS), 0);
    assert_int_equal(ask(&side, place, PAWL__OP_VERIFY, 1), PAWL__DONE);
    child_free(child);
    place_close(&side, place);
    side_close(&side);
    free(directory);
}

/* ===== Fork ===== */

static int look_at_inherited(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    const int *descriptor = arg;
    return fcntl(*descriptor, F_GETFD) == -1 ? 0 : 1; /* the lock file was closed in the child */
}

static void a_childs_end_releases_nothing(void **state)
{
    (void)state;
    struct side a;
    struct side b;
    const char *directory = tempdir_make();
    side_open(&a, directory);
    side_open(&b, directory);
    struct pawl__place *at_a = place_open(&a, "lock");
    struct pawl__place *at_b = place_open(&b, "lock");
    int descriptor = dup(0); /* the number that the lock file will get */
    close(descriptor);
    assert_int_equal(ask(&a, at_a, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    struct child *child = child_fork(look_at_inherited, &descriptor);
    assert_int_equal(child_wait(child, BOUND_MS), 0);
    child_free(child);
    assert_int_equal(ask(&b, at_b, PAWL__OP_ACQUIRE, 7), PAWL__HELD);
    assert_int_equal(ask(&a, at_a, PAWL__OP_RELEASE, 1), PAWL__DONE);
    place_close(&a, at_a);
    place_close(&b, at_b);
    side_close(&a);
    side_close(&b);
}

/* ===== No wake-up is missed ===== */

enum { TURNS = 300, PLAYERS = 3 };

struct game {
    const char *directory;
    _Atomic int64_t released_us; /* when somebody last released */
    _Atomic unsigned samples;
    int64_t waits_us[TURNS * PLAYERS];
};

static int take_turns(const struct child_pipes *pipes, void *arg)
{
    struct game *game = arg;
    struct side side;
    side_open(&side, game->directory);
    struct pawl__place *place = place_open(&side, "lock");
    meet(pipes);
    for (uint64_t i = 1; i <= TURNS; i++) {
        bool busy = ask(&side, place, PAWL__OP_ACQUIRE, i) != PAWL__DONE;
        if (busy && acquire_waiting(&side, place, i, BOUND_MS) == 0) {
            return 1;
        }
        int64_t released_us = atomic_load(&game->released_us);
        if (busy && released_us > 0) {
            game->waits_us[atomic_fetch_add(&game->samples, 1)] = pawl__now_us() - released_us;
        }
        nap_ms(i % 4 == 0 ? 1 : 0);
        atomic_store(&game->released_us, pawl__now_us());
        if (ask(&side, place, PAWL__OP_RELEASE, i) != PAWL__DONE) {
            return 2;
        }
    }
    return 0;
}

static void no_release_goes_unheard(void **state)
{
    (void)state;
    struct game *game = share(sizeof *game);
    struct child *players[PLAYERS];
    game->directory = tempdir_make();
    for (int i = 0; i < PLAYERS; i++) {
        players[i] = child_fork(take_turns, game);
        wait_for_child(players[i]);
    }
    for (int i = 0; i < PLAYERS; i++) {
        assert_true(child_write(players[i], "\n"));
    }
    for (int i = 0; i < PLAYERS; i++) {
        assert_int_equal(child_wait(players[i], 10 * BOUND_MS), 0);
        child_free(players[i]);
    }
    unsigned samples = atomic_load(&game->samples);
    assert_true(samples > 0);
    qsort(game->waits_us, samples, sizeof game->waits_us[0], by_value);
    print_message("%u of %d acquires waited: p50 %lld us after the release, p99 %lld us\n", samples,
        TURNS * PLAYERS, (long long)game->waits_us[samples / 2],
        (long long)game->waits_us[samples * 99 / 100]);
    assert_true(game->waits_us[samples / 2] < 100000);
    munmap(game, sizeof *game);
}

/* ===== Alone, and not ===== */

enum { STREAKS = 600 };

struct watch_list {
    const char *directory;
    _Atomic uint64_t last; /* the greatest token; only the holder touches it */
    _Atomic unsigned wrong;
};

/* Streaks of grants, so long that one believes to be alone, or not quite so long. */
static int come_and_go(const struct child_pipes *pipes, void *arg)
{
    struct watch_list *list = arg;
    struct side side;
    side_open(&side, list->directory);
    struct pawl__place *place = place_open(&side, "lock");
    unsigned seed = (unsigned)getpid();
    meet(pipes);
    for (uint64_t id = 1, streak = 0; streak < STREAKS; streak++) {
        for (int left = 1 + rand_r(&seed) % 20; left > 0; left--, id++) {
            struct pawl__op op = operate(&side, place, PAWL__OP_ACQUIRE, id);
            uint64_t token = op.token;
            if (op.answer != PAWL__DONE) {
                token = acquire_waiting(&side, place, id, BOUND_MS);
            }
            if (token == 0 || atomic_exchange(&list->last, token) >= token) {
                atomic_fetch_add(&list->wrong, 1);
            }
            if (ask(&side, place, PAWL__OP_RELEASE, id) != PAWL__DONE) {
                return 1;
            }
        }
        if (streak % 8 == 0) {
            nap_ms(1);
        }
    }
    return 0;
}

static void tokens_grow_whoever_is_alone(void **state)
{
    (void)state;
    struct watch_list *list = share(sizeof *list);
    struct child *children[PLAYERS];
    list->directory = tempdir_make();
    for (int i = 0; i < PLAYERS; i++) {
        children[i] = child_fork(come_and_go, list);
        wait_for_child(children[i]);
    }
    for (int i = 0; i < PLAYERS; i++) {
        assert_true(child_write(children[i], "\n"));
    }
    for (int i = 0; i < PLAYERS; i++) {
        assert_int_equal(child_wait(children[i], 10 * BOUND_MS), 0);
        child_free(children[i]);
    }
    assert_int_equal(atomic_load(&list->wrong), 0);
    munmap(list, sizeof *list);
}

/* ===== The storm ===== */

enum { GRANTS = 1500, SAILORS = 3, WINDS = 2 };

struct voyage {
    int64_t from_us;
    int64_t to_us;
    uint64_t token;
    bool valid; /* its release was answered "done" */
};

struct storm {
    const char *directory;
    _Atomic unsigned count;
    _Atomic bool over;
    struct voyage voyages[GRANTS * SAILORS];
};

static int sail(const struct child_pipes *pipes, void *arg)
{
    struct storm *storm = arg;
    struct side side;
    side_open(&side, storm->directory);
    struct pawl__place *place = place_open(&side, "lock");
    meet(pipes);
    for (uint64_t i = 1; i <= GRANTS; i++) {
        uint64_t token = acquire_waiting(&side, place, i, BOUND_MS);
        if (token == 0) {
            return 1;
        }
        struct voyage *voyage = &storm->voyages[atomic_fetch_add(&storm->count, 1)];
        voyage->from_us = pawl__now_us();
        struct pawl__op passed = pass(&side, place, i, i + GRANTS, false);
        voyage->token = passed.answer == PAWL__DONE ? passed.token : token;
        sched_yield();
        voyage->to_us = pawl__now_us();
        voyage->valid = ask(&side, place, PAWL__OP_RELEASE, i + GRANTS) == PAWL__DONE;
    }
    return 0;
}

static int blow(const struct child_pipes *pipes, void *arg)
{
    struct storm *storm = arg;
    struct side side;
    char *path = lock_path(storm->directory, "lock");
    char *aside = lock_path(storm->directory, "aside");
    side_open(&side, storm->directory);
    struct pawl__place *place = place_open(&side, "lock");
    meet(pipes);
    for (unsigned i = 0; !atomic_load(&storm->over); i++) {
        if (i % 6 == 0) {
            unlink(path);
        } else if (i % 6 == 3) {
            rename(path, aside);
        } else {
            ask(&side, place, PAWL__OP_BREAK, 0);
        }
        nap_ms(i % 2);
    }
    free(path);
    free(aside);
    return 0;
}

static int by_begin(const void *a, const void *b)
{
    const struct voyage *x = a;
    const struct voyage *y = b;
    return by_value(&x->from_us, &y->from_us);
}

static int by_token(const void *a, const void *b)
{
    const struct voyage *x = a;
    const struct voyage *y = b;
    return x->token < y->token ? -1 : x->token > y->token;
}

static void assert_tokens_differ(struct voyage *voyages, unsigned count)
{
    qsort(voyages, count, sizeof *voyages, by_token);
    for (unsigned i = 1; i < count; i++) {
        assert_true(voyages[i].token > voyages[i - 1].token);
    }
}

/* How many voyages were never lost. */
static unsigned judge_voyages(struct voyage *voyages, unsigned count)
{
    unsigned valid = 0;
    const struct voyage *last = NULL;
    qsort(voyages, count, sizeof *voyages, by_begin);
    for (unsigned i = 0; i < count; i++) {
        const struct voyage *voyage = &voyages[i];
        if (!voyage->valid) {
            continue;
        }
        if (last != NULL && (voyage->from_us < last->to_us || voyage->token <= last->token)) {
            support_fail("%u: from %lld us with token %llu; the one before until %lld with %llu", i,
                (long long)voyage->from_us, (unsigned long long)voyage->token,
                (long long)last->to_us, (unsigned long long)last->token);
        }
        last = voyage;
        valid++;
    }
    return valid;
}

static void exclusion_holds_in_a_storm(void **state)
{
    (void)state;
    struct storm *storm = share(sizeof *storm);
    struct child *children[SAILORS + WINDS];
    storm->directory = tempdir_make();
    for (int i = 0; i < SAILORS + WINDS; i++) {
        children[i] = child_fork(i < SAILORS ? sail : blow, storm);
        wait_for_child(children[i]);
    }
    for (int i = 0; i < SAILORS + WINDS; i++) {
        assert_true(child_write(children[i], "\n"));
    }
    for (int i = 0; i < SAILORS + WINDS; i++) {
        atomic_store(&storm->over, i >= SAILORS);
        assert_int_equal(child_wait(children[i], 10 * BOUND_MS), 0);
        child_free(children[i]);
    }
    unsigned count = atomic_load(&storm->count);
    assert_tokens_differ(storm->voyages, count);
    unsigned valid = judge_voyages(storm->voyages, count);
    print_message("%u grants, %u of them lost\n", count, count - valid);
    assert_int_equal(count, GRANTS * SAILORS);
    assert_true(valid > 0);
    assert_true(valid < count); /* else the storm was none */
    munmap(storm, sizeof *storm);
}

#define CLEAN(test) cmocka_unit_test_setup_teardown(test, cleanup_setup, cleanup_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLEAN(a_killed_holder_is_followed_at_once),
        CLEAN(a_stopped_holder_learns_that_it_was_broken),
        CLEAN(a_childs_end_releases_nothing),
        CLEAN(no_release_goes_unheard),
        CLEAN(tokens_grow_whoever_is_alone),
        CLEAN(exclusion_holds_in_a_storm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
