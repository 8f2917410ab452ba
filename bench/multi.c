/* SPDX-License-Identifier: Apache-2.0 */
/* Free locks of one server, taken and given back by one thread: as one multi-lock, and one after
 * the other. The floor is a bare socket that has a command for each of them (lib/pair.h) in two
 * writes, all acquires and then all releases, and waits for the answers to each. By TCP, with side
 * and server on the same core. Sets of several sizes, with --quick of one. */
#include "groups.h"
#include "lib/clock.h"
#include "lib/die.h"
#include "lib/ours.h"
#include "lib/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MEMBERS_MOST = 64,
    QUICK_SIZE = 8,
    SLICE_MS = 70,
    SETS_BETWEEN_LOOKS = 4, /* at the clock */
    BATCH_SIZE = MEMBERS_MOST * 1024,
};

struct set_arg {
    const struct bench *bench;
    unsigned name_number;
    size_t count;
    bool as_one; /* a multi-lock */
};

struct set {
    size_t count;
    pawl_client *client; /* the library */
    pawl_lock *members[MEMBERS_MOST];
    pawl_lock *multi; /* NULL: one after the other */
    struct pair pairs[MEMBERS_MOST];
    int fd; /* pipelined */
};

typedef void (*set_step)(struct set *set);

static void run(struct set *set, int64_t slice_ns, struct sample *sample, set_step step)
{
    const int64_t deadline = now_ns() + slice_ns;
    uint64_t count = 0;
    for (; now_ns() < deadline; count += SETS_BETWEEN_LOOKS) {
        for (int i = 0; i < SETS_BETWEEN_LOOKS; i++) {
            step(set);
        }
    }
    sample->count = (double)count;
}

/* ===== The library ===== */

static void *ours_set_open(const void *arg)
{
    const struct set_arg *set_arg = arg;
    const pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    struct set *set = calloc(1, sizeof *set);
    set->count = set_arg->count;
    place_self(PLACEMENT_SAME);
    set->client = ours_open(server_url(set_arg->bench->server, TRANSPORT_TCP));
    for (size_t i = 0; i < set->count; i++) {
        char name[PAIR_NAME_SIZE + 1];
        pair_name(name, set_arg->name_number + (unsigned)i);
        set->members[i] = ours_lock(set->client, name, &options);
    }
    if (set_arg->as_one &&
        pawl_lock_open_multi(set->members, set->count, NULL, &set->multi) != PAWL_OK) {
        die("open multi-lock: %s", pawl_last_error());
    }
    return set;
}

static void ours_step(struct set *set)
{
    if (set->multi != NULL) {
        ours_acquire(set->multi);
        ours_release(set->multi);
        return;
    }
    for (size_t i = 0; i < set->count; i++) {
        ours_acquire(set->members[i]);
    }
    for (size_t i = 0; i < set->count; i++) {
        ours_release(set->members[i]);
    }
}

static void ours_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    run(self, slice_ns, sample, ours_step);
}

static void ours_set_close(void *self)
{
    struct set *set = self;
    pawl_lock_close(set->multi);
    for (size_t i = 0; i < set->count; i++) {
        pawl_lock_close(set->members[i]);
    }
    pawl_client_close(set->client);
    free(set);
}

static const struct side_kind ours_kind = {"pawl", ours_set_open, ours_slice, ours_set_close};

/* ===== Pipelined ===== */

static void *pipelined_open(const void *arg)
{
    const struct set_arg *set_arg = arg;
    struct set *set = calloc(1, sizeof *set);
    set->count = set_arg->count;
    place_self(PLACEMENT_SAME);
    set->fd = server_connect_raw(set_arg->bench->server, TRANSPORT_TCP);
    for (size_t i = 0; i < set->count; i++) {
        pair_open(&set->pairs[i], &set_arg->bench->pattern, set_arg->name_number + (unsigned)i);
    }
    return set;
}

static void send_all(const struct set *set, bool releases)
{
    char batch[BATCH_SIZE];
    size_t size = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct command *command = releases ? &set->pairs[i].release : &set->pairs[i].acquire;
        if (command->size > sizeof batch - size) {
            die("the commands are larger than expected");
        }
        memcpy(batch + size, command->bytes, command->size);
        size += command->size;
    }
    if (send(set->fd, batch, size, MSG_NOSIGNAL) != (ssize_t)size) {
        die("send failed");
    }
}

/* Each is one line, a positive number. */
static void receive_all(const struct set *set)
{
    char replies[BATCH_SIZE];
    char before = '\n';
    for (size_t lines = 0; lines < set->count;) {
        const ssize_t size = recv(set->fd, replies, sizeof replies, 0);
        if (size <= 0) {
            die("recv failed");
        }
        for (ssize_t i = 0; i < size; i++) {
            const bool bad = before == '\n'
                                 ? replies[i] != ':'
                                 : before == ':' && (replies[i] < '1' || replies[i] > '9');
            if (bad) {
                die("the server answered: %.*s", (int)(size - i), replies + i);
            }
            lines += replies[i] == '\n';
            before = replies[i];
        }
    }
}

static void pipelined_step(struct set *set)
{
    send_all(set, false);
    receive_all(set);
    send_all(set, true);
    receive_all(set);
    for (size_t i = 0; i < set->count; i++) {
        pair_advance(&set->pairs[i]);
    }
}

static void pipelined_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    run(self, slice_ns, sample, pipelined_step);
}

static void pipelined_close(void *self)
{
    struct set *set = self;
    for (size_t i = 0; i < set->count; i++) {
        pair_close(&set->pairs[i]);
    }
    close(set->fd);
    free(set);
}

static const struct side_kind pipelined_kind = {
    "pipelined", pipelined_open, pipelined_slice, pipelined_close};

/* ===== The group ===== */

/* The sides' places in the rounds. */
enum { MULTI, SINGLY, PIPELINED, SIDE_COUNT };

static bool measure(struct bench *bench, size_t count, struct rounds *rounds)
{
    const struct set_arg args[SIDE_COUNT] = {[MULTI] = {bench, 5000, count, true},
        [SINGLY] = {bench, 5100, count, false},
        [PIPELINED] = {bench, 5200, count, false}};
    struct side sides[SIDE_COUNT] = {[MULTI] = {.kind = &ours_kind},
        [SINGLY] = {.kind = &ours_kind},
        [PIPELINED] = {.kind = &pipelined_kind}};
    for (size_t i = 0; i < SIDE_COUNT; i++) {
        sides[i].arg = &args[i];
    }
    return rounds_run(rounds, bench->server, sides, SIDE_COUNT, bench_rounds_of_short(bench),
        bench_slice_ns(bench, SLICE_MS));
}

static double set_us(const struct sample *sample)
{
    return 1e6 / sample_rate(sample);
}

/* What the rows of sets of one size are called; the report keeps it. */
struct titles {
    char sets[48];
    char server[48];
    char client[48];
};

static void compare(
    struct bench *bench, size_t count, const struct rounds *rounds, struct titles *titles)
{
    snprintf(titles->sets, sizeof titles->sets, "%zu locks as a multi-lock: a set takes", count);
    snprintf(titles->server, sizeof titles->server, "%zu locks: redis CPU per set", count);
    snprintf(titles->client, sizeof titles->client, "%zu locks: client CPU per set", count);
    const struct comparison comparisons[] = {
        {titles->sets, "us", set_us, MULTI, SINGLY, "one by one", MUST_NOT, 0},
        {titles->sets, "us", set_us, MULTI, PIPELINED, "pipelined", MUST_NOT, 0},
        {titles->client, "us", sample_cpu_us, MULTI, SINGLY, "one by one", MUST_NOT, 0},
        {titles->server, "us", sample_server_cpu_us, MULTI, PIPELINED, "pipelined", MUST_NOT, 0}};
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++) {
        report_compare(&bench->report, "multi", rounds, &comparisons[i]);
    }
}

bool group_multi(struct bench *bench)
{
    static const size_t sizes[] = {2, 8, 16, 64};
    static struct titles titles[sizeof sizes / sizeof sizes[0]];
    static struct rounds rounds;
    bool good = true;
    place_server(bench->server, PLACEMENT_SAME);
    for (size_t i = 0; good && i < sizeof sizes / sizeof sizes[0]; i++) {
        if (bench->quick && sizes[i] != QUICK_SIZE) {
            continue;
        }
        good = measure(bench, sizes[i], &rounds);
        if (good) {
            compare(bench, sizes[i], &rounds, &titles[i]);
        }
    }
    place_server(bench->server, PLACEMENT_FREE);
    return good;
}
