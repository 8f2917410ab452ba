/* SPDX-License-Identifier: Apache-2.0 */
/* Training with all that is not the mutex: other kinds of locks, semaphores, permits, latches,
 * several locks and several servers at once, and what operators ask. */
#include "training.h"

#include <stddef.h>

enum { KIND_PAIRS = 400, KIND_THREADS = 4, CROWD_PAIRS = 15, COUNT_PAIRS = 300, SERVERS = 3 };

/* ===== Kinds of locks ===== */

struct kind_crowd {
    pawl_client *client;
    pawl_lock_options options;
};

static void use_kind(void *arg, int number)
{
    const struct kind_crowd *crowd = arg;
    pawl_lock_options options = crowd->options;
    if (options.kind == PAWL_WRITE && number % 2 == 0) {
        options.kind = PAWL_READ;
    }
    pawl_lock *lock = open_numbered(crowd->client, "kind", (int)crowd->options.kind, &options);
    use_lock(lock, CROWD_PAIRS);
    close_lock(lock);
}

void train_kinds(const char *url)
{
    static const pawl_kind kinds[] = {PAWL_FAIR, PAWL_READ, PAWL_WRITE, PAWL_SPIN, PAWL_PLAIN};
    struct kind_crowd crowd = {.client = open_client(url), .options = PAWL_LOCK_OPTIONS_INIT};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        crowd.options.kind = kinds[i];
        pawl_lock *lock = open_numbered(crowd.client, "kind", (int)kinds[i], &crowd.options);
        use_lock(lock, KIND_PAIRS);
        run_threads(KIND_THREADS, use_kind, &crowd);
        close_lock(lock);
    }
    close_client(crowd.client);
}

/* ===== What is counted ===== */

static void use_permits(void *arg, int number)
{
    (void)number;
    for (int i = 0; i < COUNT_PAIRS; i++) {
        must(pawl_semaphore_acquire(arg, 1, WAIT_MS), "taking a permit");
        must(pawl_semaphore_release(arg, 1), "giving a permit back");
    }
}

static void train_leased(pawl_client *client)
{
    pawl_semaphore_options options = PAWL_SEMAPHORE_OPTIONS_INIT;
    pawl_semaphore *semaphore = NULL;
    options.leased = true;
    must(pawl_semaphore_open(client, "training-leased", &options, &semaphore), "opening");
    must(pawl_semaphore_set(semaphore, 2, NULL), "setting");
    for (int i = 0; i < COUNT_PAIRS; i++) {
        pawl_permit permits[2];
        must(pawl_permit_acquire(semaphore, 2, WAIT_MS, permits), "taking leased permits");
        must(pawl_permit_extend(semaphore, permits, 2, options.lease_ms), "extending permits");
        must(pawl_permit_release(semaphore, permits, 2), "giving leased permits back");
    }
    must(pawl_semaphore_close(semaphore), "closing a semaphore");
}

static void train_latch(pawl_client *client)
{
    pawl_latch *latch = NULL;
    must(pawl_latch_open(client, "training-latch", &latch), "opening");
    for (int i = 0; i < COUNT_PAIRS / 4; i++) {
        must(pawl_latch_set(latch, 2, NULL), "setting");
        must(pawl_latch_count_down(latch), "counting down");
        must_be(PAWL_BUSY, pawl_latch_wait(latch, PAWL_TRY), "trying");
        must(pawl_latch_count_down(latch), "counting down");
        must(pawl_latch_wait(latch, WAIT_MS), "waiting");
    }
    must(pawl_latch_close(latch), "closing a latch");
}

void train_counts(const char *url)
{
    pawl_client *client = open_client(url);
    pawl_semaphore *semaphore = NULL;
    must(pawl_semaphore_open(client, "training-semaphore", NULL, &semaphore), "opening");
    must(pawl_semaphore_set(semaphore, 2, NULL), "setting");
    use_permits(semaphore, 0);
    run_threads(KIND_THREADS, use_permits, semaphore);
    must(pawl_semaphore_close(semaphore), "closing a semaphore");
    train_leased(client);
    train_latch(client);
    close_client(client);
}

/* ===== Several at once ===== */

static void train_multi(pawl_client *client)
{
    pawl_lock *members[SERVERS];
    for (int i = 0; i < SERVERS; i++) {
        members[i] = open_numbered(client, "member", i, NULL);
    }
    pawl_lock *multi = NULL;
    must(pawl_lock_open_multi(members, SERVERS, NULL, &multi), "opening");
    use_lock(multi, KIND_PAIRS);
    close_lock(multi);
    for (int i = 0; i < SERVERS; i++) {
        close_lock(members[i]);
    }
}

/* One real server among those of the process is enough to know the way. */
void train_several(const char *url)
{
    pawl_client *clients[SERVERS] = {
        open_client(url), open_client("memory:training-1"), open_client("memory:training-2")};
    train_multi(clients[0]);
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.restart_guard = PAWL_GUARD_OFF; /* the servers have just started */
    pawl_lock *quorum = NULL;
    must(pawl_lock_open_quorum(clients, SERVERS, "training-quorum", &options, &quorum), "opening");
    use_lock(quorum, KIND_PAIRS / 2);
    close_lock(quorum);
    for (int i = 0; i < SERVERS; i++) {
        close_client(clients[i]);
    }
}

/* ===== Operators ===== */

static bool count_entry(const pawl_entry *entry, void *arg)
{
    *(int *)arg += entry->held ? 1 : 0;
    return true;
}

static void ignore_finding(const pawl_finding *finding, void *arg)
{
    (void)finding;
    (void)arg;
}

void train_operators(const char *url)
{
    pawl_client *client = open_client(url);
    pawl_lock *lock = open_lock(client, "training-shown", NULL);
    must(pawl_lock_acquire(lock, WAIT_MS), "acquiring");
    for (int i = 0; i < 20; i++) {
        int held = 0;
        pawl_lock_info info = {.size = sizeof info};
        pawl_entry entry = {.size = sizeof entry};
        must(pawl_lock_inspect(lock, &info), "inspecting");
        must(pawl_client_look(client, "training-shown", &entry), "looking");
        must(pawl_client_list(client, "training-*", count_entry, &held), "listing");
        must_be(PAWL_OK, held > 0 && info.held && entry.held ? PAWL_OK : PAWL_LOST, "what is held");
    }
    must(pawl_client_examine(client, ignore_finding, NULL), "examining");
    must(pawl_lock_release(lock), "releasing");
    close_lock(lock);
    close_client(client);
}
