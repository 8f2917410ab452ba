/* SPDX-License-Identifier: Apache-2.0 */
/* A process that waits as Redisson does; contender.h describes it.
 *
 * Threads: each caller uses its own connection. The subscriber's connection is read by one thread
 * of its own; callers write to its socket, under the mutex, without hiredis' output buffer, which
 * is why that connection is never used for redisCommand() after its start. */
#include "lib/contender.h"

#include "lib/die.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LEASE_MS = 30000, SHA_SIZE = 40, CALLERS_MAX = 64 };

static const char acquire_text[] =
    "if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then\n"
    "redis.call('HINCRBY', KEYS[1], ARGV[2], 1)\n"
    "redis.call('PEXPIRE', KEYS[1], ARGV[1])\n"
    "return nil\n"
    "end\n"
    "return redis.call('PTTL', KEYS[1])\n";

static const char release_text[] = "if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then\n"
                                   "return nil\n"
                                   "end\n"
                                   "if redis.call('HINCRBY', KEYS[1], ARGV[3], -1) > 0 then\n"
                                   "redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
                                   "return 0\n"
                                   "end\n"
                                   "redis.call('DEL', KEYS[1])\n"
                                   "redis.call('PUBLISH', KEYS[2], ARGV[1])\n"
                                   "return 1\n";

struct caller {
    redisContext *commands;
    char owner[64];
};

struct contender {
    const char *name;
    char channel[128];
    char acquire_sha[SHA_SIZE + 1];
    char release_sha[SHA_SIZE + 1];
    size_t caller_count;
    struct caller callers[CALLERS_MAX];
    redisContext *subscriber;
    pthread_t reader;
    sem_t permits;
    pthread_mutex_t mutex;
    pthread_cond_t confirmed;
    size_t waiter_count;      /* guarded by the mutex, as the next two */
    uint64_t subscribe_count; /* SUBSCRIBE sent */
    uint64_t confirmed_count; /* and confirmed */
};

/* ===== Hearing of releases ===== */

static void send_to_subscriber(struct contender *self, const char *command)
{
    char text[256];
    const int size = snprintf(text, sizeof text, "*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
        strlen(command), command, strlen(self->channel), self->channel);
    if (send(self->subscriber->fd, text, (size_t)size, MSG_NOSIGNAL) != size) {
        die("%s failed", command);
    }
}

static void hear(struct contender *self, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3) {
        return;
    }
    if (strcmp(reply->element[0]->str, "message") == 0) {
        sem_post(&self->permits);
    } else if (strcmp(reply->element[0]->str, "subscribe") == 0) {
        pthread_mutex_lock(&self->mutex);
        self->confirmed_count++;
        pthread_cond_broadcast(&self->confirmed);
        pthread_mutex_unlock(&self->mutex);
    }
}

static void *read_messages(void *arg)
{
    struct contender *self = arg;
    void *reply = NULL;
    while (redisGetReply(self->subscriber, &reply) == REDIS_OK) {
        hear(self, reply);
        freeReplyObject(reply);
    }
    return NULL;
}

static void subscribe(struct contender *self)
{
    pthread_mutex_lock(&self->mutex);
    if (self->waiter_count++ == 0) {
        self->subscribe_count++;
        send_to_subscriber(self, "SUBSCRIBE");
    }
    while (self->confirmed_count < self->subscribe_count) {
        pthread_cond_wait(&self->confirmed, &self->mutex);
    }
    pthread_mutex_unlock(&self->mutex);
}

static void unsubscribe(struct contender *self)
{
    pthread_mutex_lock(&self->mutex);
    if (--self->waiter_count == 0) {
        send_to_subscriber(self, "UNSUBSCRIBE");
        while (sem_trywait(&self->permits) == 0) {
            continue; /* the next waiters begin with none */
        }
    }
    pthread_mutex_unlock(&self->mutex);
}

static void sleep_on_permits(struct contender *self, long long ttl_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ttl_ms / 1000;
    until.tv_nsec += ttl_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    sem_clockwait(&self->permits, CLOCK_MONOTONIC, &until);
}

/* ===== Lock and unlock ===== */

/* -1: it is ours; else for how long it is held at most, in ms. */
static long long try_acquire(struct contender *self, struct caller *caller)
{
    redisReply *reply = redisCommand(caller->commands, "EVALSHA %s 1 %s %d %s", self->acquire_sha,
        self->name, LEASE_MS, caller->owner);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        die("acquire: %s", reply != NULL ? reply->str : caller->commands->errstr);
    }
    const bool granted = reply->type == REDIS_REPLY_NIL;
    const long long ttl_ms = reply->integer > 0 ? reply->integer : 1;
    freeReplyObject(reply);
    return granted ? -1 : ttl_ms;
}

static void lock(void *self, size_t index)
{
    struct contender *contender = self;
    struct caller *caller = &contender->callers[index];
    if (try_acquire(contender, caller) < 0) {
        return;
    }
    subscribe(contender);
    for (;;) {
        const long long ttl_ms = try_acquire(contender, caller);
        if (ttl_ms < 0) {
            break;
        }
        sleep_on_permits(contender, ttl_ms);
    }
    unsubscribe(contender);
}

static void unlock(void *self, size_t index)
{
    struct contender *contender = self;
    struct caller *caller = &contender->callers[index];
    redisReply *reply = redisCommand(caller->commands, "EVALSHA %s 2 %s %s 0 %d %s",
        contender->release_sha, contender->name, contender->channel, LEASE_MS, caller->owner);
    if (reply == NULL || reply->type != REDIS_REPLY_INTEGER || reply->integer != 1) {
        die("release: %s", reply == NULL ? caller->commands->errstr : "it was not held");
    }
    freeReplyObject(reply);
}

/* ===== Its life ===== */

static void load(const struct server *server, const char *text, char sha[SHA_SIZE + 1])
{
    redisReply *reply = server_command(server, "SCRIPT LOAD %s", text);
    snprintf(sha, SHA_SIZE + 1, "%s", reply->str);
    freeReplyObject(reply);
}

static void open_callers(struct contender *self, const struct server *server)
{
    for (size_t i = 0; i < self->caller_count; i++) {
        struct caller *caller = &self->callers[i];
        caller->commands = server_connect(server, TRANSPORT_TCP);
        snprintf(caller->owner, sizeof caller->owner, "%08x-0000-4000-8000-000000000000:%zu",
            (unsigned)getpid(), i + 1);
    }
}

static void *open_redisson(const struct server *server, const char *lock_name, size_t caller_count)
{
    struct contender *self = calloc(1, sizeof *self);
    self->name = lock_name;
    self->caller_count = caller_count;
    snprintf(self->channel, sizeof self->channel, "redisson_lock__channel:{%s}", lock_name);
    load(server, acquire_text, self->acquire_sha);
    load(server, release_text, self->release_sha);
    open_callers(self, server);
    self->subscriber = server_connect(server, TRANSPORT_TCP);
    sem_init(&self->permits, 0, 0);
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->confirmed, NULL);
    if (pthread_create(&self->reader, NULL, read_messages, self) != 0) {
        die("cannot start the subscriber");
    }
    return self;
}

static void close_redisson(void *self)
{
    struct contender *contender = self;
    shutdown(contender->subscriber->fd, SHUT_RDWR);
    pthread_join(contender->reader, NULL);
    redisFree(contender->subscriber);
    for (size_t i = 0; i < contender->caller_count; i++) {
        redisFree(contender->callers[i].commands);
    }
    free(contender);
}

const struct contender_kind contender_redisson = {
    "Redisson-style", open_redisson, lock, unlock, close_redisson};
