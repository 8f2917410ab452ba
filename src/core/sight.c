/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a watch; sight.h says what is in it. */
#include "core/sight.h"

#include "base/alloc.h"

#include <string.h>

struct pawl__sight *pawl__sight_new(const pawl_entry *entry)
{
    const size_t holder_size = strlen(entry->holder) + 1;
    const size_t host_size = strlen(entry->host) + 1;
    const size_t command_size = strlen(entry->command) + 1;
    struct pawl__sight *sight = pawl__alloc(sizeof *sight + holder_size + host_size + command_size);
    if (sight == NULL) {
        return NULL;
    }
    char *at = sight->text;
    sight->holder = memcpy(at, entry->holder, holder_size);
    sight->host = memcpy(at + holder_size, entry->host, host_size);
    sight->command = memcpy(at + holder_size + host_size, entry->command, command_size);
    return sight;
}

void pawl__sight_update(
    struct pawl__sight *sight, const pawl_entry *entry, uint64_t round, int64_t now_us)
{
    sight->kind = entry->kind;
    sight->hold_count = entry->hold_count;
    sight->remaining_ms = entry->remaining_ms;
    sight->since_ms = entry->since_ms;
    sight->waiters = entry->waiters;
    sight->pid = entry->pid;
    sight->token = entry->token;
    sight->permits = entry->permits;
    sight->free_permits = entry->free_permits;
    sight->seen_us = now_us;
    sight->round = round;
}

void pawl__text_copy(char *to, size_t to_size, const char *from)
{
    const size_t size = strnlen(from, to_size - 1);
    memcpy(to, from, size);
    to[size] = '\0';
}

void pawl__sight_show(const struct pawl__sight *sight, pawl_entry *entry)
{
    entry->kind = sight->kind;
    entry->held = true;
    entry->hold_count = sight->hold_count;
    entry->remaining_ms = sight->remaining_ms;
    entry->since_ms = sight->since_ms;
    entry->waiters = sight->waiters;
    entry->pid = sight->pid;
    entry->token = sight->token;
    entry->permits = sight->permits;
    entry->free_permits = sight->free_permits;
    pawl__text_copy(entry->holder, sizeof entry->holder, sight->holder);
    pawl__text_copy(entry->host, sizeof entry->host, sight->host);
    pawl__text_copy(entry->command, sizeof entry->command, sight->command);
}

struct pawl__spot *pawl__spot_find(const struct pawl__map *spots, const char *name)
{
    struct pawl__map_node *node = pawl__map_find(spots, name, strlen(name));
    return node != NULL ? pawl__spot_of(node) : NULL;
}

struct pawl__spot *pawl__spot_add(struct pawl__map *spots, const char *name)
{
    const size_t size = strlen(name);
    struct pawl__spot *spot = pawl__alloc(sizeof *spot + size + 1);
    if (spot != NULL) {
        memcpy(spot->name, name, size + 1);
        pawl__map_add(spots, &spot->node, spot->name, size);
    }
    return spot;
}

struct pawl__sight *pawl__spot_sight(const struct pawl__spot *spot, const char *holder)
{
    struct pawl__sight *sight = spot->sights;
    while (sight != NULL && strcmp(sight->holder, holder) != 0) {
        sight = sight->next;
    }
    return sight;
}

void pawl__spot_drop(struct pawl__map *spots, struct pawl__spot *spot)
{
    pawl__map_remove(spots, &spot->node);
    while (spot->sights != NULL) {
        struct pawl__sight *sight = spot->sights;
        spot->sights = sight->next;
        pawl__free(sight);
    }
    pawl__free(spot);
}
