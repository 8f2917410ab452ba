/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the machine call of each other. Drivers include core/machine.h only.
 *
 *   machine.c  the entries: requests, operations that come back; outputs
 *   timers.c   the entries of time
 *   errand.c   inspect and break
 *   names.c    names and the handles attached to them
 *   traffic.c  what only a name needs that more than one caller wants
 *   claim.c    from the local queue to the grant
 *   crowd.c    claims that do not wait for their turn here
 *   party.c    claims that are granted together or not at all
 *   cancel.c   ending the waits of a handle
 *   watch.c    subscriptions of names that are waited for
 *   ear.c      the same for single waiters of a fair lock
 *   hold.c     while held: re-entry, renewal, extension
 *   loss.c     when it is lost
 *   release.c  the last release, and passing on
 *   tally.c    semaphores and latches (tally.h)
 *   leases.c   permits that are kept alive (leases.h)
 *   renewals.c the line in which holds wait to be renewed
 *   motion.c   what a tenure has only while something is under way
 *   tenure.c   making, ending, and cleaning up after claims whose outcome is unknown */
#ifndef PAWL_CORE_MACHINE_PARTS_H
#define PAWL_CORE_MACHINE_PARTS_H

#include "base/limits.h"
#include "core/machine.h"

enum {
    PAWL__TIMER_REQUEST = 1,
    PAWL__TIMER_TENURE = 2,
    PAWL__TIMER_NAME = 3,
    PAWL__TIMER_TALLY = 4,
    PAWL__TIMER_LEASES = 5,
    PAWL__TIMER_RENEWALS = 6
};

/* Does it claim without regard to others of this process? */
static inline bool pawl__claims_alone(enum pawl__family family, pawl_kind kind)
{
    return family == PAWL__FAMILY_FAIR || (family == PAWL__FAMILY_SHARED && kind == PAWL_READ);
}

/* Once more without others between; nobody needs to know how often it was beyond a turn. */
static inline void pawl__name_count_pass(struct pawl__name *name)
{
    if (name->passes < PAWL__PASSES_MAX) {
        name->passes++;
    }
}

/* machine.c */
void pawl__submit(
    struct pawl__machine *machine, struct pawl__op *op, enum pawl__op_kind kind, int64_t now_us);
void pawl__finish(
    struct pawl__machine *machine, struct pawl__request *request, pawl_status status, char *error);
void pawl__set_phase(
    struct pawl__machine *machine, struct pawl__request *request, enum pawl__phase phase);
char *pawl__take_error(struct pawl__op *op);
void pawl__settle(struct pawl__machine *machine, int64_t now_us);
void pawl__touch(struct pawl__machine *machine, struct pawl__name *name);
int64_t pawl__backoff_us(
    struct pawl__machine *machine, unsigned attempt, int64_t first_us, int64_t most_us);

/* motion.c */
bool pawl__motions_init(struct pawl__machine *machine);
void pawl__motions_free(struct pawl__machine *machine);
bool pawl__motion_may(
    struct pawl__machine *machine, struct pawl__tenure *tenure); /* leaves those that are kept */
bool pawl__motion_begin(
    struct pawl__machine *machine, struct pawl__tenure *tenure); /* for what has to be */
void pawl__motion_rest(
    struct pawl__machine *machine, struct pawl__tenure *tenure); /* of a hold, if nothing goes on */
void pawl__motion_pause(struct pawl__machine *machine,
    struct pawl__tenure *tenure); /* of a claim that waits, if nothing goes on */
void pawl__motion_end(struct pawl__machine *machine, struct pawl__tenure *tenure);

/* Send the tenure's main operation, of which one is under way at a time: a release or a pass.
 * False: there is no memory for it now. */
static inline bool pawl__tenure_submit(struct pawl__machine *machine, struct pawl__tenure *tenure,
    enum pawl__op_kind kind, int64_t now_us)
{
    if (!pawl__motion_begin(machine, tenure)) {
        return false;
    }
    tenure->motion->main.as = tenure->kind;
    tenure->motion->main.id = tenure->id;
    tenure->main_out = true;
    pawl__submit(machine, &tenure->motion->main, kind, now_us);
    return true;
}

/* errand.c */
void pawl__errand_start(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us);
void pawl__errand_leave(struct pawl__errand *errand);
void pawl__errand_answered(
    struct pawl__machine *machine, struct pawl__errand *errand, int64_t now_us);

/* tenure.c */
struct pawl__tenure *pawl__tenure_new(struct pawl__machine *machine, struct pawl__request *request);
void pawl__tenure_number(struct pawl__machine *machine, struct pawl__tenure *tenure);
void pawl__tenure_end(struct pawl__machine *machine, struct pawl__tenure *tenure);
bool pawl__tenure_free(
    struct pawl__machine *machine, struct pawl__tenure *tenure); /* false: still needed */
void pawl__tenure_arm(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t due_us);
void pawl__tenure_clean(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us);
void pawl__tenure_cleaned(struct pawl__machine *machine, struct pawl__tenure *tenure,
    struct pawl__op *op, int64_t now_us);
int64_t pawl__tenure_stands(const struct pawl__tenure *tenure,
    int64_t now_us); /* until when the backend may have what is held just now */
bool pawl__tenure_go_on(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us);
char *pawl__tenure_too_late(const struct pawl__tenure *tenure); /* NULL: no memory */
void pawl__tenure_timer(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us);

/* traffic.c */
struct pawl__traffic *pawl__traffic_make(
    struct pawl__name *name); /* its own; made now if it has none; NULL: no memory */
void pawl__traffic_rest(struct pawl__name *name, int64_t now_us); /* if it says nothing any more */
void pawl__traffic_free(struct pawl__traffic *traffic);           /* NULL: nothing */

/* claim.c */
void pawl__claim_start(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us);
void pawl__claim_turn(struct pawl__machine *machine, struct pawl__name *name, int64_t now_us);
void pawl__claim_submit(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us);
void pawl__claim_answered(struct pawl__machine *machine, struct pawl__tenure *tenure,
    struct pawl__op *op, int64_t now_us);
void pawl__claim_timeout(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us);
void pawl__claim_end(struct pawl__machine *machine, struct pawl__request *request,
    pawl_status status, char *error, int64_t now_us);
void pawl__claim_tries_busy(struct pawl__machine *machine, struct pawl__name *name, int64_t now_us);
void pawl__claim_twins_enter(
    struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us);
struct pawl__request *pawl__claim_next(struct pawl__name *name); /* the queue's head, taken out */
struct pawl__tenure *pawl__claim_tenure(struct pawl__machine *machine,
    struct pawl__request *request); /* its own; made now if it has none; NULL: no memory */
struct pawl__tenure *pawl__claim_enter(struct pawl__machine *machine,
    struct pawl__request *request); /* its turn has come; NULL: no memory, and it has failed */
unsigned pawl__claim_tokens(
    const struct pawl__tenure *tenure); /* how many its grant may need, with hand-offs */
void pawl__claim_requeue(struct pawl__name *name, struct pawl__request *request); /* as its head */

/* crowd.c */
void pawl__claim_ask_again(
    struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us); /* that waits */
void pawl__crowd_granted(struct pawl__machine *machine, struct pawl__tenure *tenure,
    const struct pawl__op *op, int64_t now_us);

/* party.c */
void pawl__party_arrive(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us);
void pawl__party_started(struct pawl__request *request);
void pawl__party_ask(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us);
void pawl__party_answered(struct pawl__machine *machine, struct pawl__tenure *tenure,
    struct pawl__op *op, int64_t now_us);
bool pawl__party_is_first(const struct pawl__name *name,
    const struct pawl__request *request); /* it has the turn that this one waits for */
void pawl__party_reenters(const struct pawl__request *request);
void pawl__party_returns(struct pawl__machine *machine, const struct pawl__request *request);
void pawl__party_finished(struct pawl__machine *machine, struct pawl__request *request);
void pawl__parties_cancel(struct pawl__machine *machine, const struct pawl__handle *handle);
void pawl__parties_settle(struct pawl__machine *machine, int64_t now_us);

/* It is this claim's turn, or time, to ask; one of a party asks with the others. */
static inline void pawl__claim_ask(
    struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    if (tenure->request->party != NULL) {
        pawl__party_ask(machine, tenure, now_us);
    } else {
        pawl__claim_submit(machine, tenure, now_us);
    }
}

/* watch.c */
void pawl__watch_ask_waiting(
    struct pawl__machine *machine, struct pawl__name *name, int64_t now_us);
void pawl__watch_need(struct pawl__machine *machine, struct pawl__name *name, int64_t now_us);
void pawl__watch_review(struct pawl__machine *machine, struct pawl__name *name, int64_t now_us);
void pawl__watch_note_wake(struct pawl__name *name); /* it may have been freed just now */
void pawl__watch_answered(struct pawl__machine *machine, struct pawl__name *name, int64_t now_us);

/* ear.c */
void pawl__ear_open(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us);
void pawl__ear_close(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us);
void pawl__ear_next(struct pawl__machine *machine, struct pawl__name *name,
    int64_t now_us); /* somebody has left the crowd: others are nearer to their turn */
void pawl__ear_granted(struct pawl__tenure *tenure); /* still in the crowd */
void pawl__ear_asks(struct pawl__tenure *tenure);    /* what it heard before counts no more */
bool pawl__ear_called(const struct pawl__tenure *tenure);
void pawl__ear_hear(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us);
void pawl__ear_answered(struct pawl__machine *machine, struct pawl__ear *ear, int64_t now_us);
void pawl__ear_abolish(struct pawl__machine *machine);

/* hold.c */
struct pawl__tenure *pawl__hold_find(
    struct pawl__machine *machine, struct pawl__name *name, uint64_t owner, int64_t now_us);
void pawl__hold_grant(struct pawl__machine *machine, struct pawl__tenure *tenure,
    const struct pawl__op *op, int64_t now_us);
void pawl__hold_inherit(struct pawl__machine *machine, struct pawl__tenure *heir,
    struct pawl__tenure *giver, int64_t now_us);
void pawl__hold_enter(struct pawl__machine *machine, struct pawl__tenure *tenure,
    struct pawl__request *request, int64_t now_us);
void pawl__hold_downgrade(struct pawl__machine *machine, struct pawl__tenure *tenure,
    struct pawl__request *request, int64_t now_us);
void pawl__hold_extend(struct pawl__machine *machine, struct pawl__tenure *tenure,
    struct pawl__request *request, int64_t now_us);
void pawl__hold_show_count(
    struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us);
void pawl__hold_look(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us);
void pawl__hold_answered(struct pawl__machine *machine, struct pawl__tenure *tenure,
    struct pawl__op *op, int64_t now_us);
void pawl__hold_timer(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us);
void pawl__hold_ask(struct pawl__machine *machine, struct pawl__tenure *tenure,
    int64_t now_us); /* its turn to be renewed or verified has come */
bool pawl__hold_renew_early(
    struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us);
void pawl__notice_queue(struct pawl__machine *machine, struct pawl__delivery *notice);
void pawl__hold_leave(
    struct pawl__machine *machine, struct pawl__tenure *tenure, pawl_status status, int64_t now_us);
int64_t pawl__valid_until(const struct pawl__op *op);

/* renewals.c */
void pawl__renewals_init(struct pawl__machine *machine);
void pawl__renewal_wait(struct pawl__machine *machine,
    struct pawl__tenure *tenure); /* in line; it has a motion, and side is free */
bool pawl__renewal_forgo(
    struct pawl__machine *machine, struct pawl__tenure *tenure); /* false: it is not in line */
void pawl__renewals_send(
    struct pawl__machine *machine, int64_t now_us); /* for those in line, if it is time */
void pawl__renewal_answered(struct pawl__machine *machine, const struct pawl__op *op,
    int64_t now_us); /* a renewal or a verification came back */

/* loss.c */
void pawl__hold_lose(struct pawl__machine *machine, struct pawl__tenure *tenure,
    enum pawl__loss loss, int64_t now_us);
void pawl__hold_free(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us);
void pawl__hold_refuse_lost(struct pawl__machine *machine, const struct pawl__tenure *tenure,
    struct pawl__request *request);
/* Somebody enters it: for a set that is not complete yet, nobody is told of its loss. */
void pawl__hold_try(
    struct pawl__machine *machine, struct pawl__tenure *tenure, const struct pawl__handle *handle);
void pawl__hold_note_loss(struct pawl__tenure *tenure, enum pawl__loss why, int64_t at_us);
struct pawl__lost pawl__hold_loss(const struct pawl__tenure *tenure);
struct pawl__lost pawl__loss_of(
    enum pawl__loss why, int64_t at_us, int64_t proven_us, int64_t lease_us);

/* release.c */
int64_t pawl__hold_off_end(const struct pawl__machine *machine, int64_t now_us);
void pawl__release_start(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us);
void pawl__release_again(
    struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us);
void pawl__release_answered(struct pawl__machine *machine, struct pawl__tenure *tenure,
    struct pawl__op *op, int64_t now_us);

#endif
