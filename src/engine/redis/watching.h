/* SPDX-License-Identifier: Apache-2.0 */
/* Hints about locks of one server, for people who watch (core/observe.h).
 *
 * Two sources. The channels of locks, semaphores and latches, by pattern: Redisson and we publish
 * there when one is free again. And the server's keyspace events, if its setting
 * notify-keyspace-events has them: these tell of every acquisition and expiry too (and of other
 * keys, which costs a look each; so strings, of which servers are full, are not among them, and
 * plain locks are found by looking). A source that the user may not hear is done without.
 *
 * A watch has a connection of its own. When it breaks it is made anew while somebody waits, and
 * then anything may have changed. Hints are kept in a bounded queue; when it is full they are
 * dropped for one that says the same: look at everything.
 *
 * One release often comes by both sources, as "hdel", "del" and the message, one right behind the
 * other. Of these only the message is kept, lest it look like two releases. */
#ifndef PAWL_ENGINE_REDIS_WATCHING_H
#define PAWL_ENGINE_REDIS_WATCHING_H

#include "engine/redis/looking.h"

struct pawl__watching;

/* As in engine.h. */
pawl_status pawl__watching_open(
    struct pawl__looking *looking, const char *pattern, struct pawl__watching **watching_out);
pawl_status pawl__watching_wait(
    struct pawl__watching *watching, int64_t deadline_us, struct pawl__hint *hint_out);
void pawl__watching_close(struct pawl__watching *watching);
bool pawl__watching_exact(const struct pawl__watching *watching);
bool pawl__watching_hears_releases(const struct pawl__watching *watching);

#endif
