/* SPDX-License-Identifier: Apache-2.0 */
/* Bad days: an answer that is lost, a caller that leaves, a peer that dies, a server that stands
 * still. Whatever happens, a request counts once or, if its caller does not know, not at all. */
#include "engine/redis/lua_scripts.h"
#include "support/process.h"
#include "support/proxy.h"
#include "support/server.h"
#include "synchronizers/lib/cases.h"

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_MS = 1000, PERMITS = 3 };

struct scene {
    struct server *server;
    struct proxy *proxy;
    pawl_client *client;
    pawl_semaphore *semaphore;
    pawl_semaphore *leased;
    pawl_latch *latch;
};

/* All scripts are known to the server afterwards, so that a request is one that is matched. */
static void scene_begin(struct scene *scene)
{
    int64_t ignored;
    pawl_permit permit;
    scene->server = server_start(NULL);
    scene->proxy = proxy_start_for(scene->server);
    cases_url = proxy_url(scene->proxy);
    scene->client = open_client();
    scene->semaphore = open_semaphore(scene->client, "s", false);
    scene->leased = open_semaphore(scene->client, "p", true);
    EXPECT_OK(pawl_latch_open(scene->client, "l", &scene->latch));
    EXPECT_OK(pawl_semaphore_set(scene->semaphore, PERMITS, NULL));
    EXPECT_OK(pawl_semaphore_acquire(scene->semaphore, 1, PAWL_TRY));
    EXPECT_OK(pawl_semaphore_release(scene->semaphore, 1));
    EXPECT_OK(pawl_semaphore_drain(scene->semaphore, &ignored));
    EXPECT_OK(pawl_semaphore_add(scene->semaphore, PERMITS));
    EXPECT_OK(pawl_semaphore_set(scene->leased, PERMITS, NULL));
    EXPECT_OK(pawl_permit_acquire(scene->leased, 1, PAWL_TRY, &permit));
    EXPECT_OK(pawl_permit_release(scene->leased, &permit, 1));
    EXPECT_OK(pawl_latch_set(scene->latch, 1, NULL));
    EXPECT_OK(pawl_latch_reset(scene->latch));
    EXPECT_OK(pawl_latch_set(scene->latch, 5, NULL));
    EXPECT_OK(pawl_latch_count_down(scene->latch));
}

static void scene_end(struct scene *scene)
{
    EXPECT_OK(pawl_latch_close(scene->latch));
    EXPECT_OK(pawl_semaphore_close(scene->leased));
    EXPECT_OK(pawl_semaphore_close(scene->semaphore));
    EXPECT_OK(pawl_client_close(scene->client));
    proxy_stop(scene->proxy);
    server_stop(scene->server);
}

/* The next answer to this script is lost, and its connection ends. */
static void lose_answer(struct scene *scene, const struct pawl__script *script, enum proxy_end how)
{
    proxy_cut_reply_of(scene->proxy, script->sha1, 1, how);
}

static int64_t count_of(struct scene *scene, const char *key)
{
    char *text = server_command(scene->server, "GET %s", key);
    const int64_t count = strtoll(text, NULL, 10);
    free(text);
    return count;
}

static uint64_t lost_answers(struct scene *scene)
{
    return proxy_stats(scene->proxy).replies_lost;
}

static void repeated_requests_count_once(void **state)
{
    (void)state;
    struct scene scene;
    int64_t drained = 0;
    pawl_permit permits[2];
    scene_begin(&scene);

    lose_answer(&scene, &pawl__script_semaphore_take, PROXY_RST);
    EXPECT_OK(pawl_semaphore_acquire(scene.semaphore, 2, PAWL_TRY));
    assert_int_equal(lost_answers(&scene), 1);
    assert_int_equal(count_of(&scene, "s"), 1);

    lose_answer(&scene, &pawl__script_semaphore_add, PROXY_RST);
    EXPECT_OK(pawl_semaphore_release(scene.semaphore, 2));
    assert_int_equal(lost_answers(&scene), 2);
    assert_int_equal(count_of(&scene, "s"), 3);

    lose_answer(&scene, &pawl__script_semaphore_add, PROXY_FIN);
    EXPECT_OK(pawl_semaphore_add(scene.semaphore, 4));
    assert_int_equal(count_of(&scene, "s"), 7);

    lose_answer(&scene, &pawl__script_semaphore_drain, PROXY_RST);
    EXPECT_OK(pawl_semaphore_drain(scene.semaphore, &drained));
    assert_int_equal(drained, 7); /* what the first copy took */
    assert_int_equal(count_of(&scene, "s"), 0);

    lose_answer(&scene, &pawl__script_permits_take, PROXY_RST);
    EXPECT_OK(pawl_permit_acquire(scene.leased, 2, PAWL_TRY, permits));
    assert_int_equal(count_of(&scene, "p"), 1);
    assert_int_equal(server_integer(scene.server, "ZCARD {p}:timeout"), 2);

    lose_answer(&scene, &pawl__script_permits_give, PROXY_RST);
    EXPECT_OK(pawl_permit_release(scene.leased, permits, 2)); /* not lost: it was this release */
    assert_int_equal(count_of(&scene, "p"), 3);

    lose_answer(&scene, &pawl__script_latch_down, PROXY_RST);
    EXPECT_OK(pawl_latch_count_down(scene.latch));
    assert_int_equal(count_of(&scene, "l"), 3);

    bool set = false;
    EXPECT_OK(pawl_latch_reset(scene.latch));
    lose_answer(&scene, &pawl__script_count_set, PROXY_RST);
    EXPECT_OK(pawl_latch_set(scene.latch, 2, &set));
    assert_true(set); /* it was this call, although the count was there when it was repeated */
    assert_int_equal(lost_answers(&scene), 8);
    scene_end(&scene);
}

/* Nobody knows whether it was granted, and nobody waits any more: it is taken back. */
static void unheard_acquire_is_taken_back(void **state)
{
    (void)state;
    struct scene scene;
    pawl_permit permit;
    scene_begin(&scene);
    lose_answer(&scene, &pawl__script_semaphore_take, PROXY_MUTE);
    EXPECT(PAWL_UNAVAILABLE, pawl_semaphore_acquire(scene.semaphore, 2, PAWL_TRY));
    WAIT_UNTIL(count_of(&scene, "s") == PERMITS, SOON_MS);
    lose_answer(&scene, &pawl__script_permits_take, PROXY_MUTE);
    EXPECT(PAWL_UNAVAILABLE, pawl_permit_acquire(scene.leased, 1, PAWL_TRY, &permit));
    WAIT_UNTIL(count_of(&scene, "p") == PERMITS, SOON_MS);
    assert_int_equal(server_integer(scene.server, "EXISTS {p}:timeout"), 0);
    scene_end(&scene);
}

/* The same for a drain: nobody knows how many it took, but the server does. */
static void unheard_drain_is_taken_back(void **state)
{
    (void)state;
    struct scene scene;
    int64_t drained = 7;
    scene_begin(&scene);
    lose_answer(&scene, &pawl__script_semaphore_drain, PROXY_MUTE);
    EXPECT(PAWL_UNAVAILABLE, pawl_semaphore_drain(scene.semaphore, &drained));
    assert_int_equal(drained, 0);
    WAIT_UNTIL(count_of(&scene, "s") == PERMITS, SOON_MS);
    lose_answer(&scene, &pawl__script_semaphore_drain, PROXY_MUTE);
    EXPECT(PAWL_UNAVAILABLE, pawl_semaphore_drain(scene.leased, &drained));
    WAIT_UNTIL(count_of(&scene, "p") == PERMITS, SOON_MS);
    EXPECT_OK(pawl_semaphore_drain(scene.semaphore, &drained));
    assert_int_equal(drained, PERMITS);
    EXPECT_OK(pawl_semaphore_drain(scene.leased, &drained));
    assert_int_equal(drained, PERMITS);
    scene_end(&scene);
}

/* Canceled while the answer is under way: what was granted meanwhile is given back. */
static void canceled_acquire_is_taken_back(void **state)
{
    (void)state;
    struct scene scene;
    struct caller caller;
    scene_begin(&scene);
    proxy_hold(scene.proxy, PROXY_TO_CLIENT);
    call_acquire(&caller, scene.semaphore, 2, PAWL_FOREVER);
    WAIT_UNTIL(count_of(&scene, "s") == PERMITS - 2, SOON_MS);
    pawl_semaphore_cancel(scene.semaphore);
    EXPECT(PAWL_CANCELED, call_join(&caller));
    proxy_release(scene.proxy, PROXY_TO_CLIENT);
    WAIT_UNTIL(count_of(&scene, "s") == PERMITS, SOON_MS);
    scene_end(&scene);
}

/* How many records say that their request is void. */
static int64_t void_count(struct scene *scene)
{
    static const char script[] =
        "local n=0 for _,k in ipairs(redis.call('KEYS','pawl_asked:{s}:*')) "
        "do if redis.call('GET',k)=='0' then n=n+1 end end return n";
    const char *const words[] = {"EVAL", script, "0"};
    char *text = server_command_words(scene->server, 3, words);
    const int64_t count = strtoll(text, NULL, 10);
    free(text);
    return count;
}

/* The request itself arrives when its caller has left, and the old connection could not be killed:
 * it is void by then. */
static void late_copy_is_void(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    assert_true(server_answers(scene.server, "OK", "ACL SETUSER default -client|kill"));
    const uint64_t before = proxy_answered(scene.proxy, pawl__script_semaphore_take.sha1);
    proxy_hold_from(scene.proxy, pawl__script_semaphore_take.sha1);
    EXPECT(PAWL_UNAVAILABLE, pawl_semaphore_acquire(scene.semaphore, 2, PAWL_TRY));
    WAIT_UNTIL(void_count(&scene) == 1, SOON_MS);
    assert_int_equal(proxy_answered(scene.proxy, pawl__script_semaphore_take.sha1), before);
    proxy_release(scene.proxy, PROXY_TO_SERVER);
    WAIT_UNTIL(
        proxy_answered(scene.proxy, pawl__script_semaphore_take.sha1) == before + 1, SOON_MS);
    assert_int_equal(count_of(&scene, "s"), PERMITS);
    EXPECT_OK(pawl_semaphore_acquire(scene.semaphore, PERMITS, PAWL_TRY));
    scene_end(&scene);
}

static char *run_script(
    struct scene *scene, const struct pawl__script *script, const char *key, const char *record)
{
    const char *const words[] = {
        "EVAL", script->text, "4", key, key, record, record, "channel", "60000", "9", "9"};
    return server_command_words(scene->server, sizeof words / sizeof words[0], words);
}

static void assert_answers(struct scene *scene, const struct pawl__script *script, const char *key,
    const char *record, const char *expected)
{
    char *text = run_script(scene, script, key, record);
    assert_string_equal(text, expected);
    free(text);
}

/* That there was nothing to do is recorded: a copy that arrives late finds that, and not what there
 * is to do by then. */
static void nothing_done_stays_nothing(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    assert_answers(&scene, &pawl__script_latch_down, "a", "r1", "0");
    assert_answers(&scene, &pawl__script_latch_reset, "a", "r2", "0");
    assert_answers(&scene, &pawl__script_semaphore_drain, "b", "r3", "0");
    free(server_command(scene.server, "SET a 5"));
    free(server_command(scene.server, "SET b 5"));
    assert_answers(&scene, &pawl__script_count_set, "a", "r4", "0");

    assert_answers(&scene, &pawl__script_latch_down, "a", "r1", "0");
    assert_answers(&scene, &pawl__script_latch_reset, "a", "r2", "0");
    assert_answers(&scene, &pawl__script_semaphore_drain, "b", "r3", "0");
    assert_int_equal(count_of(&scene, "a"), 5);
    assert_int_equal(count_of(&scene, "b"), 5);
    free(server_command(scene.server, "DEL a"));
    assert_answers(&scene, &pawl__script_count_set, "a", "r4", "0");
    assert_int_equal(server_integer(scene.server, "EXISTS a"), 0);
    scene_end(&scene);
}

/* Nothing comes later: a client that closes well has nothing left to repeat, and the server has
 * read to their ends the connections that may have had a copy. */
static void end_all_requests(struct scene *scene)
{
    EXPECT_OK(pawl_client_close(scene->client));
    scene->client = NULL;
    WAIT_UNTIL(server_client_count(scene->server, NULL) == 0, SOON_MS);
}

/* A release that nobody confirmed goes on, and counts once. */
static void unheard_release_goes_on(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    EXPECT_OK(pawl_semaphore_acquire(scene.semaphore, PERMITS, PAWL_TRY));
    server_pause(scene.server);
    EXPECT(PAWL_UNAVAILABLE, pawl_semaphore_release(scene.semaphore, PERMITS));
    EXPECT(PAWL_UNAVAILABLE, pawl_latch_count_down(scene.latch));
    server_resume(scene.server);
    WAIT_UNTIL(count_of(&scene, "s") == PERMITS && count_of(&scene, "l") == 3, SOON_MS);
    end_all_requests(&scene);
    assert_int_equal(count_of(&scene, "s"), PERMITS);
    assert_int_equal(count_of(&scene, "l"), 3);
    scene_end(&scene);
}

struct told {
    _Atomic int count;
    _Atomic int status;
};

static void tell(pawl_semaphore *semaphore, pawl_status status, void *arg)
{
    struct told *told = arg;
    assert_non_null(semaphore);
    atomic_store(&told->status, (int)status);
    atomic_fetch_add(&told->count, 1);
}

static void tell_latch(pawl_latch *latch, pawl_status status, void *arg)
{
    assert_non_null(latch);
    tell((pawl_semaphore *)(void *)latch, status, arg);
}

/* Take all, let the server stand still, and give all back without waiting. */
static void give_to_frozen_server(struct scene *scene, struct told told[3])
{
    pawl_permit permits[PERMITS];
    EXPECT_OK(pawl_semaphore_acquire(scene->semaphore, PERMITS, PAWL_TRY));
    EXPECT_OK(pawl_permit_acquire(scene->leased, PERMITS, PAWL_TRY, permits));
    server_pause(scene->server);
    EXPECT_OK(pawl_semaphore_release_async(scene->semaphore, PERMITS, tell, &told[0]));
    EXPECT_OK(pawl_permit_release_async(scene->leased, permits, PERMITS, tell, &told[1]));
    EXPECT_OK(pawl_latch_count_down_async(scene->latch, tell_latch, &told[2]));
}

/* Everything that was taken from this scene is back, and no copy of a release comes later. */
static void is_given_back_once(struct scene *scene)
{
    WAIT_UNTIL(count_of(scene, "s") == PERMITS && count_of(scene, "p") == PERMITS &&
                   count_of(scene, "l") == 3,
        SOON_MS);
    end_all_requests(scene);
    assert_int_equal(count_of(scene, "s"), PERMITS);
    assert_int_equal(count_of(scene, "p"), PERMITS);
    assert_int_equal(count_of(scene, "l"), 3);
}

/* The same without waiting: `done` is told in time that it was not confirmed, and once. */
static void unheard_asynchronous_release_goes_on(void **state)
{
    (void)state;
    struct scene scene;
    static struct told told[3];
    scene_begin(&scene);
    const int64_t began_ms = boottime_ms();
    give_to_frozen_server(&scene, told);
    for (int i = 0; i < 3; i++) {
        WAIT_UNTIL(atomic_load(&told[i].count) == 1, SOON_MS);
        assert_int_equal(atomic_load(&told[i].status), PAWL_UNAVAILABLE);
    }
    assert_true(boottime_ms() - began_ms >= TIMEOUT_MS);
    server_resume(scene.server);
    is_given_back_once(&scene);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(atomic_load(&told[i].count), 1);
    }
    scene_end(&scene);
}

/* When the client is closed meanwhile, it says that a release went unheard, and so was `done` told
 * by then. */
static void a_close_ends_asynchronous_releases(void **state)
{
    (void)state;
    struct scene scene;
    static struct told told[3];
    memset(told, 0, sizeof told);
    scene_begin(&scene);
    give_to_frozen_server(&scene, told);
    EXPECT(PAWL_UNAVAILABLE, pawl_client_close(scene.client));
    assert_string_equal(pawl_last_error(),
        "a release was not confirmed; what has a lease ends with it, and permits without a lease "
        "may stay taken, and a latch may be one too high");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(atomic_load(&told[i].count), 1);
        assert_int_equal(atomic_load(&told[i].status), PAWL_UNAVAILABLE);
    }
    server_resume(scene.server);
    EXPECT_OK(pawl_latch_close(scene.latch));
    EXPECT_OK(pawl_semaphore_close(scene.leased));
    EXPECT_OK(pawl_semaphore_close(scene.semaphore));
    proxy_stop(scene.proxy);
    server_stop(scene.server);
}

/* A refusal that passes: the release goes on as well, and says so; whoever were told that it was
 * refused would ask anew, and it would count twice. */
static void refused_release_goes_on(void **state)
{
    (void)state;
    struct scene scene;
    pawl_permit permits[2];
    scene_begin(&scene);
    EXPECT_OK(pawl_semaphore_acquire(scene.semaphore, PERMITS, PAWL_TRY));
    EXPECT_OK(pawl_permit_acquire(scene.leased, 2, PAWL_TRY, permits));
    assert_true(server_answers(scene.server, "OK", "CONFIG SET min-replicas-to-write 1"));
    EXPECT(PAWL_UNAVAILABLE, pawl_semaphore_release(scene.semaphore, PERMITS));
    assert_non_null(strstr(pawl_last_error(), "min-replicas-to-write")); /* it says why */
    EXPECT(PAWL_UNAVAILABLE, pawl_permit_release(scene.leased, permits, 2));
    EXPECT(PAWL_UNAVAILABLE, pawl_latch_count_down(scene.latch));
    EXPECT(PAWL_REFUSED, pawl_semaphore_add(scene.semaphore, 1)); /* this one does not go on */
    assert_true(server_answers(scene.server, "OK", "CONFIG SET min-replicas-to-write 0"));
    is_given_back_once(&scene);
    scene_end(&scene);
}

/* Giving back frees what others wait for: the memory limit does not keep anybody from it, not even
 * a client whose first request it is. */
static void full_server_takes_back(void **state)
{
    (void)state;
    struct scene scene;
    pawl_latch *latch = NULL;
    pawl_permit permits[2];
    scene_begin(&scene);
    EXPECT_OK(pawl_semaphore_acquire(scene.semaphore, PERMITS, PAWL_TRY));
    EXPECT_OK(pawl_permit_acquire(scene.leased, 2, PAWL_TRY, permits));
    pawl_client *client = open_client();
    pawl_semaphore *semaphore = open_semaphore(client, "s", false);
    pawl_semaphore *leased = open_semaphore(client, "p", true);
    pawl_semaphore *unset = open_semaphore(client, "new", false);
    EXPECT_OK(pawl_latch_open(client, "l", &latch));
    assert_true(server_answers(scene.server, "OK", "CONFIG SET maxmemory 1"));
    EXPECT(PAWL_REFUSED, pawl_semaphore_set(unset, 1, NULL));
    EXPECT_OK(pawl_semaphore_release(semaphore, PERMITS));
    EXPECT_OK(pawl_permit_release(leased, permits, 1));
    EXPECT(PAWL_LOST, pawl_permit_release(leased, permits, 1)); /* which has nothing to give */
    EXPECT_OK(pawl_latch_count_down(latch));
    assert_int_equal(count_of(&scene, "s"), PERMITS);
    assert_int_equal(count_of(&scene, "p"), PERMITS - 1);
    assert_int_equal(count_of(&scene, "l"), 3);
    assert_true(server_answers(scene.server, "OK", "CONFIG SET maxmemory 0"));
    EXPECT_OK(pawl_semaphore_close(semaphore));
    EXPECT_OK(pawl_semaphore_close(leased));
    EXPECT_OK(pawl_semaphore_close(unset));
    EXPECT_OK(pawl_latch_close(latch));
    EXPECT_OK(pawl_client_close(client));
    EXPECT(PAWL_LOST, pawl_permit_release(scene.leased, permits, 2)); /* the other took one back */
    assert_int_equal(count_of(&scene, "p"), PERMITS);
    scene_end(&scene);
}

/* Messages may get lost: who waits looks now and then. */
static void lost_message(void **state)
{
    (void)state;
    struct scene scene;
    struct caller caller;
    scene_begin(&scene);
    EXPECT_OK(pawl_semaphore_acquire(scene.semaphore, PERMITS, PAWL_TRY));
    call_acquire(&caller, scene.semaphore, 1, PAWL_FOREVER);
    WAIT_UNTIL(
        server_integer(scene.server, "EVAL 'return redis.call(\"PUBSUB\",\"NUMSUB\",ARGV[1])[2]' 0 "
                                     "redisson_sc:{s}") == 1,
        SOON_MS);
    int64_t began_ms = boottime_ms();
    free(server_command(scene.server, "INCR s")); /* without a word */
    EXPECT_OK(call_join(&caller));
    assert_true(boottime_ms() - began_ms < 5000);
    scene_end(&scene);
}

/* ===== Peers ===== */

/* "<url> <name>": take two permits, say so, and wait for the end. */
static int hold_permits(const struct child_pipes *pipes, const char *arg)
{
    pawl_client *client = NULL;
    pawl_semaphore *semaphore = NULL;
    pawl_semaphore_options options = PAWL_SEMAPHORE_OPTIONS_INIT;
    pawl_permit permits[2];
    options.leased = true;
    options.lease_ms = 1500;
    if (pawl_client_open(arg, NULL, &client) != PAWL_OK ||
        pawl_semaphore_open(client, "p", &options, &semaphore) != PAWL_OK ||
        pawl_permit_acquire(semaphore, 2, PAWL_TRY, permits) != PAWL_OK) {
        return 1;
    }
    dprintf(pipes->out, "held\n");
    pause();
    return 0;
}

static void dead_peer_with_leases(void **state)
{
    (void)state;
    struct scene scene;
    pawl_permit permits[PERMITS];
    scene_begin(&scene);
    struct child *child = child_start("holder", server_url(scene.server));
    char *line = child_read_line(child, SOON_MS);
    assert_non_null(line);
    free(line);
    EXPECT(PAWL_BUSY, pawl_permit_acquire(scene.leased, PERMITS, 2500, permits)); /* renewed */
    child_signal(child, SIGKILL);
    int64_t began_ms = boottime_ms();
    EXPECT_OK(pawl_permit_acquire(scene.leased, PERMITS, PAWL_FOREVER, permits));
    assert_true(boottime_ms() - began_ms < 1500 + 5000);
    EXPECT_OK(pawl_permit_release(scene.leased, permits, PERMITS));
    child_free(child);
    scene_end(&scene);
}

/* Go in and out; a counter beside the semaphore says how many are inside at the same time. */
static int hammer(const struct child_pipes *pipes, const char *arg)
{
    enum { ROUNDS = 300 };
    pawl_client *client = NULL;
    pawl_semaphore *semaphore = NULL;
    int worst = 0;
    const int port = atoi(strrchr(arg, ':') + 1);
    redisContext *context = redisConnect("127.0.0.1", port);
    if (context == NULL || context->err != 0 || pawl_client_open(arg, NULL, &client) != PAWL_OK ||
        pawl_semaphore_open(client, "s", NULL, &semaphore) != PAWL_OK) {
        return 1;
    }
    for (int i = 0; i < ROUNDS; i++) {
        const int64_t permits = 1 + i % 2;
        if (pawl_semaphore_acquire(semaphore, permits, PAWL_FOREVER) != PAWL_OK) {
            return 2;
        }
        redisReply *in = redisCommand(context, "INCRBY inside %d", (int)permits);
        redisReply *out = redisCommand(context, "DECRBY inside %d", (int)permits);
        worst = in->integer > worst ? (int)in->integer : worst;
        freeReplyObject(in);
        freeReplyObject(out);
        if (pawl_semaphore_release(semaphore, permits) != PAWL_OK) {
            return 3;
        }
    }
    dprintf(pipes->out, "%d\n", worst);
    redisFree(context);
    pawl_semaphore_close(semaphore);
    return pawl_client_close(client) == PAWL_OK ? 0 : 4;
}

static void several_processes(void **state)
{
    (void)state;
    enum { CHILDREN = 3 };
    struct scene scene;
    struct child *children[CHILDREN];
    scene_begin(&scene);
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = child_start("hammer", server_url(scene.server));
    }
    for (int i = 0; i < CHILDREN; i++) {
        char *line = child_read_line(children[i], 60000);
        assert_non_null(line);
        assert_in_range(atoi(line), 1, PERMITS);
        free(line);
        assert_int_equal(child_wait(children[i], SOON_MS), 0);
        child_free(children[i]);
    }
    assert_int_equal(count_of(&scene, "s"), PERMITS);
    assert_int_equal(count_of(&scene, "inside"), 0);
    scene_end(&scene);
}

int main(int argc, char *argv[])
{
    static const struct child_role roles[] = {{"holder", hold_permits}, {"hammer", hammer}};
    static const struct CMUnitTest tests[] = {
#define CASE(test) cmocka_unit_test_setup_teardown(test, cleanup_setup, cleanup_teardown)
        CASE(repeated_requests_count_once),
        CASE(unheard_acquire_is_taken_back),
        CASE(unheard_drain_is_taken_back),
        CASE(canceled_acquire_is_taken_back),
        CASE(late_copy_is_void),
        CASE(nothing_done_stays_nothing),
        CASE(unheard_release_goes_on),
        CASE(unheard_asynchronous_release_goes_on),
        CASE(a_close_ends_asynchronous_releases),
        CASE(refused_release_goes_on),
        CASE(full_server_takes_back),
        CASE(lost_message),
        CASE(dead_peer_with_leases),
        CASE(several_processes),
    };
    child_dispatch(argc, argv, roles, 2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
