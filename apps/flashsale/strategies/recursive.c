/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setnx-recursive: the retry of a method that calls itself.
 *
 * The way in is tried by a process of its own, `flashsale recurse`, so that the end which this
 * takes can be shown without ending the shop: the child's stack overflows, it dies of SIGSEGV, and
 * the order fails with a sentence about it. A child that got the lock says so by its exit status;
 * as nobody's name counts in this lock, the shop goes on with it.
 */
#include "commands.h"

#include "common/clock.h"
#include "common/options.h"
#include "common/redis.h"
#include "common/say.h"
#include "strategies/hand.h"
#include "strategies/strategies.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* How the child ends, if it does so by itself. */
enum { LOOK_MS = 50 }; /* how often the shop looks whether it is closing */
enum { RECURSE_GOT = 0, RECURSE_BUSY = 75, RECURSE_AWAY = EXIT_UNAVAILABLE };

/* ===== The child ===== */

/* What one visit keeps on the stack until it returns: as in the tutorials' method, the name under
 * which it asks, and what it was called with. */
struct visit {
    struct visit *before;
    redisContext *redis;
    int64_t deadline_us;
    char owner[64];
    char answer[1024];
};

static bool got_lock(struct visit *visit)
{
    redisReply *reply = redisCommand(visit->redis, "SETNX %s %s", SHOP_LOCK_NAME, visit->owner);
    bool got = reply != NULL && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
    snprintf(visit->answer, sizeof visit->answer, "%s", got ? "mine" : "somebody else's");
    freeReplyObject(reply);
    return got;
}

/* The shop closes. It has blocked the signal, for itself and thereby for us. */
static bool is_told_to_end(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGTERM) == 1;
}

/* FLAW: each try is one call deeper. It must really be: a call at the very end of a function is
 * made a loop by compilers. So something is left to do behind the call, and every visit is known
 * to the next one by its address, which keeps all of them on the stack. */
__attribute__((noinline)) static int visit_shop(struct visit *before)
{
    struct visit visit = {
        .before = before, .redis = before->redis, .deadline_us = before->deadline_us};
    snprintf(visit.owner, sizeof visit.owner, "recurse:%lld", (long long)now_us());
    if (got_lock(&visit)) {
        return RECURSE_GOT;
    }
    if (visit.redis->err != 0) {
        return RECURSE_AWAY;
    }
    if (now_us() + PAUSE_SHORT_US >= visit.deadline_us || is_told_to_end()) {
        return RECURSE_BUSY;
    }
    sleep_us(PAUSE_SHORT_US);
    int result = visit_shop(&visit);
    snprintf(before->answer, sizeof before->answer, "%s", visit.answer);
    return result;
}

/* The stack of the first thread grows until this limit, which counts from the next page on. */
static void limit_stack(int64_t bytes)
{
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (bytes > 0) {
        const struct rlimit limit = {(rlim_t)bytes, (rlim_t)bytes};
        setrlimit(RLIMIT_STACK, &limit);
    }
}

static const char recurse_help[] =
    "usage: flashsale recurse --redis URL [--wait DURATION] [--stack SIZE]\n"
    "\n"
    "Used by the strategy setnx-recursive of `flashsale serve`: take the shop's lock with SETNX,\n"
    "calling itself 20 ms later if it is taken. Exit status: 0 it has it, 75 not within --wait,\n"
    "69 Redis does not answer; or it dies of SIGSEGV when the stack is full.\n";

int command_recurse(int argc, char **argv)
{
    const char *url = NULL;
    int64_t wait_ms = 5000;
    int64_t stack = 0;
    const struct option_row rows[] = {
        {"redis", OPTION_TEXT, &url, 0, 0},
        {"wait", OPTION_MS, &wait_ms, 0, 3600000},
        {"stack", OPTION_SIZE, &stack, 64 * 1024, INT64_C(1) << 32},
    };
    const struct option_table table = {
        .command = "flashsale recurse", .help = recurse_help, .rows = rows, .row_count = 3};
    int end = options_parse(&table, argc, argv, NULL);
    if (end != OPTIONS_GO_ON) {
        return end;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct redis_place place;
    char why[200];
    if (url == NULL || !redis_place_parse(url, &place, why, sizeof why)) {
        return say_usage("--redis is needed: %s", url == NULL ? "the shop's Redis" : why);
    }
    struct visit first = {.deadline_us = now_us() + wait_ms * 1000};
    first.redis = redis_open(&place, place.db, REDIS_TIMEOUT_MS, NULL, 0);
    if (first.redis == NULL) {
        return RECURSE_AWAY;
    }
    limit_stack(stack);
    int result = visit_shop(&first);
    redisFree(first.redis);
    return result;
}

/* ===== The shop's side ===== */

/* Start the child with nothing open but the three standard descriptors. 0: it did not start. */
static pid_t spawn_child(const struct shop_settings *settings, const char *url, int64_t wait_us)
{
    char wait[32];
    char stack[32];
    snprintf(wait, sizeof wait, "%lldus", (long long)wait_us);
    snprintf(stack, sizeof stack, "%lld", (long long)settings->stack_bytes);
    const char *const arguments[] = {"flashsale", "recurse", "--redis", url, "--wait", wait,
        settings->stack_bytes > 0 ? "--stack" : NULL, stack, NULL};
    char *copies[sizeof arguments / sizeof arguments[0]]; /* as posix_spawn() wants them */
    memcpy(copies, arguments, sizeof arguments);

    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return 0;
    }
    pid_t pid = 0;
    bool started = posix_spawn_file_actions_addclosefrom_np(&actions, 3) == 0 &&
                   posix_spawn(&pid, "/proc/self/exe", &actions, NULL, copies, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    return started ? pid : 0;
}

static enum entry entry_of(struct order *order, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == RECURSE_GOT) {
        return ENTERED;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == RECURSE_BUSY) {
        return ENTRY_BUSY;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == RECURSE_AWAY) {
        return ENTRY_UNAVAILABLE;
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) {
        snprintf(order->why, sizeof order->why,
            "the stack overflowed (SIGSEGV): each retry was one call deeper; retry in a loop");
    } else {
        snprintf(order->why, sizeof order->why,
            "the child that retries ended unexpectedly (wait status %d)", status);
    }
    return ENTRY_FAILED;
}

/* Until it has ended; if the shop closes meanwhile it is told to. */
static void await_child(struct shop *shop, pid_t pid)
{
    struct pollfd child = {.fd = (int)syscall(SYS_pidfd_open, pid, 0U), .events = POLLIN};
    while (child.fd >= 0 && poll(&child, 1, LOOK_MS) <= 0) {
        if (shop_is_closing(shop)) {
            kill(pid, SIGTERM);
        }
    }
    if (child.fd >= 0) {
        close(child.fd);
    }
}

static enum entry enter_recursing(struct seller *seller, struct order *order)
{
    const struct shop_settings *settings = shop_settings(seller->shop);
    struct redis_place place;
    char url[1024];
    int64_t patience_us = order->deadline_us - now_us();
    if (!redis_place_parse(settings->redis_url, &place, order->why, sizeof order->why)) {
        return ENTRY_FAILED;
    }
    redis_place_url(&place, 1, url, sizeof url);
    pid_t pid = spawn_child(settings, url, patience_us > 0 ? patience_us : 0);
    if (pid == 0) {
        snprintf(order->why, sizeof order->why, "the child that retries could not be started");
        return ENTRY_FAILED;
    }
    await_child(seller->shop, pid);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return ENTRY_FAILED;
        }
    }
    return entry_of(order, status);
}

const struct strategy strategy_setnx_recursive = {
    .name = "setnx-recursive",
    .title = "SETNX, retried by recursion",
    .flaw = "each retry is one call deeper: whoever waits long enough overflows the stack",
    .enter = enter_recursing,
    .leave = hand_delete,
};
