/* SPDX-License-Identifier: Apache-2.0 */
/* Opening locks whose rights have to be asked for, name by name, at a server that stands still or
 * is slow: each open has the timeout for itself, however many there are at once. */
#include "fault/lib/fault.h"

#include "support/thread.h"

#define SECRET "canary-7Zp"
#define RIGHTS "resetkeys ~open:* ~redisson_lock_token:{open:* &* +@all"

enum {
    TIMEOUT_MS = 500,
    SLOW_MS = 400, /* for an answer */
    OPENERS = 8,
};

static struct server *server;
static pawl_client *client;

struct opener {
    pthread_t thread;
    char name[32];
    pawl_lock *lock;
    pawl_status status;
    int64_t took_ms;
};

static int begin(void **state)
{
    const int result = cleanup_setup(state);
    server = server_start(NULL);
    assert_true(server_answers(server, "OK", "ACL SETUSER bob on >" SECRET " " RIGHTS));
    return result;
}

static void open_client_at(uint16_t port)
{
    char url[URL_SIZE];
    snprintf(url, sizeof url, "redis://bob:" SECRET "@127.0.0.1:%u?timeout=%dms&connect_timeout=2s",
        port, TIMEOUT_MS);
    ASSERT_OK(pawl_client_open(url, NULL, &client));
}

static void *open_one(void *arg)
{
    struct opener *opener = arg;
    const int64_t began_ms = boottime_ms();
    opener->status = pawl_lock_open(client, opener->name, NULL, &opener->lock);
    opener->took_ms = boottime_ms() - began_ms;
    return NULL;
}

/* All open the same name, or each its own. The longest that one took. */
static int64_t open_all(struct opener openers[OPENERS], const char *name, bool numbered)
{
    int64_t longest_ms = 0;
    for (int i = 0; i < OPENERS; i++) {
        openers[i] = (struct opener){.status = PAWL_MISUSE};
        snprintf(openers[i].name, sizeof openers[i].name, "%s%.0d", name, numbered ? i + 1 : 0);
        thread_start(&openers[i].thread, open_one, &openers[i]);
    }
    for (int i = 0; i < OPENERS; i++) {
        pthread_join(openers[i].thread, NULL);
        longest_ms = openers[i].took_ms > longest_ms ? openers[i].took_ms : longest_ms;
    }
    print_message("    the longest of %d took %lld ms\n", OPENERS, (long long)longest_ms);
    return longest_ms;
}

static void close_all(struct opener openers[OPENERS], pawl_status wanted)
{
    for (int i = 0; i < OPENERS; i++) {
        assert_status_at(openers[i].status, wanted, "open", __FILE__, __LINE__);
        assert_true((openers[i].lock != NULL) == (wanted == PAWL_OK));
        pawl_lock_close(openers[i].lock);
    }
    pawl_client_close(client);
}

/* The first question that is not answered ends the connection, and all that wait with it. */
static void at_a_server_that_stops(void **state)
{
    (void)state;
    struct opener openers[OPENERS];
    open_client_at(server_port(server));
    server_pause(server);
    const int64_t longest_ms = open_all(openers, "open:", true);
    server_resume(server);
    assert_true(longest_ms <= TIMEOUT_MS + SLACK_MS);
    close_all(openers, PAWL_OK);
}

/* Here every question is answered, a moment before its time is over. */
static void at_a_slow_server(void **state)
{
    (void)state;
    struct opener openers[OPENERS];
    struct proxy *proxy = proxy_start_for(server);
    open_client_at(proxy_port(proxy));
    proxy_set_delay(proxy, PROXY_TO_CLIENT, SLOW_MS, 0);
    assert_true(open_all(openers, "open:", true) <= TIMEOUT_MS + SLACK_MS);
    close_all(openers, PAWL_OK);
}

/* All of them are told, not just who asked first. */
static void of_the_same_name_that_is_denied(void **state)
{
    (void)state;
    struct opener openers[OPENERS];
    struct proxy *proxy = proxy_start_for(server);
    open_client_at(proxy_port(proxy));
    proxy_set_delay(proxy, PROXY_TO_CLIENT, SLOW_MS, 0);
    assert_true(open_all(openers, "other", false) <= TIMEOUT_MS + SLACK_MS);
    close_all(openers, PAWL_DENIED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(at_a_server_that_stops, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(at_a_slow_server, begin, cleanup_teardown),
        cmocka_unit_test_setup_teardown(of_the_same_name_that_is_denied, begin, cleanup_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
