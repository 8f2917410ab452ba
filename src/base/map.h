/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table from byte strings to members that have the node embedded. It grows when it can; if
 * memory is short its chains just get longer, so adding never fails once the map exists. */
#ifndef PAWL_BASE_MAP_H
#define PAWL_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pawl__map_node {
    struct pawl__map_node *next;
    const char *key; /* lives as long as the member */
    uint32_t key_size;
    uint32_t hash; /* its low half */
};

struct pawl__map {
    struct pawl__map_node **buckets;
    size_t bucket_count; /* a power of two */
    size_t count;
};

bool pawl__map_init(struct pawl__map *map);
void pawl__map_free(struct pawl__map *map); /* the table, not its members */

struct pawl__map_node *pawl__map_find(
    const struct pawl__map *map, const char *key, size_t key_size);

/* The key must not be in the map yet. */
void pawl__map_add(
    struct pawl__map *map, struct pawl__map_node *node, const char *key, size_t key_size);
void pawl__map_remove(struct pawl__map *map, struct pawl__map_node *node);

/* Visit all members: begin with NULL, ends with NULL. The member visited last may be removed
 * meanwhile only after its successor was asked for. The order is that of the buckets: the same for
 * the same history. */
struct pawl__map_node *pawl__map_next(
    const struct pawl__map *map, const struct pawl__map_node *node);

#endif
