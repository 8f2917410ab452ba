/* SPDX-License-Identifier: Apache-2.0 */
/* flashsale audit: see audit.h for what it finds. */
#include "audit/audit.h"
#include "commands.h"
#include "common/options.h"
#include "common/redis.h"
#include "common/say.h"
#include "common/values.h"

#include <stdio.h>
#include <string.h>

enum { SERVERS_MAX = 17, ANSWER_MS = 10000, URLS_SIZE = 4096 };

static const char help[] =
    "usage: flashsale audit [--redis URL] [--segments-on URL,URL] [--item ID] [--json]\n"
    "\n"
    "Compares the recorded orders of an item with its stock: whether more was sold than there "
    "was,\n"
    "which pieces were sold twice and by which ports, whether a stock fell below 0.\n"
    "\n"
    "  --redis URL        the stock's server, as `flashsale up` has printed it\n"
    "                     (redis://127.0.0.1:6379/0)\n"
    "  --segments-on URLS further servers with segments, as the shop was told\n"
    "  --item ID          what to look at (10001)\n"
    "  --json             the result as one line of JSON\n"
    "\n"
    "Exit status: 0 sold exactly, 1 something is wrong, 64 a wrong command line, 69 Redis does "
    "not\n"
    "answer or does not know the item.\n";

/* The servers of the command line; how many, or 0 after a complaint. */
static size_t find_places(
    const char *redis_url, const char *segment_urls, struct redis_place *places)
{
    static char list[URLS_SIZE];
    const char *urls[SERVERS_MAX] = {redis_url};
    size_t count = 1;
    if (segment_urls) {
        if (strlen(segment_urls) >= sizeof list) {
            say_usage("--segments-on is too long");
            return 0;
        }
        memcpy(list, segment_urls, strlen(segment_urls) + 1);
        const size_t parts = split_list(list, urls + 1, SERVERS_MAX - 1);
        if (parts == 0 || parts > SERVERS_MAX - 1) {
            say_usage("--segments-on takes 1 to %d URLs with commas between", SERVERS_MAX - 1);
            return 0;
        }
        count += parts;
    }
    for (size_t i = 0; i < count; i++) {
        char why[AUDIT_WHY_SIZE];
        if (!redis_place_parse(urls[i], &places[i], why, sizeof why)) {
            say_usage("%s: %s", i == 0 ? "--redis" : "--segments-on", why);
            return 0;
        }
    }
    return count;
}

/* Without its URL, in which there may be a password. */
static void say_no_connection(const struct redis_place *place, const char *option, const char *why)
{
    char where[sizeof place->path + 16];
    if (place->path[0] != '\0') {
        snprintf(where, sizeof where, "%s", place->path);
    } else {
        snprintf(where, sizeof where, "%.100s port %d", place->host, place->port);
    }
    say("no connection to the server of %s at %s: %s; `flashsale up` prints where its stock is",
        option, where, why);
}

static int audit_at(redisContext *const *servers, size_t count, const char *item, bool json)
{
    struct audit audit;
    char why[AUDIT_WHY_SIZE] = "";
    if (!audit_item(servers, count, item, &audit, why)) {
        say("%s", why);
        return EXIT_UNAVAILABLE;
    }
    const bool printed = json ? audit_print_json(&audit, item) : audit_print(&audit, item);
    const bool exact = audit.exact;
    audit_free(&audit);
    if (!printed) {
        return EXIT_SYSTEM;
    }
    return exact ? EXIT_FINE : EXIT_WRONG;
}

int command_audit(int argc, char **argv)
{
    const char *redis_url = "redis://127.0.0.1:6379";
    const char *segment_urls = NULL;
    const char *item = "10001";
    bool json = false;
    const struct option_row rows[] = {
        {"redis", OPTION_TEXT, &redis_url, 0, 0},
        {"segments-on", OPTION_TEXT, &segment_urls, 0, 0},
        {"item", OPTION_TEXT, &item, 0, 0},
        {"json", OPTION_FLAG, &json, 0, 0},
    };
    const struct option_table table = {.command = "flashsale audit",
        .help = help,
        .rows = rows,
        .row_count = sizeof rows / sizeof rows[0]};
    const int result = options_parse(&table, argc, argv, NULL);
    if (result != OPTIONS_GO_ON) {
        return result;
    }
    if (strlen(item) == 0 || strlen(item) >= AUDIT_KEY_SIZE - 8) {
        return say_usage("--item takes 1 to 64 letters");
    }
    struct redis_place places[SERVERS_MAX];
    const size_t count = find_places(redis_url, segment_urls, places);
    if (count == 0) {
        return EXIT_USAGE;
    }
    redisContext *servers[SERVERS_MAX] = {NULL};
    int status = OPTIONS_GO_ON;
    for (size_t i = 0; status == OPTIONS_GO_ON && i < count; i++) {
        char why[AUDIT_WHY_SIZE];
        servers[i] = redis_open(&places[i], places[i].db, ANSWER_MS, why, sizeof why);
        if (!servers[i]) {
            say_no_connection(&places[i], i == 0 ? "--redis" : "--segments-on", why);
            status = EXIT_UNAVAILABLE;
        }
    }
    if (status == OPTIONS_GO_ON) {
        status = audit_at(servers, count, item, json);
    }
    for (size_t i = 0; i < count && servers[i]; i++) {
        redisFree(servers[i]);
    }
    return status;
}
