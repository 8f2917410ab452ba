/* SPDX-License-Identifier: Apache-2.0 */
/* Semaphores whose permits have leases. */
#include "synchronizers/lib/cases.h"

#include <stdatomic.h>
#include <string.h>

struct lost {
    _Atomic int count;
    pawl_permit permit;
};

static void note_lost(pawl_semaphore *semaphore, pawl_status status, const pawl_permit *permits,
    size_t count, void *arg)
{
    struct lost *lost = arg;
    assert_non_null(semaphore);
    assert_int_equal(status, PAWL_LOST);
    assert_int_equal(count, 1);
    lost->permit = permits[0];
    atomic_fetch_add(&lost->count, 1);
}

static pawl_semaphore *open_leased(
    pawl_client *client, const char *name, int64_t lease_ms, bool renew, struct lost *lost)
{
    pawl_semaphore_options options = PAWL_SEMAPHORE_OPTIONS_INIT;
    pawl_semaphore *semaphore = NULL;
    options.leased = true;
    options.lease_ms = lease_ms;
    options.renew = renew;
    options.on_lost = lost != NULL ? note_lost : NULL;
    options.event_arg = lost;
    EXPECT_OK(pawl_semaphore_open(client, name, &options, &semaphore));
    return semaphore;
}

static void ids(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_leased(client, "ids", 30000, true, NULL);
    pawl_permit permits[3];
    EXPECT(PAWL_BUSY, pawl_permit_acquire(semaphore, 1, PAWL_TRY, permits));
    EXPECT_OK(pawl_semaphore_set(semaphore, 3, NULL));
    EXPECT_OK(pawl_permit_acquire(semaphore, 2, PAWL_TRY, permits));
    EXPECT(PAWL_BUSY, pawl_permit_acquire(semaphore, 2, PAWL_TRY, permits + 1));
    EXPECT_OK(pawl_permit_acquire(semaphore, 1, PAWL_TRY, permits + 2));
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(strlen(permits[i].id), 32);
        assert_int_equal(strspn(permits[i].id, "0123456789abcdef"), 32);
        assert_string_not_equal(permits[i].id, permits[(i + 1) % 3].id);
    }
    assert_int_equal(available(semaphore), 0);
    EXPECT_OK(pawl_permit_extend(semaphore, permits, 3, 60000));
    EXPECT_OK(pawl_permit_release(semaphore, permits + 1, 1));
    assert_int_equal(available(semaphore), 1);
    EXPECT(PAWL_LOST, pawl_permit_release(semaphore, permits + 1, 1));
    assert_int_equal(available(semaphore), 1);
    EXPECT(PAWL_LOST, pawl_permit_extend(semaphore, permits, 2, 1000));
    EXPECT(PAWL_LOST, pawl_permit_release(semaphore, permits, 3)); /* the two that are out */
    assert_int_equal(available(semaphore), 3);
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

static void a_lease_that_ends(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_leased(client, "ends", 150, false, NULL);
    pawl_semaphore *patient = open_leased(client, "ends", 30000, false, NULL);
    pawl_permit permits[2];
    EXPECT_OK(pawl_semaphore_set(semaphore, 1, NULL));
    const int64_t asked_ms = boottime_ms();
    EXPECT_OK(pawl_permit_acquire(semaphore, 1, PAWL_TRY, permits));
    assert_int_equal(pawl_permit_remaining_ms(semaphore, permits), 0); /* nobody renews it */
    assert_int_equal(pawl_permit_remaining_ms(NULL, permits), 0);
    const int64_t free_permits = available(semaphore);
    const int64_t began_ms = boottime_ms();
    assert_true(free_permits == 0 || began_ms - asked_ms >= 150); /* a busy machine */
    EXPECT_OK(pawl_permit_acquire(patient, 1, PAWL_FOREVER, permits + 1));
    const int64_t had_ms = boottime_ms();
    assert_true(had_ms - asked_ms >= 149);
    assert_true(had_ms - began_ms < 900); /* when it ended, not when it happened to look */
    EXPECT(PAWL_LOST, pawl_permit_release(semaphore, permits, 1));
    EXPECT_OK(pawl_permit_release(patient, permits + 1, 1));
    assert_int_equal(available(semaphore), 1);
    EXPECT_OK(pawl_semaphore_close(patient));
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

static void renewed(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    struct lost lost = {0};
    pawl_semaphore *semaphore = open_leased(client, "renewed", 1800, true, &lost);
    pawl_permit permits[3];
    EXPECT_OK(pawl_semaphore_set(semaphore, 3, NULL));
    EXPECT_OK(pawl_permit_acquire(semaphore, 2, PAWL_TRY, permits));
    assert_true(pawl_permit_remaining_ms(semaphore, permits + 1) > 0);
    EXPECT_OK(pawl_permit_acquire(semaphore, 1, PAWL_TRY, permits + 2));
    nap_ms(2700); /* longer than a lease: only renewals can have kept them */
    assert_int_equal(available(semaphore), 0);
    const int64_t left_ms = pawl_permit_remaining_ms(semaphore, permits);
    assert_true(left_ms > 0 && left_ms < 1800);
    EXPECT_OK(pawl_permit_release(semaphore, permits, 3));
    assert_int_equal(pawl_permit_remaining_ms(semaphore, permits), 0);
    assert_int_equal(available(semaphore), 3);
    assert_int_equal(atomic_load(&lost.count), 0);
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

/* Somebody else takes it away: the renewal finds out. */
static void lost_is_told(void **state)
{
    (void)state;
    pawl_client *ours = open_client();
    pawl_client *theirs = open_client();
    struct lost lost = {0};
    pawl_semaphore *mine = open_leased(ours, "told", 3000, true, &lost);
    pawl_semaphore *other = open_leased(theirs, "told", 3000, true, NULL);
    pawl_permit permits[2];
    EXPECT_OK(pawl_semaphore_set(mine, 2, NULL));
    EXPECT_OK(pawl_permit_acquire(mine, 2, PAWL_TRY, permits));
    EXPECT_OK(pawl_permit_release(other, permits, 1));
    WAIT_UNTIL(atomic_load(&lost.count) == 1, SOON_MS);
    assert_string_equal(lost.permit.id, permits[0].id);
    EXPECT(PAWL_LOST, pawl_permit_release(mine, permits, 2));
    assert_int_equal(available(mine), 2);
    assert_int_equal(atomic_load(&lost.count), 1);
    EXPECT_OK(pawl_semaphore_close(mine));
    EXPECT_OK(pawl_semaphore_close(other));
    EXPECT_OK(pawl_client_close(ours));
    EXPECT_OK(pawl_client_close(theirs));
}

static void closing_gives_back(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_client *other = open_client();
    struct lost lost = {0};
    pawl_semaphore *handle = open_leased(client, "gives-back", 30000, true, &lost);
    pawl_semaphore *second = open_leased(client, "gives-back", 30000, true, &lost);
    pawl_semaphore *looker = open_leased(other, "gives-back", 30000, true, NULL);
    pawl_permit permits[2];
    EXPECT_OK(pawl_semaphore_set(looker, 4, NULL));
    EXPECT_OK(pawl_permit_acquire(handle, 2, PAWL_TRY, permits));
    EXPECT_OK(pawl_permit_acquire(second, 2, PAWL_TRY, permits));
    assert_int_equal(available(looker), 0);
    EXPECT_OK(pawl_semaphore_close(handle));
    assert_int_equal(available(looker), 2);
    EXPECT_OK(pawl_client_close(client)); /* the other handle is still open */
    assert_int_equal(available(looker), 4);
    EXPECT_OK(pawl_semaphore_close(second));
    assert_int_equal(atomic_load(&lost.count), 0);
    EXPECT_OK(pawl_semaphore_close(looker));
    EXPECT_OK(pawl_client_close(other));
}

struct told {
    _Atomic int count;
    pawl_permit permits[2];
};

static void tell(pawl_semaphore *semaphore, pawl_status status, const pawl_permit *permits,
    size_t count, void *arg)
{
    struct told *told = arg;
    assert_non_null(semaphore);
    assert_int_equal(status, PAWL_OK);
    assert_int_equal(count, 2);
    memcpy(told->permits, permits, sizeof told->permits);
    atomic_fetch_add(&told->count, 1);
}

static void asynchronously(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    struct told told = {0};
    pawl_semaphore *semaphore = open_leased(client, "leased-async", 1800, true, NULL);
    EXPECT_OK(pawl_semaphore_set(semaphore, 1, NULL));
    EXPECT_OK(pawl_permit_acquire_async(semaphore, 2, PAWL_FOREVER, tell, &told));
    EXPECT_OK(pawl_semaphore_add(semaphore, 1));
    WAIT_UNTIL(atomic_load(&told.count) == 1, SOON_MS);
    nap_ms(2400); /* longer than a lease: these are renewed as well */
    EXPECT_OK(pawl_permit_release(semaphore, told.permits, 2));
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

static void refuses_nonsense(void **state)
{
    (void)state;
    pawl_client *client = open_client();
    pawl_semaphore *leased = open_leased(client, "leased-nonsense", 30000, true, NULL);
    pawl_semaphore *plain = open_semaphore(client, "plain-nonsense", false);
    pawl_semaphore *other = NULL;
    pawl_semaphore_options options = PAWL_SEMAPHORE_OPTIONS_INIT;
    pawl_permit permit = {"not an id"};
    EXPECT(PAWL_INVALID, pawl_semaphore_acquire(leased, 1, PAWL_TRY));
    assert_non_null(strstr(pawl_last_error(), "pawl_permit_"));
    EXPECT(PAWL_INVALID, pawl_semaphore_release(leased, 1));
    EXPECT(PAWL_INVALID, pawl_permit_acquire(plain, 1, PAWL_TRY, &permit));
    EXPECT(PAWL_INVALID, pawl_permit_release(plain, &permit, 1));
    EXPECT(PAWL_INVALID, pawl_permit_release(leased, &permit, 1));
    EXPECT(PAWL_INVALID, pawl_permit_release(leased, &permit, 0));
    EXPECT(PAWL_INVALID, pawl_permit_release(leased, NULL, 1));
    EXPECT(PAWL_INVALID, pawl_permit_acquire(leased, 0, PAWL_TRY, &permit));
    EXPECT(PAWL_INVALID, pawl_permit_acquire(leased, PAWL_PERMITS_MAX + 1, PAWL_TRY, &permit));
    EXPECT(PAWL_INVALID, pawl_permit_acquire(leased, 1, PAWL_TRY, NULL));
    memset(permit.id, 'a', 32);
    EXPECT(PAWL_INVALID, pawl_permit_extend(leased, &permit, 1, 1));
    EXPECT(PAWL_INVALID, pawl_permit_extend(leased, &permit, 1, INT64_MAX));
    EXPECT(PAWL_INVALID, pawl_permit_extend(leased, &permit, 1, INT64_MIN));
    EXPECT(PAWL_LOST, pawl_permit_release(leased, &permit, 1)); /* never given */
    EXPECT(PAWL_INVALID, pawl_semaphore_open(client, "leased-nonsense", NULL, &other));
    options.leased = true;
    options.lease_ms = 1;
    EXPECT(PAWL_INVALID, pawl_semaphore_open(client, "short", &options, &other));
    EXPECT_OK(pawl_semaphore_close(leased));
    EXPECT_OK(pawl_semaphore_close(plain));
    EXPECT_OK(pawl_client_close(client));
}

const struct CMUnitTest permit_cases[] = {
    cmocka_unit_test(ids),
    cmocka_unit_test(a_lease_that_ends),
    cmocka_unit_test(renewed),
    cmocka_unit_test(lost_is_told),
    cmocka_unit_test(closing_gives_back),
    cmocka_unit_test(asynchronously),
    cmocka_unit_test(refuses_nonsense),
};
const size_t permit_case_count = sizeof permit_cases / sizeof permit_cases[0];
