/* SPDX-License-Identifier: Apache-2.0 */
/* The crowd of a name: those of us who claim each for itself, readers and the waiters of a fair
 * lock, from their turn here until they are granted; claim.c has what they share with others.
 *
 * There may be very many of them. So between two questions one has no motion (motion.c), of the
 * waiters of a fair lock only the first few listen (ear.c), and a name whose crowd has got what it
 * wants needs no traffic (traffic.c). */
#include "core/machine_parts.h"

#include "base/limits.h"

/* Its turn has come: it gets a place here, or is the one who asks. */
struct pawl__tenure *pawl__claim_enter(struct pawl__machine *machine, struct pawl__request *request)
{
    struct pawl__name *name = request->handle->name;
    const bool crowds = pawl__claims_alone(pawl__name_family(name), request->handle->terms->kind);
    const bool able = !crowds || pawl__traffic_make(name) != NULL;
    struct pawl__tenure *tenure = able ? pawl__claim_tenure(machine, request) : NULL;
    if (tenure == NULL) {
        pawl__finish(machine, request, PAWL_NO_MEMORY, NULL);
        return NULL;
    }
    tenure->request = request;
    pawl__tenure_number(machine, tenure);
    if (crowds) {
        pawl__list_push(&name->traffic->own->crowd, &tenure->node);
    } else {
        name->active = tenure;
    }
    return tenure;
}

/* Without memory to ask it goes on waiting. */
void pawl__claim_ask_again(
    struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    if (pawl__motion_may(machine, tenure)) {
        pawl__claim_ask(machine, tenure, now_us);
    } else {
        const int64_t pause_us = pawl__random_jitter(&machine->random, PAWL__POLL_US);
        pawl__tenure_arm(machine, tenure, now_us + pause_us);
    }
}

void pawl__crowd_granted(struct pawl__machine *machine, struct pawl__tenure *tenure,
    const struct pawl__op *op, int64_t now_us)
{
    struct pawl__name *name = tenure->name;
    pawl__ear_granted(tenure);
    pawl__hold_grant(machine, tenure, op, now_us);
    pawl__ear_next(machine, name, now_us);
    pawl__traffic_rest(name, now_us);
}
