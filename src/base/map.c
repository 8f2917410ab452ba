/* SPDX-License-Identifier: Apache-2.0 */
/* Separate chaining with intrusive nodes; the number of buckets doubles when there are as many
 * members. */
#include "base/map.h"

#include "base/alloc.h"

#include <string.h>

#define BUCKETS_AT_FIRST 16

/* FNV-1a: the keys are lock names chosen by the program itself, not by an adversary. The low half
 * is kept. */
static uint32_t hash_of(const char *key, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ (unsigned char)key[i]) * 0x100000001b3u;
    }
    return (uint32_t)hash;
}

static struct pawl__map_node **bucket_of(const struct pawl__map *map, uint32_t hash)
{
    return &map->buckets[hash & (map->bucket_count - 1)];
}

bool pawl__map_init(struct pawl__map *map)
{
    map->count = 0;
    map->bucket_count = BUCKETS_AT_FIRST;
    map->buckets = pawl__alloc(BUCKETS_AT_FIRST * sizeof(struct pawl__map_node *));
    return map->buckets != NULL;
}

void pawl__map_free(struct pawl__map *map)
{
    pawl__free(map->buckets);
    map->buckets = NULL;
}

struct pawl__map_node *pawl__map_find(const struct pawl__map *map, const char *key, size_t key_size)
{
    uint32_t hash = hash_of(key, key_size);
    struct pawl__map_node *node = *bucket_of(map, hash);
    while (node != NULL) {
        if (node->hash == hash && node->key_size == key_size &&
            memcmp(node->key, key, key_size) == 0) {
            return node;
        }
        node = node->next;
    }
    return NULL;
}

static void grow(struct pawl__map *map)
{
    struct pawl__map bigger = {NULL, map->bucket_count * 2, map->count};
    bigger.buckets = pawl__alloc(bigger.bucket_count * sizeof(struct pawl__map_node *));
    if (bigger.buckets == NULL) {
        return;
    }
    for (size_t i = 0; i < map->bucket_count; i++) {
        struct pawl__map_node *node = map->buckets[i];
        while (node != NULL) {
            struct pawl__map_node *next = node->next;
            struct pawl__map_node **bucket = bucket_of(&bigger, node->hash);
            node->next = *bucket;
            *bucket = node;
            node = next;
        }
    }
    pawl__free(map->buckets);
    *map = bigger;
}

void pawl__map_add(
    struct pawl__map *map, struct pawl__map_node *node, const char *key, size_t key_size)
{
    if (map->count >= map->bucket_count) {
        grow(map);
    }
    node->key = key;
    node->key_size = (uint32_t)key_size;
    node->hash = hash_of(key, key_size);
    struct pawl__map_node **bucket = bucket_of(map, node->hash);
    node->next = *bucket;
    *bucket = node;
    map->count++;
}

void pawl__map_remove(struct pawl__map *map, struct pawl__map_node *node)
{
    struct pawl__map_node **link = bucket_of(map, node->hash);
    while (*link != node) {
        link = &(*link)->next;
    }
    *link = node->next;
    map->count--;
}

struct pawl__map_node *pawl__map_next(
    const struct pawl__map *map, const struct pawl__map_node *node)
{
    if (node != NULL && node->next != NULL) {
        return node->next;
    }
    size_t i = node == NULL ? 0 : (node->hash & (map->bucket_count - 1)) + 1;
    while (i < map->bucket_count && map->buckets[i] == NULL) {
        i++;
    }
    return i < map->bucket_count ? map->buckets[i] : NULL;
}
