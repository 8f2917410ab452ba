/* SPDX-License-Identifier: Apache-2.0 */
/* 09 redlock: one lock that a majority of servers keeps, and what is left of it when they go.
 *
 * Introduces pawl_lock_open_quorum(). Three backends stand for three servers: held is what a
 * majority has granted, so one of them may be taken away, and not two.
 *
 *     cc 09_redlock.c -o 09_redlock $(pkg-config --cflags --libs pawl)
 *     ./09_redlock                                                       in memory
 *     ./09_redlock redis://10.0.0.1 redis://10.0.0.2 redis://10.0.0.3    for real
 */
#include <pawl.h>
#include <stdio.h>

enum { SERVERS = 3 };

static void on_lost(const pawl_event *event, void *arg)
{
    (void)arg;
    printf("  lost: the hold with token %llu\n", (unsigned long long)event->token);
}

/* Somebody else's program, with clients of its own, takes the lock at one server by itself. */
static void take_one_away(const char *url)
{
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    if (pawl_client_open(url, NULL, &client) == PAWL_OK &&
        pawl_lock_open(client, "example-redlock", NULL, &lock) == PAWL_OK &&
        pawl_lock_break(lock) == PAWL_OK && pawl_lock_acquire(lock, PAWL_TRY) == PAWL_OK) {
        printf("  %s gave it to another, for a moment\n", url);
    }
    pawl_lock_close(lock);
    pawl_client_close(client);
}

static pawl_status use(pawl_lock *lock, const char *const urls[SERVERS])
{
    pawl_status status = pawl_lock_acquire(lock, 40000);
    if (status != PAWL_OK) {
        return status;
    }
    printf("held, with token %llu, for %lld ms at least\n",
        (unsigned long long)pawl_lock_token(lock), (long long)pawl_lock_remaining_ms(lock));
    printf("one of three goes:\n");
    take_one_away(urls[0]);
    status = pawl_lock_extend(lock, 10000); /* asks them all */
    printf("  extended: %s\n", pawl_status_string(status));
    printf("two of three go:\n");
    take_one_away(urls[1]);
    status = pawl_lock_extend(lock, 10000);
    printf("  extended: %s\n", pawl_status_string(status));
    status = pawl_lock_release(lock);
    printf("  released: %s\n", pawl_status_string(status));
    return status == PAWL_LOST ? PAWL_OK : PAWL_PROTOCOL; /* as it should be */
}

int main(int argc, char *argv[])
{
    const char *urls[SERVERS] = {"memory:one", "memory:two", "memory:three"};
    pawl_client *clients[SERVERS] = {NULL};
    pawl_lock *lock = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_status status = PAWL_OK;
    options.on_lost = on_lost;
    options.lease_ms = 10000;
    for (int i = 0; i < SERVERS && status == PAWL_OK; i++) {
        urls[i] = argc == SERVERS + 1 ? argv[i + 1] : urls[i];
        status = pawl_client_open(urls[i], NULL, &clients[i]);
    }
    if (status == PAWL_OK) {
        status = pawl_lock_open_quorum(clients, SERVERS, "example-redlock", &options, &lock);
    }
    if (status == PAWL_OK) {
        status = use(lock, urls);
    }
    if (status != PAWL_OK) {
        fprintf(stderr, "%s\n", pawl_last_error());
    }
    pawl_lock_close(lock);
    for (int i = 0; i < SERVERS; i++) {
        pawl_client_close(clients[i]);
    }
    return status == PAWL_OK ? 0 : 1;
}
