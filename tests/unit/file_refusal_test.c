/* SPDX-License-Identifier: Apache-2.0 */
/* What the file engine refuses: things that are no lock files where one should be, directories that
 * are open to others, URLs that make no sense. Each gets its status and a sentence that names the
 * path. Tests that need another user or a file system of their own run in a child, and only as
 * root. */
#include "file_side.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

/* ===== What lies in the lock's place ===== */

struct refusal {
    const char *directory;
    char *path; /* where the file of the lock "lock" should be */
    struct side side;
    struct pawl__place *place;
};

static int refusal_setup(void **state)
{
    struct refusal *r = support_alloc(sizeof *r);
    if (cleanup_setup(state) != 0) {
        return -1;
    }
    r->directory = tempdir_make();
    r->path = lock_path(r->directory, "lock");
    side_open(&r->side, r->directory);
    r->place = place_open(&r->side, "lock");
    *state = r;
    return 0;
}

static int refusal_teardown(void **state)
{
    struct refusal *r = *state;
    place_close(&r->side, r->place);
    side_close(&r->side);
    free(r->path);
    free(r);
    return cleanup_teardown(state);
}

/* Refused by every operation that opens the file, with a sentence that names it. Once the thing is
 * gone, the same place works. */
static void assert_refused_until_removed(struct refusal *r, const char *why)
{
    assert_failed(&r->side, r->place, PAWL__OP_ACQUIRE, PAWL_REFUSED, why);
    assert_failed(&r->side, r->place, PAWL__OP_ACQUIRE, PAWL_REFUSED, r->path);
    assert_int_equal(remove(r->path), 0);
    assert_int_equal(ask(&r->side, r->place, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    assert_int_equal(ask(&r->side, r->place, PAWL__OP_RELEASE, 1), PAWL__DONE);
}

static void make_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void a_symbolic_link_is_refused(void **state)
{
    struct refusal *r = *state;
    struct text target = {0};
    text_addf(&target, "%s/elsewhere", r->directory);
    make_file(target.data, "");
    assert_int_equal(symlink(target.data, r->path), 0);
    assert_refused_until_removed(r, "symbolic link");
    struct stat seen;
    assert_int_equal(stat(target.data, &seen), 0);
    assert_int_equal(seen.st_size, 0);
    text_free(&target);
}

static void a_dangling_link_is_not_followed(void **state)
{
    struct refusal *r = *state;
    assert_int_equal(symlink("nowhere", r->path), 0);
    assert_refused_until_removed(r, "symbolic link");
    assert_int_not_equal(access("nowhere", F_OK), 0);
}

static void a_hard_link_is_refused(void **state)
{
    struct refusal *r = *state;
    struct text target = {0};
    text_addf(&target, "%s/elsewhere", r->directory);
    make_file(target.data, "");
    assert_int_equal(link(target.data, r->path), 0);
    assert_refused_until_removed(r, "second name");
    text_free(&target);
}

static void a_fifo_is_refused(void **state)
{
    struct refusal *r = *state;
    assert_int_equal(mkfifo(r->path, 0600), 0);
    assert_refused_until_removed(r, "not a plain file"); /* and does not block */
}

static void a_socket_is_refused(void **state)
{
    struct refusal *r = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", r->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)(const void *)&address, sizeof address), 0);
    assert_refused_until_removed(r, r->path);
    close(fd);
}

static void a_directory_is_refused(void **state)
{
    struct refusal *r = *state;
    assert_int_equal(mkdir(r->path, 0700), 0);
    assert_refused_until_removed(r, r->path);
}

static void a_foreign_file_is_refused(void **state)
{
    struct refusal *r = *state;
    make_file(r->path, "my notes\n");
    assert_refused_until_removed(r, "not a lock file");
}

/* As after a collision of hashes, or on a file system that does not tell 'a' from 'A'. */
static void the_file_of_another_name_is_refused(void **state)
{
    struct refusal *r = *state;
    struct pawl__place *other = place_open(&r->side, "lock-2");
    char *path = lock_path(r->directory, "lock-2");
    assert_int_equal(ask(&r->side, other, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    place_close(&r->side, other);
    assert_int_equal(rename(path, r->path), 0);
    free(path);
    assert_refused_until_removed(r, "another name");
}

static void another_users_file_is_refused(void **state)
{
    struct refusal *r = *state;
    if (geteuid() != 0) {
        skip();
    }
    make_file(r->path, "");
    assert_int_equal(chown(r->path, 65534, 65534), 0);
    assert_refused_until_removed(r, "belongs to user 65534");
}

/* ===== Directories ===== */

static void assert_open_fails(const char *directory, pawl_status status, const char *needle)
{
    struct side side;
    assert_int_equal(side_try_open(&side, directory), status);
    if (strstr(pawl__error_text(), needle) == NULL) {
        support_fail("\"%s\" is not in \"%s\"", needle, pawl__error_text());
    }
}

static void assert_opens(const char *directory)
{
    struct side side;
    side_open(&side, directory);
    side_close(&side);
}

static void directories_are_judged(void **state)
{
    (void)state;
    const char *parent = tempdir_make();
    struct text path = {0};
    text_addf(&path, "%s/locks", parent);
    struct stat seen;
    assert_opens(path.data); /* makes it */
    assert_int_equal(stat(path.data, &seen), 0);
    assert_int_equal(seen.st_mode & 07777, 0700);
    assert_opens(path.data);
    assert_int_equal(chmod(path.data, 0770), 0);
    assert_open_fails(path.data, PAWL_REFUSED, "chmod go-w");
    assert_int_equal(chmod(path.data, 0707), 0);
    assert_open_fails(path.data, PAWL_REFUSED, path.data);
    assert_int_equal(chmod(path.data, 01777), 0);
    assert_opens(path.data);
    assert_int_equal(chmod(path.data, 0755), 0);
    assert_opens(path.data);
    if (geteuid() == 0) {
        assert_int_equal(chown(path.data, 65534, 65534), 0);
        assert_open_fails(path.data, PAWL_REFUSED, "belongs to user 65534");
        assert_int_equal(chmod(path.data, 01777), 0);
        assert_open_fails(path.data, PAWL_REFUSED, "belongs to user 65534");
    }
    assert_int_equal(rmdir(path.data), 0);
    make_file(path.data, "");
    assert_open_fails(path.data, PAWL_REFUSED, "Not a directory");
    text_addf(&path, "/deeper");
    assert_open_fails(path.data, PAWL_REFUSED, "Not a directory");
    text_free(&path);
    text_addf(&path, "%s/no/locks", parent);
    assert_open_fails(path.data, PAWL_UNAVAILABLE, "mkdir -p");
    text_free(&path);
}

static void urls_are_judged(void **state)
{
    (void)state;
    char host[] = "example.org";
    char relative[] = "locks";
    char user[] = "joe";
    struct pawl__host nobody = {.complete = side_complete};
    void *self = NULL;
    struct pawl__url url;
    memset(&url, 0, sizeof url);
    url.path = relative;
    assert_int_equal(pawl__engine_file.open(&url, &nobody, &self), PAWL_INVALID);
    url.path = NULL;
    url.user = user;
    assert_int_equal(pawl__engine_file.open(&url, &nobody, &self), PAWL_INVALID);
    url.user = NULL;
    url.hosts[0].name = host;
    url.host_count = 1;
    assert_int_equal(pawl__engine_file.open(&url, &nobody, &self), PAWL_INVALID);
    assert_non_null(strstr(pawl__error_text(), "file:///dir"));
}

/* What a script writes whose variable is empty: neither the default nor the root is meant. */
static void a_url_without_a_directory_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"file://", "file://?", "file:/", "file:///", "file:////"};
    struct pawl__host nobody = {.complete = side_complete};
    void *self = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct pawl__url url;
        assert_int_equal(pawl__url_parse(texts[i], &url), PAWL_OK);
        if (pawl__engine_file.open(&url, &nobody, &self) != PAWL_INVALID) {
            fail_msg("accepted: %s", texts[i]);
        }
        assert_non_null(strstr(pawl__error_text(), "file:///dir, or file: for the default"));
        pawl__url_free(&url);
    }
}

/* Somebody else's sticky directory, as /tmp: allowed, and only our own files count. */
static int use_shared_directory(void *arg)
{
    const char *directory = arg;
    struct side side;
    side_open(&side, directory);
    struct pawl__place *place = place_open(&side, "free");
    assert_int_equal(ask(&side, place, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    place_close(&side, place);
    place = place_open(&side, "taken");
    assert_failed(&side, place, PAWL__OP_ACQUIRE, PAWL_REFUSED, "belongs to user 0");
    place_close(&side, place);
    side_close(&side);
    return 0;
}

static void a_shared_directory_is_allowed(void **state)
{
    (void)state;
    const char *shared = tempdir_make();
    char *path = lock_path(shared, "taken");
    make_file(path, "");
    free(path);
    assert_int_equal(chmod(shared, 01777), 0);
    char *directory = support_copy(shared, strlen(shared));
    assert_int_equal(run_as_nobody(use_shared_directory, directory, BOUND_MS), 0);
    free(directory);
}

static int use_read_only_directory(void *arg)
{
    (void)arg;
    struct side side;
    const char *directory = tempdir_make();
    side_open(&side, directory);
    assert_int_equal(chmod(directory, 0500), 0);
    struct pawl__place *place = place_open(&side, "lock");
    assert_failed(&side, place, PAWL__OP_ACQUIRE, PAWL_DENIED, directory);
    assert_failed(&side, place, PAWL__OP_WATCH, PAWL_DENIED, directory);
    assert_open_fails(directory, PAWL_DENIED, directory); /* not only at the first lock */
    assert_open_fails(directory, PAWL_DENIED, "chmod u+rwx");
    assert_int_equal(chmod(directory, 0600), 0);
    assert_open_fails(directory, PAWL_DENIED, "chmod u+rwx");
    assert_int_equal(chmod(directory, 0700), 0);
    assert_int_equal(ask(&side, place, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    place_close(&side, place);
    side_close(&side);
    tempdir_remove(directory);
    return 0;
}

static void a_missing_right_is_denied(void **state)
{
    (void)state;
    if (geteuid() == 0) {
        assert_int_equal(run_as_nobody(use_read_only_directory, NULL, BOUND_MS), 0);
    } else {
        assert_int_equal(use_read_only_directory(NULL), 0);
    }
}

/* ===== A file system of its own ===== */

/* The default directory, in a /tmp of our own. */
static int use_default_directory(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    (void)arg;
    char path[64];
    struct stat seen;
    if (!mount_privately("/tmp", "size=64k,mode=1777")) {
        return 77;
    }
    snprintf(path, sizeof path, "/tmp/pawl-%lu", (unsigned long)geteuid());
    assert_opens(NULL);
    assert_int_equal(lstat(path, &seen), 0);
    assert_true(S_ISDIR(seen.st_mode));
    assert_int_equal(seen.st_mode & 07777, 0700);
    assert_int_equal(chmod(path, 01777), 0);
    assert_open_fails(NULL, PAWL_REFUSED, "chmod go-w"); /* the sticky bit does not help here */
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(chown(path, 65534, 65534), 0);
    assert_open_fails(NULL, PAWL_REFUSED, "belongs to user 65534");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkdir("/tmp/trap", 0700), 0);
    assert_int_equal(symlink("/tmp/trap", path), 0);
    assert_open_fails(NULL, PAWL_REFUSED, path);
    return 0;
}

static void the_default_directory_is_private(void **state)
{
    (void)state;
    run_with_own_mount(use_default_directory);
}

#define REFUSAL(test) cmocka_unit_test_setup_teardown(test, refusal_setup, refusal_teardown)
#define CLEAN(test) cmocka_unit_test_setup_teardown(test, cleanup_setup, cleanup_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REFUSAL(a_symbolic_link_is_refused),
        REFUSAL(a_dangling_link_is_not_followed),
        REFUSAL(a_hard_link_is_refused),
        REFUSAL(a_fifo_is_refused),
        REFUSAL(a_socket_is_refused),
        REFUSAL(a_directory_is_refused),
        REFUSAL(a_foreign_file_is_refused),
        REFUSAL(the_file_of_another_name_is_refused),
        REFUSAL(another_users_file_is_refused),
        CLEAN(directories_are_judged),
        CLEAN(urls_are_judged),
        CLEAN(a_url_without_a_directory_is_refused),
        CLEAN(a_shared_directory_is_allowed),
        CLEAN(a_missing_right_is_denied),
        CLEAN(the_default_directory_is_private),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
