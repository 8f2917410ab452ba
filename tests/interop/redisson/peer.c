/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the Java half and talking to it.
 *
 * Answers come as "number text" lines in any order; those that nobody has asked for yet are kept in
 * a table by number. The class path is in the environment, from run.sh. */
#include "peer.h"

#include "support/fail.h"
#include "support/process.h"
#include "support/text.h"
#include "support/wait.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_MS 60000
#define CALL_MS 10000
#define REQUESTS 4096 /* more than all cases together make */

struct peer {
    struct child *child;
    char version[64];
    unsigned epoch;          /* part of the names of threads */
    unsigned last;           /* number of the newest request */
    char *answers[REQUESTS]; /* by number; NULL: not yet */
};

static void free_peer(void *object)
{
    struct peer *peer = object;
    for (unsigned i = 0; i < REQUESTS; i++) {
        free(peer->answers[i]);
    }
    free(peer);
}

struct peer *peer_start(const char *url, int64_t watchdog_ms)
{
    const char *class_path = getenv("PAWL_INTEROP_CLASSPATH");
    if (class_path == NULL) {
        support_skip_program(
            "PAWL_INTEROP_CLASSPATH is not set; tests/interop/redisson/run.sh sets it");
    }
    char watchdog[24];
    snprintf(watchdog, sizeof watchdog, "%lld", (long long)watchdog_ms);
    /* Little threads and the quick compiler only: what counts is a short start. */
    const char *const argv[] = {"java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m",
        "-cp", class_path, "peer.Peer", url, watchdog, NULL};
    struct peer *peer = support_alloc(sizeof *peer);
    cleanup_add(free_peer, peer);
    peer->child = child_spawn(argv);
    char *line = child_read_line(peer->child, START_MS);
    if (line == NULL || sscanf(line, "ready %63s", peer->version) != 1) {
        support_fail("the Java peer said: %s", line != NULL ? line : "nothing");
    }
    free(line);
    return peer;
}

const char *peer_version(const struct peer *peer)
{
    return peer->version;
}

void peer_kill(struct peer *peer)
{
    child_signal(peer->child, SIGKILL);
    if (child_wait(peer->child, CALL_MS) < 0) {
        support_fail("the Java peer did not end");
    }
}

void peer_new_threads(struct peer *peer)
{
    peer->epoch++;
}

__attribute__((format(printf, 3, 0))) static unsigned ask(
    struct peer *peer, const char *thread, const char *format, va_list arguments)
{
    char request[512];
    vsnprintf(request, sizeof request, format, arguments);
    if (++peer->last >= REQUESTS) {
        support_fail("the peer's table of answers is too small");
    }
    char line[600];
    snprintf(line, sizeof line, "%u %u/%s %s\n", peer->last, peer->epoch, thread, request);
    if (!child_write(peer->child, line)) {
        support_fail("the Java peer has ended");
    }
    return peer->last;
}

unsigned peer_ask(struct peer *peer, const char *thread, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const unsigned request = ask(peer, thread, format, arguments);
    va_end(arguments);
    return request;
}

/* Take one line from the peer; false if none came within the time. */
static bool take_answer(struct peer *peer, int64_t timeout_ms)
{
    char *line = child_read_line(peer->child, timeout_ms);
    if (line == NULL) {
        return false;
    }
    char *text = NULL;
    const unsigned long request = strtoul(line, &text, 10);
    if (request == 0 || request > peer->last || *text != ' ' || peer->answers[request] != NULL) {
        support_fail("the Java peer said: %s", line);
    }
    peer->answers[request] = support_copy(text + 1, strlen(text + 1));
    free(line);
    return true;
}

const char *peer_answer(struct peer *peer, unsigned request, int64_t timeout_ms)
{
    const int64_t end_ms = boottime_ms() + timeout_ms;
    while (peer->answers[request] == NULL) {
        const int64_t left_ms = end_ms - boottime_ms();
        if (!take_answer(peer, left_ms > 0 ? left_ms : 0)) {
            support_fail("%s within %lld ms",
                child_is_running(peer->child) ? "no answer from Java" : "Java ended",
                (long long)timeout_ms);
        }
    }
    return peer->answers[request];
}

bool peer_is_waiting(struct peer *peer, unsigned request)
{
    while (take_answer(peer, 0)) {
    }
    return peer->answers[request] == NULL;
}

const char *peer_call(struct peer *peer, const char *thread, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const unsigned request = ask(peer, thread, format, arguments);
    va_end(arguments);
    return peer_answer(peer, request, CALL_MS);
}

void peer_assert_at(const char *got, const char *wanted, const char *file, int line)
{
    const size_t size = strlen(wanted);
    const bool open = size > 3 && strcmp(wanted + size - 3, "...") == 0;
    if (open ? strncmp(got, wanted, size - 3) != 0 : strcmp(got, wanted) != 0) {
        support_fail("%s:%d: Java answered \"%s\", not \"%s\"", file, line, got, wanted);
    }
}
