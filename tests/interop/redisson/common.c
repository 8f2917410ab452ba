/* SPDX-License-Identifier: Apache-2.0 */
/* The C side of the interop cases: waiting callers, counting threads, a holder to be killed.
 *
 * Callers and hammers live on the heap and are joined by the clean-up if a test fails first: it
 * runs newest first, so they end before their client is closed. */
#include "common.h"

#include "support/text.h"
#include "support/thread.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#define DIGITS 20 /* of the number in the file, padded with zeros; the peer has the same */

int interop_begin(void **state)
{
    peer_new_threads(java);
    return flush_and_setup(server, state);
}

void await_listeners(const char *channel, int count)
{
    char expected[600];
    snprintf(expected, sizeof expected, "%s %d", channel, count);
    WAIT_UNTIL(server_answers(server, expected, "PUBSUB NUMSUB %s", channel), PATIENCE_MS);
}

/* Calls less failures of one command in INFO commandstats. */
static int64_t calls_of(const char *stats, const char *command)
{
    char field[64];
    long long calls = 0;
    long long failed = 0;
    snprintf(field, sizeof field, "cmdstat_%s:calls=", command);
    const char *found = strstr(stats, field);
    if (found == NULL) {
        return 0;
    }
    sscanf(found + strlen(field), "%lld", &calls);
    const char *failures = strstr(found, "failed_calls=");
    if (failures != NULL && failures < found + strcspn(found, "\n")) {
        sscanf(failures, "failed_calls=%lld", &failed);
    }
    return calls - failed;
}

int64_t scripts_run(void)
{
    char *stats = server_command(server, "INFO commandstats");
    const int64_t calls = calls_of(stats, "eval") + calls_of(stats, "evalsha");
    free(stats);
    return calls;
}

void await_waiters(const char *channel, int count, int64_t asked)
{
    await_listeners(channel, count);
    WAIT_UNTIL(scripts_run() >= asked + 2 * (int64_t)count, PATIENCE_MS);
    nap_ms(30); /* from the answer to the sleep, which nobody can see from outside */
}

void await_lock_waiters(const char *name, int count, int64_t asked)
{
    char channel[300];
    snprintf(channel, sizeof channel, "redisson_lock__channel:{%s}", name);
    await_waiters(channel, count, asked);
}

pawl_lock *own_kind(pawl_client *client, const char *name, pawl_kind kind, int64_t lease_ms)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.kind = kind;
    options.owner = PAWL_OWNER_HANDLE;
    options.lease_ms = lease_ms;
    pawl_lock *lock = open_lock_with(client, name, &options);
    cleanup_add(close_lock_in_cleanup, lock);
    return lock;
}

/* ===== C callers that wait ===== */

struct caller {
    pthread_t thread;
    pawl_lock *lock;
    int64_t wait_ms;
    bool turn; /* release at once */
    pawl_status status;
    int64_t took_ms;
    _Atomic bool done;
};

static void *call(void *arg)
{
    struct caller *caller = arg;
    const int64_t began_ms = boottime_ms();
    caller->status = pawl_lock_acquire(caller->lock, caller->wait_ms);
    caller->took_ms = boottime_ms() - began_ms;
    if (caller->turn && caller->status == PAWL_OK) {
        caller->status = pawl_lock_release(caller->lock);
    }
    atomic_store(&caller->done, true);
    return NULL;
}

static void drop_caller(void *object)
{
    struct caller *caller = object;
    pawl_lock_cancel(caller->lock);
    pthread_join(caller->thread, NULL);
    free(caller);
}

static struct caller *start(pawl_lock *lock, int64_t wait_ms, bool turn)
{
    struct caller *caller = support_alloc(sizeof *caller);
    caller->lock = lock;
    caller->wait_ms = wait_ms;
    caller->turn = turn;
    thread_start(&caller->thread, call, caller);
    cleanup_add(drop_caller, caller);
    return caller;
}

struct caller *caller_start(pawl_lock *lock, int64_t wait_ms)
{
    return start(lock, wait_ms, false);
}

struct caller *caller_start_turn(pawl_lock *lock, int64_t wait_ms)
{
    return start(lock, wait_ms, true);
}

bool caller_is_waiting(const struct caller *caller)
{
    return !atomic_load(&caller->done);
}

pawl_status caller_end(struct caller *caller, int64_t *took_ms_out)
{
    WAIT_UNTIL(atomic_load(&caller->done), PATIENCE_MS);
    cleanup_drop(caller);
    pthread_join(caller->thread, NULL);
    const pawl_status status = caller->status;
    if (took_ms_out != NULL) {
        *took_ms_out = caller->took_ms;
    }
    free(caller);
    return status;
}

/* ===== Counting together ===== */

static void write_number(int fd, int64_t value)
{
    char digits[DIGITS + 1];
    snprintf(digits, sizeof digits, "%0*" PRId64, DIGITS, value);
    if (pwrite(fd, digits, DIGITS, 0) != DIGITS) {
        support_fail("cannot write the number");
    }
}

static int64_t read_number(int fd)
{
    char digits[DIGITS + 1] = {0};
    if (pread(fd, digits, DIGITS, 0) != DIGITS) {
        support_fail("cannot read the number");
    }
    return strtoll(digits, NULL, 10);
}

static int open_number(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        support_fail("cannot open %s", path);
    }
    return fd;
}

const char *number_make(void)
{
    struct text path = {0};
    text_addf(&path, "%s/number", tempdir_make());
    const int fd = open_number(path.data);
    write_number(fd, 0);
    close(fd);
    char *name = text_take(&path);
    cleanup_add(free, name);
    return name;
}

int64_t number_read(const char *path)
{
    const int fd = open_number(path);
    const int64_t value = read_number(fd);
    close(fd);
    return value;
}

#define HAMMERS_MAX 8

struct hammers {
    pawl_client *client;
    char name[300];
    pawl_kind kind;
    int fd;
    unsigned count;
    unsigned rounds;
    _Atomic unsigned done;
    _Atomic int failed; /* the first status that was not PAWL_OK */
    _Atomic bool stop;
    pthread_t threads[HAMMERS_MAX];
};

static pawl_status add_one(struct hammers *hammers, pawl_lock *lock)
{
    pawl_status status = pawl_lock_acquire(lock, LONG_MS);
    if (status == PAWL_OK) {
        const int64_t value = read_number(hammers->fd);
        sched_yield();
        write_number(hammers->fd, value + 1);
        status = pawl_lock_release(lock);
    }
    return status;
}

/* The lock that a thread hammers under; `members` are to be closed with it. */
static pawl_status open_hammered(
    const struct hammers *hammers, pawl_lock *members[2], pawl_lock **lock_out)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.kind = hammers->kind;
    const char *comma = strchr(hammers->name, ',');
    if (comma == NULL) {
        return pawl_lock_open(hammers->client, hammers->name, &options, lock_out);
    }
    char first[sizeof hammers->name];
    snprintf(first, sizeof first, "%.*s", (int)(comma - hammers->name), hammers->name);
    pawl_status status = pawl_lock_open(hammers->client, first, &options, &members[0]);
    if (status == PAWL_OK) {
        status = pawl_lock_open(hammers->client, comma + 1, &options, &members[1]);
    }
    return status == PAWL_OK ? pawl_lock_open_multi(members, 2, NULL, lock_out) : status;
}

static void *hammer(void *arg)
{
    struct hammers *hammers = arg;
    pawl_lock *members[2] = {NULL, NULL};
    pawl_lock *lock = NULL;
    pawl_status status = open_hammered(hammers, members, &lock);
    for (unsigned i = 0; i < hammers->rounds && status == PAWL_OK; i++) {
        status = atomic_load(&hammers->stop) ? PAWL_CANCELED : add_one(hammers, lock);
    }
    if (status != PAWL_OK) {
        atomic_store(&hammers->failed, (int)status);
    }
    pawl_lock_close(lock);
    pawl_lock_close(members[0]);
    pawl_lock_close(members[1]);
    atomic_fetch_add(&hammers->done, 1);
    return NULL;
}

static void drop_hammers(void *object)
{
    struct hammers *hammers = object;
    atomic_store(&hammers->stop, true);
    for (unsigned i = 0; i < hammers->count; i++) {
        pthread_join(hammers->threads[i], NULL);
    }
    close(hammers->fd);
    free(hammers);
}

struct hammers *hammers_start(pawl_client *client, const char *name, pawl_kind kind,
    const char *path, unsigned threads, unsigned rounds)
{
    assert_true(threads <= HAMMERS_MAX);
    struct hammers *hammers = support_alloc(sizeof *hammers);
    hammers->client = client;
    snprintf(hammers->name, sizeof hammers->name, "%s", name);
    hammers->kind = kind;
    hammers->fd = open_number(path);
    hammers->rounds = rounds;
    cleanup_add(drop_hammers, hammers);
    for (; hammers->count < threads; hammers->count++) {
        thread_start(&hammers->threads[hammers->count], hammer, hammers);
    }
    return hammers;
}

void hammers_end(struct hammers *hammers, int64_t timeout_ms)
{
    WAIT_UNTIL(atomic_load(&hammers->done) == hammers->count, timeout_ms);
    const pawl_status failed = (pawl_status)atomic_load(&hammers->failed);
    cleanup_drop(hammers);
    drop_hammers(hammers);
    ASSERT_OK(failed);
}

void count_together(const char *kind, pawl_kind our_kind, unsigned threads, unsigned rounds)
{
    const char *path = number_make();
    pawl_client *client = open_client(server_url(server), NULL);
    unsigned asked[HAMMERS_MAX];
    assert_true(threads <= HAMMERS_MAX);
    for (unsigned i = 0; i < threads; i++) {
        char thread[16];
        snprintf(thread, sizeof thread, "T%u", i);
        asked[i] = peer_ask(java, thread, "%s count hammer %s %u", kind, path, rounds);
    }
    hammers_end(hammers_start(client, "count", our_kind, path, threads, rounds), 2 * LONG_MS);
    for (unsigned i = 0; i < threads; i++) {
        PEER_ANSWERS("ok", java, asked[i], 2 * LONG_MS);
    }
    assert_int_equal(number_read(path), 2 * threads * rounds);
}

/* ===== The process that is killed ===== */

struct child *start_victim(const char *name, pawl_kind kind, int64_t lease_ms, int64_t wait_ms)
{
    char arg[2 * URL_SIZE];
    snprintf(arg, sizeof arg, "%s %s %d %d %d", server_url(server), name, (int)kind, (int)lease_ms,
        (int)wait_ms);
    return child_start("victim", arg);
}

void await_victim(struct child *victim)
{
    char *line = child_read_line(victim, PATIENCE_MS);
    assert_non_null(line);
    assert_string_equal(line, "held");
    free(line);
}

void kill_victim(struct child *victim)
{
    child_signal(victim, SIGKILL);
    assert_int_equal(child_wait(victim, PATIENCE_MS), 128 + SIGKILL);
}

int victim_body(const struct child_pipes *pipes, const char *arg)
{
    char url[URL_SIZE];
    char name[URL_SIZE];
    int kind = 0;
    int lease_ms = 0;
    int wait_ms = 0;
    assert_int_equal(sscanf(arg, "%511s %511s %d %d %d", url, name, &kind, &lease_ms, &wait_ms), 5);
    pawl_lock *lock = own_kind(open_client(url, NULL), name, (pawl_kind)kind, lease_ms);
    ASSERT_OK(pawl_lock_acquire(lock, wait_ms));
    assert_int_equal(write(pipes->out, "held\n", 5), 5);
    for (;;) {
        pause();
    }
}
