/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of one name in the backend, before and after an operation, and the second opinion on
 * what the operation makes of it; for backend.c. They are big: no more is copied than is there. */
#ifndef PAWL_TESTS_SIM_LIB_PICTURE_H
#define PAWL_TESTS_SIM_LIB_PICTURE_H

#include "sim.h"

#define SIM_HOLDS_MOST 2048 /* of one name; the dead may leave some */
#define SIM_LINE_MOST 2048

struct sim_hold {
    uint64_t peer; /* the client, in this life */
    uint64_t id;
    uint64_t token;
    int64_t expires_us;
    unsigned count;
    bool reads;
};

struct sim_waiter {
    uint64_t peer;
    uint64_t id;
    int64_t dead_us;
};

/* An entry at one moment: one hold as a rule, any number of readers; and a fair lock's queue. */
struct sim_picture {
    uint64_t token; /* of the last grant, and how many more were given with it */
    uint64_t more;
    bool full; /* there is more to be seen */
    unsigned held;
    unsigned line;
    struct sim_hold holds[SIM_HOLDS_MOST];
    struct sim_waiter waiters[SIM_LINE_MOST];
};

/* What an operation should make of it. */
struct sim_verdict {
    struct sim_picture *after;
    enum pawl__answer answer;
    bool grants; /* a token that was never given out before */
};

/* ===== picture.c ===== */

uint64_t sim_peer(const char *uuid);
const struct pawl__memory_entry *sim_entry(const struct sim_world *world, unsigned name);
void sim_picture_look(
    const struct sim_world *world, unsigned name, int64_t now_us, struct sim_picture *picture);
void sim_picture_copy(struct sim_picture *to, const struct sim_picture *from);
struct sim_hold *sim_picture_find(struct sim_picture *picture, uint64_t peer, uint64_t id);
bool sim_picture_same_holds(const struct sim_picture *a, const struct sim_picture *b);
bool sim_picture_same_line(const struct sim_picture *a, const struct sim_picture *b);
int64_t sim_picture_end(const struct sim_picture *picture); /* of the longest lease */

/* ===== opinion.c ===== */

/* The verdict's picture is that before the operation. `offered`: others would hear of an offer. */
void sim_opinion(
    struct sim_verdict *verdict, const struct sim_call *call, bool offered, int64_t now_us);

#endif
