/* SPDX-License-Identifier: Apache-2.0 */
/* 05 multi-lock: money from one account to another, both locked, and no way to a deadlock.
 *
 * Introduces pawl_lock_open_multi(). Two threads transfer in opposite directions, each with the
 * accounts in its own order; two locks taken one by one in such orders would sooner or later wait
 * for each other for ever. At the end no money was made or lost.
 *
 *     cc 05_multi_lock.c -o 05_multi_lock $(pkg-config --cflags --libs pawl) -pthread
 *     ./05_multi_lock
 */
#include <pawl.h>
#include <pthread.h>
#include <stdio.h>

enum { ACCOUNTS = 2, TRANSFERS = 100 };

static long balance[ACCOUNTS] = {1000, 1000}; /* guarded by the accounts' locks alone */

struct clerk {
    pawl_client *client;
    int from;
    int to;
    pawl_status status;
};

static pawl_status transfer(pawl_lock *both, int from, int to)
{
    pawl_status status = pawl_lock_acquire(both, 10000);
    if (status != PAWL_OK) {
        return status; /* neither account is locked now, whatever it was */
    }
    balance[from]--;
    balance[to]++;
    return pawl_lock_release(both);
}

static pawl_status work(const struct clerk *clerk)
{
    static const char *const names[ACCOUNTS] = {"account/anna", "account/bert"};
    pawl_lock *locks[2] = {NULL, NULL};
    pawl_lock *both = NULL;
    pawl_status status = pawl_lock_open(clerk->client, names[clerk->from], NULL, &locks[0]);
    if (status == PAWL_OK) {
        status = pawl_lock_open(clerk->client, names[clerk->to], NULL, &locks[1]);
    }
    if (status == PAWL_OK) {
        status = pawl_lock_open_multi(locks, 2, NULL, &both);
    }
    for (int i = 0; i < TRANSFERS && status == PAWL_OK; i++) {
        status = transfer(both, clerk->from, clerk->to);
    }
    if (status != PAWL_OK) {
        fprintf(stderr, "%s\n", pawl_last_error()); /* it says which of the accounts */
    }
    pawl_lock_close(both);
    pawl_lock_close(locks[1]);
    pawl_lock_close(locks[0]);
    return status;
}

static void *run(void *arg)
{
    struct clerk *clerk = arg;
    clerk->status = work(clerk);
    return NULL;
}

int main(void)
{
    pawl_client *client = NULL;
    if (pawl_client_open(NULL, NULL, &client) != PAWL_OK) {
        fprintf(stderr, "%s\n", pawl_last_error());
        return 1;
    }
    struct clerk clerks[2] = {{client, 0, 1, PAWL_OK}, {client, 1, 0, PAWL_OK}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, run, &clerks[i]) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("anna has %ld, bert has %ld\n", balance[0], balance[1]);
    pawl_client_close(client);
    const bool even = balance[0] == 1000 && balance[1] == 1000;
    return even && clerks[0].status == PAWL_OK && clerks[1].status == PAWL_OK ? 0 : 1;
}
