/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_client_list() and pawl_client_look() on a real Redis server.
 *
 * Locks of ours, and hashes as Redisson writes them, among twenty thousand keys that are no locks;
 * a table that shrinks while it is walked through, so that SCAN shows keys twice; users who may not
 * see everything; a server that stops answering in the middle. What is asserted is that each hold
 * comes exactly once and that nothing else comes. */
#include "operators/common.h"
#include "operators/told.h"

#include <errno.h>
#include <unistd.h>

#define UUID "5bd36e9c-7a0f-4f5e-9d6a-2a8f5a3c1b77"
#define OTHER_UUID "0c2b0000-7a0f-4f5e-9d6a-2a8f5a3c1b77"
#define OTHER_KEYS 20000

static struct server *server;

static int begin(void **state)
{
    return flush_and_setup(server, state);
}

static void run_script(const char *text)
{
    const char *const words[] = {"EVAL", text, "0"};
    char *reply = server_command_words(server, 3, words);
    assert_null(strstr(reply, "(error)"));
    free(reply);
}

/* Keys of every type, among them hashes that look a little like locks. */
static void fill_with_others(void)
{
    run_script("for i = 1, 20000 do local kind = i % 4 "
               "if kind == 0 then redis.call('SET', 'string:' .. i, 'x') "
               "elseif kind == 1 then redis.call('HSET', 'user:' .. i, 'name', 'Ann', 'mode', 'x') "
               "elseif kind == 2 then redis.call('HSET', 'one:' .. i, 'visits', i) "
               "else redis.call('HSET', 'session:' .. i, '" UUID "', '7') end end return 1");
}

/* ===== Listing ===== */

static void our_own_lock_is_told_with_everything(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = own_lock(client, "jobs/nightly", 20000, true);
    char owner[PAWL_OWNER_SIZE];
    char host[65] = "";
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_owner(lock, owner, sizeof owner));
    gethostname(host, 64);
    const struct told *told = list(client, NULL);
    assert_int_equal(told->count, 1);
    const pawl_entry *entry = entry_of(told, "jobs/nightly", owner);
    assert_int_equal(entry->kind, PAWL_MUTEX);
    assert_true(entry->held);
    assert_int_equal(entry->hold_count, 1);
    assert_true(entry->remaining_ms > 10000 && entry->remaining_ms <= 20000);
    assert_true(entry->token == pawl_lock_token(lock));
    assert_string_equal(entry->host, host);
    assert_int_equal(entry->pid, getpid());
    assert_string_equal(entry->command, program_invocation_short_name);
    assert_true(entry->since_ms >= 0 && entry->since_ms < 60000);
    assert_int_equal(entry->waiters, 0);
    ASSERT_OK(pawl_lock_release(lock));
    assert_int_equal(list(client, NULL)->count, 0);
}

static void locks_are_found_among_other_keys(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *locks[50];
    fill_with_others();
    for (int i = 0; i < 50; i++) {
        char name[32];
        snprintf(name, sizeof name, "job:%d", i);
        locks[i] = own_lock(client, name, 60000, false);
        ASSERT_OK(pawl_lock_acquire(locks[i], PAWL_TRY));
    }
    const struct told *told = list(client, NULL);
    assert_int_equal(told->count, 50);
    for (int i = 0; i < 50; i++) {
        char name[32];
        snprintf(name, sizeof name, "job:%d", i);
        assert_int_equal(times_told(told, name, NULL), 1);
    }
}

static void redissons_locks_are_told_too(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    free(server_command(server, "HSET java " UUID ":47 2"));
    free(server_command(server, "PEXPIRE java 30000"));
    free(server_command(server, "HSET for-ever " UUID ":48 1"));
    free(server_command(server, "HSET shared mode read " UUID ":1 1 " OTHER_UUID ":2 3"));
    free(server_command(server, "HSET written mode write " UUID ":1:write 1"));
    const struct told *told = list(client, NULL);
    assert_int_equal(told->count, 5);
    const pawl_entry *java = entry_of(told, "java", UUID ":47");
    assert_int_equal(java->hold_count, 2);
    assert_true(java->remaining_ms > 20000 && java->remaining_ms <= 30000);
    assert_string_equal(java->host, "");
    assert_int_equal(java->pid, 0);
    assert_int_equal(java->since_ms, -1);
    assert_int_equal(java->token, 0);
    assert_int_equal(entry_of(told, "for-ever", NULL)->remaining_ms, -1);
    assert_int_equal(entry_of(told, "shared", UUID ":1")->kind, PAWL_READ);
    assert_int_equal(entry_of(told, "shared", OTHER_UUID ":2")->hold_count, 3);
    assert_int_equal(entry_of(told, "written", UUID ":1:write")->kind, PAWL_WRITE);
}

/* Strings, as the Redis manual has them: told if they say who holds them, and for how long. */
static void plain_locks_are_told_too(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_entry entry = {.size = sizeof entry};
    fill_with_others();
    free(server_command(server, "SET plain:1 " UUID ":7 PX 30000"));
    free(server_command(server, "SET plain:2 " UUID ":7x PX 30000"));
    free(server_command(server, "SET plain:3 " UUID ":7"));
    const struct told *told = list(client, NULL);
    assert_int_equal(told->count, 1);
    const pawl_entry *first = entry_of(told, "plain:1", UUID ":7");
    assert_true(first->remaining_ms > 20000 && first->remaining_ms <= 30000);
    assert_int_equal(list(client, "plain:?")->count, 1);
    ASSERT_OK(pawl_client_look(client, "plain:1", &entry));
    assert_int_equal(entry.kind, PAWL_PLAIN);
    assert_int_equal(pawl_client_look(client, "plain:3", &entry), PAWL_REFUSED);
}

/* Ids are any 16 bytes. The third permit's lease is over, the fourth has none. */
static void semaphores_with_permits_that_are_out_are_told_too(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_entry entry = {.size = sizeof entry};
    fill_with_others();
    free(server_command(server, "SET slots 3"));
    free(server_command(server, "SET visits 3"));
    free(server_command(server, "SET {a}slots 0"));
    run_script("local t = redis.call('TIME')[1] * 1000;"
               "local ids = {'\\0\\1\\2\\3\\4\\5\\6\\7\\8\\9\\10\\11\\12\\13\\254\\255',"
               "'bbbbbbbbbbbbbbbb', 'cccccccccccccccc', 'dddddddddddddddd'};"
               "redis.call('ZADD', '{slots}:timeout', t + 30000, ids[1], t + 60000, ids[2],"
               "t - 5000, ids[3], '922337203685477', ids[4]);"
               "redis.call('ZADD', '{a}slots:timeout', t + 30000, ids[1])");
    const struct told *told = list(client, NULL);
    assert_int_equal(told->count, 4);
    const pawl_entry *first = entry_of(told, "slots", "000102030405060708090a0b0c0dfeff");
    assert_int_equal(first->kind, PAWL_SEMAPHORE);
    assert_true(first->held);
    assert_int_equal(first->hold_count, 1);
    assert_int_equal(first->permits, 7);
    assert_int_equal(first->free_permits, 4);
    assert_int_equal(first->token, 0);
    assert_true(first->remaining_ms > 20000 && first->remaining_ms <= 30000);
    assert_int_equal(entry_of(told, "slots", "64646464646464646464646464646464")->remaining_ms, -1);
    assert_int_equal(times_told(told, "{a}slots", NULL), 1);
    assert_int_equal(list(client, "slot[s]")->count, 3);
    ASSERT_OK(pawl_client_look(client, "slots", &entry));
    assert_int_equal(entry.kind, PAWL_SEMAPHORE);
    assert_int_equal(pawl_client_look(client, "visits", &entry), PAWL_REFUSED);
}

static void what_is_no_lock_is_not_told(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    free(server_command(server, "HSET user:1000 name Ann email ann@example.org"));
    free(server_command(server, "HSET counter visits 7"));
    free(server_command(server, "HSET nearly " UUID ":x 1"));
    free(server_command(server, "HSET short-uuid 5bd3-7a0f-4f5e-9d6a-2a8f:1 1"));
    free(server_command(server, "HSET no-number " UUID ":1 many"));
    free(server_command(server, "HSET two " UUID ":1 1 " UUID ":2 1"));
    free(server_command(server, "HSET setting mode read"));
    free(server_command(server, "SET text " UUID ":1"));
    assert_int_equal(list(client, NULL)->count, 0);
}

static void patterns_choose(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    static const char *const names[] = {"a1", "a2", "b1", "a*", "[x]", "{a1}", "back\\slash"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *const words[] = {"HSET", names[i], UUID ":1", "1"};
        free(server_command_words(server, 4, words));
    }
    assert_int_equal(list(client, "a*")->count, 3);
    assert_int_equal(list(client, "a?")->count, 3);
    assert_int_equal(list(client, "a[0-9]")->count, 2);
    assert_int_equal(list(client, "a[^0-9]")->count, 1);
    assert_int_equal(list(client, "a\\*")->count, 1);
    assert_int_equal(list(client, "\\[x]")->count, 1);
    assert_int_equal(list(client, "b1")->count, 1);
    assert_int_equal(list(client, "{a1}")->count, 1);
    assert_int_equal(list(client, "back\\\\slash")->count, 1);
    assert_int_equal(list(client, "none")->count, 0);
}

static void the_callback_may_have_enough(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    struct told *told = told_new();
    run_script("for i = 1, 500 do redis.call('HSET', 'x' .. i, '" UUID ":' .. i, 1) end return 1");
    told->stop_at = 3;
    ASSERT_OK(pawl_client_list(client, NULL, note, told));
    assert_int_equal(told->count, 3);
    assert_int_equal(list(client, NULL)->count, 500);
}

/* ===== A table that changes meanwhile ===== */

struct shrinking {
    struct told *told;
    bool shrunk;
};

/* In the middle of the walk most keys go, so the table shrinks and buckets come again. */
static bool shrink_and_note(const pawl_entry *entry, void *arg)
{
    struct shrinking *shrinking = arg;
    if (!shrinking->shrunk) {
        shrinking->shrunk = true;
        run_script("for i = 1, 20000 do redis.call('DEL', 'gone:' .. i) end return 1");
    }
    return note(entry, shrinking->told);
}

static void nothing_comes_twice_while_the_table_changes(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    struct shrinking shrinking = {told_new(), false};
    run_script("for i = 1, 20000 do redis.call('SET', 'gone:' .. i, 'x') end "
               "for i = 1, 2000 do redis.call('HSET', 'x' .. i, '" UUID ":' .. i, 1) end return 1");
    ASSERT_OK(pawl_client_list(client, NULL, shrink_and_note, &shrinking));
    assert_int_equal(shrinking.told->count, 2000);
    for (int i = 1; i <= 2000; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        assert_int_equal(times_told(shrinking.told, name, NULL), 1);
    }
}

/* A script without keys asks for strings, any other for one lock. */
static void answer_script(struct scripted_turn *turn, void *arg)
{
    (void)arg;
    text_add_string(
        &turn->reply, strcmp(turn->words->items[2], "0") == 0
                          ? "*2\r\n$1\r\n0\r\n*1\r\n$2\r\nx3\r\n"
                          : "*7\r\n$5\r\nmutex\r\n:1000\r\n$1\r\n7\r\n:0\r\n$38\r\n" UUID
                            ":1\r\n$1\r\n1\r\n$4\r\n1000\r\n");
}

/* A real server seldom does it, so one is made to: within a page, and in two pages. */
static void what_the_server_shows_twice_is_told_once(void **state)
{
    (void)state;
    struct scripted *scripted = scripted_start();
    scripted_handshake(scripted);
    scripted_handle(scripted, "SCAN 0",
        "*2\\r\\n$1\\r\\n5\\r\\n*3\\r\\n$2\\r\\nx1\\r\\n$2\\r\\nx2\\r\\n$2\\r\\nx1\\r\\n");
    scripted_handle(
        scripted, "SCAN 5", "*2\\r\\n$1\\r\\n0\\r\\n*2\\r\\n$2\\r\\nx2\\r\\n$2\\r\\nx3\\r\\n");
    scripted_handle_with(scripted, "EVAL", answer_script, NULL);
    scripted_handle_with(scripted, "EVALSHA", answer_script, NULL);
    scripted_handle(scripted, "HMGET", "*4\\r\\n_\\r\\n_\\r\\n_\\r\\n_\\r\\n");
    const struct told *told = list(open_client(scripted_url(scripted), "?lazy=1"), NULL);
    assert_int_equal(told->count, 3);
    assert_int_equal(times_told(told, "x1", UUID ":1"), 1);
    assert_int_equal(times_told(told, "x2", UUID ":1"), 1);
    assert_int_equal(times_told(told, "x3", UUID ":1"), 1);
}

/* ===== Looking at one ===== */

static void a_look_shows_one_lock_held_or_not(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_lock *lock = own_lock(client, "x", 20000, true);
    pawl_entry entry = {.size = sizeof entry};
    char owner[PAWL_OWNER_SIZE];
    ASSERT_OK(pawl_client_look(client, "x", &entry));
    assert_false(entry.held);
    assert_string_equal(entry.name, "x");
    assert_string_equal(entry.holder, "");
    assert_int_equal(entry.token, 0);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_OK(pawl_lock_owner(lock, owner, sizeof owner));
    ASSERT_OK(pawl_client_look(client, "x", &entry));
    assert_true(entry.held);
    assert_string_equal(entry.holder, owner);
    assert_int_equal(entry.pid, getpid());
    const uint64_t token = entry.token;
    assert_true(token == pawl_lock_token(lock));
    ASSERT_OK(pawl_lock_release(lock));
    ASSERT_OK(pawl_client_look(client, "x", &entry));
    assert_false(entry.held);
    assert_true(entry.token == token);
}

static void a_smaller_entry_is_filled_as_far_as_it_goes(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_entry entry;
    memset(&entry, 0x5a, sizeof entry);
    entry.size = offsetof(pawl_entry, holder);
    free(server_command(server, "HSET java " UUID ":47 2"));
    ASSERT_OK(pawl_client_look(client, "java", &entry));
    assert_true(entry.held);
    assert_int_equal(entry.hold_count, 2);
    assert_int_equal(entry.holder[0], 0x5a);
}

static void a_key_that_is_no_lock_is_refused_at_a_look(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_entry entry = {.size = sizeof entry};
    free(server_command(server, "SET text x"));
    free(server_command(server, "HSET user:1000 name Ann email ann@example.org"));
    ASSERT_STATUS(PAWL_REFUSED, pawl_client_look(client, "text", &entry));
    ASSERT_STATUS(PAWL_REFUSED, pawl_client_look(client, "user:1000", &entry));
    assert_non_null(strstr(pawl_last_error(), "user:1000"));
}

static atomic_int waited;

static void note_wait(pawl_lock *lock, pawl_status status, void *arg)
{
    (void)lock;
    (void)arg;
    atomic_store(&waited, (int)status);
}

static void waiters_are_counted(void **state)
{
    (void)state;
    pawl_client *holder = open_client(server_url(server), NULL);
    pawl_client *waiter = open_client(server_url(server), NULL);
    pawl_lock *held = own_handle(holder, "x", 20000, true);
    pawl_lock *wanted = own_handle(waiter, "x", 20000, true);
    pawl_entry entry = {.size = sizeof entry};
    ASSERT_OK(pawl_lock_acquire(held, PAWL_TRY));
    ASSERT_OK(pawl_lock_acquire_async(wanted, 20000, note_wait, NULL));
    WAIT_UNTIL(pawl_client_look(holder, "x", &entry) == PAWL_OK && entry.waiters == 1, 5000);
    pawl_lock_cancel(wanted);
    WAIT_UNTIL(atomic_load(&waited) == PAWL_CANCELED, 5000);
}

/* ===== Rights ===== */

static char *user_url(const char *user)
{
    static char url[URL_SIZE];
    snprintf(url, sizeof url, "redis://%s:pw@127.0.0.1:%u", user, (unsigned)server_port(server));
    return url;
}

static void a_user_sees_what_it_may(void **state)
{
    (void)state;
    free(server_command(server, "ACL SETUSER half reset on >pw ~mine:* ~redisson_lock*:{mine:* "
                                "&* +@all -@dangerous"));
    free(server_command(server, "HSET mine:1 " UUID ":1 1"));
    free(server_command(server, "HSET yours:1 " UUID ":1 1"));
    pawl_client *client = open_client(user_url("half"), NULL);
    pawl_entry entry = {.size = sizeof entry};
    const struct told *told = list(client, NULL);
    assert_int_equal(told->count, 1);
    assert_string_equal(told->entries[0].name, "mine:1");
    ASSERT_OK(pawl_client_look(client, "mine:1", &entry));
    ASSERT_STATUS(PAWL_DENIED, pawl_client_look(client, "yours:1", &entry));
    free(server_command(server, "ACL DELUSER half"));
}

static void a_user_without_the_right_to_scan_is_told_so(void **state)
{
    (void)state;
    free(server_command(server, "ACL SETUSER blind reset on >pw ~* &* +@all -scan"));
    pawl_client *client = open_client(user_url("blind"), NULL);
    struct told *told = told_new();
    ASSERT_STATUS(PAWL_DENIED, pawl_client_list(client, NULL, note, told));
    assert_non_null(strstr(pawl_last_error(), "ACL SETUSER blind +scan"));
    assert_null(strstr(pawl_last_error(), "pw@"));
    free(server_command(server, "ACL DELUSER blind"));
}

static void a_user_who_may_not_count_or_name_still_sees_locks(void **state)
{
    (void)state;
    pawl_client *holder = open_client(server_url(server), NULL);
    pawl_lock *lock = own_lock(holder, "x", 20000, true);
    pawl_entry entry = {.size = sizeof entry};
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    free(server_command(server, "ACL SETUSER shy reset on >pw ~x +hello +evalsha +eval +scan +hlen "
                                "+hget +hkeys +pttl +time"));
    pawl_client *client = open_client(user_url("shy"), "?lazy=1");
    ASSERT_OK(pawl_client_look(client, "x", &entry));
    assert_true(entry.held);
    assert_string_equal(entry.host, "");
    assert_int_equal(entry.waiters, -1);
    assert_int_equal(entry.token, 0);
    assert_int_equal(list(client, NULL)->count, 1);
    free(server_command(server, "ACL DELUSER shy"));
}

/* A number may be a semaphore: who may not see its permits is not told that it is none. */
static void a_user_who_may_not_see_permits_is_told_so(void **state)
{
    (void)state;
    free(server_command(server, "ACL SETUSER half reset on >pw ~mine:* &* +@all"));
    free(server_command(server, "SET mine:s 1"));
    free(server_command(server, "ZADD {mine:s}:timeout 922337203685477 abcdefghijklmnop"));
    pawl_client *client = open_client(user_url("half"), NULL);
    pawl_entry entry = {.size = sizeof entry};
    struct told *told = told_new();
    ASSERT_STATUS(PAWL_DENIED, pawl_client_look(client, "mine:s", &entry));
    assert_non_null(strstr(pawl_last_error(), "ACL SETUSER half '~{mine:s}:timeout'"));
    ASSERT_STATUS(PAWL_DENIED, pawl_client_list(client, "mine:s", note, told));
    ASSERT_STATUS(PAWL_DENIED, pawl_client_list(client, NULL, note, told));
    assert_non_null(strstr(pawl_last_error(), "ACL SETUSER half '~*:timeout'"));
    free(server_command(server, "ACL SETUSER half ~{mine:*:timeout"));
    ASSERT_OK(pawl_client_look(client, "mine:s", &entry));
    assert_int_equal(entry.kind, PAWL_SEMAPHORE);
    assert_int_equal(list(client, NULL)->count, 1);
    free(server_command(server, "ACL DELUSER half"));
}

/* ===== Servers that do not behave ===== */

static void a_frozen_server_is_left_by_the_timeout(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), "?timeout=300ms&connect_timeout=300ms");
    pawl_entry entry = {.size = sizeof entry};
    struct told *told = told_new();
    server_pause(server);
    ASSERT_ENDS("list on a frozen server", 600, PAWL_UNAVAILABLE,
        pawl_client_list(client, NULL, note, told));
    ASSERT_ENDS(
        "look on a frozen server", 600, PAWL_UNAVAILABLE, pawl_client_look(client, "x", &entry));
    server_resume(server);
    ASSERT_OK(pawl_client_look(client, "x", &entry));
}

static bool freeze(const pawl_entry *entry, void *arg)
{
    (void)entry;
    (void)arg;
    if (process_state(server_pid(server)) != 'T') {
        server_pause(server);
    }
    return true;
}

static void a_server_that_freezes_in_the_middle_is_left_too(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), "?timeout=300ms");
    run_script("for i = 1, 3000 do redis.call('HSET', 'x' .. i, '" UUID ":' .. i, 1) end return 1");
    ASSERT_ENDS("list on a server that freezes", 300, PAWL_UNAVAILABLE,
        pawl_client_list(client, NULL, freeze, NULL));
    server_resume(server);
}

static void scripts_that_were_forgotten_are_sent_again(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    free(server_command(server, "HSET java " UUID ":47 2"));
    assert_int_equal(list(client, NULL)->count, 1);
    free(server_command(server, "SCRIPT FLUSH"));
    assert_int_equal(list(client, NULL)->count, 1);
}

static void a_database_of_its_own_is_listed_alone(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), "/3");
    free(server_command(server, "HSET zero " UUID ":47 2"));
    pawl_lock *lock = own_lock(client, "three", 20000, true);
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    const struct told *told = list(client, NULL);
    assert_int_equal(told->count, 1);
    assert_string_equal(told->entries[0].name, "three");
}

/* ===== Misuse ===== */

static bool call_inside(const pawl_entry *entry, void *arg)
{
    pawl_entry other = {.size = sizeof other};
    pawl_client *client = arg;
    ASSERT_STATUS(PAWL_MISUSE, pawl_client_look(client, entry->name, &other));
    ASSERT_STATUS(PAWL_MISUSE, pawl_client_close(client));
    return true;
}

static void mistakes_are_named(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    pawl_entry entry = {.size = 0};
    struct told *told = told_new();
    char owner[PAWL_OWNER_SIZE];
    pawl_lock *lock = own_lock(client, "x", 20000, true);
    ASSERT_STATUS(PAWL_INVALID, pawl_client_look(client, "x", &entry));
    ASSERT_STATUS(PAWL_INVALID, pawl_client_look(client, "x", NULL));
    ASSERT_STATUS(PAWL_INVALID, pawl_client_list(client, "", note, told));
    ASSERT_STATUS(PAWL_INVALID, pawl_client_list(client, NULL, NULL, told));
    ASSERT_STATUS(PAWL_INVALID, pawl_client_list(NULL, NULL, note, told));
    ASSERT_STATUS(PAWL_NOT_HELD, pawl_lock_owner(lock, owner, sizeof owner));
    assert_string_equal(owner, "");
    ASSERT_STATUS(PAWL_INVALID, pawl_lock_owner(lock, NULL, 0));
    ASSERT_OK(pawl_lock_acquire(lock, PAWL_TRY));
    ASSERT_STATUS(PAWL_INVALID, pawl_lock_owner(lock, owner, 8));
    assert_string_equal(owner, "");
    ASSERT_OK(pawl_client_list(client, NULL, call_inside, client));
}

static int look_in_the_child(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    pawl_client *client = arg;
    pawl_entry entry = {.size = sizeof entry};
    return pawl_client_look(client, "x", &entry) == PAWL_MISUSE &&
                   pawl_client_list(client, NULL, note, told_new()) == PAWL_MISUSE
               ? 0
               : 1;
}

static void a_forked_child_may_not_look(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    struct child *child = child_fork(look_in_the_child, client);
    assert_int_equal(child_wait(child, 5000), 0);
    assert_int_equal(list(client, NULL)->count, 0);
}

static void no_connection_is_left_behind(void **state)
{
    (void)state;
    pawl_client *client = open_client(server_url(server), NULL);
    const size_t before = server_client_count(server, NULL);
    for (int i = 0; i < 5; i++) {
        list(client, NULL);
    }
    WAIT_UNTIL(server_client_count(server, NULL) == before, 5000);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, cleanup_teardown)
    const struct CMUnitTest tests[] = {
        CASE(our_own_lock_is_told_with_everything),
        CASE(locks_are_found_among_other_keys),
        CASE(redissons_locks_are_told_too),
        CASE(plain_locks_are_told_too),
        CASE(semaphores_with_permits_that_are_out_are_told_too),
        CASE(what_is_no_lock_is_not_told),
        CASE(patterns_choose),
        CASE(the_callback_may_have_enough),
        CASE(nothing_comes_twice_while_the_table_changes),
        CASE(what_the_server_shows_twice_is_told_once),
        CASE(a_look_shows_one_lock_held_or_not),
        CASE(a_smaller_entry_is_filled_as_far_as_it_goes),
        CASE(a_key_that_is_no_lock_is_refused_at_a_look),
        CASE(waiters_are_counted),
        CASE(a_user_sees_what_it_may),
        CASE(a_user_without_the_right_to_scan_is_told_so),
        CASE(a_user_who_may_not_count_or_name_still_sees_locks),
        CASE(a_user_who_may_not_see_permits_is_told_so),
        CASE(a_frozen_server_is_left_by_the_timeout),
        CASE(a_server_that_freezes_in_the_middle_is_left_too),
        CASE(scripts_that_were_forgotten_are_sent_again),
        CASE(a_database_of_its_own_is_listed_alone),
        CASE(mistakes_are_named),
        CASE(a_forked_child_may_not_look),
        CASE(no_connection_is_left_behind),
    };
    server = server_start(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
