/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning and the end of a round; round.h has the whole. */
#include "torture/lib/round.h"

#include "fault/lib/pace.h"
#include "support/fail.h"
#include "support/resources.h"
#include "support/wait.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

enum {
    TIMEOUT_MS = 250,
    GIVE_UP_MS = 5000,
    STEP_MS = 1,
    FIRST_MS = 30000,
    PROGRESS_MS = 15000, /* O9: all threads, with all the waiting that they may do */
    REDIS_GAP_MS = 130,
    FILE_GAP_MS = 60,
    PERMITS = 6, /* of each semaphore */
    DOWNS = 12,  /* of each latch */
    KIND_COUNT = 6,
    QUORUM_NAMES = 2,
};

#define SMALL_DISK "size=256k,mode=0700"

/* ===== The backend ===== */

static void add_url(char *urls, const char *url)
{
    const size_t used = strlen(urls);
    snprintf(urls + used, ARENA_TEXT_SIZE - used, "%s%s", used > 0 ? " " : "", url);
}

/* Where a worker finds this server: half of them go through proxies, the others by TCP and by the
 * unix socket. */
static void lead_worker(struct round *round, unsigned slot, unsigned number)
{
    struct server *server = round->servers[number];
    const char *url = slot % 4 == 1 ? server_unix_url(server) : server_url(server);
    const bool proxied = slot % 2 == 0 && round->proxy_count < PROXIES_MAX;
    round->workers[slot].proxy = proxied ? (int)(slot / 2) : -1;
    if (proxied) {
        struct proxy *proxy = proxy_start_for(server);
        proxy_set_seed(proxy, draw_bits(&round->random));
        round->proxies[round->proxy_count++] = proxy;
        url = proxy_url(proxy);
    }
    add_url(round->arena->slots[slot].url, url);
}

/* Data survive the death of a server's process, as every answer is on its way to the file before it
 * leaves. */
static void begin_redis(struct round *round)
{
    static const char *const args[] = {
        "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0", NULL};
    const struct server_options options = {.args = args, .aof = true};
    round->server_count = round->arena->servers;
    for (unsigned i = 0; i < round->server_count; i++) {
        round->servers[i] = server_start(&options);
    }
    round->kinds = torture_redis_faults;
    round->gap_ms = REDIS_GAP_MS;
    snprintf(round->url, sizeof round->url, "%s", server_unix_url(round->servers[0]));
    for (unsigned i = 0; i < round->worker_count; i++) {
        for (unsigned k = 0; k < round->server_count; k++) {
            lead_worker(round, i, k);
        }
    }
}

/* Mounts of this process and its children from now on are nobody else's. */
static bool has_own_mounts(void)
{
    static int own = -1;
    if (own < 0) {
        own = geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
              mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    }
    return own > 0;
}

static void unmount(void *path)
{
    umount2(path, MNT_DETACH);
    free(path);
}

/* A disk that can be filled, where we may. */
static bool mount_small_disk(const char *directory)
{
    if (!has_own_mounts() || mount("pawl", directory, "tmpfs", 0, SMALL_DISK) != 0) {
        return false;
    }
    cleanup_add(unmount, strdup(directory));
    return true;
}

static void begin_file(struct round *round)
{
    round->lock_directory = tempdir_make();
    round->small_disk = mount_small_disk(round->lock_directory);
    round->kinds = torture_file_faults;
    round->server_count = 1;
    round->gap_ms = FILE_GAP_MS;
    snprintf(round->url, sizeof round->url, "file://%s", round->lock_directory);
    for (unsigned i = 0; i < round->worker_count; i++) {
        round->workers[i].proxy = -1;
        snprintf(round->arena->slots[i].url, ARENA_TEXT_SIZE, "%.500s", round->url);
    }
}

static void open_operator(struct round *round)
{
    if (round->arena->theme == THEME_QUORUM) {
        return; /* nobody breaks these */
    }
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    options.timeout_ms = TIMEOUT_MS * PACE;
    if (pawl_client_open(round->url, &options, &round->operator_client) != PAWL_OK) {
        support_fail("the operator cannot connect: %s", pawl_last_error());
    }
    if (round->arena->theme == THEME_COUNTS) {
        counts_begin(round);
        return;
    }
    for (unsigned i = 0; i < round->arena->names; i++) {
        char name[64];
        pawl_lock_options lock_options = PAWL_LOCK_OPTIONS_INIT;
        lock_options.kind = round->arena->kinds[i];
        snprintf(name, sizeof name, ARENA_NAME_FORMAT, i);
        if (pawl_lock_open(round->operator_client, name, &lock_options,
                &round->operator_locks[i]) != PAWL_OK) {
            support_fail("the operator cannot open %s: %s", name, pawl_last_error());
        }
    }
}

static void close_operator(struct round *round)
{
    for (unsigned i = 0; i < round->arena->names; i++) {
        pawl_lock_close(round->operator_locks[i]);
    }
    pawl_semaphore_close(round->semaphores[0]);
    pawl_semaphore_close(round->semaphores[1]);
    pawl_client_close(round->operator_client);
}

/* ===== Beginning ===== */

static void unmap_arena(void *arena)
{
    munmap(arena, sizeof(struct arena));
}

/* One name after the other; a file knows mutexes only. */
static void draw_kinds(struct arena *arena)
{
    static const struct {
        pawl_kind kind;
        unsigned handoff;
    } kinds[KIND_COUNT] = {{PAWL_MUTEX, 0}, {PAWL_FAIR, 0}, {PAWL_WRITE, 0}, {PAWL_MUTEX, 16},
        {PAWL_SPIN, 0}, {PAWL_PLAIN, 0}};
    for (unsigned i = 0; i < arena->names; i++) {
        const size_t which = i % KIND_COUNT;
        arena->kinds[i] = kinds[which].kind;
        arena->handoffs[i] = kinds[which].handoff;
    }
}

static void make_arena(struct round *round, const struct round_plan *plan)
{
    snprintf(round->arena_path, sizeof round->arena_path, "%s/arena", plan->directory);
    const int fd = open(round->arena_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *round->arena) != 0) {
        support_fail("%s: %s", round->arena_path, strerror(errno));
    }
    struct arena *arena = mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (arena == MAP_FAILED) {
        support_fail("mmap: %s", strerror(errno));
    }
    cleanup_add(unmap_arena, arena);
    snprintf(arena->directory, sizeof arena->directory, "%s", plan->directory);
    arena->names = plan->theme == THEME_QUORUM ? QUORUM_NAMES : plan->names;
    arena->workers = plan->workers;
    arena->threads = plan->threads;
    arena->lease_ms = plan->lease_ms;
    arena->timeout_ms = TIMEOUT_MS * PACE;
    arena->give_up_ms = GIVE_UP_MS;
    arena->token_base = plan->unlocked ? (uint64_t)boottime_us() - 1 : wall_clock_us() - 1000000;
    arena->unlocked = plan->unlocked;
    arena->theme = plan->theme;
    arena->servers = plan->theme == THEME_QUORUM ? ARENA_SERVERS_MAX : 1;
    arena->permits = PERMITS;
    arena->downs = DOWNS;
    if (plan->engine == TORTURE_REDIS && !plan->unlocked && plan->theme == THEME_LOCKS) {
        draw_kinds(arena);
        arena->several = arena->names >= KIND_COUNT;
    }
    round->arena = arena;
}

void round_begin(struct round *round, const struct round_plan *plan)
{
    memset(round, 0, sizeof *round);
    round->engine = plan->engine;
    round->seed = plan->seed;
    round->random = plan->seed;
    round->keep = plan->keep;
    round->worker_count = plan->workers;
    make_arena(round, plan);
    if (plan->engine == TORTURE_REDIS) {
        begin_redis(round);
    } else {
        begin_file(round);
    }
    open_operator(round);
    for (unsigned i = 0; i < round->worker_count; i++) {
        round->arena->slots[i].seed = draw_bits(&round->random);
        staff_start(round, i);
    }
    staff_await_progress(round, 1, FIRST_MS * PACE);
    nemesis_begin(round);
    if (plan->calm) {
        round->next_fault_us = INT64_MAX;
    }
}

bool round_step(struct round *round)
{
    nap_ms(STEP_MS);
    nemesis_step(round, boottime_us());
    for (unsigned i = 0; i < round->worker_count; i++) {
        if (atomic_load(&round->arena->slots[i].complained) != 0) {
            return false;
        }
    }
    return true;
}

/* ===== O7: what is left behind ===== */

static bool has_no_keys(void *arg)
{
    struct server *server = arg;
    return server_answers(server, "", "KEYS torture:*") &&
           server_answers(server, "", "KEYS {torture:*"); /* of single readers */
}

static void check_keys(struct round *round, struct server *server)
{
    if (!wait_for(has_no_keys, server, round->arena->lease_ms + SLACK_MS)) {
        char *keys = server_command(server, "KEYS *torture:*");
        blame(&round->verdict, 7, "these are still there when all leases are over: %.300s", keys);
        free(keys);
    }
}

/* Only the files of the locks, and nobody has them. */
static void check_files(struct round *round)
{
    for (unsigned i = 0; i < round->arena->names; i++) {
        const pawl_status status = pawl_lock_acquire(round->operator_locks[i], PAWL_TRY);
        if (status != PAWL_OK) {
            blame(&round->verdict, 7, "name %u is %s when everybody has gone: %.300s", i,
                pawl_status_string(status), pawl_last_error());
        } else {
            pawl_lock_release(round->operator_locks[i]);
        }
    }
    DIR *directory = opendir(round->lock_directory);
    const struct dirent *entry = directory != NULL ? readdir(directory) : NULL;
    for (; entry != NULL; entry = readdir(directory)) {
        if (entry->d_name[0] != '.' && strncmp(entry->d_name, "torture:", 8) != 0) {
            blame(&round->verdict, 7, "%.200s was left behind", entry->d_name);
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
}

/* ===== The end ===== */

static void read_history(struct round *round)
{
    round->history.threads = round->arena->threads;
    round->history.lease_us = round->arena->lease_ms * 1000;
    for (unsigned i = 0; i < round->worker_count; i++) {
        for (unsigned j = 0; j <= round->workers[i].generation; j++) {
            history_read_log(&round->history, round->arena->directory, i, j);
        }
    }
    history_finish(&round->history);
}

void round_end(struct round *round)
{
    nemesis_heal(round);
    if (verdict_violations(&round->verdict) == 0) {
        staff_await_progress(round, boottime_us(), PROGRESS_MS * PACE);
    }
    staff_dismiss(round);
    if (round->arena->theme == THEME_COUNTS) {
        counts_finish(round);
    } else if (round->engine == TORTURE_REDIS) {
        for (unsigned i = 0; i < round->server_count; i++) {
            check_keys(round, round->servers[i]);
        }
    } else {
        check_files(round);
    }
    close_operator(round);
    read_history(round);
    if (round->arena->theme == THEME_COUNTS) {
        judge_counts(&round->history, round->arena, &round->verdict);
    } else {
        judge_history(&round->history, round->arena, &round->verdict);
    }
    if (verdict_violations(&round->verdict) > 0 || round->keep) {
        char path[ARENA_TEXT_SIZE + 16];
        snprintf(path, sizeof path, "%s/history.txt", round->arena->directory);
        history_dump(&round->history, path);
    }
    history_free(&round->history);
}

uint64_t round_acquired(const struct round *round)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < round->worker_count; i++) {
        sum += atomic_load(&round->arena->slots[i].acquires[PAWL_OK]);
    }
    return sum;
}

uint64_t round_faults(const struct round *round)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < KINDS_MAX; i++) {
        sum += round->kind_counts[i];
    }
    return sum;
}
