/* SPDX-License-Identifier: Apache-2.0 */
/* P7, signals and the process around us: the library installs no handlers, raises no SIGPIPE,
 * prints nothing, survives any number of signals and the cancellation of a thread that waits. */
#include "promise/lib/backend.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define LEASE_MS 3000

static _Atomic unsigned signal_counts[NSIG];

static void count_signal(int number)
{
    atomic_fetch_add(&signal_counts[number], 1);
}

/* Without SA_RESTART: calls of the system are interrupted. */
static void catch_signal(int number, struct sigaction *old_out)
{
    struct sigaction action = {.sa_handler = count_signal};
    sigemptyset(&action.sa_mask);
    atomic_store(&signal_counts[number], 0);
    assert_int_equal(sigaction(number, &action, old_out), 0);
}

/* ===== Handlers and SIGPIPE ===== */

static void no_handler_is_installed(void **state)
{
    (void)state;
    static struct sigaction before[NSIG];
    for (int i = 1; i < NSIG; i++) {
        sigaction(i, NULL, &before[i]);
    }
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_handle(client, "x", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    for (int i = 1; i < NSIG; i++) {
        struct sigaction now = {.sa_flags = -1};
        if (sigaction(i, NULL, &now) != 0) {
            continue; /* the C library's own */
        }
        assert_true(now.sa_handler == before[i].sa_handler);
        assert_true(now.sa_flags == before[i].sa_flags);
    }
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

static void a_server_that_dies_raises_no_sigpipe(void **state)
{
    (void)state;
    struct sigaction old;
    struct server *mortal = server_start(NULL);
    pawl_client *clients[] = {open_client(server_url(mortal), "?timeout=200ms"),
        open_client(server_unix_url(mortal), "?timeout=200ms")};
    catch_signal(SIGPIPE, &old);
    for (int i = 0; i < 3; i++) {
        for (size_t j = 0; j < 2; j++) {
            char name[32];
            snprintf(name, sizeof name, "pipe-%zu", j);
            pawl_lock *lock = open_lock(clients[j], name, LEASE_MS, true);
            ASSERT_OK(pawl_lock_acquire(lock, 2000));
            server_kill(mortal);
            pawl_lock_release(lock); /* into the void */
            const pawl_status status = pawl_lock_acquire(lock, PAWL_TRY);
            assert_true(status == PAWL_UNAVAILABLE || status == PAWL_LOST);
            server_restart(mortal, false);
            pawl_lock_close(lock);
        }
    }
    assert_int_equal(atomic_load(&signal_counts[SIGPIPE]), 0);
    close_client(clients[0]);
    close_client(clients[1]);
    sigaction(SIGPIPE, &old, NULL);
    server_stop(mortal);
}

/* Signals are for the program's own threads: ours block them all. */
static void our_threads_take_no_signals(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_handle(client, "x", LEASE_MS, true);
    static struct losses losses;
    pawl_lock *fixed = open_watched(client, "fixed", 100, false, &losses);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));  /* starts the keeper */
    ASSERT_OK(pawl_lock_acquire(fixed, PAWL_TRY)); /* and, when it is lost, the courier */
    WAIT_UNTIL(atomic_load(&losses.count) > 0, 2000);

    unsigned found = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        char path[64];
        char line[128];
        bool ours = false;
        snprintf(path, sizeof path, "/proc/self/task/%.20s/status", task->d_name);
        FILE *file = fopen(path, "r");
        while (file != NULL && fgets(line, sizeof line, file) != NULL) {
            ours = ours || strstr(line, "pawl-") != NULL;
            if (ours && strncmp(line, "SigBlk:", 7) == 0) {
                const uint64_t blocked = strtoull(line + 7, NULL, 16);
                const uint64_t usual =
                    (UINT64_C(1) << (SIGTERM - 1)) | (UINT64_C(1) << (SIGALRM - 1)) |
                    (UINT64_C(1) << (SIGINT - 1)) | (UINT64_C(1) << (SIGPIPE - 1));
                assert_true((blocked & usual) == usual);
                found++;
            }
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    closedir(tasks);
    assert_int_equal(found, 2);
    ASSERT_STATUS(PAWL_LOST, pawl_lock_release(fixed));
    pawl_lock_close(fixed);
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
}

/* ===== A storm ===== */

/* Everything that a program does with a lock, again and again. */
static void use_in_the_storm(const char *url, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        pawl_client *client = open_client(url, NULL);
        pawl_client *other = open_client(url, NULL);
        pawl_lock *lock = open_lock(client, "storm", LEASE_MS, true);
        pawl_lock *rival = open_lock(other, "storm", LEASE_MS, true);
        for (int j = 0; j < 50; j++) {
            ASSERT_OK(pawl_lock_acquire(lock, PAWL_FOREVER));
            ASSERT_OK(pawl_lock_release(lock));
        }
        ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
        const int64_t began_ms = boottime_ms();
        ASSERT_STATUS(PAWL_BUSY, pawl_lock_acquire(rival, 150));
        const int64_t took_ms = boottime_ms() - began_ms;
        assert_true(took_ms >= 150);
        assert_true(took_ms <= 150 + SLACK_MS);
        ASSERT_OK(pawl_lock_extend(lock, LEASE_MS));
        ASSERT_OK(pawl_lock_release(lock));
        pawl_lock_close(rival);
        pawl_lock_close(lock);
        ASSERT_OK(close_client(other));
        ASSERT_OK(close_client(client));
    }
}

static void a_storm_of_signals_does_no_harm(void **state)
{
    (void)state;
    struct sigaction old;
    char url[URL_SIZE];
    const struct itimerval every_ms = {{0, 1000}, {0, 1000}};
    const struct itimerval never = {{0, 0}, {0, 0}};
    snprintf(url, sizeof url, "file://%s", tempdir_make());
    catch_signal(SIGALRM, &old);
    setitimer(ITIMER_REAL, &every_ms, NULL);
    use_in_the_storm(server_url(server), 5);
    use_in_the_storm(server_unix_url(server), 2);
    use_in_the_storm(url, 3);
    setitimer(ITIMER_REAL, &never, NULL);
    const unsigned count = atomic_load(&signal_counts[SIGALRM]);
    sigaction(SIGALRM, &old, NULL);
    print_message("%u signals\n", count);
    assert_true(count > 200);
}

/* ===== Cancellation ===== */

struct doomed {
    pthread_t thread;
    pawl_client *client;
    _Atomic bool waiting;
    _Atomic bool got;
};

static void close_lock(void *lock)
{
    pawl_lock_close(lock);
}

static void *wait_to_be_canceled(void *arg)
{
    struct doomed *doomed = arg;
    pawl_lock *lock = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = 500; /* for the one that dies with it */
    if (pawl_lock_open(doomed->client, "x", &options, &lock) != PAWL_OK) {
        return NULL;
    }
    pthread_cleanup_push(close_lock, lock);
    atomic_store(&doomed->waiting, true);
    if (pawl_lock_acquire(lock, 15000) == PAWL_OK) {
        pthread_testcancel();
        atomic_store(&doomed->got, true);
        pawl_lock_release(lock);
    }
    pthread_cleanup_pop(1);
    return NULL;
}

/* One of those who wait reads for all of them; whichever is canceled, the others get their turn. */
static void cancel_one_of_those_who_wait(size_t victim)
{
    enum { THREADS = 4 };
    struct doomed threads[THREADS];
    pawl_client *holder = open_client(server_url(server), NULL);
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = open_lock(holder, "x", LEASE_MS, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    for (size_t i = 0; i < THREADS; i++) {
        threads[i] = (struct doomed){.client = client};
        assert_int_equal(
            pthread_create(&threads[i].thread, NULL, wait_to_be_canceled, &threads[i]), 0);
        WAIT_UNTIL(atomic_load(&threads[i].waiting), 2000);
    }
    nap_ms(50);
    pthread_cancel(threads[victim].thread);
    nap_ms(50);
    ASSERT_OK(pawl_lock_release(lock));
    for (size_t i = 0; i < THREADS; i++) {
        void *result = NULL;
        pthread_join(threads[i].thread, &result);
        assert_true((result == PTHREAD_CANCELED) == (i == victim));
        assert_true(atomic_load(&threads[i].got) == (i != victim));
    }
    ASSERT_OK(pawl_lock_acquire(lock, 2000));
    ASSERT_OK(pawl_lock_release(lock));
    pawl_lock_close(lock);
    ASSERT_OK(close_client(client));
    ASSERT_OK(close_client(holder));
}

static void a_canceled_thread_does_not_take_others_with_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        cancel_one_of_those_who_wait(i);
    }
}

/* ===== Silence ===== */

/* Mistakes and faults of many kinds, with both outputs going into the file. */
static int misbehave(const struct child_pipes *pipes, const char *path)
{
    (void)pipes;
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    const int fd = open(path, O_WRONLY | O_APPEND);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0) {
        return 1;
    }
    bool failed = pawl_client_open("redis://127.0.0.1:1", NULL, &client) != PAWL_OK;
    failed = pawl_client_open("nonsense", NULL, &client) != PAWL_OK && failed;
    failed = pawl_client_open("redis://:%zz@x", NULL, &client) != PAWL_OK && failed;
    failed = pawl_lock_acquire(NULL, PAWL_TRY) != PAWL_OK && failed;
    if (!failed || pawl_client_open("memory:silent", NULL, &client) != PAWL_OK ||
        pawl_lock_open(client, "x", NULL, &lock) != PAWL_OK) {
        return 2;
    }
    failed = pawl_lock_release(lock) == PAWL_NOT_HELD;
    failed = pawl_lock_extend(lock, -5) == PAWL_INVALID && failed;
    failed = pawl_lock_acquire(lock, -7) == PAWL_INVALID && failed;
    pawl_client_close(client);
    pawl_lock_close(lock);
    return failed ? 0 : 3;
}

static void nothing_is_printed(void **state)
{
    (void)state;
    char path[URL_SIZE];
    struct stat status;
    snprintf(path, sizeof path, "%s/output", tempdir_make());
    close(open(path, O_WRONLY | O_CREAT, 0600));
    struct child *child = child_start("clumsy", path);
    assert_int_equal(child_wait(child, 10000), 0);
    child_free(child);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, 0);
}

int main(int argc, char *argv[])
{
    static const struct child_role roles[] = {{"clumsy", misbehave}};
    child_dispatch(argc, argv, roles, 1);
    const struct CMUnitTest tests[] = {
        CASE(backend_begin, no_handler_is_installed),
        CASE(backend_begin, a_server_that_dies_raises_no_sigpipe),
        CASE(backend_begin, our_threads_take_no_signals),
        CASE(backend_begin, a_storm_of_signals_does_no_harm),
        CASE(backend_begin, a_canceled_thread_does_not_take_others_with_it),
        CASE(backend_begin, nothing_is_printed),
    };
    return cmocka_run_group_tests(tests, backend_start, NULL);
}
