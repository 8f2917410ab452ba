/* SPDX-License-Identifier: Apache-2.0 */
/* fork(): a child inherits no lock, and nothing it does or however it ends touches the parent's.
 *
 * Children are mere forks. Under the thread sanitizer those may not start threads, so there they do
 * without clients of their own. No sanitizer lets them allocate memory after a fork among threads
 * at work, whose locks inside the sanitizer they inherit. */
#include "conformance/lib/actor.h"
#include "conformance/lib/tools.h"

#include "support/resources.h"
#include "support/thread.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#define CHILDREN 20
#define FORKS (600 / SUITE_SCALE / SUITE_SCALE)
#define COMERS 8
#define PIPE_ENDS 2 /* descriptors that a child has of its own */

/* What the parent has when it forks. */
struct inheritance {
    const struct suite *suite;
    const char *name; /* of the lock that the parent holds */
    pawl_client *client;
    pawl_lock *lock;
    size_t descriptors; /* before the client was opened */
};

static struct inheritance make(const struct suite *suite, const pawl_lock_options *options)
{
    struct inheritance it = {.suite = suite, .name = suite->name};
    it.descriptors = open_descriptor_count();
    it.client = open_client(suite);
    it.lock = open_lock(it.client, suite->name, options);
    EXPECT(PAWL_OK, pawl_lock_acquire(it.lock, PAWL_TRY));
    return it;
}

/* Run it in a child; the child must end well. */
static void run_child(
    int (*body)(const struct child_pipes *pipes, void *arg), struct inheritance *it)
{
    struct child *child = child_fork(body, it);
    assert_int_equal(child_wait(child, 2 * SOON_MS), 0);
    child_free(child);
}

/* The same for a child that must not allocate: `body` makes no use of cmocka. */
static void run_bare_child(int (*body)(const struct inheritance *it), const struct inheritance *it)
{
    int status = 0;
    const pid_t parent = getpid();
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        die_with_parent(parent);
        _exit(body(it));
    }
    if (!reap(pid, &status, 2 * SOON_MS)) {
        kill(pid, SIGKILL);
        reap(pid, &status, SOON_MS);
    }
    assert_int_equal(status, 0);
}

/* The parent holds as before. */
static void check_parent(const struct inheritance *it)
{
    assert_int_equal(pawl_lock_hold_count(it->lock), 1);
    assert_true(pawl_lock_remaining_ms(it->lock) > 0);
    expect_busy(it->suite, it->name);
    EXPECT(PAWL_OK, pawl_lock_release(it->lock));
    expect_free(it->suite, it->name);
}

static int use_inherited(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    const struct inheritance *it = arg;
    pawl_lock_info info = {.size = sizeof info};
    pawl_lock *made = NULL;
    EXPECT(PAWL_MISUSE, pawl_lock_acquire(it->lock, PAWL_TRY));
    EXPECT(PAWL_MISUSE, pawl_lock_acquire(it->lock, PAWL_FOREVER));
    EXPECT(PAWL_MISUSE, pawl_lock_release(it->lock));
    EXPECT(PAWL_MISUSE, pawl_lock_extend(it->lock, 1000));
    EXPECT(PAWL_MISUSE, pawl_lock_inspect(it->lock, &info));
    EXPECT(PAWL_MISUSE, pawl_lock_break(it->lock));
    EXPECT(PAWL_MISUSE, pawl_lock_acquire_async(it->lock, PAWL_TRY, record_done, NULL));
    EXPECT(PAWL_MISUSE, pawl_lock_release_async(it->lock, record_done, NULL));
    EXPECT(PAWL_MISUSE, pawl_lock_open(it->client, "child", NULL, &made));
    EXPECT(PAWL_MISUSE, pawl_client_dispatch(it->client));
    assert_null(made);
    assert_int_equal(pawl_client_fd(it->client), -1);
    assert_int_equal(pawl_lock_token(it->lock), 0);
    assert_int_equal(pawl_lock_remaining_ms(it->lock), 0);
    assert_int_equal(pawl_lock_hold_count(it->lock), 0);
    pawl_lock_cancel(it->lock);
    EXPECT(PAWL_MISUSE, pawl_lock_close(it->lock));
    EXPECT(PAWL_MISUSE, pawl_client_close(it->client));
    return 0;
}

static void a_child_cannot_use_what_it_inherits(const struct suite *suite)
{
    const pawl_lock_options options = handle_options();
    struct inheritance it = make(suite, &options);
    run_child(use_inherited, &it);
    check_parent(&it);
}

static int count_descriptors(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    const struct inheritance *it = arg;
    assert_int_equal(open_descriptor_count(), it->descriptors + PIPE_ENDS);
    return 0;
}

static void a_child_has_none_of_our_descriptors(const struct suite *suite)
{
    struct inheritance it = make(suite, NULL);
    pawl_lock *rival = open_thread_lock(open_client(suite), suite->name);
    struct actor *actor = actor_new();
    actor_acquire(actor, rival, PAWL_FOREVER); /* so that all are open that ever will be */
    actor_await_sleep(actor);
    run_child(count_descriptors, &it);
    EXPECT(PAWL_OK, pawl_lock_release(it.lock));
    EXPECT(PAWL_OK, actor_answer(actor));
}

static int do_nothing(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    (void)arg;
    return 0;
}

static void the_end_of_a_child_releases_nothing(const struct suite *suite)
{
    struct inheritance it = make(suite, NULL);
    for (int i = 0; i < 3; i++) {
        run_child(do_nothing, &it);
    }
    check_parent(&it);
}

static int wait_to_be_killed(const struct child_pipes *pipes, void *arg)
{
    (void)arg;
    char byte = 0;
    return read(pipes->in, &byte, 1) == 1 ? 0 : 1;
}

static void a_killed_child_releases_nothing(const struct suite *suite)
{
    struct inheritance it = make(suite, NULL);
    struct child *child = child_fork(wait_to_be_killed, &it);
    child_signal(child, SIGKILL);
    assert_int_equal(child_wait(child, SOON_MS), 128 + SIGKILL);
    check_parent(&it);
}

/* The child stays. The parent's release must free the lock all the same: no copy of a descriptor
 * may keep it. */
static void a_child_that_stays_keeps_nothing(const struct suite *suite)
{
    struct inheritance it = make(suite, NULL);
    struct child *child = child_fork(wait_to_be_killed, &it);
    check_parent(&it);
    assert_true(child_is_running(child));
    child_signal(child, SIGKILL);
    assert_int_equal(child_wait(child, SOON_MS), 128 + SIGKILL);
}

static void renewal_goes_on_in_the_parent(const struct suite *suite)
{
    const pawl_lock_options options = renewed_options(RENEWED_MS);
    struct inheritance it = make(suite, &options);
    const int64_t end_ms = boottime_ms() + RENEWED_MS + RENEWED_MS / 4;
    while (boottime_ms() < end_ms) {
        run_child(do_nothing, &it);
        assert_true(pawl_lock_remaining_ms(it.lock) > 0);
    }
    check_parent(&it);
}

/* ===== Clients of the child's own ===== */

/* In the child: a client on the same URL, where the parent's lock is busy, or none of this
 * process's business. */
static void use_own_client(const struct inheritance *it, const char *own_name)
{
    const struct suite *suite = it->suite;
    pawl_client *client = open_client(suite);
    pawl_lock *same = open_thread_lock(client, it->name);
    pawl_lock *own = open_thread_lock(client, own_name);
    if (suite->engine->has[FLAG_PROCESSES]) {
        EXPECT(PAWL_BUSY, pawl_lock_acquire(same, PAWL_TRY));
        EXPECT(PAWL_NOT_HELD, pawl_lock_release(same));
    } else {
        EXPECT(PAWL_OK, pawl_lock_acquire(same, PAWL_TRY));
        EXPECT(PAWL_OK, pawl_lock_release(same));
    }
    EXPECT(PAWL_OK, pawl_lock_acquire(own, SOON_MS));
    EXPECT(PAWL_OK, pawl_lock_release(own));
    EXPECT(PAWL_OK, close_client(client));
    EXPECT(PAWL_OK, close_lock(same));
    EXPECT(PAWL_OK, close_lock(own));
}

static int be_independent(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    const struct inheritance *it = arg;
    EXPECT(PAWL_MISUSE, pawl_lock_release(it->lock));
    if (!SUITE_TSAN) {
        use_own_client(it, suite_name(it->suite, "own"));
    }
    EXPECT(PAWL_MISUSE, pawl_lock_release(it->lock));
    return 0;
}

static void a_child_opens_its_own(const struct suite *suite)
{
    struct inheritance it = make(suite, NULL);
    run_child(be_independent, &it);
    check_parent(&it);
}

static int have_a_child(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    struct inheritance *it = arg;
    struct inheritance own = *it;
    if (!SUITE_TSAN) {
        own.client = open_client(it->suite);
        own.name = suite_name(it->suite, "child");
        own.lock = open_thread_lock(own.client, own.name);
        EXPECT(PAWL_OK, pawl_lock_acquire(own.lock, PAWL_TRY));
        run_child(be_independent, &own);
        EXPECT(PAWL_OK, pawl_lock_release(own.lock));
        EXPECT(PAWL_OK, close_lock(own.lock));
        EXPECT(PAWL_OK, close_client(own.client));
    }
    run_child(use_inherited, it);
    return use_inherited(pipes, it);
}

static void a_grandchild_inherits_nothing_either(const struct suite *suite)
{
    const pawl_lock_options options = handle_options();
    struct inheritance it = make(suite, &options);
    run_child(have_a_child, &it);
    check_parent(&it);
}

/* ===== While threads are at work ===== */

struct work {
    pawl_lock *shared;
    pawl_lock *own;
    _Atomic bool enough;
    _Atomic uint64_t rounds;
};

static pawl_status work(void *arg)
{
    struct work *work = arg;
    pawl_status status = PAWL_OK;
    while (status == PAWL_OK && !atomic_load(&work->enough)) {
        status = pawl_lock_acquire(work->shared, PAWL_FOREVER);
        if (status == PAWL_OK) {
            status = pawl_lock_release(work->shared);
        }
        if (status == PAWL_OK) {
            status = pawl_lock_acquire(work->own, PAWL_FOREVER);
        }
        if (status == PAWL_OK) {
            status = pawl_lock_release(work->own);
        }
        atomic_fetch_add(&work->rounds, 1);
    }
    return status;
}

static int find_misuse(const struct inheritance *it)
{
    return pawl_lock_release(it->lock) == PAWL_MISUSE && pawl_lock_token(it->lock) == 0 ? 0 : 1;
}

/* At the fork any mutex of the library may be taken by a thread that the child does not have. */
static void fork_while_threads_work(const struct suite *suite)
{
    static struct work works[4];
    struct inheritance it = make(suite, NULL);
    struct actor *actors[4];
    pawl_client *other = open_client(suite);
    const char *const endings[] = {"1", "2", "3", "4"};
    for (size_t i = 0; i < 4; i++) {
        pawl_client *client = i % 2 == 0 ? it.client : other;
        works[i].shared = open_thread_lock(client, suite_name(suite, "shared"));
        works[i].own = open_thread_lock(client, suite_name(suite, endings[i]));
        atomic_store(&works[i].enough, false);
        atomic_store(&works[i].rounds, 0);
        actors[i] = actor_new();
        actor_call(actors[i], work, &works[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        stop_at_end(&works[i].enough);
    }
    for (int i = 0; i < CHILDREN; i++) {
        const uint64_t rounds = atomic_load(&works[i % 4].rounds);
        if (SUITE_SCALE == 1) {
            run_child(be_independent, &it);
        } else {
            run_bare_child(find_misuse, &it);
        }
        WAIT_UNTIL(atomic_load(&works[i % 4].rounds) > rounds, SOON_MS); /* they go on */
    }
    for (size_t i = 0; i < 4; i++) {
        atomic_store(&works[i].enough, true);
    }
    for (size_t i = 0; i < 4; i++) {
        EXPECT(PAWL_OK, actor_answer(actors[i]));
    }
    check_parent(&it);
}

/* ===== While threads end ===== */

struct coming_and_going {
    pawl_lock *lock;
    _Atomic bool enough;
};

static void *end_as_holder(void *arg)
{
    const pawl_status status = pawl_lock_acquire(arg, PAWL_TRY);
    (void)status; /* held or busy: it ends here */
    return NULL;
}

static pawl_status let_threads_end(void *arg)
{
    struct coming_and_going *it = arg;
    while (!atomic_load(&it->enough)) {
        pthread_t thread;
        thread_start(&thread, end_as_holder, it->lock);
        pthread_join(thread, NULL);
    }
    return PAWL_OK;
}

static pawl_status come_and_go(void *arg)
{
    struct coming_and_going *it = arg;
    while (!atomic_load(&it->enough)) {
        if (pawl_lock_acquire(it->lock, 50) == PAWL_OK) {
            pawl_lock_release(it->lock);
        }
    }
    return PAWL_OK;
}

static int find_nothing(const struct inheritance *it)
{
    (void)it;
    return 0;
}

/* The end of a thread goes through every client of the process, and so does a fork. */
static void fork_while_threads_end(const struct suite *suite)
{
    static struct coming_and_going it;
    const pawl_lock_options options = fixed_options(10);
    struct actor *actors[COMERS];
    it.lock = open_lock(open_client(suite), suite->name, &options);
    atomic_store(&it.enough, false);
    for (size_t i = 0; i < COMERS; i++) {
        actors[i] = actor_new();
        actor_call(actors[i], i < COMERS / 2 ? let_threads_end : come_and_go, &it);
    }
    stop_at_end(&it.enough);
    alarm((unsigned)(3 * SOON_MS / 1000)); /* nothing else ends a fork() that hangs */
    for (int i = 0; i < FORKS; i++) {
        run_bare_child(find_nothing, NULL);
    }
    alarm(0);
    atomic_store(&it.enough, true);
    for (size_t i = 0; i < COMERS; i++) {
        EXPECT(PAWL_OK, actor_answer(actors[i]));
    }
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_FORK, a_child_cannot_use_what_it_inherits),
    SUITE_CASE(FLAG_FORK, a_child_has_none_of_our_descriptors),
    SUITE_CASE(FLAG_FORK, the_end_of_a_child_releases_nothing),
    SUITE_CASE(FLAG_FORK, a_killed_child_releases_nothing),
    SUITE_CASE(FLAG_FORK, a_child_that_stays_keeps_nothing),
    SUITE_CASE(FLAG_FORK, renewal_goes_on_in_the_parent),
    SUITE_CASE(FLAG_FORK, a_child_opens_its_own),
    SUITE_CASE(FLAG_FORK, a_grandchild_inherits_nothing_either),
    SUITE_CASE(FLAG_FORK, fork_while_threads_work),
    SUITE_CASE(FLAG_FORK, fork_while_threads_end),
};

SUITE_GROUP(suite_fork, cases);
