/* SPDX-License-Identifier: Apache-2.0 */
/* How this process hears that a lock may be free, or that a file it holds was taken away.
 *
 * One inotify descriptor per client watches every lock file that is open. A release touches the
 * file (IN_ATTRIB) if somebody waits; a holder that ends without releasing closes it
 * (IN_CLOSE_WRITE); deleting or replacing the file changes its link count (IN_ATTRIB), moving it is
 * IN_MOVE_SELF.
 *
 * Who asks to (see place.c) also hears of everybody who opens the file (IN_OPEN): that is how those
 * who come tell a holder that believes to be alone. Nobody is woken for it.
 *
 * Two things make up for what events do not tell:
 *  - The kernel announces that a killed process closes the file *before* it frees the lock, and
 *    says nothing afterwards. So a close is followed by more wake-ups after 1, 2, 4 ... 64 ms,
 *    until one of them yields the lock. (A touch needs none: it comes after the unlock.)
 *  - Where no watch can be had (128 inotify instances per user by default) timers stand in.
 *
 * Who reads: a caller that waits takes the seat and polls for all (the leader), the others sleep on
 * their waiters; when nobody leads, the client's keeper polls, as long as anything is held or
 * watched. We also hear our own touches; the core knows that. */
#include "engine/file/file.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fds.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define EVENTS (IN_ATTRIB | IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF)
#define PAUSE_US_MIN 1000
#define PAUSE_US_MAX 64000
#define BLIND_US PAWL__POLL_US /* between two looks at a file that cannot be watched */
#define LOOK_US 20000   /* how often a leader without an eventfd looks whether its wait is over */
#define KEEPER_US 50000 /* how often the keeper looks whether anybody still leads */

bool pawl__news_init(struct pawl__file_engine *self)
{
    self->inotify_fd = -1;
    self->wake_fd = -1;
    self->keeper_due_us = PAWL__NEVER;
    pawl__list_init(&self->notices);
    pawl__seat_init(&self->seat);
    return pawl__map_init(&self->watches);
}

void pawl__news_free(struct pawl__file_engine *self)
{
    pawl__fd_close(self->inotify_fd);
    pawl__fd_close(self->wake_fd);
    pawl__map_free(&self->watches);
    pawl__free(self->warning);
}

/* ===== Notices ===== */

static void queue_notice(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    if (pawl__list_empty(&place->notice_node)) {
        pawl__list_push(&self->notices, &place->notice_node);
    }
}

void pawl__news_wake(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    place->wake_due = true;
    queue_notice(self, place);
}

void pawl__news_lost(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    place->lost_due = true;
    place->lost_id = place->id;
    queue_notice(self, place);
}

/* ===== Watching files ===== */

/* Say once that waiting and the report of lost locks are slower than they should be. */
static void warn(struct pawl__file_engine *self, int error)
{
    if (!self->warned) {
        self->warned = true;
        self->warning =
            pawl__format("no inotify watch (%s): waiting for locks in %s is slower; raise "
                         "fs.inotify.max_user_instances or max_user_watches, and mount /proc",
                pawl__errno_text(error), self->directory.path);
    }
}

/* Through the descriptor, not the path: the file that is open is the one to watch. */
static int add_watch(struct pawl__file_engine *self, int fd, uint32_t events)
{
    if (self->inotify_fd < 0) {
        self->inotify_fd = pawl__fd_inotify();
    }
    if (self->inotify_fd < 0) {
        return -1;
    }
    char path[48];
    snprintf(path, sizeof path, "/proc/thread-self/fd/%d", fd);
    return inotify_add_watch(self->inotify_fd, path, events);
}

static struct pawl__file_place *find_watched(struct pawl__file_engine *self, int wd)
{
    struct pawl__map_node *node =
        pawl__map_find(&self->watches, (const char *)(const void *)&wd, sizeof wd);
    return node == NULL ? NULL : PAWL__CONTAINER(node, struct pawl__file_place, wd_node);
}

void pawl__news_begin(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    if (place->wd < 0) {
        int wd = add_watch(self, place->file.fd, EVENTS);
        if (wd < 0) {
            warn(self, errno);
        } else if (find_watched(self, wd) == NULL) {
            place->wd = wd;
            const char *key = (const char *)(const void *)&place->wd;
            pawl__map_add(&self->watches, &place->wd_node, key, sizeof place->wd);
        }
    }
    pawl__news_rearm(self, place);
}

bool pawl__news_hear_opens(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    if (place->wd >= 0 && !place->hears_opens) {
        place->hears_opens = add_watch(self, place->file.fd, EVENTS | IN_OPEN) == place->wd;
    }
    return place->hears_opens;
}

static void forget_watch(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    pawl__map_remove(&self->watches, &place->wd_node);
    place->wd = -1;
    place->sure = false;
    place->hears_opens = false;
    place->alone = false;
}

void pawl__news_end(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    if (place->wd >= 0) {
        inotify_rm_watch(self->inotify_fd, place->wd);
        forget_watch(self, place);
    }
    pawl__timer_clear(&self->timers, &place->timer);
}

/* ===== Timers ===== */

static void set_timer(
    struct pawl__file_engine *self, struct pawl__file_place *place, int64_t pause_us)
{
    place->pause_us = pause_us;
    pawl__timer_set(&self->timers, &place->timer, pawl__now_us() + pause_us);
}

void pawl__news_rearm(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    bool blind = place->wd < 0 && place->file.fd >= 0;
    if (blind && place->held) {
        set_timer(self, place, BLIND_US);
    } else if (blind && place->watched) {
        set_timer(self, place, PAUSE_US_MIN);
    } else if (place->held || !place->watched) {
        pawl__timer_clear(&self->timers, &place->timer);
    }
}

static void look_at_hold(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    if (pawl__place_check(self, place) == PAWL_LOST) {
        pawl__place_lose(self, place, true);
    }
}

static void on_timer(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    if (place->held) {
        set_timer(self, place, BLIND_US);
        look_at_hold(self, place);
        return;
    }
    pawl__news_wake(self, place);
    if (place->pause_us < PAUSE_US_MAX) {
        set_timer(self, place, place->pause_us * 2);
    } else if (place->wd < 0) {
        set_timer(self, place, BLIND_US);
    } else {
        pawl__timer_clear(&self->timers, &place->timer);
    }
}

static int64_t first_due(const struct pawl__file_engine *self)
{
    const struct pawl__timer *first = pawl__heap_first(&self->timers);
    return first == NULL ? PAWL__NEVER : first->due_us;
}

static void serve_timers(struct pawl__file_engine *self)
{
    int64_t now_us = pawl__now_us();
    while (first_due(self) <= now_us) {
        struct pawl__timer *first = pawl__heap_first(&self->timers);
        on_timer(self, PAWL__CONTAINER(first, struct pawl__file_place, timer));
    }
}

/* ===== Events ===== */

static void on_event(struct pawl__file_engine *self, struct pawl__file_place *place, uint32_t mask)
{
    if (mask != IN_CLOSE_WRITE) {
        place->alone = false;
        place->sure = place->sure && mask == IN_OPEN;
    }
    if (mask == IN_OPEN) {
        return;
    }
    if ((mask & IN_IGNORED) != 0) {
        forget_watch(self, place); /* the file system was unmounted */
        pawl__news_rearm(self, place);
    } else if (place->held) {
        if (mask != IN_CLOSE_WRITE) {
            look_at_hold(self, place);
        }
    } else if (place->watched) {
        pawl__news_wake(self, place);
        if ((mask & IN_CLOSE_WRITE) != 0) {
            set_timer(self, place, PAUSE_US_MIN);
        }
    }
}

/* Too many events at once: any of them may have been for anybody. */
static void on_overflow(struct pawl__file_engine *self)
{
    struct pawl__list *node = self->places.next;
    while (node != &self->places) {
        struct pawl__list *next = node->next;
        on_event(self, PAWL__CONTAINER(node, struct pawl__file_place, all_node),
            IN_ATTRIB | IN_CLOSE_WRITE);
        node = next;
    }
}

static void read_events(struct pawl__file_engine *self)
{
    _Alignas(struct inotify_event) char buffer[4096];
    ssize_t size = read(self->inotify_fd, buffer, sizeof buffer);
    for (ssize_t at = 0; at < size;) {
        const struct inotify_event *event = (const void *)(buffer + at);
        at += (ssize_t)(sizeof *event + event->len);
        if ((event->mask & IN_Q_OVERFLOW) != 0) {
            on_overflow(self);
            continue;
        }
        struct pawl__file_place *place = find_watched(self, event->wd);
        if (place != NULL) {
            on_event(self, place, event->mask);
        }
    }
}

void pawl__news_drain(struct pawl__file_engine *self)
{
    int size = 0;
    while (self->inotify_fd >= 0 && ioctl(self->inotify_fd, FIONREAD, &size) == 0 && size > 0) {
        read_events(self);
    }
}

/* ===== The leader ===== */

/* Sleep until there is something to read, and read it. False: the wait is over, or somebody wants
 * us to look again, or a time has come. Locks: the mutex is held when it begins and ends, not in
 * between. */
static bool lead_once(
    struct pawl__file_engine *self, struct pawl__waiter *waiter, int64_t deadline_us)
{
    self->leader_due_us = pawl__min64(deadline_us, first_due(self));
    if (self->wake_fd < 0) {
        self->leader_due_us = pawl__min64(self->leader_due_us, pawl__now_us() + LOOK_US);
    }
    struct pollfd fds[2] = {{.fd = -1}, {.fd = self->inotify_fd, .events = POLLIN}};
    int wake_fd = self->wake_fd;
    int64_t due_us = self->leader_due_us;
    pthread_mutex_unlock(&self->mutex);
    bool ready = pawl__waiter_poll(waiter, fds, 2, wake_fd, due_us) > 0;
    pthread_mutex_lock(&self->mutex);
    if (ready) {
        read_events(self);
    }
    serve_timers(self);
    pthread_mutex_unlock(&self->mutex);
    pawl__news_deliver(self, false);
    pthread_mutex_lock(&self->mutex);
    return ready;
}

static void lead(struct pawl__file_engine *self, struct pawl__waiter *waiter, int64_t deadline_us)
{
    if (self->wake_fd < 0) {
        self->wake_fd = pawl__fd_eventfd();
    }
    self->leader = waiter;
    while (!pawl__waiter_done(waiter) && lead_once(self, waiter, deadline_us)) {
    }
    self->leader = NULL;
    pawl__seat_yield(&self->seat);
}

void pawl__news_hand_over(struct pawl__file_engine *self)
{
    if (!self->seat.taken) {
        pawl__seat_yield(&self->seat); /* nudges the oldest follower, if there is one */
    }
}

/* A nudge may mean that the seat is free, or that the core wants its caller to look again. So it
 * goes back to the core, which sends it here again if it still waits. Waking the next one already
 * now would wake them all, one after the other, each time that the leader changes. Only who surely
 * does not come back does so; who comes back with an operation instead hands over then; and should
 * it not come back at all, the keeper listens. */
static void follow(struct pawl__file_engine *self, struct pawl__waiter *waiter, int64_t deadline_us)
{
    pthread_mutex_unlock(&self->mutex);
    bool awake = pawl__waiter_sleep(waiter, deadline_us);
    pthread_mutex_lock(&self->mutex);
    if (awake && !pawl__waiter_done(waiter)) {
        pawl__list_remove(&waiter->node);
    } else {
        pawl__seat_leave(&self->seat, waiter);
    }
}

void pawl__file_drive(
    void *self_, enum pawl__await what, struct pawl__waiter *waiter, int64_t deadline_us)
{
    struct pawl__file_engine *self = self_;
    if (what == PAWL__AWAIT_ANSWER) {
        /* Answers come inside submit(), on whatever thread calls it; there is nothing to read. */
        pawl__waiter_sleep(waiter, deadline_us);
        return;
    }
    pthread_mutex_lock(&self->mutex);
    if (pawl__seat_take(&self->seat, waiter)) {
        lead(self, waiter, deadline_us);
    } else {
        follow(self, waiter, deadline_us);
    }
    pthread_mutex_unlock(&self->mutex);
    pawl__news_deliver(self, false);
}

/* ===== The keeper ===== */

static bool has_events(const struct pawl__file_engine *self)
{
    return self->inotify_fd >= 0 && (self->held_count > 0 || self->watched_count > 0);
}

/* Whether attend() has to be called: nobody leads, and the keeper does not know. */
static bool keeper_is_needed(const struct pawl__file_engine *self, bool driven)
{
    if (self->seat.taken || self->keeper_asked) {
        return false;
    }
    bool unheard = has_events(self) && !self->keeper_polls && self->keeper_due_us == PAWL__NEVER;
    if (driven && self->held_count == 0) {
        unheard = false; /* the caller itself is about to listen */
    }
    return unheard || first_due(self) < self->keeper_due_us;
}

size_t pawl__file_poll(void *self_, struct pollfd *fds, int64_t *due_us)
{
    struct pawl__file_engine *self = self_;
    pthread_mutex_lock(&self->mutex);
    self->keeper_asked = false;
    self->keeper_polls = !self->seat.taken && has_events(self);
    self->keeper_due_us = first_due(self);
    if (self->seat.taken) {
        /* Rather than being called each time that a leader gets up, it looks now and then. */
        self->keeper_due_us = has_events(self) ? pawl__now_us() + KEEPER_US : PAWL__NEVER;
    }
    if (self->keeper_polls) {
        fds[0] = (struct pollfd){.fd = self->inotify_fd, .events = POLLIN};
    }
    *due_us = pawl__min64(*due_us, self->keeper_due_us);
    size_t count = self->keeper_polls ? 1 : 0;
    pthread_mutex_unlock(&self->mutex);
    return count;
}

void pawl__file_pump(void *self_, const struct pollfd *fds, size_t count)
{
    struct pawl__file_engine *self = self_;
    pthread_mutex_lock(&self->mutex);
    if (!self->seat.taken) {
        if (count > 0 && (fds[0].revents & POLLIN) != 0) {
            read_events(self);
        }
        serve_timers(self);
    }
    pthread_mutex_unlock(&self->mutex);
    pawl__news_deliver(self, false);
}

/* ===== Telling the host ===== */

/* Tell the notices of one place. Locks: the mutex is held at the beginning and at the end, not in
 * between. */
static void tell(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    /* The place may be closed as soon as the mutex is free. */
    char name[PAWL__NAME_SIZE_MAX];
    size_t name_size = place->base.name_size;
    memcpy(name, place->base.name, name_size);
    bool lost = place->lost_due;
    uint64_t lost_id = place->lost_id;
    bool wake = place->wake_due;
    place->lost_due = false;
    place->wake_due = false;
    pthread_mutex_unlock(&self->mutex);
    if (lost) {
        self->host->lost(self->host, name, name_size, lost_id);
    }
    if (wake) {
        self->host->wake(self->host, name, name_size, 0);
    }
    pthread_mutex_lock(&self->mutex);
}

static bool leader_is_late(const struct pawl__file_engine *self)
{
    return self->leader != NULL && first_due(self) < self->leader_due_us;
}

bool pawl__news_is_due(const struct pawl__file_engine *self, bool driven)
{
    return !pawl__list_empty(&self->notices) || self->warning != NULL ||
           keeper_is_needed(self, driven) || leader_is_late(self);
}

void pawl__news_deliver(struct pawl__file_engine *self, bool driven)
{
    pthread_mutex_lock(&self->mutex);
    for (struct pawl__list *node; (node = pawl__list_pop(&self->notices)) != NULL;) {
        tell(self, PAWL__CONTAINER(node, struct pawl__file_place, notice_node));
    }
    char *warning = self->warning;
    self->warning = NULL;
    bool attend = keeper_is_needed(self, driven);
    if (attend) {
        self->keeper_asked = true;
    }
    if (leader_is_late(self)) {
        pawl__waiter_nudge(self->leader); /* it cannot leave without the mutex */
    }
    pthread_mutex_unlock(&self->mutex);
    if (warning != NULL) {
        self->host->log(self->host, PAWL_LOG_WARNING, warning);
        pawl__free(warning);
    }
    if (attend) {
        self->host->attend(self->host);
    }
}
