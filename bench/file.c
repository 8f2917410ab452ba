/* SPDX-License-Identifier: Apache-2.0 */
/* The file engine against what people do without it: open the lock file, flock it, close it. Both
 * on the same file system. */
#include "groups.h"
#include "lib/clock.h"
#include "lib/die.h"
#include "lib/ours.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { SLICE_MS = 70, PAIRS_BETWEEN_LOOKS = 16 };

struct file_side {
    char path[128];
    pawl_client *client;
    pawl_lock *lock;
};

static void run(struct file_side *side, int64_t slice_ns, struct sample *sample,
    void (*pair)(struct file_side *side))
{
    const int64_t deadline = now_ns() + slice_ns;
    uint64_t count = 0;
    while (now_ns() < deadline) {
        for (int i = 0; i < PAIRS_BETWEEN_LOOKS; i++) {
            pair(side);
        }
        count += PAIRS_BETWEEN_LOOKS;
    }
    sample->count = (double)count;
}

/* ===== open, flock, close ===== */

static void *flock_open(const void *arg)
{
    const struct bench *bench = arg;
    struct file_side *side = calloc(1, sizeof *side);
    snprintf(side->path, sizeof side->path, "%s/flock", bench->server->directory);
    return side;
}

static void flock_pair(struct file_side *side)
{
    const int fd = open(side->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0 || close(fd) != 0) {
        die("%s: %s", side->path, strerror(errno));
    }
}

static void flock_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    run(self, slice_ns, sample, flock_pair);
}

static void flock_close(void *self)
{
    free(self);
}

static const struct side_kind flock_kind = {"flock", flock_open, flock_slice, flock_close};

/* ===== The library ===== */

static void *ours_side_open(const void *arg)
{
    const struct bench *bench = arg;
    struct file_side *side = calloc(1, sizeof *side);
    snprintf(side->path, sizeof side->path, "file://%s/locks", bench->server->directory);
    side->client = ours_open(side->path);
    side->lock = ours_lock(side->client, "bench", NULL);
    return side;
}

static void ours_pair(struct file_side *side)
{
    ours_acquire(side->lock);
    ours_release(side->lock);
}

static void ours_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    run(self, slice_ns, sample, ours_pair);
}

static void ours_side_close(void *self)
{
    struct file_side *side = self;
    pawl_lock_close(side->lock);
    pawl_client_close(side->client);
    free(side);
}

static const struct side_kind ours_kind = {
    "pawl file", ours_side_open, ours_slice, ours_side_close};

/* ===== The group ===== */

bool group_file(struct bench *bench)
{
    static const struct comparison time = {"file engine: time for a pair", "ns", sample_ns, 0, 1,
        "open+flock+close", MUST_RATIO_AT_MOST, 1.5};
    static const struct comparison cpu = {
        "file engine: CPU for a pair", "us", sample_cpu_us, 0, 1, "open+flock+close", MUST_NOT, 0};
    struct side sides[] = {{.kind = &ours_kind, .arg = bench}, {.kind = &flock_kind, .arg = bench}};
    static struct rounds rounds;
    if (!rounds_run(&rounds, bench->server, sides, 2, bench_rounds_of_short(bench),
            bench_slice_ns(bench, SLICE_MS))) {
        return false;
    }
    report_compare(&bench->report, "file", &rounds, &time);
    report_compare(&bench->report, "file", &rounds, &cpu);
    return true;
}
