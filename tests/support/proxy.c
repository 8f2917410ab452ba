/* SPDX-License-Identifier: Apache-2.0 */
/* The outside of the fault proxy: start, stop, settings, rules, counters. Every function takes the
 * proxy's mutex, changes or reads, and wakes the loop, which does the work; see proxy_internal.h.
 */
#include "support/proxy_internal.h"

#include "support/fail.h"
#include "support/sockets.h"
#include "support/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LISTEN_BACKLOG 128

static void change_begin(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
}

static void change_end(struct proxy *proxy)
{
    thread_wake(proxy->wake_fd);
    pthread_mutex_unlock(&proxy->mutex);
}

static void replace_text(char **place, const char *text)
{
    free(*place);
    *place = text != NULL ? support_copy(text, strlen(text)) : NULL;
}

static void free_all(struct proxy *proxy)
{
    while (proxy->links != NULL) {
        struct link *link = proxy->links;
        proxy->links = link->next;
        proxy__link_free(link);
    }
    for (size_t i = 0; i < proxy->request_count; i++) {
        free(proxy->requests[i]->text);
        free(proxy->requests[i]->raw);
        free(proxy->requests[i]);
    }
    free(proxy->requests);
    free(proxy->cut_reply.text);
    free(proxy->copy_next.text);
    free(proxy->hold_from);
    free(proxy->upstream_path);
    free(proxy->url);
    free(proxy);
}

static void end_proxy(void *object)
{
    struct proxy *proxy = object;
    change_begin(proxy);
    proxy->stopping = true;
    change_end(proxy);
    pthread_join(proxy->thread, NULL);
    socket_close(proxy->listen_fd);
    close(proxy->wake_fd);
    pthread_cond_destroy(&proxy->changed);
    pthread_mutex_destroy(&proxy->mutex);
    free_all(proxy);
}

static struct proxy *start(uint16_t upstream_port, const char *upstream_path)
{
    struct proxy *proxy = support_alloc(sizeof *proxy);
    proxy->upstream_port = upstream_port;
    replace_text(&proxy->upstream_path, upstream_path);
    proxy->random = 1;
    proxy->listen_fd = socket_listen(&proxy->port);
    proxy->wake_fd = thread_make_wake();
    struct text url = {0};
    text_addf(&url, "redis://127.0.0.1:%u", (unsigned)proxy->port);
    proxy->url = text_take(&url);
    pthread_mutex_init(&proxy->mutex, NULL);
    thread_make_condition(&proxy->changed);
    thread_start(&proxy->thread, proxy__run, proxy);
    cleanup_add(end_proxy, proxy);
    return proxy;
}

struct proxy *proxy_start(uint16_t upstream_port)
{
    return start(upstream_port, NULL);
}

struct proxy *proxy_start_unix(const char *upstream_path)
{
    return start(0, upstream_path);
}

struct proxy *proxy_start_for(const struct server *server)
{
    return start(server_port(server), NULL);
}

void proxy_stop(struct proxy *proxy)
{
    if (proxy != NULL) {
        cleanup_drop(proxy);
        end_proxy(proxy);
    }
}

uint16_t proxy_port(const struct proxy *proxy)
{
    return proxy->port;
}

const char *proxy_url(const struct proxy *proxy)
{
    return proxy->url;
}

void proxy_set_delay(
    struct proxy *proxy, enum proxy_direction direction, int64_t delay_ms, int64_t jitter_ms)
{
    change_begin(proxy);
    proxy->delay_us[direction] = delay_ms * 1000;
    proxy->jitter_us[direction] = jitter_ms * 1000;
    change_end(proxy);
}

void proxy_set_seed(struct proxy *proxy, uint64_t seed)
{
    change_begin(proxy);
    proxy->random = seed;
    change_end(proxy);
}

void proxy_byte_by_byte(struct proxy *proxy, bool on, int64_t gap_us)
{
    change_begin(proxy);
    proxy->single_bytes = on;
    proxy->gap_us = gap_us;
    change_end(proxy);
}

void proxy_blackhole(struct proxy *proxy, enum proxy_direction direction, bool on)
{
    change_begin(proxy);
    proxy->blackhole[direction] = on;
    change_end(proxy);
}

/* The socket keeps its port all the time: shutting a listener down makes the kernel refuse, and
 * listening again on the same socket takes that back. */
void proxy_refuse(struct proxy *proxy, bool on)
{
    int result = 0;
    change_begin(proxy);
    if (on && !proxy->refusing) {
        result = shutdown(proxy->listen_fd, SHUT_RD);
    } else if (!on && proxy->refusing) {
        result = listen(proxy->listen_fd, LISTEN_BACKLOG);
    }
    const int error = errno;
    proxy->refusing = on;
    change_end(proxy);
    if (result != 0) {
        support_fail("the proxy cannot change its listening: %s", strerror(error));
    }
}

void proxy_hold(struct proxy *proxy, enum proxy_direction direction)
{
    change_begin(proxy);
    proxy->hold[direction] = true;
    change_end(proxy);
}

void proxy_hold_present(struct proxy *proxy, enum proxy_direction direction)
{
    change_begin(proxy);
    for (struct link *link = proxy->links; link != NULL; link = link->next) {
        link->flow[direction].held = true;
    }
    change_end(proxy);
}

void proxy_hold_from(struct proxy *proxy, const char *text)
{
    change_begin(proxy);
    replace_text(&proxy->hold_from, text);
    change_end(proxy);
}

void proxy_release(struct proxy *proxy, enum proxy_direction direction)
{
    change_begin(proxy);
    proxy->hold[direction] = false;
    if (direction == PROXY_TO_SERVER) {
        replace_text(&proxy->hold_from, NULL);
    }
    for (struct link *link = proxy->links; link != NULL; link = link->next) {
        if (!link->is_copy) {
            link->flow[direction].held = false;
            proxy__drop_hold_marks(&link->flow[direction]);
        }
    }
    change_end(proxy);
}

void proxy_release_copies(struct proxy *proxy)
{
    change_begin(proxy);
    for (struct link *link = proxy->links; link != NULL; link = link->next) {
        if (link->is_copy) {
            link->flow[PROXY_TO_SERVER].held = false;
        }
    }
    change_end(proxy);
}

/* The loop carries the order out; wait until it has. */
static void give_order(struct proxy *proxy, const char *text, enum proxy_end how)
{
    change_begin(proxy);
    while (proxy->cut_order.given) { /* another thread's */
        pthread_cond_wait(&proxy->changed, &proxy->mutex);
    }
    proxy->cut_order = (struct cut_order){.given = true, .text = text, .how = how};
    thread_wake(proxy->wake_fd);
    while (proxy->cut_order.given) {
        pthread_cond_wait(&proxy->changed, &proxy->mutex);
    }
    change_end(proxy);
}

void proxy_cut_now(struct proxy *proxy, enum proxy_end how)
{
    give_order(proxy, NULL, how);
}

void proxy_cut_those(struct proxy *proxy, const char *text, enum proxy_end how)
{
    give_order(proxy, text, how);
}

void proxy_cut_after(
    struct proxy *proxy, enum proxy_direction direction, uint64_t size, enum proxy_end how)
{
    change_begin(proxy);
    proxy->cut_after[direction] = (struct cut_rule){.armed = true, .size = size, .how = how};
    for (struct link *link = proxy->links; link != NULL; link = link->next) {
        link->flow[direction].cut_base = link->flow[direction].passed;
    }
    change_end(proxy);
}

void proxy_cut_reply_of(struct proxy *proxy, const char *text, unsigned nth, enum proxy_end how)
{
    change_begin(proxy);
    replace_text(&proxy->cut_reply.text, text);
    proxy->cut_reply.left = nth > 0 ? nth : 1;
    proxy->cut_reply.how = how;
    change_end(proxy);
}

void proxy_disarm(struct proxy *proxy)
{
    change_begin(proxy);
    proxy->cut_after[PROXY_TO_SERVER].armed = false;
    proxy->cut_after[PROXY_TO_CLIENT].armed = false;
    replace_text(&proxy->cut_reply.text, NULL);
    replace_text(&proxy->copy_next.text, NULL);
    replace_text(&proxy->hold_from, NULL);
    change_end(proxy);
}

void proxy_duplicate_next(struct proxy *proxy, const char *text, bool held)
{
    change_begin(proxy);
    replace_text(&proxy->copy_next.text, text);
    proxy->copy_next.held = held;
    change_end(proxy);
}

struct proxy_stats proxy_stats(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    const struct proxy_stats stats = proxy->stats;
    pthread_mutex_unlock(&proxy->mutex);
    return stats;
}

enum progress { RECEIVED, FORWARDED, ANSWERED };

/* Matching requests that got so far; the mutex is held. */
static uint64_t count_requests(const struct proxy *proxy, const char *text, enum progress progress)
{
    uint64_t count = 0;
    for (size_t i = 0; i < proxy->request_count; i++) {
        const struct request *request = proxy->requests[i];
        const bool far_enough = progress == RECEIVED ||
                                (progress == FORWARDED && request->forwarded) ||
                                (progress == ANSWERED && request->answered);
        count += far_enough && bytes_contain(request->text, request->text_size, text) ? 1 : 0;
    }
    return count;
}

static uint64_t count_now(struct proxy *proxy, const char *text, enum progress progress)
{
    pthread_mutex_lock(&proxy->mutex);
    const uint64_t count = count_requests(proxy, text, progress);
    pthread_mutex_unlock(&proxy->mutex);
    return count;
}

uint64_t proxy_received(struct proxy *proxy, const char *text)
{
    return count_now(proxy, text, RECEIVED);
}

uint64_t proxy_forwarded(struct proxy *proxy, const char *text)
{
    return count_now(proxy, text, FORWARDED);
}

uint64_t proxy_answered(struct proxy *proxy, const char *text)
{
    return count_now(proxy, text, ANSWERED);
}

bool proxy_wait_for(struct proxy *proxy,
    bool (*condition)(const struct proxy_stats *stats, void *arg), void *arg, int64_t timeout_ms)
{
    const struct timespec end = thread_deadline(timeout_ms);
    pthread_mutex_lock(&proxy->mutex);
    bool holds = condition(&proxy->stats, arg);
    int error = 0;
    while (!holds && error == 0) {
        error = pthread_cond_timedwait(&proxy->changed, &proxy->mutex, &end);
        holds = condition(&proxy->stats, arg);
    }
    pthread_mutex_unlock(&proxy->mutex);
    return holds;
}

struct awaited_requests {
    const struct proxy *proxy;
    const char *text;
    enum progress progress;
    uint64_t count;
};

static bool enough_requests(const struct proxy_stats *stats, void *arg)
{
    (void)stats;
    const struct awaited_requests *wanted = arg;
    return count_requests(wanted->proxy, wanted->text, wanted->progress) >= wanted->count;
}

bool proxy_wait_received(struct proxy *proxy, const char *text, uint64_t count, int64_t timeout_ms)
{
    struct awaited_requests wanted = {proxy, text, RECEIVED, count};
    return proxy_wait_for(proxy, enough_requests, &wanted, timeout_ms);
}

bool proxy_wait_forwarded(struct proxy *proxy, const char *text, uint64_t count, int64_t timeout_ms)
{
    struct awaited_requests wanted = {proxy, text, FORWARDED, count};
    return proxy_wait_for(proxy, enough_requests, &wanted, timeout_ms);
}
