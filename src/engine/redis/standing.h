/* SPDX-License-Identifier: Apache-2.0 */
/* What a quorum has to know about a server that may have restarted: who it is, whether it forgets
 * anything, and since when others have been seen. A run of a server is noted at *other* servers,
 * where it survives both us and that server: pawl_seen:<run_id> is the time, by the clock of the
 * server that keeps the note, when that run was first seen. A note lasts 30 days from the last time
 * that somebody asked for it. pawl_seen:durable, which lasts, is a server's note of itself.
 *
 * pawl_seen:<run_id>:clock is how far that server's clock was ahead of the one of the server that
 * keeps the note: "<least> <most> <noted> <jumped>", the first two in us, the others times in ms by
 * that clock; jumped is when a jump was last found, or 0. A key of its own, because an older pawl
 * takes the other one for a number. */
#ifndef PAWL_ENGINE_REDIS_STANDING_H
#define PAWL_ENGINE_REDIS_STANDING_H

#include "engine/redis/console.h"

/* What the greeting said, with the time of day here. */
void pawl__identity_note(struct pawl__server_identity *identity, const struct pawl__greet *greet);

/* As in engine.h; on a connection of their own. */
pawl_status pawl__standing_durable(const struct pawl__redis_config *config, bool *durable_out);
pawl_status pawl__standing_seen(const struct pawl__redis_config *config,
    struct pawl__sighting *sightings, size_t count, struct pawl__clock_sample *sample_out);

#endif
