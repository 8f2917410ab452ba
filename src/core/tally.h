/* SPDX-License-Identifier: Apache-2.0 */
/* Semaphores and latches: the part of the machine that counts.
 *
 * A tally is one request about a count: take permits, give some back, count a latch down, wait for
 * it. It belongs to nobody's tenure; what is taken from a count is the whole program's. It has a
 * number that this client never uses again, and asks its one question with this number until it has
 * an answer (struct pawl__tally_ask): the backend carries it out once.
 *
 *   start ──> ASKING ──answered──> ended
 *               │ ^ └ caller gone: taken back (undo), or gone on with (give, down) ──> ended
 *      not yet  v │ woken, or a second has passed
 *             WAITING, in the name's queue
 *
 * Who has to wait stands in the name's queue. The first of it listens: it subscribes, asks once
 * more, and then sleeps until a message, until the next lease of a permit ends, or about a second,
 * whichever is first. The others sleep until it is their turn: each who is granted lets the next
 * two ask, so that a count that suffices for all reaches all in a few steps, and one that does not
 * wakes hardly anybody in vain. Who comes new and may wait stands behind those who do, so that a
 * caller who wants many permits is not starved by others who want few. There may be many of them,
 * so those behind the first have no operation of their own, until they ask.
 *
 * A take whose caller has left without an answer is taken back in the background, for as long as
 * the backend keeps its record. */
#ifndef PAWL_CORE_TALLY_H
#define PAWL_CORE_TALLY_H

#include "core/machine.h"

struct pawl__tally {
    struct pawl__list all;  /* in the machine's tallies, or in its name's spares */
    struct pawl__list node; /* in its name's queue while it has to wait */
    struct pawl__timer timer;
    struct pawl__name *name;
    struct pawl__request *request; /* NULL: it left */
    struct pawl__op *op;           /* NULL: it only waits, and the backend has nothing of it */
    struct pawl__tally_ask ask;
    bool out;         /* op is with the engine, and with it what the ask is answered */
    bool unset;       /* the last answer said that nobody has set a count */
    bool doubt;       /* a copy is about whose end we do not know */
    bool undoing;     /* nobody wants what it took, or may have taken */
    unsigned attempt; /* tries since the last answer, for the back-off */
    uint64_t wakes;   /* the name's when we last asked */
    uint64_t number;  /* of the request; in a spare: whose record may be forgotten, 0: none */
    struct pawl__leases *leases; /* renews permits of these; NULL: it does not */
    int64_t copy_us; /* when the first copy was sent that may have been carried out unheard */
};

void pawl__tally_start(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us);
/* A question about permits that no request waits for: it is asked at once, and answered to its
 * `leases`, if these are set afterwards. NULL: no memory. */
struct pawl__tally *pawl__tally_alone(struct pawl__machine *machine, struct pawl__name *name,
    enum pawl__tally_verb verb, const struct pawl__permit_id *ids, size_t count, int64_t lease_us,
    int64_t now_us);

void pawl__tally_answered(struct pawl__machine *machine, struct pawl__tally *tally, int64_t now_us);
void pawl__tally_timeout(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us);
void pawl__tally_timer(struct pawl__machine *machine, struct pawl__tally *tally, int64_t now_us);

/* A message, or our own doing: the count may suffice now. */
void pawl__tally_wake(struct pawl__machine *machine, struct pawl__name *name, int64_t now_us);
void pawl__tally_reconnected(struct pawl__machine *machine, int64_t now_us);

/* End the handle's waits with PAWL_CANCELED. */
void pawl__tally_cancel(
    struct pawl__machine *machine, const struct pawl__handle *handle, int64_t now_us);

/* A new one, with copies of the ids (NULL: it has none), among the machine's and its name's; NULL:
 * no memory. And free what one points to. */
struct pawl__tally *pawl__tally_new(struct pawl__machine *machine, struct pawl__name *name,
    enum pawl__tally_verb verb, int64_t amount, const struct pawl__permit_id *ids);
void pawl__tally_clear(struct pawl__tally *tally);

/* Give it an operation again; false: no memory. And take it away. */
bool pawl__tally_equip(struct pawl__tally *tally);
void pawl__tally_strip(struct pawl__tally *tally);

/* What may be left at the backend if it ends without an answer: bits of PAWL__UNHEARD_. */
unsigned pawl__tally_at_stake(const struct pawl__tally *tally);

/* A sentence for a request that ends with this status. NULL: no memory. */
char *pawl__tally_explain(const struct pawl__tally *tally, pawl_status status);

/* Everything ends, without a word to the backend. */
void pawl__tally_abolish(struct pawl__machine *machine);
void pawl__tally_free_spares(struct pawl__traffic *traffic);

#endif
