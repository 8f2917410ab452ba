/* SPDX-License-Identifier: Apache-2.0 */
/* What a client keeps in memory for a lock that it holds and for a caller that waits, by kind.
 *
 * Memory is what malloc has given out (mallinfo2), not what the system has mapped, so that it can
 * be divided by the number of locks. Handles own the holds, because threads would bring their
 * stacks. Each kind is a side, so that none finds what another has left. */
#include "groups.h"
#include "lib/clock.h"
#include "lib/die.h"
#include "lib/ours.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    HELD_COUNT = 20000,
    WAITING_COUNT = 1000,
    CALLBACK_WAIT_S = 5,
    LOOK_MS = 20,
    SAME_LOOKS = 5,
    MUST_BYTES = 512,
};

/* The sample's values, in bytes. */
enum { VALUE_HELD, VALUE_HANDLE, VALUE_WAITING };

struct memory_arg {
    const struct bench *bench;
    pawl_kind kind;
    const char *held_row; /* NULL: not measured */
    const char *waiting_row;
    const char *handle_row;
};

struct memory {
    const struct memory_arg *arg;
    pawl_client *client;
    pawl_client *other; /* has what is waited for */
};

static double bytes_in_use(void)
{
    const struct mallinfo2 info = mallinfo2();
    return (double)info.uordblks + (double)info.hblkhd;
}

/* The same when nothing changes any more: waiters of some kinds ask the server each for itself, and
 * keep more from then on. */
static double settled_bytes(void)
{
    const int64_t deadline = now_ns() + CALLBACK_WAIT_S * NS_PER_S;
    double bytes = bytes_in_use();
    for (int same = 0; same < SAME_LOOKS && now_ns() < deadline;) {
        pause_ns(LOOK_MS * NS_PER_MS);
        const double now = bytes_in_use();
        same = now == bytes ? same + 1 : 0;
        bytes = now;
    }
    return bytes;
}

static pawl_lock_options handle_options(pawl_kind kind)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.owner = PAWL_OWNER_HANDLE;
    options.kind = kind;
    return options;
}

static void check(pawl_status status)
{
    if (status != PAWL_OK) {
        die("%s", pawl_last_error());
    }
}

/* ===== Holding many ===== */

static double measure_held(const struct memory *memory)
{
    static pawl_lock *locks[HELD_COUNT];
    const pawl_lock_options options = handle_options(memory->arg->kind);
    const double before = bytes_in_use();
    for (size_t i = 0; i < HELD_COUNT; i++) {
        char name[PAIR_NAME_SIZE + 1];
        pair_name(name, (unsigned)i);
        locks[i] = ours_lock(memory->client, name, &options);
        ours_acquire(locks[i]);
    }
    const double bytes = bytes_in_use() - before;
    for (size_t i = 0; i < HELD_COUNT; i++) {
        pawl_lock_close(locks[i]);
    }
    return bytes / HELD_COUNT;
}

/* ===== Many that wait for one ===== */

static _Atomic size_t open_count = WAITING_COUNT;

static void count_down(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)status;
    (void)arg;
    atomic_fetch_sub(&open_count, 1);
}

static void count_down_semaphore(pawl_semaphore *semaphore, pawl_status status, void *arg)
{
    (void)semaphore;
    (void)status;
    (void)arg;
    atomic_fetch_sub(&open_count, 1);
}

static void await_called_back(void)
{
    const int64_t deadline = now_ns() + CALLBACK_WAIT_S * NS_PER_S;
    while (atomic_load(&open_count) > 0) {
        if (now_ns() > deadline) {
            die("%zu waiters were not called back", atomic_load(&open_count));
        }
        pause_ns(NS_PER_MS);
    }
}

static void note(struct sample *sample, double at_first, double with_handles, double with_waiters)
{
    sample->values[VALUE_HANDLE] = (with_handles - at_first) / WAITING_COUNT;
    sample->values[VALUE_WAITING] = (with_waiters - with_handles) / WAITING_COUNT;
}

/* Readers wait for a writer. */
static void measure_waiting(const struct memory *memory, struct sample *sample)
{
    static pawl_lock *locks[WAITING_COUNT];
    const pawl_kind kind = memory->arg->kind;
    const pawl_lock_options options = handle_options(kind);
    const pawl_lock_options held_options = handle_options(kind == PAWL_READ ? PAWL_WRITE : kind);
    pawl_lock *held = ours_lock(memory->other, "bench-waiting", &held_options);
    ours_acquire(held);
    const double at_first = bytes_in_use();
    for (size_t i = 0; i < WAITING_COUNT; i++) {
        locks[i] = ours_lock(memory->client, "bench-waiting", &options);
    }
    const double with_handles = bytes_in_use();
    for (size_t i = 0; i < WAITING_COUNT; i++) {
        check(pawl_lock_acquire_async(locks[i], PAWL_FOREVER, count_down, NULL));
    }
    note(sample, at_first, with_handles, settled_bytes());
    for (size_t i = 0; i < WAITING_COUNT; i++) {
        pawl_lock_close(locks[i]);
    }
    await_called_back();
    ours_release(held);
    pawl_lock_close(held);
}

/* All its permits are out. */
static void measure_semaphore(const struct memory *memory, struct sample *sample)
{
    static pawl_semaphore *semaphores[WAITING_COUNT];
    pawl_semaphore *taken = NULL;
    check(pawl_semaphore_open(memory->other, "bench-permits-out", NULL, &taken));
    check(pawl_semaphore_set(taken, 1, NULL));
    check(pawl_semaphore_acquire(taken, 1, PAWL_TRY));
    const double at_first = bytes_in_use();
    for (size_t i = 0; i < WAITING_COUNT; i++) {
        check(pawl_semaphore_open(memory->client, "bench-permits-out", NULL, &semaphores[i]));
    }
    const double with_handles = bytes_in_use();
    for (size_t i = 0; i < WAITING_COUNT; i++) {
        check(pawl_semaphore_acquire_async(
            semaphores[i], 1, PAWL_FOREVER, count_down_semaphore, NULL));
    }
    note(sample, at_first, with_handles, settled_bytes());
    for (size_t i = 0; i < WAITING_COUNT; i++) {
        pawl_semaphore_close(semaphores[i]);
    }
    await_called_back();
    check(pawl_semaphore_release(taken, 1));
    pawl_semaphore_close(taken);
}

/* ===== The sides and the group ===== */

static void *memory_open(const void *arg)
{
    struct memory *memory = calloc(1, sizeof *memory);
    memory->arg = arg;
    memory->client = ours_open(server_url(memory->arg->bench->server, TRANSPORT_UNIX));
    memory->other = ours_open(server_url(memory->arg->bench->server, TRANSPORT_UNIX));
    return memory;
}

static void memory_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    struct memory *memory = self;
    (void)slice_ns;
    sample->count = 1;
    if (memory->arg->kind == PAWL_SEMAPHORE) {
        measure_semaphore(memory, sample);
    } else if (memory->arg->waiting_row != NULL) {
        measure_waiting(memory, sample);
    }
    if (memory->arg->held_row != NULL) {
        sample->values[VALUE_HELD] = measure_held(memory);
    }
}

static void memory_close(void *self)
{
    struct memory *memory = self;
    pawl_client_close(memory->client);
    pawl_client_close(memory->other);
    free(memory);
}

static const struct side_kind memory_kind = {"memory", memory_open, memory_slice, memory_close};

static void add_row(struct bench *bench, const char *what, double bytes, enum must_kind must_kind)
{
    const struct row row = {.group = "memory",
        .what = what,
        .unit = "B",
        .ours = {.count = 1, .values = {bytes}},
        .must_kind = must_kind,
        .must = MUST_BYTES};
    if (what != NULL) {
        report_add(&bench->report, &row);
    }
}

static bool measure(struct bench *bench, const struct memory_arg *arg)
{
    struct side side = {.kind = &memory_kind, .arg = arg};
    struct sample sample = {0};
    const bool good = side_start(&side) && side_order(&side, 1) && side_answer(&side, &sample);
    side_stop(&side);
    if (good) {
        add_row(bench, arg->held_row, sample.values[VALUE_HELD], MUST_VALUE_AT_MOST);
        add_row(bench, arg->waiting_row, sample.values[VALUE_WAITING], MUST_VALUE_AT_MOST);
        add_row(bench, arg->handle_row, sample.values[VALUE_HANDLE], MUST_NOT);
    }
    return good;
}

bool group_memory(struct bench *bench)
{
    const struct memory_arg args[] = {
        {bench, PAWL_MUTEX, "memory per held mutex, with its handle",
            "memory per caller that waits for a mutex", "memory per further handle of a name"},
        {bench, PAWL_FAIR, "memory per held fair lock",
            "memory per caller that waits for a fair lock", NULL},
        {bench, PAWL_READ, "memory per lock held to read", "memory per reader that waits", NULL},
        {bench, PAWL_WRITE, "memory per lock held to write", NULL, NULL},
        {bench, PAWL_SPIN, "memory per held spin lock", NULL, NULL},
        {bench, PAWL_PLAIN, "memory per held plain lock", NULL, NULL},
        {bench, PAWL_SEMAPHORE, NULL, "memory per caller that waits for a permit", NULL},
    };
    bool good = true;
    for (size_t i = 0; good && i < sizeof args / sizeof args[0]; i++) {
        good = measure(bench, &args[i]);
    }
    return good;
}
