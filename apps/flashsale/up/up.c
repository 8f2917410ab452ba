/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `flashsale up`: the whole shop by one command, and nothing left of it afterwards.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "common/options.h"
#include "common/say.h"
#include "shop/strategy.h"
#include "up/control.h"
#include "up/house.h"
#include "up/net.h"
#include "up/patience.h"

#define LOOK_MS 100 /* how often nginx's log is looked at, and restarts that are due */

static const char help[] =
    "usage: flashsale up [OPTION]... [-- OPTION OF SERVE...]\n"
    "\n"
    "Starts the whole shop: private Redis servers, instances of `flashsale serve`, and nginx. "
    "Says\n"
    "where they are, starts again what dies, and ends exactly what it started at Ctrl-C.\n"
    "\n"
    "  --instances N            shops (2)\n"
    "  --base-port PORT         of the first, the others follow (3786); 0: any free ports\n"
    "  --strategy NAME          how they lock; GET /strategies lists the names\n"
    "  --stock N                pieces of the items 10001 and inventory001 to begin with\n"
    "  --segments N             split item 10001 into so many\n"
    "  --lease DURATION, --wait DURATION   for serve\n"
    "  --edge                   nginx in front of them, which says \"sold out\" by itself\n"
    "  --edge-port PORT         its port (8080); 0: any free one\n"
    "  --weights A:B            how it shares out the orders (1:2); the last is for all further\n"
    "  --worker-connections N   of nginx (8192); with too few the proxy fails before the shop "
    "does\n"
    "  --quorum N               independent lock masters, for Redlock and the multi-lock (3)\n"
    "  --replica                a lock server of its own, with a replica, for the fault failover\n"
    "  --allow-faults           the page's buttons for faults work\n"
    "  --keep-dir               leave the directory with logs and data\n"
    "  --json                   say where everything is as one line of JSON\n"
    "\n"
    "Faults of servers: a line to the control socket, e.g. `echo failover | nc -U PATH`:\n"
    "redis-restart, lock-server-down, lock-server-up, failover; `status` tells what happened.\n";

/* "1:2", each 1 to 100. */
static bool are_weights(const char *text)
{
    for (;;) {
        char *end = NULL;
        long weight = strtol(text, &end, 10);
        if (end == text || weight < 1 || weight > 100) {
            return false;
        }
        if (*end == '\0') {
            return true;
        }
        if (*end != ':') {
            return false;
        }
        text = end + 1;
    }
}

static bool is_in_path(const char *name)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        char file[4096];
        int length = (int)strcspn(path, ":");
        snprintf(file, sizeof(file), "%.*s/%s", length, path, name);
        if (access(file, X_OK) == 0) {
            return true;
        }
        path += length;
        path += *path == ':';
    }
    return false;
}

static bool is_free(int64_t port)
{
    int bound = 0;
    int fd = net_listen((int)port, &bound);
    if (fd < 0) {
        say("port %d of 127.0.0.1 is in use; choose others with --base-port and --edge-port",
            (int)port);
        return false;
    }
    close(fd);
    return true;
}

/* Asked before anything is begun: nginx would go on trying for seconds. */
static bool are_free(const struct house_settings *settings)
{
    for (int i = 0; i < settings->instances; i++) {
        if (settings->base_port && !is_free(settings->base_port + i)) {
            return false;
        }
    }
    return !settings->edge || !settings->edge_port || is_free(settings->edge_port);
}

static int check(const struct house_settings *settings)
{
    if (!are_weights(settings->weights)) {
        return say_usage(
            "--weights takes numbers from 1 to 100 such as 1:2, not '%s'", settings->weights);
    }
    if (settings->strategy && !strategy_find(settings->strategy)) {
        return strategy_say_unknown(settings->strategy);
    }
    if (settings->base_port > 65536 - settings->instances) {
        return say_usage("--base-port leaves no room for %d instances", (int)settings->instances);
    }
    if (!is_in_path("redis-server")) {
        say("redis-server is not there: apt-get install redis-server");
        return EXIT_UNAVAILABLE;
    }
    if ((settings->edge && !nginx_is_there()) || !are_free(settings)) {
        return EXIT_UNAVAILABLE;
    }
    return EXIT_FINE;
}

static int parse(int argc, char **argv, struct house_settings *settings)
{
    const struct option_row rows[] = {
        {"instances", OPTION_NUMBER, &settings->instances, 1, INSTANCES_MAX},
        {"base-port", OPTION_NUMBER, &settings->base_port, 0, 65535},
        {"strategy", OPTION_TEXT, &settings->strategy, 0, 0},
        {"stock", OPTION_NUMBER, &settings->stock, 0, STOCK_MAX},
        {"segments", OPTION_NUMBER, &settings->segments, 0, 64},
        {"lease", OPTION_TEXT, &settings->lease, 0, 0},
        {"wait", OPTION_TEXT, &settings->wait, 0, 0},
        {"edge", OPTION_FLAG, &settings->edge, 0, 0},
        {"edge-port", OPTION_NUMBER, &settings->edge_port, 0, 65535},
        {"weights", OPTION_TEXT, &settings->weights, 0, 0},
        {"worker-connections", OPTION_NUMBER, &settings->worker_connections, 8, 1000000},
        {"quorum", OPTION_NUMBER, &settings->quorum, 0, LOCK_SERVERS_MAX},
        {"replica", OPTION_FLAG, &settings->replica, 0, 0},
        {"allow-faults", OPTION_FLAG, &settings->allow_faults, 0, 0},
        {"keep-dir", OPTION_FLAG, &settings->keep_dir, 0, 0},
        {"json", OPTION_FLAG, &settings->json, 0, 0},
    };
    const struct option_table table = {
        .command = "flashsale up",
        .help = help,
        .rows = rows,
        .row_count = sizeof(rows) / sizeof(rows[0]),
        .operands_max = PROCESS_WORDS_MAX / 2,
    };
    int result = options_parse(&table, argc, argv, &settings->more_count);
    settings->more = argv + 1;
    return result;
}

/* Until somebody wants to end it, or there is no sense in going on. */
static int supervise(struct house *house, int signals_fd)
{
    while (!signals_stop()) {
        if (!house_mend(house)) {
            return EXIT_UNAVAILABLE;
        }
        struct pollfd polls[2] = {
            {.fd = signals_fd, .events = POLLIN},
            {.fd = house->control_fd, .events = POLLIN},
        };
        if (poll(polls, 2, LOOK_MS) > 0 && polls[1].revents) {
            control_answer(house);
        }
    }
    return EXIT_FINE;
}

int command_up(int argc, char **argv)
{
    /* Large, and zero in all that was not started. */
    static struct house house;
    house.control_fd = -1;
    house.settings = (struct house_settings){.instances = 2,
        .base_port = 3786,
        .edge_port = 8080,
        .weights = "1:2",
        .worker_connections = 8192,
        .quorum = 3,
        .stock = -1};
    int status = parse(argc, argv, &house.settings);
    if (status != OPTIONS_GO_ON) {
        return status;
    }
    status = check(&house.settings);
    if (status != EXIT_FINE) {
        return status;
    }
    int signals_fd = signals_open();
    if (signals_fd < 0 || !workdir_make(house.dir)) {
        return EXIT_SYSTEM;
    }
    if (control_open(&house) && house_open(&house)) {
        house_announce(&house);
        status = supervise(&house, signals_fd);
    } else {
        status = signals_stop() ? EXIT_FINE : house_failure(&house);
    }
    house_close(&house);
    return status;
}
