/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes: servers whose commands are the table of the memory engine, with clocks of their own,
 * that hang, restart and forget; and the network to them. On a connection nothing overtakes
 * anything. What is sent into a cut gets there when it is over, as TCP would have it, unless the
 * connection was given up before and the server has heard of that. */
#include "qsim.h"

#include <stdlib.h>
#include <string.h>

#define PPM 1000000
#define WALL_US INT64_C(1700000000000000)
#define AGAIN_US 30000 /* a packet that was lost is sent again */
#define JUMP_US 250000

int64_t qs_node_now(const struct qs_node *node)
{
    return WALL_US + node->offset_us + node->jump_us + qs.now_us + qs.now_us * node->ppm / PPM;
}

static struct pawl__place place_of_all = {
    .name = QS_NAME, .name_size = sizeof QS_NAME - 1, .family = PAWL__FAMILY_MUTEX};

/* ===== Starting and stopping ===== */

/* A table in which the name is watched, so that it counts on from where it was. */
static void fill(struct qs_node *node)
{
    struct pawl__op op = {.kind = PAWL__OP_WATCH, .place = &place_of_all};
    if (!pawl__memory_init(&node->table)) {
        abort();
    }
    pawl__memory_join(&node->keeper, "keeper");
    pawl__memory_apply(&node->table, &node->keeper, &op, qs_node_now(node));
    node->note_count = 0;
}

static void empty(struct qs_node *node)
{
    pawl__memory_leave(&node->table, &node->keeper);
    pawl__memory_free(&node->table);
}

void qs_nodes_begin(void)
{
    for (unsigned i = 0; i < qs.plan.nodes; i++) {
        struct qs_node *node = &qs.nodes[i];
        node->number = i;
        node->ppm = qs_any_ppm(true);
        node->offset_us = qs_between(-100000, 100000);
        node->durable = qs_chance(400) && !qs.plan.forgetful;
        node->up = true;
        node->run = 1;
        node->started_us = qs_node_now(node) - 2 * qs.plan.max_lease_ms * 1000;
        fill(node);
    }
}

void qs_nodes_end(void)
{
    for (unsigned i = 0; i < qs.plan.nodes; i++) {
        empty(&qs.nodes[i]);
    }
    while (qs.messages != NULL) {
        struct qs_message *message = qs.messages;
        qs.messages = message->all;
        free(message);
    }
}

static void start_again(struct qs_event *event)
{
    struct qs_node *node = PAWL__CONTAINER(event, struct qs_node, back);
    if (node->forgets) {
        empty(node);
        fill(node);
    }
    node->up = true;
    node->run++;
    node->started_us = qs_node_now(node);
    qs_note("node %u is back, %s", node->number, node->forgets ? "empty" : "with its data");
}

void qs_node_stop(struct qs_node *node, bool forgets, int64_t duration_us)
{
    node->up = false;
    node->forgets = forgets;
    node->hung_us = 0;
    for (unsigned i = 0; i < qs.plan.processes; i++) {
        qs_link_reset(&qs.links[i][node->number]);
    }
    qs_event_set(&node->back, qs.now_us + duration_us, start_again);
}

void qs_node_delete(struct qs_node *node)
{
    struct pawl__op op = {.kind = PAWL__OP_BREAK, .place = &place_of_all};
    pawl__memory_apply(&node->table, &node->keeper, &op, qs_node_now(node));
    while (pawl__memory_woken(&node->table) != NULL) {
    }
}

/* Set its clock, never to where it was before: what comes and goes between two looks is not seen.
 * Nor by as much as another one's, which a newcomer cannot tell from none. Nor too far back in all,
 * for keys last longer by that. */
void qs_node_jump(struct qs_node *node)
{
    const int64_t lease_us = qs.plan.lease_ms * 1000;
    const int64_t least_us = (node->number + 1) * JUMP_US;
    const int64_t was_us = node->jump_us;
    const bool back = qs_chance(300) && node->jump_least_us > -lease_us;
    if (back) {
        node->jump_least_us -= qs_between(0, 2) * lease_us / 6 + least_us;
    } else {
        node->jump_most_us += qs_between(0, 9) * lease_us / 6 + least_us;
    }
    node->jump_us = back ? node->jump_least_us : node->jump_most_us;
    for (unsigned i = 0; i < qs.plan.processes; i++) { /* what was left there lasts longer */
        qs.processes[i].abandoned_us += pawl__max64(was_us - node->jump_us, 0);
    }
    qs_note("node %u jumps by %lld us", node->number, (long long)(node->jump_us - was_us));
}

/* ===== The way there and back ===== */

static int64_t delay(const struct qs_link *link)
{
    int64_t delay_us = link->delay_us / 2 + qs_below(link->delay_us + 1);
    if (link->slow_us > qs.now_us) {
        delay_us += qs_between(10000, 400000);
    }
    return delay_us;
}

static int64_t up_at(struct qs_link *link)
{
    link->last_up_us = pawl__max64(link->last_up_us + 1, qs.now_us + delay(link));
    return link->last_up_us;
}

static int64_t down_at(struct qs_link *link)
{
    link->last_down_us = pawl__max64(link->last_down_us + 1, qs.now_us + delay(link));
    return link->last_down_us;
}

static void come_back(struct qs_event *event)
{
    struct qs_message *message = PAWL__CONTAINER(event, struct qs_message, event);
    struct qs_link *link = message->link;
    if (link->cut_down_us > qs.now_us) {
        link->last_down_us =
            pawl__max64(link->last_down_us + 1, link->cut_down_us + qs_between(1, AGAIN_US));
        qs_event_set(event, link->last_down_us, come_back);
        return;
    }
    if (message->asked == NULL || message->generation != link->generation) {
        return; /* that connection was given up */
    }
    message->answered = true;
    pawl__list_push(&link->inbox, &message->node);
    qs_link_arrived(link);
}

static bool is_dead(const struct qs_message *message)
{
    const struct qs_link *link = message->link;
    return message->dead || !link->node->up || message->run != link->node->run ||
           message->generation < link->killed;
}

static void get_there(struct qs_event *event)
{
    struct qs_message *message = PAWL__CONTAINER(event, struct qs_message, event);
    struct qs_link *link = message->link;
    struct qs_node *node = link->node;
    if (is_dead(message)) {
        qs_note("lost: operation %d of p%u at node %u", (int)message->op.kind,
            link->process->number, node->number);
        return;
    }
    const int64_t free_us = pawl__max64(link->cut_up_us, node->hung_us);
    if (free_us > qs.now_us) {
        link->last_up_us = pawl__max64(link->last_up_us + 1, free_us + qs_between(1, AGAIN_US));
        qs_event_set(event, link->last_up_us, get_there);
        return;
    }
    message->op.fenced = qs.plan.kills;
    message->clock_us = qs_node_now(node);
    pawl__memory_apply(&node->table, &message->client, &message->op, message->clock_us);
    while (pawl__memory_woken(&node->table) != NULL) {
    }
    if (message->op.kind == PAWL__OP_ACQUIRE && message->op.answer == PAWL__DONE) {
        const int64_t way_us = qs_process_now(link->process) - message->op.sent_us;
        node->late_id = way_us >= message->op.lease_us ? message->op.id : 0;
    }
    qs_note("operation %d of p%u:%llu at node %u: %d, token %llu", (int)message->op.kind,
        link->process->number, (unsigned long long)message->op.id, node->number,
        (int)message->op.answer, (unsigned long long)message->op.token);
    qs_event_set(event, down_at(link), come_back);
}

void qs_send(struct qs_link *link, struct pawl__op *op)
{
    struct qs_message *message = calloc(1, sizeof *message);
    if (message == NULL) {
        abort();
    }
    message->all = qs.messages;
    qs.messages = message;
    message->link = link;
    message->generation = link->generation;
    message->run = link->run;
    message->op = *op;
    message->op.place = &place_of_all;
    memcpy(message->uuid, link->uuid, sizeof message->uuid);
    pawl__memory_join(&message->client, message->uuid);
    if (op->info != NULL) {
        message->info = *op->info;
        message->op.info = &message->info;
    }
    message->asked = op;
    op->engine = message;
    if (op->kind == PAWL__OP_RELEASE) {
        const bool again = link->released_id == op->id;
        link->process->repeated_us = again ? qs.now_us : link->process->repeated_us;
        link->released_id = op->id;
    }
    qs_event_set(&message->event, up_at(link), get_there);
}

/* What is under way may have got there, or not. */
void qs_link_reset(struct qs_link *link)
{
    for (const struct pawl__op *op = link->pending; op != NULL; op = op->next) {
        struct qs_message *message = op->engine;
        if (message != NULL && qs_chance(500)) {
            message->dead = true;
        }
    }
    link->broken = link->state == QS_UP;
    qs_link_arrived(link);
}

/* ===== Connecting ===== */

/* As Redis counts it, less the second that may be too much. */
static int64_t uptime_of(const struct qs_node *node)
{
    const int64_t seconds = qs_node_now(node) / 1000000 - node->started_us / 1000000;
    return pawl__max64(seconds - 1, 0) * 1000000;
}

static void introduce(struct qs_link *link)
{
    const struct qs_node *node = link->node;
    struct pawl__server_identity *identity = &link->next_identity;
    *identity =
        (struct pawl__server_identity){.uptime_us = uptime_of(node), .clock_us = qs_node_now(node)};
    snprintf(identity->run_id, sizeof identity->run_id, "%032u%08u", node->number + 1, node->run);
    link->next_run = node->run;
}

static void greet(struct qs_event *event)
{
    struct qs_link *link = PAWL__CONTAINER(event, struct qs_link, hello);
    struct qs_node *node = link->node;
    const int64_t free_us = pawl__max64(link->cut_up_us, node->hung_us);
    if (link->hello_back) {
        if (link->cut_down_us > qs.now_us) {
            qs_event_set(event, link->cut_down_us + qs_between(1, AGAIN_US), greet);
            return;
        }
        link->greeted = !link->refused;
        qs_link_arrived(link);
        return;
    }
    if (free_us > qs.now_us) {
        qs_event_set(event, free_us + qs_between(1, AGAIN_US), greet);
        return;
    }
    link->hello_back = true;
    link->refused = !node->up;
    if (node->up) {
        introduce(link);
        link->killed = qs.plan.kills ? link->generation : link->killed;
    }
    qs_event_set(event, down_at(link), greet);
}

void qs_connect(struct qs_link *link)
{
    link->generation++;
    link->hello_back = false;
    link->refused = false;
    link->greeted = false;
    qs_event_set(&link->hello, up_at(link), greet);
}

/* ===== Questions beside all that ===== */

bool qs_roundtrip(struct qs_link *link)
{
    const int64_t end_us = qs.now_us + link->host->settings.timeout_us;
    const struct qs_node *node = link->node;
    qs_sleep(2 * delay(link));
    while (
        link->cut_up_us > qs.now_us || link->cut_down_us > qs.now_us || node->hung_us > qs.now_us) {
        if (qs.now_us >= end_us) {
            return false;
        }
        qs_sleep(10000);
    }
    return node->up;
}
