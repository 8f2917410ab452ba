/* SPDX-License-Identifier: Apache-2.0 */
/* Semaphores, leased permits and latches in the simulator. Runs from seed SIM_COUNT_SEEDS on are
 * about them, with a mutex among the names now and then.
 *
 *   count_backend.c  the same counts kept a second time, by the words of engine.h: every answer of
 *                    the table must be what these say, and nothing counts twice (oracle C1)
 *   count_asks.c     what is known of each question, from the first time it was asked until the
 *                    machine has forgotten it: nothing is taken for nobody, nothing given back gets
 *                    lost (C2), and a call says what happened (C3)
 *   count_actor.c    the callers
 *   count_permits.c  leased permits: nobody relies on one that is not out any more, and each that
 *                    is lost is told of once and in time (C4)
 *
 * That all who wait go on when everything has healed is oracle O7, as for locks. */
#ifndef PAWL_TESTS_SIM_LIB_COUNTS_H
#define PAWL_TESTS_SIM_LIB_COUNTS_H

#include "core/leases.h"
#include "core/machine.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_COUNT_SEEDS UINT64_C(1000000000)

enum {
    SIM_IDS_MAX = 32,     /* permits in one operation */
    SIM_LEASES_MAX = 256, /* of one name */
    SIM_TAKE_MOST = 3,    /* permits that a caller takes at a time */
    SIM_PERMITS_MOST = 6  /* of a semaphore */
};

struct sim_world;
struct sim_client;
struct sim_actor;
struct sim_handle;
struct sim_call;

/* All questions with one number of one client. */
struct sim_ask {
    struct sim_ask *next;        /* all of a run */
    struct sim_ask *next_record; /* of a name */
    struct sim_client *client;   /* NULL: the operator's */
    unsigned life;
    uint64_t number;
    unsigned name;
    enum pawl__tally_verb verb; /* as it was first asked */
    int64_t amount;
    bool in_machine;      /* its tally exists, */
    unsigned seen;        /* as of this step */
    int64_t first_us;     /* true time */
    unsigned stake_epoch; /* give: when they were taken */
    bool refused;         /* it may be given up: the engine said that it will never do it */
    bool given_up;        /* the machine tries no longer */
    bool told;            /* its caller, */
    pawl_status status;
    /* In the backend. */
    unsigned carried; /* so often it had an effect, */
    unsigned epoch;   /* on the count of this epoch */
    bool undone;
    bool excused; /* a copy was made that no engine could know about */
    bool recorded;
    bool lapsed;           /* its record was too old once */
    int64_t value;         /* that is recorded */
    int64_t record_end_us; /* by the backend's clock */
};

struct sim_lease {
    struct pawl__permit_id id;
    int64_t ends_us; /* by the backend's clock */
};

/* One semaphore or latch. An epoch ends when the backend forgets everything. */
struct sim_count {
    bool set;
    int64_t value;
    int64_t base;   /* what callers set it to */
    int64_t issued; /* set and added in this epoch */
    int64_t out;    /* plain permits that callers know they have, */
    int64_t dead;   /* and of these, that the dead had when they died */
    unsigned epoch;
    struct sim_lease leases[SIM_LEASES_MAX];
    unsigned lease_count;
    struct sim_ask *records;
    int64_t zero_us;   /* latch: true time at which it was last at zero before it was set */
    int64_t healed_us; /* true time; 0: not yet */
    int64_t
        jumped_us; /* true time when a jump of the clock, or a restart, may have ended records */
};

/* One leased permit that a caller has. */
struct sim_permit {
    struct sim_actor *actor;
    struct sim_handle *handle;
    struct pawl__permit_id id;
    struct pawl__request lost; /* finished when it is */
    bool renewed;
    bool told;
    bool released; /* or its handle was closed */
    bool taken;    /* a jump of the clock or a restart may have ended it */
};

/* What a caller has of a count, and is about. */
struct sim_stake {
    unsigned name;
    unsigned epoch;
    int64_t plain; /* permits without leases */
    struct sim_permit permits[SIM_TAKE_MOST];
    unsigned permit_count;
    unsigned given_epoch; /* of those that it is giving back */
    struct sim_ask *ask;  /* that its request has asked; NULL: nothing yet */
    struct pawl__permit_id ids[SIM_IDS_MAX];
    struct pawl__list prepared; /* for the machine to keep alive */
};

/* What goes with the copy of an operation. */
struct sim_question {
    struct pawl__tally_ask ask;
    struct pawl__permit_id ids[SIM_IDS_MAX];
    bool gone[SIM_IDS_MAX];
    struct sim_ask *known;
    struct sim_ask *forgets; /* whose record may be dropped; NULL: none */
    bool is_double;          /* a copy that no engine could know about */
};

/* ===== count_backend.c ===== */

bool sim_is_count(const struct sim_world *world, unsigned name);
void sim_count_apply(struct sim_world *world, struct sim_call *call, int64_t now_us);
void sim_counts_heal(struct sim_world *world);
void sim_count_forget(struct sim_world *world, unsigned name);
void sim_count_jump(struct sim_world *world, unsigned name);
int64_t sim_count_remaining(const struct sim_world *world, unsigned name);
bool sim_count_has(const struct sim_world *world, unsigned name, const struct pawl__permit_id *id,
    int64_t *ends_us_out);

/* ===== count_asks.c ===== */

struct sim_ask *sim_ask_new(struct sim_world *world, struct sim_client *client, unsigned name);
void sim_ask_submit(struct sim_call *call, struct pawl__op *op);
void sim_ask_copied(struct sim_call *copy); /* the ids are its own */
void sim_ask_answered(const struct sim_call *call);
void sim_asks_check(struct sim_client *client);
void sim_asks_die(struct sim_client *client); /* its process is gone */
void sim_count_started(struct sim_actor *actor);
void sim_count_finished(struct sim_actor *actor);
void sim_asks_free(struct sim_world *world);

/* ===== count_actor.c ===== */

bool sim_stake_is_empty(const struct sim_actor *actor);
void sim_count_act_idle(struct sim_actor *actor, struct sim_handle *handle);
void sim_count_act_holding(struct sim_actor *actor);
bool sim_count_close(struct sim_actor *actor, struct sim_handle *handle); /* false: all is given */
void sim_count_start(struct sim_actor *actor, struct sim_handle *handle, enum pawl__tally_verb verb,
    int64_t amount, int64_t wait_us);

/* ===== count_permits.c ===== */

void sim_permits_prepare(struct sim_actor *actor, struct sim_handle *handle, int64_t count);
void sim_permits_granted(struct sim_actor *actor);
void sim_permits_release(struct sim_actor *actor);
void sim_permits_settle(struct sim_actor *actor);
size_t sim_permits_drop_all(struct sim_actor *actor, struct sim_handle *handle);
void sim_permit_told(struct pawl__request *request);
bool sim_is_permit(const struct pawl__request *request);
void sim_permits_check(struct sim_client *client);
void sim_permits_taken(struct sim_world *world, unsigned name);
void sim_permits_free(struct sim_client *client); /* what the machine had */

#endif
