/* SPDX-License-Identifier: Apache-2.0 */
/* A server that has forgotten our scripts: NOSCRIPT at each operation.
 *
 * Nothing was done then, so the same question is asked again with the script's whole text, on the
 * same connection, and nobody notices. Afterwards it is called by its digest again. */
#include "wire/lib/talk.h"

#define FORGOTTEN "-NOSCRIPT No matching script. Please use EVAL.\\r\\n"

/* The script was asked for by digest, then by text, and everything stayed on one connection. */
static void assert_sent_whole(const struct pawl__script *script)
{
    scripted_check(scripted);
    assert_int_equal(talk_texts(script), 1);
    assert_int_equal(scripted_accepted(scripted), 1);
}

static void at_the_question_about_rights(void **state)
{
    (void)state;
    talk_answer(&pawl__script_rights, FORGOTTEN);
    assert_works(talk_lock(talk_client(NULL)));
    assert_sent_whole(&pawl__script_rights);
}

static void at_acquire(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    talk_answer(&pawl__script_acquire, FORGOTTEN);
    assert_works(lock);
    assert_sent_whole(&pawl__script_acquire);
    char *by_digest = talk_owner(0);
    char *by_text = talk_owner(1);
    assert_string_equal(by_text, by_digest); /* the same tenure: the same question */
    free(by_digest);
    free(by_text);
    assert_works(lock);
    assert_int_equal(talk_texts(&pawl__script_acquire), 1);
    assert_int_equal(talk_calls(&pawl__script_acquire), 2);
}

static void at_release(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    talk_answer(&pawl__script_release, FORGOTTEN);
    assert_works(lock);
    assert_sent_whole(&pawl__script_release);
}

static void at_renewal(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock_with(talk_client(NULL), 300, true, false);
    talk_answer(&pawl__script_renew, FORGOTTEN);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    WAIT_UNTIL(talk_calls(&pawl__script_renew) >= 2, 3000);
    assert_true(pawl_lock_remaining_ms(lock) > 0);
    ASSERT_OK(pawl_lock_release(lock));
    assert_sent_whole(&pawl__script_renew);
}

static void at_extend(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    talk_answer(&pawl__script_renew, FORGOTTEN);
    ASSERT_OK(pawl_lock_extend(lock, 2 * LEASE_MS));
    assert_sent_whole(&pawl__script_renew);
}

static void at_the_count(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock_with(talk_client(NULL), LEASE_MS, true, true);
    talk_answer(&pawl__script_count, FORGOTTEN);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    WAIT_UNTIL(talk_texts(&pawl__script_count) == 1, 3000);
    ASSERT_OK(pawl_lock_release(lock));
    ASSERT_OK(pawl_lock_release(lock));
    assert_sent_whole(&pawl__script_count);
}

static void at_inspect(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    pawl_lock_info info = {.size = sizeof info};
    talk_answer(&pawl__script_inspect, FORGOTTEN);
    ASSERT_OK(pawl_lock_inspect(lock, &info));
    assert_string_equal(info.holder, "a:1");
    assert_sent_whole(&pawl__script_inspect);
}

static void at_break(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    talk_answer(&pawl__script_break, FORGOTTEN);
    ASSERT_OK(pawl_lock_break(lock));
    assert_sent_whole(&pawl__script_break);
}

static _Atomic unsigned granted;

static void note_grant(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)arg;
    atomic_fetch_add(&granted, status == PAWL_OK ? 1 : 100);
}

static void at_passing_on(void **state)
{
    (void)state;
    pawl_client *client = talk_client(NULL);
    pawl_lock *giver = talk_lock(client);
    pawl_lock *heir = talk_lock(client);
    atomic_store(&granted, 0);
    ASSERT_OK(pawl_lock_acquire(giver, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire_async(heir, PAWL_FOREVER, note_grant, NULL));
    talk_answer(&pawl__script_pass, FORGOTTEN);
    ASSERT_OK(pawl_lock_release(giver));
    WAIT_UNTIL(atomic_load(&granted) == 1, 3000);
    assert_true(pawl_lock_token(heir) == TOKEN);
    assert_sent_whole(&pawl__script_pass);
    ASSERT_OK(pawl_lock_release(heir));
}

/* A server that does not even take the text would be asked for ever. */
static void even_with_the_text(void **state)
{
    (void)state;
    pawl_lock *lock = talk_lock(talk_client(NULL));
    assert_works(lock); /* has said who we are */
    scripted_play(
        scripted, "EXPECT ~EVALSHA\nSEND " FORGOTTEN "\nEXPECT EVAL ...\nSEND " FORGOTTEN);
    ASSERT_STATUS(PAWL_PROTOCOL, pawl_lock_acquire(lock, PAWL_TRY));
    assert_says("NOSCRIPT");
    scripted_check(scripted);
    assert_works(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(at_the_question_about_rights),
        CASE(at_acquire),
        CASE(at_release),
        CASE(at_renewal),
        CASE(at_extend),
        CASE(at_the_count),
        CASE(at_inspect),
        CASE(at_break),
        CASE(at_passing_on),
        CASE(even_with_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
