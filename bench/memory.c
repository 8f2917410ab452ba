/* SPDX-License-Identifier: Apache-2.0 */
/* What a client keeps in memory for a lock that it holds and for a caller that waits, and what it
 * costs redis-server to have many held locks renewed.
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HELD_COUNT = 100000,
    HELD_COUNT_QUICK = 20000,
    WAITING_COUNT = 1000,
    RENEWAL_LEASE_MS = 9000, /* each lock is renewed every 3 s */
    RENEWAL_WINDOW_MS = 6000,
    RENEWAL_WINDOW_QUICK_MS = 3000,
};

enum value { VALUE_HELD, VALUE_HANDLE, VALUE_WAITING };

static double bytes_in_use(void)
{
    const struct mallinfo2 info = mallinfo2();
    return (double)info.uordblks + (double)info.hblkhd;
}

struct holder {
    const struct bench *bench;
    pawl_client *client;
    size_t count;
    pawl_lock **locks;
    double bytes_per_held;
};

/* ===== Holding many ===== */

static void *holder_open(const void *arg)
{
    struct holder *holder = calloc(1, sizeof *holder);
    holder->bench = arg;
    holder->count = holder->bench->quick ? HELD_COUNT_QUICK : HELD_COUNT;
    holder->client = ours_open(server_url(holder->bench->server, TRANSPORT_UNIX));
    holder->locks = calloc(holder->count, sizeof holder->locks[0]);
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.owner = PAWL_OWNER_HANDLE;
    options.lease_ms = RENEWAL_LEASE_MS;
    const double before = bytes_in_use();
    for (size_t i = 0; i < holder->count; i++) {
        char name[PAIR_NAME_SIZE + 1];
        pair_name(name, (unsigned)i);
        holder->locks[i] = ours_lock(holder->client, name, &options);
        ours_acquire(holder->locks[i]);
    }
    holder->bytes_per_held = (bytes_in_use() - before) / (double)holder->count;
    return holder;
}

/* Let the client renew for that long. */
static void holder_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    struct holder *holder = self;
    pause_ns(slice_ns);
    sample->count = (double)holder->count;
    sample->values[VALUE_HELD] = holder->bytes_per_held;
}

static void holder_close(void *self)
{
    struct holder *holder = self;
    pawl_client_close(holder->client);
    for (size_t i = 0; i < holder->count; i++) {
        pawl_lock_close(holder->locks[i]);
    }
    free(holder->locks);
    free(holder);
}

static const struct side_kind holder_kind = {"many holds", holder_open, holder_slice, holder_close};

/* ===== Waiting ===== */

static void count_down(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)status;
    atomic_fetch_sub((_Atomic size_t *)arg, 1);
}

static void *waiting_open(const void *arg)
{
    const struct bench *bench = arg;
    return ours_open(server_url(bench->server, TRANSPORT_UNIX));
}

static void waiting_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    static pawl_lock *locks[WAITING_COUNT];
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    _Atomic size_t open_count = WAITING_COUNT;
    (void)slice_ns;
    options.owner = PAWL_OWNER_HANDLE;
    pawl_lock *held = ours_lock(self, "bench-waiting", &options);
    ours_acquire(held);
    const double at_first = bytes_in_use();
    for (size_t i = 0; i < WAITING_COUNT; i++) {
        locks[i] = ours_lock(self, "bench-waiting", &options);
    }
    const double with_handles = bytes_in_use();
    for (size_t i = 0; i < WAITING_COUNT; i++) {
        if (pawl_lock_acquire_async(locks[i], PAWL_FOREVER, count_down, &open_count) != PAWL_OK) {
            die("acquire_async: %s", pawl_last_error());
        }
    }
    pause_ns(200 * NS_PER_MS); /* what they do at first is done */
    const double with_waiters = bytes_in_use();
    for (size_t i = 0; i < WAITING_COUNT; i++) {
        pawl_lock_close(locks[i]);
    }
    for (int64_t limit = now_ns() + 5 * NS_PER_S; atomic_load(&open_count) > 0;) {
        if (now_ns() > limit) {
            die("%zu waiters were not called back", atomic_load(&open_count));
        }
        pause_ns(NS_PER_MS);
    }
    ours_release(held);
    pawl_lock_close(held);
    sample->count = WAITING_COUNT;
    sample->values[VALUE_HANDLE] = (with_handles - at_first) / WAITING_COUNT;
    sample->values[VALUE_WAITING] = (with_waiters - with_handles) / WAITING_COUNT;
}

static void waiting_close(void *self)
{
    pawl_client_close(self);
}

static const struct side_kind waiting_kind = {
    "many waiters", waiting_open, waiting_slice, waiting_close};

/* ===== Groups ===== */

static struct series one_value(double value)
{
    return (struct series){.count = 1, .values = {value}};
}

static void add_memory_row(
    struct bench *bench, const char *what, double bytes, enum must_kind must_kind)
{
    report_add(&bench->report, &(struct row){.group = "memory",
                                   .what = what,
                                   .unit = "B",
                                   .ours = one_value(bytes),
                                   .must_kind = must_kind,
                                   .must = 512});
}

bool group_memory(struct bench *bench)
{
    struct side waiting = {.kind = &waiting_kind, .arg = bench};
    struct sample sample = {0};
    const bool good =
        side_start(&waiting) && side_order(&waiting, 1) && side_answer(&waiting, &sample);
    side_stop(&waiting);
    if (good) {
        add_memory_row(bench, "memory per waiting caller (asynchronous)",
            sample.values[VALUE_WAITING], MUST_VALUE_AT_MOST);
        add_memory_row(bench, "memory per open handle of the same name",
            sample.values[VALUE_HANDLE], MUST_NOT);
    }
    return good;
}

static double renewal_count(const struct server *server)
{
    return server_info(server, "commandstats", "cmdstat_pexpire:calls=");
}

/* Also measures the memory of held locks, because it holds so many. */
bool group_renewal(struct bench *bench)
{
    const int64_t window_ns =
        (bench->quick ? RENEWAL_WINDOW_QUICK_MS : RENEWAL_WINDOW_MS) * NS_PER_MS;
    struct side holder = {.kind = &holder_kind, .arg = bench};
    struct sample sample = {0};
    bool good = side_start(&holder);
    const double began_count = renewal_count(bench->server);
    const int64_t began_ns = process_cpu_ns(bench->server->pid);
    good = good && side_order(&holder, window_ns) && side_answer(&holder, &sample);
    const int64_t cpu_ns = process_cpu_ns(bench->server->pid) - began_ns;
    const double renewed = renewal_count(bench->server) - began_count;
    side_stop(&holder);
    if (!good || renewed <= 0) {
        progress("bench: nothing was renewed\n");
        return false;
    }
    add_memory_row(bench, "memory per held lock, with its handle", sample.values[VALUE_HELD],
        MUST_VALUE_AT_MOST);
    const double ms_per_renewal = (double)cpu_ns / (double)NS_PER_MS / renewed;
    struct row *row =
        report_add(&bench->report, &(struct row){.group = "renewal",
                                       .what = "100,000 locks renewed every 10 s: redis CPU per s",
                                       .unit = "ms",
                                       .ours = one_value(ms_per_renewal * 10000),
                                       .must_kind = MUST_VALUE_AT_MOST,
                                       .must = 15});
    snprintf(row->note, sizeof row->note, "measured: %.0f locks, %.0f renewals in %.0f s",
        sample.count, renewed, (double)window_ns / (double)NS_PER_S);
    return true;
}
