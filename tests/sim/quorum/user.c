/* SPDX-License-Identifier: Apache-2.0 */
/* What the processes do: each opens a client for every node and one lock, which one or two of its
 * threads use until the faults are over. Then each of them has to be granted it once more, nothing
 * may be left at the nodes, and everything is closed. */
#include "qsim.h"

#include "base/thread.h"

#include <stdlib.h>

#define LONG_WAIT_MS 60000 /* enough for everybody to have had it */

/* ===== Calls ===== */

/* An asynchronous call that somebody waits for. It stays until the end, to be called back once. */
struct call {
    struct call *next;
    bool started;
    unsigned ended;
    pawl_status status;
};

static struct call *calls;

static struct call *call_new(void)
{
    struct call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        abort();
    }
    call->next = calls;
    calls = call;
    return call;
}

static void done(pawl_lock *lock, pawl_status status, void *arg)
{
    struct call *call = arg;
    (void)lock;
    call->status = status;
    call->ended++;
    qs_wake(call);
}

static pawl_status await(struct call *call, pawl_status started)
{
    call->started = started == PAWL_OK;
    if (!call->started) {
        return started;
    }
    while (call->ended == 0) {
        qs_wait(call, PAWL__NEVER);
    }
    return call->status;
}

static void check_calls(void)
{
    while (calls != NULL) {
        struct call *call = calls;
        if (call->ended != (call->started ? 1 : 0)) {
            qs_fail("TOLD a call that was %s was called back %u times",
                call->started ? "made" : "refused", call->ended);
        }
        calls = call->next;
        free(call);
    }
}

static pawl_status acquire(struct qs_process *process, int64_t wait_ms)
{
    struct qs_ask ask;
    pawl_status status = PAWL_OK;
    qs_asking(process, &ask);
    if (qs.plan.asynchronous) {
        struct call *call = call_new();
        status = await(call, pawl_lock_acquire_async(process->lock, wait_ms, done, call));
    } else {
        status = pawl_lock_acquire(process->lock, wait_ms);
    }
    qs_asked(process, &ask, status);
    return status;
}

/* What was not begun for want of memory has to be begun again. */
static pawl_status release(pawl_lock *lock)
{
    struct call *call = NULL;
    pawl_status status = PAWL_NO_MEMORY;
    while (status == PAWL_NO_MEMORY && qs.plan.asynchronous) {
        call = call_new();
        status = await(call, pawl_lock_release_async(lock, done, call));
        qs_sleep(status == PAWL_NO_MEMORY ? 10000 : 1);
    }
    return call != NULL ? status : pawl_lock_release(lock);
}

static int64_t any_wait(void)
{
    if (qs.plan.calm) {
        return LONG_WAIT_MS;
    }
    if (qs.plan.cancels && qs_chance(200)) {
        return PAWL_FOREVER;
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

/* ===== Opening and closing ===== */

/* If memory is short it is tried again. */
static bool is_opened(const struct qs_process *process, const char *what, pawl_status status)
{
    const bool excused = status == PAWL_NO_MEMORY && process->short_us > 0;
    if (status != PAWL_OK && !excused) {
        qs_fail("CALM p%u cannot open %s: %s", process->number, what, pawl_last_error());
    }
    return status == PAWL_OK;
}

/* If the node does not answer, it is left for later. */
static void open_client(
    struct qs_process *process, unsigned number, const pawl_client_options *wanted)
{
    pawl_client_options options = *wanted;
    char url[20];
    snprintf(url, sizeof url, "sim:%u", number);
    pawl_status status = PAWL_UNAVAILABLE;
    while (status != PAWL_OK) {
        status = pawl_client_open(url, &options, &process->clients[number]);
        if (status == PAWL_UNAVAILABLE && !options.lazy && !qs.plan.calm) {
            options.lazy = true;
        } else if (!is_opened(process, "a client", status)) {
            qs_sleep(10000);
        }
    }
}

void qs_open_all(struct qs_process *process)
{
    pawl_client_options client_options = PAWL_CLIENT_OPTIONS_INIT;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    client_options.lazy = qs.plan.lazy;
    for (unsigned i = 0; i < qs.plan.nodes; i++) {
        open_client(process, i, &client_options);
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
    options.on_risk = qs_on_risk;
    options.warn_ms = qs.plan.warn_ms;
    options.event_arg = process;
    while (!is_opened(process, "the lock",
        pawl_lock_open_quorum(
            process->clients, qs.plan.nodes, QS_NAME, &options, &process->lock))) {
        qs_sleep(10000);
    }
}

void qs_close_all(struct qs_process *process)
{
    pawl_lock *lock = process->lock;
    const bool calm = qs.calm;
    process->lock = NULL;
    const pawl_status status = pawl_lock_close(lock);
    if (status != PAWL_OK && calm) {
        qs_fail("CALM p%u closes the lock: %s", process->number, pawl_last_error());
    }
    for (unsigned i = 0; i < qs.plan.nodes; i++) {
        const bool closed = pawl_client_close(process->clients[i]) == PAWL_OK;
        if (!closed && qs.plan.kills && calm) { /* else a late copy may always be on its way */
            qs_fail("CALM p%u closes a client: %s", process->number, pawl_last_error());
        }
    }
}

/* ===== Holding ===== */

/* What is at the servers ends with its lease, which may be the longest one. */
static void leave_keys(struct qs_process *process)
{
    const int64_t lease_us = qs.plan.max_lease_ms * 1020;
    process->abandoned_us = pawl__max64(process->abandoned_us, qs.now_us + lease_us);
}

/* Some may have done it, and hear of no release. */
static void note_extension(struct qs_process *process, pawl_status status)
{
    if (status == PAWL_UNAVAILABLE || status == PAWL_NO_MEMORY) {
        leave_keys(process);
    }
}

static void look_around(struct qs_process *process)
{
    pawl_lock_info info = {.size = sizeof info};
    if (qs_chance(500)) {
        const pawl_status status =
            pawl_lock_extend(process->lock, qs_between(10, qs.plan.max_lease_ms));
        qs_note("extends: %d", (int)status);
        note_extension(process, status);
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
    const pawl_status status = acquire(process, wait_ms);
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
    if (status != PAWL_BUSY && status != PAWL_UNAVAILABLE && status != PAWL_REFUSED &&
        status != PAWL_CANCELED && status != PAWL_NO_MEMORY) {
        qs_fail("TOLD p%u asked, and was told: %s", process->number, pawl_last_error());
    }
}

/* A thread that ends without releasing what it has. */
static void *leave_it(void *arg)
{
    struct qs_process *process = arg;
    if (acquire(process, any_wait()) == PAWL_OK) {
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
        if (qs.plan.reopens && !qs.calm && qs_chance(100)) {
            qs_close_all(process);
            qs_open_all(process);
        }
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

static void *cancel_now_and_then(void *arg)
{
    while (!qs.calm) {
        qs_sleep(qs_between(1, qs.plan.lease_ms * 2000));
        qs_cancel(arg);
    }
    return NULL;
}

/* ===== From the beginning to the end ===== */

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
    const pawl_status status = acquire(process, LONG_WAIT_MS);
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
    pthread_t other = 0;
    pthread_t canceler = 0;
    const bool two = qs.plan.users[process->number] > 1;
    qs_open_all(process);
    meet(&qs.opened);
    if ((two && pthread_create(&other, NULL, second, process) != 0) ||
        (qs.plan.cancels && pthread_create(&canceler, NULL, cancel_now_and_then, process) != 0)) {
        abort();
    }
    if (qs.plan.scene > 0) {
        qs_scene_play(process);
    } else {
        use(process);
    }
    if (two) {
        pthread_join(other, NULL);
    }
    if (qs.plan.cancels) {
        pthread_join(canceler, NULL);
    }
    qs_sleep(qs.plan.max_lease_ms * 1050 + 5000000);
    use_at_last(process);
    meet(&qs.used);
    qs_sleep(3000000);
    qs_check_no_keys();
    qs_close_all(process);
    qs.closed++;
    return NULL;
}

void qs_users_run(void)
{
    pthread_t threads[QS_PROCESSES];
    for (unsigned i = 0; i < qs.plan.processes; i++) {
        struct qs_process *process = &qs.processes[i];
        process->number = i;
        process->ppm = qs_any_ppm(false);
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
    check_calls();
}
