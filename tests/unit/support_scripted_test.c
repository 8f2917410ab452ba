/* SPDX-License-Identifier: Apache-2.0 */
/* The test support's scripted server, talked to by a raw client socket.
 *
 * Method: each step of the language once as it should work; then everything that must be reported:
 * an unexpected command, a script that is not finished, a mistake in a script. Reports that fail
 * the running test are provoked in a child. The answers of the handshake are compared with
 * those of a real redis-server. */
#include "support/fail.h"
#include "support/process.h"
#include "support/scripted.h"
#include "support/server.h"
#include "support/sockets.h"
#include "support/wait.h"
#include "support/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SILENCE_MS 60

static struct scripted *scripted;

static int set_up(void **state)
{
    cleanup_setup(state);
    scripted = scripted_start();
    return 0;
}

static int connect_client(void)
{
    int fd = socket_connect(scripted_port(scripted));
    assert_true(fd >= 0);
    return fd;
}

static void assert_bytes(int fd, const char *expected)
{
    char received[200] = "";
    assert_true(strlen(expected) < sizeof received);
    assert_true(socket_receive_all(fd, received, strlen(expected), 5000));
    assert_string_equal(received, expected);
}

static void assert_no_reply(int fd, int error)
{
    assert_null(wire_receive(fd, error == ETIMEDOUT ? SILENCE_MS : 5000));
    assert_int_equal(errno, error);
}

static void a_conversation_is_played(void **state)
{
    (void)state;
    scripted_play(scripted, "# first a command that is given in full\n"
                            "EXPECT SET \"a b\" 1\n"
                            "SEND +OK\\r\\n\n"
                            "\n"
                            "EXPECT EVALSHA * 1 name ...\n"
                            "SEND *2\\r\\n%{bulk 1}%{bulk 4}\n"
                            "EXPECT ~two words\n"
                            "SEND $3\\r\\n\\x00\\\\%\\r\\n");
    int fd = connect_client();
    assert_true(wire_answers(fd, "set 'a b' 1", "OK"));
    assert_true(wire_answers(fd, "EVALSHA 4f3c 1 name owner 5", "4f3c owner"));
    assert_false(scripted_wait_done(scripted, 10));
    assert_true(wire_send(fd, "ECHO 'of two words'"));
    char bytes[9];
    assert_true(socket_receive_all(fd, bytes, sizeof bytes, 5000));
    assert_memory_equal(bytes, "$3\r\n\0\\%\r\n", sizeof bytes);
    assert_true(scripted_wait_done(scripted, 5000));
    scripted_check(scripted);
    assert_int_equal(strncmp(scripted_url(scripted), "redis://127.0.0.1:", 18), 0);
    close(fd);
}

static void connections_end_as_written(void **state)
{
    (void)state;
    scripted_play(scripted, "EXPECT GET a\nSEND $5\\r\\nab\nCLOSE\n"
                            "EXPECT GET b\nRESET\n"
                            "ACCEPT\nACCEPT\nACCEPT\nSEND -ERR full\\r\\n\nCLOSE\n");
    int fd = connect_client();
    assert_true(wire_send(fd, "GET a"));
    assert_bytes(fd, "$5\r\nab");
    assert_no_reply(fd, 0);
    close(fd);
    fd = connect_client();
    assert_true(wire_send(fd, "GET b"));
    assert_no_reply(fd, ECONNRESET);
    close(fd);
    fd = connect_client(); /* the third is answered before it says anything */
    assert_bytes(fd, "-ERR full\r\n");
    assert_no_reply(fd, 0);
    close(fd);
    scripted_check(scripted);
    assert_int_equal(scripted_accepted(scripted), 3);
    assert_int_equal(scripted_open(scripted), 0);
}

static void silence_delays_everything(void **state)
{
    (void)state;
    scripted_handle(scripted, "PING", "+PONG\\r\\n");
    scripted_play(scripted, "EXPECT GET a\nSILENCE 100\nSEND _\\r\\n\n");
    int fd = connect_client();
    int other = connect_client();
    assert_true(wire_answers(other, "PING", "PONG"));
    const int64_t start_ms = boottime_ms();
    assert_true(wire_send(fd, "GET a") && wire_send(fd, "PING"));
    WAIT_UNTIL(scripted_count(scripted, "GET a") == 1, 5000);
    assert_true(wire_answers(other, "PING", "PONG"));
    assert_true(boottime_ms() - start_ms >= 99);
    assert_bytes(fd, "_\r\n+PONG\r\n");
    scripted_play(scripted, "SILENCE");
    assert_true(wire_send(fd, "PING"));
    assert_no_reply(fd, ETIMEDOUT);
    close(fd);
    close(other);
}

/* Far more than sockets can hold, and nothing of it is in memory. */
static void many_bytes_are_sent_while_they_are_read(void **state)
{
    (void)state;
    scripted_play(scripted, "EXPECT GET a\nBYTES 50000001 ab\\n\nCLOSE\n");
    int fd = connect_client();
    assert_true(wire_send(fd, "GET a"));
    static char data[1 << 16];
    uint64_t received = 0;
    for (;;) {
        ssize_t size = socket_receive(fd, data, sizeof data, 5000);
        assert_true(size >= 0);
        if (size == 0) {
            break;
        }
        for (ssize_t i = 0; i < size; i++) {
            assert_true(data[i] == "ab\n"[(received + (uint64_t)i) % 3]);
        }
        received += (uint64_t)size;
    }
    assert_int_equal(received, 50000001);
    assert_int_equal(scripted_sent_size(scripted), 50000001);
    scripted_check(scripted);
    close(fd);
}

static void steps_are_repeated(void **state)
{
    (void)state;
    scripted_play(scripted, "REPEAT 3\nEXPECT GET *\nSEND %{bulk 1}\nEND\nEXPECT PING\nSEND "
                            "+PONG\\r\\n\nREPEAT\nEXPECT TIME\nSEND :1\\r\\n\nEND\n");
    int fd = connect_client();
    assert_true(wire_answers(fd, "GET a", "a"));
    assert_true(wire_answers(fd, "GET b", "b"));
    assert_true(wire_answers(fd, "GET c", "c"));
    assert_false(scripted_wait_done(scripted, 10));
    assert_true(wire_answers(fd, "PING", "PONG"));
    for (int i = 0; i < 5; i++) {
        assert_true(wire_answers(fd, "TIME", "1"));
    }
    assert_true(scripted_wait_done(scripted, 5000)); /* nothing more has to come */
    assert_true(wire_answers(fd, "GET d", "(error) ERR the scripted server did not expect this"));
    close(fd);
}

static void answer_words(struct scripted_turn *turn, void *arg)
{
    text_addf(&turn->reply, ":%zu\r\n", turn->words->count + *(const size_t *)arg);
    turn->close = turn->words->count == 3;
}

static void handlers_answer_what_the_script_does_not(void **state)
{
    (void)state;
    size_t extra = 40;
    scripted_handle(scripted, "CONFIG", "+general\\r\\n");
    scripted_handle(scripted, "config get", "+special %{2}\\r\\n");
    scripted_handle_with(scripted, "COUNT", answer_words, &extra);
    scripted_play(scripted, "EXPECT CONFIG GET x\nSEND +scripted\\r\\n\n");
    int fd = connect_client();
    assert_true(wire_answers(fd, "CONFIG SET y 1", "general"));
    assert_true(wire_answers(fd, "CONFIG GET y", "special y"));
    assert_true(wire_answers(fd, "CONFIG GET x", "scripted"));
    assert_true(wire_answers(fd, "CONFIG GET x", "special x")); /* the script is over */
    assert_true(wire_answers(fd, "COUNT", "41"));
    assert_true(wire_answers(fd, "COUNT 1 2", "43"));
    assert_no_reply(fd, 0);
    scripted_check(scripted);
    close(fd);
}

/* Two connections; the script says to which one it speaks. */
static void pushes_go_to_the_connection_that_subscribed(void **state)
{
    (void)state;
    scripted_handshake(scripted);
    int listener = connect_client();
    int command = connect_client();
    assert_true(wire_send(listener, "HELLO 3"));
    free(wire_receive(listener, 5000));
    assert_true(wire_answers(listener, "SUBSCRIBE ch", "subscribe ch 1"));
    assert_true(wire_answers(command, "PING", "PONG"));
    scripted_play(scripted, "EXPECT GET a\nSEND :7\\r\\n\nON SUBSCRIBE ...\nSEND "
                            ">3\\r\\n+message\\r\\n+ch\\r\\n:0\\r\\n\nON GET a\nCLOSE\n");
    assert_true(wire_answers(command, "GET a", "7"));
    char *push = wire_receive(listener, 5000);
    assert_string_equal(push, "message ch 0");
    free(push);
    assert_no_reply(command, 0);
    scripted_check(scripted);
    assert_int_equal(scripted_open(scripted), 1);
    close(listener);
    close(command);
}

static void commands_are_recorded(void **state)
{
    (void)state;
    scripted_handle(scripted, "SET", "+OK\\r\\n");
    int fd = connect_client();
    int other = connect_client();
    assert_true(wire_answers(other, "SET 'a b' ''", "OK"));
    assert_true(wire_answers(fd, "SET c 1", "OK"));
    assert_int_equal(scripted_count(scripted, NULL), 2);
    assert_int_equal(scripted_count(scripted, "set * *"), 2);
    assert_int_equal(scripted_count(scripted, "SET c 1"), 1);
    assert_int_equal(scripted_count(scripted, "SET c"), 0);
    assert_int_equal(scripted_count(scripted, "~a b"), 1);
    char *command = scripted_command(scripted, 1);
    assert_string_equal(command, "SET c 1");
    free(command);
    assert_null(scripted_command(scripted, 2));
    struct resp_words words;
    assert_true(scripted_command_words(scripted, 0, &words));
    assert_int_equal(words.count, 3);
    assert_string_equal(words.items[1], "a b");
    assert_int_equal(words.sizes[2], 0);
    resp_free_words(&words);
    assert_int_equal(scripted_command_connection(scripted, 0), 2);
    assert_int_equal(scripted_command_connection(scripted, 1), 1);
    close(fd);
    close(other);
}

static void assert_error(const char *expected)
{
    char *error = scripted_error(scripted);
    assert_non_null(error);
    assert_string_equal(error, expected);
    free(error);
}

static void the_first_mismatch_is_reported(void **state)
{
    (void)state;
    assert_null(scripted_error(scripted));
    scripted_play(scripted, "EXPECT PING\nSEND +PONG\\r\\n\n# and then\nEXPECT GET a\n");
    int fd = connect_client();
    assert_true(wire_answers(fd, "PING", "PONG"));
    assert_true(wire_answers(fd, "GET b", "(error) ERR the scripted server did not expect this"));
    assert_true(wire_send(fd, "GET c"));
    assert_false(scripted_wait_done(scripted, 5000));
    assert_error("line 4 of the script: expected \"GET a\", but connection 1 sent \"GET b\", for "
                 "which there is no handler either");
    close(fd);
}

static void a_command_behind_the_script_is_a_mismatch(void **state)
{
    (void)state;
    scripted_play(scripted, "EXPECT PING\nSEND +PONG\\r\\n\n");
    int fd = connect_client();
    assert_true(wire_answers(fd, "PING", "PONG"));
    assert_true(wire_send(fd, "PING"));
    WAIT_UNTIL(scripted_count(scripted, "PING") == 2, 5000);
    assert_error("connection 1 sent \"PING\": the script expects nothing at this point (step 2 of "
                 "2), and there is no handler");
    close(fd);
}

static void what_is_no_command_is_a_mismatch(void **state)
{
    (void)state;
    int fd = connect_client();
    assert_true(socket_send_string(fd, "*1\r\n:5\r\n"));
    assert_no_reply(fd, ECONNRESET);
    assert_error("connection 1 sent what is no command: *1\r\n:5\r\n");
    close(fd);
}

static int check_unfinished(const struct child_pipes *pipes, const char *arg)
{
    (void)pipes;
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
    struct scripted *other = scripted_start();
    scripted_play(other, arg);
    scripted_check(other);
    return 0;
}

/* The exit status of a child that plays this and checks it without a client. */
static int status_of(const char *script)
{
    struct child *child = child_start("check", script);
    const int status = child_wait(child, 20000);
    child_free(child);
    return status;
}

static void mistakes_and_leftovers_fail_the_test(void **state)
{
    (void)state;
    static const char *const scripts[] = {"EXPECT PING", "EXPCT PING", "SEND \\q", "BYTES x a",
        "END", "REPEAT 2\nEXPECT A", "REPEAT 2\nSEND a\nEND", "REPEAT 0\nEXPECT A\nEND", "EXPECT",
        "EXPECT \"open", "CLOSE now", "SILENCE soon"};
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        assert_int_equal(status_of(scripts[i]), 128 + SIGABRT);
    }
    assert_int_equal(status_of("# nothing\n\n"), 0);
}

/* Both servers get the same command; what they say must look the same. */
static void assert_same_answer(int real, int played, const char *line)
{
    assert_true(wire_send(real, line) && wire_send(played, line));
    char *one = wire_receive(real, 5000);
    char *other = wire_receive(played, 5000);
    assert_non_null(one);
    assert_non_null(other);
    assert_string_equal(one, other);
    free(one);
    free(other);
}

static void cut_number_after(char *text, const char *word)
{
    char *place = strstr(text, word);
    assert_non_null(place);
    place += strlen(word);
    memset(place, '#', strspn(place, "0123456789"));
}

/* The connection's id is the only thing that may differ. */
static void assert_same_hello(int real, int played, const char *line)
{
    assert_true(wire_send(real, line) && wire_send(played, line));
    char *one = wire_receive(real, 5000);
    char *other = wire_receive(played, 5000);
    cut_number_after(one, " id ");
    cut_number_after(other, " id ");
    const char *end_of_one = strstr(one, " mode ");
    const char *end_of_other = strstr(other, " mode ");
    assert_string_equal(end_of_one, end_of_other);
    assert_memory_equal(one, other, strlen("server redis version "));
    free(one);
    free(other);
}

static void the_handshake_is_that_of_a_real_server(void **state)
{
    (void)state;
    struct server *server = server_start(NULL);
    scripted_handshake(scripted);
    int real = socket_connect(server_port(server));
    int played = connect_client();
    assert_same_hello(real, played, "HELLO 2");
    assert_same_answer(real, played, "SUBSCRIBE c1");
    assert_same_answer(real, played, "UNSUBSCRIBE c1");
    assert_same_hello(real, played, "HELLO 3 SETNAME x");
    static const char *const lines[] = {"CLIENT SETNAME y", "CLIENT NO-EVICT on", "SELECT 0",
        "PING", "ACL WHOAMI", "ROLE", "CONFIG GET no-such-thing", "SCRIPT LOAD 'return 1'",
        "SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "SSUBSCRIBE s", "SUNSUBSCRIBE s",
        "PUNSUBSCRIBE", "SUBSCRIBE c1", "UNSUBSCRIBE c1", "QUIT"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_same_answer(real, played, lines[i]);
    }
    assert_no_reply(played, 0);
    close(real);
    close(played);
    char *error = scripted_error(scripted);
    assert_null(error);
}

static bool info_says(int fd, const char *wanted)
{
    assert_true(wire_send(fd, "INFO"));
    char *info = wire_receive(fd, 5000);
    const bool found = info != NULL && strstr(info, wanted) != NULL;
    free(info);
    return found;
}

static void info_can_be_changed(void **state)
{
    (void)state;
    scripted_handshake(scripted);
    int fd = connect_client();
    assert_true(info_says(fd, "\r\nrole:master\r\n"));
    scripted_set_info(scripted, "role", "slave");
    scripted_set_info(scripted, "redis_version", "5.0.7");
    scripted_set_info(scripted, "extra", "1");
    assert_true(info_says(fd, "\r\nrole:slave\r\n"));
    assert_true(info_says(fd, "\r\nextra:1\r\n"));
    assert_false(info_says(fd, "role:master"));
    assert_true(wire_answers(fd, "HELLO 3",
        "server redis version 5.0.7 proto 3 id 1 mode standalone role replica modules []"));
    assert_true(info_says(fd, "redis_version:5.0.7\r\n"));
    close(fd);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, cleanup_teardown)

int main(int argc, char *argv[])
{
    static const struct child_role roles[] = {{"check", check_unfinished}};
    child_dispatch(argc, argv, roles, 1);
    const struct CMUnitTest tests[] = {
        CASE(a_conversation_is_played),
        CASE(connections_end_as_written),
        CASE(silence_delays_everything),
        CASE(many_bytes_are_sent_while_they_are_read),
        CASE(steps_are_repeated),
        CASE(handlers_answer_what_the_script_does_not),
        CASE(pushes_go_to_the_connection_that_subscribed),
        CASE(commands_are_recorded),
        CASE(the_first_mismatch_is_reported),
        CASE(a_command_behind_the_script_is_a_mismatch),
        CASE(what_is_no_command_is_a_mismatch),
        CASE(mistakes_and_leftovers_fail_the_test),
        CASE(the_handshake_is_that_of_a_real_server),
        CASE(info_can_be_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
