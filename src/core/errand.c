/* SPDX-License-Identifier: Apache-2.0 */
/* Errands: inspect, break and raise, which are about a name and no tenure. One question, one
 * answer, no second try. */
#include "core/machine_parts.h"

#include "base/alloc.h"

/* An errand under way. It is apart from its request, which may time out first. */
struct pawl__errand {
    struct pawl__op op;
    struct pawl__name *name;
    struct pawl__request *request; /* NULL: it left */
    pawl_lock_info info;
};

static enum pawl__op_kind kind_of(enum pawl__request_kind wanted)
{
    if (wanted == PAWL__WANT_RAISE) {
        return PAWL__OP_RAISE;
    }
    return wanted == PAWL__WANT_INSPECT ? PAWL__OP_INSPECT : PAWL__OP_BREAK;
}

void pawl__errand_start(
    struct pawl__machine *machine, struct pawl__request *request, int64_t now_us)
{
    struct pawl__errand *errand = pawl__alloc(sizeof *errand);
    if (errand == NULL) {
        pawl__finish(machine, request, PAWL_NO_MEMORY, NULL);
        return;
    }
    errand->name = request->handle->name;
    errand->name->uses++;
    errand->request = request;
    errand->op.place = pawl__name_place(errand->name);
    errand->op.core = errand;
    errand->op.info = &errand->info;
    errand->info.size = sizeof errand->info;
    const struct pawl__tenure *hold =
        pawl__hold_find(machine, errand->name, request->owner, now_us);
    errand->op.id = hold != NULL ? hold->id : 0;
    request->errand = errand;
    request->phase = PAWL__ASKING;
    pawl__timer_set(&machine->timers, &request->timer, request->end_us);
    pawl__submit(machine, &errand->op, kind_of(request->kind), now_us);
    errand->op.token = request->kind == PAWL__WANT_RAISE ? request->token : 0;
}

/* Its caller's time is up; the answer will find nobody. */
void pawl__errand_leave(struct pawl__errand *errand)
{
    errand->request = NULL;
}

/* What was broken may have been ours, and there may be many of us who read. */
static void look_at_ours(struct pawl__machine *machine, struct pawl__name *name, int64_t now_us)
{
    for (struct pawl__list *node = name->holds.next; node != &name->holds; node = node->next) {
        pawl__hold_look(machine, PAWL__CONTAINER(node, struct pawl__tenure, node), now_us);
    }
    pawl__renewals_send(machine, now_us);
}

void pawl__errand_answered(
    struct pawl__machine *machine, struct pawl__errand *errand, int64_t now_us)
{
    struct pawl__op *op = &errand->op;
    struct pawl__request *request = errand->request;
    struct pawl__name *name = errand->name;
    bool answered = op->answer == PAWL__DONE || op->answer == PAWL__GONE;
    if (request != NULL) {
        pawl_status yes_or_no = op->answer == PAWL__DONE ? PAWL_OK : PAWL_NOT_HELD;
        if (answered && request->kind == PAWL__WANT_INSPECT) {
            *request->info_out = errand->info;
        }
        request->settled = !answered && !op->again;
        pawl__finish(machine, request, answered ? yes_or_no : op->status, pawl__take_error(op));
    }
    if (op->kind == PAWL__OP_BREAK) {
        look_at_ours(machine, name, now_us);
    }
    name->uses--;
    pawl__touch(machine, name);
    pawl__free(op->error);
    pawl__free(errand);
}
