/* SPDX-License-Identifier: Apache-2.0 */
/* The flows of the fault proxy: queues of pieces, when a piece may be written, and how a connection
 * ends. See proxy_internal.h for the whole and for the rules of locking.
 *
 * A socket fd[side] is the receiver of flow[side] and the sender of the other flow. It is closed
 * when both are done with it (proxy__settle), when it fails (proxy__side_gone), or by a cut. */
#include "support/proxy_internal.h"

#include "support/sockets.h"
#include "support/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static uint64_t next_random(struct proxy *proxy)
{
    proxy->random += 0x9E3779B97F4A7C15u;
    uint64_t mix = proxy->random;
    mix = (mix ^ (mix >> 30)) * 0xBF58476D1CE4E5B9u;
    mix = (mix ^ (mix >> 27)) * 0x94D049BB133111EBu;
    return mix ^ (mix >> 31);
}

static void append(struct flow *flow, struct piece *piece)
{
    if (flow->last != NULL) {
        flow->last->next = piece;
    } else {
        flow->first = piece;
    }
    flow->last = piece;
}

static void pop(struct flow *flow)
{
    struct piece *piece = flow->first;
    flow->first = piece->next;
    if (flow->first == NULL) {
        flow->last = NULL;
    }
    free(piece);
}

void proxy__queue_data(struct proxy *proxy, struct flow *flow, enum proxy_direction direction,
    const char *data, size_t size)
{
    if (size == 0) {
        return;
    }
    int64_t due_us = boottime_us() + proxy->delay_us[direction];
    if (proxy->jitter_us[direction] > 0) {
        due_us += (int64_t)(next_random(proxy) % (uint64_t)proxy->jitter_us[direction]);
    }
    if (due_us > flow->due_us) {
        flow->due_us = due_us;
    }
    struct piece *piece = support_alloc(sizeof *piece + size);
    piece->kind = PIECE_DATA;
    piece->due_us = flow->due_us;
    piece->size = size;
    memcpy(piece->data, data, size);
    append(flow, piece);
    flow->received += size;
    flow->queued_size += size;
}

/* A mark acts when all that was queued before it has been written. */
void proxy__queue_mark(struct flow *flow, enum piece_kind kind, enum proxy_end how)
{
    struct piece *piece = support_alloc(sizeof *piece);
    piece->kind = kind;
    piece->how = how;
    piece->due_us = flow->due_us;
    append(flow, piece);
}

void proxy__drop_hold_marks(struct flow *flow)
{
    struct piece *piece = flow->first;
    flow->first = NULL;
    flow->last = NULL;
    while (piece != NULL) {
        struct piece *next = piece->next;
        piece->next = NULL;
        if (piece->kind == PIECE_HOLD) {
            free(piece);
        } else {
            append(flow, piece);
        }
        piece = next;
    }
}

/* What is queued will never be written. */
void proxy__drop_queue(struct proxy *proxy, struct link *link, enum proxy_direction direction)
{
    struct flow *flow = &link->flow[direction];
    while (flow->first != NULL) {
        pop(flow);
    }
    proxy__count_lost(proxy, link, direction, flow->queued_size);
    flow->passed += flow->queued_size;
    flow->queued_size = 0;
}

void proxy__source_ended(struct link *link, enum proxy_direction direction, bool reset)
{
    struct flow *flow = &link->flow[direction];
    if (flow->source_ended) {
        return;
    }
    flow->source_ended = true;
    /* The server never gets a reset: it would throw away bytes that it has not read yet, and
     * whether a late request counts would be a matter of luck. */
    const bool as_reset = reset && direction == PROXY_TO_CLIENT;
    if (!flow->deaf && !flow->over) {
        proxy__queue_mark(flow, as_reset ? PIECE_RESET : PIECE_END, PROXY_FIN);
    }
}

void proxy__side_gone(struct proxy *proxy, struct link *link, enum proxy_direction side, bool reset)
{
    if (link->fd[side] >= 0) {
        socket_close(link->fd[side]);
        link->fd[side] = -1;
    }
    if (side == PROXY_TO_SERVER) {
        link->connecting = false;
    }
    link->flow[side].over = true;
    proxy__drop_queue(proxy, link, side);
    proxy__source_ended(link, proxy__reverse(side), reset);
}

static void reset_side(struct proxy *proxy, struct link *link, enum proxy_direction side)
{
    if (link->fd[side] >= 0) {
        socket_reset(link->fd[side]);
        link->fd[side] = -1;
    }
    link->flow[side].over = true;
    proxy__drop_queue(proxy, link, side);
    link->flow[proxy__reverse(side)].deaf = true;
    link->flow[proxy__reverse(side)].source_ended = true;
}

/* Send FIN; the socket is closed when the peer has closed too, else our close could turn into a
 * reset that takes earlier bytes with it. */
static void finish_side(struct proxy *proxy, struct link *link, enum proxy_direction side)
{
    if (side == PROXY_TO_SERVER && link->connecting) {
        proxy__side_gone(proxy, link, side, false);
    }
    if (link->fd[side] >= 0) {
        shutdown(link->fd[side], SHUT_WR);
    }
    link->flow[side].over = true;
    link->flow[proxy__reverse(side)].deaf = true;
    proxy__drop_queue(proxy, link, side);
}

static void mute_side(struct proxy *proxy, struct link *link, enum proxy_direction side)
{
    link->flow[side].deaf = true;
    proxy__drop_queue(proxy, link, side);
}

void proxy__cut(struct proxy *proxy, struct link *link, enum proxy_end how)
{
    proxy->stats.cuts += link->is_copy ? 0 : 1;
    switch (how) {
    case PROXY_FIN:
        finish_side(proxy, link, PROXY_TO_CLIENT);
        finish_side(proxy, link, PROXY_TO_SERVER);
        break;
    case PROXY_RST:
        reset_side(proxy, link, PROXY_TO_CLIENT);
        reset_side(proxy, link, PROXY_TO_SERVER);
        break;
    case PROXY_ORPHAN:
        reset_side(proxy, link, PROXY_TO_CLIENT);
        break;
    case PROXY_MUTE:
        mute_side(proxy, link, PROXY_TO_CLIENT);
        mute_side(proxy, link, PROXY_TO_SERVER);
        break;
    }
}

/* Close what is no longer needed; true when the link is over altogether. */
bool proxy__settle(struct proxy *proxy, struct link *link)
{
    for (enum proxy_direction side = PROXY_TO_SERVER; side <= PROXY_TO_CLIENT; side++) {
        if (link->fd[side] >= 0 && link->flow[side].over &&
            link->flow[proxy__reverse(side)].source_ended) {
            socket_close(link->fd[side]);
            link->fd[side] = -1;
        }
    }
    /* A server that has closed will not read what is kept for it. */
    if (link->fd[PROXY_TO_CLIENT] < 0 && link->flow[PROXY_TO_CLIENT].source_ended) {
        proxy__side_gone(proxy, link, PROXY_TO_SERVER, false);
    }
    return link->fd[PROXY_TO_SERVER] < 0 && link->fd[PROXY_TO_CLIENT] < 0;
}

static bool is_held(
    const struct proxy *proxy, const struct link *link, enum proxy_direction direction)
{
    return link->flow[direction].held || (!link->is_copy && proxy->hold[direction]);
}

static bool is_stuck(
    const struct proxy *proxy, const struct link *link, enum proxy_direction direction)
{
    const struct flow *flow = &link->flow[direction];
    return flow->first == NULL || flow->over || is_held(proxy, link, direction) ||
           (direction == PROXY_TO_SERVER && link->connecting);
}

int64_t proxy__next_due_us(
    const struct proxy *proxy, const struct link *link, enum proxy_direction direction)
{
    const struct flow *flow = &link->flow[direction];
    if (is_stuck(proxy, link, direction) || flow->blocked) {
        return INT64_MAX;
    }
    return flow->first->due_us > flow->pause_us ? flow->first->due_us : flow->pause_us;
}

/* Bytes that may still pass before proxy_cut_after() acts on this flow. */
static uint64_t allowance(
    const struct proxy *proxy, const struct link *link, enum proxy_direction direction)
{
    const struct cut_rule *rule = &proxy->cut_after[direction];
    if (!rule->armed || link->is_copy) {
        return UINT64_MAX;
    }
    const uint64_t since = link->flow[direction].passed - link->flow[direction].cut_base;
    return since < rule->size ? rule->size - since : 0;
}

static void fire_cut(struct proxy *proxy, struct link *link, enum proxy_direction direction)
{
    proxy->cut_after[direction].armed = false;
    proxy__cut(proxy, link, proxy->cut_after[direction].how);
}

static void note_written(
    struct proxy *proxy, struct link *link, enum proxy_direction direction, size_t size)
{
    struct flow *flow = &link->flow[direction];
    flow->passed += size;
    flow->queued_size -= size;
    proxy->stats.bytes_passed[direction] += link->is_copy ? 0 : size;
    flow->first->done += size;
    if (flow->first->done == flow->first->size) {
        pop(flow);
    }
    if (direction == PROXY_TO_SERVER) {
        proxy__note_passed(proxy, link);
    }
    if (allowance(proxy, link, direction) == 0) {
        fire_cut(proxy, link, direction);
    }
}

/* Write as much of the first piece as may be written; false when the flow has to wait. */
static bool write_piece(struct proxy *proxy, struct link *link, enum proxy_direction direction)
{
    struct flow *flow = &link->flow[direction];
    const struct piece *piece = flow->first;
    const uint64_t allowed = allowance(proxy, link, direction);
    if (allowed == 0) {
        fire_cut(proxy, link, direction);
        return false;
    }
    size_t size = piece->size - piece->done;
    size = proxy->single_bytes && !link->is_copy ? 1 : size;
    size = size > allowed ? (size_t)allowed : size;
    ssize_t sent =
        send(link->fd[direction], piece->data + piece->done, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
        flow->blocked = errno == EAGAIN;
        if (errno != EAGAIN && errno != EINTR) {
            proxy__side_gone(proxy, link, direction, true);
        }
        return false;
    }
    if (proxy->single_bytes) {
        flow->pause_us = boottime_us() + proxy->gap_us;
    }
    note_written(proxy, link, direction, (size_t)sent);
    return !proxy->single_bytes;
}

/* In a blackhole the first piece vanishes. */
static void swallow_piece(struct proxy *proxy, struct link *link, enum proxy_direction direction)
{
    struct flow *flow = &link->flow[direction];
    const size_t size = flow->first->size - flow->first->done;
    flow->dark = true;
    flow->passed += size;
    flow->queued_size -= size;
    proxy__count_lost(proxy, link, direction, size);
    pop(flow);
}

/* The end of the stream, passed on as it came. */
static void pass_end(
    struct proxy *proxy, struct link *link, enum proxy_direction direction, bool reset)
{
    struct flow *flow = &link->flow[direction];
    pop(flow);
    if (reset) {
        reset_side(proxy, link, direction);
    } else {
        shutdown(link->fd[direction], SHUT_WR);
        flow->over = true;
    }
}

/* Deal with the first piece; false when the flow has to wait. */
static bool pass_piece(struct proxy *proxy, struct link *link, enum proxy_direction direction)
{
    struct flow *flow = &link->flow[direction];
    const enum piece_kind kind = flow->first->kind;
    const enum proxy_end how = flow->first->how;
    const bool dark = flow->dark || (proxy->blackhole[direction] && !link->is_copy);
    if (dark && (kind == PIECE_DATA || kind == PIECE_END || kind == PIECE_RESET)) {
        swallow_piece(proxy, link, direction);
        return true;
    }
    switch (kind) {
    case PIECE_DATA:
        return write_piece(proxy, link, direction);
    case PIECE_END:
    case PIECE_RESET:
        pass_end(proxy, link, direction, kind == PIECE_RESET);
        return false;
    case PIECE_CUT:
        pop(flow);
        proxy__cut(proxy, link, how);
        return false;
    case PIECE_HOLD:
        pop(flow);
        flow->held = true;
        return false;
    }
    return false;
}

/* Write what is due. */
void proxy__pump(struct proxy *proxy, struct link *link, enum proxy_direction direction)
{
    struct flow *flow = &link->flow[direction];
    flow->blocked = false;
    while (!is_stuck(proxy, link, direction) &&
           proxy__next_due_us(proxy, link, direction) <= boottime_us()) {
        if (!pass_piece(proxy, link, direction)) {
            break;
        }
    }
}
