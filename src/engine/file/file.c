/* SPDX-License-Identifier: Apache-2.0 */
/* The file engine: locks among the processes of one machine, kept in files. No server is needed.
 *
 * One file per name. Who has byte 0 of it locked holds the lock; the kernel lets go of it when the
 * process ends, however it ends. Who waits has byte 1 locked, shared, and listens by inotify. The
 * file tells who holds and carries the token. This is the smallest engine, and the one to read
 * first:
 *
 *     record.c     what stands in the file, and the tokens
 *     names.c      which file belongs to a name
 *     directory.c  where the files lie, and who could meddle with them
 *     lockfile.c   one file: open, lock, write, replace
 *     place.c      such a file, kept open from one operation to the next
 *     operations.c acquire, release, pass, ...
 *     news.c       hearing of releases and losses, and waiting for them
 *     survey.c     which locks are held, for people who look
 *     lookout.c    hearing when that may have changed
 *     examine.c    whether the directory is fit for locks
 *     file.c       this: what the core sees, as core/engine.h describes it
 *
 * Every operation is a handful of system calls that wait for nobody, so submit() completes all of
 * them before it returns. */
#include "engine/file/file.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/fds.h"

static void file_close(void *self_);

static struct pawl__file_place *place_of(struct pawl__place *place)
{
    return (struct pawl__file_place *)(void *)place;
}

static pawl_status file_open(struct pawl__url *url, struct pawl__host *host, void **self_out)
{
    struct pawl__file_engine *self = pawl__alloc(sizeof *self);
    if (self == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for a client of the file engine");
    }
    self->host = host;
    pthread_mutex_init(&self->mutex, NULL);
    pawl__list_init(&self->places);
    pawl__list_init(&self->idle);
    pawl__record_init(&self->record, host->uuid);
    bool ready = pawl__news_init(self);
    pawl_status status = pawl__directory_init(&self->directory, url);
    if (status == PAWL_OK && !ready) {
        status = pawl__fail(PAWL_NO_MEMORY, "no memory for a client of the file engine");
    }
    if (status != PAWL_OK) {
        file_close(self);
        return status;
    }
    *self_out = self;
    return PAWL_OK;
}

static pawl_status file_connect(void *self_, int64_t deadline_us)
{
    struct pawl__file_engine *self = self_;
    (void)deadline_us;
    pthread_mutex_lock(&self->mutex);
    pawl_status status = pawl__directory_open(&self->directory);
    pthread_mutex_unlock(&self->mutex);
    return status;
}

/* Let go of everything the place has. Locks: the mutex is held, or nobody else is inside. */
static void let_go(struct pawl__file_engine *self, struct pawl__file_place *place)
{
    if (place->held) {
        pawl__place_release(self, place);
    }
    if (place->watched) {
        place->watched = false;
        self->watched_count--;
    }
    pawl__place_close(self, place);
    pawl__list_remove(&place->notice_node);
    pawl__list_remove(&place->all_node);
    pawl__free(place->file_name);
    place->file_name = NULL;
}

static void file_close(void *self_)
{
    struct pawl__file_engine *self = self_;
    while (!pawl__list_empty(&self->places)) {
        struct pawl__list *first = self->places.next;
        let_go(self, PAWL__CONTAINER(first, struct pawl__file_place, all_node));
    }
    pawl__news_free(self);
    pawl__directory_free(&self->directory);
    pthread_mutex_destroy(&self->mutex);
    pawl__free(self);
}

/* The file is opened by the first operation that needs it. */
static pawl_status file_place_open(void *self_, struct pawl__place *base)
{
    struct pawl__file_engine *self = self_;
    struct pawl__file_place *place = place_of(base);
    char file_name[PAWL__FILE_NAME_SIZE_MAX + 1];
    pawl__name_to_file(base->name, base->name_size, file_name);
    place->file_name = pawl__strdup(file_name);
    if (place->file_name == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for a lock of the file engine");
    }
    place->file.directory = &self->directory;
    place->file.file_name = place->file_name;
    place->file.name = base->name;
    place->file.name_size = base->name_size;
    place->file.fd = -1;
    place->wd = -1;
    pawl__list_init(&place->idle_node);
    pawl__list_init(&place->notice_node);
    pthread_mutex_lock(&self->mutex);
    pawl__list_push(&self->places, &place->all_node);
    pthread_mutex_unlock(&self->mutex);
    return PAWL_OK;
}

static void file_place_close(void *self_, struct pawl__place *base)
{
    struct pawl__file_engine *self = self_;
    pthread_mutex_lock(&self->mutex);
    let_go(self, place_of(base));
    pthread_mutex_unlock(&self->mutex);
}

static void file_submit(void *self_, struct pawl__op *ops, bool driven)
{
    struct pawl__file_engine *self = self_;
    pthread_mutex_lock(&self->mutex);
    for (struct pawl__op *op = ops; op != NULL; op = op->next) {
        pawl__file_perform(self, op);
    }
    pawl__news_hand_over(self);
    bool due = pawl__news_is_due(self, driven);
    pthread_mutex_unlock(&self->mutex);
    self->host->complete(self->host, ops);
    if (due) {
        pawl__news_deliver(self, driven);
    }
}

static const char *const schemes[] = {"file", NULL};

extern const struct pawl__engine pawl__engine_file;
const struct pawl__engine pawl__engine_file = {
    .name = "file",
    .schemes = schemes,
    .families = PAWL__FAMILY_BIT(PAWL__FAMILY_MUTEX),
    .place_size = sizeof(struct pawl__file_place),
    .expires = false,
    .sessions = true,
    .passes = true,
    .open = file_open,
    .connect = file_connect,
    .close = file_close,
    .place_open = file_place_open,
    .place_close = file_place_close,
    .submit = file_submit,
    .drive = pawl__file_drive,
    .poll = pawl__file_poll,
    .pump = pawl__file_pump,
    .list = pawl__file_list,
    .look = pawl__file_look,
    .watch_open = pawl__file_watch_open,
    .watch_wait = pawl__file_watch_wait,
    .watch_close = pawl__file_watch_close,
    .watch_exact = pawl__file_watch_exact,
    .examine = pawl__file_examine,
};
