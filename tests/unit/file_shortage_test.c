/* SPDX-License-Identifier: Apache-2.0 */
/* What the file engine does when something runs short: disks are full or read-only; descriptors,
 * inotify and memory run out. Each gets its status and a sentence with the remedy, nothing stays
 * locked, and it works again as soon as the shortage is over. File systems are mounted in a child,
 * and only as root. */
#include "file_side.h"

#include <fcntl.h>
#include <sys/resource.h>

struct shortage {
    const char *directory;
    struct side side;
    struct pawl__place *place;
};

static int shortage_setup(void **state)
{
    struct shortage *r = support_alloc(sizeof *r);
    if (cleanup_setup(state) != 0) {
        return -1;
    }
    r->directory = tempdir_make();
    side_open(&r->side, r->directory);
    r->place = place_open(&r->side, "lock");
    *state = r;
    return 0;
}

static int shortage_teardown(void **state)
{
    struct shortage *r = *state;
    place_close(&r->side, r->place);
    side_close(&r->side);
    free(r);
    return cleanup_teardown(state);
}

/* ===== Disks ===== */

static void fill_disk(const char *directory, char *path, size_t path_size)
{
    char block[4096];
    memset(block, 'x', sizeof block);
    snprintf(path, path_size, "%s/filler", directory);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (write(fd, block, sizeof block) > 0) {
    }
    close(fd);
}

static int use_full_disk(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    const char *directory = arg;
    if (!mount_privately(directory, "size=16k,mode=0700")) {
        return 77;
    }
    char filler[512];
    struct side a;
    struct side b;
    side_open(&a, directory);
    side_open(&b, directory);
    struct pawl__place *at_a = place_open(&a, "lock");
    struct pawl__place *at_b = place_open(&b, "lock");
    struct pawl__place *known = place_open(&a, "known");
    assert_int_equal(ask(&a, known, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    fill_disk(directory, filler, sizeof filler);
    assert_failed(&a, at_a, PAWL__OP_ACQUIRE, PAWL_UNAVAILABLE, "make room");
    assert_failed(&a, at_a, PAWL__OP_ACQUIRE, PAWL_UNAVAILABLE, directory);
    assert_false(inspect(&b, at_b).held); /* nothing stays locked */
    assert_int_equal(ask(&b, at_b, PAWL__OP_BREAK, 0), PAWL__GONE);

    /* A break that fails changes nothing; a lock whose file is there already needs no room. */
    assert_failed(&a, known, PAWL__OP_BREAK, PAWL_UNAVAILABLE, "make room");
    assert_int_equal(ask(&a, known, PAWL__OP_VERIFY, 1), PAWL__DONE);
    assert_int_equal(ask(&a, known, PAWL__OP_RELEASE, 1), PAWL__DONE);
    assert_int_equal(ask(&a, known, PAWL__OP_ACQUIRE, 2), PAWL__DONE);

    assert_int_equal(unlink(filler), 0);
    assert_int_equal(ask(&b, at_b, PAWL__OP_ACQUIRE, 7), PAWL__DONE);
    assert_int_equal(ask(&a, known, PAWL__OP_BREAK, 0), PAWL__DONE);
    return 0;
}

static int use_read_only_disk(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    const char *directory = arg;
    if (!mount_privately(directory, "size=64k,mode=0700")) {
        return 77;
    }
    struct side side;
    side_open(&side, directory);
    if (mount("none", directory, NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0) {
        return 77;
    }
    struct pawl__place *place = place_open(&side, "lock");
    assert_failed(&side, place, PAWL__OP_ACQUIRE, PAWL_REFUSED, "Read-only");
    assert_failed(&side, place, PAWL__OP_WATCH, PAWL_REFUSED, directory);
    assert_false(inspect(&side, place).held);
    struct side late;
    assert_int_equal(side_try_open(&late, directory), PAWL_REFUSED);
    assert_non_null(strstr(pawl__error_text(), "Read-only"));
    return 0;
}

static void a_full_disk_is_unavailable(void **state)
{
    (void)state;
    run_with_own_mount(use_full_disk);
}

static void a_read_only_disk_is_refused(void **state)
{
    (void)state;
    run_with_own_mount(use_read_only_disk);
}

/* ===== Descriptors, inotify, memory ===== */

/* Leave room for so many more descriptors. */
static struct rlimit leave_descriptors(int count)
{
    struct rlimit before;
    int last = -1;
    int taken[16];
    for (int i = 0; i < count; i++) {
        taken[i] = dup(0);
        last = taken[i];
    }
    for (int i = 0; i < count; i++) {
        close(taken[i]);
    }
    if (count == 0) {
        last = dup(0);
        close(last);
        last--;
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit lower = {.rlim_cur = (rlim_t)last + 1, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &lower), 0);
    return before;
}

static void descriptors_may_run_out(void **state)
{
    struct shortage *r = *state;
    struct rlimit before = leave_descriptors(0);
    assert_failed(&r->side, r->place, PAWL__OP_ACQUIRE, PAWL_UNAVAILABLE, "ulimit -n");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(ask(&r->side, r->place, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    assert_int_equal(ask(&r->side, r->place, PAWL__OP_RELEASE, 1), PAWL__DONE);

    /* What is kept open only for speed is given back first. */
    struct pawl__place *other = place_open(&r->side, "other");
    before = leave_descriptors(0);
    assert_int_equal(ask(&r->side, other, PAWL__OP_ACQUIRE, 2), PAWL__DONE);
    assert_failed(&r->side, r->place, PAWL__OP_ACQUIRE, PAWL_UNAVAILABLE, "ulimit -n");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    place_close(&r->side, other);
}

static void idle_files_are_closed(void **state)
{
    struct shortage *r = *state;
    enum { NAMES = 200, KEPT = 64 };
    struct pawl__place *places[NAMES];
    assert_int_equal(ask(&r->side, r->place, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    size_t before = open_descriptor_count();
    for (int i = 0; i < NAMES; i++) {
        char name[24];
        snprintf(name, sizeof name, "name-%d", i);
        places[i] = place_open(&r->side, name);
        assert_int_equal(ask(&r->side, places[i], PAWL__OP_ACQUIRE, 1), PAWL__DONE);
        assert_int_equal(ask(&r->side, places[i], PAWL__OP_RELEASE, 1), PAWL__DONE);
    }
    assert_int_equal(open_descriptor_count(), before + KEPT);
    for (int i = 0; i < NAMES; i++) {
        struct pawl__op op = operate(&r->side, places[i], PAWL__OP_ACQUIRE, 2);
        assert_int_equal(op.answer, PAWL__DONE);
        place_close(&r->side, places[i]);
    }
    assert_int_equal(open_descriptor_count(), before);
    assert_int_equal(ask(&r->side, r->place, PAWL__OP_VERIFY, 1), PAWL__DONE);
}

/* There is a descriptor for the lock file, but none for inotify: timers have to do. */
static void inotify_may_run_out(void **state)
{
    struct shortage *r = *state;
    struct side blind;
    side_open(&blind, r->directory);
    struct pawl__place *place = place_open(&blind, "lock");
    assert_int_equal(ask(&r->side, r->place, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    struct rlimit before = leave_descriptors(1);
    assert_int_equal(ask(&blind, place, PAWL__OP_WATCH, 0), PAWL__DONE);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(ask(&blind, place, PAWL__OP_ACQUIRE, 7), PAWL__HELD);
    WAIT_UNTIL(pump(&blind) && read_counter(&blind, &blind.wakes) >= 3, BOUND_MS);
    assert_int_equal(ask(&blind, place, PAWL__OP_ACQUIRE, 7), PAWL__HELD);
    assert_int_equal(read_counter(&blind, &blind.logs), 1);
    assert_non_null(strstr(blind.log, "fs.inotify"));

    assert_true(operate(&r->side, r->place, PAWL__OP_RELEASE, 1).others);
    unsigned wakes = read_counter(&blind, &blind.wakes);
    WAIT_UNTIL(pump(&blind) && read_counter(&blind, &blind.wakes) > wakes, BOUND_MS);
    assert_int_equal(ask(&blind, place, PAWL__OP_ACQUIRE, 7), PAWL__DONE);
    unlink_lock(r->directory, "lock");
    WAIT_UNTIL(pump(&blind) && read_counter(&blind, &blind.losses) == 1, BOUND_MS);
    assert_int_equal(blind.lost_id, 7);
    place_close(&blind, place);
    side_close(&blind);
}

/* More events than the kernel keeps: which ones were dropped is unknown, so everybody looks. */
static void events_may_overflow(void **state)
{
    struct shortage *r = *state;
    struct side other;
    unsigned queue_size = 0;
    FILE *limit = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
    if (limit == NULL || fscanf(limit, "%u", &queue_size) != 1 || queue_size > 100000) {
        skip();
    }
    fclose(limit);
    side_open(&other, r->directory);
    struct pawl__place *noisy = place_open(&r->side, "noisy");
    struct pawl__place *waits = place_open(&r->side, "waits");
    struct pawl__place *holds = place_open(&other, "waits");
    assert_int_equal(ask(&r->side, r->place, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    assert_int_equal(ask(&r->side, noisy, PAWL__OP_ACQUIRE, 2), PAWL__DONE);
    assert_int_equal(ask(&other, holds, PAWL__OP_ACQUIRE, 3), PAWL__DONE);
    assert_int_equal(ask(&r->side, waits, PAWL__OP_WATCH, 0), PAWL__DONE);
    assert_int_equal(ask(&r->side, waits, PAWL__OP_ACQUIRE, 4), PAWL__HELD);
    char *path = lock_path(r->directory, "noisy");
    for (unsigned i = 0; i <= queue_size / 2; i++) { /* two kinds in turn: equal ones are merged */
        assert_int_equal(chmod(path, 0600), 0);
        close(open(path, O_WRONLY | O_CLOEXEC));
    }
    free(path);
    unlink_lock(r->directory, "lock");
    assert_int_equal(ask(&other, holds, PAWL__OP_RELEASE, 3), PAWL__DONE);
    WAIT_UNTIL(pump(&r->side) && read_counter(&r->side, &r->side.losses) == 1, BOUND_MS);
    assert_int_equal(r->side.lost_id, 1);
    WAIT_UNTIL(pump(&r->side) && read_counter(&r->side, &r->side.wakes) > 0, BOUND_MS);
    assert_int_equal(ask(&r->side, waits, PAWL__OP_ACQUIRE, 4), PAWL__DONE);
    assert_int_equal(ask(&r->side, noisy, PAWL__OP_VERIFY, 2), PAWL__DONE);
    place_close(&r->side, noisy);
    place_close(&r->side, waits);
    place_close(&other, holds);
    side_close(&other);
}

static bool use_with_little_memory(void *arg)
{
    struct side side;
    if (side_try_open(&side, arg) != PAWL_OK) {
        return false;
    }
    struct pawl__place *place = support_alloc(pawl__engine_file.place_size);
    place->name = support_copy("lock", 4);
    place->name_size = 4;
    bool opened = pawl__engine_file.place_open(side.self, place) == PAWL_OK;
    bool granted = opened && ask(&side, place, PAWL__OP_ACQUIRE, 1) == PAWL__DONE;
    bool released = granted && ask(&side, place, PAWL__OP_RELEASE, 1) == PAWL__DONE;
    if (opened) {
        pawl__engine_file.place_close(side.self, place);
    }
    place_free(place);
    side_close(&side);
    return released;
}

static void memory_may_run_out(void **state)
{
    struct shortage *r = *state;
    char *directory = support_copy(r->directory, strlen(r->directory));
    size_t before = open_descriptor_count();
    const struct allocation_sweep sweep = {.attempt = use_with_little_memory, .arg = directory};
    assert_true(sweep_allocations(&sweep) >= 4);
    assert_int_equal(open_descriptor_count(), before);
    assert_int_equal(ask(&r->side, r->place, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    free(directory);
}

#define SHORTAGE(test) cmocka_unit_test_setup_teardown(test, shortage_setup, shortage_teardown)
#define CLEAN(test) cmocka_unit_test_setup_teardown(test, cleanup_setup, cleanup_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLEAN(a_full_disk_is_unavailable),
        CLEAN(a_read_only_disk_is_refused),
        SHORTAGE(descriptors_may_run_out),
        SHORTAGE(idle_files_are_closed),
        SHORTAGE(inotify_may_run_out),
        SHORTAGE(events_may_overflow),
        SHORTAGE(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
