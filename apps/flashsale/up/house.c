/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The house: what is started, in which order, and how it ends. Servers come first and go last.
 */
#include "up/house.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/say.h"
#include "up/net.h"
#include "up/patience.h"

#define READY_MS 10000
#define SHOP_END_MS 10000 /* it finishes the orders that it has begun */
#define END_MS 5000
#define URLS_SIZE 1024
#define SERVERS_SIZE 4096

/* ===== Servers ===== */

static bool open_pair(struct house *house)
{
    struct server *pair = house->pair;
    if (!server_open(&pair[0], house->dir, "lock server A", SERVER_FORGETS) ||
        !server_open(&pair[1], house->dir, "lock server B", SERVER_FORGETS) ||
        !server_follow(&pair[1], &pair[0])) {
        return false;
    }
    house->master = 0;
    house->forwarder = forwarder_open(pair[0].port);
    return house->forwarder != NULL;
}

/* A server that was just started may have forgotten what it had granted, so pawl does not let it
 * vote for a lease's time, unless it forgets nothing, which these do not: we kill processes, and
 * never the kernel that has their files. That they are old enough to be believed is a note among
 * their own data; we may write it, for these have not granted anything yet. */
static bool open_master(struct house *house, int index)
{
    char what[PROCESS_NAME_SIZE];
    snprintf(what, sizeof(what), "lock master %d", index + 1);
    struct server *server = &house->quorum[index];
    return server_open(server, house->dir, what, SERVER_REMEMBERS) &&
           server_tell(server, "SET pawl_seen:durable 1000");
}

static bool open_servers(struct house *house)
{
    if (!server_open(&house->stock, house->dir, "the stock server", SERVER_REMEMBERS)) {
        return false;
    }
    if (house->settings.replica && !open_pair(house)) {
        return false;
    }
    for (int i = 0; i < house->settings.quorum; i++) {
        if (!open_master(house, i)) {
            return false;
        }
    }
    house->quorum_down = -1;
    return true;
}

static void list_quorum(const struct house *house, char urls_out[URLS_SIZE])
{
    size_t length = 0;
    urls_out[0] = '\0';
    for (int i = 0; i < house->settings.quorum; i++) {
        length += (size_t)snprintf(urls_out + length, URLS_SIZE - length, "%s" QUORUM_URL,
            i ? "," : "", house->quorum[i].port);
    }
}

/* ===== Instances ===== */

static void add_option(struct process *process, const char *name, const char *value)
{
    if (value) {
        process_add(process, "%s", name);
        process_add(process, "%s", value);
    }
}

static void plan_shop(const struct house *house, struct shop_process *shop)
{
    const struct house_settings *settings = &house->settings;
    struct process *process = &shop->process;
    process_init(process, "the shop on port %d", shop->port);
    process->program = "/proc/self/exe";
    process_add(process, "flashsale");
    process_add(process, "serve");
    process_add(process, "--port");
    process_add(process, "%d", shop->port);
    process_add(process, "--redis");
    process_add(process, "redis://127.0.0.1:%d/0", house->stock.port);
    if (house->forwarder) {
        process_add(process, "--lock");
        process_add(process, "redis://127.0.0.1:%d/0", forwarder_port(house->forwarder));
    }
    if (settings->quorum > 0) {
        char urls[URLS_SIZE];
        list_quorum(house, urls);
        add_option(process, "--quorum", urls);
    }
    add_option(process, "--strategy", settings->strategy);
    add_option(process, "--lease", settings->lease);
    add_option(process, "--wait", settings->wait);
    add_option(process, "--control", house->control_path);
    if (settings->allow_faults) {
        process_add(process, "--allow-faults");
    }
    for (size_t i = 0; i < settings->more_count; i++) {
        process_add(process, "%s", settings->more[i]);
    }
}

static bool shop_answers_or_died(void *arg)
{
    struct shop_process *shop = arg;
    return !process_runs(&shop->process) || net_ask(shop->port, "GET", "/healthz", "") == 200;
}

static bool open_shops(struct house *house)
{
    for (int i = 0; i < house->settings.instances; i++) {
        struct shop_process *shop = &house->shops[i];
        int64_t base = house->settings.base_port;
        shop->port = base ? (int)base + i : net_free_port();
        plan_shop(house, shop);
        if (!process_start(&shop->process)) {
            return false;
        }
    }
    for (int i = 0; i < house->settings.instances; i++) {
        struct shop_process *shop = &house->shops[i];
        if (!wait_for(shop_answers_or_died, shop, READY_MS) || shop->process.pid == 0) {
            if (!signals_stop()) {
                say(shop->process.pid == 0 ? "the shop on port %d ended; what it said is above"
                                           : "the shop on port %d does not answer",
                    shop->port);
            }
            return false;
        }
    }
    return true;
}

static bool put_stock(const struct house *house, const char *item, int64_t segments)
{
    char path[64];
    char body[96];
    snprintf(path, sizeof(path), "/items/%s", item);
    int length = snprintf(body, sizeof(body), "{\"stock\":%" PRId64, house->settings.stock);
    if (segments > 0) {
        length += snprintf(
            body + length, sizeof(body) - (size_t)length, ",\"segments\":%" PRId64, segments);
    }
    snprintf(body + length, sizeof(body) - (size_t)length, "}");
    int status = net_ask(house->shops[0].port, "PUT", path, body);
    if (status != 200) {
        say("the stock of item %s could not be set: status %d", item, status);
    }
    return status == 200;
}

/* ===== The edge ===== */

/* The upstream's servers with their weights; the last weight is that of all further instances. A
 * failed instance is tried again soon: it may have been restarted by us. */
static void list_shops(const struct house *house, char servers_out[SERVERS_SIZE])
{
    const char *weights = house->settings.weights;
    long weight = 1;
    size_t length = 0;
    for (int i = 0; i < house->settings.instances; i++) {
        if (*weights) {
            char *end = NULL;
            weight = strtol(weights, &end, 10);
            weights = *end == ':' ? end + 1 : end;
        }
        length += (size_t)snprintf(servers_out + length, SERVERS_SIZE - length,
            "server 127.0.0.1:%d weight=%ld fail_timeout=1s; ", house->shops[i].port, weight);
    }
}

static bool open_edge(struct house *house)
{
    char servers[SERVERS_SIZE];
    list_shops(house, servers);
    int64_t port = house->settings.edge_port;
    struct nginx_plan plan = {
        .dir = house->dir,
        .port = port ? (int)port : net_free_port(),
        .servers = servers,
        .redis_port = house->stock.port,
        .connections = house->settings.worker_connections,
    };
    return nginx_open(&house->nginx, &plan);
}

/* ===== All of it ===== */

bool house_open(struct house *house)
{
    const struct house_settings *settings = &house->settings;
    if (!open_servers(house) || !open_shops(house)) {
        return false;
    }
    if (settings->stock >= 0 &&
        (!put_stock(house, "10001", settings->segments) || !put_stock(house, "inventory001", 0))) {
        return false;
    }
    return !settings->edge || open_edge(house);
}

int house_failure(const struct house *house)
{
    for (int i = 0; i < house->settings.instances; i++) {
        const struct process *process = &house->shops[i].process;
        const int status = process->end_status;
        const bool refused = process->word_count > 0 && process->pid == 0 && WIFEXITED(status);
        if (refused && (WEXITSTATUS(status) == EXIT_USAGE || WEXITSTATUS(status) == EXIT_DENIED)) {
            return WEXITSTATUS(status);
        }
    }
    return EXIT_UNAVAILABLE;
}

/* Every process there is or was, one after the other; NULL behind the last. In the order in which
 * they are ended: the edge takes no more orders, the shops finish theirs, the servers are last. */
static struct process *next_process(struct house *house, size_t *index)
{
    while (*index < 1 + INSTANCES_MAX + LOCK_SERVERS_MAX + 3) {
        size_t i = (*index)++;
        struct process *process = NULL;
        if (i == 0) {
            process = &house->nginx.process;
        } else if (i < 1 + INSTANCES_MAX) {
            process = &house->shops[i - 1].process;
        } else if (i < 1 + INSTANCES_MAX + LOCK_SERVERS_MAX) {
            process = &house->quorum[i - 1 - INSTANCES_MAX].process;
        } else {
            struct server *rest[3] = {&house->pair[0], &house->pair[1], &house->stock};
            process = &rest[i - 1 - INSTANCES_MAX - LOCK_SERVERS_MAX]->process;
        }
        if (process->word_count > 0) {
            return process;
        }
    }
    return NULL;
}

bool house_mend(struct house *house)
{
    if (house->settings.edge) {
        nginx_listen(&house->nginx);
    }
    size_t index = 0;
    for (struct process *process = next_process(house, &index); process;
         process = next_process(house, &index)) {
        if (!process_mend(process)) {
            return false;
        }
    }
    return true;
}

/* The shops are asked to end all at once, so that the wait for them is one wait. */
static void ask_shops_to_end(struct house *house)
{
    for (int i = 0; i < house->settings.instances; i++) {
        struct process *process = &house->shops[i].process;
        if (process->pid != 0) {
            kill(process->pid, process->end_signal);
        }
    }
}

void house_close(struct house *house)
{
    if (house->control_fd >= 0) { /* a shop that asks for a fault now must not wait for an answer */
        close(house->control_fd);
    }
    struct process *first_shop = &house->shops[0].process;
    size_t index = 0;
    for (struct process *process = next_process(house, &index); process;
         process = next_process(house, &index)) {
        if (process == first_shop) {
            ask_shops_to_end(house);
        }
        bool is_shop = index >= 2 && index <= 1 + INSTANCES_MAX;
        process_end(process, is_shop ? SHOP_END_MS : END_MS);
        process_free(process);
    }
    forwarder_close(house->forwarder);
    if (house->dir[0] && !house->settings.keep_dir) {
        workdir_remove(house->dir);
    } else if (house->dir[0]) {
        say("%s is kept, as you wished", house->dir);
    }
}
