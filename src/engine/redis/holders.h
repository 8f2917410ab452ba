/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds these locks? A handful of names is asked for at once: one flight of scripts (look.lua)
 * tells what each key is, a second one who the holding clients are (introduce.h). Redisson's locks
 * are told like ours; their clients are not known by name.
 *
 * One thread at a time. What it keeps between two handfuls is its memory, whether the server knows
 * the script, and how its clock goes. */
#ifndef PAWL_ENGINE_REDIS_HOLDERS_H
#define PAWL_ENGINE_REDIS_HOLDERS_H

#include "engine/redis/console.h"
#include "engine/redis/place.h"

enum { PAWL__HOLDERS_NAMES_MAX = 64 }; /* asked for at once */

enum pawl__key_kind {
    PAWL__KEY_UNASKED,
    PAWL__KEY_FREE,
    PAWL__KEY_LOCK,
    PAWL__KEY_OTHER,  /* somebody's data */
    PAWL__KEY_HIDDEN, /* the user may not see it */
    PAWL__KEY_VEILED, /* a number, and the user may not see its permits, if it is a semaphore */
};

/* All that look.lua calls, whatever the key turns out to be. */
#define PAWL__LOOK_RIGHTS                                                                       \
    "+evalsha +eval +time +pttl +get +getrange +hlen +hget +hkeys +hscan +llen +zcard +zcount " \
    "+zrangebyscore '+pubsub|numsub'"

struct pawl__holders {
    struct pawl__console *console;
    bool loaded;       /* the server knows the script */
    int64_t server_us; /* its clock when ours said local_us; 0: not known */
    int64_t local_us;
    pawl_entry *entries; /* the holds that were found, all of one lock in a row */
    size_t entry_count;
    size_t entry_capacity;
    pawl_entry free; /* of the last name that was free: its token and who waits */
};

void pawl__holders_init(struct pawl__holders *holders, struct pawl__console *console);
void pawl__holders_fini(struct pawl__holders *holders);

/* Ask for these names; `kinds` tells what each of them is, `entries` has the holds. Sets the last
 * error. */
pawl_status pawl__holders_ask(struct pawl__holders *holders, const struct pawl__redis_text *names,
    size_t name_count, enum pawl__key_kind *kinds_out);

/* For others who have to do with a lock: a new entry, to be given its owner string as holder (NULL:
 * no memory); and, asked of the server, which processes all entries belong to. Sets the last error.
 */
pawl_entry *pawl__holders_add(struct pawl__holders *holders);
pawl_status pawl__holders_introduce(struct pawl__holders *holders);

#endif
