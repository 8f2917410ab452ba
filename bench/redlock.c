/* SPDX-License-Identifier: Apache-2.0 */
/* Redlock over three and five servers that are 0.6 ms away: how long an acquire takes, against one
 * round trip; with all servers well, and with one that hangs. A round trip is a PING by the same
 * relay, in turn with the acquires, so that both meet the same noise. */
#include "groups.h"
#include "lib/clock.h"
#include "lib/die.h"
#include "lib/fleet.h"
#include "lib/ours.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUND_TRIP_US = 600, TIMES_MAX = 2000 };
enum { VALUE_TRIP, VALUE_WELL, VALUE_HUNG_TRIP, VALUE_HUNG };

struct redlock {
    size_t count;
    struct fleet fleet;
    pawl_client *clients[FLEET_MAX];
    pawl_lock *lock;
    redisContext *ping;
};

static void *redlock_open(const void *arg)
{
    struct redlock *self = calloc(1, sizeof *self);
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.restart_guard = PAWL_GUARD_WARN; /* they have just been started */
    self->count = *(const size_t *)arg;
    fleet_start(&self->fleet, self->count, ROUND_TRIP_US);
    for (size_t i = 0; i < self->count; i++) {
        char url[64];
        snprintf(url, sizeof url, "redis://127.0.0.1:%u", self->fleet.ports[i]);
        self->clients[i] = ours_open(url);
    }
    if (pawl_lock_open_quorum(self->clients, self->count, "bench-redlock", &options, &self->lock) !=
        PAWL_OK) {
        die("open_quorum: %s", pawl_last_error());
    }
    self->ping = redisConnect("127.0.0.1", self->fleet.ports[0]);
    if (self->ping == NULL || self->ping->err != 0) {
        die("no connection for PING");
    }
    return self;
}

/* The medians of a round trip and of an acquire, in µs. */
static void measure(struct redlock *self, int64_t slice_ns, double *trip_out, double *acquire_out)
{
    static int64_t trips_ns[TIMES_MAX];
    static int64_t acquires_ns[TIMES_MAX];
    const int64_t end_ns = now_ns() + slice_ns;
    size_t count = 0;
    while (now_ns() < end_ns && count < TIMES_MAX) {
        const int64_t begin_ns = now_ns();
        redisReply *reply = redisCommand(self->ping, "PING");
        trips_ns[count] = now_ns() - begin_ns;
        if (reply == NULL) {
            die("no answer to PING");
        }
        freeReplyObject(reply);
        const int64_t asked_ns = now_ns();
        ours_acquire(self->lock);
        acquires_ns[count++] = now_ns() - asked_ns;
        ours_release(self->lock);
    }
    *trip_out = percentile(trips_ns, count, 50) / 1000;
    *acquire_out = percentile(acquires_ns, count, 50) / 1000;
}

static void redlock_slice(void *arg, int64_t slice_ns, struct sample *sample)
{
    struct redlock *self = arg;
    const pid_t last = self->fleet.pids[self->count - 1];
    measure(self, slice_ns / 8, &sample->values[0], &sample->values[1]); /* tokens in step */
    measure(self, slice_ns, &sample->values[VALUE_TRIP], &sample->values[VALUE_WELL]);
    kill(last, SIGSTOP);
    measure(self, slice_ns, &sample->values[VALUE_HUNG_TRIP], &sample->values[VALUE_HUNG]);
    kill(last, SIGCONT);
    sample->count = 1;
}

static void redlock_close(void *arg)
{
    struct redlock *self = arg;
    redisFree(self->ping);
    pawl_lock_close(self->lock);
    for (size_t i = 0; i < self->count; i++) {
        pawl_client_close(self->clients[i]);
    }
    fleet_stop(&self->fleet);
    free(self);
}

static const struct side_kind redlock_kind = {
    "redlock", redlock_open, redlock_slice, redlock_close};

static void add_row(struct bench *bench, const char *what, double ours, double against,
    const char *against_name, double must)
{
    const struct row row = {.group = "redlock",
        .what = what,
        .unit = "us",
        .against_name = against_name,
        .ours = {.count = 1, .values = {ours}},
        .against = {.count = 1, .values = {against}},
        .must_kind = MUST_RATIO_AT_MOST,
        .must = must};
    report_add(&bench->report, &row);
}

static bool run(struct bench *bench, size_t count, const char *well, const char *hung)
{
    struct side side = {.kind = &redlock_kind, .arg = &count};
    struct sample sample = {0};
    const bool good = side_start(&side) && side_order(&side, bench_slice_ns(bench, 1500)) &&
                      side_answer(&side, &sample);
    side_stop(&side);
    if (good) {
        const double *values = sample.values;
        const double trips = values[VALUE_HUNG_TRIP] / values[VALUE_TRIP]; /* of another time */
        add_row(bench, well, values[VALUE_WELL], values[VALUE_TRIP], "round trip", 1.3);
        add_row(bench, hung, values[VALUE_HUNG], values[VALUE_WELL] * trips, "all well", 1.1);
    }
    return good;
}

bool group_redlock(struct bench *bench)
{
    const bool three = run(
        bench, 3, "acquire at 3 servers, 0.6 ms away", "acquire at 3 servers, one of them hung");
    const bool five = run(
        bench, 5, "acquire at 5 servers, 0.6 ms away", "acquire at 5 servers, one of them hung");
    return three && five;
}
