/* SPDX-License-Identifier: Apache-2.0 */
/* 04 fencing: a late write that does no harm, because the store refuses it.
 *
 * Introduces pawl_lock_token() and the rule of the store: remember the greatest token seen, refuse
 * smaller ones. No lock with a lease can do without it where a late write would do damage: a holder
 * may be stopped (by the scheduler, by a debugger, with its machine) at any point, also between its
 * last look at the lock and its write.
 *
 * Two workers add to one number. The first reads it, and is then "stopped" until its lease is over.
 * The store is a struct here; docs/guarantees.md has the same in SQL, in Redis and in a file.
 *
 *     cc 04_fencing.c -o 04_fencing $(pkg-config --cflags --libs pawl)
 */
#include <inttypes.h>
#include <pawl.h>
#include <stdio.h>

#define SHORT_LEASE_MS 300

/* ===== The store ===== */

struct store {
    uint64_t token; /* the greatest seen so far */
    int number;
};

/* Both calls have to be one step for the store: a transaction, a script, a mutex. */

/* Read, and raise the mark *first*: a write of an earlier holder that is still under way must be
 * refused from now on, or it would change the number behind our back. */
static bool store_read(struct store *store, uint64_t token, int *number_out)
{
    if (token < store->token) {
        return false;
    }
    store->token = token;
    *number_out = store->number;
    return true;
}

static bool store_write(struct store *store, uint64_t token, int number)
{
    if (token < store->token) {
        return false;
    }
    store->token = token;
    store->number = number;
    return true;
}

/* ===== The workers ===== */

struct worker {
    const char *name;
    bool stops;          /* in the middle of its work */
    pawl_client *client; /* two clients are two owners, as two processes would be */
    pawl_lock *lock;
    uint64_t token;
    int number; /* as this worker has read it */
};

static bool worker_open(struct worker *worker)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    if (worker->stops) {
        options.lease_ms = SHORT_LEASE_MS;
        options.renew = false; /* whoever is stopped cannot renew */
    }
    return pawl_client_open(NULL, NULL, &worker->client) == PAWL_OK &&
           pawl_lock_open(worker->client, "example-fencing", &options, &worker->lock) == PAWL_OK;
}

static void worker_close(struct worker *worker)
{
    pawl_lock_close(worker->lock);
    pawl_client_close(worker->client);
}

/* Keep the token from when the lock was granted: pawl_lock_token() is 0 once it is lost. */
static bool worker_begin(struct worker *worker, struct store *store)
{
    if (pawl_lock_acquire(worker->lock, 10000) != PAWL_OK) {
        return false;
    }
    worker->token = pawl_lock_token(worker->lock);
    bool done = store_read(store, worker->token, &worker->number);
    printf("%s: has the lock with token %" PRIu64 ", reads %d\n", worker->name, worker->token,
        worker->number);
    return done;
}

static bool worker_add(struct worker *worker, struct store *store, int more)
{
    bool done = store_write(store, worker->token, worker->number + more);
    printf("%s: writes %d with token %" PRIu64 ": %s\n", worker->name, worker->number + more,
        worker->token, done ? "accepted" : "refused");
    return done;
}

static pawl_status worker_end(struct worker *worker)
{
    pawl_status status = pawl_lock_release(worker->lock);
    printf("%s: release says: %s\n", worker->name, pawl_status_string(status));
    return status;
}

/* ===== The story ===== */

static bool tell(struct worker *first, struct worker *second, struct store *store)
{
    if (!worker_begin(first, store)) {
        return false;
    }
    printf("%s: is stopped\n", first->name);

    /* Granted when the lease of the first is over. */
    if (!worker_begin(second, store) || !worker_add(second, store, 10)) {
        return false;
    }

    printf("%s: goes on, and knows nothing\n", first->name);
    bool accepted = worker_add(first, store, 1);
    pawl_status second_end = worker_end(second);
    pawl_status first_end = worker_end(first);
    printf("the number is %d\n", store->number);
    return !accepted && store->number == 10 && second_end == PAWL_OK && first_end == PAWL_LOST;
}

int main(void)
{
    struct store store = {0, 0};
    struct worker first = {.name = "first ", .stops = true};
    struct worker second = {.name = "second"};
    bool good = worker_open(&first) && worker_open(&second) && tell(&first, &second, &store);
    if (!good) {
        fprintf(stderr, "04_fencing: that was not to be expected: %s\n", pawl_last_error());
    }
    worker_close(&second);
    worker_close(&first);
    return good ? 0 : 1;
}
