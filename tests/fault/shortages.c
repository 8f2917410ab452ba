/* SPDX-License-Identifier: Apache-2.0 */
/* Fault matrix row 42: memory and system calls fail while processes share locks.
 *
 * In one case a twentieth of the library's allocations fail in some of the workers. In the others
 * strace makes one system call after the other fail in a worker, the k-th of its kind in each
 * thread, with the errors that the kernel has for it, while another worker wants the same lock.
 * Whatever fails, the worker's calls must answer cleanly and in time, nobody may be inside together
 * with anybody, nothing may stay behind, and the other one must get on. Each allocation on its own:
 * promise/p4_shortage.c.
 *
 * futex is left out: a wake-up that strace swallows is one that the kernel never loses, and the C
 * library itself would wait for ever. */
#include "fault/lib/fault.h"

#include <dirent.h>

enum {
    LEASE_MS = 1000,
    TIMEOUT_MS = 300,
    ROUNDS = 12,
};

/* ===== Memory ===== */

static struct crew *hire_starving(const char *url)
{
    struct crew *crew = crew_make();
    for (int i = 0; i < 3; i++) {
        struct board_plan *plan = crew_plan(crew, url);
        plan->lease_ms = 5000;
        plan->timeout_ms = TIMEOUT_MS;
        plan->callers = 4;
        plan->flags = i < 2 ? BOARD_STARVES : 0;
        crew_start(crew);
    }
    crew_await_first(crew);
    return crew;
}

static uint64_t count_starved(const struct crew *crew)
{
    uint64_t starved = 0;
    for (size_t i = 0; i < crew->count; i++) {
        starved += atomic_load(&crew->board->workers[i].starved);
    }
    return starved;
}

static void check_starved(struct crew *crew)
{
    crew_await_progress(crew, boottime_us(), 10000 * PACE);
    crew_finish(crew);
    check_history(crew);
    check_limits(crew);
    check_resources(crew);
    const uint64_t starved = count_starved(crew);
    print_message("%" PRIu64 " allocations failed, %" PRIu64 " acquires said so\n", starved,
        crew_count_acquires(crew, PAWL_NO_MEMORY));
    assert_true(starved > 0);
}

/* Who works on needs hardly any memory, so connections are killed: a new one does. */
static void memory_is_short(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    struct crew *crew = hire_starving(server_url(server));
    const int64_t end_ms = boottime_ms() + 2000;
    while (boottime_ms() < end_ms) {
        server_kill_clients(server, crew_draw(crew, 2) == 0 ? "pubsub" : "normal");
        nap_ms((int64_t)crew_draw(crew, 100));
    }
    check_starved(crew);
    check_nothing_left(server, 5000);
}

static void memory_is_short_on_files(void **state)
{
    (void)state;
    struct crew *crew = hire_starving(make_file_url());
    WAIT_UNTIL(count_starved(crew) > 0, 10000 * PACE);
    check_starved(crew);
}

/* ===== System calls ===== */

struct injection {
    const char *call;
    const char *error;
    unsigned nths[4]; /* 0: no more */
    bool on_locks;    /* only where it is about a lock's file or their directory */
};

static void require_strace(void)
{
    const char *const argv[] = {"strace", "-qq", "-o", "/dev/null", "true", NULL};
    char *path = find_program("strace");
    const bool found = path != NULL;
    free(path);
    if (!found) {
        print_message("there is no strace\n");
        skip();
    }
    struct child *child = child_spawn(argv);
    const int code = child_wait(child, 10000);
    child_free(child);
    if (code != 0) {
        print_message("strace may not trace here\n");
        skip();
    }
}

static void plan_victim(struct crew *crew, const char *url, unsigned flags, unsigned rounds)
{
    struct board_plan *plan = crew_plan(crew, url);
    plan->name_count = 1;
    plan->lease_ms = LEASE_MS;
    plan->timeout_ms = TIMEOUT_MS;
    plan->wait_ms = 1000;
    plan->callers = 2;
    plan->work_us = 500;
    plan->rest_us = 500;
    plan->flags = flags;
    plan->rounds = rounds;
}

/* The paths that strace looks at alone: the directory of locks, and the locks. */
static size_t add_paths(const char *wrapper[], size_t count, const char *directory)
{
    static char paths[8][URL_SIZE];
    size_t used = 0;
    snprintf(paths[used++], sizeof paths[0], "%s", directory);
    DIR *listing = opendir(directory);
    assert_non_null(listing);
    for (struct dirent *entry = readdir(listing); entry != NULL && used < 8;
         entry = readdir(listing)) {
        if (entry->d_name[0] != '.') {
            snprintf(paths[used++], sizeof paths[0], "%.100s/%.100s", directory, entry->d_name);
        }
    }
    closedir(listing);
    for (size_t i = 0; i < used; i++) {
        wrapper[count++] = "-P";
        wrapper[count++] = paths[i];
    }
    return count;
}

static void start_victim(struct crew *crew, const struct injection *injection, unsigned nth,
    const char *directory, const char *output)
{
    char trace[48];
    char rule[96];
    const char *wrapper[32] = {"env", "ASAN_OPTIONS=detect_leaks=0", "strace", "-f", "-qq", "-o",
        output, "-e", trace, "-e", rule};
    size_t count = 11;
    snprintf(trace, sizeof trace, "trace=%s", injection->call);
    snprintf(
        rule, sizeof rule, "inject=%s:error=%s:when=%u", injection->call, injection->error, nth);
    if (directory != NULL) {
        count = add_paths(wrapper, count, directory);
    }
    wrapper[count] = NULL;
    crew_start_by(crew, wrapper);
}

/* How often it did happen, which differs from run to run where threads take turns. */
static unsigned count_injected(const char *output)
{
    char line[1024];
    unsigned count = 0;
    FILE *file = fopen(output, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        count += strstr(line, "(INJECTED)") != NULL ? 1 : 0;
    }
    fclose(file);
    return count;
}

/* Returns how often the call was made to fail. */
static unsigned inject(const struct injection *injection, unsigned nth, const char *url)
{
    char output[URL_SIZE];
    snprintf(output, sizeof output, "%s/strace", tempdir_make());
    const char *directory = injection->on_locks ? url + strlen("file://") : NULL;
    struct crew *crew = crew_make();
    plan_victim(crew, url, 0, 0);
    crew_start(crew);
    crew_await_first(crew);
    plan_victim(crew, url, BOARD_MAY_FAIL, ROUNDS);
    start_victim(crew, injection, nth, directory, output);
    const int code = child_wait(crew->children[1], 20000 * PACE);
    const struct board_worker *victim = &crew->board->workers[1];
    if (code != 0) {
        support_fail("%s failing with %s at its call %u: the worker ended with %d: %s",
            injection->call, injection->error, nth, code,
            atomic_load(&victim->complained) != 0 ? victim->complaint : "it says nothing");
    }
    crew_await_progress(crew, boottime_us(), 5000 * PACE);
    crew_finish(crew);
    check_history(crew);
    check_limits(crew);
    check_resources(crew);
    return count_injected(output);
}

static void inject_all(const struct injection injections[], size_t count, const char *url)
{
    for (size_t i = 0; i < count; i++) {
        unsigned injected = 0;
        for (size_t j = 0; j < 4 && injections[i].nths[j] != 0; j++) {
            const size_t mark = cleanup_mark();
            injected += inject(&injections[i], injections[i].nths[j], url);
            cleanup_to(mark);
        }
        print_message(
            "%s failed %u times with %s\n", injections[i].call, injected, injections[i].error);
        if (injected == 0) {
            support_fail("%s is never called, so it could not fail", injections[i].call);
        }
    }
}

static void calls_fail(void **state)
{
    (void)state;
    static const struct injection injections[] = {
        {"sendto", "EAGAIN", {1, 2, 7}, false},
        {"sendto", "EINTR", {1, 3}, false},
        {"sendto", "ECONNRESET", {2, 5, 9}, false},
        {"sendto", "EPIPE", {3}, false},
        {"sendto", "ENOBUFS", {1, 4}, false},
        {"recvfrom", "EAGAIN", {1, 6}, false},
        {"recvfrom", "EINTR", {1, 5}, false},
        {"recvfrom", "ECONNRESET", {1, 2, 8}, false},
        {"recvfrom", "ENOMEM", {4}, false},
        {"ppoll", "EINTR", {1, 2, 3}, false},
        {"ppoll", "ENOMEM", {2}, false},
        {"poll", "EINTR", {1, 2}, false},
        {"socket", "EMFILE", {1, 2}, false},
        {"socket", "ENOBUFS", {1}, false},
        {"connect", "ECONNREFUSED", {1, 2}, false},
        {"connect", "EINTR", {1}, false},
        {"connect", "ENETUNREACH", {1}, false},
        {"setsockopt", "ENOMEM", {1, 2, 4}, false},
        {"fcntl", "EINVAL", {1, 2}, false},
        {"eventfd2", "EMFILE", {1, 2, 3}, false},
        {"timerfd_create", "EMFILE", {1}, false},
        {"getrandom", "EINTR", {1, 2, 3}, false},
    };
    require_strace();
    struct server *server = server_start(NULL);
    inject_all(injections, sizeof injections / sizeof injections[0], server_url(server));
    check_nothing_left(server, LEASE_MS);
}

static void calls_fail_on_files(void **state)
{
    (void)state;
    static const struct injection injections[] = {
        {"openat", "EMFILE", {1, 2}, true},
        {"openat", "EINTR", {1, 2}, true},
        {"openat", "ENOSPC", {1}, true},
        {"fcntl", "ENOLCK", {1, 2, 3, 6}, true},
        {"fcntl", "EINTR", {1, 2, 5}, true},
        {"pwrite64", "ENOSPC", {1, 2}, true},
        {"pwrite64", "EIO", {1, 3}, true},
        {"pread64", "EIO", {1, 2}, true},
        {"statx", "EIO", {1, 2, 3}, true},
        {"statx", "ENOENT", {2, 3, 4}, true},
        {"utimensat", "EIO", {1, 2}, true},
        {"inotify_init1", "EMFILE", {1}, false},
        {"inotify_add_watch", "ENOSPC", {1}, false},
        {"inotify_add_watch", "ENOMEM", {1}, false},
        {"ioctl", "EINTR", {1, 2, 3}, false},
        {"poll", "EINTR", {1, 2}, false},
        {"ppoll", "EINTR", {1, 2}, false},
        {"timerfd_create", "EMFILE", {1}, false},
        {"eventfd2", "EMFILE", {1, 2}, false},
    };
    require_strace();
    char url[URL_SIZE];
    snprintf(url, sizeof url, "%s", make_file_url());
    inject_all(injections, sizeof injections / sizeof injections[0], url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory_is_short, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(memory_is_short_on_files, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(calls_fail, cleanup_setup, cleanup_teardown),
        cmocka_unit_test_setup_teardown(calls_fail_on_files, cleanup_setup, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
