/* SPDX-License-Identifier: Apache-2.0 */
/* The library's contenders: one client, and one handle that all callers share as they would a
 * pthread_mutex_t. */
#include "lib/contender.h"

#include "lib/ours.h"

#include <stdio.h>
#include <stdlib.h>

struct contender {
    pawl_client *client;
    pawl_lock *lock;
};

enum { HANDOFF = 64 };

static void *open_url(const char *url, const char *lock_name, const pawl_lock_options *options)
{
    struct contender *self = calloc(1, sizeof *self);
    self->client = ours_open(url);
    self->lock = ours_lock(self->client, lock_name, options);
    return self;
}

static void *open_redis(const struct server *server, const char *lock_name, size_t caller_count)
{
    (void)caller_count;
    return open_url(server_url(server, TRANSPORT_TCP), lock_name, NULL);
}

static void *open_handoff(const struct server *server, const char *lock_name, size_t caller_count)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.handoff = HANDOFF;
    (void)caller_count;
    return open_url(server_url(server, TRANSPORT_TCP), lock_name, &options);
}

static void *open_fair(const struct server *server, const char *lock_name, size_t caller_count)
{
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.kind = PAWL_FAIR;
    (void)caller_count;
    return open_url(server_url(server, TRANSPORT_TCP), lock_name, &options);
}

static void *open_file(const struct server *server, const char *lock_name, size_t caller_count)
{
    char url[128];
    (void)caller_count;
    snprintf(url, sizeof url, "file://%s/locks", server->directory);
    return open_url(url, lock_name, NULL);
}

static void lock(void *self, size_t caller)
{
    struct contender *contender = self;
    (void)caller;
    ours_acquire(contender->lock);
}

static void unlock(void *self, size_t caller)
{
    struct contender *contender = self;
    (void)caller;
    ours_release(contender->lock);
}

static void close_ours(void *self)
{
    struct contender *contender = self;
    pawl_lock_close(contender->lock);
    pawl_client_close(contender->client);
    free(contender);
}

const struct contender_kind contender_ours = {"pawl", open_redis, lock, unlock, close_ours};
const struct contender_kind contender_ours_handoff = {
    "pawl hand-off", open_handoff, lock, unlock, close_ours};
const struct contender_kind contender_ours_fair = {
    "pawl fair", open_fair, lock, unlock, close_ours};
const struct contender_kind contender_ours_file = {
    "pawl file", open_file, lock, unlock, close_ours};
