/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at one name in the table, and compares. */
#include "picture.h"

#include "base/clock.h"

#include <string.h>

static uint64_t digit(char c)
{
    return (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* What sim_client_start() has put there: the client's number, and which of its lives it is. */
uint64_t sim_peer(const char *uuid)
{
    uint64_t life = 0;
    for (int i = PAWL__UUID_SIZE - 5; i < PAWL__UUID_SIZE; i++) {
        life = life << 4 | digit(uuid[i]);
    }
    return digit(uuid[7]) << 32 | life;
}

const struct pawl__memory_entry *sim_entry(const struct sim_world *world, unsigned name)
{
    const struct pawl__place *place = &world->places[name];
    return pawl__memory_look(&world->table, place->name, place->name_size);
}

static void look_at_shares(
    struct sim_picture *picture, const struct pawl__memory_entry *entry, int64_t now_us)
{
    const struct pawl__list *shares = &entry->shares;
    for (struct pawl__list *node = shares->next; node != shares; node = node->next) {
        const struct pawl__memory_share *share = pawl__memory_share_of(node);
        if (picture->held == SIM_HOLDS_MOST - 1) {
            picture->full = true;
        } else if (now_us < share->expires_us) {
            picture->holds[picture->held++] = (struct sim_hold){.peer = sim_peer(share->uuid),
                .id = share->id,
                .token = share->token,
                .expires_us = share->expires_us,
                .count = share->count,
                .reads = !share->writes};
        }
    }
}

static void look_at_queue(struct sim_picture *picture, const struct pawl__memory_entry *entry)
{
    const struct pawl__list *queue = &entry->queue;
    for (struct pawl__list *node = queue->next; node != queue; node = node->next) {
        const struct pawl__memory_waiter *waiter =
            PAWL__CONTAINER(node, struct pawl__memory_waiter, node);
        if (picture->line == SIM_LINE_MOST - 1) {
            picture->full = true;
        } else {
            picture->waiters[picture->line++] =
                (struct sim_waiter){sim_peer(waiter->uuid), waiter->id, waiter->dead_us};
        }
    }
}

void sim_picture_look(
    const struct sim_world *world, unsigned name, int64_t now_us, struct sim_picture *picture)
{
    const struct pawl__memory_entry *entry = sim_entry(world, name);
    picture->held = 0;
    picture->line = 0;
    picture->full = false;
    picture->token = entry != NULL ? entry->token : 0;
    picture->more = entry != NULL ? entry->token_more : 0;
    if (entry == NULL) {
        return;
    }
    if (!pawl__list_empty(&entry->shares)) {
        look_at_shares(picture, entry, now_us);
    } else if (entry->held && now_us < entry->expires_us) {
        picture->held = 1;
        picture->holds[0] = (struct sim_hold){.peer = sim_peer(entry->uuid),
            .id = entry->id,
            .token = entry->token,
            .expires_us = entry->expires_us,
            .count = entry->count};
    }
    look_at_queue(picture, entry);
}

void sim_picture_copy(struct sim_picture *to, const struct sim_picture *from)
{
    to->token = from->token;
    to->more = from->more;
    to->held = from->held;
    to->line = from->line;
    memcpy(to->holds, from->holds, from->held * sizeof from->holds[0]);
    memcpy(to->waiters, from->waiters, from->line * sizeof from->waiters[0]);
}

struct sim_hold *sim_picture_find(struct sim_picture *picture, uint64_t peer, uint64_t id)
{
    for (unsigned i = 0; i < picture->held; i++) {
        if (picture->holds[i].id == id && picture->holds[i].peer == peer) {
            return &picture->holds[i];
        }
    }
    return NULL;
}

bool sim_picture_same_holds(const struct sim_picture *a, const struct sim_picture *b)
{
    bool same = a->held == b->held;
    for (unsigned i = 0; same && i < a->held; i++) {
        const struct sim_hold *one = &a->holds[i];
        const struct sim_hold *two = &b->holds[i];
        same = one->peer == two->peer && one->id == two->id && one->token == two->token &&
               one->expires_us == two->expires_us && one->count == two->count &&
               one->reads == two->reads;
    }
    return same;
}

bool sim_picture_same_line(const struct sim_picture *a, const struct sim_picture *b)
{
    bool same = a->line == b->line;
    for (unsigned i = 0; same && i < a->line; i++) {
        same = a->waiters[i].peer == b->waiters[i].peer && a->waiters[i].id == b->waiters[i].id &&
               a->waiters[i].dead_us == b->waiters[i].dead_us;
    }
    return same;
}

int64_t sim_picture_end(const struct sim_picture *picture)
{
    int64_t end_us = 0;
    for (unsigned i = 0; i < picture->held; i++) {
        end_us = pawl__max64(end_us, picture->holds[i].expires_us);
    }
    return end_us;
}
