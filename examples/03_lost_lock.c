/* SPDX-License-Identifier: Apache-2.0 */
/* 03 lost lock: what it looks like when a lock is lost, and what to do then.
 *
 * Introduces a fixed lease, pawl_lock_remaining_ms(), on_lost and PAWL_LOST. By default a lease is
 * renewed in the background and the loss of a lock is a rare accident; here it is not renewed, and
 * we work longer than it lasts, so that the accident happens.
 *
 *     cc 03_lost_lock.c -o 03_lost_lock $(pkg-config --cflags --libs pawl)
 */
#include <inttypes.h>
#include <pawl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LEASE_MS 400
#define STEP_MS 100

/* Runs on the client's callback thread. It must not wait for anything, so it only passes the news
 * on. A server would set a flag that its workers look at, or cancel their statements. */
static void on_lost(const pawl_event *event, void *arg)
{
    const int *lost_fd = arg;
    printf("on_lost: token %" PRIu64 " is not valid any more\n", event->token);
    eventfd_write(*lost_fd, 1);
}

/* Wait until on_lost was called, or until the time is up. */
static bool lost_within(int lost_fd, int limit_ms)
{
    struct pollfd ready = {.fd = lost_fd, .events = POLLIN};
    return poll(&ready, 1, limit_ms) == 1;
}

/* Work in steps, and begin none that would not fit into what is left. The step itself is played by
 * waiting for bad news. */
static void work(const pawl_lock *lock, int lost_fd)
{
    int64_t left_ms = pawl_lock_remaining_ms(lock);
    while (left_ms > STEP_MS) {
        printf("%" PRId64 " ms left: one more step\n", left_ms);
        if (lost_within(lost_fd, STEP_MS)) {
            return;
        }
        left_ms = pawl_lock_remaining_ms(lock);
    }
    printf("%" PRId64 " ms left: not enough for another step; pawl_lock_extend() could help now\n",
        left_ms);
}

static bool expect(const char *what, pawl_status status, pawl_status expected)
{
    printf("%-9s says: %s\n", what, pawl_status_string(status));
    if (status != expected) {
        fprintf(stderr, "03_lost_lock: %s: %s\n", what, pawl_last_error());
    }
    return status == expected;
}

static bool lose(pawl_lock *lock, int lost_fd)
{
    if (!expect("acquire", pawl_lock_acquire(lock, 10000), PAWL_OK)) {
        return false;
    }
    work(lock, lost_fd);
    printf("and now we forget the time\n");
    if (!lost_within(lost_fd, 10000)) {
        fprintf(stderr, "03_lost_lock: on_lost was not called\n");
        return false;
    }
    /* Others may be inside by now. What was not finished must be given up or undone, and what is
     * written from here on must carry the token, for the store to refuse it: see 04_fencing.c. */
    printf("token %" PRIu64 ", %" PRId64 " ms left\n", pawl_lock_token(lock),
        pawl_lock_remaining_ms(lock));

    /* A lost hold is still ours to release; until then we do not get a new one by accident. */
    return expect("acquire", pawl_lock_acquire(lock, PAWL_TRY), PAWL_LOST) &&
           expect("release", pawl_lock_release(lock), PAWL_LOST) &&
           expect("release", pawl_lock_release(lock), PAWL_NOT_HELD) &&
           expect("acquire", pawl_lock_acquire(lock, 10000), PAWL_OK) &&
           expect("release", pawl_lock_release(lock), PAWL_OK);
}

int main(void)
{
    int lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.lease_ms = LEASE_MS;
    options.renew = false;
    options.on_lost = on_lost;
    options.event_arg = &lost_fd;

    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    bool good = false;
    if (lost_fd >= 0 && pawl_client_open(NULL, NULL, &client) == PAWL_OK &&
        pawl_lock_open(client, "example-lost-lock", &options, &lock) == PAWL_OK) {
        good = lose(lock, lost_fd);
    } else {
        fprintf(stderr, "03_lost_lock: %s\n", pawl_last_error());
    }
    pawl_lock_close(lock);
    pawl_client_close(client);
    close(lost_fd);
    return good ? 0 : 1;
}
