/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See worker.h. Each thread works alone but for the counters of struct load_run: a ticket is taken
 * for every order before anything is sent. A connection that failed rests a little before its next
 * order, so that a shop that is gone does not eat all tickets within a moment.
 */
#include "load/worker.h"

#include "common/clock.h"
#include "load/reader.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 256,
    RECEIVE_SIZE = 16384,
    BODY_SIZE = 256,      /* enough for the words and the port that are looked for */
    CONNECTING_MAX = 64,  /* at a time, or the other side's queue of newcomers overflows */
    SWEEP_US = 20 * 1000, /* how often deadlines are looked at */
    REST_US = 100 * 1000, /* after a failure */
    WATCH_US = 20 * 1000, /* how often the watcher is called */
};

enum state {
    IDLE,       /* nothing under way */
    CONNECTING, /* until the deadline */
    CONNECTED,  /* waits for the beginning */
    SENDING,    /* the order does not fit into the socket's buffer yet */
    WAITING,    /* for the answer, until the deadline */
    RESTING,    /* until the deadline, with a ticket */
    OVER,       /* no ticket left */
};

struct connection {
    int fd; /* -1: none */
    enum state state;
    int64_t deadline_us;
    int64_t sent_us;
    size_t sent;          /* bytes of the order */
    enum trouble trouble; /* why it could not be made */
    bool failed;          /* it could not */
    struct reader reader;
    char body[BODY_SIZE];
    const struct target *target;
};

struct worker {
    struct load_run *run;
    pthread_t thread;
    bool is_running;
    int poll;
    struct connection *connections;
    size_t count;
    size_t connecting;
    size_t left; /* connections that are not OVER */
    struct outcome outcome;
    char buffer[RECEIVE_SIZE];
};

/* ===== Making connections ===== */

static void watch_for(struct worker *worker, struct connection *connection, uint32_t events, int op)
{
    struct epoll_event event = {.events = events, .data.ptr = connection};
    epoll_ctl(worker->poll, op, connection->fd, &event);
}

static void hang_up(struct connection *connection)
{
    if (connection->fd >= 0) {
        close(connection->fd); /* leaves the epoll set with it */
        connection->fd = -1;
    }
}

static enum trouble trouble_of(int error)
{
    switch (error) {
    case ECONNREFUSED:
        return TROUBLE_REFUSED;
    case ECONNRESET:
    case EPIPE:
        return TROUBLE_CLOSED;
    case ETIMEDOUT:
        return TROUBLE_TIMEOUT;
    case EMFILE:
    case ENFILE:
        return TROUBLE_FILES;
    case EADDRNOTAVAIL:
        return TROUBLE_PORTS;
    default:
        return TROUBLE_OTHER;
    }
}

/* Begin to connect; 0, or the error. */
static int dial(struct worker *worker, struct connection *connection)
{
    const struct target *target = connection->target;
    connection->fd =
        socket(target->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (connection->fd < 0) {
        return errno;
    }
    const int on = 1;
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(connection->fd, (const struct sockaddr *)&target->address, target->address_size) !=
            0 &&
        errno != EINPROGRESS) {
        const int error = errno;
        hang_up(connection);
        return error;
    }
    connection->state = CONNECTING;
    connection->deadline_us = now_us() + worker->run->plan->timeout_us;
    watch_for(worker, connection, EPOLLOUT, EPOLL_CTL_ADD);
    return 0;
}

/* What came of connecting; 0, or the error. */
static int dialled(struct connection *connection)
{
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
        hang_up(connection);
    }
    return error;
}

/* ===== Orders ===== */

static void begin_order(struct worker *worker, struct connection *connection);

/* One more order if there is one and it is not too late. */
static bool take_ticket(struct load_run *run)
{
    const struct load_plan *plan = run->plan;
    if (atomic_load_explicit(&run->stopped, memory_order_relaxed)) {
        return false;
    }
    if (plan->for_us > 0 && now_us() - atomic_load(&run->begun_us) > plan->for_us) {
        return false;
    }
    if (atomic_fetch_add(&run->given, 1) >= plan->orders) {
        atomic_fetch_sub(&run->given, 1);
        return false;
    }
    return true;
}

static void next_order(struct worker *worker, struct connection *connection)
{
    if (take_ticket(worker->run)) {
        begin_order(worker, connection);
        return;
    }
    hang_up(connection);
    connection->state = OVER;
    worker->left--;
}

static void note_end(struct load_run *run, int64_t at_us)
{
    atomic_fetch_add_explicit(&run->ended, 1, memory_order_relaxed);
    atomic_store_explicit(&run->ended_us, at_us, memory_order_relaxed);
}

static void note_sale(struct load_run *run, int64_t at_us)
{
    const int64_t for_us = run->plan->for_us;
    atomic_fetch_add_explicit(&run->sold, 1, memory_order_relaxed);
    if (for_us == 0 || at_us - atomic_load(&run->begun_us) <= for_us) {
        atomic_fetch_add_explicit(&run->sold_in_time, 1, memory_order_relaxed);
    }
    const int64_t gap_us = at_us - atomic_exchange(&run->last_sold_us, at_us);
    int64_t longest_us = atomic_load_explicit(&run->longest_us, memory_order_relaxed);
    while (gap_us > longest_us &&
           !atomic_compare_exchange_weak(&run->longest_us, &longest_us, gap_us)) {
    }
}

/* The order under way gets no answer; the connection is of no use any more. */
static void fail_order(struct worker *worker, struct connection *connection, enum trouble trouble)
{
    const int64_t at_us = now_us();
    outcome_trouble(&worker->outcome, trouble);
    note_end(worker->run, at_us);
    hang_up(connection);
    if (take_ticket(worker->run)) {
        connection->state = RESTING;
        connection->deadline_us = at_us + REST_US;
    } else {
        connection->state = OVER;
        worker->left--;
    }
}

static void send_order(struct worker *worker, struct connection *connection)
{
    const struct target *target = connection->target;
    const ssize_t sent = send(connection->fd, target->order + connection->sent,
        target->order_length - connection->sent, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        fail_order(worker, connection, trouble_of(errno));
        return;
    }
    connection->sent += sent > 0 ? (size_t)sent : 0;
    const bool is_sent = connection->sent == target->order_length;
    if (!is_sent) {
        connection->state = SENDING;
        watch_for(worker, connection, EPOLLOUT, EPOLL_CTL_MOD);
    } else if (connection->state != WAITING) {
        connection->state = WAITING;
        watch_for(worker, connection, EPOLLIN, EPOLL_CTL_MOD);
    }
}

/* Send the order for which a ticket was taken, or make a connection for it. */
static void begin_order(struct worker *worker, struct connection *connection)
{
    if (connection->fd < 0) {
        const int error = dial(worker, connection);
        if (error != 0) {
            fail_order(worker, connection, trouble_of(error));
        }
        return;
    }
    reader_reset(&connection->reader);
    connection->sent = 0;
    connection->sent_us = now_us();
    connection->deadline_us = connection->sent_us + worker->run->plan->timeout_us;
    send_order(worker, connection);
}

static void end_order(struct worker *worker, struct connection *connection)
{
    const int64_t at_us = now_us();
    const struct reader *reader = &connection->reader;
    const enum answer answer =
        outcome_answer(&worker->outcome, reader->status, reader->body, at_us - connection->sent_us);
    note_end(worker->run, at_us);
    if (answer == ANSWER_SOLD) {
        note_sale(worker->run, at_us);
    }
    if (!reader->keeps_open) {
        hang_up(connection);
    }
    next_order(worker, connection);
}

static void receive(struct worker *worker, struct connection *connection)
{
    const ssize_t got = recv(connection->fd, worker->buffer, sizeof worker->buffer, 0);
    if (got < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            fail_order(worker, connection, trouble_of(errno));
        }
        return;
    }
    struct reader *reader = &connection->reader;
    if (got == 0) {
        if (reader_end(reader)) {
            end_order(worker, connection);
        } else {
            fail_order(worker, connection, TROUBLE_CLOSED);
        }
        return;
    }
    const size_t taken = reader_feed(reader, worker->buffer, (size_t)got);
    if (reader->state == READER_BAD || taken < (size_t)got) {
        fail_order(worker, connection, TROUBLE_NOT_HTTP);
    } else if (reader->state == READER_DONE) {
        end_order(worker, connection);
    }
}

/* ===== A thread's two rounds: connecting, then ordering ===== */

static void handle(struct worker *worker, struct connection *connection)
{
    if (connection->state == CONNECTING) {
        const int error = dialled(connection);
        if (error != 0) {
            fail_order(worker, connection, trouble_of(error));
        } else {
            begin_order(worker, connection);
        }
    } else if (connection->state == SENDING) {
        send_order(worker, connection);
    } else if (connection->state == WAITING) {
        receive(worker, connection);
    }
}

/* Look at the clocks of all connections. */
static void sweep(struct worker *worker)
{
    const int64_t at_us = now_us();
    for (size_t i = 0; i < worker->count; i++) {
        struct connection *connection = &worker->connections[i];
        if (connection->state == OVER || at_us < connection->deadline_us) {
            continue;
        }
        if (connection->state == RESTING) {
            begin_order(worker, connection);
        } else {
            fail_order(worker, connection, TROUBLE_TIMEOUT);
        }
    }
}

static void settle(struct worker *worker, struct connection *connection, int error)
{
    connection->failed = error != 0;
    connection->trouble = trouble_of(error);
    connection->state = error == 0 ? CONNECTED : IDLE;
    if (error == 0) {
        watch_for(worker, connection, 0, EPOLL_CTL_MOD);
        atomic_fetch_add(&worker->run->connected, 1);
    }
}

/* Wait until one of those that are connecting has settled. */
static void await_connection(struct worker *worker)
{
    struct epoll_event events[CONNECTING_MAX];
    const int count = epoll_wait(worker->poll, events, CONNECTING_MAX, SWEEP_US / 1000);
    for (int i = 0; i < count; i++) {
        struct connection *connection = events[i].data.ptr;
        if (connection->state == CONNECTING) {
            settle(worker, connection, dialled(connection));
            worker->connecting--;
        } else if (connection->state == CONNECTED) {
            hang_up(connection); /* already thrown out again */
            settle(worker, connection, ECONNRESET);
        }
    }
    const int64_t at_us = now_us();
    for (size_t i = 0; count <= 0 && i < worker->count; i++) {
        struct connection *connection = &worker->connections[i];
        if (connection->state == CONNECTING && at_us > connection->deadline_us) {
            hang_up(connection);
            settle(worker, connection, ETIMEDOUT);
            worker->connecting--;
        }
    }
}

static void connect_all(struct worker *worker)
{
    size_t begun = 0;
    while (
        !atomic_load(&worker->run->stopped) && (begun < worker->count || worker->connecting > 0)) {
        if (begun < worker->count && worker->connecting < CONNECTING_MAX) {
            struct connection *connection = &worker->connections[begun++];
            const int error = dial(worker, connection);
            if (error != 0) {
                settle(worker, connection, error);
            } else {
                worker->connecting++;
            }
        } else {
            await_connection(worker);
        }
    }
}

/* Everybody's first order. Its ticket is reserved: a quick thread must not take it away. */
static void begin_all(struct worker *worker)
{
    worker->left = worker->count;
    for (size_t i = 0; i < worker->count; i++) {
        struct connection *connection = &worker->connections[i];
        if (atomic_load(&worker->run->stopped)) {
            atomic_fetch_sub(&worker->run->given, 1);
        } else if (connection->failed) {
            fail_order(worker, connection, connection->trouble);
        } else {
            begin_order(worker, connection);
        }
    }
}

static void order_all(struct worker *worker)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t swept_us = now_us();
    begin_all(worker);
    while (worker->left > 0 && !atomic_load_explicit(&worker->run->stopped, memory_order_relaxed)) {
        const int count = epoll_wait(worker->poll, events, EVENTS_MAX, SWEEP_US / 1000);
        for (int i = 0; i < count; i++) {
            handle(worker, events[i].data.ptr);
        }
        if (now_us() - swept_us > SWEEP_US) {
            sweep(worker);
            swept_us = now_us();
        }
    }
}

/* Wait for the other threads, so that all begin at the same moment. */
static void await_others(struct load_run *run)
{
    pthread_mutex_lock(&run->mutex);
    /* Whoever is the last one here sets the clock for all. */
    const int64_t at_us = now_us();
    atomic_store(&run->begun_us, at_us);
    atomic_store(&run->last_sold_us, at_us);
    run->connecting--;
    pthread_cond_broadcast(&run->all_connected);
    while (run->connecting > 0 && !atomic_load(&run->stopped)) {
        pthread_cond_wait(&run->all_connected, &run->mutex);
    }
    pthread_mutex_unlock(&run->mutex);
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct load_run *run = worker->run;
    connect_all(worker);
    await_others(run);
    order_all(worker);
    for (size_t i = 0; i < worker->count; i++) {
        hang_up(&worker->connections[i]);
    }
    atomic_fetch_sub(&run->running, 1);
    return NULL;
}

/* ===== All threads ===== */

static bool open_worker(struct worker *worker, struct load_run *run, size_t number)
{
    const struct load_plan *plan = run->plan;
    const size_t threads = (size_t)plan->threads;
    const size_t all = (size_t)plan->connections;
    worker->run = run;
    worker->count = all / threads + (number < all % threads ? 1 : 0);
    worker->poll = epoll_create1(EPOLL_CLOEXEC);
    worker->connections = calloc(worker->count, sizeof *worker->connections);
    if (worker->poll < 0 || !worker->connections) {
        return false;
    }
    for (size_t i = 0; i < worker->count; i++) {
        struct connection *connection = &worker->connections[i];
        connection->fd = -1;
        connection->target = &plan->targets[(i + number) % plan->target_count];
        reader_init(&connection->reader, connection->body, sizeof connection->body);
    }
    return true;
}

static void close_worker(struct worker *worker)
{
    if (worker->poll >= 0) {
        close(worker->poll);
    }
    free(worker->connections);
}

/* Signals are for the thread that watches. False: not all could be started, and the others leave.
 */
static bool start_all(struct load_run *run, struct worker *workers, size_t count)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    size_t started = 0;
    atomic_store(&run->running, (int)count);
    while (started < count &&
           pthread_create(&workers[started].thread, NULL, work, &workers[started]) == 0) {
        workers[started++].is_running = true;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started < count) {
        atomic_fetch_sub(&run->running, (int)(count - started));
        pthread_mutex_lock(&run->mutex);
        atomic_store(&run->stopped, true);
        pthread_cond_broadcast(&run->all_connected);
        pthread_mutex_unlock(&run->mutex);
    }
    return started == count;
}

bool load_run(struct load_run *run, struct outcome *outcome_out,
    void (*watch)(struct load_run *run, void *arg), void *watch_arg)
{
    const size_t threads = (size_t)run->plan->threads;
    struct worker *workers = calloc(threads, sizeof *workers);
    if (!workers) {
        return false;
    }
    pthread_mutex_init(&run->mutex, NULL);
    pthread_cond_init(&run->all_connected, NULL);
    run->connecting = (int)threads;
    atomic_store(&run->given, run->plan->connections);
    bool ready = true;
    for (size_t i = 0; i < threads; i++) {
        ready = open_worker(&workers[i], run, i) && ready;
    }
    ready = ready && start_all(run, workers, threads);
    while (atomic_load(&run->running) > 0) {
        watch(run, watch_arg);
        sleep_us(WATCH_US);
    }
    for (size_t i = 0; i < threads; i++) {
        if (workers[i].is_running) {
            pthread_join(workers[i].thread, NULL);
        }
        outcome_merge(outcome_out, &workers[i].outcome);
        close_worker(&workers[i]);
    }
    pthread_cond_destroy(&run->all_connected);
    pthread_mutex_destroy(&run->mutex);
    free(workers);
    return ready;
}
