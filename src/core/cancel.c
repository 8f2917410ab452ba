/* SPDX-License-Identifier: Apache-2.0 */
/* Ending the waits of one handle: in line, claiming, and on the way into a hold. */
#include "core/machine_parts.h"

#include "core/tally.h"

static void cancel_one(struct pawl__machine *machine, struct pawl__request *request,
    const struct pawl__handle *handle, int64_t now_us)
{
    if (request != NULL && request->handle == handle && request->kind == PAWL__WANT_ACQUIRE) {
        if (request->tenure != NULL && request->tenure->state == PAWL__TENURE_HELD) {
            pawl__finish(machine, request, PAWL_CANCELED, NULL);
        } else {
            pawl__claim_end(machine, request, PAWL_CANCELED, NULL, now_us);
        }
    }
}

static void cancel_list(struct pawl__machine *machine, const struct pawl__list *list,
    const struct pawl__handle *handle, int64_t now_us)
{
    struct pawl__list *node = list->next;
    while (node != list) {
        struct pawl__request *request = PAWL__CONTAINER(node, struct pawl__request, node);
        node = node->next;
        cancel_one(machine, request, handle, now_us);
    }
}

static void cancel_crowd(struct pawl__machine *machine, const struct pawl__list *crowd,
    const struct pawl__handle *handle, int64_t now_us)
{
    struct pawl__list *node = crowd->next;
    while (node != crowd) {
        struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, node);
        node = node->next;
        cancel_one(machine, tenure->request, handle, now_us);
    }
}

/* Re-entries that wait for an extension. */
static void cancel_entering(struct pawl__machine *machine, struct pawl__list *holds,
    const struct pawl__handle *handle, int64_t now_us)
{
    for (struct pawl__list *node = holds->next; node != holds; node = node->next) {
        struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, node);
        cancel_list(machine, &tenure->motion->extends, handle, now_us);
        cancel_list(machine, &tenure->motion->extending, handle, now_us);
    }
}

void pawl__machine_cancel(
    struct pawl__machine *machine, struct pawl__handle *handle, int64_t now_us)
{
    if (handle->detached) {
        return;
    }
    struct pawl__name *name = handle->name;
    struct pawl__tenure *active = name->active;
    cancel_list(machine, &name->traffic->queue, handle, now_us);
    cancel_crowd(machine, &name->traffic->crowd, handle, now_us);
    cancel_entering(machine, &name->holds, handle, now_us);
    if (active != NULL) {
        cancel_one(machine, active->motion->heir != NULL ? active->motion->heir->request : NULL,
            handle, now_us);
        cancel_one(machine, active->request, handle, now_us);
    }
    pawl__parties_cancel(machine, handle);
    pawl__tally_cancel(machine, handle, now_us);
    pawl__settle(machine, now_us);
}
