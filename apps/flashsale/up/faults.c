/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The faults: a table of names and functions. Each says in its answer what it did.
 */
#include "up/faults.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shop/shop.h"
#include "up/house.h"
#include "up/patience.h"

#define STALE_MS 3000 /* for the leases on a replica that was cut off to run out */
#define HELD_MS 1000  /* for somebody to take the lock */

/* The stock server crashes and comes back with all it had. Clients see cut connections, then
 * refused ones, then (for a moment) a server that is loading. */
static void restart_stock(struct house *house, char *answer)
{
    int64_t begin_ms = now_ms();
    process_kill(&house->stock.process);
    if (!server_start(&house->stock)) {
        snprintf(answer, ANSWER_SIZE, "error the stock server does not come back");
        return;
    }
    snprintf(answer, ANSWER_SIZE,
        "ok the stock server was killed and is back after %" PRId64 " ms, with all it had",
        now_ms() - begin_ms);
}

static void take_lock_server_down(struct house *house, char *answer)
{
    if (house->settings.quorum == 0) {
        snprintf(answer, ANSWER_SIZE, "error there is no quorum; start with --quorum 3");
        return;
    }
    if (house->quorum_down >= 0) {
        snprintf(answer, ANSWER_SIZE, "error lock master %d is down already; say lock-server-up",
            house->quorum_down + 1);
        return;
    }
    house->quorum_down = 0;
    process_kill(&house->quorum[0].process);
    snprintf(
        answer, ANSWER_SIZE, "ok lock master 1 of %" PRId64 " was killed", house->settings.quorum);
}

static void bring_lock_server_up(struct house *house, char *answer)
{
    if (house->quorum_down < 0) {
        snprintf(answer, ANSWER_SIZE, "error all lock masters run; say lock-server-down first");
        return;
    }
    struct server *server = &house->quorum[house->quorum_down];
    if (!server_start(server)) {
        snprintf(
            answer, ANSWER_SIZE, "error lock master %d does not come back", house->quorum_down + 1);
        return;
    }
    snprintf(
        answer, ANSWER_SIZE, "ok lock master %d is back, with all it had", house->quorum_down + 1);
    house->quorum_down = -1;
}

/* ===== Failover ===== */

static bool has_lock(const struct server *server)
{
    redisReply *reply = server_ask(server, "EXISTS %s", SHOP_LOCK_NAME);
    bool has = reply && reply->type == REDIS_REPLY_INTEGER && reply->integer > 0;
    freeReplyObject(reply);
    return has;
}

static bool has_lock_arg(void *server)
{
    return has_lock(server);
}

static bool has_no_lock_arg(void *server)
{
    return !has_lock(server);
}

/* The master dies with a lock that its replica has never heard of.
 *
 * The replica is cut off first. What it knows of the lock at that moment is somebody's who has long
 * released it when the master dies, so this lease has to run out (or, if it is a long one, is
 * deleted: a replica that was cut off a moment earlier or later would not have it). Then, as soon
 * as somebody holds the lock at the master, that is killed and the clients find the replica in its
 * place, where the lock is free. */
static void fail_over(struct house *house, char *answer)
{
    if (!house->forwarder) {
        snprintf(answer, ANSWER_SIZE, "error there is no replica; start with --replica");
        return;
    }
    struct server *old = &house->pair[house->master];
    struct server *new = &house->pair[!house->master];
    if (!server_tell(new, "REPLICAOF NO ONE")) {
        snprintf(answer, ANSWER_SIZE, "error the replica does not answer");
        return;
    }
    if (!wait_for(has_no_lock_arg, new, STALE_MS)) {
        freeReplyObject(server_ask(new, "DEL %s", SHOP_LOCK_NAME));
    }
    bool held = wait_for(has_lock_arg, old, HELD_MS);
    process_kill(&old->process);
    forwarder_switch(house->forwarder, new->port);
    house->master = !house->master;
    snprintf(answer, ANSWER_SIZE,
        "ok the lock server died %s, its replica, which did not know, has taken its place",
        held ? "while the lock was held" : "when nobody held the lock");

    /* For the next time. */
    if (!server_start(old) || !server_follow(old, new)) {
        snprintf(
            answer, ANSWER_SIZE, "error the replica has taken over, but has no replica itself");
    }
}

/* ===== Names ===== */

static void tell_status(struct house *house, char *answer)
{
    int64_t deaths = 0;
    for (int i = 0; i < house->settings.instances; i++) {
        deaths += house->shops[i].process.death_count;
    }
    snprintf(answer, ANSWER_SIZE, "ok instances=%" PRId64 " deaths=%" PRId64,
        house->settings.instances, deaths);
}

static const struct {
    const char *name;
    void (*strike)(struct house *house, char *answer);
} faults[] = {
    {"redis-restart", restart_stock},
    {"lock-server-down", take_lock_server_down},
    {"lock-server-up", bring_lock_server_up},
    {"failover", fail_over},
    {"status", tell_status},
};

void fault_strike(struct house *house, const char *name, char answer_out[ANSWER_SIZE])
{
    snprintf(answer_out, ANSWER_SIZE,
        "error no fault '%.40s'; there are redis-restart, lock-server-down, lock-server-up and"
        " failover",
        name);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        if (strcmp(faults[i].name, name) == 0) {
            faults[i].strike(house, answer_out);
        }
    }
    if (!house->settings.edge) {
        return;
    }
    nginx_listen(&house->nginx);
    size_t length = strlen(answer_out);
    if (house->nginx.shortages > 0) {
        snprintf(answer_out + length, ANSWER_SIZE - length,
            " (nginx had not connections enough, %" PRId64 " times)", house->nginx.shortages);
    }
}
