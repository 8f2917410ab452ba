/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the clients of several servers at once; meet.h says how long. A meeting is never freed:
 * a thread may come back to it as long as the process lives. */
#include "run/meet.h"

#include "line/say.h"
#include "run/link.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>

enum {
    GRACE_US = 50 * US_PER_MS,      /* for those behind a majority, at least */
    SAME_OUTAGE_US = 10 * US_PER_S, /* that was told already */
};

/* One server. Guarded by the meeting's mutex but for what does not change, down to `url`. */
struct guest {
    struct run_meeting *meeting;
    char shown[CLI_QUOTE_SIZE]; /* its URL without secrets and parameters */
    char *url;
    bool came;       /* the rest is known, */
    bool dismissed;  /* or it goes on without it; `why` may become known later */
    bool told;       /* that it is away, */
    int64_t told_us; /* at that time: what the library says soon after is the same outage */
    pawl_client *client;
    pawl_status status;
    char why[RUN_TEXT_SIZE];
};

struct run_meeting {
    const struct run_options *run;
    pawl_client_options options;
    int wake_fd;
    int64_t began_us;
    int64_t grace_end_us; /* RUN_NEVER: no majority yet */
    pthread_mutex_t mutex;
    size_t opened; /* so many are enough, and it goes on without the others; 0: not yet */
    bool tells;    /* the lock can be had, or somebody has it: who is away is told */
    struct guest guests[RUN_SERVERS_MAX];
};

/* ===== The threads ===== */

/* What a client says. That a hold does without its server may be known: that was told when it
 * began, and once is enough. */
static void on_log(pawl_log_level level, const char *message, void *arg)
{
    struct guest *guest = arg;
    struct run_meeting *meeting = guest->meeting;
    bool said = false;
    if (strstr(message, " stands on ") != NULL) {
        pthread_mutex_lock(&meeting->mutex);
        said =
            meeting->run->quiet || (guest->told && run_now_us() - guest->told_us < SAME_OUTAGE_US);
        guest->told = true;
        pthread_mutex_unlock(&meeting->mutex);
    }
    if (!said) {
        meeting->options.log(level, message, meeting->options.log_arg);
    }
}

/* Should a server say something when a lazy client speaks for it already, it would be said twice.
 */
static void on_first_log(pawl_log_level level, const char *message, void *arg)
{
    struct guest *guest = arg;
    pthread_mutex_lock(&guest->meeting->mutex);
    const bool dismissed = guest->dismissed;
    pthread_mutex_unlock(&guest->meeting->mutex);
    if (!dismissed) {
        on_log(level, message, arg);
    }
}

/* What a server says of itself begins with its address, which has been said already. */
static const char *why_of(const struct guest *guest)
{
    const char *end = strstr(guest->why, ": ");
    const bool said =
        end != NULL && end > guest->why &&
        memmem(guest->shown, strlen(guest->shown), guest->why, (size_t)(end - guest->why)) != NULL;
    return said ? end + 2 : guest->why;
}

/* The lock can be had without it, but not without yet another. Mutex held. */
static void tell_absence(struct guest *guest)
{
    const struct run_meeting *meeting = guest->meeting;
    char text[RUN_TEXT_SIZE];
    if (!meeting->tells || meeting->opened == 0 || meeting->run->quiet || !guest->dismissed ||
        guest->told || guest->why[0] == '\0') {
        return;
    }
    guest->told = true;
    guest->told_us = run_now_us();
    snprintf(text, sizeof text, "%s: %.*s; going on with %zu of %zu servers", guest->shown,
        RUN_TEXT_SIZE - CLI_QUOTE_SIZE - 64, why_of(guest), meeting->opened,
        meeting->run->server_count);
    meeting->options.log(PAWL_LOG_WARNING, text, meeting->options.log_arg);
}

static void *meet(void *arg)
{
    struct guest *guest = arg;
    struct run_meeting *meeting = guest->meeting;
    pawl_client_options options = meeting->options;
    pawl_client *client = NULL;
    options.log = on_first_log;
    options.log_arg = guest;
    const pawl_status status = pawl_client_open(guest->url, &options, &client);
    explicit_bzero(guest->url, strlen(guest->url));

    pthread_mutex_lock(&meeting->mutex);
    const bool dismissed = guest->dismissed;
    if (status != PAWL_OK) {
        snprintf(guest->why, sizeof guest->why, "%s", pawl_last_error());
    }
    if (!dismissed) {
        guest->client = client;
        guest->status = status;
        guest->came = true;
        eventfd_write(meeting->wake_fd, 1);
    }
    tell_absence(guest);
    pthread_mutex_unlock(&meeting->mutex);
    if (dismissed && status == PAWL_OK) {
        pawl_client_close(client);
    }
    return NULL;
}

/* Who cannot be sent for has not come. */
static void invite(struct guest *guest, const char *url)
{
    pthread_t thread;
    cli_quote(url, guest->shown);
    guest->shown[strcspn(guest->shown, "?")] = '\0';
    guest->url = strdup(url);
    if (guest->url != NULL && pthread_create(&thread, NULL, meet, guest) == 0) {
        pthread_detach(thread);
        return;
    }
    if (guest->url != NULL) {
        explicit_bzero(guest->url, strlen(guest->url));
    }
    guest->status = PAWL_UNAVAILABLE;
    snprintf(guest->why, sizeof guest->why, "no memory or thread to meet it");
    guest->came = true;
}

/* ===== The keeper ===== */

struct run_meeting *run_meeting_start(
    const struct run_options *run, const pawl_client_options *options, int wake_fd)
{
    struct run_meeting *meeting = calloc(1, sizeof *meeting);
    if (meeting == NULL) {
        return NULL;
    }
    meeting->run = run;
    meeting->options = *options;
    meeting->wake_fd = wake_fd;
    meeting->began_us = run_now_us();
    meeting->grace_end_us = RUN_NEVER;
    pthread_mutex_init(&meeting->mutex, NULL);
    for (size_t i = 0; i < run->server_count; i++) {
        meeting->guests[i].meeting = meeting;
        invite(&meeting->guests[i], run->servers[i]);
    }
    return meeting;
}

/* It came to say something that no waiting mends. Mutex held. */
static bool is_final(const struct guest *guest)
{
    return guest->came && guest->status != PAWL_OK && !cli_passes(guest->status, guest->why);
}

bool run_meeting_goes_on(struct run_meeting *meeting, int64_t *until_us_out)
{
    const size_t count = meeting->run->server_count;
    const int64_t now_us = run_now_us();
    size_t came = 0;
    size_t opened = 0;
    bool failed = false;
    pthread_mutex_lock(&meeting->mutex);
    for (size_t i = 0; i < count; i++) {
        const struct guest *guest = &meeting->guests[i];
        came += guest->came ? 1 : 0;
        opened += guest->came && guest->status == PAWL_OK ? 1 : 0;
        failed = failed || is_final(guest);
    }
    pthread_mutex_unlock(&meeting->mutex);
    if (meeting->grace_end_us == RUN_NEVER && opened > count / 2) {
        const int64_t took_us = now_us - meeting->began_us;
        meeting->grace_end_us = now_us + (took_us > GRACE_US ? took_us : GRACE_US);
    }
    *until_us_out = meeting->grace_end_us;
    return !failed && came < count && now_us < meeting->grace_end_us;
}

/* The first of those who have failed for good; NULL: none. Mutex held. */
static const struct guest *find_failed(const struct run_meeting *meeting)
{
    for (size_t i = 0; i < meeting->run->server_count; i++) {
        const struct guest *guest = &meeting->guests[i];
        if (is_final(guest)) {
            return guest;
        }
    }
    return NULL;
}

/* Of several URLs one is wrong, or one server does not let us in: which? */
static void explain(const struct guest *guest, pawl_status status, char *why_out, size_t why_size)
{
    const struct run_meeting *meeting = guest->meeting;
    snprintf(why_out, why_size, "--redlock, server %zu of %zu, %s: %.*s%s",
        (size_t)(guest - meeting->guests) + 1, meeting->run->server_count, guest->shown,
        RUN_TEXT_SIZE - CLI_QUOTE_SIZE - 128, why_of(guest),
        status == PAWL_INVALID ? "" : "; nothing is run until that is mended");
}

/* Who has not come gets a client that does not wait for it. Mutex held. */
static pawl_status open_lazily(struct guest *guest, const char *url)
{
    pawl_client_options options = guest->meeting->options;
    options.lazy = true;
    options.log = on_log;
    options.log_arg = guest;
    const pawl_status status = pawl_client_open(url, &options, &guest->client);
    if (status != PAWL_OK) {
        snprintf(guest->why, sizeof guest->why, "%s", pawl_last_error());
    }
    return status;
}

pawl_status run_meeting_end(struct run_meeting *meeting, pawl_client *clients[RUN_SERVERS_MAX],
    size_t *count_out, char *why_out, size_t why_size)
{
    const size_t count = meeting->run->server_count;
    size_t opened = 0;
    pthread_mutex_lock(&meeting->mutex);
    const struct guest *failed = find_failed(meeting);
    pawl_status status = failed != NULL ? failed->status : PAWL_OK;
    for (size_t i = 0; i < count; i++) {
        opened += meeting->guests[i].client != NULL ? 1 : 0;
    }
    meeting->opened = opened > count / 2 ? opened : 0;
    for (size_t i = 0; i < count; i++) {
        struct guest *guest = &meeting->guests[i];
        guest->dismissed = guest->client == NULL;
        if (guest->dismissed && status == PAWL_OK) {
            status = open_lazily(guest, meeting->run->servers[i]);
            failed = status != PAWL_OK ? guest : NULL;
        }
        if (guest->client != NULL) {
            clients[(*count_out)++] = guest->client;
        }
    }
    if (failed != NULL) {
        explain(failed, status, why_out, why_size);
    }
    pthread_mutex_unlock(&meeting->mutex);
    return status;
}

void run_meeting_tell(struct run_meeting *meeting)
{
    pthread_mutex_lock(&meeting->mutex);
    meeting->tells = true;
    for (size_t i = 0; i < meeting->run->server_count; i++) {
        tell_absence(&meeting->guests[i]);
    }
    pthread_mutex_unlock(&meeting->mutex);
}
