/* SPDX-License-Identifier: Apache-2.0 */
/* The file engine at its seam, in one process: every operation and every answer.
 *
 * Each test opens sides (file_side.h) on a directory of its own. What the engine has to tell by
 * itself is pumped out of it as the client's keeper would. */
#include "file_side.h"

#include "engine/file/record.h"

#include <fcntl.h>

#define TOKEN_MIN UINT64_C(1000000000000000)

/* The directory and two sides with the same lock. */
struct scene {
    const char *directory;
    struct side a;
    struct side b;
    struct pawl__place *at_a;
    struct pawl__place *at_b;
};

static int set_scene(void **state)
{
    struct scene *scene = support_alloc(sizeof *scene);
    if (cleanup_setup(state) != 0) {
        return -1;
    }
    scene->directory = tempdir_make();
    side_open(&scene->a, scene->directory);
    side_open(&scene->b, scene->directory);
    scene->at_a = place_open(&scene->a, "lock");
    scene->at_b = place_open(&scene->b, "lock");
    *state = scene;
    return 0;
}

static int clear_scene(void **state)
{
    struct scene *scene = *state;
    place_close(&scene->a, scene->at_a);
    place_close(&scene->b, scene->at_b);
    side_close(&scene->a);
    side_close(&scene->b);
    free(scene);
    return cleanup_teardown(state);
}

/* ===== Acquire, release, and the questions in between ===== */

static void two_sides_exclude_each_other(void **state)
{
    struct scene *s = *state;
    struct pawl__op first = operate(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1);
    assert_int_equal(first.answer, PAWL__DONE);
    assert_true(first.token >= TOKEN_MIN);
    assert_true(first.fenced);

    struct pawl__op held = operate(&s->b, s->at_b, PAWL__OP_ACQUIRE, 7);
    assert_int_equal(held.answer, PAWL__HELD);
    assert_true(held.hint_us < 0);

    struct pawl__op released = operate(&s->a, s->at_a, PAWL__OP_RELEASE, 1);
    assert_int_equal(released.answer, PAWL__DONE);
    assert_false(released.others);

    struct pawl__op second = operate(&s->b, s->at_b, PAWL__OP_ACQUIRE, 7);
    assert_int_equal(second.answer, PAWL__DONE);
    assert_int_equal(second.token, first.token + 1);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 2), PAWL__HELD);
}

static void a_repeated_acquire_is_the_same(void **state)
{
    struct scene *s = *state;
    struct pawl__op first = operate(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1);
    struct pawl__op again = operate(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1);
    assert_int_equal(again.answer, PAWL__DONE);
    assert_int_equal(again.token, first.token);
    assert_int_equal(inspect(&s->b, s->at_b).hold_count, 1);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 2), PAWL__HELD);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_RELEASE, 1), PAWL__DONE);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_ACQUIRE, 7), PAWL__DONE);
}

/* What an old tenure left behind touches no newer one. */
static void only_the_tenure_that_holds_is_obeyed(void **state)
{
    struct scene *s = *state;
    static const enum pawl__op_kind kinds[] = {
        PAWL__OP_RENEW, PAWL__OP_VERIFY, PAWL__OP_COUNT, PAWL__OP_RELEASE, PAWL__OP_PASS};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        assert_int_equal(ask(&s->a, s->at_a, kinds[i], 1), PAWL__GONE);
    }
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 2), PAWL__DONE);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        assert_int_equal(ask(&s->a, s->at_a, kinds[i], 1), PAWL__GONE);
        assert_int_equal(ask(&s->b, s->at_b, kinds[i], 2), PAWL__GONE);
    }
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_RENEW, 2), PAWL__DONE);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_VERIFY, 2), PAWL__DONE);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_ACQUIRE, 1), PAWL__HELD);
}

static void inspect_tells_who_holds(void **state)
{
    struct scene *s = *state;
    pawl_lock_info info = inspect(&s->b, s->at_b);
    assert_false(info.held); /* there is no file yet, and inspecting makes none */
    assert_int_equal(info.token, 0);
    assert_string_equal(info.holder, "");
    char *path = lock_path(s->directory, "lock");
    assert_int_not_equal(access(path, F_OK), 0);
    free(path);

    struct pawl__op granted = operate(&s->a, s->at_a, PAWL__OP_ACQUIRE, 12345678901);
    char owner[128];
    snprintf(owner, sizeof owner, "%s:12345678901", s->a.host.uuid);
    struct pawl__op count = {
        .place = s->at_a, .kind = PAWL__OP_COUNT, .id = 12345678901, .count = 3};
    submit(&s->a, &count);
    assert_int_equal(count.answer, PAWL__DONE);
    for (int own = 0; own < 2; own++) {
        info = own ? inspect(&s->a, s->at_a) : inspect(&s->b, s->at_b);
        assert_true(info.held);
        assert_int_equal(info.hold_count, 3);
        assert_int_equal(info.remaining_ms, -1);
        assert_int_equal(info.token, granted.token);
        assert_string_equal(info.holder, owner);
    }
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_RELEASE, 12345678901), PAWL__DONE);
    info = inspect(&s->b, s->at_b);
    assert_false(info.held);
    assert_int_equal(info.hold_count, 0);
    assert_int_equal(info.token, granted.token);
    assert_string_equal(info.holder, "");
}

static void pass_goes_on_inside_or_is_offered(void **state)
{
    struct scene *s = *state;
    struct pawl__op first = operate(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1);
    struct pawl__op second = pass(&s->a, s->at_a, 1, 2, false);
    assert_int_equal(second.answer, PAWL__DONE);
    assert_int_equal(second.token, first.token + 1);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_VERIFY, 1), PAWL__GONE);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_VERIFY, 2), PAWL__DONE);
    assert_int_equal(inspect(&s->b, s->at_b).token, second.token);

    /* Nobody else waits, also if we watch ourselves: the offer is not taken. */
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_WATCH, 0), PAWL__DONE);
    assert_int_equal(pass(&s->a, s->at_a, 2, 3, true).answer, PAWL__DONE);

    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_WATCH, 0), PAWL__DONE);
    assert_int_equal(pass(&s->a, s->at_a, 3, 4, false).answer, PAWL__DONE);
    assert_int_equal(read_counter(&s->b, &s->b.wakes), 0);
    struct pawl__op left = pass(&s->a, s->at_a, 4, 5, true);
    assert_int_equal(left.answer, PAWL__LEFT);
    assert_true(left.others);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_VERIFY, 5), PAWL__GONE);
    WAIT_UNTIL(pump(&s->b) && read_counter(&s->b, &s->b.wakes) > 0, BOUND_MS);
    struct pawl__op taken = operate(&s->b, s->at_b, PAWL__OP_ACQUIRE, 9);
    assert_int_equal(taken.answer, PAWL__DONE);
    assert_int_equal(taken.token, first.token + 4);
}

static void a_list_is_carried_out_in_order(void **state)
{
    struct scene *s = *state;
    struct pawl__op last = {.place = s->at_a, .kind = PAWL__OP_ACQUIRE, .id = 2};
    struct pawl__op middle = {.next = &last, .place = s->at_a, .kind = PAWL__OP_RELEASE, .id = 1};
    struct pawl__op first = {.next = &middle, .place = s->at_a, .kind = PAWL__OP_ACQUIRE, .id = 1};
    pawl__engine_file.submit(s->a.self, &first, true);
    assert_int_equal(read_counter(&s->a, &s->a.completions), 3);
    assert_int_equal(first.answer, PAWL__DONE);
    assert_int_equal(middle.answer, PAWL__DONE);
    assert_int_equal(last.answer, PAWL__DONE);
    assert_int_equal(last.token, first.token + 1);
}

/* ===== Waking ===== */

static void a_release_wakes_who_watches(void **state)
{
    struct scene *s = *state;
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_WATCH, 0), PAWL__DONE);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_ACQUIRE, 7), PAWL__HELD);
    assert_true(operate(&s->a, s->at_a, PAWL__OP_RELEASE, 1).others);
    WAIT_UNTIL(pump(&s->b) && read_counter(&s->b, &s->b.wakes) > 0, BOUND_MS);
    assert_string_equal(s->b.told, "lock");
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_ACQUIRE, 7), PAWL__DONE);

    /* Not any more after UNWATCH, and nobody is said to wait. */
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_RELEASE, 7), PAWL__DONE);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_UNWATCH, 0), PAWL__DONE);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 2), PAWL__DONE);
    assert_false(operate(&s->a, s->at_a, PAWL__OP_RELEASE, 2).others);
}

/* A file that somebody closes may or may not be free in a moment: more wake-ups follow, but not for
 * ever. */
static void a_close_is_followed_by_more_wakes(void **state)
{
    struct scene *s = *state;
    struct side c;
    side_open(&c, s->directory);
    struct pawl__place *at_c = place_open(&c, "lock");
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_WATCH, 0), PAWL__DONE);
    assert_int_equal(ask(&c, at_c, PAWL__OP_ACQUIRE, 1), PAWL__HELD);
    int64_t closed_us = pawl__now_us();
    place_close(&c, at_c);
    side_close(&c);
    for (unsigned n = 1; n <= 8; n++) {
        WAIT_UNTIL(pump(&s->b) && read_counter(&s->b, &s->b.wakes) >= n, BOUND_MS);
        assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_ACQUIRE, 7), PAWL__HELD);
    }
    assert_true(pawl__now_us() - closed_us >= 127000); /* 1 + 2 + 4 + ... + 64 ms */
    struct pollfd fds[PAWL__POLL_MAX];
    int64_t due_us = PAWL__NEVER;
    assert_int_equal(pawl__engine_file.poll(s->b.self, fds, &due_us), 1);
    assert_true(due_us == PAWL__NEVER);
}

/* A leader is interrupted when its waiter is finished by somebody else. */
struct finish_later {
    struct pawl__waiter *waiter;
};

static void *finish_later(void *arg)
{
    struct finish_later *later = arg;
    nap_ms(30);
    pawl__waiter_finish(later->waiter);
    return NULL;
}

static void drive_ends_when_the_wait_does(void **state)
{
    struct scene *s = *state;
    struct pawl__waiter waiter;
    struct finish_later later = {&waiter};
    pthread_t thread;
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_WATCH, 0), PAWL__DONE);
    for (int what = 0; what < 2; what++) {
        pawl__waiter_init(&waiter);
        assert_int_equal(pthread_create(&thread, NULL, finish_later, &later), 0);
        int64_t end_us = pawl__now_us() + BOUND_MS * 1000;
        while (!pawl__waiter_done(&waiter) && pawl__now_us() < end_us) {
            enum pawl__await await = what == 0 ? PAWL__AWAIT_WAKE : PAWL__AWAIT_ANSWER;
            pawl__engine_file.drive(s->a.self, await, &waiter, end_us);
        }
        assert_true(pawl__waiter_done(&waiter));
        assert_true(pawl__now_us() < end_us);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    pawl__waiter_init(&waiter);
    int64_t before_us = pawl__now_us();
    pawl__engine_file.drive(s->a.self, PAWL__AWAIT_WAKE, &waiter, before_us + 20000);
    assert_true(pawl__now_us() >= before_us + 20000);
}

/* Several threads of one client wait for different locks: one leads, all are served, and the seat
 * goes on. */
struct thread_wait {
    struct side *side;
    struct pawl__place *place;
    uint64_t id;
    uint64_t token;
};

static void *wait_in_thread(void *arg)
{
    struct thread_wait *wait = arg;
    wait->token = acquire_waiting(wait->side, wait->place, wait->id, BOUND_MS);
    return NULL;
}

enum { THREADS = 6, ROUNDS = 30 };

static void serve_threads(struct scene *s, int64_t pause_ms)
{
    struct pawl__place *at_a[THREADS];
    struct thread_wait waits[THREADS];
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        at_a[i] = place_open(&s->a, name);
        assert_int_equal(ask(&s->a, at_a[i], PAWL__OP_ACQUIRE, i + 1), PAWL__DONE);
        waits[i] = (struct thread_wait){.side = &s->b, .id = i + 1};
        waits[i].place = place_open(&s->b, name);
        assert_int_equal(pthread_create(&threads[i], NULL, wait_in_thread, &waits[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        nap_ms(pause_ms);
        assert_int_equal(ask(&s->a, at_a[i], PAWL__OP_RELEASE, i + 1), PAWL__DONE);
    }
    unsigned granted = 0;
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        granted += waits[i].token > 0 ? 1 : 0;
        place_close(&s->a, at_a[i]);
        place_close(&s->b, waits[i].place);
    }
    assert_int_equal(granted, THREADS);
}

static void threads_share_one_leader(void **state)
{
    for (int round = 0; round < ROUNDS; round++) {
        serve_threads(*state, round % 3);
    }
}

/* A leader leaves and asks nothing more: who follows has to be told. */
struct bare_drive {
    struct side *side;
    struct pawl__waiter waiter;
};

static void *drive_in_thread(void *arg)
{
    struct bare_drive *drive = arg;
    int64_t end_us = pawl__now_us() + BOUND_MS * 1000;
    pawl__engine_file.drive(drive->side->self, PAWL__AWAIT_WAKE, &drive->waiter, end_us);
    return NULL;
}

static void a_leader_that_leaves_is_followed(void **state)
{
    struct scene *s = *state;
    struct bare_drive leader = {.side = &s->b};
    struct thread_wait follower = {.side = &s->b, .place = s->at_b, .id = 7};
    pthread_t threads[2];
    pawl__waiter_init(&leader.waiter);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    assert_int_equal(pthread_create(&threads[0], NULL, drive_in_thread, &leader), 0);
    nap_ms(20); /* it leads */
    assert_int_equal(pthread_create(&threads[1], NULL, wait_in_thread, &follower), 0);
    nap_ms(20); /* it follows */
    pawl__waiter_finish(&leader.waiter);
    assert_int_equal(pthread_join(threads[0], NULL), 0);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_RELEASE, 1), PAWL__DONE);
    assert_int_equal(pthread_join(threads[1], NULL), 0);
    assert_true(follower.token > 0);
}

/* ===== Losing ===== */

static void a_deleted_file_is_lost(void **state)
{
    struct scene *s = *state;
    struct pawl__op first = operate(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_WATCH, 0), PAWL__DONE);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_ACQUIRE, 7), PAWL__HELD);
    assert_true(read_counter(&s->a, &s->a.attends) > 0);
    unlink_lock(s->directory, "lock");
    WAIT_UNTIL(pump(&s->a) && read_counter(&s->a, &s->a.losses) > 0, BOUND_MS);
    assert_int_equal(s->a.lost_id, 1);
    assert_string_equal(s->a.told, "lock");
    WAIT_UNTIL(pump(&s->b) && read_counter(&s->b, &s->b.wakes) > 0, BOUND_MS);

    /* The next ones exclude each other, and the token is above the old ones. */
    struct pawl__op second = operate(&s->b, s->at_b, PAWL__OP_ACQUIRE, 7);
    assert_int_equal(second.answer, PAWL__DONE);
    assert_true(second.token > first.token);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_RELEASE, 1), PAWL__GONE);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 2), PAWL__HELD);
    pump(&s->a);
    assert_int_equal(read_counter(&s->a, &s->a.losses), 1);
}

/* Nobody has pumped yet: each operation finds out by itself. */
static void operations_notice_a_lost_file(void **state)
{
    struct scene *s = *state;
    static const enum pawl__op_kind kinds[] = {
        PAWL__OP_RENEW, PAWL__OP_VERIFY, PAWL__OP_COUNT, PAWL__OP_RELEASE, PAWL__OP_PASS};
    char *path = lock_path(s->directory, "lock");
    char *aside = lock_path(s->directory, "aside");
    for (uint64_t i = 0; i < 3 * sizeof kinds / sizeof kinds[0]; i++) {
        assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 100 + i), PAWL__DONE);
        if (i % 3 == 0) {
            assert_int_equal(unlink(path), 0);
        } else if (i % 3 == 1) {
            assert_int_equal(rename(path, aside), 0);
        } else {
            assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_BREAK, 0), PAWL__DONE);
        }
        assert_int_equal(ask(&s->a, s->at_a, kinds[i / 3], 100 + i), PAWL__GONE);
        assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_ACQUIRE, 7), PAWL__DONE);
        assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 200 + i), PAWL__HELD);
        assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_RELEASE, 7), PAWL__DONE);
    }
    free(path);
    free(aside);
}

static void break_takes_the_lock_away(void **state)
{
    struct scene *s = *state;
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_BREAK, 0), PAWL__GONE);
    struct pawl__op first = operate(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_WATCH, 0), PAWL__DONE);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_BREAK, 0), PAWL__DONE);
    assert_int_equal(inspect(&s->b, s->at_b).held, false);
    assert_true(inspect(&s->b, s->at_b).token > first.token);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_BREAK, 0), PAWL__GONE);
    WAIT_UNTIL(pump(&s->a) && read_counter(&s->a, &s->a.losses) == 1, BOUND_MS);
    WAIT_UNTIL(pump(&s->b) && read_counter(&s->b, &s->b.wakes) > 0, BOUND_MS);

    struct pawl__op second = operate(&s->b, s->at_b, PAWL__OP_ACQUIRE, 7);
    assert_int_equal(second.answer, PAWL__DONE);
    assert_true(second.token > first.token + 1); /* the old holder may have counted on by one */

    /* Its own hold as well. */
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_BREAK, 0), PAWL__DONE);
    assert_int_equal(read_counter(&s->b, &s->b.losses), 1);
    assert_int_equal(s->b.lost_id, 7);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_RELEASE, 7), PAWL__GONE);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 2), PAWL__DONE);

    /* The breaker goes on watching, in the new file. */
    assert_true(operate(&s->a, s->at_a, PAWL__OP_RELEASE, 2).others);
}

static void the_directory_may_vanish(void **state)
{
    struct scene *s = *state;
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    unlink_lock(s->directory, "lock");
    assert_int_equal(rmdir(s->directory), 0);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_RELEASE, 1), PAWL__GONE);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 2), PAWL__DONE);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_ACQUIRE, 7), PAWL__HELD);
}

/* ===== The file ===== */

static void write_file(const char *directory, const char *name, const char *text, size_t size)
{
    char *path = lock_path(directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), size);
    close(fd);
    free(path);
}

static size_t read_content(const char *directory, const char *name, struct pawl__content *content)
{
    char *path = lock_path(directory, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    memset(content, 0, sizeof *content);
    ssize_t size = read(fd, content, sizeof *content);
    close(fd);
    free(path);
    assert_true(size >= (ssize_t)sizeof content->record);
    return (size_t)size;
}

/* Whatever a crash or a user left in the file: a token below 10^15 is no token, and the next one is
 * above those before. */
static void damaged_files_are_repaired(void **state)
{
    struct scene *s = *state;
    uint64_t last = 0;
    struct pawl__content content;
    for (int damage = 0; damage < 7; damage++) {
        struct pawl__place *place = place_open(&s->a, "damaged"); /* opens the file anew */
        struct pawl__op granted = operate(&s->a, place, PAWL__OP_ACQUIRE, 1);
        assert_int_equal(granted.answer, PAWL__DONE);
        assert_true(granted.token >= TOKEN_MIN);
        assert_true(granted.token > last);
        last = granted.token;
        size_t size = read_content(s->directory, "damaged", &content);
        assert_memory_equal(content.name, "damaged\n", 8);
        place_close(&s->a, place);
        struct pawl__record *record = &content.record;
        if (damage == 0) {
            size = 0;
        } else if (damage == 1) {
            size = 10;
        } else if (damage == 2) {
            size = sizeof *record + 2;
        } else if (damage == 3) {
            memset(&content, 0, size);
        } else if (damage == 4) {
            memset(record->token, ' ', sizeof record->token);
            record->token[0] = '7';
        } else if (damage == 5) {
            memset(record->token, '9', sizeof record->token);
        } else {
            memset(record->boot, 'x', sizeof record->boot);
        }
        const char *text = (const char *)(const void *)&content;
        write_file(s->directory, "damaged", text, size);
    }
}

/* After a power failure the file may be older than the tokens that were given out. */
static void a_new_boot_goes_to_the_clock(void **state)
{
    (void)state;
    struct pawl__record mine;
    struct pawl__record last;
    pawl__record_init(&mine, "00000000-0000-4000-8000-000000000000");
    last = mine;
    pawl__record_set_token(&last, TOKEN_MIN + 5);
    assert_int_equal(pawl__record_next_token(&last, &mine), TOKEN_MIN + 6);
    memset(last.boot, 'x', sizeof last.boot);
    assert_true(pawl__record_next_token(&last, &mine) > TOKEN_MIN + 1000000);
    uint64_t ahead = UINT64_C(900000000000000000); /* the clock was set back */
    pawl__record_set_token(&last, ahead);
    assert_int_equal(pawl__record_next_token(&last, &mine), ahead + 1);
}

static void long_names_work(void **state)
{
    struct scene *s = *state;
    char name[PAWL__NAME_SIZE_MAX];
    for (int i = 0; i < 3; i++) {
        memset(name, i == 0 ? 'n' : i == 1 ? '/' : '\xff', sizeof name);
        name[sizeof name - 1] = '!';
        struct pawl__place *at_a = place_open_sized(&s->a, name, sizeof name);
        struct pawl__place *at_b = place_open_sized(&s->b, name, sizeof name);
        name[sizeof name - 1] = '?';
        struct pawl__place *other = place_open_sized(&s->b, name, sizeof name);
        assert_int_equal(ask(&s->a, at_a, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
        assert_int_equal(ask(&s->b, at_b, PAWL__OP_ACQUIRE, 7), PAWL__HELD);
        assert_int_equal(ask(&s->b, other, PAWL__OP_ACQUIRE, 8), PAWL__DONE);
        place_close(&s->a, at_a);
        assert_int_equal(ask(&s->b, at_b, PAWL__OP_ACQUIRE, 7), PAWL__DONE);
        place_close(&s->b, at_b);
        place_close(&s->b, other);
    }
}

#define SCENE(test) cmocka_unit_test_setup_teardown(test, set_scene, clear_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE(two_sides_exclude_each_other),
        SCENE(a_repeated_acquire_is_the_same),
        SCENE(only_the_tenure_that_holds_is_obeyed),
        SCENE(inspect_tells_who_holds),
        SCENE(pass_goes_on_inside_or_is_offered),
        SCENE(a_list_is_carried_out_in_order),
        SCENE(a_release_wakes_who_watches),
        SCENE(a_close_is_followed_by_more_wakes),
        SCENE(drive_ends_when_the_wait_does),
        SCENE(threads_share_one_leader),
        SCENE(a_leader_that_leaves_is_followed),
        SCENE(a_deleted_file_is_lost),
        SCENE(operations_notice_a_lost_file),
        SCENE(break_takes_the_lock_away),
        SCENE(the_directory_may_vanish),
        SCENE(damaged_files_are_repaired),
        SCENE(a_new_boot_goes_to_the_clock),
        SCENE(long_names_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
