/* SPDX-License-Identifier: Apache-2.0 */
/* The order of system calls in the file engine, at the moments that matter.
 *
 * The races between two processes that the engine has to survive are a microsecond wide, so no
 * amount of running finds a wrong order. Here the system calls concerned are overridden: they do
 * what they always do, and at a chosen moment (just before one side unlocks, just after it has
 * looked at the path, ...) another side gets to do something, as if it had come exactly then. */
#include "file_side.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* ===== Overridden system calls ===== */

enum moment {
    BEFORE_LOCK,   /* of the byte of who holds */
    BEFORE_WAIT,   /* before locking the byte of those who wait */
    BEFORE_UNLOCK, /* of the byte of who holds */
    AFTER_UNLOCK,
    BEFORE_WRITE, /* of a record */
    AFTER_WRITE,
    AFTER_LOOK, /* at the path of a file */
    BEFORE_RENAME,
    AFTER_RENAME
};

struct scene;

static enum moment awaited;
static void (*intruder)(struct scene *scene); /* comes once, at that moment */
static struct scene *stage;
static unsigned questions; /* reads of a record, and questions whether a byte is locked */

static void reach(enum moment moment)
{
    void (*come)(struct scene * scene) = intruder;
    if (come != NULL && awaited == moment) {
        intruder = NULL; /* what it does itself is not interrupted */
        come(stage);
    }
}

/* Files of the library may be compiled with either of the two names; the header hides which. */
int fcntl_plain(int fd, int command, void *arg) __asm__("fcntl");
int fcntl_large(int fd, int command, void *arg) __asm__("fcntl64");

int fcntl_plain(int fd, int command, void *arg)
{
    const struct flock *lock = arg;
    bool sets = command == F_OFD_SETLK;
    bool unlocks = sets && lock->l_type == F_UNLCK && lock->l_start == 0;
    questions += command == F_OFD_GETLK;
    if (unlocks) {
        reach(BEFORE_UNLOCK);
    } else if (sets && lock->l_type == F_WRLCK && lock->l_start == 0) {
        reach(BEFORE_LOCK);
    } else if (sets && lock->l_type == F_RDLCK) {
        reach(BEFORE_WAIT);
    }
    int result = (int)syscall(SYS_fcntl, fd, command, arg);
    if (unlocks) {
        reach(AFTER_UNLOCK);
    }
    return result;
}

int fcntl_large(int fd, int command, void *arg)
{
    return fcntl_plain(fd, command, arg);
}

ssize_t pread_plain(int fd, void *data, size_t size, off_t at) __asm__("pread");
ssize_t pread_large(int fd, void *data, size_t size, off_t at) __asm__("pread64");
ssize_t pwrite_plain(int fd, const void *data, size_t size, off_t at) __asm__("pwrite");
ssize_t pwrite_large(int fd, const void *data, size_t size, off_t at) __asm__("pwrite64");

ssize_t pread_plain(int fd, void *data, size_t size, off_t at)
{
    questions++;
    return syscall(SYS_pread64, fd, data, size, at);
}

ssize_t pread_large(int fd, void *data, size_t size, off_t at)
{
    return pread_plain(fd, data, size, at);
}

ssize_t pwrite_plain(int fd, const void *data, size_t size, off_t at)
{
    reach(BEFORE_WRITE);
    ssize_t written = syscall(SYS_pwrite64, fd, data, size, at);
    reach(AFTER_WRITE);
    return written;
}

ssize_t pwrite_large(int fd, const void *data, size_t size, off_t at)
{
    return pwrite_plain(fd, data, size, at);
}

int statx(int fd, const char *path, int flags, unsigned mask, struct statx *found)
{
    int result = (int)syscall(SYS_statx, fd, path, flags, mask, found);
    if (flags == AT_SYMLINK_NOFOLLOW) {
        reach(AFTER_LOOK);
    }
    return result;
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    reach(BEFORE_RENAME);
    int result = (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0);
    reach(AFTER_RENAME);
    return result;
}

/* ===== The scene ===== */

struct scene {
    const char *directory;
    struct side a; /* the one that is interrupted */
    struct side b; /* the intruder */
    struct pawl__place *at_a;
    struct pawl__place *at_b;
    struct pawl__op seen; /* how the intruder's last operation ended */
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
    stage = scene;
    *state = scene;
    return 0;
}

static int clear_scene(void **state)
{
    struct scene *scene = *state;
    intruder = NULL;
    place_close(&scene->a, scene->at_a);
    place_close(&scene->b, scene->at_b);
    side_close(&scene->a);
    side_close(&scene->b);
    free(scene);
    return cleanup_teardown(state);
}

static void expect(enum moment moment, void (*come)(struct scene *scene))
{
    awaited = moment;
    intruder = come;
}

static void assert_intruder_came(void)
{
    assert_true(intruder == NULL);
}

static void acquire_at_b(struct scene *s)
{
    s->seen = operate(&s->b, s->at_b, PAWL__OP_ACQUIRE, 7);
}

static void wait_at_b(struct scene *s)
{
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_WATCH, 0), PAWL__DONE);
    acquire_at_b(s);
}

static void delete_file(struct scene *s)
{
    unlink_lock(s->directory, "lock");
}

static void delete_and_acquire(struct scene *s)
{
    delete_file(s);
    acquire_at_b(s);
}

static void break_at_b(struct scene *s)
{
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_BREAK, 0), PAWL__DONE);
}

static void break_and_acquire(struct scene *s)
{
    break_at_b(s);
    acquire_at_b(s);
}

/* ===== Waiting ===== */

static void who_waits_before_the_unlock_is_woken(void **state)
{
    struct scene *s = *state;
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    expect(BEFORE_UNLOCK, wait_at_b);
    struct pawl__op released = operate(&s->a, s->at_a, PAWL__OP_RELEASE, 1);
    assert_intruder_came();
    assert_int_equal(s->seen.answer, PAWL__HELD);
    assert_true(released.others);
    WAIT_UNTIL(pump(&s->b) && read_counter(&s->b, &s->b.wakes) > 0, BOUND_MS);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_ACQUIRE, 7), PAWL__DONE);
}

static void who_comes_after_the_unlock_need_not_wait(void **state)
{
    struct scene *s = *state;
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    expect(AFTER_UNLOCK, wait_at_b);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_RELEASE, 1), PAWL__DONE);
    assert_intruder_came();
    assert_int_equal(s->seen.answer, PAWL__DONE);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_VERIFY, 7), PAWL__DONE);
}

/* The file is replaced after it was opened and before we are registered in it. */
static void who_registers_in_an_old_file_is_woken(void **state)
{
    struct scene *s = *state;
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_ACQUIRE, 3), PAWL__DONE);
    expect(BEFORE_WAIT, break_and_acquire);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_WATCH, 0), PAWL__DONE);
    assert_intruder_came();
    assert_int_equal(s->seen.answer, PAWL__DONE);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1), PAWL__HELD);
    pump(&s->a);
    unsigned before = read_counter(&s->a, &s->a.wakes);
    assert_true(operate(&s->b, s->at_b, PAWL__OP_RELEASE, 7).others);
    WAIT_UNTIL(pump(&s->a) && read_counter(&s->a, &s->a.wakes) > before, BOUND_MS);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
}

/* ===== Acquiring ===== */

static void a_file_that_vanishes_before_it_is_locked_is_left(void **state)
{
    struct scene *s = *state;
    expect(BEFORE_LOCK, delete_and_acquire);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1), PAWL__HELD);
    assert_intruder_came();
    assert_int_equal(s->seen.answer, PAWL__DONE);

    /* The same with a file that has been open for long. */
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_RELEASE, 7), PAWL__DONE);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 2), PAWL__DONE);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_RELEASE, 2), PAWL__DONE);
    expect(BEFORE_LOCK, delete_and_acquire);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 3), PAWL__HELD);
    assert_intruder_came();
    assert_int_equal(s->seen.answer, PAWL__DONE);
}

/* Granted an instant before the file goes: the tenure learns it, and its token is the smaller one
 * although it is written later. */
static void a_late_grant_has_the_smaller_token(void **state)
{
    struct scene *s = *state;
    expect(AFTER_LOOK, delete_and_acquire);
    struct pawl__op late = operate(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1);
    assert_intruder_came();
    assert_int_equal(s->seen.answer, PAWL__DONE);
    assert_int_equal(late.answer, PAWL__DONE);
    assert_true(late.token < s->seen.token);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_RELEASE, 1), PAWL__GONE);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_VERIFY, 7), PAWL__DONE);
}

static void a_late_grant_in_a_broken_file_has_the_smaller_token(void **state)
{
    struct scene *s = *state;
    expect(AFTER_LOOK, break_and_acquire);
    struct pawl__op late = operate(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1);
    assert_intruder_came();
    assert_int_equal(late.answer, PAWL__DONE);
    assert_int_equal(s->seen.answer, PAWL__DONE);
    assert_true(late.token < s->seen.token);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_RELEASE, 1), PAWL__GONE);
}

/* What happens to the file after the lock was released, and taken by another, is no loss. */
static void acquire_and_delete(struct scene *s)
{
    acquire_at_b(s);
    delete_file(s);
}

static void a_file_that_vanishes_after_the_release_is_not_lost(void **state)
{
    struct scene *s = *state;
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    expect(AFTER_UNLOCK, acquire_and_delete);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_RELEASE, 1), PAWL__DONE);
    assert_intruder_came();
    assert_int_equal(s->seen.answer, PAWL__DONE);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_RELEASE, 1), PAWL__GONE);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_RELEASE, 7), PAWL__GONE);
}

static void a_file_that_vanishes_before_the_release_is_lost(void **state)
{
    struct scene *s = *state;
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    expect(BEFORE_UNLOCK, delete_and_acquire);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_RELEASE, 1), PAWL__GONE);
    assert_intruder_came();
    assert_int_equal(s->seen.answer, PAWL__DONE);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_RELEASE, 7), PAWL__DONE);
}

/* ===== Alone ===== */

/* Acquire and release at A; the acquire. */
static struct pawl__op pair_at_a(struct scene *s, bool *others_out)
{
    static uint64_t id = 1000;
    struct pawl__op acquired = operate(&s->a, s->at_a, PAWL__OP_ACQUIRE, ++id);
    assert_int_equal(acquired.answer, PAWL__DONE);
    struct pawl__op released = operate(&s->a, s->at_a, PAWL__OP_RELEASE, id);
    assert_int_equal(released.answer, PAWL__DONE);
    *others_out = released.others;
    return acquired;
}

/* Let A believe to be alone. The last token. */
static uint64_t settle_at_a(struct scene *s)
{
    struct pawl__op last = {.token = 0};
    bool others = false;
    for (unsigned i = 0; i < 10; i++) {
        questions = 0;
        last = pair_at_a(s, &others);
        assert_false(others);
    }
    assert_int_equal(questions, 0);
    return last.token;
}

static void who_is_alone_asks_nothing(void **state)
{
    struct scene *s = *state;
    uint64_t token = settle_at_a(s);
    bool others = true;
    questions = 0;
    assert_int_equal(pair_at_a(s, &others).token, token + 1);
    assert_false(others);
    assert_int_equal(questions, 0);
    assert_int_equal(inspect(&s->b, s->at_b).token, token + 1); /* it is written all the same */
}

static void pair_at_b(struct scene *s)
{
    acquire_at_b(s);
    if (s->seen.answer == PAWL__DONE) {
        assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_RELEASE, 7), PAWL__DONE);
    }
}

/* Another holder in between, at whatever moment it can come. */
static void tokens_grow_when_another_comes(void **state)
{
    static const enum moment moments[] = {BEFORE_LOCK, AFTER_UNLOCK};
    struct scene *s = *state;
    bool others = false;
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        uint64_t token = settle_at_a(s);
        expect(moments[i], pair_at_b);
        uint64_t meanwhile = pair_at_a(s, &others).token;
        assert_intruder_came();
        assert_int_equal(s->seen.answer, PAWL__DONE);
        uint64_t next = pair_at_a(s, &others).token;
        assert_int_equal(next, token + 3);
        assert_int_equal(meanwhile + s->seen.token, 2 * token + 3);
        assert_int_equal(meanwhile, moments[i] == BEFORE_LOCK ? token + 2 : token + 1);
    }
}

/* The same after any number of pairs: before, when and after A begins to believe it. */
static void tokens_grow_whenever_another_comes(void **state)
{
    struct scene *s = *state;
    bool others = false;
    uint64_t last = 0;
    for (int pairs = 1; pairs < 10; pairs++) {
        for (int i = 0; i <= pairs; i++) {
            if (i == pairs - 1) {
                expect(AFTER_UNLOCK, pair_at_b);
            }
            uint64_t token = pair_at_a(s, &others).token;
            assert_true(token > last);
            last = i == pairs - 1 ? s->seen.token : token;
            assert_true(last >= token);
        }
        assert_intruder_came();
    }
}

/* B comes to wait at this moment of A's next pair. */
static void wait_during_pair(struct scene *s, enum moment moment)
{
    bool others = false;
    unsigned before = read_counter(&s->b, &s->b.wakes);
    expect(moment, wait_at_b);
    pair_at_a(s, &others);
    assert_intruder_came();
    assert_int_equal(s->seen.answer, PAWL__HELD);
    assert_true(others);
    WAIT_UNTIL(pump(&s->b) && read_counter(&s->b, &s->b.wakes) > before, BOUND_MS);
    pair_at_a(s, &others);
    assert_true(others); /* as long as it waits */
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_UNWATCH, 0), PAWL__DONE);
}

static void who_comes_to_wait_is_heard(void **state)
{
    static const enum moment moments[] = {BEFORE_WRITE, AFTER_WRITE, BEFORE_UNLOCK};
    struct scene *s = *state;
    bool others = false;
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        for (int pairs = 1; pairs < 10; pairs++) {
            pair_at_b(s);
            for (int k = 0; k < pairs; k++) {
                pair_at_a(s, &others);
            }
            wait_during_pair(s, moments[i]);
        }
        settle_at_a(s);
        wait_during_pair(s, moments[i]);
    }
}

/* Who waits all the time, from before A was alone, is told all the time. */
static void who_waits_for_long_is_not_forgotten(void **state)
{
    struct scene *s = *state;
    bool others = false;
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_WATCH, 0), PAWL__DONE);
    for (int i = 0; i < 20; i++) {
        pair_at_a(s, &others);
        assert_true(others);
    }
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_UNWATCH, 0), PAWL__DONE);
    settle_at_a(s);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_WATCH, 0), PAWL__DONE);
    pair_at_a(s, &others);
    assert_true(others);
}

/* It cannot open the file once more, and touches it instead. */
static void who_has_no_descriptor_is_heard(void **state)
{
    struct scene *s = *state;
    bool others = false;
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_ACQUIRE, 3), PAWL__DONE);
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_RELEASE, 3), PAWL__DONE);
    uint64_t token = settle_at_a(s);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    pair_at_b(s);
    uint64_t next = pair_at_a(s, &others).token;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(s->seen.token, token + 1);
    assert_int_equal(next, token + 2);
}

static void who_is_alone_learns_of_a_loss(void **state)
{
    struct scene *s = *state;
    uint64_t token = settle_at_a(s);
    delete_file(s);
    bool others = false;
    uint64_t next = pair_at_a(s, &others).token;
    assert_true(next > token);
    token = settle_at_a(s);
    expect(BEFORE_LOCK, delete_and_acquire);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1), PAWL__HELD);
    assert_intruder_came();
    assert_true(s->seen.token > token);
}

/* ===== Breaking ===== */

static void pass_on_at_b(struct scene *s)
{
    for (uint64_t id = 3; id < 100; id++) {
        s->seen = pass(&s->b, s->at_b, id, id + 1, false);
        assert_int_equal(s->seen.answer, PAWL__DONE);
    }
}

/* The holder counts on while it is being broken. */
static void a_break_outruns_the_holders_tokens(void **state)
{
    struct scene *s = *state;
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_ACQUIRE, 3), PAWL__DONE);
    expect(BEFORE_RENAME, pass_on_at_b);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_BREAK, 0), PAWL__DONE);
    assert_intruder_came();
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_RELEASE, 100), PAWL__GONE);
    struct pawl__op next = operate(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1);
    assert_int_equal(next.answer, PAWL__DONE);
    assert_true(next.token > s->seen.token);
}

/* Nobody gets the new file, or breaks it, before the token in it is final. */
static void acquire_and_break_at_b(struct scene *s)
{
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_BREAK, 0), PAWL__FAILED);
    acquire_at_b(s);
}

static void a_new_file_is_finished_before_it_is_granted(void **state)
{
    struct scene *s = *state;
    struct side c;
    side_open(&c, s->directory);
    struct pawl__place *at_c = place_open(&c, "lock");
    struct pawl__op broken = operate(&c, at_c, PAWL__OP_ACQUIRE, 5);
    expect(AFTER_RENAME, acquire_and_break_at_b);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_BREAK, 0), PAWL__DONE);
    assert_intruder_came();
    assert_int_equal(s->seen.answer, PAWL__HELD);
    acquire_at_b(s);
    assert_int_equal(s->seen.answer, PAWL__DONE);
    assert_true(s->seen.token > broken.token);
    place_close(&c, at_c);
    side_close(&c);
}

static void a_break_survives_a_delete(void **state)
{
    struct scene *s = *state;
    struct side c;
    side_open(&c, s->directory);
    struct pawl__place *at_c = place_open(&c, "lock");
    assert_int_equal(ask(&c, at_c, PAWL__OP_ACQUIRE, 5), PAWL__DONE);
    expect(BEFORE_RENAME, delete_and_acquire);
    assert_int_equal(ask(&s->a, s->at_a, PAWL__OP_BREAK, 0), PAWL__DONE);
    assert_intruder_came();
    assert_int_equal(
        s->seen.answer, PAWL__DONE); /* a file of its own, which then is replaced too */
    assert_int_equal(ask(&s->b, s->at_b, PAWL__OP_VERIFY, 7), PAWL__GONE);
    struct pawl__op next = operate(&s->a, s->at_a, PAWL__OP_ACQUIRE, 1);
    assert_int_equal(next.answer, PAWL__DONE);
    assert_true(next.token > s->seen.token);
    place_close(&c, at_c);
    side_close(&c);
}

#define SCENE(test) cmocka_unit_test_setup_teardown(test, set_scene, clear_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE(who_waits_before_the_unlock_is_woken),
        SCENE(who_comes_after_the_unlock_need_not_wait),
        SCENE(who_registers_in_an_old_file_is_woken),
        SCENE(a_file_that_vanishes_before_it_is_locked_is_left),
        SCENE(a_late_grant_has_the_smaller_token),
        SCENE(a_late_grant_in_a_broken_file_has_the_smaller_token),
        SCENE(a_file_that_vanishes_after_the_release_is_not_lost),
        SCENE(a_file_that_vanishes_before_the_release_is_lost),
        SCENE(who_is_alone_asks_nothing),
        SCENE(tokens_grow_when_another_comes),
        SCENE(tokens_grow_whenever_another_comes),
        SCENE(who_comes_to_wait_is_heard),
        SCENE(who_waits_for_long_is_not_forgotten),
        SCENE(who_has_no_descriptor_is_heard),
        SCENE(who_is_alone_learns_of_a_loss),
        SCENE(a_break_outruns_the_holders_tokens),
        SCENE(a_new_file_is_finished_before_it_is_granted),
        SCENE(a_break_survives_a_delete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
