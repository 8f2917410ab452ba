/* SPDX-License-Identifier: Apache-2.0 */
/* A user of the server with few rights: as many as a semaphore, leased permits or a latch need
 * suffice for all that can be done with it, and each one that is missing is named when the handle
 * is opened, in a line that can be pasted. */
#include "support/server.h"
#include "synchronizers/lib/cases.h"

#include <stdlib.h>
#include <string.h>

#define PASSWORD "few-password"

enum { RIGHTS_MAX = 24 };

/* How a user comes in at all. */
#define ENTRY "+hello +select +info +ping +client|kill +script|load +eval"

/* What one kind needs besides, each of which is missed. */
struct kind {
    const char *name;
    pawl_status (*open)(pawl_client *client, void **handle_out);
    const char *rights[RIGHTS_MAX];
};

static struct server *server;

static pawl_status open_counted(pawl_client *client, void **handle_out)
{
    return pawl_semaphore_open(client, "x", NULL, (pawl_semaphore **)handle_out);
}

static pawl_status open_leased(pawl_client *client, void **handle_out)
{
    pawl_semaphore_options options = PAWL_SEMAPHORE_OPTIONS_INIT;
    options.leased = true;
    return pawl_semaphore_open(client, "x", &options, (pawl_semaphore **)handle_out);
}

static pawl_status open_latch(pawl_client *client, void **handle_out)
{
    return pawl_latch_open(client, "x", (pawl_latch **)handle_out);
}

static const struct kind counted = {"semaphore", open_counted,
    {"+evalsha", "+get", "+set", "+incrby", "+decrby", "+del", "+publish", "+subscribe", "~x",
        "~pawl_asked:{x}:*", "&redisson_sc:{x}"}};

static const struct kind leased = {"permits", open_leased,
    {"+evalsha", "+get", "+set", "+incrby", "+decrby", "+del", "+exists", "+time", "+pttl",
        "+pexpire", "+zscore", "+zrange", "+zadd", "+zrem", "+zremrangebyscore", "+publish",
        "+subscribe", "~x", "~{x}:timeout", "~pawl_asked:{x}:*", "&redisson_sc:{x}"}};

static const struct kind latch = {"latch", open_latch,
    {"+evalsha", "+get", "+set", "+decr", "+del", "+publish", "+subscribe", "~x",
        "~pawl_asked:{x}:*", "&redisson_countdownlatch__channel__{x}"}};

/* A client of a user that has all rights but this one; NULL: all. */
static pawl_client *come_in_without(const struct kind *kind, const char *without)
{
    static char url[128];
    char rights[1024] = "";
    for (size_t i = 0; kind->rights[i] != NULL; i++) {
        if (kind->rights[i] != without) {
            snprintf(
                rights + strlen(rights), sizeof rights - strlen(rights), " %s", kind->rights[i]);
        }
    }
    free(server_command(server, "FLUSHALL"));
    free(server_command(server, "ACL DELUSER few"));
    assert_true(
        server_answers(server, "OK", "ACL SETUSER few reset on >" PASSWORD " " ENTRY "%s", rights));
    snprintf(url, sizeof url, "redis://few:" PASSWORD "@127.0.0.1:%u", server_port(server));
    cases_url = url;
    return open_client();
}

/* Does the line that is to be pasted give that right? A command is named as it is sent. */
static void assert_named(const struct kind *kind, const char *right)
{
    char word[64];
    const bool command = right[0] == '+';
    const char *line = strstr(pawl_last_error(), "ACL SETUSER few");
    snprintf(word, sizeof word, command ? " %s" : " '%s'", right);
    if (line == NULL || strstr(line, word) == NULL) {
        support_fail("%s without %s: \"%s\"", kind->name, right, pawl_last_error());
    }
}

static void assert_each_is_named(const struct kind *kind)
{
    for (size_t i = 0; kind->rights[i] != NULL; i++) {
        void *handle = NULL;
        if (strcmp(kind->rights[i], "+evalsha") == 0) {
            continue; /* without it the client is not opened */
        }
        pawl_client *client = come_in_without(kind, kind->rights[i]);
        EXPECT(PAWL_DENIED, kind->open(client, &handle));
        assert_null(handle);
        assert_named(kind, kind->rights[i]);
        EXPECT_OK(pawl_client_close(client));
    }
}

static void each_is_named(void **state)
{
    (void)state;
    assert_each_is_named(&counted);
    assert_each_is_named(&leased);
    assert_each_is_named(&latch);
}

/* ===== They suffice ===== */

static void a_semaphore_needs_no_more(void **state)
{
    (void)state;
    void *handle = NULL;
    int64_t drained = 0;
    struct caller caller;
    pawl_client *client = come_in_without(&counted, NULL);
    EXPECT_OK(counted.open(client, &handle));
    pawl_semaphore *semaphore = handle;
    EXPECT_OK(pawl_semaphore_set(semaphore, 3, NULL));
    EXPECT_OK(pawl_semaphore_acquire(semaphore, 3, PAWL_TRY));
    EXPECT(PAWL_BUSY, pawl_semaphore_acquire(semaphore, 1, PAWL_TRY));
    call_acquire(&caller, semaphore, 2, SOON_MS);
    EXPECT_OK(pawl_semaphore_release(semaphore, 3));
    EXPECT_OK(call_join(&caller));
    EXPECT_OK(pawl_semaphore_add(semaphore, 2));
    EXPECT_OK(pawl_semaphore_add(semaphore, -1));
    EXPECT_OK(pawl_semaphore_drain(semaphore, &drained));
    assert_int_equal(drained, 2);
    assert_int_equal(available(semaphore), 0);
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_client_close(client));
}

static void permits_need_no_more(void **state)
{
    (void)state;
    void *handle = NULL;
    int64_t drained = 0;
    pawl_permit permits[3];
    pawl_client *client = come_in_without(&leased, NULL);
    EXPECT_OK(leased.open(client, &handle));
    pawl_semaphore *semaphore = handle;
    EXPECT_OK(pawl_semaphore_set(semaphore, 3, NULL));
    assert_true(server_answers(server, "1", "PEXPIRE x 600000")); /* its leases follow */
    EXPECT_OK(pawl_permit_acquire(semaphore, 3, PAWL_TRY, permits));
    EXPECT(PAWL_BUSY, pawl_permit_acquire(semaphore, 1, 50, permits));
    EXPECT_OK(pawl_permit_extend(semaphore, permits, 3, 60000));
    EXPECT_OK(pawl_permit_release(semaphore, permits, 2));
    EXPECT_OK(pawl_semaphore_add(semaphore, 1));
    assert_int_equal(available(semaphore), 3);
    EXPECT_OK(pawl_semaphore_drain(semaphore, &drained));
    EXPECT_OK(pawl_semaphore_close(semaphore)); /* gives the third one back */
    EXPECT_OK(pawl_client_close(client));
}

static void a_latch_needs_no_more(void **state)
{
    (void)state;
    void *handle = NULL;
    struct caller caller;
    int64_t count = 0;
    pawl_client *client = come_in_without(&latch, NULL);
    EXPECT_OK(latch.open(client, &handle));
    EXPECT_OK(pawl_latch_set(handle, 2, NULL));
    call_wait(&caller, handle, SOON_MS);
    EXPECT_OK(pawl_latch_count_down(handle));
    EXPECT_OK(pawl_latch_count(handle, &count));
    assert_int_equal(count, 1);
    EXPECT_OK(pawl_latch_count_down(handle));
    EXPECT_OK(call_join(&caller));
    EXPECT_OK(pawl_latch_set(handle, 2, NULL));
    EXPECT_OK(pawl_latch_reset(handle));
    EXPECT_OK(pawl_latch_close(handle));
    EXPECT_OK(pawl_client_close(client));
}

static int setup(void **state)
{
    cleanup_setup(state);
    server = server_start(NULL);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, cleanup_teardown)
        CASE(each_is_named),
        CASE(a_semaphore_needs_no_more),
        CASE(permits_need_no_more),
        CASE(a_latch_needs_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
