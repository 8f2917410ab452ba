/* SPDX-License-Identifier: Apache-2.0 */
/* Names and the handles attached to them: making, finding, forgetting. */
#include "core/machine_parts.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "core/leases.h"

#include <string.h>

enum pawl__family pawl__family_of(pawl_kind kind)
{
    switch (kind) {
    case PAWL_MUTEX:
    case PAWL_SEMAPHORE: /* no lock, and refused as one before */
        break;
    case PAWL_FAIR:
        return PAWL__FAMILY_FAIR;
    case PAWL_READ:
    case PAWL_WRITE:
        return PAWL__FAMILY_SHARED;
    case PAWL_SPIN:
        return PAWL__FAMILY_SPIN;
    case PAWL_PLAIN:
        return PAWL__FAMILY_PLAIN;
    }
    return PAWL__FAMILY_MUTEX;
}

const char *pawl__family_word(enum pawl__family family)
{
    switch (family) {
    case PAWL__FAMILY_MUTEX:
        return "a mutex";
    case PAWL__FAMILY_FAIR:
        return "a fair lock";
    case PAWL__FAMILY_SHARED:
        return "a read/write lock";
    case PAWL__FAMILY_SPIN:
        return "a spin lock";
    case PAWL__FAMILY_PLAIN:
        return "a plain lock";
    case PAWL__FAMILY_SEMAPHORE:
        return "a semaphore";
    case PAWL__FAMILY_PERMITS:
        return "a semaphore with leased permits";
    case PAWL__FAMILY_LATCH:
        return "a latch";
    }
    return "something else";
}

static struct pawl__name *name_new(
    struct pawl__machine *machine, const char *text, size_t size, enum pawl__family family)
{
    const size_t place_size = machine->engine->place_size;
    struct pawl__name *name = pawl__alloc(sizeof *name + place_size + size + 1);
    if (name == NULL) {
        return NULL;
    }
    struct pawl__place *place = (struct pawl__place *)(void *)(name + 1);
    char *copy = (char *)place + place_size;
    memcpy(copy, text, size);
    place->name = copy;
    place->name_size = (uint32_t)size;
    place->family = family;
    place->core = name;
    name->text = copy;
    name->place = place;
    name->silent_us = PAWL__NEVER;
    name->idle_us = PAWL__NEVER;
    name->timer.kind = PAWL__TIMER_NAME;
    pawl__list_init(&name->queue);
    pawl__list_init(&name->crowd);
    pawl__list_init(&name->holds);
    pawl__list_init(&name->handles);
    pawl__list_init(&name->link);
    pawl__list_init(&name->tally_queue);
    pawl__list_init(&name->tally_spares);
    pawl__map_add(&machine->names, &name->node, copy, size);
    return name;
}

struct pawl__name *pawl__machine_name(struct pawl__machine *machine, const char *name,
    size_t name_size, enum pawl__family family, bool *fresh_out)
{
    struct pawl__map_node *node = pawl__map_find(&machine->names, name, name_size);
    *fresh_out = node == NULL;
    return node != NULL ? PAWL__CONTAINER(node, struct pawl__name, node)
                        : name_new(machine, name, name_size, family);
}

void pawl__name_free(struct pawl__name *name)
{
    pawl__tally_free_spares(name);
    pawl__free(name->watch_op);
    pawl__free(name->error);
    pawl__free(name);
}

void pawl__handle_attach(struct pawl__handle *handle, struct pawl__name *name)
{
    handle->name = name;
    handle->family = name->place->family;
    pawl__list_push(&name->handles, &handle->node);
}

void pawl__handle_copy(struct pawl__handle *to, const struct pawl__handle *from)
{
    *to = *from;
    to->name = NULL;
    pawl__list_init(&to->node);
    to->closed = false;
    to->detached = false;
    to->tenures = 0;
    to->through_id = 0;
    to->through_count = 0;
    to->through_owner = 0;
}

bool pawl__handle_holds(const struct pawl__handle *handle, const struct pawl__tenure *tenure)
{
    if (handle == tenure->handle) {
        return tenure->firsts > 0;
    }
    return handle->through_id == tenure->id && handle->through_owner == tenure->owner &&
           handle->through_count > 0;
}

/* Another handle through which the tenure is held; NULL: none. */
static struct pawl__handle *other_handle(const struct pawl__tenure *tenure)
{
    struct pawl__list *handles = &tenure->name->handles;
    for (struct pawl__list *node = handles->next; node != handles; node = node->next) {
        struct pawl__handle *handle = PAWL__CONTAINER(node, struct pawl__handle, node);
        if (handle != tenure->handle && pawl__handle_holds(handle, tenure)) {
            return handle;
        }
    }
    return NULL;
}

/* What began through this handle, which is not among its name's any more, belongs to another one
 * that holds it too. If there is none it goes on without, and tells nobody. */
static void forget_handle(struct pawl__list *tenures, struct pawl__handle *handle)
{
    struct pawl__list *node = tenures->next;
    for (; node != tenures && handle->tenures > 0; node = node->next) {
        struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, all);
        if (tenure->handle == handle) {
            tenure->handle = other_handle(tenure);
            handle->tenures--;
            tenure->firsts = 0;
            if (tenure->handle != NULL) {
                tenure->handle->tenures++;
                tenure->firsts = tenure->handle->through_count;
                tenure->handle->through_count = 0;
            }
        }
    }
}

void pawl__handle_detach(struct pawl__machine *machine, struct pawl__handle *handle, int64_t now_us)
{
    pawl__machine_cancel(machine, handle, now_us);
    pawl__leases_end(machine, handle);
    pawl__list_remove(&handle->node);
    forget_handle(&machine->tenures, handle);
    forget_handle(&machine->ended, handle);
    handle->detached = true;
    pawl__touch(machine, handle->name);
    pawl__settle(machine, now_us);
}

uint64_t pawl__handle_holder(const struct pawl__handle *handle)
{
    struct pawl__list *holds = &handle->name->holds;
    for (struct pawl__list *node = holds->next; node != holds; node = node->next) {
        const struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, node);
        if (pawl__handle_holds(handle, tenure) && pawl__tenure_count(tenure, handle->kind) > 0) {
            return tenure->owner;
        }
    }
    return 0;
}

static void abolish_tenures(struct pawl__machine *machine, struct pawl__list *tenures)
{
    struct pawl__list *node = NULL;
    while ((node = pawl__list_pop(tenures)) != NULL) {
        struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, all);
        tenure->main_out = false;
        tenure->side_out = false;
        tenure->lost.queued = false;
        tenure->risk.queued = false;
        pawl__tenure_free(machine, tenure);
    }
}

void pawl__machine_abolish(struct pawl__machine *machine)
{
    abolish_tenures(machine, &machine->tenures);
    abolish_tenures(machine, &machine->ended);
    pawl__tally_abolish(machine);
    pawl__ear_abolish(machine);
    machine->timers.root = NULL;
    machine->ops = NULL;
    machine->ops_end = &machine->ops;
    struct pawl__map_node *node = pawl__map_next(&machine->names, NULL);
    while (node != NULL) {
        struct pawl__name *name = PAWL__CONTAINER(node, struct pawl__name, node);
        node = pawl__map_next(&machine->names, node);
        pawl__map_remove(&machine->names, &name->node);
        pawl__list_remove(&name->link);
        pawl__list_push(&machine->dead, &name->link);
    }
}
