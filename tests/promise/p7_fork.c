/* SPDX-License-Identifier: Apache-2.0 */
/* P7, fork: a child has none of our descriptors, its copies of the handles answer "misuse", and
 * however it ends, the parent's locks stay.
 *
 * Each case runs on Redis and on files, with locks held and threads running. A child reports by
 * its exit status which check failed. */
#include "promise/lib/backend.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEASE_MS 3000
#define CHILD_MS (10000 * SLOWNESS)

/* A client with a lock that it holds and one that it does not. */
struct parent {
    const char *url;
    pawl_client *client;
    pawl_lock *held;
    pawl_lock *other;
    size_t descriptors; /* before it was opened */
};

static void set_up(struct parent *parent, const char *url)
{
    parent->url = url;
    parent->descriptors = open_descriptor_count();
    parent->client = open_client(url, NULL);
    parent->held = open_lock(parent->client, "held", LEASE_MS, true);
    parent->other = open_handle(parent->client, "other", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(parent->held, PAWL_TRY));
}

static void tear_down(struct parent *parent)
{
    ASSERT_OK(pawl_lock_release(parent->held));
    pawl_lock_close(parent->held);
    pawl_lock_close(parent->other);
    ASSERT_OK(close_client(parent->client));
}

/* The parent's lock is held, and works as before. */
static void assert_still_held(struct parent *parent)
{
    pawl_client *stranger = open_client(parent->url, NULL);
    pawl_lock *lock = open_lock(stranger, "held", LEASE_MS, true);
    ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(lock, PAWL_TRY));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(stranger));
    assert_true(pawl_lock_remaining_ms(parent->held) > 0);
    ASSERT_OK(pawl_lock_extend(parent->held, LEASE_MS));
    ASSERT_OK(pawl_lock_acquire(parent->other, PAWL_TRY));
    ASSERT_OK(pawl_lock_release(parent->other));
}

static int run_child(int (*body)(const struct child_pipes *pipes, void *arg), void *arg)
{
    struct child *child = child_fork(body, arg);
    const int status = child_wait(child, CHILD_MS);
    child_free(child);
    return status;
}

/* ===== What the child has ===== */

static int count_in_child(const struct child_pipes *pipes, void *arg)
{
    const struct parent *parent = arg;
    close(pipes->in);
    close(pipes->out);
    return (int)(open_descriptor_count() - parent->descriptors);
}

static void a_child_has_none_of_our_descriptors(void **state)
{
    (void)state;
    const char *const urls[] = {server_url(server), file_url};
    for (size_t i = 0; i < 2; i++) {
        struct parent parent;
        set_up(&parent, urls[i]);
        assert_true(open_descriptor_count() > parent.descriptors);
        assert_int_equal(run_child(count_in_child, &parent), 0);
        assert_still_held(&parent);
        tear_down(&parent);
        assert_int_equal(open_descriptor_count(), parent.descriptors);
    }
}

static void never_called(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)status;
    (void)arg;
    _exit(99);
}

static int misuse_in_child(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    struct parent *parent = arg;
    pawl_lock *lock = NULL;
    pawl_lock_info info = {.size = sizeof info};
    const pawl_status statuses[] = {
        pawl_lock_acquire(parent->held, PAWL_TRY),
        pawl_lock_acquire(parent->other, PAWL_FOREVER),
        pawl_lock_release(parent->held),
        pawl_lock_extend(parent->held, 1000),
        pawl_lock_inspect(parent->held, &info),
        pawl_lock_break(parent->held),
        pawl_lock_acquire_async(parent->other, PAWL_TRY, never_called, NULL),
        pawl_lock_release_async(parent->other, never_called, NULL),
        pawl_lock_open(parent->client, "new", NULL, &lock),
        pawl_client_dispatch(parent->client),
        pawl_lock_close(parent->held),
        pawl_client_close(parent->client),
    };
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        if (statuses[i] != PAWL_MISUSE) {
            return 1 + (int)i;
        }
    }
    pawl_lock_cancel(parent->other);
    if (pawl_lock_token(parent->held) != 0 || pawl_lock_remaining_ms(parent->held) != 0 ||
        pawl_lock_hold_count(parent->held) != 0 || pawl_client_fd(parent->client) != -1) {
        return 50;
    }
    return strstr(pawl_last_error(), "fork") != NULL ? 0 : 51;
}

static void inherited_handles_answer_misuse(void **state)
{
    (void)state;
    const char *const urls[] = {server_url(server), file_url};
    for (size_t i = 0; i < 2; i++) {
        struct parent parent;
        set_up(&parent, urls[i]);
        assert_int_equal(run_child(misuse_in_child, &parent), 0);
        assert_still_held(&parent);
        tear_down(&parent);
    }
}

/* What the shell cannot see was not inherited: spawned without fork handlers, so that only
 * close-on-exec can have closed it. */
static long count_in_shell(void)
{
    long count = -1;
    FILE *shell = popen("ls /proc/self/fd | wc -l", "r");
    assert_non_null(shell);
    assert_int_equal(fscanf(shell, "%ld", &count), 1);
    pclose(shell);
    return count;
}

static void an_executed_program_has_none_of_our_descriptors(void **state)
{
    (void)state;
    const char *const urls[] = {server_url(server), file_url};
    for (size_t i = 0; i < 2; i++) {
        struct parent parent;
        const long before = count_in_shell();
        set_up(&parent, urls[i]);
        assert_int_equal(count_in_shell(), before);
        assert_still_held(&parent);
        tear_down(&parent);
    }
}

/* ===== How the child ends ===== */

static int end_with_exit(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    (void)arg;
    exit(0); /* with all handlers */
}

static int end_with_underscore_exit(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    (void)arg;
    _exit(0);
}

static int end_with_kill(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    (void)arg;
    raise(SIGKILL);
    return 1;
}

static int end_with_exec(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    (void)arg;
    execlp("true", "true", (char *)NULL);
    return 1;
}

static void however_the_child_ends_the_lock_stays(void **state)
{
    (void)state;
    const char *const urls[] = {server_url(server), file_url};
    for (size_t i = 0; i < 2; i++) {
        struct parent parent;
        set_up(&parent, urls[i]);
        assert_int_equal(run_child(end_with_exit, &parent), 0);
        assert_still_held(&parent);
        assert_int_equal(run_child(end_with_underscore_exit, &parent), 0);
        assert_still_held(&parent);
        assert_int_equal(run_child(end_with_kill, &parent), 128 + SIGKILL);
        assert_still_held(&parent);
        assert_int_equal(run_child(end_with_exec, &parent), 0);
        assert_still_held(&parent);
        nap_ms(LEASE_MS / 2); /* and it is still renewed */
        assert_still_held(&parent);
        tear_down(&parent);
    }
}

/* ===== The child's own ===== */

static int open_in_child(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    struct parent *parent = arg;
    pawl_client *client = NULL;
    pawl_lock *held = NULL;
    pawl_lock *own = NULL;
    if (pawl_client_open(parent->url, NULL, &client) != PAWL_OK ||
        pawl_lock_open(client, "held", NULL, &held) != PAWL_OK ||
        pawl_lock_open(client, "own", NULL, &own) != PAWL_OK) {
        return 1;
    }
    if (pawl_lock_acquire(held, 50) != PAWL_BUSY || pawl_lock_release(held) != PAWL_NOT_HELD) {
        return 2;
    }
    if (pawl_lock_acquire(own, PAWL_TRY) != PAWL_OK || pawl_lock_token(own) == 0 ||
        pawl_lock_release(own) != PAWL_OK) {
        return 3;
    }
    pawl_lock_close(own);
    pawl_lock_close(held);
    return pawl_client_close(client) == PAWL_OK ? 0 : 4;
}

static void a_child_opens_its_own_client(void **state)
{
    (void)state;
    const char *const urls[] = {server_url(server), file_url};
    for (size_t i = 0; i < 2; i++) {
        struct parent parent;
        set_up(&parent, urls[i]);
        assert_int_equal(run_child(open_in_child, &parent), 0);
        assert_still_held(&parent);
        tear_down(&parent);
    }
}

/* ===== In the middle of things ===== */

struct busy {
    pthread_t thread;
    pawl_client *client;
    _Atomic bool *stop;
    size_t index;
    unsigned long rounds;
    pawl_status status; /* the first that is not as it should be */
};

static void *be_busy(void *arg)
{
    struct busy *busy = arg;
    char name[32];
    pawl_lock *lock = NULL;
    snprintf(name, sizeof name, "busy%zu", busy->index / 2);
    busy->status = pawl_lock_open(busy->client, name, NULL, &lock);
    while (busy->status == PAWL_OK && !atomic_load(busy->stop)) {
        busy->status = pawl_lock_acquire(lock, 5000);
        if (busy->status == PAWL_OK) {
            busy->status = pawl_lock_release(lock);
        }
        busy->rounds++;
    }
    pawl_lock_close(lock);
    return NULL;
}

static void fork_while_busy(const char *url)
{
    enum { THREADS = 4, FORKS = 40 };
    struct parent parent;
    struct busy threads[THREADS];
    static _Atomic bool stop;
    set_up(&parent, url);
    atomic_store(&stop, false);
    for (size_t i = 0; i < THREADS; i++) {
        threads[i] = (struct busy){.client = parent.client, .stop = &stop, .index = i};
        assert_int_equal(pthread_create(&threads[i].thread, NULL, be_busy, &threads[i]), 0);
    }
    for (int i = 0; i < FORKS; i++) {
        /* Counting needs memory, which a sanitizer may refuse to give in such a child. */
        const bool count = i % 2 != 0 && SLOWNESS == 1;
        assert_int_equal(run_child(count ? count_in_child : misuse_in_child, &parent), 0);
    }
    atomic_store(&stop, true);
    unsigned long rounds = 0;
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i].thread, NULL);
        assert_int_equal(threads[i].status, PAWL_OK);
        rounds += threads[i].rounds;
    }
    print_message("%d forks during %lu rounds (%.5s)\n", FORKS, rounds, url);
    assert_still_held(&parent);
    tear_down(&parent);
}

static void forks_in_the_middle_of_heavy_use(void **state)
{
    (void)state;
    fork_while_busy(server_url(server));
    fork_while_busy(file_url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(backend_begin_file, a_child_has_none_of_our_descriptors),
        CASE(backend_begin_file, inherited_handles_answer_misuse),
        CASE(backend_begin_file, an_executed_program_has_none_of_our_descriptors),
        CASE(backend_begin_file, however_the_child_ends_the_lock_stays),
        CASE(backend_begin_file, forks_in_the_middle_of_heavy_use),
    };
    /* A sanitizer's own locks do not survive the fork of a busy process. */
    const struct CMUnitTest plain_tests[] = {
        CASE(backend_begin_file, a_child_opens_its_own_client),
    };
    int failed = cmocka_run_group_tests(tests, backend_start, NULL);
    if (SLOWNESS == 1) {
        failed += cmocka_run_group_tests(plain_tests, backend_start, NULL);
    } else {
        print_message("left to the plain build: %s\n", plain_tests[0].name);
    }
    return failed;
}
