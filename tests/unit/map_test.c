/* SPDX-License-Identifier: Apache-2.0 */
/* base/map.h: the hash table from byte strings to members.
 *
 * Random additions, removals and searches run against an array of flags, with enough members to
 * grow several times; once more with an allocator that refuses to grow. Visiting must see each
 * member exactly once, also while visited members are removed. */
#include "base/alloc.h"
#include "base/list.h"
#include "base/map.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MEMBER_COUNT 400

struct member {
    struct pawl__map_node node;
    char key[16];
    size_t key_size;
    bool in;  /* whether it should be in the map */
    int seen; /* how often the current visit met it */
};

static struct member members[MEMBER_COUNT];

/* Keys of 0 to 12 bytes, NUL bytes and common beginnings among them. All differ. */
static void name_members(void)
{
    memset(members, 0, sizeof members);
    for (size_t i = 1; i < MEMBER_COUNT; i++) {
        struct member *member = &members[i];
        unsigned number = (unsigned)i;
        if (i % 3 == 0) {
            member->key[member->key_size++] = '\0';
        }
        do {
            member->key[member->key_size++] = (char)('a' + number % 2);
            number /= 2;
        } while (number > 0);
    }
}

static struct member *member_of(struct pawl__map_node *node)
{
    return PAWL__CONTAINER(node, struct member, node);
}

static size_t count_in(void)
{
    size_t count = 0;
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        count += members[i].in ? 1 : 0;
    }
    return count;
}

static void check_visit(const struct pawl__map *map)
{
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        members[i].seen = 0;
    }
    size_t count = 0;
    struct pawl__map_node *node = pawl__map_next(map, NULL);
    while (node != NULL && count <= MEMBER_COUNT) {
        member_of(node)->seen++;
        count++;
        node = pawl__map_next(map, node);
    }
    assert_int_equal(map->count, count_in());
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        assert_int_equal(members[i].seen, members[i].in ? 1 : 0);
    }
}

/* Search with a copy of the key: only its bytes may matter. */
static void check_find(const struct pawl__map *map, struct member *member)
{
    char copy[sizeof member->key];
    memcpy(copy, member->key, sizeof copy);
    assert_ptr_equal(
        pawl__map_find(map, copy, member->key_size), member->in ? &member->node : NULL);
}

static void toggle(struct pawl__map *map, struct member *member)
{
    if (member->in) {
        pawl__map_remove(map, &member->node);
    } else {
        pawl__map_add(map, &member->node, member->key, member->key_size);
    }
    member->in = !member->in;
    check_find(map, member);
}

static void random_operations_on(struct pawl__map *map, uint64_t seed)
{
    struct pawl__random random;
    pawl__random_seed(&random, seed);
    for (int step = 0; step < 20000; step++) {
        /* First most are added, then most are removed. */
        struct member *member = &members[pawl__random_below(&random, MEMBER_COUNT)];
        bool growing = step / 5000 % 2 == 0;
        if (member->in != growing || pawl__random_below(&random, 10) == 0) {
            toggle(map, member);
        }
        check_find(map, &members[pawl__random_below(&random, MEMBER_COUNT)]);
        if (step % 500 == 0) {
            check_visit(map);
        }
    }
    check_visit(map);
}

static void random_operations(void **state)
{
    (void)state;
    struct pawl__map map;
    name_members();
    assert_true(pawl__map_init(&map));
    const size_t bucket_count = map.bucket_count;
    random_operations_on(&map, 1);
    assert_true(map.bucket_count > bucket_count);
    assert_int_equal(map.bucket_count & (map.bucket_count - 1), 0);
    pawl__map_free(&map);
}

static size_t refused_count;

static bool refuse(size_t size)
{
    (void)size;
    refused_count++;
    return false;
}

static void growth_fails(void **state)
{
    (void)state;
    struct pawl__map map;
    name_members();
    pawl__alloc_hook = refuse;
    bool made = pawl__map_init(&map);
    pawl__alloc_hook = NULL;
    assert_false(made);
    pawl__map_free(&map); /* harmless after a failure */

    assert_true(pawl__map_init(&map));
    const size_t bucket_count = map.bucket_count;
    refused_count = 0;
    pawl__alloc_hook = refuse;
    random_operations_on(&map, 2);
    pawl__alloc_hook = NULL;
    assert_true(refused_count > 0);
    assert_int_equal(map.bucket_count, bucket_count);

    /* With memory again it grows, and loses nothing by it. */
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        if (!members[i].in) {
            toggle(&map, &members[i]);
        }
    }
    assert_true(map.bucket_count > bucket_count);
    check_visit(&map);
    pawl__map_free(&map);
}

/* A visited member may go once its successor is known. */
static void removed_during_visit(void **state)
{
    (void)state;
    struct pawl__map map;
    name_members();
    assert_true(pawl__map_init(&map));
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        toggle(&map, &members[i]);
    }
    size_t visited = 0;
    struct pawl__map_node *node = pawl__map_next(&map, NULL);
    while (node != NULL) {
        struct pawl__map_node *next = pawl__map_next(&map, node);
        if (visited++ % 3 != 0) {
            toggle(&map, member_of(node));
        }
        node = next;
    }
    assert_int_equal(visited, MEMBER_COUNT);
    assert_int_equal(map.count, (MEMBER_COUNT + 2) / 3);
    check_visit(&map);
    pawl__map_free(&map);
}

/* Two maps with the same history are visited in the same order, which simulations rely on. */
static void order_is_reproducible(void **state)
{
    (void)state;
    static struct member twins[MEMBER_COUNT];
    struct pawl__map first;
    struct pawl__map second;
    name_members();
    memcpy(twins, members, sizeof twins);
    assert_true(pawl__map_init(&first));
    assert_true(pawl__map_init(&second));
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        pawl__map_add(&first, &members[i].node, members[i].key, members[i].key_size);
        pawl__map_add(&second, &twins[i].node, twins[i].key, twins[i].key_size);
    }
    struct pawl__map_node *a = pawl__map_next(&first, NULL);
    struct pawl__map_node *b = pawl__map_next(&second, NULL);
    while (a != NULL && b != NULL) {
        assert_int_equal(member_of(a) - members, member_of(b) - twins);
        a = pawl__map_next(&first, a);
        b = pawl__map_next(&second, b);
    }
    assert_null(a);
    assert_null(b);
    pawl__map_free(&first);
    pawl__map_free(&second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations),
        cmocka_unit_test(growth_fails),
        cmocka_unit_test(removed_during_visit),
        cmocka_unit_test(order_is_reproducible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
