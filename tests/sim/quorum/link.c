/* SPDX-License-Identifier: Apache-2.0 */
/* An engine whose backend is a node: one connection for each client, made anew when it breaks or
 * when an answer is overdue, read by whoever waits or by the keeper, as that of the Redis engine.
 * What was sent and not answered when it ends is unknown; what was not sent has failed.
 *
 * It needs no mutex: the baton changes hands only inside calls into the library, and around those
 * everything is as it should be. One thread reads at a time. */
#include "qsim.h"

#include "base/error.h"
#include "base/fds.h"
#include "base/url.h"

#include <stdlib.h>
#include <string.h>

#define BACKOFF_LEAST_US 10000
#define BACKOFF_MOST_US 500000
#define FOLLOW_US 10000

static int64_t now_of(const struct qs_link *link)
{
    return qs_process_now(link->process);
}

bool qs_link_readable(const struct qs_link *link)
{
    const bool news = link->state == QS_CONNECTING && (link->greeted || link->refused) &&
                      link->hello_back && !link->hello.timer.armed;
    return !link->reading && (link->broken || news || !pawl__list_empty(&link->inbox));
}

void qs_link_arrived(struct qs_link *link)
{
    if (qs_link_readable(link)) {
        qs_wake_pollers(link->fd);
    }
}

/* ===== Ends of operations ===== */

static void append(struct pawl__op **ops, struct pawl__op *op)
{
    while (*ops != NULL) {
        ops = &(*ops)->next;
    }
    op->next = NULL;
    *ops = op;
}

/* Without an answer. */
static void end_op(struct pawl__op *op)
{
    struct qs_message *message = op->engine;
    op->answer = message != NULL ? PAWL__UNKNOWN : PAWL__FAILED;
    op->status = PAWL_UNAVAILABLE;
    op->again = true;
    op->fenced = false;
    op->engine = NULL;
    if (message != NULL) {
        message->asked = NULL;
    }
}

/* All that were sent, or that were not, or whose time is over. */
static void end_ops(
    struct qs_link *link, bool sent, bool unsent, int64_t due_us, struct pawl__op **ended)
{
    struct pawl__op **at = &link->pending;
    while (*at != NULL) {
        struct pawl__op *op = *at;
        const bool ends = op->engine != NULL ? sent : unsent;
        if (!ends && op->deadline_us > due_us) {
            at = &op->next;
            continue;
        }
        *at = op->next;
        end_op(op);
        append(ended, op);
    }
}

static void take_answer(struct qs_link *link, struct pawl__op **ended)
{
    struct pawl__list *node = pawl__list_pop(&link->inbox);
    struct qs_message *message = PAWL__CONTAINER(node, struct qs_message, node);
    struct pawl__op *op = message->asked;
    if (op == NULL) {
        return;
    }
    struct pawl__op **at = &link->pending;
    while (*at != op) {
        at = &(*at)->next;
    }
    *at = op->next;
    op->engine = NULL;
    op->answer = message->op.answer;
    op->status = message->op.status;
    op->again = message->op.again;
    op->fenced = message->op.fenced;
    op->others = message->op.others;
    op->hint_us = message->op.hint_us;
    op->token = message->op.token;
    if (op->kind == PAWL__OP_ACQUIRE && qs.plan.clocks) {
        link->identity.sample =
            (struct pawl__clock_sample){message->op.sent_us, now_of(link), message->clock_us};
    }
    if (op->info != NULL) {
        *op->info = message->info;
    }
    append(ended, op);
}

/* ===== The connection ===== */

static void begin_connecting(struct qs_link *link)
{
    link->state = QS_CONNECTING;
    link->broken = false;
    link->try_us = now_of(link) + link->host->settings.connect_timeout_us;
    qs_connect(link);
}

static void lose(struct qs_link *link, struct pawl__op **ended)
{
    link->broken = false;
    link->state = QS_DOWN;
    link->generation++;
    link->try_us = now_of(link);
    while (pawl__list_pop(&link->inbox) != NULL) {
    }
    end_ops(link, true, false, INT64_MIN, ended);
}

static void not_connected(struct qs_link *link, struct pawl__op **ended)
{
    const int64_t most_us = pawl__min64(BACKOFF_LEAST_US << link->tries, BACKOFF_MOST_US);
    link->tries += link->tries < 10 ? 1 : 0;
    link->state = QS_DOWN;
    link->refused = false;
    link->greeted = false;
    qs_event_clear(&link->hello);
    link->try_us = now_of(link) + qs_between(most_us / 2, most_us);
    end_ops(link, false, true, INT64_MIN, ended);
}

static void connected(struct qs_link *link)
{
    link->state = QS_UP;
    link->greeted = false;
    link->tries = 0;
    link->run = link->next_run;
    const struct pawl__clock_sample sample = link->identity.sample;
    link->identity = link->next_identity;
    link->identity.sample = sample;
    link->identity.wall_us =
        link->next_identity.clock_us - link->node->offset_us + link->process->wall_us;
    link->identity.read_us = now_of(link);
    for (struct pawl__op *op = link->pending; op != NULL; op = op->next) {
        if (op->engine == NULL) {
            qs_send(link, op);
        }
    }
}

/* One thing that has come, or is due. False: there was none. */
static bool advance(struct qs_link *link, struct pawl__op **ended, bool *again_out)
{
    const int64_t now_us = now_of(link);
    if (link->broken) {
        lose(link, ended);
    } else if (link->state == QS_CONNECTING && link->greeted && !link->hello.timer.armed) {
        connected(link);
        *again_out = link->was_ready;
        link->was_ready = true;
    } else if (link->state == QS_CONNECTING &&
               ((link->refused && !link->hello.timer.armed) || now_us >= link->try_us)) {
        not_connected(link, ended);
    } else if (!pawl__list_empty(&link->inbox)) {
        take_answer(link, ended);
    } else if (link->state == QS_DOWN && link->wanted && now_us >= link->try_us) {
        begin_connecting(link);
    } else {
        bool overdue = false;
        for (const struct pawl__op *op = link->pending; op != NULL; op = op->next) {
            overdue = overdue || op->deadline_us <= now_us;
        }
        if (overdue && link->state == QS_UP) {
            lose(link, ended);
        } else if (overdue) {
            end_ops(link, false, false, now_us, ended);
        }
        return overdue;
    }
    return true;
}

static int64_t due_of(const struct qs_link *link)
{
    if (link->reading) {
        return PAWL__NEVER; /* whoever reads looks at the clock, too */
    }
    int64_t due_us = link->state != QS_UP && link->wanted ? link->try_us : PAWL__NEVER;
    for (const struct pawl__op *op = link->pending; op != NULL; op = op->next) {
        due_us = pawl__min64(due_us, op->deadline_us);
    }
    return due_us;
}

static bool needs_care(const struct qs_link *link)
{
    return !link->stopped &&
           (link->pending != NULL || link->broken || (link->wanted && link->state != QS_UP));
}

static void read_all(struct qs_link *link)
{
    bool any = !link->reading && !link->stopped;
    if (!any) {
        link->missed = link->reading;
        return;
    }
    while (any) {
        struct pawl__op *ended = NULL;
        bool again = false;
        link->reading = true;
        any = advance(link, &ended, &again);
        if (ended != NULL) {
            link->host->complete(link->host, ended);
        }
        if (again) {
            link->host->reconnected(link->host);
        }
        link->reading = false;
    }
    qs_link_arrived(link);
    if (link->missed && needs_care(link)) {
        link->missed = false;
        link->host->attend(link->host);
    }
}

/* ===== The engine ===== */

static pawl_status engine_open(struct pawl__url *url, struct pawl__host *host, void **self_out)
{
    struct qs_process *process = qs_self->process;
    struct qs_link *link = &qs.links[process->number][strtoul(url->path, NULL, 10)];
    const struct qs_link before = *link; /* of what goes on, if it was open before */
    *link = (struct qs_link){.process = process,
        .node = &qs.nodes[strtoul(url->path, NULL, 10)],
        .host = host,
        .generation = before.generation,
        .killed = before.killed,
        .slow_us = before.slow_us,
        .cut_up_us = before.cut_up_us,
        .cut_down_us = before.cut_down_us,
        .last_up_us = before.last_up_us,
        .last_down_us = before.last_down_us};
    link->fd = qs_fd_link(link);
    link->wake_fd = pawl__fd_eventfd();
    link->delay_us = qs_chance(800) ? qs_between(50, 2000) : qs_between(2000, 8000);
    pawl__list_init(&link->inbox);
    memcpy(link->uuid, host->uuid, sizeof link->uuid);
    *self_out = link;
    return PAWL_OK;
}

static void drive_until(struct qs_link *link, struct pawl__waiter *waiter, int64_t deadline_us)
{
    struct pollfd fds[2] = {{0}, {link->fd, POLLIN, 0}};
    pawl__waiter_poll(waiter, fds, 2, link->wake_fd, pawl__min64(deadline_us, due_of(link)));
    read_all(link);
}

static pawl_status engine_connect(void *self, int64_t deadline_us)
{
    struct qs_link *link = self;
    struct pawl__waiter waiter;
    pawl__waiter_init(&waiter);
    link->wanted = true;
    link->try_us = now_of(link);
    read_all(link);
    while (link->state != QS_UP && now_of(link) < deadline_us) {
        drive_until(link, &waiter, deadline_us);
    }
    return link->state == QS_UP ? PAWL_OK : pawl__fail(PAWL_UNAVAILABLE, "no answer from the node");
}

static void engine_stop(void *self)
{
    struct qs_link *link = self;
    struct pawl__op *ended = NULL;
    link->stopped = true;
    end_ops(link, true, true, INT64_MIN, &ended);
    if (ended != NULL) {
        link->host->complete(link->host, ended);
    }
}

static void engine_close(void *self)
{
    struct qs_link *link = self;
    link->stopped = true;
    link->generation++;
    qs_event_clear(&link->hello);
    qs_fd_close(link->fd);
    qs_fd_close(link->wake_fd);
}

static pawl_status engine_place_open(void *self, struct pawl__place *place)
{
    (void)self;
    (void)place;
    return PAWL_OK;
}

static void engine_place_close(void *self, struct pawl__place *place)
{
    (void)self;
    (void)place;
}

static void engine_submit(void *self, struct pawl__op *ops, bool driven)
{
    struct qs_link *link = self;
    struct pawl__op *ended = NULL;
    while (ops != NULL) {
        struct pawl__op *op = ops;
        ops = op->next;
        op->engine = NULL;
        if (link->stopped) {
            end_op(op);
            append(&ended, op);
        } else if (op->kind == PAWL__OP_WATCH || op->kind == PAWL__OP_UNWATCH) {
            op->answer = PAWL__DONE;
            append(&ended, op);
        } else {
            link->try_us = link->wanted ? link->try_us : now_of(link);
            link->wanted = true;
            append(&link->pending, op);
            if (link->state == QS_UP && !link->broken) {
                qs_send(link, op);
            }
        }
    }
    if (ended != NULL) {
        link->host->complete(link->host, ended);
    }
    if (!driven && needs_care(link)) {
        if (link->state == QS_DOWN) {
            read_all(link);
        }
        link->host->attend(link->host);
    }
}

static void engine_drive(
    void *self, enum pawl__await what, struct pawl__waiter *waiter, int64_t deadline_us)
{
    struct qs_link *link = self;
    (void)what;
    if (link->driven) {
        pawl__waiter_sleep(waiter, pawl__min64(deadline_us, now_of(link) + FOLLOW_US));
        return;
    }
    link->driven = true;
    read_all(link);
    while (!pawl__waiter_marked(waiter) && now_of(link) < deadline_us) {
        drive_until(link, waiter, deadline_us);
    }
    pawl__waiter_take_nudge(waiter);
    link->driven = false;
    if (needs_care(link)) {
        link->host->attend(link->host);
    }
}

static size_t engine_glance(void *self, struct pollfd *fds, int64_t *due_us)
{
    struct qs_link *link = self;
    link->missed = link->missed || link->reading;
    if (link->driven || !needs_care(link)) {
        return 0;
    }
    fds[0] = (struct pollfd){link->fd, POLLIN, 0};
    *due_us = pawl__min64(*due_us, due_of(link));
    return 1;
}

static void engine_gather(void *self)
{
    read_all(self);
}

static void engine_pump(void *self, const struct pollfd *fds, size_t count)
{
    (void)fds;
    (void)count;
    read_all(self);
}

static void engine_where(void *self, char *out, size_t size)
{
    const struct qs_link *link = self;
    snprintf(out, size, "node %u", link->node->number);
}

static bool engine_identity(void *self, struct pawl__server_identity *identity_out)
{
    const struct qs_link *link = self;
    *identity_out = link->identity; /* of who was there last */
    return link->identity.run_id[0] != '\0';
}

static pawl_status engine_durable(void *self, bool *durable_out)
{
    const struct qs_link *link = self;
    const bool answered = qs_roundtrip(self);
    *durable_out = answered && link->node->durable;
    return answered ? PAWL_OK : pawl__fail(PAWL_UNAVAILABLE, "no answer from the node");
}

static pawl_status engine_seen(void *self, struct pawl__sighting *sightings, size_t count,
    struct pawl__clock_sample *sample_out)
{
    const struct qs_link *link = self;
    const int64_t asked_us = now_of(link);
    *sample_out = (struct pawl__clock_sample){0};
    if (!qs_roundtrip(self)) {
        return pawl__fail(PAWL_UNAVAILABLE, "no answer from the node");
    }
    if (qs.plan.clocks) {
        *sample_out = (struct pawl__clock_sample){asked_us, now_of(link), qs_node_now(link->node)};
    }
    for (size_t i = 0; i < count; i++) {
        qs_see(link->node, &sightings[i]);
    }
    return PAWL_OK;
}

static const char *const schemes[] = {"sim", NULL};

const struct pawl__engine qs_engine = {
    .name = "sim",
    .schemes = schemes,
    .families = PAWL__FAMILY_BIT(PAWL__FAMILY_MUTEX),
    .place_size = sizeof(struct pawl__place),
    .expires = true,
    .passes = true,
    .raises = true,
    .rows = true,
    .open = engine_open,
    .connect = engine_connect,
    .stop = engine_stop,
    .close = engine_close,
    .place_open = engine_place_open,
    .place_close = engine_place_close,
    .submit = engine_submit,
    .drive = engine_drive,
    .poll = engine_glance,
    .pump = engine_pump,
    .glance = engine_glance,
    .gather = engine_gather,
    .where = engine_where,
    .identity = engine_identity,
    .durable = engine_durable,
    .seen = engine_seen,
};
