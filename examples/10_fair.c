/* SPDX-License-Identifier: Apache-2.0 */
/* 10 fair: first come, first served.
 *
 * Introduces PAWL_FAIR. Four callers, each with a client of its own as four hosts would have, stand
 * in the queue one after the other while the lock is held; then they get it in that order.
 *
 *     cc 10_fair.c -o 10_fair $(pkg-config --cflags --libs pawl)
 *     ./10_fair
 *     PAWL_URL=redis://127.0.0.1 ./10_fair
 */
#include <pawl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { CALLERS = 4 };

struct caller {
    int number;
    pthread_t thread;
    pawl_client *client;
    pawl_lock *lock;
    pawl_status status;
};

static const char *url(void)
{
    const char *named = getenv("PAWL_URL");
    return named != NULL ? named : "memory:example";
}

static pawl_status open_fair(pawl_client **client_out, pawl_lock **lock_out)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.kind = PAWL_FAIR;
    pawl_status status = pawl_client_open(url(), NULL, client_out);
    return status == PAWL_OK ? pawl_lock_open(*client_out, "example-fair", &options, lock_out)
                             : status;
}

static _Atomic int served; /* only touched under the lock, but read by all */

static void *stand_in_line(void *arg)
{
    struct caller *caller = arg;
    caller->status = pawl_lock_acquire(caller->lock, 30000);
    if (caller->status == PAWL_OK) {
        const int turn = atomic_fetch_add(&served, 1);
        printf("  caller %d is served as number %d\n", caller->number, turn + 1);
        caller->status = turn == caller->number - 1 ? PAWL_OK : PAWL_BUSY;
        pawl_lock_release(caller->lock);
    } else {
        printf("  caller %d: %s\n", caller->number, pawl_last_error());
    }
    return NULL;
}

/* Until so many stand in the queue, as the backend says. */
static pawl_status await_queue(pawl_client *client, int64_t length)
{
    pawl_entry entry = {.size = sizeof entry};
    pawl_status status = PAWL_OK;
    do {
        status = pawl_client_look(client, "example-fair", &entry);
    } while (status == PAWL_OK && entry.waiters < length);
    return status;
}

/* Start one caller, and wait until it stands in the queue. */
static pawl_status line_up(struct caller *caller, pawl_client *client)
{
    pawl_status status = open_fair(&caller->client, &caller->lock);
    if (status == PAWL_OK && pthread_create(&caller->thread, NULL, stand_in_line, caller) != 0) {
        status = PAWL_NO_MEMORY;
    }
    return status == PAWL_OK ? await_queue(client, caller->number) : status;
}

int main(void)
{
    struct caller callers[CALLERS] = {{0}};
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    pawl_status status = open_fair(&client, &lock);
    if (status == PAWL_OK) {
        status = pawl_lock_acquire(lock, 10000);
    }
    if (status == PAWL_OK) {
        printf("held by us; %d others stand in line:\n", CALLERS);
    }
    int lined_up = 0;
    for (; status == PAWL_OK && lined_up < CALLERS; lined_up++) {
        callers[lined_up].number = lined_up + 1;
        status = line_up(&callers[lined_up], client);
    }
    if (status != PAWL_OK) {
        fprintf(stderr, "%s\n", pawl_last_error());
        return 1; /* the end of the process ends everything */
    }
    status = pawl_lock_release(lock);
    for (int i = 0; i < lined_up; i++) {
        pthread_join(callers[i].thread, NULL);
        status = callers[i].status == PAWL_OK ? status : callers[i].status;
        pawl_lock_close(callers[i].lock);
        pawl_client_close(callers[i].client);
    }
    pawl_lock_close(lock);
    pawl_client_close(client);
    return status == PAWL_OK ? 0 : 1;
}
