/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds what, for people who look.
 *
 * The directory is read, each lock file is opened for reading, and the kernel is asked whether
 * bytes 0 and 1 of it are locked. Nothing is locked, made or written, nobody is woken; the one
 * trace is that a holder which believed to be alone (see place.c) asks again whether it is. What
 * lies in the directory is not trusted: only plain files of this user are opened, at most as many
 * bytes are read as a lock file has, and a file counts only if the name in it leads to it.
 *
 * A lock that somebody is just being granted has the record of the holder before. A record that is
 * being written, or does not say who holds, is read again a moment later.
 *
 * Locality: any thread, no lock held. Everything is opened anew, and the engine's own files are
 * not used: a lock of this very client is one that another descriptor has. */
#include "engine/file/file.h"

#include "base/error.h"
#include "base/fds.h"
#include "base/glob.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define READS_MAX 8       /* of a record that keeps changing */
#define LOOKS_MAX 5       /* at a file that does not say who holds it, */
#define LOOK_MS 1         /* and the pause in between */
#define LISTING_SIZE 8192 /* bytes of the directory at a time */

/* ===== One file ===== */

static bool read_once(const struct pawl__lockfile *file, struct pawl__content *content)
{
    ssize_t size = pread(file->fd, content, offsetof(struct pawl__content, size), 0);
    content->size = size < 0 ? 0 : (size_t)size;
    return size >= 0;
}

/* Until it is twice the same: reading and writing are no single steps. */
static enum pawl__content_kind read_steadily(
    const struct pawl__lockfile *file, struct pawl__content *content)
{
    for (int i = 0; i < READS_MAX; i++) {
        struct pawl__content again;
        if (!read_once(file, content) || !read_once(file, &again)) {
            return PAWL__CONTENT_FOREIGN;
        }
        if (content->size == again.size && memcmp(content, &again, content->size) == 0) {
            break;
        }
    }
    return pawl__content_judge(content, NULL, 0);
}

/* Whether the name in the file is one, and leads to this file. */
static bool take_name(const struct pawl__lockfile *file, const struct pawl__content *content,
    char *name_out, size_t *name_size_out)
{
    char file_name[PAWL__FILE_NAME_SIZE_MAX + 1];
    size_t encoded_size = 0;
    const char *encoded = pawl__content_name(content, &encoded_size);
    if (encoded == NULL || !pawl__name_decode(encoded, encoded_size, name_out, name_size_out)) {
        return false;
    }
    pawl__name_to_file(name_out, *name_size_out, file_name);
    return strcmp(file_name, file->file_name) == 0;
}

static void describe(
    const struct pawl__file_engine *self, const struct pawl__record *record, pawl_entry *entry)
{
    entry->token = pawl__record_token(record);
    if (!entry->held || !pawl__record_is_of_boot(record, &self->record)) {
        return;
    }
    struct pawl__record_writer writer;
    pawl__record_writer(record, &self->record, &writer);
    pawl__record_holder(record, entry->holder);
    if (entry->holder[0] == '\0') {
        return;
    }
    unsigned count = pawl__record_count(record);
    entry->hold_count = count > 0 ? count : 1;
    memcpy(entry->host, writer.host, sizeof writer.host);
    memcpy(entry->command, writer.command, sizeof writer.command);
    entry->pid = writer.pid;
    entry->since_ms = writer.since_ms;
}

/* One look. `entry->name` is known, or taken from the record. PAWL_BUSY: somebody holds it, but it
 * does not say who. */
static pawl_status look_once(
    const struct pawl__file_engine *self, const struct pawl__lockfile *file, pawl_entry *entry)
{
    struct pawl__content content;
    char name[PAWL__NAME_SIZE_MAX + 1];
    size_t name_size = 0;
    entry->held = pawl__lockfile_is_taken(file, PAWL__BYTE_HOLD);
    entry->waiters = pawl__lockfile_is_taken(file, PAWL__BYTE_WAIT) ? 1 : 0;
    entry->remaining_ms = entry->held ? -1 : 0;
    entry->hold_count = entry->held ? 1 : 0;
    entry->since_ms = -1;
    enum pawl__content_kind kind = read_steadily(file, &content);
    if (kind == PAWL__CONTENT_NEW) {
        return entry->held ? PAWL_BUSY : PAWL_OK;
    }
    if (kind == PAWL__CONTENT_FOREIGN || !take_name(file, &content, name, &name_size) ||
        (entry->name[0] != '\0' && strcmp(entry->name, name) != 0)) {
        return pawl__fail(PAWL_REFUSED, "%.150s/%s is not the file of this lock; remove it",
            file->directory->path, file->file_name);
    }
    memcpy(entry->name, name, name_size + 1);
    describe(self, &content.record, entry);
    return entry->held && entry->holder[0] == '\0' ? PAWL_BUSY : PAWL_OK;
}

/* Look at one file; `entry` has its size, and the name if it is known. PAWL_LOST: there is none. */
static pawl_status look_at_file(const struct pawl__file_engine *self,
    struct pawl__directory *directory, const char *file_name, pawl_entry *entry)
{
    struct pawl__lockfile file = {.directory = directory, .file_name = file_name, .fd = -1};
    pawl_status status = pawl__lockfile_visit(&file);
    if (status != PAWL_OK) {
        return status;
    }
    status = look_once(self, &file, entry);
    for (int i = 1; i < LOOKS_MAX && status == PAWL_BUSY; i++) {
        poll(NULL, 0, LOOK_MS);
        status = look_once(self, &file, entry);
    }
    pawl__lockfile_close(&file);
    return status == PAWL_BUSY ? PAWL_OK : status;
}

pawl_status pawl__file_look(void *self_, const char *name, size_t name_size, pawl_entry *entry_out)
{
    const struct pawl__file_engine *self = self_;
    char file_name[PAWL__FILE_NAME_SIZE_MAX + 1];
    struct pawl__directory directory;
    pawl_status status = pawl__directory_visit(&self->directory, &directory);
    if (status == PAWL_OK) {
        pawl__name_to_file(name, name_size, file_name);
        status = look_at_file(self, &directory, file_name, entry_out);
        pawl__fd_close(directory.fd);
    }
    if (status == PAWL_LOST) { /* a name that was never used */
        entry_out->waiters = 0;
        return PAWL_OK;
    }
    return status;
}

/* ===== All files ===== */

struct survey {
    const struct pawl__file_engine *self;
    struct pawl__directory directory;
    const char *pattern;
    pawl_entry_callback each;
    void *arg;
    bool enough;
};

/* Statuses of what lies in the directory and is no lock, or is gone: nothing to tell of. */
static bool is_passed_over(pawl_status status)
{
    return status == PAWL_LOST || status == PAWL_REFUSED || status == PAWL_DENIED;
}

static pawl_status tell_file(struct survey *survey, const char *file_name)
{
    pawl_entry entry = {.size = sizeof entry, .kind = PAWL_MUTEX};
    size_t name_size = 0;
    enum pawl__file_name_kind kind = pawl__name_from_file(file_name, entry.name, &name_size);
    if (kind == PAWL__FILE_NAME_OTHER ||
        (kind == PAWL__FILE_NAME_PLAIN &&
            !pawl__glob_matches(survey->pattern, entry.name, name_size))) {
        return PAWL_OK;
    }
    if (kind == PAWL__FILE_NAME_HASHED) {
        entry.name[0] = '\0';
    }
    pawl_status status = look_at_file(survey->self, &survey->directory, file_name, &entry);
    if (status != PAWL_OK) {
        return is_passed_over(status) ? PAWL_OK : status;
    }
    name_size = strlen(entry.name);
    if (entry.held && name_size > 0 && pawl__glob_matches(survey->pattern, entry.name, name_size)) {
        survey->enough = !survey->each(&entry, survey->arg);
    }
    return PAWL_OK;
}

static pawl_status tell_page(struct survey *survey, const char *page, ssize_t size)
{
    pawl_status status = PAWL_OK;
    for (ssize_t at = 0; at < size && status == PAWL_OK && !survey->enough;) {
        const struct dirent64 *file = (const void *)(page + at);
        if (file->d_type == DT_REG || file->d_type == DT_UNKNOWN) {
            status = tell_file(survey, file->d_name);
        }
        at += file->d_reclen;
    }
    return status;
}

pawl_status pawl__file_list(void *self_, const char *pattern, pawl_entry_callback each, void *arg)
{
    struct pawl__file_engine *self = self_;
    struct survey survey = {.self = self, .pattern = pattern, .each = each, .arg = arg};
    pawl_status status = pawl__directory_visit(&self->directory, &survey.directory);
    if (status != PAWL_OK) {
        return status == PAWL_LOST ? PAWL_OK : status; /* no directory, no locks */
    }
    _Alignas(struct dirent64) char page[LISTING_SIZE];
    ssize_t size = 0;
    do {
        size = getdents64(survey.directory.fd, page, sizeof page);
        status = size < 0 ? pawl__file_fault(errno, "read the directory", &survey.directory, NULL)
                          : tell_page(&survey, page, size);
    } while (size > 0 && status == PAWL_OK && !survey.enough);
    pawl__fd_close(survey.directory.fd);
    return status;
}

/* ===== Names ===== */

static bool read_name(struct pawl__lockfile *file, char *name_out, size_t *name_size_out)
{
    struct pawl__content content;
    if (pawl__lockfile_visit(file) != PAWL_OK) {
        return false;
    }
    enum pawl__content_kind kind = read_steadily(file, &content);
    bool told = (kind == PAWL__CONTENT_OURS || kind == PAWL__CONTENT_OLD) &&
                take_name(file, &content, name_out, name_size_out);
    pawl__lockfile_close(file);
    return told;
}

bool pawl__survey_name(const struct pawl__file_engine *self, const char *file_name, char *name_out,
    size_t *name_size_out)
{
    enum pawl__file_name_kind kind = pawl__name_from_file(file_name, name_out, name_size_out);
    struct pawl__directory directory;
    if (kind != PAWL__FILE_NAME_HASHED) {
        return kind == PAWL__FILE_NAME_PLAIN;
    }
    if (pawl__directory_visit(&self->directory, &directory) != PAWL_OK) {
        return false;
    }
    struct pawl__lockfile file = {.directory = &directory, .file_name = file_name, .fd = -1};
    bool told = read_name(&file, name_out, name_size_out);
    pawl__fd_close(directory.fd);
    return told;
}
