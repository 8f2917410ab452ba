/* SPDX-License-Identifier: Apache-2.0 */
/* Peers are the test program executed again in one of the roles below. Their arguments are words
 * with spaces between; a name of the suite has none inside. */
#include "conformance/lib/peer.h"

#include "conformance/lib/tools.h"
#include "support/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORD_SIZE 300

/* ===== In the peer ===== */

struct session {
    pawl_client *client;
    pawl_lock *members[2]; /* of a multi-lock */
    pawl_lock *lock;
    struct recorder *recorder;
};

static pawl_status open_one_or_two(
    struct session *session, const char *name, const pawl_lock_options *options)
{
    char first[WORD_SIZE];
    const char *comma = strchr(name, ',');
    if (comma == NULL) {
        return pawl_lock_open(session->client, name, options, &session->lock);
    }
    snprintf(first, sizeof first, "%.*s", (int)(comma - name), name);
    pawl_lock **members = session->members;
    pawl_status status = pawl_lock_open(session->client, first, options, &members[0]);
    if (status == PAWL_OK) {
        status = pawl_lock_open(session->client, comma + 1, options, &members[1]);
    }
    return status == PAWL_OK ? pawl_lock_open_multi(members, 2, NULL, &session->lock) : status;
}

static int open_session(
    const char *url, const char *name, pawl_lock_options *options, struct session *session_out)
{
    struct session session = {.recorder = recorder_new()};
    record_events(options, session.recorder);
    pawl_status status = pawl_client_open(url, NULL, &session.client);
    if (status == PAWL_OK) {
        status = open_one_or_two(&session, name, options);
    }
    if (status != PAWL_OK) {
        fprintf(stderr, "%s\n", pawl_last_error());
        return 1;
    }
    *session_out = session;
    return 0;
}

static void close_session(const struct session *session)
{
    pawl_lock_close(session->lock);
    pawl_lock_close(session->members[0]);
    pawl_lock_close(session->members[1]);
    pawl_client_close(session->client);
}

static void answer_request(const struct session *session, const char *request)
{
    long long wait_ms = 0;
    if (sscanf(request, "acquire %lld", &wait_ms) == 1) {
        puts(pawl_status_string(pawl_lock_acquire(session->lock, wait_ms)));
    } else if (strcmp(request, "release") == 0) {
        puts(pawl_status_string(pawl_lock_release(session->lock)));
    } else if (strcmp(request, "token") == 0) {
        printf("%" PRIu64 "\n", pawl_lock_token(session->lock));
    } else if (strcmp(request, "lost") == 0) {
        printf("%zu\n", recorder_count_of(session->recorder, RECORD_LOST));
    } else {
        printf("what is %s?\n", request);
    }
    fflush(stdout);
}

static int run_peer(const struct child_pipes *pipes, const char *arg)
{
    (void)pipes;
    char url[WORD_SIZE];
    char name[WORD_SIZE];
    char request[WORD_SIZE];
    int renew = 0;
    int kind = 0;
    long long lease_ms = 0;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    struct session session;
    if (sscanf(arg, "%299s %299s %lld %d %d", url, name, &lease_ms, &renew, &kind) != 5) {
        return 2;
    }
    options.lease_ms = lease_ms;
    options.renew = renew != 0;
    options.kind = (pawl_kind)kind;
    if (open_session(url, name, &options, &session) != 0) {
        return 1;
    }
    puts("open");
    fflush(stdout);
    while (fgets(request, sizeof request, stdin) != NULL) {
        request[strcspn(request, "\n")] = '\0';
        answer_request(&session, request);
    }
    close_session(&session);
    return 0;
}

static int run_counter(const struct child_pipes *pipes, const char *arg)
{
    (void)pipes;
    char url[WORD_SIZE];
    char name[WORD_SIZE];
    char path[WORD_SIZE];
    unsigned rounds = 0;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    struct session session;
    if (sscanf(arg, "%299s %299s %299s %u", url, name, path, &rounds) != 4 ||
        open_session(url, name, &options, &session) != 0) {
        return 2;
    }
    for (unsigned i = 0; i < rounds; i++) {
        if (pawl_lock_acquire(session.lock, SOON_MS) != PAWL_OK) {
            fprintf(stderr, "%s\n", pawl_last_error());
            return 1;
        }
        number_add(path);
        if (pawl_lock_release(session.lock) != PAWL_OK) {
            fprintf(stderr, "%s\n", pawl_last_error());
            return 1;
        }
    }
    close_session(&session);
    return 0;
}

const struct child_role peer_roles[] = {{"peer", run_peer}, {"counter", run_counter}};
const size_t peer_role_count = sizeof peer_roles / sizeof peer_roles[0];

/* ===== In the case ===== */

static struct child *start(const char *role, struct text *arg)
{
    struct child *child = child_start(role, arg->data);
    text_free(arg);
    return child;
}

struct child *peer_start(
    const struct suite *suite, const char *name, const struct peer_options *options)
{
    struct text arg = {0};
    text_addf(&arg, "%s %s %lld %d %d", suite->url, name, (long long)options->lease_ms,
        options->renew ? 1 : 0, (int)options->kind);
    struct child *peer = start("peer", &arg);
    peer_expect(peer, "open");
    return peer;
}

void peer_tell(struct child *peer, const char *request)
{
    struct text line = {0};
    text_addf(&line, "%s\n", request);
    const bool told = child_write(peer, line.data);
    text_free(&line);
    assert_true(told);
}

static void next_answer(struct child *peer, char answer_out[WORD_SIZE])
{
    char *line = child_read_line(peer, SOON_MS);
    if (line == NULL) {
        support_fail("no answer from the other process");
    }
    snprintf(answer_out, WORD_SIZE, "%s", line);
    free(line);
}

void peer_expect(struct child *peer, const char *word)
{
    char answer[WORD_SIZE];
    next_answer(peer, answer);
    assert_string_equal(answer, word);
}

uint64_t peer_number(struct child *peer)
{
    char answer[WORD_SIZE];
    char *end = NULL;
    next_answer(peer, answer);
    errno = 0;
    const uint64_t number = strtoull(answer, &end, 10);
    assert_true(errno == 0 && end != answer && *end == '\0');
    return number;
}

void peer_ask(struct child *peer, const char *request, const char *word)
{
    peer_tell(peer, request);
    peer_expect(peer, word);
}

struct child *peer_start_counter(
    const struct suite *suite, const char *name, const char *path, unsigned rounds)
{
    struct text arg = {0};
    text_addf(&arg, "%s %s %s %u", suite->url, name, path, rounds);
    return start("counter", &arg);
}

/* ===== The number ===== */

uint64_t number_read(const char *path)
{
    uint64_t number = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (read(fd, &number, sizeof number) != (ssize_t)sizeof number) {
            number = 0;
        }
        close(fd);
    }
    return number;
}

void number_add(const char *path)
{
    const uint64_t number = number_read(path) + 1;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        if (write(fd, &number, sizeof number) != (ssize_t)sizeof number) {
            fprintf(stderr, "%s: %s\n", path, strerror(errno));
        }
        close(fd);
    }
}
