/* SPDX-License-Identifier: Apache-2.0 */
/* clockwork URL: leases, renewals, waits and losses, each measured with a clock that no offset
 * moves: differences of CLOCK_MONOTONIC. Run in a time namespace whose clocks stand elsewhere
 * (uptime beyond 2^32 ms, boot time far from monotonic time), a library that reads one clock and
 * sleeps by another, or that counts milliseconds in 32 bits, does not get through. Prints "ok". */
#include "base/clock.h"
#include "pawl.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LEASE_MS 400
#define EARLY_MS 20  /* drift and rounding */
#define LATE_MS 2000 /* a busy machine, or a sanitizer */
#define BUSY_WAIT_MS 200

static _Atomic int64_t lost_ms;

static int64_t clock_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static int64_t elapsed_ms(void)
{
    static int64_t start_us;
    if (start_us == 0) {
        start_us = clock_us(CLOCK_MONOTONIC);
    }
    return (clock_us(CLOCK_MONOTONIC) - start_us) / 1000;
}

static void pass_ms(int64_t duration_ms)
{
    const struct timespec pause = {duration_ms / 1000, (duration_ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
}

static void require(bool holds, const char *what, int64_t value)
{
    if (!holds) {
        printf("%s: %" PRId64 " (%s)\n", what, value, pawl_last_error());
        exit(1);
    }
}

static void require_status(pawl_status got, pawl_status wanted, const char *what)
{
    require(got == wanted, what, (int64_t)got);
}

static void on_lost(const pawl_event *event, void *arg)
{
    (void)event;
    (void)arg;
    atomic_store(&lost_ms, elapsed_ms());
}

static pawl_lock *lock_open(pawl_client *client, bool renew)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_lock *lock = NULL;
    options.owner = PAWL_OWNER_HANDLE;
    options.lease_ms = LEASE_MS;
    options.renew = renew;
    options.on_lost = on_lost;
    require_status(
        pawl_lock_open(client, renew ? "renewed" : "fixed", &options, &lock), PAWL_OK, "open");
    return lock;
}

static void check_clock(void)
{
    const int64_t off_us = clock_us(CLOCK_BOOTTIME) - pawl__now_us();
    require(llabs(off_us) < 1000000, "pawl's clock is not the boot time by us", off_us);
}

/* A fixed lease ends when it should, not earlier and not later. */
static void check_fixed(pawl_client *client)
{
    pawl_lock *lock = lock_open(client, false);
    const int64_t began_ms = elapsed_ms();
    require_status(pawl_lock_acquire(lock, PAWL_TRY), PAWL_OK, "acquire");
    const int64_t left_ms = pawl_lock_remaining_ms(lock);
    require(left_ms > 0 && left_ms < LEASE_MS, "remaining ms", left_ms);
    while (pawl_lock_remaining_ms(lock) > 0 || atomic_load(&lost_ms) == 0) {
        require(elapsed_ms() - began_ms < LEASE_MS + LATE_MS, "not lost after ms",
            elapsed_ms() - began_ms);
        pass_ms(1);
    }
    const int64_t after_ms = atomic_load(&lost_ms) - began_ms;
    require(after_ms >= LEASE_MS - EARLY_MS, "lost too early, after ms", after_ms);
    require_status(pawl_lock_release(lock), PAWL_LOST, "release of a lost lock");
    pawl_lock_close(lock);
}

/* A renewed one is kept, and somebody who waits for it waits as long as said. */
static void check_renewed(pawl_client *client)
{
    pawl_lock *lock = lock_open(client, true);
    pawl_lock *other = lock_open(client, true);
    require_status(pawl_lock_acquire(lock, PAWL_TRY), PAWL_OK, "acquire");
    const int64_t began_ms = elapsed_ms();
    require_status(pawl_lock_acquire(other, BUSY_WAIT_MS), PAWL_BUSY, "a timed acquire");
    const int64_t took_ms = elapsed_ms() - began_ms;
    require(took_ms >= BUSY_WAIT_MS - 1, "waited too short, ms", took_ms);
    require(took_ms < BUSY_WAIT_MS + LATE_MS, "waited too long, ms", took_ms);
    pass_ms(2 * LEASE_MS);
    require(pawl_lock_remaining_ms(lock) > 0, "lost although renewed, ms", 0);
    require_status(pawl_lock_release(lock), PAWL_OK, "release");
    pawl_lock_close(other);
    pawl_lock_close(lock);
}

int main(int argc, char *argv[])
{
    pawl_client *client = NULL;
    elapsed_ms();
    require(argc == 2, "usage: clockwork URL, arguments", argc - 1);
    require_status(pawl_client_open(argv[1], NULL, &client), PAWL_OK, "client");
    check_clock();
    check_fixed(client);
    check_renewed(client);
    require_status(pawl_client_close(client), PAWL_OK, "close");
    printf("ok\n");
    return 0;
}
