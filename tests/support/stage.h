/* SPDX-License-Identifier: Apache-2.0 */
/* A stage for one client's machine: its backend is a table in memory, its clock stands still until
 * the test moves it. What the machine submits lies in `out` until the test lets it through, so
 * deadlines can be asserted to the microsecond and every lost or late answer can be staged by hand.
 */
#ifndef PAWL_SUPPORT_STAGE_H
#define PAWL_SUPPORT_STAGE_H

#include "core/machine.h"
#include "engine/memory/table.h"

#define STAGE_NOTICES 64
#define STAGE_HANDLES 16

struct stage {
    struct pawl__machine machine;
    struct pawl__engine engine; /* only its abilities count */
    struct pawl__memory_table table;
    struct pawl__memory_client client;
    struct pawl__memory_client stranger; /* another client of the same backend */
    int64_t now_us;
    bool connected;       /* operations go through as soon as they are submitted */
    struct pawl__op *out; /* submitted and not let through yet, oldest first */
    unsigned submitted[PAWL__OP_UNWATCH + 1];
    struct {
        pawl_status status;
        uint64_t token;
        int64_t at_us;
    } notices[STAGE_NOTICES];
    unsigned notice_count;
    struct pawl__terms terms[STAGE_HANDLES]; /* one for each handle that was opened */
    unsigned terms_count;
};

void stage_begin(struct stage *stage);
void stage_end(struct stage *stage); /* everything the machine has must be gone by now */

/* Attach a handle with this lease, renewed or not. The other options are zero; set them afterwards,
 * in its terms, which are its own. */
void stage_open(struct stage *stage, struct pawl__handle *handle, const char *name,
    int64_t lease_us, bool renew);
void stage_open_kind(struct stage *stage, struct pawl__handle *handle, const char *name,
    pawl_kind kind, int64_t lease_us, bool renew);
void stage_close(struct stage *stage, struct pawl__handle *handle);

/* The same for a semaphore or a latch. */
void stage_open_count(
    struct stage *stage, struct pawl__handle *handle, const char *name, enum pawl__family family);

/* Start a request. An acquire: wait_us 0 is a try, PAWL__NEVER forever. */
void stage_acquire(struct stage *stage, struct pawl__request *request, struct pawl__handle *handle,
    uint64_t owner, int64_t wait_us);
void stage_release(struct stage *stage, struct pawl__request *request, struct pawl__handle *handle,
    uint64_t owner);
void stage_extend(struct stage *stage, struct pawl__request *request, struct pawl__handle *handle,
    uint64_t owner, int64_t lease_us);

/* About a count: verb, amount, and what else they need, are set; wait_us as for an acquire. */
void stage_tally(struct stage *stage, struct pawl__request *request, struct pawl__handle *handle,
    int64_t wait_us);

/* Start it and require that it is finished at once; the status. */
pawl_status stage_acquire_now(struct stage *stage, struct pawl__handle *handle, uint64_t owner);
pawl_status stage_release_now(struct stage *stage, struct pawl__handle *handle, uint64_t owner);

/* Let the oldest operation that lies in `out` reach the backend; the answer is not delivered yet.
 */
struct pawl__op *stage_reach(struct stage *stage);

/* Deliver an operation's end to the machine: as the backend answered, or as this answer. */
void stage_answer(struct stage *stage, struct pawl__op *op);
void stage_answer_as(struct stage *stage, struct pawl__op *op, enum pawl__answer answer);

/* Let everything through, again and again, until nothing lies there. */
void stage_flush(struct stage *stage);

/* Let time pass: every timer on the way fires at its very microsecond. */
void stage_pass(struct stage *stage, int64_t duration_us);

/* The process was not scheduled for so long: no timer fires on the way. */
void stage_jump(struct stage *stage, int64_t duration_us);

/* The stranger asks for the name; true if it gets it. */
bool stage_stranger_gets(struct stage *stage, const char *name, int64_t lease_us);

#endif
