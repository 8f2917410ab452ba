/* SPDX-License-Identifier: Apache-2.0 */
/* What can be done to a Redis server, to the connections to it, and to the locks in it. */
#include "torture/lib/round.h"

#include "support/fail.h"
#include "support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where requests can be told from greetings. */
#define A_SCRIPT "EVALSHA"
#define TOKEN_FORMAT "redisson_lock_token:{" ARENA_NAME_FORMAT "}"

enum { CUT_SIZE_MAX = 4000, CUT_REQUESTS_MAX = 40 };

static struct server *server(struct round *round, const struct fault *fault)
{
    return round->servers[fault->kind->victim == VICTIM_SERVER ? fault->target : 0];
}

static void command(struct round *round, const struct fault *fault, const char *line)
{
    free(server_command(server(round, fault), "%s", line));
}

/* What was counted cannot be counted again when it is forgotten, and a quorum has nobody to say
 * what was taken away. */
static bool is_about_locks(const struct round *round)
{
    return round->arena->theme == THEME_LOCKS;
}

/* ===== The server ===== */

static bool restart_with_data(struct round *round, struct fault *fault)
{
    server_restart(server(round, fault), true);
    return true;
}

/* Nothing is granted between the kill and the start; what is granted afterwards has a token from
 * the clock of that time. */
static bool restart_without_data(struct round *round, struct fault *fault)
{
    if (round->arena->theme == THEME_COUNTS) {
        return false;
    }
    server_kill(server(round, fault));
    if (is_about_locks(round)) { /* a majority has not forgotten anything */
        nemesis_taken(round, EVERYBODY, fault->from_us, wall_clock_us());
    }
    server_restart(server(round, fault), false);
    return true;
}

static bool stop_server(struct round *round, struct fault *fault)
{
    server_pause(server(round, fault));
    return true;
}

static bool continue_server(struct round *round, struct fault *fault)
{
    server_resume(server(round, fault));
    return true;
}

/* The pause ends by itself, not before its fault does: nobody can ask a paused server to go on. */
static bool pause_server(struct round *round, struct fault *fault)
{
    char line[64];
    snprintf(line, sizeof line, "CLIENT PAUSE %d %s", (int)draw_between(&round->random, 50, 400),
        draw_below(&round->random, 2) == 0 ? "WRITE" : "ALL");
    command(round, fault, line);
    return true;
}

static bool flush_scripts(struct round *round, struct fault *fault)
{
    command(round, fault,
        draw_below(&round->random, 2) == 0 ? "SCRIPT FLUSH SYNC" : "SCRIPT FLUSH ASYNC");
    return true;
}

/* In one step, so that the counters tell the holds of before from those of afterwards. */
static bool flush_everything(struct round *round, struct fault *fault)
{
    static const char script[] = "local tokens = {} "
                                 "for i = 1, #KEYS do "
                                 "tokens[i] = redis.call('GET', KEYS[i]) or '0' "
                                 "end "
                                 "redis.call('FLUSHALL') "
                                 "return tokens";
    if (!is_about_locks(round)) {
        return false;
    }
    char count[16];
    char keys[ARENA_NAMES_MAX][64];
    const char *words[3 + ARENA_NAMES_MAX] = {"EVAL", script, count};
    snprintf(count, sizeof count, "%u", round->arena->names);
    for (unsigned i = 0; i < round->arena->names; i++) {
        snprintf(keys[i], sizeof keys[i], TOKEN_FORMAT, i);
        words[3 + i] = keys[i];
    }
    char *tokens = server_command_words(server(round, fault), 3 + round->arena->names, words);
    char *rest = tokens;
    for (unsigned i = 0; i < round->arena->names; i++) {
        nemesis_taken(round, (int)i, fault->from_us, strtoull(rest, &rest, 10));
    }
    free(tokens);
    return true;
}

static bool kill_connections(struct round *round, struct fault *fault)
{
    server_kill_clients(server(round, fault), "normal");
    return true;
}

static bool kill_subscribers(struct round *round, struct fault *fault)
{
    server_kill_clients(server(round, fault), "pubsub");
    return true;
}

/* ===== Locks ===== */

/* The last token that was given out until now. The counter goes on, so those after it are greater.
 */
static uint64_t last_token(struct round *round, unsigned name)
{
    char *token = server_command(round->servers[0], "GET " TOKEN_FORMAT, name);
    const uint64_t value = strtoull(token, NULL, 10);
    free(token);
    return value;
}

static bool delete_lock(struct round *round, struct fault *fault)
{
    char line[64];
    if (!is_about_locks(round)) {
        return false;
    }
    snprintf(line, sizeof line, "DEL " ARENA_NAME_FORMAT, fault->target);
    command(round, fault, line);
    nemesis_taken(round, (int)fault->target, fault->from_us, last_token(round, fault->target));
    return true;
}

static bool break_lock(struct round *round, struct fault *fault)
{
    if (!is_about_locks(round)) {
        return false;
    }
    const pawl_status status = pawl_lock_break(round->operator_locks[fault->target]);
    if (status != PAWL_NOT_HELD) {
        nemesis_taken(round, (int)fault->target, fault->from_us, last_token(round, fault->target));
    }
    return status == PAWL_OK;
}

/* ===== The line to one worker ===== */

static struct proxy *line(struct round *round, const struct fault *fault)
{
    return round->proxies[fault->target];
}

/* That of the same worker to another server of a quorum, so that only a minority can be heard; the
 * same line if there is but one server. */
static struct proxy *second_line(struct round *round, const struct fault *fault)
{
    const unsigned count = round->server_count;
    const unsigned first = fault->target / count * count;
    return round->proxies[first + (fault->target + 1 - first) % count];
}

static enum proxy_end draw_end(struct round *round)
{
    static const enum proxy_end ends[] = {PROXY_FIN, PROXY_RST, PROXY_ORPHAN, PROXY_MUTE};
    return ends[draw_below(&round->random, sizeof ends / sizeof ends[0])];
}

static enum proxy_direction draw_direction(struct round *round)
{
    return draw_below(&round->random, 2) == 0 ? PROXY_TO_SERVER : PROXY_TO_CLIENT;
}

static bool cut_line(struct round *round, struct fault *fault)
{
    proxy_cut_now(line(round, fault), draw_end(round));
    return true;
}

static bool cut_at_byte(struct round *round, struct fault *fault)
{
    const enum proxy_direction direction = draw_direction(round);
    proxy_cut_after(
        line(round, fault), direction, draw_below(&round->random, CUT_SIZE_MAX), draw_end(round));
    return true;
}

static bool lose_reply(struct round *round, struct fault *fault)
{
    const unsigned nth = 1 + (unsigned)draw_below(&round->random, CUT_REQUESTS_MAX);
    proxy_cut_reply_of(line(round, fault), A_SCRIPT, nth, draw_end(round));
    return true;
}

static bool disarm(struct round *round, struct fault *fault)
{
    proxy_disarm(line(round, fault));
    return true;
}

static bool hold_back(struct round *round, struct fault *fault)
{
    const enum proxy_direction direction = draw_direction(round);
    fault->detail = (int)direction;
    if (draw_below(&round->random, 2) == 0) {
        proxy_hold_present(line(round, fault), direction);
    } else {
        proxy_hold(line(round, fault), direction);
    }
    return true;
}

static bool let_go(struct round *round, struct fault *fault)
{
    proxy_release(line(round, fault), (enum proxy_direction)fault->detail);
    return true;
}

static bool delay_line(struct round *round, struct fault *fault)
{
    const enum proxy_direction direction = draw_direction(round);
    fault->detail = (int)direction;
    proxy_set_delay(line(round, fault), direction, draw_between(&round->random, 1, 60),
        draw_between(&round->random, 0, 60));
    return true;
}

static bool speed_up(struct round *round, struct fault *fault)
{
    proxy_set_delay(line(round, fault), (enum proxy_direction)fault->detail, 0, 0);
    return true;
}

static bool go_dark(struct round *round, struct fault *fault)
{
    const enum proxy_direction direction = draw_direction(round);
    fault->detail = (int)direction;
    proxy_blackhole(line(round, fault), direction, true);
    proxy_blackhole(second_line(round, fault), direction, true);
    return true;
}

static bool light_up(struct round *round, struct fault *fault)
{
    proxy_blackhole(line(round, fault), (enum proxy_direction)fault->detail, false);
    proxy_blackhole(second_line(round, fault), (enum proxy_direction)fault->detail, false);
    return true;
}

/* The copy comes on another connection, at once or late. A count whose answer has been heard does
 * not know such a copy any more. */
static bool double_request(struct round *round, struct fault *fault)
{
    if (round->arena->theme == THEME_COUNTS) {
        return false;
    }
    proxy_duplicate_next(line(round, fault), A_SCRIPT, draw_below(&round->random, 2) == 0);
    return true;
}

static bool release_copies(struct round *round, struct fault *fault)
{
    proxy_disarm(line(round, fault));
    proxy_release_copies(line(round, fault));
    return true;
}

static bool trickle(struct round *round, struct fault *fault)
{
    proxy_byte_by_byte(line(round, fault), true, draw_between(&round->random, 0, 50));
    return true;
}

static bool flow(struct round *round, struct fault *fault)
{
    proxy_byte_by_byte(line(round, fault), false, 0);
    return true;
}

static bool refuse(struct round *round, struct fault *fault)
{
    proxy_refuse(line(round, fault), true);
    proxy_cut_now(line(round, fault), draw_end(round));
    return true;
}

static bool admit(struct round *round, struct fault *fault)
{
    proxy_refuse(line(round, fault), false);
    return true;
}

/* The lease is 400 ms, and an exchange may take 250. */
const struct fault_kind torture_redis_faults[] = {
    {"worker killed", VICTIM_WORKER, 4, 0, 0, false, worker_fault_kill, NULL},
    {"worker stopped, less than a lease", VICTIM_WORKER, 6, 20, 200, false, worker_fault_stop,
        worker_fault_continue},
    {"worker stopped, more than a lease", VICTIM_WORKER, 4, 500, 1200, false, worker_fault_stop,
        worker_fault_continue},
    {"worker closed and replaced", VICTIM_WORKER, 2, 1, 50, false, worker_fault_leave,
        worker_fault_left},
    {"server restarted with its data", VICTIM_SERVER, 3, 0, 0, true, restart_with_data, NULL},
    {"server restarted without data", VICTIM_SERVER, 3, 0, 0, true, restart_without_data, NULL},
    {"server stopped", VICTIM_SERVER, 3, 20, 600, true, stop_server, continue_server},
    {"server paused (CLIENT PAUSE)", VICTIM_SERVER, 3, 420, 450, true, pause_server, NULL},
    {"scripts flushed", VICTIM_SERVER, 4, 0, 0, false, flush_scripts, NULL},
    {"all data flushed", VICTIM_SERVER, 3, 0, 0, false, flush_everything, NULL},
    {"connections killed", VICTIM_SERVER, 4, 0, 0, true, kill_connections, NULL},
    {"subscribers killed", VICTIM_SERVER, 4, 0, 0, false, kill_subscribers, NULL},
    {"lock broken by an operator", VICTIM_NAME, 6, 0, 0, false, break_lock, NULL},
    {"lock deleted by an operator", VICTIM_NAME, 4, 0, 0, false, delete_lock, NULL},
    {"line cut", VICTIM_PROXY, 4, 0, 0, true, cut_line, NULL},
    {"line cut at a byte", VICTIM_PROXY, 4, 30, 300, true, cut_at_byte, disarm},
    {"reply lost", VICTIM_PROXY, 5, 30, 300, true, lose_reply, disarm},
    {"line held back", VICTIM_PROXY, 5, 10, 900, true, hold_back, let_go},
    {"line delayed", VICTIM_PROXY, 4, 50, 500, true, delay_line, speed_up},
    {"line dark one way", VICTIM_PROXY, 4, 50, 600, true, go_dark, light_up},
    {"request doubled", VICTIM_PROXY, 5, 20, 900, false, double_request, release_copies},
    {"line byte by byte", VICTIM_PROXY, 4, 50, 300, true, trickle, flow},
    {"connections refused", VICTIM_PROXY, 4, 50, 500, true, refuse, admit},
    {NULL, VICTIM_SERVER, 0, 0, 0, false, NULL, NULL},
};
