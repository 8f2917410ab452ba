/* SPDX-License-Identifier: Apache-2.0 */
/* Making and freeing tallies. Those that have ended are kept with their name for the next ones,
 * with their operations if they have any: so a number whose record may be forgotten goes along with
 * the next question. */
#include "core/tally.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "core/machine_parts.h"

#include <string.h>

#define KEEP_LEAST_US 10000000

/* How long the backend remembers a request: longer than anybody asks it again. */
static int64_t keep_us(const struct pawl__machine *machine)
{
    return KEEP_LEAST_US + 2 * (machine->give_up_us + machine->timeout_us);
}

void pawl__tally_clear(struct pawl__tally *tally)
{
    if (tally->op != NULL) {
        pawl__free(pawl__take_error(tally->op));
    }
    pawl__free(tally->ask.ids);
    pawl__free(tally->ask.gone);
    tally->ask.ids = NULL;
    tally->ask.gone = NULL;
}

static void tally_free(struct pawl__tally *tally)
{
    pawl__tally_clear(tally);
    pawl__free(tally->op);
    pawl__free(tally);
}

bool pawl__tally_equip(struct pawl__tally *tally)
{
    struct pawl__op *op = tally->op != NULL ? tally->op : pawl__alloc(sizeof *op);
    tally->op = op;
    if (op == NULL) {
        return false;
    }
    *op = (struct pawl__op){.place = pawl__name_place(tally->name),
        .id = tally->number,
        .lease_us = tally->request != NULL ? tally->request->lease_us : 0,
        .tally = &tally->ask,
        .core = tally};
    return true;
}

void pawl__tally_strip(struct pawl__tally *tally)
{
    if (tally->op != NULL) {
        pawl__free(pawl__take_error(tally->op));
        pawl__free(tally->op);
        tally->op = NULL;
    }
}

/* Zeroed but for its operation: one that has ended, with its number, or a new one. NULL: no memory.
 */
static struct pawl__tally *blank(struct pawl__name *name, uint64_t *former_out)
{
    struct pawl__list *spare = pawl__list_pop(&name->traffic->own->tally_spares);
    if (spare == NULL) {
        *former_out = 0;
        return pawl__alloc(sizeof(struct pawl__tally));
    }
    struct pawl__tally *tally = PAWL__CONTAINER(spare, struct pawl__tally, all);
    struct pawl__op *op = tally->op;
    *former_out = tally->number;
    memset(tally, 0, sizeof *tally);
    tally->op = op;
    return tally;
}

/* Copies of the ids, and room for what is said about each. */
static bool copy_ids(struct pawl__tally_ask *ask, const struct pawl__permit_id *ids)
{
    const size_t count = (size_t)ask->amount;
    if (ids == NULL) {
        return true;
    }
    ask->ids = pawl__alloc(count * sizeof *ids);
    ask->gone = pawl__alloc(count * sizeof *ask->gone);
    if (ask->ids == NULL || ask->gone == NULL) {
        return false;
    }
    memcpy(ask->ids, ids, count * sizeof *ids);
    return true;
}

struct pawl__tally *pawl__tally_new(struct pawl__machine *machine, struct pawl__name *name,
    enum pawl__tally_verb verb, int64_t amount, const struct pawl__permit_id *ids)
{
    uint64_t former = 0;
    struct pawl__tally *tally = blank(name, &former);
    if (tally == NULL) {
        return NULL;
    }
    tally->ask = (struct pawl__tally_ask){
        .verb = verb, .amount = amount, .keep_us = keep_us(machine), .forget = former};
    tally->name = name;
    tally->number = machine->next_id;
    if (!copy_ids(&tally->ask, ids) || !pawl__tally_equip(tally)) {
        tally_free(tally);
        return NULL;
    }
    machine->next_id++;
    tally->copy_us = PAWL__NEVER;
    tally->timer.kind = PAWL__TIMER_TALLY;
    pawl__list_init(&tally->node);
    pawl__list_push(&machine->tallies, &tally->all);
    name->uses++;
    return tally;
}

void pawl__tally_free_spares(struct pawl__traffic *traffic)
{
    struct pawl__list *node = NULL;
    while ((node = pawl__list_pop(&traffic->tally_spares)) != NULL) {
        tally_free(PAWL__CONTAINER(node, struct pawl__tally, all));
    }
}

void pawl__tally_abolish(struct pawl__machine *machine)
{
    struct pawl__list *node = NULL;
    while ((node = pawl__list_pop(&machine->tallies)) != NULL) {
        tally_free(PAWL__CONTAINER(node, struct pawl__tally, all));
    }
}
