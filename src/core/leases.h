/* SPDX-License-Identifier: Apache-2.0 */
/* Permits that one handle of a semaphore has acquired and keeps alive: renewed together every third
 * of their lease, each lost for itself.
 *
 * A permit is until its deadline, which counts from before the question was sent whose answer
 * proved it, surely out in our name. Renewals that are not answered are repeated until then. What
 * is lost is dropped, and told once, by finishing a request that its acquirer had prepared: so
 * nothing that can happen to a permit needs memory, but for the renewal itself, which is tried
 * again.
 *
 * There may be very many of them, and all of this happens under the client's mutex. So they are
 * found by their ids in a map, and the next thing to do is first in a heap: the renewal of one that
 * rests, or the end of one that waits for its renewal. */
#ifndef PAWL_CORE_LEASES_H
#define PAWL_CORE_LEASES_H

#include "core/tally.h"

struct pawl__permit {
    struct pawl__list node; /* in one list of its leases */
    struct pawl__map_node by_id;
    struct pawl__timer timer; /* in the heap of its leases */
    struct pawl__permit_id id;
    int64_t deadline_us;
    int64_t proven_us;          /* when the last question was sent that proved it */
    struct pawl__request *lost; /* finished with PAWL_LOST if it is lost, and with PAWL_OK if it is
                                   dropped otherwise; NULL: nobody wants to know */
};

struct pawl__leases {
    struct pawl__list node; /* in the machine's */
    struct pawl__name *name;
    struct pawl__map ids;
    struct pawl__heap timers;    /* of the permits */
    struct pawl__timer timer;    /* the machine's, for the first of these */
    struct pawl__list resting;   /* each is in one of these: nothing to do, */
    struct pawl__list due;       /* to be renewed next, */
    struct pawl__list asked;     /* and those that the renewal asks for */
    struct pawl__tally *renewal; /* under way; NULL: none */
    int64_t retry_us;            /* none is to begin earlier */
    int64_t lease_us;
    unsigned attempt; /* renewals since the last answer */
};

static inline struct pawl__leases *pawl__handle_leases(const struct pawl__handle *handle)
{
    return handle->extra != NULL ? handle->extra->leases : NULL;
}

/* The handle has its extra part. False: no memory. */
bool pawl__leases_begin(
    struct pawl__machine *machine, struct pawl__handle *handle, struct pawl__leases *leases);

/* The handle is detached: what is left is not renewed any more. */
void pawl__leases_end(struct pawl__machine *machine, struct pawl__handle *handle);

/* For a handle that is freed: there may be no machine any more, nor permits. */
void pawl__leases_free(struct pawl__handle *handle);

/* These permits, in a list, were granted by the answer to this operation. */
void pawl__leases_add(struct pawl__machine *machine, struct pawl__leases *leases,
    struct pawl__list *permits, const struct pawl__op *op);

/* Do not renew these any more, or, with ids NULL, any `count`: into the list `dropped`. How many of
 * them there were. */
size_t pawl__leases_drop(struct pawl__machine *machine, struct pawl__leases *leases,
    const struct pawl__permit_id *ids, size_t count, struct pawl__list *dropped);

/* Until when this permit is surely out; 0: it is not one of these. */
int64_t pawl__leases_deadline(const struct pawl__leases *leases, const struct pawl__permit_id *id);

/* An extension that the user asked for was answered, or a renewal came back. */
void pawl__leases_extended(struct pawl__machine *machine, struct pawl__leases *leases,
    const struct pawl__op *op, int64_t now_us);
void pawl__leases_answered(
    struct pawl__machine *machine, struct pawl__tally *renewal, int64_t now_us);

void pawl__leases_timer(struct pawl__machine *machine, struct pawl__leases *leases, int64_t now_us);
void pawl__leases_reconnected(struct pawl__machine *machine, int64_t now_us);

/* For a close: give back whatever is out. */
void pawl__leases_release_all(struct pawl__machine *machine, int64_t now_us);

#endif
