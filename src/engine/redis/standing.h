/* SPDX-License-Identifier: Apache-2.0 */
/* What a quorum has to know about a server that may have restarted: who it is, whether it forgets
 * anything, and since when others have been seen. A run of a server is noted at *other* servers,
 * where it survives both us and that server: pawl_seen:<run_id> is the time, by the clock of the
 * server that keeps the note, when that run was first seen. A note lasts 30 days from the last time
 * that somebody asked for it. pawl_seen:durable, which lasts, is a server's note of itself. */
#ifndef PAWL_ENGINE_REDIS_STANDING_H
#define PAWL_ENGINE_REDIS_STANDING_H

#include "engine/redis/console.h"

/* What the greeting said, with the time of day here. */
void pawl__identity_note(struct pawl__server_identity *identity, const struct pawl__greet *greet);

/* As in engine.h; on a connection of their own. */
pawl_status pawl__standing_durable(const struct pawl__redis_config *config, bool *durable_out);
pawl_status pawl__standing_seen(
    const struct pawl__redis_config *config, struct pawl__sighting *sightings, size_t count);

#endif
