/* SPDX-License-Identifier: Apache-2.0 */
/* What the processes do: each opens a client for every node and one lock, which one or two of its
 * threads use until the faults are over. Then each of them has to be granted it once more, nothing
 * may be left at the nodes, and everything is closed. */
#include "qsim.h"

#include "base/thread.h"

#include <stdlib.h>

#define LONG_WAIT_MS 60000 /* enough for everybody to have had it */

/* ===== Calls ===== */

/* An asynchronous call that somebody waits for. */
struct call {
    bool ended;
    pawl_status status;
};

static void done(pawl_lock *lock, pawl_status status, void *arg)
{
    struct call *call = arg;
    (void)lock;
    call->status = status;
    call->ended = true;
    qs_wake(call);
}

static pawl_status await(struct call *call, pawl_status started)
{
    if (started != PAWL_OK) {
        return started;
    }
    while (!call->ended) {
        qs_wait(call, PAWL__NEVER);
    }
    return call->status;
}

static pawl_status acquire(pawl_lock *lock, int64_t wait_ms)
{
    struct call call = {0};
    if (qs.plan.asynchronous) {
        return await(&call, pawl_lock_acquire_async(lock, wait_ms, done, &call));
    }
    return pawl_lock_acquire(lock, wait_ms);
}

static pawl_status release(pawl_lock *lock)
{
    struct call call = {0};
    if (qs.plan.asynchronous) {
        return await(&call, pawl_lock_release_async(lock, done, &call));
    }
    return pawl_lock_release(lock);
}

static int64_t any_wait(void)
{
    if (qs.plan.calm) {
        return LONG_WAIT_MS;
    }
    return qs_chance(300)   ? PAWL_TRY
           : qs_chance(400) ? qs_between(1, 200)
                            : qs_between(200, 3 * qs.plan.lease_ms);
}

/* Half of them are short. */
static int64_t any_hold(void)
{
    return qs_between(1, qs_chance(500) ? pawl__min64(qs.plan.hold_us, 50000) : qs.plan.hold_us);
}

/* ===== Holding ===== */

/* What is at the servers ends with its lease, which may be the longest one. */
static void leave_keys(struct qs_process *process)
{
    const int64_t lease_us = qs.plan.max_lease_ms * 1020;
    process->abandoned_us = pawl__max64(process->abandoned_us, qs.now_us + lease_us);
}

static void look_around(struct qs_process *process)
{
    pawl_lock_info info = {.size = sizeof info};
    if (qs_chance(500)) {
        const pawl_status status =
            pawl_lock_extend(process->lock, qs_between(10, qs.plan.max_lease_ms));
        qs_note("extends: %d", (int)status);
        if (status == PAWL_UNAVAILABLE) { /* some may have done it, and hear of no release */
            leave_keys(process);
        }
    } else {
        qs_note("inspects: %d", (int)pawl_lock_inspect(process->lock, &info));
    }
}

static struct qs_claim *hold(struct qs_process *process, int64_t duration_us)
{
    struct qs_claim *claim = qs_granted(process);
    const int64_t end_us = qs.now_us + duration_us;
    while (qs.now_us < end_us && !qs.calm) {
        const int64_t step_us = pawl__min64(end_us - qs.now_us, qs.plan.lease_ms * 300);
        qs_sleep(qs_between(1, step_us));
        if (!qs_looked(claim) && qs_chance(500)) {
            break;
        }
        if (qs_chance(100)) {
            look_around(process);
        }
    }
    qs_leaving(claim);
    return claim;
}

static void use_once(struct qs_process *process)
{
    const int64_t wait_ms = any_wait();
    qs_note("asks, for %lld ms", (long long)wait_ms);
    const pawl_status status = acquire(process->lock, wait_ms);
    if (status == PAWL_OK) {
        struct qs_claim *claim = hold(process, any_hold());
        qs_left(claim, release(process->lock));
        return;
    }
    qs.result->busy++;
    qs_note("is told: %s", pawl_status_string(status));
    if (status == PAWL_DEADLOCK || (status == PAWL_LOST && !qs.plan.by_thread)) {
        qs_sleep(qs.plan.think_us); /* the other thread has it */
        return;
    }
    if (qs.plan.calm) {
        qs_fail("CALM p%u waited for a minute: %s", process->number, pawl_last_error());
    }
    if (status != PAWL_BUSY && status != PAWL_UNAVAILABLE && status != PAWL_REFUSED) {
        qs_fail("TOLD p%u asked, and was told: %s", process->number, pawl_last_error());
    }
}

/* A thread that ends without releasing what it has. */
static void *leave_it(void *arg)
{
    struct qs_process *process = arg;
    if (pawl_lock_acquire(process->lock, any_wait()) == PAWL_OK) {
        struct qs_claim *claim = hold(process, qs_between(1, qs.plan.hold_us));
        leave_keys(process);
        claim->ends_lost = true;
        qs_note("ends without a word");
    }
    return NULL;
}

static void abandon(struct qs_process *process)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, leave_it, process) != 0) {
        abort();
    }
    pthread_join(thread, NULL);
}

static void use(struct qs_process *process)
{
    while (!qs.calm) {
        qs_sleep(qs_between(1, qs.plan.think_us));
        if (qs.plan.by_thread && !qs.plan.calm && qs_chance(50)) {
            abandon(process);
        } else {
            use_once(process);
        }
    }
}

static void *second(void *arg)
{
    use(arg);
    return NULL;
}

/* ===== From the beginning to the end ===== */

static void open_all(struct qs_process *process)
{
    pawl_client_options client_options = PAWL_CLIENT_OPTIONS_INIT;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    client_options.lazy = qs.plan.lazy;
    for (unsigned i = 0; i < qs.plan.nodes; i++) {
        char url[20];
        snprintf(url, sizeof url, "sim:%u", i);
        if (pawl_client_open(url, &client_options, &process->clients[i]) != PAWL_OK) {
            qs_fail("CALM p%u cannot open a client: %s", process->number, pawl_last_error());
        }
    }
    options.owner = qs.plan.by_thread ? PAWL_OWNER_THREAD : PAWL_OWNER_HANDLE;
    options.lease_ms = qs.plan.lease_ms;
    options.max_lease_ms = qs.plan.max_lease_ms;
    options.max_hold_ms = qs.plan.max_hold_ms;
    options.node_timeout_ms = qs.plan.node_timeout_ms;
    options.renew = qs.plan.renew;
    options.release_unawaited = qs.plan.unawaited;
    options.restart_guard = qs.plan.guard;
    options.on_lost = qs_on_lost;
    options.event_arg = process;
    if (pawl_lock_open_quorum(process->clients, qs.plan.nodes, QS_NAME, &options, &process->lock) !=
        PAWL_OK) {
        qs_fail("CALM p%u cannot open the lock: %s", process->number, pawl_last_error());
    }
}

static void close_all(struct qs_process *process)
{
    pawl_lock *lock = process->lock;
    process->lock = NULL;
    const pawl_status status = pawl_lock_close(lock);
    if (status != PAWL_OK) {
        qs_fail("CALM p%u closes the lock: %s", process->number, pawl_last_error());
    }
    for (unsigned i = 0; i < qs.plan.nodes; i++) {
        const bool closed = pawl_client_close(process->clients[i]) == PAWL_OK;
        if (!closed && qs.plan.kills) { /* else a late copy may always be on its way */
            qs_fail("CALM p%u closes a client: %s", process->number, pawl_last_error());
        }
    }
}

static void meet(unsigned *count)
{
    ++*count;
    qs_wake(count);
    while (*count < qs.plan.processes) {
        qs_wait(count, PAWL__NEVER);
    }
}

/* Every node votes again by now, and nobody is in the way for long. */
static void use_at_last(struct qs_process *process)
{
    const pawl_status status = acquire(process->lock, LONG_WAIT_MS);
    if (status != PAWL_OK) {
        qs_fail(
            "CALM p%u is not granted it when all is well: %s", process->number, pawl_last_error());
    }
    struct qs_claim *claim = qs_granted(process);
    qs_sleep(qs_between(1, 50000));
    if (!qs_looked(claim)) {
        qs_fail("CALM p%u has lost it when all is well", process->number);
    }
    qs_leaving(claim);
    const pawl_status released = release(process->lock);
    qs_left(claim, released);
    if (released != PAWL_OK) {
        qs_fail(
            "CALM p%u cannot release it when all is well: %s", process->number, pawl_last_error());
    }
}

static void *first(void *arg)
{
    struct qs_process *process = arg;
    pthread_t other;
    const bool two = qs.plan.users[process->number] > 1;
    open_all(process);
    meet(&qs.opened);
    if (two && pthread_create(&other, NULL, second, process) != 0) {
        abort();
    }
    use(process);
    if (two) {
        pthread_join(other, NULL);
    }
    qs_sleep(qs.plan.max_lease_ms * 1050 + 5000000);
    use_at_last(process);
    meet(&qs.used);
    qs_sleep(3000000);
    qs_check_no_keys();
    close_all(process);
    qs.closed++;
    return NULL;
}

void qs_users_run(void)
{
    pthread_t threads[QS_PROCESSES];
    for (unsigned i = 0; i < qs.plan.processes; i++) {
        struct qs_process *process = &qs.processes[i];
        process->number = i;
        process->ppm = qs_between(-4500, 4500);
        process->offset_us = qs_between(1, 1000000000) * 1000;
        process->wall_us = qs_between(-1000000, 1000000);
        qs_self->process = process; /* who makes a thread is of its process */
        if (pthread_create(&threads[i], NULL, first, process) != 0) {
            abort();
        }
        qs_self->process = NULL;
    }
    while (qs.opened < qs.plan.processes) {
        qs_wait(&qs.opened, PAWL__NEVER);
    }
    qs_faults_begin();
    qs_watch_begin();
    qs_sleep(qs.plan.length_us);
    qs_faults_end();
    for (unsigned i = 0; i < qs.plan.processes; i++) {
        pthread_join(threads[i], NULL);
    }
    qs_event_clear(&qs.monitor);
}
