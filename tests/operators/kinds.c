/* SPDX-License-Identifier: Apache-2.0 */
/* Watching, kind by kind: who watches one name, or a pattern, is told of it what who watches
 * everything is told, and that is what the table says.
 *
 * Two processes' worth of clients do the same with each kind: one takes it, gives it to another who
 * waits for it, and that one gives it back. After each step all watches are read until they have
 * told what they should, so that they see the same; a last wait shows that nothing else comes. */
#include "operators/common.h"

#define BOUND_MS (5000 * SLOWNESS)
#define NEVER_MS 600000 /* looks that do not come during a test */
#define LOOK_MS 20

enum { STEPS = 3, WATCHES = 3 };

/* By what a watch learns of a change. */
enum source { BY_MESSAGE, BY_EVENT, BY_LOOKING, SOURCES };

enum thing { LOCK, SEMAPHORE, PERMITS, LATCH };

/* What is told after each step: '+' acquired, '-' released. */
struct kind {
    const char *label;
    enum thing thing;
    pawl_kind first;  /* of the lock that is taken */
    pawl_kind second; /* and of the one that waits for it */
    const char *told[SOURCES][STEPS];
};

#define ALL_TOLD       \
    {                  \
        "+", "-+", "-" \
    }
#define RELEASES_TOLD \
    {                 \
        "", "-+", "-" \
    }

static const struct kind kinds[] = {
    {"mutex", LOCK, PAWL_MUTEX, PAWL_MUTEX, {RELEASES_TOLD, ALL_TOLD, ALL_TOLD}},
    /* When nobody waits, nobody is told. */
    {"fair", LOCK, PAWL_FAIR, PAWL_FAIR, {{"", "-+", ""}, ALL_TOLD, ALL_TOLD}},
    {"read", LOCK, PAWL_READ, PAWL_WRITE, {RELEASES_TOLD, ALL_TOLD, ALL_TOLD}},
    {"write", LOCK, PAWL_WRITE, PAWL_WRITE, {RELEASES_TOLD, ALL_TOLD, ALL_TOLD}},
    {"spin", LOCK, PAWL_SPIN, PAWL_SPIN, {{"", "", ""}, ALL_TOLD, ALL_TOLD}},
    /* Of the server's strings only deletions are listened to; and those are looked at. */
    {"plain", LOCK, PAWL_PLAIN, PAWL_PLAIN, {{"", "", ""}, {"", "+", "-"}, ALL_TOLD}},
    {"permits", PERMITS, PAWL_SEMAPHORE, PAWL_SEMAPHORE, {RELEASES_TOLD, ALL_TOLD, ALL_TOLD}},
    /* Nobody can see who has its permits. */
    {"semaphore", SEMAPHORE, PAWL_SEMAPHORE, PAWL_SEMAPHORE,
        {{"", "-", "-"}, {"", "-", "-"}, {"", "-", "-"}}},
    {"latch", LATCH, PAWL_LATCH, PAWL_LATCH, {{"", "", "-"}, {"", "", "-"}, {"", "", "-"}}},
};

static struct server *server;

static int begin(void **state)
{
    return flush_and_setup(server, state);
}

/* ===== Who acts ===== */

struct actor {
    pawl_lock *lock;
    pawl_semaphore *semaphore;
    pawl_latch *latch;
    pawl_permit permit;
    atomic_int done; /* -1: not yet */
};

static struct actor actors[2]; /* callbacks write to them */

static void note_lock(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    atomic_store(&((struct actor *)arg)->done, (int)status);
}

static void note_semaphore(pawl_semaphore *semaphore, pawl_status status, void *arg)
{
    (void)semaphore;
    atomic_store(&((struct actor *)arg)->done, (int)status);
}

static void note_permit(pawl_semaphore *semaphore, pawl_status status, const pawl_permit *permits,
    size_t count, void *arg)
{
    struct actor *actor = arg;
    (void)semaphore;
    if (count == 1) {
        actor->permit = *permits;
    }
    atomic_store(&actor->done, (int)status);
}

static void close_semaphore(void *object)
{
    pawl_semaphore_close(object);
}

static void close_latch(void *object)
{
    pawl_latch_close(object);
}

static void open_actor(
    struct actor *actor, const struct kind *kind, pawl_kind lock_kind, const char *name)
{
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock_options lock = PAWL_LOCK_OPTIONS_INIT;
    pawl_semaphore_options semaphore = PAWL_SEMAPHORE_OPTIONS_INIT;
    atomic_store(&actor->done, -1);
    switch (kind->thing) {
    case LOCK:
        lock.kind = lock_kind;
        lock.owner = PAWL_OWNER_HANDLE;
        actor->lock = open_lock_with(client, name, &lock);
        cleanup_add(close_lock_in_cleanup, actor->lock);
        return;
    case SEMAPHORE:
    case PERMITS:
        semaphore.leased = kind->thing == PERMITS;
        ASSERT_OK(pawl_semaphore_open(client, name, &semaphore, &actor->semaphore));
        cleanup_add(close_semaphore, actor->semaphore);
        ASSERT_OK(pawl_semaphore_set(actor->semaphore, 1, NULL));
        return;
    case LATCH:
        ASSERT_OK(pawl_latch_open(client, name, &actor->latch));
        cleanup_add(close_latch, actor->latch);
        return;
    }
}

static void take(struct actor *actor, enum thing thing)
{
    switch (thing) {
    case LOCK:
        ASSERT_OK(pawl_lock_acquire_async(actor->lock, PAWL_FOREVER, note_lock, actor));
        return;
    case SEMAPHORE:
        ASSERT_OK(
            pawl_semaphore_acquire_async(actor->semaphore, 1, PAWL_FOREVER, note_semaphore, actor));
        return;
    case PERMITS:
        ASSERT_OK(pawl_permit_acquire_async(actor->semaphore, 1, PAWL_FOREVER, note_permit, actor));
        return;
    case LATCH:
        ASSERT_OK(pawl_latch_set(actor->latch, 2, NULL));
        atomic_store(&actor->done, PAWL_OK);
        return;
    }
}

static void await_taken(struct actor *actor)
{
    WAIT_UNTIL(atomic_load(&actor->done) == PAWL_OK, BOUND_MS);
}

static void give_back(struct actor *actor, enum thing thing)
{
    switch (thing) {
    case LOCK:
        ASSERT_OK(pawl_lock_release(actor->lock));
        return;
    case SEMAPHORE:
        ASSERT_OK(pawl_semaphore_release(actor->semaphore, 1));
        return;
    case PERMITS:
        ASSERT_OK(pawl_permit_release(actor->semaphore, &actor->permit, 1));
        return;
    case LATCH:
        ASSERT_OK(pawl_latch_count_down(actor->latch));
        return;
    }
}

static void act(const struct kind *kind, const char *name, int step)
{
    switch (step) {
    case 0:
        take(&actors[0], kind->thing);
        await_taken(&actors[0]);
        return;
    case 1:
        if (kind->thing != LATCH) {
            take(&actors[1], kind->thing);
        }
        if (kind->first == PAWL_FAIR) {
            WAIT_UNTIL(server_answers(server, "1",
                           strchr(name, '{') != NULL ? "LLEN redisson_lock_queue:%s"
                                                     : "LLEN redisson_lock_queue:{%s}",
                           name),
                BOUND_MS);
        }
        give_back(&actors[0], kind->thing);
        if (kind->thing != LATCH) {
            await_taken(&actors[1]);
        }
        return;
    default:
        give_back(&actors[kind->thing == LATCH ? 0 : 1], kind->thing);
        return;
    }
}

/* ===== Who watches ===== */

static void close_watch(void *object)
{
    pawl_watch_close(object);
}

static pawl_watch *watch(const char *pattern, enum source source)
{
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_watch *opened = NULL;
    ASSERT_OK(pawl_watch_open(client, pattern, source == BY_LOOKING ? LOOK_MS : NEVER_MS, &opened));
    cleanup_add(close_watch, opened);
    assert_int_equal(pawl_watch_exact(opened), source == BY_EVENT);
    return opened;
}

/* Everything that is told after a step, as text. */
static void read_watch(pawl_watch *watched, const char *name, size_t count, char *told, size_t size)
{
    static const char *const changes = " +-!";
    pawl_watch_event event = {.size = sizeof event};
    size_t used = 0;
    told[0] = '\0';
    for (size_t i = 0;; i++) {
        const pawl_status status = pawl_watch_next(watched, i < count ? BOUND_MS : 60, &event);
        if (status == PAWL_BUSY) {
            return;
        }
        ASSERT_OK(status);
        assert_string_equal(event.entry.name, name);
        used += (size_t)snprintf(told + used, size - used, "%c %d %s\n", changes[event.change],
            (int)event.entry.kind, event.entry.holder);
        assert_true(used < size);
    }
}

static void assert_changes(const char *told, const char *expected, const char *where)
{
    char changes[8] = "";
    size_t count = 0;
    for (const char *line = told; *line != '\0' && count < sizeof changes - 1;
         line = strchr(line, '\n') + 1) {
        changes[count++] = *line;
    }
    if (strcmp(changes, expected) != 0) {
        support_fail("%s: told was '%s', not '%s':\n%s", where, changes, expected, told);
    }
}

/* The lock's kind, unless a fair one is not waited for: it looks like a mutex then. */
static void assert_kinds(const char *told, const struct kind *kind, const char *where)
{
    for (const char *line = told; *line != '\0'; line = strchr(line, '\n') + 1) {
        const int shown = line[2] - '0';
        const bool like_mutex = kind->thing == LOCK && shown == PAWL_MUTEX &&
                                (kind->first == PAWL_FAIR || kind->first == PAWL_SPIN);
        if (shown != (int)kind->first && shown != (int)kind->second && !like_mutex) {
            support_fail("%s: a kind is wrong:\n%s", where, told);
        }
    }
}

static void watch_kind(const struct kind *kind, const char *name, enum source source)
{
    static const char *const sources[] = {"messages", "events", "looks"};
    char pattern[32];
    snprintf(pattern, sizeof pattern, "%.*s?*", (int)strlen(name) - 2, name);
    const char *const patterns[WATCHES] = {NULL, name, pattern};
    pawl_watch *watches[WATCHES];
    open_actor(&actors[0], kind, kind->first, name);
    open_actor(&actors[1], kind, kind->second, name);
    for (size_t i = 0; i < WATCHES; i++) {
        watches[i] = watch(patterns[i], source);
    }
    for (int step = 0; step < STEPS; step++) {
        const char *expected = kind->told[source][step];
        char told[WATCHES][1024];
        char where[128];
        act(kind, name, step);
        for (size_t i = 0; i < WATCHES; i++) {
            snprintf(where, sizeof where, "%s '%s', %s, step %d, watch %s", kind->label, name,
                sources[source], step, patterns[i] != NULL ? patterns[i] : "all");
            read_watch(watches[i], name, strlen(expected), told[i], sizeof told[i]);
            assert_changes(told[i], expected, where);
            assert_kinds(told[i], kind, where);
            assert_string_equal(told[i], told[0]);
        }
    }
}

static void watch_all_kinds(enum source source)
{
    static const char *const names[] = {"jobs", "jo{b}s"};
    free(server_command(
        server, "CONFIG SET notify-keyspace-events %s", source == BY_EVENT ? "Kghxz" : "''"));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        for (size_t j = 0; j < sizeof names / sizeof names[0]; j++) {
            watch_kind(&kinds[i], names[j], source);
            cleanup_teardown(NULL);
            assert_int_equal(flush_and_setup(server, NULL), 0);
        }
    }
}

static void one_name_is_told_as_all_are_by_messages(void **state)
{
    (void)state;
    watch_all_kinds(BY_MESSAGE);
}

static void one_name_is_told_as_all_are_by_events(void **state)
{
    (void)state;
    watch_all_kinds(BY_EVENT);
}

static void one_name_is_told_as_all_are_by_looking(void **state)
{
    (void)state;
    watch_all_kinds(BY_LOOKING);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, cleanup_teardown)
    const struct CMUnitTest tests[] = {
        CASE(one_name_is_told_as_all_are_by_messages),
        CASE(one_name_is_told_as_all_are_by_events),
        CASE(one_name_is_told_as_all_are_by_looking),
    };
    server = server_start(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
