/* SPDX-License-Identifier: Apache-2.0 */
/* Acquires that are one to the engine (op->joint), in runs from seed SIM_JOINT_SEEDS on: all of
 * them are granted or none is.
 *
 * Each is a call of its own, with its own deadline, but they share their way. The first leads: what
 * happens to it, its followers share, and they arrive right behind it. When it arrives, it is
 * decided for all: if one cannot be granted, that one is applied and says so, and the others are
 * spared. Their replies come together, or none does. */
#include "picture.h"

static void follow(struct sim_call *leader, struct sim_call *call)
{
    struct sim_world *world = leader->client->world;
    call->handed = leader->handed;
    if (leader->refused) {
        call->refused = true;
        call->unfit = leader->unfit;
        call->copy.again = leader->copy.again;
        call->claim->excused = call->claim->excused || !call->copy.again;
        sim_call_refer(
            call, sim_event_at(world, leader->way_us, SIM_EVENT_REFUSAL, leader->client));
    } else if (leader->sent) {
        call->sent = true;
        call->connection = leader->connection;
        call->dropped = leader->dropped;
        if (!call->dropped) {
            sim_call_refer(
                call, sim_event_at(world, leader->way_us, SIM_EVENT_REQUEST, leader->client));
        }
    }
}

/* It was submitted right behind this one. */
void sim_joint_submit(struct sim_call *before, struct sim_call *call)
{
    call->leader = before->leader != NULL ? before->leader : before;
    before->follower = call;
    follow(call->leader, call);
}

/* The leader has gone on its way, or was refused. */
void sim_joint_sent(struct sim_call *leader)
{
    for (struct sim_call *call = leader->follower; call != NULL; call = call->follower) {
        follow(leader, call);
    }
}

/* Whether somebody who may live stands in the queue, before whom nobody of a set ever does. */
static bool is_awaited(const struct sim_picture *picture, int64_t now_us)
{
    bool any = false;
    for (unsigned i = 0; i < picture->line; i++) {
        any = any || picture->waiters[i].dead_us > now_us;
    }
    return any;
}

/* Whether somebody else holds it, other than as a reader beside a reader, or is to have it first.
 */
static bool is_busy(struct sim_world *world, const struct sim_call *call)
{
    static struct sim_picture picture;
    const int64_t now_us = sim_backend_now(world);
    sim_picture_look(world, call->name, now_us, &picture);
    const bool both_read = call->copy.as == PAWL_READ && picture.holds[0].reads;
    if (call->copy.queue) {
        sim_fail(world, "M2", "client %u: name %u of several is waited for in its queue",
            call->client->index, call->name);
    }
    return (picture.held > 0 || is_awaited(&picture, now_us)) && !both_read &&
           sim_picture_find(&picture, sim_peer(call->uuid), call->copy.id) == NULL;
}

void sim_joint_decide(struct sim_world *world, struct sim_call *leader)
{
    const struct sim_call *busy = NULL;
    for (struct sim_call *call = leader; call != NULL && busy == NULL; call = call->follower) {
        busy = is_busy(world, call) ? call : NULL;
    }
    for (struct sim_call *call = leader; call != NULL; call = call->follower) {
        call->spared = busy != NULL && call != busy;
        call->reply_us = 0;
    }
}

/* When all replies come. */
void sim_joint_reply(struct sim_call *leader, int64_t at_us)
{
    for (struct sim_call *call = leader; call != NULL; call = call->follower) {
        call->reply_us = at_us;
    }
}
