/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong for ever, and what is only wrong now: see check.h.
 *
 * The shop's own connections are made when they are needed, and again when they are lost, so that a
 * server may come and go. That hides a mistake in a URL until the first order. So each server is
 * visited once before, and its answer decides: what a URL asks for and cannot be had by it is a
 * mistake of whoever started us; silence is not. */
#include "serve/check.h"

#include "common/redis.h"
#include "common/say.h"
#include "pawl.h"
#include "shop/shop.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { WHY_SIZE = 300 };

/* ===== The stock ===== */

/* Also sets *away_out to true if it does not answer. */
static int check_stock(const char *option, const char *url, const char *what, bool *away_out)
{
    char why[WHY_SIZE];
    struct redis_place place;
    redisContext *redis = NULL;
    if (redis_place_parse(url, &place, why, sizeof why)) {
        redis = redis_open(&place, place.db, REDIS_TIMEOUT_MS, why, sizeof why);
    }
    if (redis != NULL) {
        redis_drop(&redis);
        return EXIT_FINE;
    }
    const enum redis_verdict verdict = redis_judge(why);
    if (verdict == REDIS_NOT_NOW) {
        say("%s does not answer (%s); orders are told so until it does", what, why);
        *away_out = true;
        return EXIT_FINE;
    }
    say("%s: %s does not take the URL's %s (%s); mend it: redis://[user:password@]host[:port][/db]",
        option, what, verdict == REDIS_DENIED ? "user or password" : "database", why);
    return verdict == REDIS_DENIED ? EXIT_DENIED : EXIT_USAGE;
}

static int check_stocks(const struct shop_settings *settings, bool *away_out)
{
    bool further_away = false;
    int status = check_stock("--redis", settings->redis_url, "the stock's Redis", away_out);
    for (size_t i = 0; i < settings->segment_url_count && status == EXIT_FINE; i++) {
        char what[64];
        snprintf(what, sizeof what, "further stock server %zu", i + 1);
        status = check_stock("--segments-on", settings->segment_urls[i], what, &further_away);
    }
    return status;
}

/* ===== Locks ===== */

/* Whether it may be otherwise in a moment without anything that we could be told: a server may
 * come, or be loading, or a replica that becomes the master. A directory does not. */
static bool may_come(pawl_status status, const char *url)
{
    return (status == PAWL_UNAVAILABLE || status == PAWL_REFUSED) && strncmp(url, "redis", 5) == 0;
}

static int check_lock(const char *option, const char *url)
{
    pawl_client *client = NULL;
    const pawl_status status = pawl_client_open(url, NULL, &client);
    if (status == PAWL_OK) {
        pawl_client_close(client);
        return EXIT_FINE;
    }
    if (may_come(status, url)) {
        say("%s: %s; orders that need it are told so until it can be had", option,
            pawl_last_error());
        return EXIT_FINE;
    }
    if (status == PAWL_DENIED || status == PAWL_NO_MEMORY) {
        say("%s: %s", option, pawl_last_error());
        return status == PAWL_DENIED ? EXIT_DENIED : EXIT_SYSTEM;
    }
    return say_usage("%s: %s", option, pawl_last_error());
}

static int check_locks(const struct shop *shop, bool stock_is_away)
{
    const struct shop_settings *settings = shop_settings(shop);
    const struct strategy *strategy = settings->strategy;
    const bool locks = strategy->enter != NULL || strategy->enter_async != NULL;
    int status = EXIT_FINE;
    if (settings->lock_url != NULL) {
        status = check_lock("--lock", settings->lock_url);
    } else if (locks && !stock_is_away) { /* of that it has been said already */
        status = check_lock("the locks, in database 1 of --redis (--lock names another place)",
            shop_lock_url(shop));
    }
    for (size_t i = 0; i < settings->quorum_count && status == EXIT_FINE; i++) {
        char option[64];
        snprintf(option, sizeof option, "--quorum, server %zu", i + 1);
        status = check_lock(option, settings->quorum_urls[i]);
    }
    return status;
}

/* ===== All of it ===== */

int check_shop(struct shop *shop)
{
    const struct shop_settings *settings = shop_settings(shop);
    bool stock_is_away = false;
    int status = check_stocks(settings, &stock_is_away);
    if (status == EXIT_FINE) {
        status = check_locks(shop, stock_is_away);
    }
    char why[WHY_SIZE];
    if (status == EXIT_FINE && !shop_prepare(shop, settings->strategy, why, sizeof why)) {
        status = say_usage("strategy '%s' cannot be used: %s", settings->strategy->name, why);
    }
    return status;
}
