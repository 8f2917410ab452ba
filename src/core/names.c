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
    case PAWL_LATCH:
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
    name->traffic = &pawl__nobody;
    if (pawl__family_counts(family) && pawl__traffic_make(name) == NULL) {
        pawl__free(name);
        return NULL;
    }
    struct pawl__place *place = pawl__name_place(name);
    char *copy = (char *)place + place_size;
    memcpy(copy, text, size);
    place->name = copy;
    place->name_size = (uint32_t)size;
    place->family = family;
    pawl__list_init(&name->holds);
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
    pawl__traffic_free(name->traffic->own);
    pawl__free(name);
}

void pawl__handle_attach(struct pawl__handle *handle, struct pawl__name *name)
{
    handle->name = name;
    pawl__list_init(&handle->node);
    if (name->handles == NULL) {
        name->handles = &handle->node;
    } else {
        pawl__list_insert(name->handles, &handle->node);
    }
}

/* All of a name's: begin with NULL, ends with NULL. */
static struct pawl__handle *next_handle(
    const struct pawl__name *name, const struct pawl__handle *handle)
{
    struct pawl__list *next = handle == NULL ? name->handles : handle->node.next;
    return next == NULL || (handle != NULL && next == name->handles)
               ? NULL
               : PAWL__CONTAINER(next, struct pawl__handle, node);
}

/* Take it out of its name's ring. */
static void leave_ring(struct pawl__handle *handle)
{
    struct pawl__list **ring = &handle->name->handles;
    struct pawl__list *next = handle->node.next;
    if (*ring == &handle->node) {
        *ring = next != &handle->node ? next : NULL;
    }
    pawl__list_remove(&handle->node);
}

struct pawl__extra *pawl__handle_extra(struct pawl__handle *handle)
{
    if (handle->extra == NULL) {
        handle->extra = pawl__alloc(sizeof *handle->extra);
    }
    return handle->extra;
}

bool pawl__handle_holds(const struct pawl__handle *handle, const struct pawl__tenure *tenure)
{
    if (handle == tenure->handle) {
        return tenure->firsts > 0;
    }
    const struct pawl__extra *extra = handle->extra;
    return extra != NULL && extra->through_id == tenure->id &&
           extra->through_owner == tenure->owner && extra->through_count > 0;
}

/* Another handle through which the tenure is held; NULL: none. */
static struct pawl__handle *other_handle(const struct pawl__tenure *tenure)
{
    struct pawl__handle *handle = next_handle(tenure->name, NULL);
    while (handle != NULL && (handle == tenure->handle || !pawl__handle_holds(handle, tenure))) {
        handle = next_handle(tenure->name, handle);
    }
    return handle;
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
                tenure->firsts = tenure->handle->extra->through_count;
                tenure->handle->extra->through_count = 0;
            }
        }
    }
}

void pawl__handle_detach(struct pawl__machine *machine, struct pawl__handle *handle, int64_t now_us)
{
    pawl__machine_cancel(machine, handle, now_us);
    pawl__leases_end(machine, handle);
    leave_ring(handle);
    forget_handle(&machine->tenures, handle);
    forget_handle(&machine->ended, handle);
    handle->detached = true;
    pawl__touch(machine, handle->name);
    pawl__settle(machine, now_us);
}

/* A name with handles outlives the step, so the next one can be asked for afterwards. */
void pawl__machine_expel(struct pawl__machine *machine, int64_t now_us)
{
    struct pawl__map_node *node = NULL;
    while ((node = pawl__map_next(&machine->names, node)) != NULL) {
        const struct pawl__name *name = PAWL__CONTAINER(node, struct pawl__name, node);
        struct pawl__handle *handle = next_handle(name, NULL);
        while (handle != NULL) {
            handle->closed = true;
            pawl__machine_cancel(machine, handle, now_us);
            handle = next_handle(name, handle);
        }
    }
}

uint64_t pawl__handle_holder(const struct pawl__handle *handle)
{
    const pawl_kind kind = handle->terms->kind;
    struct pawl__list *holds = &handle->name->holds;
    for (struct pawl__list *node = holds->next; node != holds; node = node->next) {
        const struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, node);
        if (pawl__handle_holds(handle, tenure) && pawl__tenure_count(tenure, kind) > 0) {
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
        pawl__renewal_forgo(machine, tenure);
        tenure->main_out = false;
        tenure->side_out = false;
        tenure->lost.queued = false;
        pawl__motion_end(machine, tenure);
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
    machine->touched = NULL;
    machine->touched_end = &machine->touched;
    machine->restless = NULL;
    pawl__list_init(&machine->parties);
    struct pawl__map_node *node = pawl__map_next(&machine->names, NULL);
    while (node != NULL) {
        struct pawl__name *name = PAWL__CONTAINER(node, struct pawl__name, node);
        node = pawl__map_next(&machine->names, node);
        pawl__map_remove(&machine->names, &name->node);
        name->next = machine->dead;
        machine->dead = name;
    }
}
