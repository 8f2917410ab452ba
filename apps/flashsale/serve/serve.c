/* SPDX-License-Identifier: Apache-2.0 */
/* flashsale serve: one instance of the shop, from its command line to its end. */
#include "commands.h"
#include "common/options.h"
#include "common/say.h"
#include "common/values.h"
#include "serve/check.h"
#include "serve/door.h"
#include "serve/events.h"
#include "shop/faults.h"
#include "shop/shop.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char help[] =
    "usage: flashsale serve [--port 3786] [--strategy NAME] [--redis URL] ...\n"
    "\n"
    "Sells. With a Redis on this machine:\n"
    "\n"
    "  flashsale serve --strategy pawl &\n"
    "  curl -X PUT  http://127.0.0.1:3786/items/10001 -d '{\"stock\":50}'\n"
    "  curl -X POST http://127.0.0.1:3786/items/10001/orders\n"
    "  curl         http://127.0.0.1:3786/items/10001\n"
    "\n"
    "and http://127.0.0.1:3786/ in a browser.\n"
    "\n"
    "  --strategy NAME     how an order gets in alone; GET /strategies lists them (pawl).\n"
    "                      An order may ask for another one with ?strategy=NAME\n"
    "  --redis URL         the stock (redis://127.0.0.1:6379/0)\n"
    "  --lock URL          where pawl's lock lives: any URL that pawl takes, as redis://host/1,\n"
    "                      file:///dir (database 1 of the stock's Redis)\n"
    "  --quorum A,B,C      lock servers of Redlock and of the multi-lock, 3 or 5\n"
    "  --segments-on A,B   further stock servers, for items that are split\n"
    "  --lease DUR         how long a lock outlives a holder that died (30s)\n"
    "  --wait DUR          how long an order waits for its turn before it is told: busy (5s)\n"
    "  --work DUR          how long an order takes inside, besides its round trips (0)\n"
    "  --sellers N         worker threads for locks that keep a thread waiting (64)\n"
    "  --port N            0 takes a free one (3786)\n"
    "  --bind ADDRESS      who may come: 0.0.0.0 is everybody (127.0.0.1)\n"
    "  --patience DUR      how long a client may take over sending a request (15s)\n"
    "  --grace DUR         how long orders that wait may go on waiting after SIGTERM (5s)\n"
    "\n"
    "What can never work (a URL that is none, a directory that cannot be, too few servers for the\n"
    "strategy: 64; a server that does not let us in: 77) ends it at once with that exit status; a\n"
    "server that is only not there now, or not fit to keep locks now, is said and waited for.\n"
    "\n"
    "Faults on demand, at this process's Nth order that is inside the lock:\n"
    "\n"
    "  --die-at N          dies with the lock\n"
    "  --stop-at N:DUR     is stopped as a whole for so long, and then goes on\n"
    "  --slow-at N:DUR     takes so long over this order\n"
    "  --in-gap            these strike between two commands that should be one, where the\n"
    "                      strategy has such a gap (setnx-expire, owner-check)\n"
    "  --allow-faults      the same by POST /faults/{die,stop,slow}[?for=3s&in=gap]; and the page\n"
    "                      shows results that are PUT to /results/{strategy}\n"
    "  --control PATH      where faults of servers are asked for: the socket of `flashsale up`\n"
    "  --stack SIZE        of the process in which setnx-recursive recurses (as it is)\n";

struct serve_options {
    struct shop_settings shop;
    int64_t port, sellers, patience_ms, grace_ms;
    const char *bind, *strategy, *quorum, *segments_on, *stop_at, *slow_at;
    int64_t die_at;
    bool in_gap;
    char *quorum_copy, *segments_copy; /* what the lists of URLs in `shop` point into */
};

static const struct serve_options defaults = {
    .shop = {.redis_url = "redis://127.0.0.1:6379/0", .lease_ms = 30000, .wait_ms = 5000},
    .port = 3786,
    .sellers = 64,
    .patience_ms = 15000,
    .grace_ms = 5000,
    .bind = "127.0.0.1",
    .strategy = "pawl",
};

/* ===== The command line ===== */

static int read_line(struct serve_options *options, int argc, char **argv)
{
    struct shop_settings *shop = &options->shop;
    const struct option_row rows[] = {
        {"port", OPTION_NUMBER, &options->port, 0, 65535},
        {"bind", OPTION_TEXT, &options->bind, 0, 0},
        {"strategy", OPTION_TEXT, &options->strategy, 0, 0},
        {"redis", OPTION_TEXT, &shop->redis_url, 0, 0},
        {"lock", OPTION_TEXT, &shop->lock_url, 0, 0},
        {"quorum", OPTION_TEXT, &options->quorum, 0, 0},
        {"segments-on", OPTION_TEXT, &options->segments_on, 0, 0},
        {"lease", OPTION_MS, &shop->lease_ms, 10, 86400000},
        {"wait", OPTION_MS, &shop->wait_ms, 0, 3600000},
        {"work", OPTION_US, &shop->work_us, 0, INT64_C(3600000000)},
        {"sellers", OPTION_NUMBER, &options->sellers, 1, 1000},
        {"patience", OPTION_MS, &options->patience_ms, 1000, 3600000},
        {"grace", OPTION_MS, &options->grace_ms, 0, 3600000},
        {"allow-faults", OPTION_FLAG, &shop->allow_faults, 0, 0},
        {"control", OPTION_TEXT, &shop->control, 0, 0},
        {"die-at", OPTION_NUMBER, &options->die_at, 1, INT64_C(1000000000)},
        {"stop-at", OPTION_TEXT, &options->stop_at, 0, 0},
        {"slow-at", OPTION_TEXT, &options->slow_at, 0, 0},
        {"in-gap", OPTION_FLAG, &options->in_gap, 0, 0},
        {"stack", OPTION_SIZE, &shop->stack_bytes, 64 * 1024, INT64_C(1) << 32},
    };
    const struct option_table table = {.command = "flashsale serve",
        .help = help,
        .rows = rows,
        .row_count = sizeof rows / sizeof rows[0]};
    return options_parse(&table, argc, argv, NULL);
}

/* A list of URLs; the texts live in a copy, which the caller frees. */
static bool read_urls(
    const char *list, char **copy_out, const char **urls_out, size_t *count_out, size_t max)
{
    if (list == NULL) {
        return true;
    }
    *copy_out = strdup(list);
    *count_out = *copy_out != NULL ? split_list(*copy_out, urls_out, max) : 0;
    return *count_out > 0 && *count_out <= max;
}

static int read_settings(struct serve_options *options)
{
    struct shop_settings *shop = &options->shop;
    shop->strategy = strategy_find(options->strategy);
    shop->sellers = (int)options->sellers;
    if (shop->strategy == NULL) {
        return strategy_say_unknown(options->strategy);
    }
    if (!read_urls(options->quorum, &options->quorum_copy, shop->quorum_urls, &shop->quorum_count,
            QUORUM_MAX)) {
        return say_usage("--quorum takes 1 to %d URLs with commas between them", QUORUM_MAX);
    }
    if (!read_urls(options->segments_on, &options->segments_copy, shop->segment_urls,
            &shop->segment_url_count, SEGMENT_SERVERS_MAX)) {
        return say_usage(
            "--segments-on takes 1 to %d URLs with commas between them", SEGMENT_SERVERS_MAX);
    }
    return OPTIONS_GO_ON;
}

/* N:DUR */
static bool arm(struct shop *shop, enum fault fault, enum fault_place place, const char *text)
{
    if (text == NULL) {
        return true;
    }
    char number[24];
    const size_t length = strcspn(text, ":");
    struct fault_plan plan = {.place = place};
    snprintf(number, sizeof number, "%.*s", (int)length, text);
    if (text[length] != ':' || !parse_number(number, &plan.at) || plan.at < 1 ||
        !parse_duration_us(text + length + 1, &plan.for_us) || plan.for_us < 1) {
        say_usage("--%s-at takes an order's number and a duration, as 3:40s", fault_names[fault]);
        return false;
    }
    shop_arm_fault(shop, fault, plan);
    return true;
}

static bool arm_faults(struct shop *shop, const struct serve_options *options)
{
    const enum fault_place place = options->in_gap ? FAULT_IN_GAP : FAULT_AT_WORK;
    if (options->die_at > 0) {
        shop_arm_fault(shop, FAULT_DIE, (struct fault_plan){.at = options->die_at, .place = place});
    }
    return arm(shop, FAULT_STOP, place, options->stop_at) &&
           arm(shop, FAULT_SLOW, place, options->slow_at);
}

/* ===== Its life ===== */

/* Threads inherit the mask, so that signals come here alone. */
static void block_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, signals, NULL);
}

static void serve_until_told(struct door *door, const sigset_t *signals)
{
    const struct timespec tick = {.tv_sec = 0, .tv_nsec = 250000000};
    while (sigtimedwait(signals, NULL, &tick) < 0) {
        door_look_after(door);
    }
}

static int close_all(struct shop *shop, struct events *events, struct door *door, int64_t grace_ms)
{
    say("closing: finishing the orders that were begun");
    door_shut(door);
    if (!shop_finish(shop, grace_ms)) {
        say("an order did not end; its lock ends with its lease");
        _exit(EXIT_UNAVAILABLE);
    }
    events_shut(events);
    door_close(door);
    events_close(events);
    shop_close(shop);
    return EXIT_FINE;
}

/* EXIT_FINE, or an exit status after it has been said why. */
static int open_shop(const struct serve_options *options, struct shop **shop_out)
{
    char why[300];
    struct shop *shop = shop_open(&options->shop, why, sizeof why);
    if (shop == NULL) {
        say("%s", why);
        return EXIT_USAGE;
    }
    const int status = arm_faults(shop, options) ? check_shop(shop) : EXIT_USAGE;
    if (status != EXIT_FINE) {
        shop_close(shop);
        return status;
    }
    if (options->shop.allow_faults && strncmp(options->bind, "127.", 4) != 0) {
        say("whoever reaches %s can break this shop: --allow-faults", options->bind);
    }
    *shop_out = shop;
    return EXIT_FINE;
}

/* The line that whoever started us waits for. */
static void announce(const struct serve_options *options)
{
    const char *host = options->bind;
    if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0) {
        host = host[0] == '0' ? "127.0.0.1" : "::1";
    }
    const bool six = strchr(host, ':') != NULL;
    printf("http://%s%s%s:%d/ sells under '%s'\n", six ? "[" : "", host, six ? "]" : "",
        options->shop.port, options->strategy);
    fflush(stdout);
}

static int run(struct serve_options *options)
{
    sigset_t signals;
    char why[300];
    block_signals(&signals);
    options->shop.port = (int)options->port;
    const int listener = door_listen(options->bind, &options->shop.port, why, sizeof why);
    if (listener == DOOR_NO_ADDRESS) {
        return say_usage("%s", why);
    }
    if (listener < 0) {
        say("%s", why);
        return EXIT_UNAVAILABLE;
    }
    struct shop *shop = NULL;
    const int status = open_shop(options, &shop);
    if (status != EXIT_FINE) {
        close(listener);
        return status;
    }
    struct events *events = events_open(shop);
    struct door *door =
        events != NULL ? door_open(shop, events, listener, options->patience_ms) : NULL;
    if (door == NULL) {
        say("cannot start the HTTP server: out of memory or threads");
        return EXIT_SYSTEM;
    }
    announce(options);
    serve_until_told(door, &signals);
    return close_all(shop, events, door, options->grace_ms);
}

int command_serve(int argc, char **argv)
{
    struct serve_options options = defaults;
    int result = read_line(&options, argc, argv);
    if (result == OPTIONS_GO_ON) {
        result = read_settings(&options);
    }
    if (result == OPTIONS_GO_ON) {
        result = run(&options);
    }
    free(options.quorum_copy);
    free(options.segments_copy);
    return result;
}
