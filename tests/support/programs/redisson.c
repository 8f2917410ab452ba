/* SPDX-License-Identifier: Apache-2.0 */
/* redisson BOARD INDEX: a worker of the fault tests (see holder.c) that takes and waits for locks
 * as a Redisson client with one thread does, over raw sockets: ask; if it is held, subscribe, ask
 * once more, then sleep until a message comes or the holder's time to live has passed, and ask
 * again. Released is with a message to whoever waits. The layout is Redisson's; the scripts are our
 * own and have the same effects. */
#include "fault/lib/board.h"
#include "support/resp.h"
#include "support/sockets.h"
#include "support/wait.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define CHANNEL_PREFIX "redisson_lock__channel:"

static const char acquire_script[] =
    "if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then "
    "redis.call('HINCRBY', KEYS[1], ARGV[2], 1) redis.call('PEXPIRE', KEYS[1], ARGV[1]) "
    "return nil end return redis.call('PTTL', KEYS[1])";

static const char release_script[] =
    "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return nil end "
    "if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then return 0 end "
    "redis.call('DEL', KEYS[1]) redis.call('PUBLISH', KEYS[2], '0') return 1";

/* A connection, and what has arrived on it. */
struct line {
    int fd;
    struct text in;
};

static struct board *board;
static struct board_worker *self;
static struct line commands;
static struct line messages;
static int log_fd;
static char name[64];
static char channel[96];
static char owner[64];

/* The next value as flat text, to be freed; NULL: none came in time. */
static char *receive(struct line *line, int64_t timeout_ms)
{
    char room[4096];
    size_t size = 0;
    while (resp_find_end(line->in.data, line->in.size, &size) != RESP_COMPLETE) {
        const ssize_t received = socket_receive(line->fd, room, sizeof room, timeout_ms);
        if (received <= 0) {
            return NULL;
        }
        text_add(&line->in, room, (size_t)received);
    }
    struct text flat = {0};
    resp_add_flat(&flat, line->in.data, size);
    text_remove(&line->in, size);
    return text_take(&flat);
}

static void send_words(struct line *line, size_t count, const char *const words[])
{
    struct text request = {0};
    size_t sizes[6] = {0};
    for (size_t i = 0; i < count; i++) {
        sizes[i] = strlen(words[i]);
    }
    resp_add_request(&request, count, words, sizes);
    if (!socket_send(line->fd, request.data, request.size, 5000)) {
        exit(1);
    }
    text_free(&request);
}

/* The flat reply to a script's call, to be freed. */
static char *call(
    const char *script, const char *keys, const char *first, const char *second, const char *third)
{
    const char *const words[] = {"EVAL", script, keys, first, second, third};
    send_words(&commands, 6, words);
    char *reply = receive(&commands, 5000);
    if (reply == NULL) {
        fprintf(stderr, "redisson: no reply\n");
        exit(1);
    }
    return reply;
}

/* -1: it is ours; else how long its holder may keep it. */
static int64_t try_lock(void)
{
    char lease[24];
    snprintf(lease, sizeof lease, "%lld", (long long)self->plan.lease_ms);
    char *reply = call(acquire_script, "1", name, lease, owner);
    const int64_t ttl_ms = strcmp(reply, "(nil)") == 0 ? -1 : strtoll(reply, NULL, 10);
    free(reply);
    return ttl_ms;
}

/* Subscribe or unsubscribe, and wait until that is confirmed; messages may come before. */
static void follow(const char *command, const char *confirmation)
{
    const char *const words[] = {command, channel};
    send_words(&messages, 2, words);
    char *reply = NULL;
    do {
        free(reply);
        reply = receive(&messages, 5000);
    } while (reply != NULL && strncmp(reply, confirmation, strlen(confirmation)) != 0);
    free(reply);
}

static bool stopped(void)
{
    return atomic_load(&board->stop) != 0;
}

/* False: the board says stop. */
static bool lock(void)
{
    int64_t ttl_ms = try_lock();
    if (ttl_ms < 0) {
        return true;
    }
    follow("SUBSCRIBE", "subscribe");
    ttl_ms = try_lock();
    while (ttl_ms >= 0 && !stopped()) {
        free(receive(&messages, ttl_ms < 500 ? ttl_ms : 500)); /* to hear the board, too */
        ttl_ms = try_lock();
    }
    follow("UNSUBSCRIBE", "unsubscribe");
    return ttl_ms < 0;
}

static void unlock(void)
{
    char *reply = call(release_script, "2", name, channel, owner);
    if (strcmp(reply, "1") != 0) {
        snprintf(self->complaint, sizeof self->complaint, "release answered %s", reply);
        atomic_store(&self->complained, 1);
    }
    free(reply);
}

static void record(uint64_t hold, enum hold_step step)
{
    const struct hold_record whole = {
        .hold = hold, .step = step, .at_us = boottime_us(), .until_us = INT64_MAX};
    if (write(log_fd, &whole, sizeof whole) != (ssize_t)sizeof whole) {
        exit(1);
    }
}

static void work(uint64_t hold)
{
    record(hold, HOLD_ACQUIRED);
    const uint64_t number = atomic_load(&board->names[0].number);
    const struct timespec pause = {0, self->plan.work_us * 1000};
    nanosleep(&pause, NULL);
    atomic_fetch_add(&self->started, 1);
    atomic_store(&board->names[0].number, number + 1);
    atomic_fetch_add(&self->finished, 1);
    record(hold, HOLD_LEAVING);
}

static bool prepare(const char *path, const char *index)
{
    char log_path[BOARD_TEXT_SIZE];
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    snprintf(log_path, sizeof log_path, "%s.%s", path, index);
    log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || board == MAP_FAILED || log_fd < 0) {
        return false;
    }
    close(fd);
    self = &board->workers[strtoul(index, NULL, 10)];
    const uint16_t port = (uint16_t)strtoul(strrchr(self->plan.url, ':') + 1, NULL, 10);
    commands.fd = socket_connect(port);
    messages.fd = socket_connect(port);
    snprintf(name, sizeof name, "fault:%u", self->plan.name_first);
    snprintf(channel, sizeof channel, CHANNEL_PREFIX "{%s}", name);
    snprintf(owner, sizeof owner, "6ba7b810-9dad-11d1-80b4-%012ld:1", (long)getpid());
    return commands.fd >= 0 && messages.fd >= 0;
}

int main(int argc, char *argv[])
{
    if (argc != 3 || !prepare(argv[1], argv[2])) {
        return 2;
    }
    atomic_store(&self->stage, BOARD_READY);
    for (uint64_t hold = 1; !stopped() && lock(); hold++) {
        atomic_fetch_add(&self->acquires[PAWL_OK], 1);
        atomic_store(&self->acquired_us, boottime_us());
        work(hold);
        unlock();
        atomic_fetch_add(&self->releases[PAWL_OK], 1);
        record(hold, HOLD_RELEASED);
    }
    atomic_store(&self->stage, BOARD_DONE);
    return atomic_load(&self->complained) == 0 ? 0 : 1;
}
