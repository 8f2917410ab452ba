/* SPDX-License-Identifier: Apache-2.0 */
/* Options, URLs and pointers: what is accepted, and what is refused with which status. */
#include "conformance/lib/tools.h"

#include "base/limits.h"
#include "support/text.h"

#include <stdlib.h>
#include <string.h>

/* Opening with these options answers this status, and gives a lock only if it is PAWL_OK. */
static void check_open(pawl_client *client, const struct suite *suite,
    const pawl_lock_options *options, pawl_status expected)
{
    pawl_lock *lock = NULL;
    const pawl_status status = pawl_lock_open(client, suite->name, options, &lock);
    EXPECT(expected, status);
    if (status == PAWL_OK) {
        assert_non_null(lock);
        EXPECT(PAWL_OK, pawl_lock_close(lock));
    } else {
        assert_null(lock);
        assert_true(strlen(pawl_last_error()) > 0);
    }
}

struct number_case {
    int64_t value;
    pawl_status expected;
};

static void leases(const struct suite *suite)
{
    static const struct number_case numbers[] = {{10, PAWL_OK}, {9, PAWL_INVALID},
        {0, PAWL_INVALID}, {-1, PAWL_INVALID}, {INT64_MIN, PAWL_INVALID}, {INT64_MAX, PAWL_INVALID},
        {INT64_MAX / 1000, PAWL_INVALID}, {INT64_C(86400000), PAWL_OK}};
    pawl_client *client = open_client(suite);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        pawl_lock_options options = renewed_options(numbers[i].value);
        check_open(client, suite, &options, numbers[i].expected);
        options.renew = false;
        check_open(client, suite, &options, numbers[i].expected);
    }
}

static void longest_holds(const struct suite *suite)
{
    static const struct number_case numbers[] = {{0, PAWL_OK}, {10, PAWL_OK}, {9, PAWL_INVALID},
        {-1, PAWL_INVALID}, {INT64_MIN, PAWL_INVALID}, {INT64_MAX, PAWL_INVALID},
        {INT64_MAX / 1000, PAWL_INVALID}, {INT64_C(86400000), PAWL_OK}};
    pawl_client *client = open_client(suite);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        pawl_lock_options options = thread_options();
        options.max_hold_ms = numbers[i].value;
        check_open(client, suite, &options, numbers[i].expected);
    }
}

static void warnings(const struct suite *suite)
{
    static const struct number_case numbers[] = {{0, PAWL_OK}, {1, PAWL_OK}, {1000, PAWL_OK},
        {1001, PAWL_INVALID}, {-1, PAWL_INVALID}, {INT64_MAX, PAWL_INVALID},
        {INT64_MIN, PAWL_INVALID}};
    pawl_client *client = open_client(suite);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        pawl_lock_options options = renewed_options(1000);
        options.warn_ms = numbers[i].value;
        check_open(client, suite, &options, numbers[i].expected);
    }
}

/* The longest lease that is accepted does not overflow on its way to the backend. */
static void a_very_long_lease(const struct suite *suite)
{
    const int64_t lease_ms = INT64_C(3650) * 86400000;
    const pawl_lock_options options = fixed_options(lease_ms);
    pawl_lock *lock = open_lock(open_client(suite), suite->name, &options);
    EXPECT(PAWL_OK, pawl_lock_acquire(lock, PAWL_TRY));
    assert_true(pawl_lock_remaining_ms(lock) > lease_ms / 100 * 98);
    assert_true(pawl_lock_remaining_ms(lock) <= lease_ms);
    EXPECT(PAWL_OK, pawl_lock_extend(lock, lease_ms));
    expect_busy(suite, suite->name);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
    expect_free(suite, suite->name);
}

static void constants(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    static const int wrong[] = {-1, 99, 1 << 30};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        pawl_lock_options options = thread_options();
        options.kind = (pawl_kind)wrong[i];
        check_open(client, suite, &options, PAWL_INVALID);
        options = thread_options();
        options.owner = (pawl_owner)wrong[i];
        check_open(client, suite, &options, PAWL_INVALID);
        options = thread_options();
        options.reentry = (pawl_reentry)wrong[i];
        check_open(client, suite, &options, PAWL_INVALID);
    }
}

static void owners(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *thread = open_thread_lock(client, suite->name);
    pawl_lock *handle = open_handle_lock(client, suite->name);
    pawl_lock *foreign = open_handle_lock(open_client(suite), suite->name);
    pawl_lock_options options = handle_options();
    options.same_owner_as = handle;
    check_open(client, suite, &options, PAWL_OK);
    options.same_owner_as = thread; /* has no owner of its own */
    check_open(client, suite, &options, PAWL_INVALID);
    options.same_owner_as = foreign; /* lives in another client */
    check_open(client, suite, &options, PAWL_INVALID);
    options = thread_options();
    options.same_owner_as = handle; /* threads are owners */
    check_open(client, suite, &options, PAWL_INVALID);
}

/* ===== Sizes ===== */

/* Options of a later version of the library. */
struct later_options {
    pawl_lock_options known;
    char news[32];
};

static void sizes_of_lock_options(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock_options options = thread_options();
    options.size = 0;
    check_open(client, suite, &options, PAWL_INVALID);
    options.size = sizeof(size_t) - 1;
    check_open(client, suite, &options, PAWL_INVALID);
    struct later_options later = {.known = PAWL_LOCK_OPTIONS_INIT};
    later.known.size = sizeof later;
    check_open(client, suite, &later.known, PAWL_OK);
    later.news[sizeof later.news - 1] = 1;
    check_open(client, suite, &later.known, PAWL_INVALID);
    later.known.size = sizeof later.known;
    check_open(client, suite, &later.known, PAWL_OK);
}

/* What lies behind `size` is not looked at: the defaults hold. */
static void smaller_options_mean_defaults(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock_options options;
    memset(&options, 0xff, sizeof options);
    options.size = sizeof(size_t);
    check_open(client, suite, &options, PAWL_OK);
    options.kind = PAWL_MUTEX;
    options.owner = PAWL_OWNER_HANDLE;
    options.size = offsetof(pawl_lock_options, reentry);
    pawl_lock *lock = open_lock(client, suite->name, &options);
    struct recorder *recorder = recorder_new();
    EXPECT(PAWL_OK, pawl_lock_acquire_async(lock, PAWL_TRY, record_done, recorder));
    recorder_await(recorder, 1);
    EXPECT(PAWL_DEADLOCK, pawl_lock_acquire(lock, PAWL_TRY));
    assert_true(pawl_lock_remaining_ms(lock) > 20000);
    EXPECT(PAWL_OK, pawl_lock_release(lock));
}

static void check_client(
    const struct suite *suite, const pawl_client_options *options, pawl_status expected)
{
    pawl_client *client = NULL;
    const pawl_status status = pawl_client_open(suite->url, options, &client);
    EXPECT(expected, status);
    assert_true((client != NULL) == (status == PAWL_OK));
    EXPECT(PAWL_OK, pawl_client_close(client));
}

static void client_options(const struct suite *suite)
{
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    check_client(suite, NULL, PAWL_OK);
    check_client(suite, &options, PAWL_OK);
    options.size = 0;
    check_client(suite, &options, PAWL_INVALID);
    options = (pawl_client_options)PAWL_CLIENT_OPTIONS_INIT;
    options.timeout_ms = -1;
    check_client(suite, &options, PAWL_INVALID);
    options.timeout_ms = INT64_MAX;
    check_client(suite, &options, PAWL_INVALID);
    options.timeout_ms = 5000;
    options.connect_timeout_ms = 5000;
    check_client(suite, &options, PAWL_OK);
    options.connect_timeout_ms = -1;
    check_client(suite, &options, PAWL_INVALID);
    options.connect_timeout_ms = 0;
    options.give_up_ms = -1;
    check_client(suite, &options, PAWL_INVALID);
    options.give_up_ms = PAWL__WAIT_MS_MAX + 1;
    check_client(suite, &options, PAWL_INVALID);
    options.give_up_ms = PAWL__WAIT_MS_MAX; /* the same as in a URL */
    check_client(suite, &options, PAWL_OK);
    options.give_up_ms = 0;
    options.guard = (pawl_guard)3;
    check_client(suite, &options, PAWL_INVALID);
    options.guard = PAWL_GUARD_OFF;
    options.lazy = true;
    check_client(suite, &options, PAWL_OK);
}

static void sizes_of_client_options(const struct suite *suite)
{
    struct {
        pawl_client_options known;
        char news[32];
    } later = {.known = PAWL_CLIENT_OPTIONS_INIT};
    later.known.size = sizeof later;
    check_client(suite, &later.known, PAWL_OK);
    later.news[0] = 1;
    check_client(suite, &later.known, PAWL_INVALID);
    memset(&later, 0xff, sizeof later);
    later.known.size = sizeof(size_t);
    check_client(suite, &later.known, PAWL_OK);
}

/* ===== URLs and pointers ===== */

static void check_url(const char *url, pawl_status expected)
{
    pawl_client *client = NULL;
    EXPECT(expected, pawl_client_open(url, NULL, &client));
    assert_true((client != NULL) == (expected == PAWL_OK));
    EXPECT(PAWL_OK, pawl_client_close(client));
}

/* The URL of the backend with this query behind it. */
static void check_query(const struct suite *suite, const char *query, pawl_status expected)
{
    struct text url = {0};
    text_addf(&url, "%s?%s", suite->url, query);
    check_url(url.data, expected);
    text_free(&url);
}

static void urls(const struct suite *suite)
{
    check_url("nonsense", PAWL_INVALID);
    check_url("://", PAWL_INVALID);
    check_url("gopher://localhost", PAWL_UNSUPPORTED);
    check_query(suite, "timeout=500ms&connect_timeout=2s&give_up=1m&guard=warn&lazy=1", PAWL_OK);
    check_query(suite, "timeout=3601s", PAWL_INVALID);
    assert_non_null(strstr(pawl_last_error(), "from 1ms to 1h"));
    check_query(suite, "give_up=3653d", PAWL_OK);
    check_query(suite, "give_up=3654d", PAWL_INVALID);
    assert_non_null(strstr(pawl_last_error(), "from 1ms to 3653d"));
    check_query(suite, "timeout=never", PAWL_INVALID);
    check_query(suite, "timeout=-1", PAWL_INVALID);
    check_query(suite, "guard=perhaps", PAWL_INVALID);
    check_query(suite, "lazy=maybe", PAWL_INVALID);
    check_query(suite, "no_such_parameter=1", PAWL_INVALID);
}

/* Empty is what a script makes of a variable that is not set; files would exclude nobody else. */
static void empty_urls(const struct suite *suite)
{
    check_url("", PAWL_INVALID);
    assert_non_null(strstr(pawl_last_error(), "the URL is empty"));
    assert_int_equal(setenv("PAWL_URL", "", 1), 0);
    check_url(NULL, PAWL_INVALID);
    assert_non_null(strstr(pawl_last_error(), "PAWL_URL is empty"));
    check_url(suite->url, PAWL_OK);
    assert_int_equal(setenv("PAWL_URL", suite->url, 1), 0);
    check_url(NULL, PAWL_OK);
    check_url("", PAWL_INVALID);
    assert_int_equal(unsetenv("PAWL_URL"), 0);
}

static void null_pointers(const struct suite *suite)
{
    pawl_client *client = open_client(suite);
    pawl_lock *lock = NULL;
    pawl_lock_info info = {.size = sizeof info};
    EXPECT(PAWL_INVALID, pawl_client_open(suite->url, NULL, NULL));
    EXPECT(PAWL_INVALID, pawl_lock_open(NULL, suite->name, NULL, &lock));
    EXPECT(PAWL_INVALID, pawl_lock_open(client, NULL, NULL, &lock));
    EXPECT(PAWL_INVALID, pawl_lock_open(client, suite->name, NULL, NULL));
    assert_null(lock);
    EXPECT(PAWL_INVALID, pawl_lock_acquire(NULL, PAWL_TRY));
    EXPECT(PAWL_INVALID, pawl_lock_release(NULL));
    EXPECT(PAWL_INVALID, pawl_lock_extend(NULL, 1000));
    EXPECT(PAWL_INVALID, pawl_lock_inspect(NULL, &info));
    EXPECT(PAWL_INVALID, pawl_lock_break(NULL));
    assert_int_equal(pawl_lock_token(NULL), 0);
    assert_int_equal(pawl_lock_remaining_ms(NULL), 0);
    assert_int_equal(pawl_lock_hold_count(NULL), 0);
    pawl_lock_cancel(NULL);
}

static const struct suite_case cases[] = {
    SUITE_CASE(FLAG_ARGUMENTS, leases),
    SUITE_CASE(FLAG_ARGUMENTS, longest_holds),
    SUITE_CASE(FLAG_ARGUMENTS, warnings),
    SUITE_CASE(FLAG_ARGUMENTS, a_very_long_lease),
    SUITE_CASE(FLAG_ARGUMENTS, constants),
    SUITE_CASE(FLAG_ARGUMENTS, owners),
    SUITE_CASE(FLAG_ARGUMENTS, sizes_of_lock_options),
    SUITE_CASE(FLAG_ARGUMENTS, smaller_options_mean_defaults),
    SUITE_CASE(FLAG_ARGUMENTS, client_options),
    SUITE_CASE(FLAG_ARGUMENTS, sizes_of_client_options),
    SUITE_CASE(FLAG_ARGUMENTS, urls),
    SUITE_CASE(FLAG_ARGUMENTS, empty_urls),
    SUITE_CASE(FLAG_ARGUMENTS, null_pointers),
};

SUITE_GROUP(suite_options, cases);
