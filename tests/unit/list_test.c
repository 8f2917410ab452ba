/* SPDX-License-Identifier: Apache-2.0 */
/* base/list.h: the list threaded through its members.
 *
 * Each operation is looked at alone, then thousands of random operations on two lists are compared
 * with plain arrays that do the same, forwards and backwards. */
#include "base/list.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MEMBER_COUNT 24

struct member {
    int before;
    struct pawl__list node;
    int after;
};

static void container_of_a_node(void **state)
{
    (void)state;
    struct member member = {.before = 1, .after = 2};
    struct member *found = PAWL__CONTAINER(&member.node, struct member, node);
    assert_ptr_equal(found, &member);
}

static void empty_list(void **state)
{
    (void)state;
    struct pawl__list list;
    struct pawl__list other;
    pawl__list_init(&list);
    pawl__list_init(&other);
    assert_true(pawl__list_empty(&list));
    assert_null(pawl__list_pop(&list));
    pawl__list_remove(&list); /* of a node in no list: nothing */
    assert_true(pawl__list_empty(&list));
    pawl__list_splice(&list, &other);
    assert_true(pawl__list_empty(&list));
    assert_true(pawl__list_empty(&other));
}

static void order_of_insertion(void **state)
{
    (void)state;
    struct pawl__list list;
    struct member members[4];
    pawl__list_init(&list);
    pawl__list_push(&list, &members[1].node);
    pawl__list_push(&list, &members[3].node);
    pawl__list_push_front(&list, &members[0].node);
    pawl__list_insert(&members[3].node, &members[2].node);
    assert_false(pawl__list_empty(&list));
    for (int i = 0; i < 4; i++) {
        assert_ptr_equal(pawl__list_pop(&list), &members[i].node);
        assert_true(pawl__list_empty(&members[i].node));
    }
    assert_null(pawl__list_pop(&list));
}

static void removed_twice(void **state)
{
    (void)state;
    struct pawl__list list;
    struct member members[3];
    pawl__list_init(&list);
    for (int i = 0; i < 3; i++) {
        pawl__list_push(&list, &members[i].node);
    }
    pawl__list_remove(&members[1].node);
    pawl__list_remove(&members[1].node);
    assert_ptr_equal(list.next, &members[0].node);
    assert_ptr_equal(members[0].node.next, &members[2].node);
    assert_ptr_equal(members[2].node.prev, &members[0].node);
    assert_ptr_equal(list.prev, &members[2].node);
}

/* ===== Against arrays ===== */

struct row {
    struct pawl__list list;
    struct pawl__list *nodes[MEMBER_COUNT]; /* what the list should be */
    size_t count;
};

static void row_insert(struct row *row, size_t index, struct pawl__list *node)
{
    memmove(
        &row->nodes[index + 1], &row->nodes[index], (row->count - index) * sizeof row->nodes[0]);
    row->nodes[index] = node;
    row->count++;
}

static bool row_remove(struct row *row, const struct pawl__list *node)
{
    for (size_t i = 0; i < row->count; i++) {
        if (row->nodes[i] == node) {
            row->count--;
            memmove(&row->nodes[i], &row->nodes[i + 1], (row->count - i) * sizeof row->nodes[0]);
            return true;
        }
    }
    return false;
}

static void row_check(const struct row *row)
{
    assert_int_equal(pawl__list_empty(&row->list), row->count == 0);
    const struct pawl__list *forwards = row->list.next;
    const struct pawl__list *backwards = row->list.prev;
    for (size_t i = 0; i < row->count; i++) {
        assert_ptr_equal(forwards, row->nodes[i]);
        assert_ptr_equal(backwards, row->nodes[row->count - 1 - i]);
        forwards = forwards->next;
        backwards = backwards->prev;
    }
    assert_ptr_equal(forwards, &row->list);
    assert_ptr_equal(backwards, &row->list);
}

/* Put a member that is in no list somewhere into the row. */
static void put_somewhere(struct pawl__random *random, struct row *row, struct pawl__list *node)
{
    switch (pawl__random_below(random, 3)) {
    case 0:
        pawl__list_push(&row->list, node);
        row_insert(row, row->count, node);
        break;
    case 1:
        pawl__list_push_front(&row->list, node);
        row_insert(row, 0, node);
        break;
    default: {
        size_t index = pawl__random_below(random, row->count + 1);
        pawl__list_insert(index < row->count ? row->nodes[index] : &row->list, node);
        row_insert(row, index, node);
    }
    }
}

static void splice_rows(struct row *to, struct row *from)
{
    pawl__list_splice(&to->list, &from->list);
    memcpy(&to->nodes[to->count], from->nodes, from->count * sizeof from->nodes[0]);
    to->count += from->count;
    from->count = 0;
}

static void random_operations(void **state)
{
    (void)state;
    struct pawl__random random;
    struct member members[MEMBER_COUNT];
    struct row rows[2] = {0};
    pawl__random_seed(&random, 7);
    pawl__list_init(&rows[0].list);
    pawl__list_init(&rows[1].list);
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        pawl__list_init(&members[i].node);
    }
    for (int step = 0; step < 20000; step++) {
        struct row *row = &rows[pawl__random_below(&random, 2)];
        struct pawl__list *node = &members[pawl__random_below(&random, MEMBER_COUNT)].node;
        uint64_t dice = pawl__random_below(&random, 100);
        if (dice < 2) {
            splice_rows(row, row == &rows[0] ? &rows[1] : &rows[0]);
        } else if (dice < 10) {
            struct pawl__list *first = row->count > 0 ? row->nodes[0] : NULL;
            assert_ptr_equal(pawl__list_pop(&row->list), first);
            row_remove(row, first);
        } else {
            bool listed = row_remove(&rows[0], node) || row_remove(&rows[1], node);
            assert_int_equal(listed, !pawl__list_empty(node));
            pawl__list_remove(node);
            if (!listed || dice < 50) {
                put_somewhere(&random, row, node);
            }
        }
        row_check(&rows[0]);
        row_check(&rows[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(container_of_a_node),
        cmocka_unit_test(empty_list),
        cmocka_unit_test(order_of_insertion),
        cmocka_unit_test(removed_twice),
        cmocka_unit_test(random_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
