/* SPDX-License-Identifier: Apache-2.0 */
/* The sentence for each way in which a lock is lost, and for the other answers: does it name the
 * lock, say what is known, and not more?
 *
 * Method: finished requests made by hand, on a clock that stands still. */
#include "core/client.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define NOW_US INT64_C(5000000000)

static struct {
    struct pawl__name name;
    struct pawl__place place; /* behind the name, as names.c has it */
} record = {.name = {.node = {.key = "nightly"}}};
static struct pawl_lock lock = {.handle = {.name = &record.name}};

static int64_t still(void)
{
    return NOW_US;
}

static int stop_clock(void **state)
{
    (void)state;
    pawl__clock_hook = still;
    return 0;
}

static int start_clock(void **state)
{
    (void)state;
    pawl__clock_hook = NULL;
    return 0;
}

static void assert_says(const char *part)
{
    if (strstr(pawl__error_text(), part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", pawl__error_text(), part);
    }
}

static void check_loss(enum pawl__loss why, char *cause, const char *part)
{
    struct pawl__request request = {.status = PAWL_LOST,
        .error = cause,
        .lost = {why, NOW_US - 120000, NOW_US - 3120000, 3000000, 750}};
    pawl__call_explain(&lock, &request);
    assert_null(request.error);
    assert_says("lock 'nightly' was lost: ");
    assert_says(part);
    assert_says("Others may have run");
}

static void losses(void **state)
{
    (void)state;
    check_loss(PAWL__LOSS_LEASE, NULL, "fixed lease of 3000 ms ended 120 ms ago; extend it");
    check_loss(PAWL__LOSS_LIMIT, NULL, "max_hold_ms, which ended 120 ms ago");
    check_loss(PAWL__LOSS_SILENCE, NULL,
        "its lease of 3000 ms ended 120 ms ago, because no renewal was answered in time: the last "
        "one that was is 3120 ms old. ");
    check_loss(PAWL__LOSS_SILENCE, pawl__strdup("cannot connect to db7"),
        "3120 ms old (cannot connect to db7). ");
    check_loss(PAWL__LOSS_PAUSE, NULL, "this process did not run when it had to be renewed");
    check_loss(PAWL__LOSS_MEMORY, NULL, "because there was no memory to renew it");
    check_loss(PAWL__LOSS_LINE, NULL,
        "its lease of 3000 ms ended 120 ms ago, while its renewal was in line: 750 renewals "
        "of others had been sent before it and were not answered yet; its own last one is 3120 ms "
        "old. ");
    check_loss(PAWL__LOSS_LINE, pawl__strdup("cannot connect to db7"),
        "3120 ms old (cannot connect to db7). ");
    check_loss(PAWL__LOSS_RELEASE, NULL, "120 ms ago, before the release was answered");
    check_loss(PAWL__LOSS_PROOF, NULL,
        "the backend said 120 ms ago that another holds it, or nobody: it was broken, or the "
        "backend lost data or had its clock set; which, cannot be told from here");
    check_loss(PAWL__LOSS_OWNER, NULL, "the thread that held it ended 120 ms ago");
}

static void long_causes_are_cut(void **state)
{
    (void)state;
    char *cause = pawl__alloc(2000);
    memset(cause, 'x', 1999);
    check_loss(PAWL__LOSS_SILENCE, cause, "xxx). ");
}

static void answers(void **state)
{
    (void)state;
    static const struct {
        pawl_status status;
        enum pawl__request_kind kind;
        const char *sentence;
    } cases[] = {
        {PAWL_BUSY, PAWL__WANT_ACQUIRE, "lock 'nightly': it is held elsewhere"},
        {PAWL_CANCELED, PAWL__WANT_ACQUIRE, "lock 'nightly': the wait was canceled"},
        {PAWL_NOT_HELD, PAWL__WANT_RELEASE, "lock 'nightly': the caller does not hold it"},
        {PAWL_NOT_HELD, PAWL__WANT_BREAK, "lock 'nightly': nobody holds it"},
        {PAWL_UNAVAILABLE, PAWL__WANT_ACQUIRE, "lock 'nightly': no answer in time"},
        {PAWL_NO_MEMORY, PAWL__WANT_ACQUIRE, "lock 'nightly': no memory"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pawl__request request = {.status = cases[i].status, .kind = cases[i].kind};
        pawl__call_explain(&lock, &request);
        assert_string_equal(pawl__error_text(), cases[i].sentence);
    }
}

static void sentences_of_engines_stay_as_they_are(void **state)
{
    (void)state;
    struct pawl__request request = {
        .status = PAWL_REFUSED, .error = pawl__strdup("lock 'nightly': the disk is full")};
    pawl__call_explain(&lock, &request);
    assert_null(request.error);
    assert_string_equal(pawl__error_text(), "lock 'nightly': the disk is full");
    pawl__call_explain(&lock, &(struct pawl__request){.status = PAWL_OK}); /* says nothing */
    assert_string_equal(pawl__error_text(), "lock 'nightly': the disk is full");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses),
        cmocka_unit_test(long_causes_are_cut),
        cmocka_unit_test(answers),
        cmocka_unit_test(sentences_of_engines_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, stop_clock, start_clock);
}
