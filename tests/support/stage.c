/* SPDX-License-Identifier: Apache-2.0 */
/* The simplest driver of the machine there can be: single-threaded, on a clock of the test's own.
 */
#include "support/stage.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "support/fail.h"

#include <string.h>

#define START_US INT64_C(1000000000000)
#define TIMEOUT_US 1000000
#define GIVE_UP_US 30000000

static void take_notices(struct stage *stage)
{
    struct pawl__list *node = NULL;
    while ((node = pawl__list_pop(&stage->machine.notices)) != NULL) {
        struct pawl__delivery *notice = PAWL__CONTAINER(node, struct pawl__delivery, node);
        if (stage->notice_count < STAGE_NOTICES) {
            stage->notices[stage->notice_count].status = notice->status;
            stage->notices[stage->notice_count].token = pawl__notice_tenure(notice)->token;
            stage->notices[stage->notice_count].at_us = stage->now_us;
        }
        stage->notice_count++;
        pawl__machine_notice_done(&stage->machine, notice, stage->now_us);
    }
}

static void append(struct stage *stage, struct pawl__op *ops)
{
    struct pawl__op **end = &stage->out;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = ops;
    for (; ops != NULL; ops = ops->next) {
        stage->submitted[ops->kind]++;
    }
}

/* After each step: take what the machine put out. */
static void collect(struct stage *stage)
{
    struct pawl__machine *machine = &stage->machine;
    append(stage, machine->ops);
    machine->ops = NULL;
    machine->ops_end = &machine->ops;
    take_notices(stage);
    while (pawl__list_pop(&machine->finished) != NULL) {
    }
    while (machine->dead != NULL) {
        struct pawl__name *name = machine->dead;
        machine->dead = name->next;
        pawl__name_free(name);
    }
    if (stage->connected) {
        stage_flush(stage);
    }
}

void stage_begin(struct stage *stage)
{
    memset(stage, 0, sizeof *stage);
    stage->engine.name = "stage";
    stage->engine.place_size = sizeof(struct pawl__place);
    stage->engine.expires = true;
    stage->engine.passes = true;
    stage->machine.engine = &stage->engine;
    stage->machine.timeout_us = TIMEOUT_US;
    stage->machine.give_up_us = GIVE_UP_US;
    stage->now_us = START_US;
    stage->connected = true;
    pawl__random_seed(&stage->machine.random, 1);
    if (!pawl__machine_init(&stage->machine) || !pawl__memory_init(&stage->table)) {
        support_fail("no memory for a stage");
    }
    pawl__memory_join(&stage->client, "11111111-1111-4111-8111-111111111111");
    pawl__memory_join(&stage->stranger, "22222222-2222-4222-8222-222222222222");
}

void stage_end(struct stage *stage)
{
    if (stage->out != NULL || stage->machine.pending != 0) {
        support_fail("operations are left: %u", stage->machine.pending);
    }
    if (!pawl__list_empty(&stage->machine.tenures) || stage->machine.names.count != 0) {
        support_fail("tenures or names are left");
    }
    pawl__machine_fini(&stage->machine);
    pawl__memory_leave(&stage->table, &stage->client);
    pawl__memory_leave(&stage->table, &stage->stranger);
    pawl__memory_free(&stage->table);
}

static void give_terms(
    struct stage *stage, struct pawl__handle *handle, const struct pawl__terms *terms)
{
    if (stage->terms_count == STAGE_HANDLES) {
        support_fail("more than %d handles on a stage", STAGE_HANDLES);
    }
    handle->terms = &stage->terms[stage->terms_count++];
    *handle->terms = *terms;
}

void stage_open_kind(struct stage *stage, struct pawl__handle *handle, const char *name,
    pawl_kind kind, int64_t lease_us, bool renew)
{
    bool fresh = false;
    memset(handle, 0, sizeof *handle);
    const struct pawl__terms terms = {.kind = kind,
        .lease_us = lease_us,
        .renew = renew,
        .reentry = true,
        .warn_us = lease_us / 3};
    give_terms(stage, handle, &terms);
    struct pawl__name *record =
        pawl__machine_name(&stage->machine, name, strlen(name), pawl__family_of(kind), &fresh);
    pawl__handle_attach(handle, record);
}

void stage_open(struct stage *stage, struct pawl__handle *handle, const char *name,
    int64_t lease_us, bool renew)
{
    stage_open_kind(stage, handle, name, PAWL_MUTEX, lease_us, renew);
}

void stage_open_count(
    struct stage *stage, struct pawl__handle *handle, const char *name, enum pawl__family family)
{
    bool fresh = false;
    memset(handle, 0, sizeof *handle);
    give_terms(stage, handle, &(struct pawl__terms){.kind = PAWL_SEMAPHORE});
    pawl__handle_attach(
        handle, pawl__machine_name(&stage->machine, name, strlen(name), family, &fresh));
}

void stage_close(struct stage *stage, struct pawl__handle *handle)
{
    pawl__handle_detach(&stage->machine, handle, stage->now_us);
    collect(stage);
    pawl__free(handle->extra);
    handle->extra = NULL;
}

static void start(struct stage *stage, struct pawl__request *request, struct pawl__handle *handle,
    uint64_t owner, enum pawl__request_kind kind)
{
    request->kind = kind;
    request->handle = handle;
    request->owner = owner;
    request->start_us = stage->now_us;
    pawl__machine_start(&stage->machine, request, stage->now_us);
    collect(stage);
}

void stage_acquire(struct stage *stage, struct pawl__request *request, struct pawl__handle *handle,
    uint64_t owner, int64_t wait_us)
{
    memset(request, 0, sizeof *request);
    request->wait_us = pawl__later(stage->now_us, wait_us);
    request->end_us = pawl__later(stage->now_us, pawl__max64(wait_us, TIMEOUT_US));
    start(stage, request, handle, owner, PAWL__WANT_ACQUIRE);
}

void stage_release(
    struct stage *stage, struct pawl__request *request, struct pawl__handle *handle, uint64_t owner)
{
    memset(request, 0, sizeof *request);
    request->end_us = stage->now_us + TIMEOUT_US;
    start(stage, request, handle, owner, PAWL__WANT_RELEASE);
}

void stage_extend(struct stage *stage, struct pawl__request *request, struct pawl__handle *handle,
    uint64_t owner, int64_t lease_us)
{
    memset(request, 0, sizeof *request);
    request->end_us = stage->now_us + TIMEOUT_US;
    request->lease_us = lease_us;
    start(stage, request, handle, owner, PAWL__WANT_EXTEND);
}

void stage_tally(struct stage *stage, struct pawl__request *request, struct pawl__handle *handle,
    int64_t wait_us)
{
    request->wait_us = pawl__later(stage->now_us, wait_us);
    request->end_us = pawl__later(stage->now_us, pawl__max64(wait_us, TIMEOUT_US));
    start(stage, request, handle, 0, PAWL__WANT_TALLY);
}

static pawl_status require_finished(struct pawl__request *request)
{
    if (!request->finished) {
        support_fail("the request is not finished at once");
    }
    pawl__free(request->error);
    request->error = NULL;
    return request->status;
}

pawl_status stage_acquire_now(struct stage *stage, struct pawl__handle *handle, uint64_t owner)
{
    struct pawl__request request;
    stage_acquire(stage, &request, handle, owner, 0);
    return require_finished(&request);
}

pawl_status stage_release_now(struct stage *stage, struct pawl__handle *handle, uint64_t owner)
{
    struct pawl__request request;
    stage_release(stage, &request, handle, owner);
    return require_finished(&request);
}

static void wake_watchers(struct stage *stage)
{
    const struct pawl__memory_watch *watch = pawl__memory_woken(&stage->table);
    for (; watch != NULL; watch = pawl__memory_woken(&stage->table)) {
        if (watch->client == &stage->client) {
            const char *name = watch->entry->name;
            pawl__machine_wake(&stage->machine, name, strlen(name), watch->id, stage->now_us);
        }
    }
}

struct pawl__op *stage_reach(struct stage *stage)
{
    struct pawl__op *op = stage->out;
    if (op == NULL) {
        support_fail("nothing was submitted");
    }
    stage->out = op->next;
    op->next = NULL;
    pawl__memory_apply(&stage->table, &stage->client, op, stage->now_us);
    op->fenced = true;
    return op;
}

void stage_answer(struct stage *stage, struct pawl__op *op)
{
    pawl__machine_complete(&stage->machine, op, stage->now_us);
    wake_watchers(stage);
    collect(stage);
}

void stage_answer_as(struct stage *stage, struct pawl__op *op, enum pawl__answer answer)
{
    op->answer = answer;
    if (answer == PAWL__FAILED || answer == PAWL__UNKNOWN) {
        op->status = PAWL_UNAVAILABLE;
        op->again = true;
    }
    stage_answer(stage, op);
}

void stage_flush(struct stage *stage)
{
    while (stage->out != NULL) {
        stage_answer(stage, stage_reach(stage));
    }
}

void stage_pass(struct stage *stage, int64_t duration_us)
{
    int64_t end_us = stage->now_us + duration_us;
    collect(stage); /* of what the test told the machine directly */
    while (pawl__machine_due(&stage->machine) <= end_us) {
        stage->now_us = pawl__max64(stage->now_us, pawl__machine_due(&stage->machine));
        pawl__machine_tick(&stage->machine, stage->now_us);
        collect(stage);
    }
    stage->now_us = end_us;
}

void stage_jump(struct stage *stage, int64_t duration_us)
{
    stage->now_us += duration_us;
}

bool stage_stranger_gets(struct stage *stage, const char *name, int64_t lease_us)
{
    static uint64_t ids = 1000;
    struct pawl__place place = {.name = name, .name_size = (uint32_t)strlen(name)};
    struct pawl__op op = {.place = &place,
        .kind = PAWL__OP_ACQUIRE,
        .id = ids++,
        .lease_us = lease_us,
        .sent_us = stage->now_us};
    pawl__memory_apply(&stage->table, &stage->stranger, &op, stage->now_us);
    return op.answer == PAWL__DONE;
}
