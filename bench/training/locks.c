/* SPDX-License-Identifier: Apache-2.0 */
/* Training with the mutex: alone, in company, in vain. The first part has most of the weight: more
 * pairs than all others together. */
#include "training.h"

#include <semaphore.h>
#include <string.h>

enum {
    ALONE_PAIRS = 12000,
    THREADS = 8,
    THREAD_PAIRS = 500,
    HOT_PAIRS = 60,
    BUSY_TRIES = 200,
    BUSY_WAITS = 20,
    REENTRIES = 300,
    RENEWED = 100,
    LEASE_MS = 300,
    ASYNC_PAIRS = 500
};

static bool in_files(const char *url)
{
    return strncmp(url, "file:", 5) == 0;
}

/* ===== One thread ===== */

void train_one_thread(const char *url)
{
    pawl_client *client = open_client(url);
    pawl_lock *lock = open_lock(client, "training", NULL);
    use_lock(lock, in_files(url) ? ALONE_PAIRS / 5 : ALONE_PAIRS);
    for (int i = 0; i < 200; i++) {
        must(pawl_lock_acquire(lock, PAWL_TRY), "trying");
        if (pawl_lock_token(lock) == 0 || pawl_lock_remaining_ms(lock) == 0 ||
            pawl_lock_hold_count(lock) != 1) {
            must(PAWL_LOST, "what is held");
        }
        must(pawl_lock_release(lock), "releasing");
    }
    close_lock(lock);
    close_client(client);
}

/* ===== Several threads ===== */

static void use_own_lock(void *arg, int number)
{
    pawl_lock *lock = open_numbered(arg, "own", number, NULL);
    use_lock(lock, THREAD_PAIRS);
    close_lock(lock);
}

static void use_unawaited(void *arg, int number)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.release_unawaited = true;
    pawl_lock *lock = open_numbered(arg, "unawaited", number, &options);
    use_lock(lock, THREAD_PAIRS / 4);
    close_lock(lock);
}

void train_threads(const char *url)
{
    pawl_client *client = open_client(url);
    run_threads(THREADS, use_own_lock, client);
    run_threads(THREADS, use_unawaited, client);
    close_client(client);
}

/* ===== One lock for all ===== */

struct crowd {
    pawl_client *clients[2]; /* so that some wait in the process and some at the backend */
    pawl_lock_options options;
};

static void use_common_lock(void *arg, int number)
{
    const struct crowd *crowd = arg;
    pawl_lock *lock = open_lock(crowd->clients[number % 2], "training-hot", &crowd->options);
    use_lock(lock, HOT_PAIRS);
    close_lock(lock);
}

void train_hot_lock(const char *url)
{
    struct crowd crowd = {
        .clients = {open_client(url), open_client(url)}, .options = PAWL_LOCK_OPTIONS_INIT};
    run_threads(THREADS, use_common_lock, &crowd);
    if (!in_files(url)) {
        crowd.options.handoff = 16;
        run_threads(THREADS, use_common_lock, &crowd);
    }
    close_client(crowd.clients[0]);
    close_client(crowd.clients[1]);
}

/* ===== In vain ===== */

static void wait_in_vain(pawl_lock *lock)
{
    for (int i = 0; i < BUSY_TRIES; i++) {
        must_be(PAWL_BUSY, pawl_lock_acquire(lock, PAWL_TRY), "trying a busy lock");
    }
    for (int i = 0; i < BUSY_WAITS; i++) {
        must_be(PAWL_BUSY, pawl_lock_acquire(lock, 5), "waiting for a busy lock");
    }
}

static void wait_beside(void *arg, int number)
{
    (void)number;
    wait_in_vain(arg);
}

/* Another thread of the same client holds it, and then another client. */
void train_busy(const char *url)
{
    pawl_client *clients[] = {open_client(url), open_client(url)};
    pawl_lock *holder = open_lock(clients[0], "training-busy", NULL);
    pawl_lock *other = open_lock(clients[1], "training-busy", NULL);
    must(pawl_lock_acquire(holder, WAIT_MS), "acquiring");
    run_threads(2, wait_beside, holder);
    wait_in_vain(other);
    must(pawl_lock_release(holder), "releasing");
    close_lock(holder);
    close_lock(other);
    close_client(clients[0]);
    close_client(clients[1]);
}

/* ===== Again and again, longer and longer ===== */

void train_reentry(const char *url)
{
    pawl_client *client = open_client(url);
    pawl_lock *lock = open_lock(client, "training-reentry", NULL);
    for (int i = 0; i < REENTRIES; i++) {
        must(pawl_lock_acquire(lock, WAIT_MS), "acquiring");
        use_lock(lock, 2);
        must(pawl_lock_release(lock), "releasing");
    }
    close_lock(lock);
    close_client(client);
}

/* Held for three of the shorter leases: these are renewed about nine times each. */
void train_renewal(const char *url)
{
    pawl_client *client = open_client(url);
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *locks[RENEWED];
    for (int i = 0; i < RENEWED; i++) {
        options.lease_ms = LEASE_MS * (i % 2 == 0 ? 1 : 10);
        locks[i] = open_numbered(client, "renewed", i, &options);
        must(pawl_lock_acquire(locks[i], WAIT_MS), "acquiring");
    }
    pause_ms(3L * LEASE_MS);
    for (int i = 0; i < RENEWED; i++) {
        pawl_status status = pawl_lock_extend(locks[i], options.lease_ms);
        if (status != PAWL_LOST) { /* on a very busy machine a lease may run out */
            must(status, "extending");
        }
        must_be(status, pawl_lock_release(locks[i]), "releasing");
        close_lock(locks[i]);
    }
    close_client(client);
}

/* ===== Without blocking ===== */

static void post(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    must(status, "an asynchronous call");
    sem_post(arg);
}

static void await(sem_t *done)
{
    while (sem_wait(done) != 0) {
    }
}

/* Two at a time, of which one waits for the other. */
void train_async(const char *url)
{
    pawl_client *client = open_client(url);
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.owner = PAWL_OWNER_HANDLE;
    pawl_lock *first = open_lock(client, "training-async", &options);
    pawl_lock *second = open_lock(client, "training-async", &options);
    sem_t done;
    sem_init(&done, 0, 0);
    for (int i = 0; i < ASYNC_PAIRS; i++) {
        must(pawl_lock_acquire_async(first, WAIT_MS, post, &done), "acquiring later");
        must(pawl_lock_acquire_async(second, WAIT_MS, post, &done), "waiting later");
        await(&done);
        must(pawl_lock_release_async(first, post, &done), "releasing later");
        await(&done);
        await(&done);
        must(pawl_lock_release_async(second, post, &done), "releasing later");
        await(&done);
    }
    sem_destroy(&done);
    close_lock(first);
    close_lock(second);
    close_client(client);
}
