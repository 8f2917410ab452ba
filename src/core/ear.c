/* SPDX-License-Identifier: Apache-2.0 */
/* Ears: how one waiter of a fair lock hears that it is its turn.
 *
 * The waiters of other locks share what their name hears (watch.c). In a queue that the backend
 * keeps each waiter is called alone, so each has a watch of its own, from its first sleep to the
 * end of its claim. An ear outlives its tenure until its watch has ended. As everywhere, what it
 * hears is a hint, and without it the waiter asks once a second.
 *
 * There may be very many waiters, and those who came first are called first. So only the first few
 * of the crowd have an ear, and when one of them leaves, the next one gets its own, in good time.
 * The backend's queue may come to be in another order than our crowd, as when some of the questions
 * were lost on their way; this shows when one is granted that was not near its turn, and then all
 * have ears until nobody waits any more. */
#include "core/machine_parts.h"

#include "base/alloc.h"

#define EARS_COUNT 8

enum ear_state { EAR_DEAF, EAR_ASKED, EAR_OPEN, EAR_CLOSING };

struct pawl__ear {
    struct pawl__list node; /* in the machine's ears */
    struct pawl__name *name;
    struct pawl__tenure *tenure; /* NULL: its claim is over */
    struct pawl__op op;
    enum ear_state state;
    bool refused; /* asking again would not help */
    bool called;  /* since its tenure last asked */
};

static void ear_free(struct pawl__machine *machine, struct pawl__ear *ear)
{
    pawl__list_remove(&ear->node);
    pawl__free(ear->op.error);
    ear->name->uses--;
    pawl__touch(machine, ear->name);
    pawl__free(ear);
}

static struct pawl__ear *ear_new(struct pawl__machine *machine, struct pawl__tenure *tenure)
{
    struct pawl__ear *ear = pawl__alloc(sizeof *ear);
    if (ear != NULL) {
        ear->name = tenure->name;
        ear->tenure = tenure;
        ear->op.place = pawl__name_place(tenure->name);
        ear->op.core = ear;
        ear->op.id = tenure->id;
        ear->name->uses++;
        pawl__list_push(&machine->ears, &ear->node);
    }
    return ear;
}

static void submit(struct pawl__machine *machine, struct pawl__ear *ear, enum ear_state state,
    enum pawl__op_kind kind, int64_t now_us)
{
    ear->state = state;
    pawl__submit(machine, &ear->op, kind, now_us);
}

/* Whether it is one of the first few. */
static bool is_near(const struct pawl__tenure *tenure)
{
    const struct pawl__list *crowd = &tenure->name->traffic->crowd;
    const struct pawl__list *node = crowd->next;
    for (int i = 0; i < EARS_COUNT && node != crowd; i++) {
        if (node == &tenure->node) {
            return true;
        }
        node = node->next;
    }
    return false;
}

void pawl__ear_open(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    if (!tenure->name->traffic->mixed && !is_near(tenure)) {
        return;
    }
    if (tenure->motion->ear == NULL) {
        tenure->motion->ear = ear_new(machine, tenure);
    }
    struct pawl__ear *ear = tenure->motion->ear;
    if (ear != NULL && ear->state == EAR_DEAF && !ear->refused) {
        submit(machine, ear, EAR_ASKED, PAWL__OP_WATCH, now_us);
    }
}

void pawl__ear_close(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    struct pawl__ear *ear = tenure->motion->ear;
    if (ear == NULL) {
        return;
    }
    tenure->motion->ear = NULL;
    ear->tenure = NULL;
    if (ear->state == EAR_OPEN) {
        submit(machine, ear, EAR_CLOSING, PAWL__OP_UNWATCH, now_us);
    } else if (ear->state == EAR_DEAF) {
        ear_free(machine, ear);
    }
}

void pawl__ear_next(struct pawl__machine *machine, struct pawl__name *name, int64_t now_us)
{
    if (pawl__name_family(name) != PAWL__FAMILY_FAIR) {
        return;
    }
    const struct pawl__list *crowd = &name->traffic->crowd;
    struct pawl__list *node = crowd->next;
    for (int i = 0; i < EARS_COUNT && node != crowd; i++) {
        struct pawl__tenure *tenure = PAWL__CONTAINER(node, struct pawl__tenure, node);
        node = node->next;
        const bool deaf = tenure->state == PAWL__TENURE_WAITING && tenure->motion->ear == NULL;
        if (deaf && pawl__motion_may(machine, tenure)) {
            pawl__ear_open(machine, tenure, now_us);
        }
    }
    if (crowd->next == crowd && name->traffic->own != NULL) {
        name->traffic->own->mixed = false;
    }
}

void pawl__ear_granted(struct pawl__tenure *tenure)
{
    if (pawl__name_family(tenure->name) == PAWL__FAMILY_FAIR && !is_near(tenure)) {
        tenure->name->traffic->own->mixed = true;
    }
}

void pawl__ear_asks(struct pawl__tenure *tenure)
{
    if (tenure->motion->ear != NULL) {
        tenure->motion->ear->called = false;
    }
}

bool pawl__ear_called(const struct pawl__tenure *tenure)
{
    return tenure->motion->ear != NULL && tenure->motion->ear->called;
}

void pawl__ear_hear(struct pawl__machine *machine, struct pawl__tenure *tenure, int64_t now_us)
{
    if (tenure->motion->ear != NULL) {
        tenure->motion->ear->called = true;
    }
    if (tenure->state == PAWL__TENURE_WAITING) {
        pawl__claim_ask_again(machine, tenure, now_us);
    }
}

void pawl__ear_answered(struct pawl__machine *machine, struct pawl__ear *ear, int64_t now_us)
{
    const bool open = ear->op.kind == PAWL__OP_WATCH && ear->op.answer == PAWL__DONE;
    ear->state = open ? EAR_OPEN : EAR_DEAF;
    ear->refused = !open && !ear->op.again;
    if (ear->tenure == NULL) {
        if (open) {
            submit(machine, ear, EAR_CLOSING, PAWL__OP_UNWATCH, now_us);
        } else {
            ear_free(machine, ear);
        }
    } else if (open) {
        pawl__ear_hear(machine, ear->tenure, now_us); /* it may have been called before */
    }
}

void pawl__ear_abolish(struct pawl__machine *machine)
{
    while (!pawl__list_empty(&machine->ears)) {
        ear_free(machine, PAWL__CONTAINER(machine->ears.next, struct pawl__ear, node));
    }
}
