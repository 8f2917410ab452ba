/* SPDX-License-Identifier: Apache-2.0 */
/* Hearing that locks may have changed hands, for people who watch.
 *
 * inotify on the directory tells of every grant (the record is written), of a release that somebody
 * waited for (the file is touched), of a holder that ends (the file is closed), and of files that
 * come and go. A release that nobody waits for leaves no trace; the core finds it by looking. So
 * hints here say "look at this name", never what has happened.
 *
 * A holder that is killed closes its file an instant before it lets go of the lock, and nothing is
 * told afterwards. So events are read a moment after they came, which also lets the kernel put
 * equal ones together.
 *
 * Where there is no inotify to be had, or no directory yet, there are no hints. A directory that is
 * removed while some process has it open is not announced, so each wait compares it with the path.
 *
 * Threads: one at a time uses a watch. */
#include "engine/file/file.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fds.h"
#include "base/glob.h"

#include <fcntl.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define LOCK_EVENTS \
    (IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)
#define DIRECTORY_EVENTS (IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
#define PACE_MS 2 /* from an event until it is read; a busy lock must not keep us busy, too */

struct lookout {
    struct pawl__identity directory; /* of the one that is watched */
    char *pattern;                   /* NULL: all */
    int fd;                          /* inotify's; -1: none to be had */
    int wd;                          /* of the directory; -1: not watched */

    char last[PAWL__NAME_SIZE_MAX + 1]; /* hinted at since the last read; "": nothing */

    /* Events that were read and not looked at yet. */
    size_t at;
    size_t size;
    _Alignas(struct inotify_event) char events[4096];
};

/* ===== Opening ===== */

static void leave_directory(struct lookout *lookout)
{
    if (lookout->wd >= 0) {
        inotify_rm_watch(lookout->fd, lookout->wd);
    }
    lookout->wd = -1;
}

/* Watch the directory that the path leads to now. False: there is none, or it cannot be watched. */
static bool enter_directory(struct lookout *lookout, const struct pawl__file_engine *self)
{
    struct pawl__directory visit;
    if (lookout->fd < 0 || pawl__directory_visit(&self->directory, &visit) != PAWL_OK) {
        return false;
    }
    unsigned follow = self->directory.is_default ? IN_DONT_FOLLOW : 0;
    lookout->directory = visit.identity;
    lookout->wd = inotify_add_watch(
        lookout->fd, self->directory.path, LOCK_EVENTS | DIRECTORY_EVENTS | follow);
    pawl__fd_close(visit.fd);
    return lookout->wd >= 0;
}

/* Whether the watched directory is still the one that the path leads to. */
static bool is_in_place(const struct lookout *lookout, const struct pawl__file_engine *self)
{
    struct pawl__look seen;
    return pawl__look_at(AT_FDCWD, self->directory.path, true, &seen) &&
           pawl__identity_equal(&seen.identity, &lookout->directory);
}

void pawl__file_watch_close(void *self, void *watch)
{
    struct lookout *lookout = watch;
    (void)self;
    leave_directory(lookout);
    pawl__fd_close(lookout->fd);
    pawl__free(lookout->pattern);
    pawl__free(lookout);
}

pawl_status pawl__file_watch_open(void *self, const char *pattern, void **watch_out)
{
    struct lookout *lookout = pawl__alloc(sizeof *lookout);
    if (lookout == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory to watch the locks");
    }
    lookout->wd = -1;
    lookout->fd = pawl__fd_inotify();
    lookout->pattern = pattern == NULL ? NULL : pawl__strdup(pattern);
    if (pattern != NULL && lookout->pattern == NULL) {
        pawl__file_watch_close(self, lookout);
        return pawl__fail(PAWL_NO_MEMORY, "no memory to watch the locks");
    }
    enter_directory(lookout, self);
    *watch_out = lookout;
    return PAWL_OK;
}

bool pawl__file_watch_exact(void *self, void *watch)
{
    (void)self;
    (void)watch;
    return false;
}

/* ===== Hints ===== */

static void hint_at(struct pawl__hint *hint, const char *name)
{
    size_t size = strlen(name);
    memcpy(hint->name, name, size + 1);
    hint->change = 0;
}

/* True: the event is worth a hint. */
static bool take_event(const struct pawl__file_engine *self, struct lookout *lookout,
    const struct inotify_event *event, struct pawl__hint *hint_out)
{
    if ((event->mask & (IN_Q_OVERFLOW | IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED)) != 0) {
        if ((event->mask & IN_Q_OVERFLOW) == 0 && event->wd == lookout->wd) {
            leave_directory(lookout); /* the next wait looks for another one */
        }
        hint_at(hint_out, "");
        return true;
    }
    char name[PAWL__NAME_SIZE_MAX + 1];
    size_t name_size = 0;
    if (event->len == 0 || event->wd != lookout->wd ||
        !pawl__survey_name(self, event->name, name, &name_size) ||
        !pawl__glob_matches(lookout->pattern, name, name_size)) {
        return false;
    }
    bool news = strcmp(lookout->last, name) != 0;
    memcpy(lookout->last, name, name_size + 1);
    hint_at(hint_out, name);
    return news;
}

/* The next hint from what was read. */
static bool take_hint(
    const struct pawl__file_engine *self, struct lookout *lookout, struct pawl__hint *hint_out)
{
    while (lookout->at < lookout->size) {
        const struct inotify_event *event = (const void *)(lookout->events + lookout->at);
        lookout->at += sizeof *event + event->len;
        if (take_event(self, lookout, event, hint_out)) {
            return true;
        }
    }
    return false;
}

/* Sleep until there is something to read, and read it; or until the deadline. */
static void read_more(struct lookout *lookout, int64_t deadline_us)
{
    struct pollfd fds = {.fd = lookout->fd, .events = POLLIN};
    int64_t left_us = deadline_us - pawl__now_us();
    int64_t left_ms = left_us <= 0 ? 0 : pawl__min64((left_us + 999) / 1000, INT32_MAX);
    if (poll(&fds, 1, (int)left_ms) <= 0) { /* without a descriptor it only sleeps */
        return;
    }
    poll(NULL, 0, PACE_MS);
    ssize_t size = read(lookout->fd, lookout->events, sizeof lookout->events);
    lookout->at = 0;
    lookout->last[0] = '\0';
    lookout->size = size < 0 ? 0 : (size_t)size;
}

pawl_status pawl__file_watch_wait(
    void *self, void *watch, int64_t deadline_us, struct pawl__hint *hint_out)
{
    struct lookout *lookout = watch;
    bool moved = lookout->wd >= 0 && !is_in_place(lookout, self);
    if (moved) {
        leave_directory(lookout);
    }
    bool entered = lookout->wd < 0 && enter_directory(lookout, self);
    if (moved || entered) {
        hint_at(hint_out, ""); /* whatever happened meanwhile was not heard */
        return PAWL_OK;
    }
    bool last = false;
    while (!take_hint(self, lookout, hint_out)) {
        if (last) {
            return PAWL_BUSY;
        }
        last = pawl__now_us() >= deadline_us; /* read once, however late it is */
        read_more(lookout, deadline_us);
    }
    return PAWL_OK;
}
