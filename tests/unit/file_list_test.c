/* SPDX-License-Identifier: Apache-2.0 */
/* Listing and looking at lock files, at the engine's seam: what is held is told as it is, by
 * whichever process; what is not, is not; and what only looks like a lock file is passed over
 * without being followed or waited for. Locks of other programs are plain byte locks that the test
 * takes itself. */
#include "file_stage.h"

#include "engine/file/record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { SEEN_MAX = 32 };

/* ===== What was told ===== */

struct seen {
    pawl_entry entries[SEEN_MAX];
    size_t count;
    size_t enough; /* stop after so many; 0: never */
};

static bool see(const pawl_entry *entry, void *arg)
{
    struct seen *seen = arg;
    assert_true(seen->count < SEEN_MAX);
    assert_int_equal(entry->size, sizeof *entry);
    seen->entries[seen->count++] = *entry;
    return seen->count != seen->enough;
}

static struct seen *list(struct side *side, const char *pattern)
{
    static struct seen seen;
    memset(&seen, 0, sizeof seen);
    size_t descriptors = open_descriptor_count();
    assert_int_equal(pawl__engine_file.list(side->self, pattern, see, &seen), PAWL_OK);
    assert_int_equal(open_descriptor_count(), descriptors);
    return &seen;
}

static const pawl_entry *find(const struct seen *seen, const char *name)
{
    const pawl_entry *found = NULL;
    for (size_t i = 0; i < seen->count; i++) {
        if (strcmp(seen->entries[i].name, name) == 0) {
            assert_null(found); /* told once */
            found = &seen->entries[i];
        }
    }
    return found;
}

/* As the core prepares it. */
static pawl_status try_look(struct side *side, const char *name, pawl_entry *entry)
{
    memset(entry, 0, sizeof *entry);
    entry->size = sizeof *entry;
    entry->since_ms = -1;
    entry->waiters = -1;
    snprintf(entry->name, sizeof entry->name, "%s", name);
    return pawl__engine_file.look(side->self, name, strlen(name), entry);
}

static pawl_entry look(struct side *side, const char *name)
{
    pawl_entry entry;
    if (try_look(side, name, &entry) != PAWL_OK) {
        support_fail("cannot look: %s", pawl__error_text());
    }
    assert_string_equal(entry.name, name);
    return entry;
}

/* A file of the directory; to be freed. */
static char *path_of(const struct stage *stage, const char *file_name)
{
    struct text path = {0};
    text_addf(&path, "%s/%s", stage->directory, file_name);
    return text_take(&path);
}

/* Make a file, or open one, and lock its byte 0. Closing the descriptor unlocks it. */
static int lock_file(
    const struct stage *stage, const char *file_name, const void *data, size_t size)
{
    char *path = path_of(stage, file_name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    free(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), (ssize_t)size);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
    return fd;
}

/* ===== What is held ===== */

static void what_is_held_is_told(void **state)
{
    struct stage *s = *state;
    struct pawl__place *place = place_open(&s->holder, "jobs/nightly");
    assert_int_equal(list(&s->looker, NULL)->count, 0);
    struct pawl__op op = operate(&s->holder, place, PAWL__OP_ACQUIRE, 41);
    assert_int_equal(op.answer, PAWL__DONE);

    char holder[80];
    char host[65] = "";
    snprintf(holder, sizeof holder, "%s:41", s->holder.host.uuid);
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    const struct seen *seen = list(&s->looker, NULL);
    assert_int_equal(seen->count, 1);
    const pawl_entry *entry = &seen->entries[0];
    assert_string_equal(entry->name, "jobs/nightly");
    assert_int_equal(entry->kind, PAWL_MUTEX);
    assert_true(entry->held);
    assert_int_equal(entry->hold_count, 1);
    assert_int_equal(entry->remaining_ms, -1);
    assert_int_equal(entry->token, op.token);
    assert_string_equal(entry->holder, holder);
    assert_string_equal(entry->host, host);
    assert_int_equal(entry->pid, getpid());
    assert_string_equal(entry->command, program_invocation_short_name);
    assert_in_range(entry->since_ms, 0, BOUND_MS);
    assert_int_equal(entry->waiters, 0);
    pawl_entry looked = look(&s->looker, "jobs/nightly");
    assert_memory_equal(looked.holder, entry->holder, sizeof looked.holder);
    assert_int_equal(looked.token, entry->token);
    assert_int_equal(list(&s->holder, NULL)->count, 1); /* its own, too */

    assert_int_equal(ask(&s->holder, place, PAWL__OP_RELEASE, 41), PAWL__DONE);
    assert_int_equal(list(&s->looker, NULL)->count, 0);
    looked = look(&s->looker, "jobs/nightly");
    assert_false(looked.held);
    assert_int_equal(looked.token, op.token);
    assert_int_equal(looked.hold_count, 0);
    assert_int_equal(looked.remaining_ms, 0);
    assert_string_equal(looked.holder, "");
    assert_int_equal(looked.pid, 0);
    place_close(&s->holder, place);
}

static void the_count_and_who_waits_are_told(void **state)
{
    struct stage *s = *state;
    struct side waiter;
    side_open(&waiter, s->directory);
    struct pawl__place *held = place_open(&s->holder, "lock");
    struct pawl__place *awaited = place_open(&waiter, "lock");
    assert_int_equal(ask(&s->holder, held, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    struct pawl__op count = {.place = held, .kind = PAWL__OP_COUNT, .id = 1, .count = 5};
    submit(&s->holder, &count);
    assert_int_equal(look(&s->looker, "lock").hold_count, 5);
    assert_int_equal(ask(&waiter, awaited, PAWL__OP_WATCH, 0), PAWL__DONE);
    assert_int_equal(look(&s->looker, "lock").waiters, 1);
    assert_int_equal(list(&s->looker, NULL)->entries[0].waiters, 1);

    /* Nobody is woken by being looked at, and nothing is taken from anybody. */
    pump(&waiter);
    unsigned wakes = read_counter(&waiter, &waiter.wakes);
    for (int i = 0; i < 20; i++) {
        list(&s->looker, NULL);
        look(&s->looker, "lock");
        pump(&waiter);
    }
    assert_int_equal(read_counter(&waiter, &waiter.wakes), wakes);
    assert_int_equal(ask(&s->holder, held, PAWL__OP_RELEASE, 1), PAWL__DONE);
    assert_int_equal(ask(&waiter, awaited, PAWL__OP_ACQUIRE, 2), PAWL__DONE);
    assert_int_equal(ask(&waiter, awaited, PAWL__OP_UNWATCH, 0), PAWL__DONE);
    assert_int_equal(look(&s->looker, "lock").waiters, 0);
    place_close(&s->holder, held);
    place_close(&waiter, awaited);
    side_close(&waiter);
}

/* Names of every kind come back as they were given. */
static void all_names_are_told(void **state)
{
    struct stage *s = *state;
    char longest[PAWL__NAME_SIZE_MAX + 1];
    memset(longest, '/', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    char hashed[202];
    memset(hashed, 'h', sizeof hashed - 1);
    hashed[sizeof hashed - 1] = '\0';
    const char *const names[] = {
        "plain", ".hidden", "-r", "a b%c/d", "\x01\xff\n", "%-", "x.lock", hashed, longest};
    enum { COUNT = sizeof names / sizeof names[0] };
    struct pawl__place *places[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        places[i] = place_open(&s->holder, names[i]);
        assert_int_equal(ask(&s->holder, places[i], PAWL__OP_ACQUIRE, i + 1), PAWL__DONE);
    }
    const struct seen *seen = list(&s->looker, NULL);
    assert_int_equal(seen->count, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_non_null(find(seen, names[i]));
        assert_true(look(&s->looker, names[i]).held);
    }
    assert_int_equal(list(&s->looker, "*")->count, COUNT);
    assert_int_equal(list(&s->looker, "hhh*")->count, 1);
    assert_int_equal(list(&s->looker, "////*")->count, 1);
    seen = list(&s->looker, "[-.]?*");
    assert_int_equal(seen->count, 2);
    assert_non_null(find(seen, ".hidden"));
    assert_non_null(find(seen, "-r"));
    assert_int_equal(list(&s->looker, "nothing*")->count, 0);

    struct seen some = {.enough = 3};
    assert_int_equal(pawl__engine_file.list(s->looker.self, NULL, see, &some), PAWL_OK);
    assert_int_equal(some.count, 3);
    for (size_t i = 0; i < COUNT; i++) {
        place_close(&s->holder, places[i]);
    }
}

/* More files than one page of the directory has, of which few are held. */
static void many_files_are_read_to_the_end(void **state)
{
    enum { FILES = 1000, HELD = 20 };
    struct stage *s = *state;
    char name[32];
    struct pawl__place *held[HELD];
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "a-rather-long-name-%04d", i);
        struct pawl__place *place = place_open(&s->holder, name);
        assert_int_equal(ask(&s->holder, place, PAWL__OP_ACQUIRE, (uint64_t)i + 1), PAWL__DONE);
        if (i % (FILES / HELD) == 0) {
            held[i / (FILES / HELD)] = place;
        } else {
            place_close(&s->holder, place);
        }
    }
    const struct seen *seen = list(&s->looker, NULL);
    assert_int_equal(seen->count, HELD);
    for (int i = 0; i < HELD; i++) {
        assert_non_null(find(seen, held[i]->name));
        place_close(&s->holder, held[i]);
    }
}

/* ===== Other processes ===== */

static void another_process_is_named(void **state)
{
    struct stage *s = *state;
    struct child *child = start_holder(s);
    const struct seen *seen = list(&s->looker, NULL);
    assert_int_equal(seen->count, 1);
    assert_int_equal(seen->entries[0].pid, child_pid(child));
    assert_string_equal(seen->entries[0].command, program_invocation_short_name);
    child_signal(child, SIGSTOP);
    assert_int_equal(list(&s->looker, NULL)->count, 1); /* stopped or not */
    child_signal(child, SIGKILL);
    child_wait(child, BOUND_MS);
    assert_int_equal(list(&s->looker, NULL)->count, 0);
    pawl_entry entry = look(&s->looker, "lock");
    assert_false(entry.held);
    assert_int_equal(entry.pid, 0);
    assert_string_equal(entry.holder, "");
    child_free(child);
}

/* Somebody has the byte, and the record is that of a process that is gone: the pid is not told. */
static void the_dead_are_not_named(void **state)
{
    struct stage *s = *state;
    struct child *child = start_holder(s);
    child_signal(child, SIGKILL);
    child_wait(child, BOUND_MS);
    child_free(child);
    int fd = lock_file(s, "lock.lock", "", 0);
    pawl_entry entry = look(&s->looker, "lock");
    assert_true(entry.held);
    assert_int_equal(entry.pid, 0);

    /* What stood there before the machine was started says nothing about who holds it now. */
    off_t at = (off_t)offsetof(struct pawl__record, boot);
    assert_int_equal(pwrite(fd, "xxxx", 4, at), 4);
    entry = look(&s->looker, "lock");
    assert_true(entry.held);
    assert_int_equal(entry.hold_count, 1);
    assert_string_equal(entry.holder, "");
    assert_string_equal(entry.host, "");
    assert_string_equal(entry.command, "");
    assert_int_equal(entry.since_ms, -1);
    assert_true(entry.token > 0);
    close(fd);
}

/* A holder that was stopped before it could write. */
static void a_file_without_a_record_is_held_by_somebody(void **state)
{
    struct stage *s = *state;
    int fd = lock_file(s, "odd.lock", "", 0);
    const struct seen *seen = list(&s->looker, NULL);
    assert_int_equal(seen->count, 1);
    assert_string_equal(seen->entries[0].name, "odd");
    assert_string_equal(seen->entries[0].holder, "");
    assert_int_equal(seen->entries[0].pid, 0);
    close(fd);
    assert_int_equal(list(&s->looker, NULL)->count, 0);
}

/* What a program of an earlier version wrote. */
static void the_old_layout_is_told(void **state)
{
    struct stage *s = *state;
    struct pawl__record mine;
    struct text text = {0};
    pawl__record_init(&mine, s->looker.host.uuid);
    text_addf(&text,
        "pawl lock file 1: the last holder; held as long as byte 0 is locked\n"
        "token  %-20s\nholder %-57s\ncount  %-10s\npid    %-10d\nboot   %.36s\nhost   %-64s\n"
        "name   %s\n",
        "1700000000000042", "5bd36e9c-7a0f-4f5e-9d6a-2a8f5a3c1b77:9", "3", (int)getpid(), mine.boot,
        "build-7", "old%20one");
    int fd = lock_file(s, "old%20one.lock", text.data, text.size);
    const struct seen *seen = list(&s->looker, NULL);
    assert_int_equal(seen->count, 1);
    const pawl_entry *entry = &seen->entries[0];
    assert_string_equal(entry->name, "old one");
    assert_int_equal(entry->token, UINT64_C(1700000000000042));
    assert_string_equal(entry->holder, "5bd36e9c-7a0f-4f5e-9d6a-2a8f5a3c1b77:9");
    assert_string_equal(entry->host, "build-7");
    assert_int_equal(entry->hold_count, 3);
    assert_int_equal(entry->pid, getpid());
    assert_string_equal(entry->command, "");
    assert_int_equal(entry->since_ms, -1);
    close(fd);
    text_free(&text);
}

/* ===== Hostile files ===== */

/* Things that are no plain files of one name. The links' targets are held locks elsewhere. */
static void put_strange_files(const struct stage *s, const char *target, const char *twin)
{
    char *link_path = path_of(s, "link.lock");
    char *fifo = path_of(s, "fifo.lock");
    char *to_fifo = path_of(s, "to-fifo.lock");
    char *directory = path_of(s, "directory.lock");
    char *second = path_of(s, "second.lock");
    assert_int_equal(symlink(target, link_path), 0);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(symlink(fifo, to_fifo), 0);
    assert_int_equal(mkdir(directory, 0700), 0);
    assert_int_equal(link(twin, second), 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket.lock", s->directory);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    free(link_path);
    free(fifo);
    free(to_fifo);
    free(directory);
    free(second);
}

static void strange_files_are_passed_over(void **state)
{
    struct stage *s = *state;
    struct side elsewhere;
    const char *other = tempdir_make();
    side_open(&elsewhere, other);
    struct pawl__place *linked = place_open(&elsewhere, "link");
    struct pawl__place *twin = place_open(&elsewhere, "second");
    assert_int_equal(ask(&elsewhere, linked, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    assert_int_equal(ask(&elsewhere, twin, PAWL__OP_ACQUIRE, 2), PAWL__DONE);
    char *target = lock_path(other, "link");
    char *twin_path = lock_path(other, "second");
    put_strange_files(s, target, twin_path);
    assert_int_equal(list(&s->looker, NULL)->count, 0);
    static const char *const names[] = {"link", "fifo", "to-fifo", "directory", "second", "socket"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        pawl_entry entry;
        assert_int_equal(try_look(&s->looker, names[i], &entry), PAWL_REFUSED);
        assert_non_null(strstr(pawl__error_text(), names[i]));
    }
    free(target);
    free(twin_path);
    place_close(&elsewhere, linked);
    place_close(&elsewhere, twin);
    side_close(&elsewhere);
}

/* Plain files that say something wrong, all of them locked. */
static void wrong_files_are_passed_over(void **state)
{
    struct stage *s = *state;
    struct pawl__content content;
    char garbage[4096];
    int fds[8];
    size_t count = 0;
    memset(garbage, 0xa5, sizeof garbage);
    pawl__record_init(&content.record, s->looker.host.uuid);
    pawl__record_set_token(&content.record, UINT64_C(1700000000000042));
    pawl__record_set_tenure(&content.record, 1);
    pawl__content_set_name(&content, "other", 5);
    fds[count++] = lock_file(s, "garbage.lock", garbage, sizeof garbage);
    fds[count++] = lock_file(s, "huge.lock", "big", 3);
    assert_int_equal(ftruncate(fds[1], (off_t)1 << 40), 0);
    fds[count++] = lock_file(s, "liar.lock", &content, content.size);
    fds[count++] = lock_file(s, "%41.lock", "", 0); /* 'A' is not written so */
    fds[count++] = lock_file(s, "%4.lock", "", 0);
    fds[count++] = lock_file(s, "a b.lock", "", 0);
    fds[count++] = lock_file(s, "no-suffix", &content, content.size);
    fds[count++] = lock_file(s, "beginning%-0123.lock", &content, content.size);
    assert_int_equal(list(&s->looker, NULL)->count, 0);
    pawl_entry entry;
    assert_int_equal(try_look(&s->looker, "garbage", &entry), PAWL_REFUSED);
    assert_int_equal(try_look(&s->looker, "liar", &entry), PAWL_REFUSED);
    for (size_t i = 0; i < count; i++) {
        close(fds[i]);
    }
}

/* Whatever stands in the fields, what is told is text that ends. */
static void damaged_records_are_harmless(void **state)
{
    struct stage *s = *state;
    struct pawl__content content;
    pawl__record_init(&content.record, s->looker.host.uuid);
    memset(content.record.token, 0x1b, sizeof content.record.token);
    memset(content.record.holder, 'x', sizeof content.record.holder);
    memset(content.record.count, '9', sizeof content.record.count);
    memset(content.record.pid, '9', sizeof content.record.pid);
    memset(content.record.since, '9', sizeof content.record.since);
    memset(content.record.host, 0x1b, sizeof content.record.host);
    memset(content.record.command, '\n', sizeof content.record.command);
    pawl__content_set_name(&content, "damaged", 7);
    int fd = lock_file(s, "damaged.lock", &content, content.size);
    const struct seen *seen = list(&s->looker, NULL);
    assert_int_equal(seen->count, 1);
    const pawl_entry *entry = &seen->entries[0];
    assert_int_equal(entry->token, 0);
    assert_int_equal(strlen(entry->holder), sizeof content.record.holder);
    assert_int_equal(entry->pid, 0);
    assert_int_equal(entry->since_ms, -1);
    assert_int_equal(strlen(entry->host), sizeof content.record.host);
    assert_int_equal(strspn(entry->host, "?"), sizeof content.record.host);
    assert_int_equal(strspn(entry->command, "?"), sizeof content.record.command);
    close(fd);
}

/* In a directory that users share, each sees the own locks only. */
static void another_users_files_are_passed_over(void **state)
{
    struct stage *s = *state;
    if (geteuid() != 0) {
        print_message("only root can give files away\n");
        skip();
    }
    struct pawl__place *place = place_open(&s->holder, "lock");
    assert_int_equal(ask(&s->holder, place, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    assert_int_equal(list(&s->looker, NULL)->count, 1);
    char *path = lock_path(s->directory, "lock");
    assert_int_equal(chown(path, 65534, 65534), 0);
    assert_int_equal(list(&s->looker, NULL)->count, 0);
    pawl_entry entry;
    assert_int_equal(try_look(&s->looker, "lock", &entry), PAWL_REFUSED);
    assert_int_equal(chown(path, 0, 0), 0);
    free(path);
    place_close(&s->holder, place);
}

/* ===== Nothing there ===== */

static void looking_makes_nothing(void **state)
{
    struct stage *s = *state;
    pawl_entry entry = look(&s->looker, "never-used");
    assert_false(entry.held);
    assert_int_equal(entry.token, 0);
    assert_int_equal(entry.waiters, 0);
    assert_int_equal(entry.since_ms, -1);
    char *path = lock_path(s->directory, "never-used");
    assert_int_equal(access(path, F_OK), -1);
    free(path);
    assert_int_equal(rmdir(s->directory), 0);
    assert_int_equal(list(&s->looker, NULL)->count, 0);
    assert_false(look(&s->looker, "never-used").held);
    assert_int_equal(access(s->directory, F_OK), -1);
    assert_int_equal(mkdir(s->directory, 0777), 0);
    assert_int_equal(chmod(s->directory, 0777), 0); /* others could show us anything */
    struct seen seen = {.count = 0};
    assert_int_equal(pawl__engine_file.list(s->looker.self, NULL, see, &seen), PAWL_REFUSED);
    assert_int_equal(chmod(s->directory, 0700), 0);
}

#define STAGED(test) cmocka_unit_test_setup_teardown(test, stage_setup, stage_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGED(what_is_held_is_told),
        STAGED(the_count_and_who_waits_are_told),
        STAGED(all_names_are_told),
        STAGED(many_files_are_read_to_the_end),
        STAGED(another_process_is_named),
        STAGED(the_dead_are_not_named),
        STAGED(a_file_without_a_record_is_held_by_somebody),
        STAGED(the_old_layout_is_told),
        STAGED(strange_files_are_passed_over),
        STAGED(wrong_files_are_passed_over),
        STAGED(damaged_records_are_harmless),
        STAGED(another_users_files_are_passed_over),
        STAGED(looking_makes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
