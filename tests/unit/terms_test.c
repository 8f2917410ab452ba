/* SPDX-License-Identifier: Apache-2.0 */
/* Do locks that chose the same share it, and others not; does each part live as long as somebody
 * needs it; and is a lock at rest small?
 *
 * Method: a client that was never opened, of which only the terms are used; and locks in memory. */
#include "core/client.h"

#include "base/alloc.h"
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MANY 100

static struct pawl_client client;

static int begin(void **state)
{
    (void)state;
    pawl__list_init(&client.terms);
    return 0;
}

static int end(void **state)
{
    (void)state;
    pawl__terms_forget(&client);
    return 0;
}

static struct pawl__terms *share(int64_t lease_us)
{
    const struct pawl__terms chosen = {.lease_us = lease_us};
    struct pawl__terms *terms = pawl__terms_share(&client, &chosen);
    assert_non_null(terms);
    assert_int_equal(terms->lease_us, lease_us);
    return terms;
}

static unsigned count_known(void)
{
    unsigned count = 0;
    for (struct pawl__list *node = client.terms.next; node != &client.terms; node = node->next) {
        count++;
    }
    return count;
}

static void ignore(const pawl_event *event, void *arg)
{
    (void)event;
    (void)arg;
}

/* Each field counts. */
static void others_have_their_own(void **state)
{
    (void)state;
    const struct pawl__terms chosen[] = {{.kind = PAWL_MUTEX}, {.kind = PAWL_FAIR}, {.handoff = 1},
        {.reentry = true}, {.renew = true}, {.unawaited = true}, {.lease_us = 1},
        {.max_hold_us = 1}, {.warn_us = 1}, {.on_risk = ignore}, {.on_lost = ignore}};
    enum { COUNT = sizeof chosen / sizeof chosen[0] };
    struct pawl__terms *terms[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        terms[i] = pawl__terms_share(&client, &chosen[i]);
        assert_int_equal(count_known(), i + 1);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        assert_ptr_equal(pawl__terms_share(&client, &chosen[i]), terms[i]);
        pawl__terms_leave(terms[i]);
        pawl__terms_leave(terms[i]);
    }
}

/* What nobody has any more is forgotten when others are looked for; what is asked for often is
 * found whatever else is there. However many are in use, a client knows a few only: the others end
 * with their locks. */
static void a_few_are_known(void **state)
{
    (void)state;
    struct pawl__terms *often = share(0);
    struct pawl__terms *terms[MANY];
    for (int i = 0; i < MANY; i++) {
        pawl__terms_leave(share(1000 + i));
        assert_true(count_known() <= 3);
    }
    for (int i = 0; i < MANY; i++) {
        terms[i] = share(1000 + i);
        assert_ptr_equal(share(0), often);
        pawl__terms_leave(often);
    }
    assert_int_equal(count_known(), 16);
    for (int i = 0; i < MANY; i++) {
        pawl__terms_leave(terms[i]);
    }
    pawl__terms_leave(often);
}

static void they_may_outlive_the_client(void **state)
{
    (void)state;
    struct pawl__terms *terms = share(7);
    pawl__terms_forget(&client);
    assert_int_equal(count_known(), 0);
    assert_int_equal(terms->lease_us, 7);
    pawl__terms_leave(terms);
}

/* 72 bytes, and 8 of malloc's: the lock of one who has 100,000 of them. */
static void a_lock_is_small(void **state)
{
    (void)state;
    assert_true(sizeof(struct pawl_lock) <= 72);
}

/* Sentences name a lock whose client is closed, and the name with it. */
static void a_name_outlives_the_client(void **state)
{
    (void)state;
    pawl_client *opened = NULL;
    pawl_lock *lock = NULL;
    assert_int_equal(pawl_client_open("memory:terms", NULL, &opened), PAWL_OK);
    assert_int_equal(pawl_lock_open(opened, "nightly", NULL, &lock), PAWL_OK);
    assert_int_equal(pawl_client_close(opened), PAWL_OK);
    struct pawl__request request = {.status = PAWL_BUSY, .handle = &lock->handle};
    pawl__call_explain(lock, &request);
    assert_string_equal(pawl__error_text(), "lock 'nightly': it is held elsewhere");
    assert_int_equal(pawl_lock_close(lock), PAWL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(others_have_their_own, begin, end),
        cmocka_unit_test_setup_teardown(a_few_are_known, begin, end),
        cmocka_unit_test_setup_teardown(they_may_outlive_the_client, begin, end),
        cmocka_unit_test(a_lock_is_small),
        cmocka_unit_test(a_name_outlives_the_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
