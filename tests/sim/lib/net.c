/* SPDX-License-Identifier: Apache-2.0 */
/* The way between a machine and the backend, as an engine with one connection would see it.
 *
 * Requests and replies of a connection keep their order. A connection can be cut: then some of the
 * requests under way still arrive and the rest does not, no reply does, and operations without an
 * answer end UNKNOWN, those never sent FAILED. In an *ordered* run what is left of an old
 * connection dies when the new one is made, so every answer is `fenced`; in the others late copies
 * may overtake, come twice, and arrive whenever they like, up to the plan's bound, and no answer is
 * fenced. */
#include "sim.h"

#include "base/alloc.h"
#include "base/clock.h"

static int64_t delay(struct sim_world *world)
{
    return world->plan.delay_us + (int64_t)sim_draw(world, (uint64_t)world->plan.spread_us + 1);
}

static void trouble(struct sim_client *client, int64_t until_us)
{
    client->trouble_us = pawl__max64(client->trouble_us, until_us);
}

/* When a message that leaves now arrives, behind those that left before. */
static int64_t arrival(struct sim_client *client, int64_t *clear_us)
{
    struct sim_world *world = client->world;
    int64_t at_us = world->now_us + delay(world);
    bool late = sim_strikes(world, SIM_LATE);
    if (late) {
        at_us += (int64_t)sim_draw(world, (uint64_t)world->plan.late_us);
        trouble(client, at_us);
    }
    if (late && !world->plan.ordered) {
        return at_us;
    }
    at_us = pawl__max64(at_us, *clear_us);
    *clear_us = at_us;
    return at_us;
}

void sim_call_refer(struct sim_call *call, struct sim_event *event)
{
    event->call = call;
    call->events++;
}

/* ===== Requests ===== */

/* A second copy of the request that arrives late. */
static void send_copy(struct sim_call *call, int64_t after_us)
{
    struct sim_world *world = call->client->world;
    struct sim_call *copy = sim_call_new(world);
    *copy = *call;
    copy->copy.info = &copy->info;
    sim_ask_copied(copy);
    pawl__list_init(&copy->node);
    copy->op = NULL;
    copy->events = 0;
    copy->applied = false;
    int64_t at_us = after_us + delay(world);
    at_us += (int64_t)sim_draw(world, (uint64_t)world->plan.late_us);
    sim_call_refer(copy, sim_event_at(world, at_us, SIM_EVENT_REQUEST, call->client));
    sim_say(world, call->client, "a copy of %s of tenure %llu stays behind",
        sim_op_text(call->copy.kind), (unsigned long long)call->copy.id);
}

/* Copies of an acquire that was answered cannot be known by any engine; what they leave is not our
 * fault. */
static void double_request(struct sim_call *call, int64_t after_us)
{
    if (call->claim != NULL) {
        call->claim->excused = true;
    }
    if (call->heir != NULL) {
        call->heir->excused = true;
    }
    if (call->question.known != NULL) {
        call->question.known->excused = true;
    }
    send_copy(call, after_us);
}

static void transmit(struct sim_call *call)
{
    struct sim_client *client = call->client;
    struct sim_world *world = client->world;
    if (call->leader != NULL) {
        return; /* it goes with that one */
    }
    call->sent = true;
    call->connection = client->connection;
    if (!client->wired || sim_strikes(world, SIM_DROP_REQUEST)) {
        trouble(client, world->now_us);
        call->dropped = true;
        sim_joint_sent(call);
        return;
    }
    int64_t at_us = arrival(client, &client->request_clear_us);
    call->way_us = at_us;
    sim_call_refer(call, sim_event_at(world, at_us, SIM_EVENT_REQUEST, client));
    sim_joint_sent(call);
    if (!world->plan.ordered && sim_strikes(world, SIM_DOUBLE)) {
        double_request(call, at_us);
    }
}

static unsigned name_of(const struct sim_world *world, const struct pawl__op *op)
{
    (void)world;
    return (unsigned)(op->place->name[0] - 'a');
}

static void find_claims(struct sim_call *call)
{
    struct sim_client *client = call->client;
    const struct pawl__op *op = &call->copy;
    bool about_tenure = op->kind != PAWL__OP_INSPECT && op->kind != PAWL__OP_BREAK &&
                        op->kind != PAWL__OP_WATCH && op->kind != PAWL__OP_UNWATCH &&
                        op->kind != PAWL__OP_TALLY;
    if (!about_tenure) {
        return;
    }
    struct pawl__tenure *tenure = op->core;
    call->claim = sim_claim_open(client, tenure, call->name);
    if (op->kind == PAWL__OP_PASS) {
        call->heir = sim_claim_open(client, tenure->motion->heir, call->name);
    }
}

void sim_net_submit(struct sim_client *client, struct pawl__op *op)
{
    struct sim_world *world = client->world;
    struct sim_call *call = sim_call_new(world);
    call->op = op;
    call->copy = *op;
    call->client = client;
    call->life = client->life;
    call->name = name_of(world, op);
    call->copy.place = &world->places[call->name];
    call->copy.info = &call->info;
    call->info.size = sizeof call->info;
    __builtin_memcpy(call->uuid, client->uuid, sizeof call->uuid);
    find_claims(call);
    if (op->kind == PAWL__OP_TALLY) {
        sim_ask_submit(call, op);
    }
    sim_orphan_submit(call);
    struct pawl__list *last = client->calls.prev;
    pawl__list_push(&client->calls, &call->node);
    int64_t deadline_us = sim_true(client, op->deadline_us);
    sim_call_refer(call, sim_event_at(world, deadline_us, SIM_EVENT_DEADLINE, client));
    sim_hash(world, op->id << 8 | (uint64_t)op->kind);
    sim_say(world, client, "submits %s of tenure %llu%s", sim_op_text(op->kind),
        (unsigned long long)op->id, client->online ? "" : ", offline");

    if (op->kind == PAWL__OP_ACQUIRE && op->joint && world->plan.joins) {
        sim_joint_submit(PAWL__CONTAINER(last, struct sim_call, node), call);
    } else if (sim_strikes(world, SIM_REORDER)) {
        int64_t at_us = world->now_us + (int64_t)sim_draw(world, (uint64_t)world->plan.delay_us);
        sim_call_refer(call, sim_event_at(world, at_us, SIM_EVENT_SUBMIT, client));
    } else {
        sim_net_send(client, call);
    }
}

/* The engine has it now. */
void sim_net_send(struct sim_client *client, struct sim_call *call)
{
    struct sim_world *world = client->world;
    bool refused = sim_strikes(world, SIM_REFUSE);
    call->handed = true;
    if (refused || (!client->online && !world->plan.queues_offline)) {
        call->refused = true;
        call->unfit = refused;
        call->copy.again = !refused || world->plan.session || sim_draw(world, 2) > 0;
        if (!call->copy.again && call->claim != NULL) {
            call->claim->excused = true;
        }
        int64_t at_us = world->now_us + 1 + (int64_t)sim_draw(world, 50);
        call->way_us = at_us;
        sim_call_refer(call, sim_event_at(world, at_us, SIM_EVENT_REFUSAL, client));
        sim_joint_sent(call);
    } else if (client->online) {
        transmit(call);
    }
}

static bool is_fenced_off(const struct sim_call *call)
{
    const struct sim_client *client = call->client;
    bool old = call->life == client->life && call->connection != client->connection;
    if (call->copy.kind == PAWL__OP_TALLY && call->life != client->life) {
        old = call->connection < client->last_connection; /* what was cut off stays so */
    }
    return old && client->world->plan.ordered;
}

void sim_net_arrive(struct sim_world *world, struct sim_event *event)
{
    struct sim_call *call = event->call;
    bool died = world->plan.session && call->life != call->client->life; /* and all of it */
    if (world->down) {
        trouble(call->client, world->now_us);
    }
    if (call->dropped || world->down || died || is_fenced_off(call)) {
        return;
    }
    struct sim_client *client = call->client;
    if (call->leader == NULL && call->follower != NULL) {
        sim_joint_decide(world, call);
    }
    sim_backend_apply(world, call);
    if (call->leader != NULL && call->op != NULL && call->reply_us > 0) {
        sim_call_refer(call, sim_event_at(world, call->reply_us, SIM_EVENT_REPLY, client));
    }
    if (call->leader != NULL) {
        return;
    }
    bool hears = call->life == client->life && call->connection == client->connection;
    if (!hears || !client->wired || call->op == NULL) {
        return;
    }
    if (sim_strikes(world, SIM_DROP_REPLY)) {
        trouble(client, world->now_us);
        return;
    }
    int64_t at_us = arrival(client, &client->reply_clear_us);
    sim_call_refer(call, sim_event_at(world, at_us, SIM_EVENT_REPLY, client));
    sim_joint_reply(call, at_us);
}

/* ===== Ends of operations ===== */

static void forget_ear(struct sim_client *client, unsigned name, uint64_t id)
{
    for (unsigned i = 0; i < client->ear_count; i++) {
        if (client->ears[i].name == name && client->ears[i].id == id) {
            client->ears[i] = client->ears[--client->ear_count];
            return;
        }
    }
}

/* What has to be subscribed to again after a cut. */
static void note_subscription(struct sim_client *client, const struct sim_call *call)
{
    const struct pawl__op *op = call->op;
    bool watch = op->kind == PAWL__OP_WATCH;
    if (op->id == 0) {
        client->subscribed[call->name] = watch;
        return;
    }
    forget_ear(client, call->name, op->id);
    if (watch && client->ear_count == SIM_EARS_MAX) {
        sim_fail(client->world, "O7", "client %u has too many ears", client->index);
    } else if (watch) {
        client->ears[client->ear_count++] = (struct sim_ear){call->name, op->id};
    }
}

static void complete(struct sim_client *client, struct sim_call *call)
{
    struct pawl__op *op = call->op;
    const struct pawl__op *copy = &call->copy;
    op->answer = copy->answer;
    op->status = copy->status;
    op->again = copy->again;
    op->fenced = copy->fenced;
    op->others = copy->others;
    op->hint_us = copy->hint_us;
    op->token = copy->token;
    op->error = copy->error;
    if (op->kind == PAWL__OP_INSPECT && op->answer == PAWL__DONE) {
        *op->info = call->info;
    }
    if (op->kind == PAWL__OP_TALLY) {
        sim_ask_answered(call);
    }
    bool answered = op->answer != PAWL__FAILED && op->answer != PAWL__UNKNOWN;
    bool ended = op->kind == PAWL__OP_UNWATCH && (answered || op->id != 0);
    if (ended || (answered && op->kind == PAWL__OP_WATCH)) {
        note_subscription(client, call);
    }
    call->op = NULL;
    pawl__list_remove(&call->node);
    if (!answered) {
        trouble(client, client->world->now_us);
    }
    sim_hash(client->world, op->id << 8 | (uint64_t)op->answer);
    sim_say(client->world, client, "%s of tenure %llu ended: %s", sim_op_text(op->kind),
        (unsigned long long)op->id, sim_answer_text(op->answer));
    sim_hold_answered(call);
    sim_client_begin(client);
    pawl__machine_complete(&client->machine, op, sim_now(client));
    sim_client_end(client);
}

static void end_unanswered(struct sim_client *client, struct sim_call *call, pawl_status status,
    bool again, const char *why)
{
    call->copy.answer = call->sent ? PAWL__UNKNOWN : PAWL__FAILED;
    call->copy.status = status;
    call->copy.again = again;
    call->copy.fenced = false;
    call->copy.token = 0;
    call->copy.error = pawl__format("%s", why);
    complete(client, call);
}

static void read_reply(struct sim_client *client, struct sim_call *call)
{
    call->unread = false;
    call->copy.fenced = client->world->plan.ordered && sim_draw(client->world, 10) > 0;
    complete(client, call);
}

static struct sim_call *next_unread(const struct sim_client *client)
{
    for (struct pawl__list *node = client->calls.next; node != &client->calls; node = node->next) {
        struct sim_call *call = PAWL__CONTAINER(node, struct sim_call, node);
        if (call->unread && !call->cut) {
            return call;
        }
    }
    return NULL;
}

/* Nobody reads for the sake of a lazy operation: its reply waits for the next one. */
void sim_net_reply(struct sim_client *client, struct sim_call *call)
{
    if (call->op == NULL || call->cut) {
        return;
    }
    call->unread = true;
    struct sim_call *unread = call->op->lazy && !call->wanted ? NULL : next_unread(client);
    while (unread != NULL) {
        read_reply(client, unread);
        unread = next_unread(client);
    }
}

/* ... or until the machine wants it. */
void sim_net_hear(struct sim_client *client)
{
    for (struct pawl__list *node = client->calls.next; node != &client->calls; node = node->next) {
        struct sim_call *call = PAWL__CONTAINER(node, struct sim_call, node);
        call->wanted = true;
        if (call->unread) {
            sim_call_refer(
                call, sim_event_at(client->world, client->world->now_us, SIM_EVENT_REPLY, client));
        }
    }
}

void sim_net_deadline(struct sim_client *client, struct sim_call *call)
{
    if (call->op != NULL) {
        end_unanswered(client, call, PAWL_UNAVAILABLE, true, "no answer in time");
    }
}

void sim_net_refusal(struct sim_client *client, struct sim_call *call)
{
    if (call->op != NULL) {
        pawl_status status = call->unfit ? PAWL_REFUSED : PAWL_UNAVAILABLE;
        end_unanswered(client, call, status, call->copy.again, "not now");
    }
}

/* ===== Connections ===== */

void sim_net_unsubscribe(struct sim_client *client)
{
    struct sim_world *world = client->world;
    pawl__memory_leave(&world->table, &client->peer);
    for (unsigned name = 0; name < world->plan.names; name++) {
        sim_fair_watching(client, name, false);
    }
}

/* Of the requests under way a first part arrives; of some there is one more copy. */
static void cut_requests(struct sim_client *client)
{
    bool dropping = false;
    for (struct pawl__list *node = client->calls.next; node != &client->calls; node = node->next) {
        struct sim_call *call = PAWL__CONTAINER(node, struct sim_call, node);
        dropping = dropping || (call->leader == NULL && sim_draw(client->world, 2) > 0);
        call->cut = true;
        if (call->sent && !call->applied && dropping) {
            call->dropped = true;
        } else if (call->sent && sim_strikes(client->world, SIM_DOUBLE)) {
            send_copy(call, client->world->now_us);
        }
    }
}

void sim_net_cut(struct sim_client *client)
{
    struct sim_world *world = client->world;
    if (!client->wired) {
        return;
    }
    client->wired = false;
    cut_requests(client);
    sim_net_unsubscribe(client);
    trouble(client, world->now_us);
    int64_t notice_us = sim_draw(world, 4) > 0 ? delay(world) : world->plan.timeout_us * 2;
    sim_event_at(world, world->now_us + notice_us, SIM_EVENT_CUT, client)->number =
        client->connection;
    sim_say(world, client, "the connection is cut");
}

void sim_net_cut_noticed(struct sim_client *client, unsigned connection)
{
    struct sim_world *world = client->world;
    if (connection != client->connection || !client->online) {
        return;
    }
    client->online = false;
    int64_t pause_us = sim_about(world, 4 * world->plan.delay_us + 10000);
    sim_event_at(world, world->now_us + pause_us, SIM_EVENT_RECONNECT, client);
    for (;;) {
        struct pawl__list *node = client->calls.next;
        struct sim_call *call = NULL;
        while (node != &client->calls) {
            call = PAWL__CONTAINER(node, struct sim_call, node);
            if (call->sent) {
                break;
            }
            node = node->next;
        }
        if (node == &client->calls) {
            return;
        }
        end_unanswered(client, call, PAWL_UNAVAILABLE, true, "the connection was lost");
    }
}

static void subscribe_again(struct sim_client *client)
{
    for (unsigned name = 0; name < client->world->plan.names; name++) {
        if (client->subscribed[name]) {
            sim_backend_watch(client, name, 0);
        }
    }
    for (unsigned i = 0; i < client->ear_count; i++) {
        sim_backend_watch(client, client->ears[i].name, client->ears[i].id);
    }
}

/* Subscribe again to what was watched, send what has waited, and tell the machine. */
void sim_net_reconnect(struct sim_client *client)
{
    struct sim_world *world = client->world;
    if (world->down || world->frozen) {
        sim_event_at(world, world->now_us + sim_about(world, 50000), SIM_EVENT_RECONNECT, client);
        return;
    }
    client->online = true;
    client->wired = true;
    client->connection++;
    client->request_clear_us = world->now_us;
    client->reply_clear_us = world->now_us;
    trouble(client, world->now_us);
    sim_say(world, client, "is connected again");
    subscribe_again(client);
    for (struct pawl__list *node = client->calls.next; node != &client->calls; node = node->next) {
        struct sim_call *call = PAWL__CONTAINER(node, struct sim_call, node);
        if (call->handed && !call->refused) {
            transmit(call);
        }
    }
    sim_client_begin(client);
    pawl__machine_reconnected(&client->machine, sim_now(client));
    sim_client_end(client);
    sim_client_begin(client);
    pawl__machine_wake(&client->machine, NULL, 0, 0, sim_now(client));
    sim_client_end(client);
}

void sim_net_cut_push(struct sim_client *client)
{
    struct sim_world *world = client->world;
    if (client->wired) {
        sim_net_unsubscribe(client);
        int64_t pause_us = sim_about(world, 10 * world->plan.delay_us);
        sim_event_at(world, world->now_us + pause_us, SIM_EVENT_PUSH_BACK, client);
        sim_say(world, client, "hears no messages any more");
    }
}

/* Messages may have been missed. */
void sim_net_push_back(struct sim_client *client)
{
    if (client->wired) {
        subscribe_again(client);
        sim_client_begin(client);
        pawl__machine_wake(&client->machine, NULL, 0, 0, sim_now(client));
        sim_client_end(client);
    }
}

/* The engine is stopped: it ends everything that is still open. */
void sim_net_stop(struct sim_client *client)
{
    if (client->wired) {
        cut_requests(client);
    }
    client->online = false;
    client->wired = false;
    while (!pawl__list_empty(&client->calls)) {
        struct sim_call *call = PAWL__CONTAINER(client->calls.next, struct sim_call, node);
        end_unanswered(client, call, PAWL_UNAVAILABLE, true, "the client is closed");
    }
}

/* Its process is gone: what it sent may still arrive, nothing comes back. */
void sim_net_forget_client(struct sim_client *client)
{
    struct sim_world *world = client->world;
    if (client->wired) {
        cut_requests(client);
    }
    sim_net_unsubscribe(client);
    while (!pawl__list_empty(&client->calls)) {
        struct sim_call *call = PAWL__CONTAINER(client->calls.next, struct sim_call, node);
        if (call->op->kind == PAWL__OP_INSPECT || call->op->kind == PAWL__OP_BREAK) {
            pawl__free(call->op->core); /* the errand, which the operation is a part of */
        }
        call->op = NULL;
        pawl__list_remove(&call->node);
        sim_call_settle(world, call);
    }
}

/* ===== Wake-ups ===== */

void sim_net_wakes(struct sim_world *world)
{
    struct pawl__memory_watch *watch;
    while ((watch = pawl__memory_woken(&world->table)) != NULL) {
        struct sim_client *client = PAWL__CONTAINER(watch->client, struct sim_client, peer);
        if (!sim_strikes(world, SIM_DROP_WAKE)) {
            int64_t at_us = world->now_us + delay(world);
            struct sim_event *event = sim_event_at(world, at_us, SIM_EVENT_WAKE, client);
            event->number = (unsigned)(watch->entry->name[0] - 'a');
            event->id = watch->id;
        }
    }
}
