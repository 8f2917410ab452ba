/* SPDX-License-Identifier: Apache-2.0 */
/* The test support's fault proxy, between a raw client socket and a real redis-server.
 *
 * Method: every fault is looked at from both ends. The client sees bytes, an end (errno 0), a reset
 * (ECONNRESET) or silence (ETIMEDOUT); the server's data, read over its unix socket past the proxy,
 * shows whether a request was carried out. */
#include "support/fail.h"
#include "support/process.h"
#include "support/proxy.h"
#include "support/resources.h"
#include "support/server.h"
#include "support/sockets.h"
#include "support/wait.h"
#include "support/wire.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SILENCE_MS 60

static struct server *server; /* one for all cases */
static struct proxy *proxy;   /* a new one for each */

static int start_server(void **state)
{
    (void)state;
    server = server_start(NULL);
    return 0;
}

static int set_up(void **state)
{
    cleanup_setup(state);
    WAIT_UNTIL(server_client_count(server, NULL) == 0, 5000); /* those of the case before */
    free(server_command(server, "FLUSHALL"));
    proxy = proxy_start_for(server);
    return 0;
}

/* A client through the proxy that has been greeted by the server. */
static int connect_client(void)
{
    int fd = socket_connect(proxy_port(proxy));
    assert_true(fd >= 0);
    assert_true(wire_answers(fd, "PING", "PONG"));
    return fd;
}

static void assert_reply(int fd, const char *expected)
{
    char *reply = wire_receive(fd, 5000);
    assert_non_null(reply);
    assert_string_equal(reply, expected);
    free(reply);
}

/* Nothing arrives, for this reason. */
static void assert_no_reply(int fd, int error)
{
    char *reply = wire_receive(fd, error == ETIMEDOUT ? SILENCE_MS : 5000);
    assert_null(reply);
    assert_int_equal(errno, error);
}

static bool has_value(const char *expected)
{
    return server_answers(server, expected, "GET n");
}

static void without_faults_it_is_transparent(void **state)
{
    (void)state;
    const size_t threads = thread_count();
    int fd = connect_client();
    assert_true(wire_answers(fd, "INCR n", "1"));
    assert_true(wire_send(fd, "INCR n") && wire_send(fd, "HELLO 3") && wire_send(fd, "GET n"));
    assert_reply(fd, "2");
    free(wire_receive(fd, 5000));
    assert_reply(fd, "2");
    const size_t size = 3u << 20; /* more than sockets hold at once */
    char *value = malloc(size + 1);
    memset(value, 'x', size);
    value[size] = '\0';
    assert_true(socket_send_string(fd, "*2\r\n$4\r\nECHO\r\n$3145728\r\n"));
    assert_true(socket_send(fd, value, size, 5000));
    assert_true(socket_send_string(fd, "\r\n"));
    assert_true(socket_receive_all(fd, value, strlen("$3145728\r\n"), 5000));
    assert_true(socket_receive_all(fd, value, size, 5000));
    assert_true(strspn(value, "x") == size);
    free(value);

    const struct proxy_stats stats = proxy_stats(proxy);
    assert_int_equal(stats.accepted, 1);
    assert_int_equal(stats.requests_received, 6);
    assert_int_equal(stats.requests_forwarded, 6);
    assert_int_equal(proxy_answered(proxy, "INCR n"), 2);
    assert_int_equal(stats.bytes_received[PROXY_TO_SERVER], stats.bytes_passed[PROXY_TO_SERVER]);
    assert_int_equal(stats.bytes_lost[PROXY_TO_CLIENT], 0);
    close(fd);
    WAIT_UNTIL(proxy_stats(proxy).open == 0, 5000);
    proxy_stop(proxy);
    assert_int_equal(thread_count(), threads - 1);
}

static void the_server_may_be_a_unix_socket(void **state)
{
    (void)state;
    proxy = proxy_start_unix(server_socket_path(server));
    int fd = connect_client();
    assert_true(wire_answers(fd, "INCR n", "1"));
    assert_int_equal(strncmp(proxy_url(proxy), "redis://127.0.0.1:", 18), 0);
    assert_int_equal(server_kill_clients(server, "normal"), 1);
    assert_no_reply(fd, 0);
    close(fd);
    WAIT_UNTIL(proxy_stats(proxy).open == 0, 5000);
}

static void a_dead_server_is_passed_on(void **state)
{
    (void)state;
    struct proxy *nowhere = proxy_start(socket_pick_port());
    int fd = socket_connect(proxy_port(nowhere));
    if (fd < 0) {
        assert_int_equal(errno, ECONNRESET); /* it came as early as that */
    } else {
        assert_no_reply(fd, ECONNRESET);
        close(fd);
    }
    WAIT_UNTIL(proxy_stats(nowhere).unreachable == 1 && proxy_stats(nowhere).open == 0, 5000);
}

static int64_t round_trip_ms(int fd)
{
    const int64_t start_us = boottime_us();
    assert_true(wire_answers(fd, "PING", "PONG"));
    return (boottime_us() - start_us) / 1000;
}

static void data_is_delayed_in_order(void **state)
{
    (void)state;
    int fd = connect_client();
    proxy_set_delay(proxy, PROXY_TO_SERVER, 60, 0);
    assert_true(round_trip_ms(fd) >= 60);
    proxy_set_delay(proxy, PROXY_TO_CLIENT, 40, 0);
    assert_true(round_trip_ms(fd) >= 100);
    proxy_set_delay(proxy, PROXY_TO_SERVER, 0, 0);
    proxy_set_delay(proxy, PROXY_TO_CLIENT, 0, 30);
    proxy_set_seed(proxy, 7);
    char word[24];
    for (int i = 0; i < 20; i++) {
        snprintf(word, sizeof word, "ECHO %d", i);
        assert_true(wire_send(fd, word));
    }
    for (int i = 0; i < 20; i++) {
        snprintf(word, sizeof word, "%d", i);
        assert_reply(fd, word);
    }
    close(fd);
}

static void single_bytes_arrive_one_by_one(void **state)
{
    (void)state;
    int fd = connect_client();
    proxy_byte_by_byte(proxy, true, 2000);
    assert_true(wire_send(fd, "PING"));
    unsigned pieces = 0;
    size_t received = 0;
    while (received < strlen("+PONG\r\n")) {
        char data[16];
        ssize_t size = socket_receive(fd, data, sizeof data, 5000);
        assert_true(size > 0);
        received += (size_t)size;
        pieces++;
    }
    assert_true(pieces >= 4); /* a slow reader may find two at once */
    proxy_byte_by_byte(proxy, true, 0);
    assert_true(wire_answers(fd, "INCR n", "1"));
    proxy_byte_by_byte(proxy, false, 0);
    assert_true(wire_answers(fd, "INCR n", "2"));
    close(fd);
}

static void a_blackhole_swallows_one_direction(void **state)
{
    (void)state;
    int fd = connect_client();
    proxy_blackhole(proxy, PROXY_TO_CLIENT, true);
    assert_true(wire_send(fd, "INCR n"));
    assert_no_reply(fd, ETIMEDOUT);
    WAIT_UNTIL(has_value("1"), 5000); /* the other direction works */
    proxy_blackhole(proxy, PROXY_TO_CLIENT, false);
    assert_true(wire_send(fd, "INCR n"));
    assert_no_reply(fd, ETIMEDOUT); /* this stream has a hole */
    int other = connect_client();
    proxy_blackhole(proxy, PROXY_TO_SERVER, true);
    assert_true(wire_send(other, "INCR n"));
    assert_true(proxy_wait_received(proxy, "INCR n", 3, 5000));
    assert_no_reply(other, ETIMEDOUT);
    assert_int_equal(proxy_forwarded(proxy, "INCR n"), 2);
    assert_true(has_value("2"));
    assert_int_equal(server_client_count(server, NULL), 2);
    close(other);
    nap_ms(SILENCE_MS);
    assert_int_equal(server_client_count(server, NULL), 2); /* the farewell is lost, too */
    close(fd);
}

static void new_connections_are_refused_and_accepted_again(void **state)
{
    (void)state;
    int fd = connect_client();
    for (int i = 0; i < 3; i++) {
        proxy_refuse(proxy, true);
        assert_int_equal(socket_connect(proxy_port(proxy)), -1);
        assert_int_equal(errno, ECONNREFUSED);
        assert_true(wire_answers(fd, "PING", "PONG"));
        proxy_refuse(proxy, false);
        close(connect_client());
    }
    close(fd);
}

static void held_bytes_wait_for_the_release(void **state)
{
    (void)state;
    int fd = connect_client();
    proxy_hold(proxy, PROXY_TO_CLIENT);
    assert_true(wire_send(fd, "INCR n"));
    WAIT_UNTIL(proxy_answered(proxy, "INCR n") == 1, 5000);
    assert_no_reply(fd, ETIMEDOUT);
    assert_true(has_value("1"));
    proxy_release(proxy, PROXY_TO_CLIENT);
    assert_reply(fd, "1");
    proxy_hold_present(proxy, PROXY_TO_SERVER);
    assert_true(wire_send(fd, "INCR n"));
    assert_true(proxy_wait_received(proxy, "INCR n", 2, 5000));
    int other = connect_client(); /* not present when it was called */
    assert_true(wire_answers(other, "GET n", "1"));
    proxy_release(proxy, PROXY_TO_SERVER);
    assert_reply(fd, "2");
    close(fd);
    close(other);
}

/* The request outlives its connection: it is carried out when the client is long gone. */
static void a_late_copy_is_delivered_on_the_old_connection(void **state)
{
    (void)state;
    int fd = connect_client();
    assert_true(wire_answers(fd, "SET n old", "OK"));
    proxy_hold_from(proxy, "DEL n");
    assert_true(wire_answers(fd, "INCR m", "1"));
    const struct proxy_stats before = proxy_stats(proxy);
    assert_true(socket_send_string(fd, "*2\r\n$3\r\nDEL"));
    WAIT_UNTIL(
        proxy_stats(proxy).bytes_received[PROXY_TO_SERVER] > before.bytes_received[PROXY_TO_SERVER],
        5000);
    assert_true(socket_send_string(fd, "\r\n$1\r\nn\r\n"));
    assert_true(proxy_wait_received(proxy, "DEL n", 1, 5000));
    assert_int_equal(
        proxy_stats(proxy).bytes_passed[PROXY_TO_SERVER], before.bytes_passed[PROXY_TO_SERVER]);
    close(fd);
    fd = connect_client();
    assert_true(wire_answers(fd, "SET n new", "OK"));
    assert_int_equal(proxy_forwarded(proxy, "DEL n"), 0);
    assert_int_equal(server_client_count(server, NULL), 2);
    proxy_release(proxy, PROXY_TO_SERVER);
    assert_true(proxy_wait_forwarded(proxy, "DEL n", 1, 5000));
    WAIT_UNTIL(has_value("(nil)"), 5000);
    WAIT_UNTIL(proxy_stats(proxy).open == 1, 5000);
    WAIT_UNTIL(server_client_count(server, NULL) == 1, 5000);
    close(fd);
}

static void a_late_copy_does_not_survive_client_kill(void **state)
{
    (void)state;
    int fd = connect_client();
    assert_true(wire_answers(fd, "SET n old", "OK"));
    proxy_hold_present(proxy, PROXY_TO_SERVER);
    assert_true(wire_send(fd, "DEL n"));
    assert_true(proxy_wait_received(proxy, "DEL n", 1, 5000));
    socket_reset(fd);
    assert_int_equal(server_kill_clients(server, "normal"), 1);
    proxy_release(proxy, PROXY_TO_SERVER);
    WAIT_UNTIL(proxy_stats(proxy).open == 0, 5000);
    assert_true(has_value("old"));
}

static void connections_are_cut_as_asked(void **state)
{
    (void)state;
    int fd = connect_client();
    int other = connect_client();
    assert_true(wire_answers(other, "ECHO mark", "mark"));
    proxy_cut_those(proxy, "ECHO mark", PROXY_RST);
    assert_no_reply(other, ECONNRESET);
    close(other);
    assert_true(wire_answers(fd, "PING", "PONG"));
    proxy_cut_now(proxy, PROXY_FIN);
    assert_no_reply(fd, 0);
    close(fd);
    WAIT_UNTIL(server_client_count(server, NULL) == 0, 5000);
    WAIT_UNTIL(proxy_stats(proxy).open == 0, 5000);

    fd = connect_client();
    proxy_cut_now(proxy, PROXY_ORPHAN);
    assert_no_reply(fd, ECONNRESET);
    close(fd);
    nap_ms(SILENCE_MS);
    assert_int_equal(server_client_count(server, NULL), 1); /* it has not been told */
    assert_int_equal(server_kill_clients(server, "normal"), 1);
    WAIT_UNTIL(proxy_stats(proxy).open == 0, 5000);

    fd = connect_client();
    proxy_cut_now(proxy, PROXY_MUTE);
    assert_true(wire_send(fd, "INCR n"));
    assert_no_reply(fd, ETIMEDOUT);
    assert_true(has_value("(nil)"));
    assert_int_equal(proxy_stats(proxy).cuts, 4);
    close(fd);
}

static int wait_for_input(const struct child_pipes *pipes, void *arg)
{
    (void)arg;
    char byte;
    return read(pipes->in, &byte, 1) == 1 ? 0 : 1;
}

static void a_cut_resets_even_if_a_forked_child_has_the_sockets(void **state)
{
    (void)state;
    int fd = connect_client();
    int other = connect_client();
    struct child *child = child_fork(wait_for_input, NULL);
    proxy_cut_after(proxy, PROXY_TO_SERVER, 0, PROXY_RST);
    assert_true(wire_send(fd, "INCR n"));
    assert_no_reply(fd, ECONNRESET);
    proxy_cut_now(proxy, PROXY_FIN);
    assert_no_reply(other, 0);
    assert_int_equal(child_wait(child, 0), -1);
    child_free(child);
    close(fd);
    close(other);
}

/* Every byte of a request and of a reply can be the last one. */
static void a_stream_ends_after_byte_n(void **state)
{
    (void)state;
    static const char request[] = "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n";
    for (size_t i = 0; i < sizeof request - 1; i++) {
        int fd = connect_client();
        proxy_cut_after(proxy, PROXY_TO_SERVER, i, i % 2 == 0 ? PROXY_RST : PROXY_FIN);
        const uint64_t before = proxy_stats(proxy).bytes_passed[PROXY_TO_SERVER];
        assert_true(socket_send_string(fd, request));
        assert_no_reply(fd, i % 2 == 0 ? ECONNRESET : 0);
        assert_int_equal(proxy_stats(proxy).bytes_passed[PROXY_TO_SERVER], before + i);
        close(fd);
    }
    assert_true(has_value("(nil)"));
    static const char reply[] = "$3\r\none\r\n";
    for (size_t i = 0; i < sizeof reply - 1; i++) {
        int fd = connect_client();
        char received[sizeof reply] = "";
        proxy_cut_after(proxy, PROXY_TO_CLIENT, i, PROXY_FIN);
        assert_true(wire_send(fd, "ECHO one"));
        assert_true(socket_receive_all(fd, received, i, 5000));
        assert_memory_equal(received, reply, i);
        assert_int_equal(socket_receive(fd, received, 1, 5000), 0);
        close(fd);
    }
    int fd = connect_client(); /* each rule acted once */
    proxy_cut_after(proxy, PROXY_TO_CLIENT, 4, PROXY_MUTE);
    assert_true(wire_send(fd, "ECHO one"));
    char truncated[4];
    assert_true(socket_receive_all(fd, truncated, 4, 5000));
    assert_no_reply(fd, ETIMEDOUT);
    close(fd);
}

static void the_reply_of_a_request_is_lost(void **state)
{
    (void)state;
    int fd = connect_client();
    proxy_cut_reply_of(proxy, "INCR n", 2, PROXY_RST);
    assert_true(wire_answers(fd, "INCR n", "1"));
    assert_true(wire_answers(fd, "INCR m", "1"));
    assert_true(wire_send(fd, "INCR n"));
    assert_no_reply(fd, ECONNRESET);
    assert_true(has_value("2")); /* it was carried out */
    close(fd);

    fd = connect_client();
    proxy_cut_reply_of(proxy, "INCR n", 1, PROXY_FIN);
    assert_true(socket_send_string(fd, "ECHO a\r\nINCR n\r\nINCR n\r\n")); /* in one piece */
    assert_reply(fd, "a");
    assert_no_reply(fd, 0);
    WAIT_UNTIL(has_value("4"), 5000);
    assert_int_equal(proxy_stats(proxy).replies_lost, 2);
    assert_int_equal(proxy_stats(proxy).cuts, 2);
    close(fd);

    fd = connect_client();
    proxy_cut_reply_of(proxy, "INCR n", 1, PROXY_RST);
    proxy_disarm(proxy);
    assert_true(wire_answers(fd, "INCR n", "5"));
    close(fd);
}

/* Pushes and subscriptions must not shift the count of replies. */
static void the_reply_is_found_among_pushes(void **state)
{
    (void)state;
    int fd = connect_client();
    assert_true(wire_send(fd, "HELLO 3"));
    free(wire_receive(fd, 5000));
    assert_true(wire_send(fd, "SUBSCRIBE c1 c2"));
    assert_reply(fd, "subscribe c1 1");
    assert_reply(fd, "subscribe c2 2");
    proxy_cut_reply_of(proxy, "INCR n", 1, PROXY_FIN);
    assert_int_equal(server_integer(server, "PUBLISH c1 hello"), 1);
    assert_reply(fd, "message c1 hello");
    assert_true(wire_answers(fd, "ECHO a", "a"));
    assert_true(wire_send(fd, "UNSUBSCRIBE c2") && wire_send(fd, "ECHO b"));
    assert_reply(fd, "unsubscribe c2 1");
    assert_reply(fd, "b");
    assert_true(wire_send(fd, "INCR n"));
    assert_no_reply(fd, 0);
    assert_true(has_value("1"));
    close(fd);

    fd = connect_client();
    assert_true(wire_send(fd, "HELLO 3"));
    free(wire_receive(fd, 5000));
    assert_true(wire_answers(fd, "SUBSCRIBE c1", "subscribe c1 1"));
    proxy_cut_reply_of(proxy, "ECHO b", 1, PROXY_FIN);
    /* The message comes while replies are awaited. */
    assert_true(socket_send_string(fd, "PUBLISH c1 x\r\nECHO a\r\nECHO b\r\n"));
    free(wire_receive(fd, 5000));
    free(wire_receive(fd, 5000));
    assert_reply(fd, "a");
    assert_no_reply(fd, 0);
    close(fd);

    fd = connect_client();
    proxy_cut_reply_of(proxy, "SUBSCRIBE", 1, PROXY_FIN);
    assert_true(wire_send(fd, "SUBSCRIBE c1 c2"));
    assert_no_reply(fd, 0); /* neither of the two */
    close(fd);
}

static void a_request_is_sent_twice(void **state)
{
    (void)state;
    int fd = connect_client();
    assert_true(wire_answers(fd, "SELECT 5", "OK"));
    proxy_duplicate_next(proxy, "INCR n", false);
    assert_true(wire_answers(fd, "INCR n", "1"));
    WAIT_UNTIL(proxy_stats(proxy).copies_answered == 1, 5000);
    assert_true(wire_answers(fd, "GET n", "2")); /* in the same database */
    proxy_duplicate_next(proxy, "INCR n", true);
    assert_true(wire_answers(fd, "INCR n", "3"));
    close(fd);
    fd = connect_client();
    assert_true(wire_answers(fd, "SELECT 5", "OK"));
    assert_true(wire_answers(fd, "SET n 10", "OK"));
    proxy_release_copies(proxy);
    WAIT_UNTIL(proxy_stats(proxy).copies_answered == 2, 5000);
    assert_true(wire_answers(fd, "GET n", "11"));
    assert_int_equal(proxy_stats(proxy).copies_sent, 2);
    WAIT_UNTIL(server_client_count(server, NULL) == 1, 5000);
    close(fd);
}

static bool two_accepted(const struct proxy_stats *stats, void *arg)
{
    ++*(unsigned *)arg;
    return stats->accepted >= 2;
}

static void waiting_ends_by_condition_or_by_time(void **state)
{
    (void)state;
    unsigned asked = 0;
    int fd = connect_client();
    int64_t start_ms = boottime_ms();
    assert_false(proxy_wait_for(proxy, two_accepted, &asked, 50));
    assert_true(boottime_ms() - start_ms >= 50);
    assert_false(proxy_wait_forwarded(proxy, "INCR", 1, 10));
    int other = socket_connect(proxy_port(proxy));
    assert_true(proxy_wait_for(proxy, two_accepted, &asked, 5000));
    assert_true(asked >= 3);
    close(fd);
    close(other);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, cleanup_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(without_faults_it_is_transparent),
        CASE(the_server_may_be_a_unix_socket),
        CASE(a_dead_server_is_passed_on),
        CASE(data_is_delayed_in_order),
        CASE(single_bytes_arrive_one_by_one),
        CASE(a_blackhole_swallows_one_direction),
        CASE(new_connections_are_refused_and_accepted_again),
        CASE(held_bytes_wait_for_the_release),
        CASE(a_late_copy_is_delivered_on_the_old_connection),
        CASE(a_late_copy_does_not_survive_client_kill),
        CASE(connections_are_cut_as_asked),
        CASE(a_cut_resets_even_if_a_forked_child_has_the_sockets),
        CASE(a_stream_ends_after_byte_n),
        CASE(the_reply_of_a_request_is_lost),
        CASE(the_reply_is_found_among_pushes),
        CASE(a_request_is_sent_twice),
        CASE(waiting_ends_by_condition_or_by_time),
    };
    return cmocka_run_group_tests(tests, start_server, NULL);
}
