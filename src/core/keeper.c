/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper: one thread per client that renews, serves timers, and reads for the engine when no
 * caller does. It is started when there is first something to do for it, and never runs a user's
 * code.
 *
 * It sleeps on a timer descriptor of CLOCK_BOOTTIME, so that it wakes at the right time also after
 * the machine was suspended. It tells under the mutex when it will look next (target_us), and
 * whoever arms an earlier timer kicks it. Timers that a blocking caller serves itself only count as
 * a safety net. */
#include "core/client.h"

#include "base/clock.h"
#include "base/fds.h"
#include "base/thread.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* How late a caller may be with its own timers before the keeper helps out. */
#define NET_US 20000

/* The client that the calling thread is the keeper of; NULL: it is none. */
static _Thread_local const struct pawl_client *kept;

bool pawl__keeper_init(struct pawl__keeper *keeper)
{
    keeper->target_us = PAWL__NEVER;
    keeper->timer_fd = -1;
    keeper->wake_fd = pawl__fd_eventfd();
    return keeper->wake_fd >= 0;
}

/* When the keeper has to look. Mutex held. */
static int64_t next_look(struct pawl_client *client)
{
    int64_t due_us = pawl__machine_due(&client->machine);
    if (due_us != PAWL__NEVER && pawl__machine_served(&client->machine)) {
        due_us = pawl__later(due_us, NET_US);
    }
    return due_us;
}

bool pawl__keeper_wanted(struct pawl_client *client)
{
    struct pawl__keeper *keeper = &client->keeper;
    if (pawl__machine_due(&client->machine) >= keeper->target_us ||
        pawl__machine_served(&client->machine)) {
        return false;
    }
    keeper->target_us = pawl__machine_due(&client->machine);
    return true;
}

static void arm(int timer_fd, int64_t due_us)
{
    struct itimerspec when = {{0, 0}, {0, 0}};
    if (due_us != PAWL__NEVER) {
        due_us = pawl__max64(due_us, 1); /* zero would disarm it */
        when.it_value.tv_sec = due_us / 1000000;
        when.it_value.tv_nsec = (due_us % 1000000) * 1000;
    }
    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* One read empties both kinds of descriptor. */
static void drain(int fd)
{
    uint64_t ignored;
    const ssize_t size = read(fd, &ignored, sizeof ignored);
    (void)size; /* it was readable a moment ago, and nobody else reads */
}

/* Serve the timers; says when to look next. False: it is time to stop. */
static bool tick(struct pawl_client *client, int64_t *due_us)
{
    pawl__client_lock(client);
    bool stopping = client->keeper.stopping;
    pawl__machine_tick(&client->machine, pawl__now_us());
    *due_us = next_look(client);
    client->keeper.target_us = *due_us;
    pawl__client_unlock(client, false);
    return !stopping;
}

static void *run(void *arg)
{
    struct pawl_client *client = arg;
    const struct pawl__engine *engine = client->engine;
    int64_t due_us = PAWL__NEVER;
    kept = client;
    while (tick(client, &due_us)) {
        struct pollfd fds[2 + PAWL__POLL_MAX] = {
            {client->keeper.wake_fd, POLLIN, 0}, {client->keeper.timer_fd, POLLIN, 0}};
        size_t count = engine->poll != NULL ? engine->poll(client->self, fds + 2, &due_us) : 0;
        arm(client->keeper.timer_fd, due_us);
        poll(fds, (nfds_t)(2 + count), -1);
        if (fds[0].revents != 0) {
            drain(client->keeper.wake_fd);
        }
        if (fds[1].revents != 0) {
            drain(client->keeper.timer_fd);
        }
        if (engine->pump != NULL) {
            client->keeper.pumping = true;
            engine->pump(client->self, fds + 2, count);
            client->keeper.pumping = false;
        }
    }
    return NULL;
}

static bool start(struct pawl_client *client)
{
    struct pawl__keeper *keeper = &client->keeper;
    keeper->timer_fd = pawl__fd_timerfd();
    if (keeper->timer_fd < 0) {
        return false;
    }
    if (!pawl__thread_start(&keeper->thread, "pawl-keeper", run, client)) {
        pawl__fd_close(keeper->timer_fd);
        keeper->timer_fd = -1;
        return false;
    }
    return true;
}

void pawl__keeper_attend(struct pawl_client *client)
{
    if (kept != client) { /* the keeper itself asks the engine before it sleeps */
        pawl__keeper_kick(client);
    }
}

void pawl__keeper_look(struct pawl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    const bool started = client->keeper.started;
    pthread_mutex_unlock(&client->mutex);
    if (started) {
        pawl__keeper_attend(client);
    }
}

/* What is held has a timer, for its renewal or its end, and so has what is waited for. */
bool pawl__keeper_busy(struct pawl__host *host)
{
    struct pawl_client *client = PAWL__CONTAINER(host, struct pawl_client, host);
    pthread_mutex_lock(&client->mutex);
    const bool busy = pawl__machine_due(&client->machine) != PAWL__NEVER;
    pthread_mutex_unlock(&client->mutex);
    return busy;
}

void pawl__keeper_kick(struct pawl_client *client)
{
    struct pawl__keeper *keeper = &client->keeper;
    if (kept == client && keeper->pumping) {
        return; /* we look at the timers next */
    }
    pthread_mutex_lock(&client->mutex);
    if (keeper->started) {
        eventfd_write(keeper->wake_fd, 1); /* the mutex is held, so it is not closed meanwhile */
    } else if (!keeper->stopping) {
        keeper->started = start(client);
        if (!keeper->started) {
            keeper->target_us = PAWL__NEVER; /* the next step tries again */
        }
    }
    pthread_mutex_unlock(&client->mutex);
}

void pawl__keeper_stop(struct pawl_client *client)
{
    struct pawl__keeper *keeper = &client->keeper;
    pthread_mutex_lock(&client->mutex);
    keeper->stopping = true;
    bool started = keeper->started;
    pthread_mutex_unlock(&client->mutex);
    if (started) {
        eventfd_write(keeper->wake_fd, 1);
        pthread_join(keeper->thread, NULL);
    }
    pthread_mutex_lock(&client->mutex);
    keeper->started = false;
    pawl__fd_close(keeper->timer_fd);
    pawl__fd_close(keeper->wake_fd);
    keeper->timer_fd = -1;
    keeper->wake_fd = -1;
    pthread_mutex_unlock(&client->mutex);
}
