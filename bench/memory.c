/* SPDX-License-Identifier: Apache-2.0 */
/* What a client keeps in memory for a lock that it holds and for a caller that waits.
 *
 * Memory is what malloc has given out (mallinfo2), not what the system has mapped, so that it can
 * be divided by the number of locks. Handles own the holds, because threads would bring their
 * stacks. */
#include "groups.h"
#include "lib/clock.h"
#include "lib/die.h"
#include "lib/ours.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { HELD_COUNT = 20000, WAITING_COUNT = 1000, CALLBACK_WAIT_S = 5 };

/* The sample's values, in bytes. */
enum { VALUE_HELD, VALUE_HANDLE, VALUE_WAITING };

static double bytes_in_use(void)
{
    const struct mallinfo2 info = mallinfo2();
    return (double)info.uordblks + (double)info.hblkhd;
}

static pawl_lock_options handle_options(void)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.owner = PAWL_OWNER_HANDLE;
    return options;
}

/* ===== Holding many ===== */

static double measure_held(pawl_client *client)
{
    static pawl_lock *locks[HELD_COUNT];
    const pawl_lock_options options = handle_options();
    const double before = bytes_in_use();
    for (size_t i = 0; i < HELD_COUNT; i++) {
        char name[PAIR_NAME_SIZE + 1];
        pair_name(name, (unsigned)i);
        locks[i] = ours_lock(client, name, &options);
        ours_acquire(locks[i]);
    }
    const double bytes = bytes_in_use() - before;
    for (size_t i = 0; i < HELD_COUNT; i++) {
        pawl_lock_close(locks[i]);
    }
    return bytes / HELD_COUNT;
}

/* ===== Many that wait for one ===== */

static void count_down(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)status;
    atomic_fetch_sub((_Atomic size_t *)arg, 1);
}

static void await_zero(const _Atomic size_t *count)
{
    const int64_t deadline = now_ns() + CALLBACK_WAIT_S * NS_PER_S;
    while (atomic_load(count) > 0) {
        if (now_ns() > deadline) {
            die("%zu waiters were not called back", atomic_load(count));
        }
        pause_ns(NS_PER_MS);
    }
}

/* The lock is held by another handle of the same client. */
static void measure_waiting(pawl_client *client, struct sample *sample)
{
    static pawl_lock *locks[WAITING_COUNT];
    static _Atomic size_t open_count = WAITING_COUNT;
    const pawl_lock_options options = handle_options();
    pawl_lock *held = ours_lock(client, "bench-waiting", &options);
    ours_acquire(held);
    const double at_first = bytes_in_use();
    for (size_t i = 0; i < WAITING_COUNT; i++) {
        locks[i] = ours_lock(client, "bench-waiting", &options);
    }
    const double with_handles = bytes_in_use();
    for (size_t i = 0; i < WAITING_COUNT; i++) {
        if (pawl_lock_acquire_async(locks[i], PAWL_FOREVER, count_down, &open_count) != PAWL_OK) {
            die("acquire_async: %s", pawl_last_error());
        }
    }
    const double with_waiters = bytes_in_use();
    for (size_t i = 0; i < WAITING_COUNT; i++) {
        pawl_lock_close(locks[i]);
    }
    await_zero(&open_count);
    ours_release(held);
    pawl_lock_close(held);
    sample->values[VALUE_HANDLE] = (with_handles - at_first) / WAITING_COUNT;
    sample->values[VALUE_WAITING] = (with_waiters - with_handles) / WAITING_COUNT;
}

/* ===== The side and the group ===== */

static void *memory_open(const void *arg)
{
    const struct bench *bench = arg;
    return ours_open(server_url(bench->server, TRANSPORT_UNIX));
}

static void memory_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    (void)slice_ns;
    sample->count = 1;
    measure_waiting(self, sample);
    sample->values[VALUE_HELD] = measure_held(self);
}

static void memory_close(void *self)
{
    pawl_client_close(self);
}

static const struct side_kind memory_kind = {"memory", memory_open, memory_slice, memory_close};

static void add_row(struct bench *bench, const char *what, double bytes, enum must_kind must_kind)
{
    const struct row row = {.group = "memory",
        .what = what,
        .unit = "B",
        .ours = {.count = 1, .values = {bytes}},
        .must_kind = must_kind,
        .must = 512};
    report_add(&bench->report, &row);
}

bool group_memory(struct bench *bench)
{
    struct side side = {.kind = &memory_kind, .arg = bench};
    struct sample sample = {0};
    const bool good = side_start(&side) && side_order(&side, 1) && side_answer(&side, &sample);
    side_stop(&side);
    if (good) {
        add_row(bench, "memory per held lock, with its handle", sample.values[VALUE_HELD],
            MUST_VALUE_AT_MOST);
        add_row(bench, "memory per waiting caller (asynchronous)", sample.values[VALUE_WAITING],
            MUST_VALUE_AT_MOST);
        add_row(
            bench, "memory per further handle of a name", sample.values[VALUE_HANDLE], MUST_NOT);
    }
    return good;
}
