/* SPDX-License-Identifier: Apache-2.0 */
/* The test support tests itself: waiting, children, counting, sweeping and cleaning up.
 * The server, the proxy and the scripted server have test files of their own.
 *
 * Method: each tool is used once as a test would use it and once so that it has to report a
 * failure. Failures of the running test are provoked in a forked child, where a failed assertion
 * ends the child with SIGABRT; its complaints go to /dev/null. */
#include "support/fail.h"
#include "support/process.h"
#include "support/resources.h"
#include "support/resp.h"
#include "support/sha1.h"
#include "support/text.h"
#include "support/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ABORTED (128 + SIGABRT)

struct nothing_to_say {
    void (*body)(void);
};

static int run_quietly(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    const struct nothing_to_say *call = arg;
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(fd, STDERR_FILENO);
    dup2(fd, STDOUT_FILENO);
    call->body();
    return 0;
}

/* The exit status of a child in which `body` ran. */
static int status_of(void (*body)(void))
{
    struct nothing_to_say call = {.body = body};
    struct child *child = child_fork(run_quietly, &call);
    const int status = child_wait(child, 10000);
    child_free(child);
    return status;
}

static void wait_for_what_never_comes(void)
{
    WAIT_UNTIL(boottime_ms() < 0, 50);
}

static void wait_for_what_comes(void)
{
    const int64_t start_ms = boottime_ms();
    WAIT_UNTIL(boottime_ms() >= start_ms + 20, 5000);
}

static void wait_until_fails_in_time(void **state)
{
    (void)state;
    const int64_t start_ms = boottime_ms();
    assert_int_equal(status_of(wait_for_what_never_comes), ABORTED);
    assert_true(boottime_ms() - start_ms >= 50);
    assert_true(boottime_ms() - start_ms < 5000);
    assert_int_equal(status_of(wait_for_what_comes), 0);
}

static bool is_true(void *arg)
{
    return *(const bool *)arg;
}

static void wait_for_says_no_when_time_is_over(void **state)
{
    (void)state;
    bool value = true;
    assert_true(wait_for(is_true, &value, 0));
    value = false;
    const int64_t start_ms = boottime_ms();
    assert_false(wait_for(is_true, &value, 30));
    assert_true(boottime_ms() - start_ms >= 30);
}

static int echo_line(const struct child_pipes *pipes, void *arg)
{
    char line[100];
    ssize_t size = read(pipes->in, line, sizeof line);
    if (size <= 0 || write(pipes->out, line, (size_t)size) != size) {
        return 1;
    }
    return *(const int *)arg;
}

static void a_forked_child_talks_through_pipes(void **state)
{
    (void)state;
    int code = 42;
    struct child *child = child_fork(echo_line, &code);
    assert_true(child_write(child, "hello\nrest"));
    char *line = child_read_line(child, 5000);
    assert_string_equal(line, "hello");
    free(line);
    char rest[4];
    assert_true(child_read(child, rest, sizeof rest, 5000));
    assert_memory_equal(rest, "rest", 4);
    assert_null(child_read_line(child, 5000));
    assert_int_equal(child_wait(child, 5000), 42);
    assert_false(child_write(child, "nobody listens\n"));
    child_free(child);
}

static void a_spawned_program_is_run_and_reaped(void **state)
{
    (void)state;
    static const char *const argv[] = {"sh", "-c", "read x; echo got $x; exit 3", NULL};
    struct child *child = child_spawn(argv);
    assert_int_equal(child_wait(child, 20), -1);
    assert_true(child_is_running(child));
    assert_true(child_write(child, "it\n"));
    char *line = child_read_line(child, 5000);
    assert_string_equal(line, "got it");
    free(line);
    assert_int_equal(child_wait(child, 5000), 3);
    child_free(child);
    assert_null(find_program("no-such-program-anywhere"));
}

static int play_role(const struct child_pipes *pipes, const char *arg)
{
    int code = atoi(arg);
    return echo_line(pipes, &code);
}

static void a_fresh_copy_of_the_program_plays_a_role(void **state)
{
    (void)state;
    struct child *child = child_start("play", "9");
    assert_true(child_write(child, "hello\n"));
    char *line = child_read_line(child, 5000);
    assert_string_equal(line, "hello");
    free(line);
    assert_int_equal(child_wait(child, 5000), 9);
    child_free(child);
}

static int sleep_for_ever(const struct child_pipes *pipes, void *arg)
{
    (void)arg;
    char byte;
    return read(pipes->in, &byte, 1) == 1 ? 0 : 1;
}

static void a_child_can_be_stopped_continued_and_killed(void **state)
{
    (void)state;
    struct child *child = child_fork(sleep_for_ever, NULL);
    const pid_t pid = child_pid(child);
    child_stop(child);
    assert_int_equal(process_state(pid), 'T');
    child_continue(child);
    WAIT_UNTIL(process_state(pid) == 'S', 5000);
    child_signal(child, SIGTERM);
    assert_int_equal(child_wait(child, 5000), 128 + SIGTERM);
    child_free(child);
    child = child_fork(sleep_for_ever, NULL);
    const pid_t second = child_pid(child);
    child_free(child); /* runs, and is killed */
    assert_int_equal(kill(second, 0), -1);
    assert_int_equal(errno, ESRCH);
}

static void an_assertion_in_a_child_ends_the_child(void)
{
    assert_true(false);
}

static void a_crash(void)
{
    raise(SIGSEGV);
}

static void a_failed_assertion_stays_in_the_child(void **state)
{
    (void)state;
    assert_int_equal(status_of(an_assertion_in_a_child_ends_the_child), ABORTED);
    assert_int_not_equal(status_of(a_crash), 0);
}

static int start_grandchild(const struct child_pipes *pipes, void *arg)
{
    (void)arg;
    struct child *grandchild = child_fork(sleep_for_ever, NULL);
    const pid_t pid = child_pid(grandchild);
    if (write(pipes->out, &pid, sizeof pid) != (ssize_t)sizeof pid) {
        return 1;
    }
    return sleep_for_ever(pipes, NULL);
}

static void children_die_with_their_parent(void **state)
{
    (void)state;
    struct child *child = child_fork(start_grandchild, NULL);
    pid_t grandchild = 0;
    assert_true(child_read(child, &grandchild, sizeof grandchild, 5000));
    assert_true(process_is_alive(grandchild));
    child_signal(child, SIGKILL); /* no clean-up can run */
    WAIT_UNTIL(!process_is_alive(grandchild), 5000);
    child_free(child);
}

static void *wait_on_descriptor(void *arg)
{
    char byte;
    ssize_t size = read(*(const int *)arg, &byte, 1);
    (void)size;
    return NULL;
}

/* How many threads there are while there is one more. */
static size_t count_with_another_thread(void)
{
    int pipes[2];
    pthread_t thread;
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_on_descriptor, &pipes[0]), 0);
    const size_t count = thread_count();
    close(pipes[1]);
    pthread_join(thread, NULL);
    close(pipes[0]);
    return count;
}

static void descriptors_threads_and_memory_are_counted(void **state)
{
    (void)state;
    const size_t descriptors = open_descriptor_count();
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(open_descriptor_count(), descriptors + 1);
    close(fd);
    assert_int_equal(open_descriptor_count(), descriptors);

    /* A sanitizer may start a thread of its own with the first one. */
    const size_t most = count_with_another_thread();
    for (int i = 0; i < 5000; i++) { /* one that was joined is gone at once */
        assert_int_equal(thread_count(), most - 1);
        assert_int_equal(count_with_another_thread(), most);
    }

    const size_t before = resident_size();
    const size_t size = 32u << 20;
    char *memory = malloc(size);
    assert_non_null(memory);
    memset(memory, 1, size);
    assert_true(resident_size() > before + size / 2);
    free(memory);
}

static void temporary_directories_vanish_with_their_content(void **state)
{
    (void)state;
    const char *kept = tempdir_make();
    char path[200];
    char outside[200];
    snprintf(outside, sizeof outside, "%s/outside", kept);
    close(open(outside, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    const char *made = tempdir_make();
    char *name = strdup(made);
    snprintf(path, sizeof path, "%s/inner", made);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/inner/link", made);
    assert_int_equal(symlink(kept, path), 0);
    tempdir_remove(made);
    assert_int_equal(access(name, F_OK), -1);
    assert_int_equal(access(outside, F_OK), 0); /* the link was not followed */
    free(name);
    assert_true(remove_tree("/tmp/pawl-test-no-such-thing"));
}

static uint64_t fail_at; /* 0: no failure armed */
static uint64_t asked;   /* allocations since it was armed */
static bool fail_fired;

static void arm_failure(uint64_t nth)
{
    fail_at = nth;
    asked = 0;
    fail_fired = false;
}

static bool failure_fired(void)
{
    return fail_fired;
}

static bool pretend_to_allocate(void)
{
    asked++;
    fail_fired = fail_fired || asked == fail_at;
    return asked != fail_at;
}

/* Four allocations, of which it can do without the second. */
static bool needs_three_of_four(void *arg)
{
    ++*(unsigned *)arg;
    if (!pretend_to_allocate()) {
        return false;
    }
    pretend_to_allocate();
    if (!pretend_to_allocate()) {
        return false;
    }
    return pretend_to_allocate();
}

static bool always_fails(void *arg)
{
    (void)arg;
    return false;
}

static void sweep_what_fails_anyway(void)
{
    const struct allocation_sweep sweep = {
        .fail_nth = arm_failure, .fired = failure_fired, .attempt = always_fails};
    sweep_allocations(&sweep);
}

static void the_sweep_fails_every_allocation_once(void **state)
{
    (void)state;
    unsigned attempts = 0;
    struct allocation_sweep sweep = {.fail_nth = arm_failure,
        .fired = failure_fired,
        .attempt = needs_three_of_four,
        .arg = &attempts};
    assert_int_equal(sweep_allocations(&sweep), 4);
    assert_int_equal(attempts, 5);
    sweep.fired = NULL; /* then the tolerated failure looks like the end */
    assert_int_equal(sweep_allocations(&sweep), 1);
    assert_int_equal(fail_at, 0);
    assert_int_equal(status_of(sweep_what_fails_anyway), ABORTED);
}

static int report_user(void *arg)
{
    (void)arg;
    return geteuid() != 0 && getuid() != 0 && open("/etc/shadow", O_RDONLY | O_CLOEXEC) < 0 ? 7 : 1;
}

static void a_function_runs_as_nobody(void **state)
{
    (void)state;
    assert_int_equal(run_as_nobody(report_user, NULL, 10000), 7);
}

static unsigned ended;

static void count_end(void *object)
{
    ended = ended * 10 + *(const unsigned *)object;
}

static void clean_up_goes_backwards_to_the_mark(void **state)
{
    (void)state;
    static unsigned things[] = {1, 2, 3, 4};
    ended = 0;
    cleanup_add(count_end, &things[0]);
    const size_t mark = cleanup_mark();
    for (size_t i = 1; i < 4; i++) {
        cleanup_add(count_end, &things[i]);
    }
    cleanup_drop(&things[2]);
    cleanup_to(mark);
    assert_int_equal(ended, 42);
    cleanup_drop(&things[0]);
    cleanup_to(0);
    assert_int_equal(ended, 42);
}

static void values_are_found_and_printed(void **state)
{
    (void)state;
    static const char reply[] = "%2\r\n+a\r\n:1\r\n$1\r\nb\r\n*3\r\n_\r\n$-1\r\n=6\r\ntxt:hi\r\n";
    const size_t size = sizeof reply - 1;
    size_t end = 0;
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(resp_find_end(reply, i, &end), RESP_PARTIAL);
    }
    assert_int_equal(resp_find_end(reply, size, &end), RESP_COMPLETE);
    assert_int_equal(end, size);
    struct text flat = {0};
    resp_add_flat(&flat, reply, size);
    assert_string_equal(flat.data, "a 1 b [(nil) (nil) hi]");
    text_free(&flat);
    assert_int_equal(resp_find_end("*x\r\n", 4, &end), RESP_BROKEN);
    char hex[41];
    sha1_hex("abc", 3, hex);
    assert_string_equal(hex, "a9993e364706816aba3e25717850c26c9cd0d89d");
}

int main(int argc, char *argv[])
{
    static const struct child_role roles[] = {{"play", play_role}};
    child_dispatch(argc, argv, roles, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wait_until_fails_in_time),
        cmocka_unit_test(wait_for_says_no_when_time_is_over),
        cmocka_unit_test(a_forked_child_talks_through_pipes),
        cmocka_unit_test(a_spawned_program_is_run_and_reaped),
        cmocka_unit_test(a_fresh_copy_of_the_program_plays_a_role),
        cmocka_unit_test(a_child_can_be_stopped_continued_and_killed),
        cmocka_unit_test(a_failed_assertion_stays_in_the_child),
        cmocka_unit_test(children_die_with_their_parent),
        cmocka_unit_test(descriptors_threads_and_memory_are_counted),
        cmocka_unit_test(temporary_directories_vanish_with_their_content),
        cmocka_unit_test(the_sweep_fails_every_allocation_once),
        cmocka_unit_test(a_function_runs_as_nobody),
        cmocka_unit_test(clean_up_goes_backwards_to_the_mark),
        cmocka_unit_test(values_are_found_and_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
