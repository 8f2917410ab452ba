/* SPDX-License-Identifier: Apache-2.0 */
/* Hints about lock files that may have changed hands, and findings about the directory, at the
 * engine's seam. A hint must come for what the kernel tells of; that there are none for what it
 * does not tell is not asked for. */
#include "file_stage.h"

#include "engine/file/record.h"

#include <signal.h>

/* ===== Watching ===== */

static void *watch_open(struct stage *s, const char *pattern)
{
    void *watch = NULL;
    assert_int_equal(pawl__engine_file.watch_open(s->looker.self, pattern, &watch), PAWL_OK);
    assert_non_null(watch);
    assert_false(pawl__engine_file.watch_exact(s->looker.self, watch));
    return watch;
}

static void watch_close(struct stage *s, void *watch)
{
    pawl__engine_file.watch_close(s->looker.self, watch);
}

static bool wait_hint(struct stage *s, void *watch, int64_t wait_ms, struct pawl__hint *hint)
{
    memset(hint, 0xff, sizeof *hint);
    pawl_status status =
        pawl__engine_file.watch_wait(s->looker.self, watch, pawl__now_us() + wait_ms * 1000, hint);
    assert_true(status == PAWL_OK || status == PAWL_BUSY);
    return status == PAWL_OK;
}

/* Wait for a hint at this name ("" for anything), passing over others. */
static void await_hint(struct stage *s, void *watch, const char *name)
{
    struct pawl__hint hint;
    do {
        assert_true(wait_hint(s, watch, BOUND_MS, &hint));
        assert_int_equal(hint.change, 0);
    } while (strcmp(hint.name, name) != 0);
}

static void let_calm_down(struct stage *s, void *watch)
{
    struct pawl__hint hint;
    while (wait_hint(s, watch, 100, &hint)) {
    }
}

static void a_grant_is_hinted_at(void **state)
{
    struct stage *s = *state;
    char hashed[202];
    memset(hashed, 'h', sizeof hashed - 1);
    hashed[sizeof hashed - 1] = '\0';
    struct pawl__place *before = place_open(&s->holder, "before");
    assert_int_equal(ask(&s->holder, before, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    size_t descriptors = open_descriptor_count();
    void *watch = watch_open(s, NULL);
    const char *const names[] = {"jobs/nightly", hashed};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct pawl__place *place = place_open(&s->holder, names[i]);
        assert_int_equal(ask(&s->holder, place, PAWL__OP_ACQUIRE, i + 1), PAWL__DONE);
        await_hint(s, watch, names[i]);
        let_calm_down(s, watch);
        assert_int_equal(ask(&s->holder, place, PAWL__OP_RELEASE, i + 1), PAWL__DONE);
        assert_int_equal(ask(&s->holder, place, PAWL__OP_ACQUIRE, i + 8), PAWL__DONE);
        await_hint(s, watch, names[i]);
        place_close(&s->holder, place);
        await_hint(s, watch, names[i]); /* the file is closed */
    }
    watch_close(s, watch);
    assert_int_equal(open_descriptor_count(), descriptors);
    place_close(&s->holder, before);
}

/* Only what matches; and looking, which the core does after each hint, is no reason for one. */
static void other_things_are_not_hinted_at(void **state)
{
    struct stage *s = *state;
    struct pawl__hint hint;
    struct text path = {0};
    void *watch = watch_open(s, "jobs/*");
    struct pawl__place *other = place_open(&s->holder, "other");
    struct pawl__place *place = place_open(&s->holder, "jobs/nightly");
    assert_int_equal(ask(&s->holder, other, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    text_addf(&path, "%s/notes.txt", s->directory);
    FILE *file = fopen(path.data, "w");
    assert_non_null(file);
    fclose(file);
    assert_false(wait_hint(s, watch, 200, &hint));
    assert_int_equal(ask(&s->holder, place, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    await_hint(s, watch, "jobs/nightly");
    let_calm_down(s, watch);
    for (int i = 0; i < 10; i++) {
        pawl_entry entry = {.size = sizeof entry, .name = "jobs/nightly"};
        assert_int_equal(
            pawl__engine_file.look(s->looker.self, "jobs/nightly", 12, &entry), PAWL_OK);
        assert_true(entry.held);
    }
    assert_false(wait_hint(s, watch, 50, &hint));
    place_close(&s->holder, place);
    place_close(&s->holder, other);
    watch_close(s, watch);
    text_free(&path);
}

static bool is_held(struct stage *s)
{
    pawl_entry entry = {.size = sizeof entry, .name = "lock"};
    assert_int_equal(pawl__engine_file.look(s->looker.self, "lock", 4, &entry), PAWL_OK);
    return entry.held;
}

/* The look that follows the hint finds it free, although the kernel tells a little too early. */
static void a_killed_holder_is_hinted_at(void **state)
{
    struct stage *s = *state;
    void *watch = watch_open(s, NULL);
    for (int i = 0; i < 20; i++) {
        struct child *child = start_holder(s);
        let_calm_down(s, watch);
        assert_true(is_held(s));
        child_signal(child, SIGKILL);
        bool held = true;
        struct pawl__hint hint;
        while (held && wait_hint(s, watch, BOUND_MS, &hint)) {
            held = is_held(s);
        }
        assert_false(held);
        child_wait(child, BOUND_MS);
        child_free(child);
    }
    watch_close(s, watch);
}

/* Somebody removes the directory; the next lock makes it again. */
static void the_directory_may_come_and_go(void **state)
{
    struct stage *s = *state;
    struct pawl__hint hint;
    void *watch = watch_open(s, NULL);
    assert_int_equal(rmdir(s->directory), 0);
    assert_int_equal(mkdir(s->directory, 0700), 0);
    await_hint(s, watch, "");
    let_calm_down(s, watch);
    assert_int_equal(rmdir(s->directory), 0);
    await_hint(s, watch, "");
    let_calm_down(s, watch);
    int64_t before_us = pawl__now_us();
    assert_false(wait_hint(s, watch, 50, &hint));
    assert_true(pawl__now_us() - before_us >= 50000); /* no busy waiting */
    struct pawl__place *place = place_open(&s->holder, "lock");
    assert_int_equal(ask(&s->holder, place, PAWL__OP_ACQUIRE, 1), PAWL__DONE);
    await_hint(s, watch, "");
    let_calm_down(s, watch);
    assert_int_equal(ask(&s->holder, place, PAWL__OP_RELEASE, 1), PAWL__DONE);
    assert_int_equal(ask(&s->holder, place, PAWL__OP_ACQUIRE, 2), PAWL__DONE);
    await_hint(s, watch, "lock");
    place_close(&s->holder, place);
    watch_close(s, watch);
}

/* A lock that is taken all the time neither floods the watch nor keeps its caller busy. */
static void a_busy_lock_is_hinted_at_now_and_then(void **state)
{
    struct stage *s = *state;
    struct pawl__hint hint;
    unsigned hints = 0;
    void *watch = watch_open(s, NULL);
    struct pawl__place *place = place_open(&s->holder, "lock");
    int64_t end_us = pawl__now_us() + 200000;
    for (uint64_t id = 1; pawl__now_us() < end_us; id++) {
        assert_int_equal(ask(&s->holder, place, PAWL__OP_ACQUIRE, id), PAWL__DONE);
        assert_int_equal(ask(&s->holder, place, PAWL__OP_RELEASE, id), PAWL__DONE);
        if (id % 16 == 0 && wait_hint(s, watch, 0, &hint)) {
            hints++;
        }
    }
    assert_true(hints > 0);
    assert_true(hints <= 200);
    place_close(&s->holder, place);
    watch_close(s, watch);
}

static int flood(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    struct side side;
    side_open(&side, arg);
    struct pawl__place *place = place_open(&side, "loud");
    for (uint64_t id = 1; id < UINT64_MAX; id++) {
        ask(&side, place, PAWL__OP_ACQUIRE, id);
        ask(&side, place, PAWL__OP_RELEASE, id);
    }
    return 0;
}

/* A flood of what does not match must not keep the caller beyond its deadline. */
static void a_flood_of_others_ends_in_time(void **state)
{
    struct stage *s = *state;
    struct pawl__hint hint;
    char *copy = support_copy(s->directory, strlen(s->directory));
    struct child *child = child_fork(flood, copy);
    void *watch = watch_open(s, "quiet");
    for (int i = 0; i < 3; i++) {
        int64_t before_us = pawl__now_us();
        assert_false(wait_hint(s, watch, 50, &hint));
        assert_true(pawl__now_us() - before_us < BOUND_MS * INT64_C(1000));
    }
    child_signal(child, SIGKILL);
    child_wait(child, BOUND_MS);
    child_free(child);
    watch_close(s, watch);
    free(copy);
}

/* ===== Findings ===== */

struct findings {
    size_t count;
    size_t bad;
    struct {
        pawl_verdict verdict;
        char topic[32];
        char sentence[512];
        char remedy[256];
    } all[16];
};

static void find_out(const pawl_finding *finding, void *arg)
{
    struct findings *findings = arg;
    assert_true(findings->count < 16);
    assert_int_equal(finding->size, sizeof *finding);
    assert_true(strlen(finding->sentence) > 0);
    assert_int_equal(finding->verdict == PAWL_FIT, finding->remedy[0] == '\0');
    size_t i = findings->count++;
    findings->bad += finding->verdict != PAWL_FIT;
    findings->all[i].verdict = finding->verdict;
    snprintf(findings->all[i].topic, sizeof findings->all[i].topic, "%s", finding->topic);
    snprintf(findings->all[i].sentence, sizeof findings->all[i].sentence, "%s", finding->sentence);
    snprintf(findings->all[i].remedy, sizeof findings->all[i].remedy, "%s", finding->remedy);
}

/* As pawl_client_examine() on a client that was opened lazily: nobody has touched the directory. */
static struct findings examine(const char *directory)
{
    struct findings findings = {.count = 0};
    struct side side;
    char path[512];
    snprintf(path, sizeof path, "%s", directory);
    struct pawl__url url = {.path = path};
    memset(&side, 0, sizeof side);
    assert_int_equal(pawl__engine_file.open(&url, &side.host, &side.self), PAWL_OK);
    assert_int_equal(pawl__engine_file.examine(side.self, find_out, &findings), PAWL_OK);
    pawl__engine_file.close(side.self);
    return findings;
}

static void assert_found(
    const struct findings *findings, const char *topic, pawl_verdict verdict, const char *needle)
{
    for (size_t i = 0; i < findings->count; i++) {
        if (strcmp(findings->all[i].topic, topic) == 0) {
            assert_int_equal(findings->all[i].verdict, verdict);
            if (strstr(findings->all[i].sentence, needle) == NULL &&
                strstr(findings->all[i].remedy, needle) == NULL) {
                support_fail("\"%s\" is not in \"%s\"; \"%s\"", needle, findings->all[i].sentence,
                    findings->all[i].remedy);
            }
            return;
        }
    }
    support_fail("no finding about %s", topic);
}

static void a_good_directory_is_fit(void **state)
{
    (void)state;
    const char *directory = tempdir_make();
    struct findings findings = examine(directory);
    static const char *const topics[] = {
        "directory", "above", "rights", "filesystem", "space", "inotify"};
    for (size_t i = 0; i < sizeof topics / sizeof topics[0]; i++) {
        assert_found(&findings, topics[i], PAWL_FIT, "");
    }
    assert_int_equal(findings.bad, 0);
}

static void a_bad_directory_is_not(void **state)
{
    (void)state;
    const char *parent = tempdir_make();
    struct text path = {0};
    struct findings findings;
    text_addf(&path, "%s/locks", parent);
    findings = examine(path.data);
    assert_found(&findings, "directory", PAWL_FIT, "it is made");
    assert_int_equal(access(path.data, F_OK), -1);
    assert_int_equal(mkdir(path.data, 0700), 0);
    assert_int_equal(chmod(path.data, 0770), 0);
    findings = examine(path.data);
    assert_found(&findings, "directory", PAWL_UNFIT, "chmod go-w");
    assert_int_equal(chmod(path.data, 01777), 0);
    findings = examine(path.data);
    assert_found(&findings, "directory", PAWL_WARNING, "other users");
    assert_int_equal(chmod(path.data, 0700), 0);
    assert_int_equal(chmod(parent, 0777), 0);
    findings = examine(path.data);
    assert_found(&findings, "above", PAWL_UNFIT, "sticky");
    assert_int_equal(chmod(parent, 0700), 0);
    text_addf(&path, "/no/locks");
    findings = examine(path.data);
    assert_found(&findings, "directory", PAWL_UNFIT, "mkdir -p");
    text_free(&path);
}

static int examine_closed(void *arg)
{
    (void)arg;
    const char *directory = tempdir_make();
    assert_int_equal(chmod(directory, 0500), 0);
    struct findings findings = examine(directory);
    assert_found(&findings, "rights", PAWL_UNFIT, "chmod u+rwx");
    assert_int_equal(chmod(directory, 0700), 0);
    tempdir_remove(directory);
    return 0;
}

static void a_missing_right_is_found(void **state)
{
    (void)state;
    if (geteuid() == 0) {
        assert_int_equal(run_as_nobody(examine_closed, NULL, BOUND_MS), 0);
    } else {
        assert_int_equal(examine_closed(NULL), 0);
    }
}

static int examine_small_disk(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    if (!mount_privately(arg, "size=32k,nr_inodes=3,mode=0700")) {
        return 77;
    }
    struct text path = {0};
    text_addf(&path, "%s/locks", (const char *)arg);
    assert_int_equal(mkdir(path.data, 0700), 0);
    struct findings findings = examine(path.data);
    assert_found(&findings, "filesystem", PAWL_FIT, "tmpfs");
    assert_found(&findings, "space", PAWL_UNFIT, "make room");
    assert_found(&findings, "inodes", PAWL_WARNING, "delete");
    text_addf(&path, "/file");
    fclose(fopen(path.data, "w"));
    path.data[strlen(path.data) - 5] = '\0';
    findings = examine(path.data);
    assert_found(&findings, "inodes", PAWL_UNFIT, "delete");
    assert_int_equal(mount("none", arg, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    findings = examine(path.data);
    assert_found(&findings, "rights", PAWL_UNFIT, "Read-only");
    text_free(&path);
    return 0;
}

static void a_small_disk_is_found(void **state)
{
    (void)state;
    run_with_own_mount(examine_small_disk);
}

#define STAGED(test) cmocka_unit_test_setup_teardown(test, stage_setup, stage_teardown)
#define CLEAN(test) cmocka_unit_test_setup_teardown(test, cleanup_setup, cleanup_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGED(a_grant_is_hinted_at),
        STAGED(other_things_are_not_hinted_at),
        STAGED(a_killed_holder_is_hinted_at),
        STAGED(the_directory_may_come_and_go),
        STAGED(a_busy_lock_is_hinted_at_now_and_then),
        STAGED(a_flood_of_others_ends_in_time),
        CLEAN(a_good_directory_is_fit),
        CLEAN(a_bad_directory_is_not),
        CLEAN(a_missing_right_is_found),
        CLEAN(a_small_disk_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
