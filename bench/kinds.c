/* SPDX-License-Identifier: Apache-2.0 */
/* What each kind of lock, and a semaphore with and without leases, costs one thread that always
 * gets it: pairs against those of the mutex, by TCP, with side and server on the same core. */
#include "groups.h"
#include "lib/clock.h"
#include "lib/die.h"
#include "lib/ours.h"
#include "lib/place.h"

#include <stdio.h>
#include <stdlib.h>

enum { SLICE_MS = 70, PAIRS_BETWEEN_LOOKS = 16, KIND_COUNT = 8, PERMITS = 3 };

struct kind_arg {
    const struct bench *bench;
    pawl_kind kind;
    const char *name;
    bool leased; /* PAWL_SEMAPHORE: its permits are */
};

struct kind_side {
    pawl_client *client;
    pawl_lock *lock;
    pawl_semaphore *semaphore;
    bool leased;
};

static void check(pawl_status status)
{
    if (status != PAWL_OK) {
        die("%s", pawl_last_error());
    }
}

static void open_semaphore(struct kind_side *side, const struct kind_arg *kind)
{
    pawl_semaphore_options options = PAWL_SEMAPHORE_OPTIONS_INIT;
    options.leased = side->leased = kind->leased;
    check(pawl_semaphore_open(side->client, kind->name, &options, &side->semaphore));
    check(pawl_semaphore_set(side->semaphore, PERMITS, NULL));
}

static void *kind_open(const void *arg)
{
    const struct kind_arg *kind = arg;
    struct kind_side *side = calloc(1, sizeof *side);
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.kind = kind->kind;
    place_self(PLACEMENT_SAME);
    side->client = ours_open(server_url(kind->bench->server, TRANSPORT_TCP));
    if (kind->kind == PAWL_SEMAPHORE) {
        open_semaphore(side, kind);
    } else {
        side->lock = ours_lock(side->client, kind->name, &options);
    }
    return side;
}

static void run_pair(struct kind_side *side)
{
    pawl_permit permit;
    if (side->lock != NULL) {
        ours_acquire(side->lock);
        ours_release(side->lock);
    } else if (side->leased) {
        check(pawl_permit_acquire(side->semaphore, 1, PAWL_TRY, &permit));
        check(pawl_permit_release(side->semaphore, &permit, 1));
    } else {
        check(pawl_semaphore_acquire(side->semaphore, 1, PAWL_TRY));
        check(pawl_semaphore_release(side->semaphore, 1));
    }
}

static void kind_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    struct kind_side *side = self;
    const int64_t deadline = now_ns() + slice_ns;
    uint64_t count = 0;
    while (now_ns() < deadline) {
        for (int i = 0; i < PAIRS_BETWEEN_LOOKS; i++) {
            run_pair(side);
        }
        count += PAIRS_BETWEEN_LOOKS;
    }
    sample->count = (double)count;
}

static void kind_close(void *self)
{
    struct kind_side *side = self;
    pawl_lock_close(side->lock);
    pawl_semaphore_close(side->semaphore);
    pawl_client_close(side->client);
    free(side);
}

bool group_kinds(struct bench *bench)
{
    static const struct side_kind kind = {"kind", kind_open, kind_slice, kind_close};
    static const char *const rows[] = {NULL, "fair: pairs", "read: pairs", "write: pairs",
        "spin: pairs", "plain: pairs", "semaphore: pairs", "permits with leases: pairs"};
    const struct kind_arg args[KIND_COUNT] = {{bench, PAWL_MUTEX, "bench-mutex", false},
        {bench, PAWL_FAIR, "bench-fair", false}, {bench, PAWL_READ, "bench-read", false},
        {bench, PAWL_WRITE, "bench-write", false}, {bench, PAWL_SPIN, "bench-spin", false},
        {bench, PAWL_PLAIN, "bench-plain", false},
        {bench, PAWL_SEMAPHORE, "bench-semaphore", false},
        {bench, PAWL_SEMAPHORE, "bench-permits", true}};
    struct side sides[KIND_COUNT];
    for (size_t i = 0; i < KIND_COUNT; i++) {
        sides[i] = (struct side){.kind = &kind, .arg = &args[i]};
    }
    static struct rounds rounds;
    place_server(bench->server, PLACEMENT_SAME);
    const bool good = rounds_run(&rounds, bench->server, sides, KIND_COUNT,
        bench_rounds_of_short(bench), bench_slice_ns(bench, SLICE_MS));
    place_server(bench->server, PLACEMENT_FREE);
    for (size_t i = 1; good && i < KIND_COUNT; i++) {
        const struct comparison comparison = {
            rows[i], "/s", sample_rate, i, 0, "mutex", MUST_NOT, 0};
        report_compare(&bench->report, "kinds", &rounds, &comparison);
    }
    return good;
}
