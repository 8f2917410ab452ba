/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flashsale load: many customers at once, as a program.
 *
 * Sets the stock if it is told to, orders as fast as the shop answers (worker.c), and says what
 * came of it. It may be pointed at any server, so it asks for a word (--anywhere) before it leaves
 * this machine. Ctrl-C ends it early, with what it has seen.
 */
#include "commands.h"
#include "common/options.h"
#include "common/say.h"
#include "load/progress.h"
#include "load/report.h"
#include "load/target.h"
#include "load/worker.h"

#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
    TARGETS_MAX = 32,
    SPARE_FILES = 32, /* besides the connections */
    ANSWER_SIZE = 65536,
};

static const char help[] =
    "usage: flashsale load [OPTION]... URL...\n"
    "\n"
    "Orders pieces of one item, as many customers at once would, and says what they were "
    "answered.\n"
    "URL is the base of a shop, e.g. http://127.0.0.1:3786; of several, connections take one each\n"
    "in turn. All connections are made before the first order is sent.\n"
    "\n"
    "  --clients N      connections, each with one order at a time (200)\n"
    "  --requests N     orders in all (3000)\n"
    "  --at-once        a connection for every order, and all orders sent at the same moment\n"
    "  --for DURATION   no new orders after that; the rate is what was sold until then\n"
    "  --timeout DURATION  an order without an answer by then has failed (30s)\n"
    "  --threads N      of this program (2)\n"
    "  --item ID        what to order (10001)\n"
    "  --stock N        first put so many pieces into the stock, and forget earlier orders\n"
    "  --segments N     with --stock: divided into so many segments\n"
    "  --strategy NAME  instead of the shop's own\n"
    "  --record         put the result into the table on the shop's page, which takes it if it "
    "was\n"
    "                   started with --allow-faults\n"
    "  --json           the result as one line of JSON\n"
    "  --anywhere       also at shops that are not on this machine\n"
    "\n"
    "Exit status: 0, 1 if there were errors (sold out and busy are none), 64 for a wrong command\n"
    "line, 69 if a shop cannot be reached, 71 if this process may not open so many connections.\n";

struct options {
    int64_t clients;
    int64_t requests;
    int64_t threads;
    int64_t for_ms;
    int64_t timeout_ms;
    int64_t stock; /* -1: leave it */
    int64_t segments;
    const char *item;
    const char *strategy;
    bool at_once;
    bool record;
    bool json;
    bool anywhere;
};

/* ===== Ctrl-C ===== */

static volatile sig_atomic_t interrupted;

static void note_interrupt(int number)
{
    interrupted = number;
}

/* The first one ends the load in good order, the second one as ever. */
static void catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void watch(struct load_run *run, void *arg)
{
    if (interrupted != 0 && !atomic_load(&run->stopped)) {
        pthread_mutex_lock(&run->mutex);
        atomic_store(&run->stopped, true);
        pthread_cond_broadcast(&run->all_connected);
        pthread_mutex_unlock(&run->mutex);
    }
    progress_draw(arg, run);
}

/* ===== Before ===== */

/* Letters, digits, '-', '.', '_': nothing that would change the request around it. */
static bool is_word(const char *text)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    const size_t length = strlen(text);
    return length > 0 && length <= 64 && strspn(text, letters) == length;
}

static int parse(struct options *options, int argc, char **argv, size_t *url_count_out)
{
    const struct option_row rows[] = {
        {"clients", OPTION_NUMBER, &options->clients, 1, 100000},
        {"requests", OPTION_NUMBER, &options->requests, 1, 1000000000},
        {"threads", OPTION_NUMBER, &options->threads, 1, 64},
        {"for", OPTION_MS, &options->for_ms, 1, 86400000},
        {"timeout", OPTION_MS, &options->timeout_ms, 1, 86400000},
        {"stock", OPTION_NUMBER, &options->stock, 0, 1000000000},
        {"segments", OPTION_NUMBER, &options->segments, 1, 1000},
        {"item", OPTION_TEXT, &options->item, 0, 0},
        {"strategy", OPTION_TEXT, &options->strategy, 0, 0},
        {"at-once", OPTION_FLAG, &options->at_once, 0, 0},
        {"record", OPTION_FLAG, &options->record, 0, 0},
        {"json", OPTION_FLAG, &options->json, 0, 0},
        {"anywhere", OPTION_FLAG, &options->anywhere, 0, 0},
    };
    const struct option_table table = {
        .command = "flashsale load",
        .help = help,
        .rows = rows,
        .row_count = sizeof rows / sizeof rows[0],
        .operands_min = 1,
        .operands_max = TARGETS_MAX,
        .operand = "URL",
    };
    const int result = options_parse(&table, argc, argv, url_count_out);
    if (result != OPTIONS_GO_ON) {
        return result;
    }
    if (!is_word(options->item)) {
        return say_usage("--item takes letters, digits, '-', '.' and '_', at most 64");
    }
    if (options->strategy && !is_word(options->strategy)) {
        return say_usage("--strategy takes a name, as GET /strategies lists them");
    }
    if (options->segments > 0 && options->stock < 0) {
        return say_usage("--segments divides a stock; give --stock too");
    }
    return OPTIONS_GO_ON;
}

/* The targets of the command line, ready to be ordered at; or an exit status. */
static int find_targets(
    struct target *targets, size_t count, char **urls, const struct options *options)
{
    char why[TARGET_WHY_SIZE];
    for (size_t i = 0; i < count; i++) {
        if (!target_parse(&targets[i], urls[i], why)) {
            return say_usage("%s", why);
        }
        if (!targets[i].is_loopback && !options->anywhere) {
            return say_usage("%s is not on this machine; a load may hurt, so say --anywhere if it "
                             "is meant",
                urls[i]);
        }
        if (!target_prepare(&targets[i], options->item, options->strategy)) {
            say("no memory left");
            return EXIT_SYSTEM;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (!target_listens(&targets[i], why)) {
            say("%s", why);
            return EXIT_UNAVAILABLE;
        }
    }
    return OPTIONS_GO_ON;
}

/* Room for that many connections in this process. */
static bool make_room(int64_t connections)
{
    struct rlimit limit;
    const rlim_t needed = (rlim_t)connections + SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) {
        return true;
    }
    const rlim_t before = limit.rlim_cur;
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < needed) {
        limit.rlim_max = needed; /* root may */
    }
    limit.rlim_cur = needed;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0) {
        return true;
    }
    getrlimit(RLIMIT_NOFILE, &limit);
    say("%" PRId64 " connections need %" PRIu64 " open files, and this process may have %" PRIu64
        " (%" PRIu64 " at most); raise the limit (ulimit -n %" PRIu64 ") or use fewer --clients",
        connections, (uint64_t)needed, (uint64_t)before, (uint64_t)limit.rlim_max,
        (uint64_t)needed);
    return false;
}

static bool put_stock(const struct target *target, const struct options *options)
{
    char path[128];
    char body[96];
    static char answer[ANSWER_SIZE];
    char why[TARGET_WHY_SIZE];
    snprintf(path, sizeof path, "/items/%s", options->item);
    int length = snprintf(body, sizeof body, "{\"stock\":%" PRId64, options->stock);
    if (options->segments > 0) {
        length += snprintf(body + length, sizeof body - (size_t)length, ",\"segments\":%" PRId64,
            options->segments);
    }
    snprintf(body + length, sizeof body - (size_t)length, "}");
    const int status = target_ask(target, "PUT", path, body, answer, sizeof answer, why);
    if (status == 200) {
        return true;
    }
    if (status == 0) {
        say("%s", why);
    } else {
        say("PUT %s was answered with the status %d: %.300s", path, status, answer);
    }
    return false;
}

/* ===== After ===== */

static void read_state(const struct target *target, const char *item, struct item_state *state)
{
    static char answer[ANSWER_SIZE];
    char path[128];
    char why[TARGET_WHY_SIZE];
    snprintf(path, sizeof path, "/items/%s", item);
    if (target_ask(target, "GET", path, NULL, answer, sizeof answer, why) != 200) {
        return;
    }
    json_t *object = json_loads(answer, 0, NULL);
    json_int_t initial = 0;
    json_int_t stock = 0;
    json_int_t sold = 0;
    if (json_unpack(object, "{s:I,s:I,s:I}", "initial", &initial, "stock", &stock, "sold", &sold) ==
        0) {
        state->is_known = true;
        state->initial = initial;
        state->left = stock;
        state->sold = sold;
        state->oversold = sold + stock > initial ? sold + stock - initial : 0;
    }
    json_decref(object);
}

/* The strategy that the shop uses unless an order says otherwise. */
static bool own_strategy(const struct target *target, char *name, size_t size)
{
    char answer[1024];
    char why[TARGET_WHY_SIZE];
    if (target_ask(target, "GET", "/healthz", NULL, answer, sizeof answer, why) != 200) {
        return false;
    }
    json_t *object = json_loads(answer, 0, NULL);
    const char *found = json_string_value(json_object_get(object, "strategy"));
    const bool is_usable = found && is_word(found);
    if (is_usable) {
        snprintf(name, size, "%s", found);
    }
    json_decref(object);
    return is_usable;
}

static void describe(const struct item_state *state, char *out, size_t size)
{
    if (state->oversold > 0) {
        snprintf(out, size, "oversold by %" PRId64, state->oversold);
    } else if (state->sold + state->left < state->initial) {
        snprintf(
            out, size, "%" PRId64 " pieces missing", state->initial - state->sold - state->left);
    } else {
        snprintf(out, size, "sold exactly");
    }
}

/* Say that the shop did not take the result, and what it says about that itself. */
static void say_not_taken(const char *path, int status, const char *answer, const char *why)
{
    json_t *object = status > 0 ? json_loads(answer, 0, NULL) : NULL;
    const char *detail = json_string_value(json_object_get(object, "detail"));
    if (status > 0) {
        say("nothing recorded: PUT %s: status %d: %.300s", path, status,
            detail ? detail : "the shop does not say why");
    } else {
        say("nothing recorded: %s", why);
    }
    json_decref(object);
}

static bool record(const struct target *target, const struct report *report)
{
    char name[72];
    char path[128];
    char shows[80];
    char answer[1024];
    char why[TARGET_WHY_SIZE] = "no memory left";
    if (!report->state.is_known) {
        say("nothing recorded: GET /items/%s does not say what is left", report->item);
        return false;
    }
    if (report->strategy) {
        snprintf(name, sizeof name, "%s", report->strategy);
    } else if (!own_strategy(target, name, sizeof name)) {
        say("nothing recorded: GET /healthz does not say the shop's strategy; give --strategy");
        return false;
    }
    describe(&report->state, shows, sizeof shows);
    snprintf(path, sizeof path, "/results/%s", name);
    json_t *row = json_pack("{s:s,s:I,s:I,s:I,s:f,s:f,s:s}", "strategy", name, "sold",
        (json_int_t)report->state.sold, "oversold", (json_int_t)report->state.oversold, "stuck_ms",
        (json_int_t)(report->stuck_us / 1000), "rate", report_rate(report), "p99_ms",
        report_p99_ms(report), "shows", shows);
    char *body = row ? json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    const int status = body ? target_ask(target, "PUT", path, body, answer, sizeof answer, why) : 0;
    free(body);
    json_decref(row);
    if (status < 200 || status > 299) {
        say_not_taken(path, status, answer, why);
        return false;
    }
    return true;
}

/* ===== The command ===== */

/* How long it was sold, and how long nothing was. Unless somebody was told "sold out", the time
 * after the last sale was time to sell, too; but not what follows the time given by --for: then
 * those that were under way are only waited for. */
static void judge_time(struct load_run *run, struct report *report)
{
    const int64_t sold_us = atomic_load(&run->last_sold_us);
    const int64_t ended_us = atomic_load(&run->ended_us);
    const bool ran_out = report->outcome->answers[ANSWER_SOLD_OUT] > 0;
    const int64_t until_us = ran_out || ended_us < sold_us ? sold_us : ended_us;
    const int64_t tail_us = until_us - sold_us;
    int64_t selling_us = until_us - atomic_load(&run->begun_us);
    if (run->plan->for_us > 0 && selling_us > run->plan->for_us) {
        selling_us = run->plan->for_us;
    }
    report->sold_in_time = atomic_load(&run->sold_in_time);
    report->selling_seconds = (double)selling_us / 1e6;
    report->stuck_us = atomic_load(&run->longest_us);
    report->stuck_us = tail_us > report->stuck_us ? tail_us : report->stuck_us;
}

/* Print the report; the exit status. */
static int conclude(
    struct load_run *run, const struct options *options, const struct outcome *outcome)
{
    const struct load_plan *plan = run->plan;
    const int64_t ended_us = atomic_load(&run->ended_us);
    const int64_t begun_us = atomic_load(&run->begun_us);
    struct report report = {
        .item = options->item,
        .strategy = options->strategy,
        .connections = plan->connections,
        .orders = plan->orders,
        .shops = plan->target_count,
        .outcome = outcome,
        .seconds = ended_us > begun_us ? (double)(ended_us - begun_us) / 1e6 : 0,
        .unanswered = atomic_load(&run->given) - atomic_load(&run->ended),
    };
    judge_time(run, &report);
    if (options->record || options->stock >= 0) {
        read_state(&plan->targets[0], options->item, &report.state);
    }
    bool is_well = outcome->answers[ANSWER_ERROR] == 0;
    if (options->json) {
        is_well = report_print_json(&report) && is_well;
    } else {
        report_print(&report);
    }
    report_explain(&report);
    if (options->record && interrupted == 0) {
        is_well = record(&plan->targets[0], &report) && is_well;
    }
    return interrupted != 0 ? 128 + (int)interrupted : is_well ? EXIT_FINE : EXIT_WRONG;
}

static int run_load(const struct options *options, const struct target *targets, size_t count)
{
    const int64_t wanted = options->at_once ? options->requests : options->clients;
    const int64_t connections = wanted < options->requests ? wanted : options->requests;
    const struct load_plan plan = {
        .targets = targets,
        .target_count = count,
        .connections = connections,
        .orders = options->requests,
        .threads = (int)(options->threads < connections ? options->threads : connections),
        .timeout_us = options->timeout_ms * 1000,
        .for_us = options->for_ms * 1000,
    };
    if (!make_room(connections)) {
        return EXIT_SYSTEM;
    }
    if (options->stock >= 0 && !put_stock(&targets[0], options)) {
        return EXIT_UNAVAILABLE;
    }
    catch_interrupts();
    struct load_run run = {.plan = &plan};
    struct progress progress;
    progress_init(&progress);
    static struct outcome outcome;
    const bool started = load_run(&run, &outcome, watch, &progress);
    progress_clear(&progress);
    if (!started) {
        say("this machine is out of memory or threads; use fewer --clients or --threads");
        return EXIT_SYSTEM;
    }
    return conclude(&run, options, &outcome);
}

int command_load(int argc, char **argv)
{
    struct options options = {
        .clients = 200,
        .requests = 3000,
        .threads = 2,
        .timeout_ms = 30000,
        .stock = -1,
        .item = "10001",
    };
    size_t count = 0;
    int status = parse(&options, argc, argv, &count);
    if (status != OPTIONS_GO_ON) {
        return status;
    }
    static struct target targets[TARGETS_MAX];
    status = find_targets(targets, count, argv + 1, &options);
    if (status == OPTIONS_GO_ON) {
        status = run_load(&options, targets, count);
    }
    for (size_t i = 0; i < count; i++) {
        target_close(&targets[i]);
    }
    return status;
}
