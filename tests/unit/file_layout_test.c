/* SPDX-License-Identifier: Apache-2.0 */
/* Lock files of the first layout, as earlier versions wrote them: byte by byte, so that the test
 * does not share a mistake with the code. They are read, and the next grant makes files of the
 * present layout of them. */
#include "file_side.h"

#include "engine/file/record.h"

#include <fcntl.h>

#define TOKEN "1700000000000042"
#define OLD_HOLDER "5bd36e9c-7a0f-4f5e-9d6a-2a8f5a3c1b77:9"

/* A whole file of the first layout; `name` as it is encoded. To be freed. */
static char *old_file(const char *boot, const char *name)
{
    struct text text = {0};
    text_addf(&text,
        "pawl lock file 1: the last holder; held as long as byte 0 is locked\n"
        "token  %-20s\nholder %-57s\ncount  %-10s\npid    %-10s\nboot   %-36s\nhost   %-64s\n"
        "name   %s\n",
        TOKEN, OLD_HOLDER, "3", "4711", boot, "build-7", name);
    return text_take(&text);
}

static void put_file(const char *directory, const char *name, const char *data, size_t size)
{
    char *path = lock_path(directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), (ssize_t)size);
    close(fd);
    free(path);
}

static void this_boot(char boot[PAWL__UUID_SIZE + 1])
{
    struct pawl__record record;
    pawl__record_init(&record, "00000000-0000-4000-8000-000000000000");
    memcpy(boot, record.boot, sizeof record.boot);
    boot[sizeof record.boot] = '\0';
}

static void an_old_file_is_read(void **state)
{
    (void)state;
    struct side side;
    const char *directory = tempdir_make();
    char *old = old_file("0c2b0000-0000-4000-8000-000000000000", "lock");
    put_file(directory, "lock", old, strlen(old));
    side_open(&side, directory);
    struct pawl__place *place = place_open(&side, "lock");
    pawl_lock_info info = inspect(&side, place);
    assert_false(info.held);
    assert_int_equal(info.token, strtoull(TOKEN, NULL, 10));
    assert_string_equal(info.holder, "");
    place_close(&side, place);
    side_close(&side);
    free(old);
}

/* One that was held by an old program and still is. */
static void an_old_file_that_is_held_is_respected(void **state)
{
    (void)state;
    struct side side;
    const char *directory = tempdir_make();
    char *old = old_file("0c2b0000-0000-4000-8000-000000000000", "lock");
    put_file(directory, "lock", old, strlen(old));
    char *path = lock_path(directory, "lock");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
    side_open(&side, directory);
    struct pawl__place *place = place_open(&side, "lock");
    assert_int_equal(ask(&side, place, PAWL__OP_ACQUIRE, 1), PAWL__HELD);
    pawl_lock_info info = inspect(&side, place);
    assert_true(info.held);
    assert_int_equal(info.hold_count, 3);
    assert_string_equal(info.holder, OLD_HOLDER);
    close(fd);
    assert_int_equal(ask(&side, place, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    place_close(&side, place);
    side_close(&side);
    free(path);
    free(old);
}

static void an_old_file_becomes_a_new_one(void **state)
{
    (void)state;
    struct side a;
    struct side b;
    char boot[PAWL__UUID_SIZE + 1];
    const char *directory = tempdir_make();
    this_boot(boot);
    char *old = old_file(boot, "jobs%2Fnightly");
    put_file(directory, "jobs/nightly", old, strlen(old));
    side_open(&a, directory);
    side_open(&b, directory);
    struct pawl__place *at_a = place_open(&a, "jobs/nightly");
    struct pawl__place *at_b = place_open(&b, "jobs/nightly");
    uint64_t token = strtoull(TOKEN, NULL, 10);
    for (uint64_t id = 1; id < 4; id++) {
        struct pawl__op op = operate(&a, at_a, PAWL__OP_ACQUIRE, id);
        assert_int_equal(op.answer, PAWL__DONE);
        assert_int_equal(op.token, token + id);
        pawl_lock_info info = inspect(&b, at_b);
        assert_int_equal(info.token, token + id);
        assert_memory_equal(info.holder, a.host.uuid, PAWL__UUID_SIZE);
        assert_int_equal(ask(&a, at_a, PAWL__OP_RELEASE, id), PAWL__DONE);
    }
    place_close(&a, at_a);
    place_close(&b, at_b);
    side_close(&a);
    side_close(&b);
    free(old);
}

/* Its writer died half-way, anywhere: the lock can be had, and tokens go to the clock. The name is
 * the last thing in it; without all of it nothing counts. */
static void half_an_old_file_is_repaired(void **state)
{
    (void)state;
    struct side side;
    char boot[PAWL__UUID_SIZE + 1];
    const char *directory = tempdir_make();
    this_boot(boot);
    char *old = old_file(boot, "lock");
    side_open(&side, directory);
    for (size_t size = 1; size < strlen(old); size++) {
        put_file(directory, "lock", old, size);
        struct pawl__place *place = place_open(&side, "lock");
        struct pawl__op op = operate(&side, place, PAWL__OP_ACQUIRE, size);
        assert_int_equal(op.answer, PAWL__DONE);
        assert_true(op.token > strtoull(TOKEN, NULL, 10) + 1);
        place_close(&side, place);
    }
    side_close(&side);
    free(old);
}

static void an_old_file_of_another_name_is_refused(void **state)
{
    (void)state;
    struct side side;
    const char *directory = tempdir_make();
    char *old = old_file("0c2b0000-0000-4000-8000-000000000000", "LOCK");
    put_file(directory, "lock", old, strlen(old));
    side_open(&side, directory);
    struct pawl__place *place = place_open(&side, "lock");
    assert_failed(&side, place, PAWL__OP_ACQUIRE, PAWL_REFUSED, "another name");
    place_close(&side, place);
    side_close(&side);
    free(old);
}

/* The longest name: the old file is as long as what is read of a new one. */
static void an_old_file_of_a_long_name_is_read(void **state)
{
    (void)state;
    struct side side;
    char name[PAWL__NAME_SIZE_MAX + 1];
    char encoded[PAWL__ENCODED_SIZE_MAX + 1];
    char boot[PAWL__UUID_SIZE + 1];
    const char *directory = tempdir_make();
    memset(name, '/', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    this_boot(boot);
    pawl__name_encode(name, strlen(name), encoded);
    char *old = old_file(boot, encoded);
    put_file(directory, name, old, strlen(old));
    side_open(&side, directory);
    struct pawl__place *place = place_open(&side, name);
    struct pawl__op op = operate(&side, place, PAWL__OP_ACQUIRE, 1);
    assert_int_equal(op.answer, PAWL__DONE);
    assert_int_equal(op.token, strtoull(TOKEN, NULL, 10) + 1);
    assert_int_equal(ask(&side, place, PAWL__OP_RELEASE, 1), PAWL__DONE);
    assert_int_equal(operate(&side, place, PAWL__OP_ACQUIRE, 2).token, op.token + 1);
    place_close(&side, place);
    side_close(&side);
    free(old);
}

#define CLEAN(test) cmocka_unit_test_setup_teardown(test, cleanup_setup, cleanup_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLEAN(an_old_file_is_read),
        CLEAN(an_old_file_that_is_held_is_respected),
        CLEAN(an_old_file_becomes_a_new_one),
        CLEAN(half_an_old_file_is_repaired),
        CLEAN(an_old_file_of_another_name_is_refused),
        CLEAN(an_old_file_of_a_long_name_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
