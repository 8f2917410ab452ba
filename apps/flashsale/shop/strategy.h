/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strategy: how an order gets in alone. From none at all to Redlock; each is a row of this
 * struct in a file under strategies/, with its flaw written above it.
 *
 * An order is carried out in three steps: enter, sell, leave. `enter` may block the seller's
 * thread (the hand-written locks do); or `enter_async` starts it and calls shop_entered() later,
 * from any thread, so that thousands can wait without a thread each (pawl's locks do). `sell` runs
 * on a seller's thread; NULL is sell_naively(): read, check, write back, record. `leave` follows on
 * the same thread, also when nothing was sold, and only after ENTERED.
 */
#ifndef FLASHSALE_SHOP_STRATEGY_H
#define FLASHSALE_SHOP_STRATEGY_H

#include <stdbool.h>
#include <stddef.h>

#include "shop/order.h"

struct redisContext;
struct seller;

enum entry { ENTERED, ENTRY_BUSY, ENTRY_UNAVAILABLE, ENTRY_FAILED };

struct strategy {
    const char *name;  /* for --strategy and ?strategy= */
    const char *title; /* a few words, for tables and the page */
    const char *flaw;  /* one sentence: what still goes wrong; NULL: nothing of the lock's doing */
    bool sound;        /* sells exactly under every fault of the demonstration */
    const char *needs; /* what must be configured for it, e.g. "--quorum with 3 servers"; or NULL */

    /* Made at the first order under it in this process, and ended with the process; either may be
     * NULL. open says false and a reason if the strategy cannot be used as configured. */
    bool (*open)(struct shop *shop, void **state_out, char *why, size_t why_size);
    void (*close)(struct shop *shop, void *state);

    /* The shop closes: end the waits that enter or enter_async began; it may be called again. NULL:
     * they end by themselves, soon, because they ask shop_is_closing(). */
    void (*cancel)(struct shop *shop, void *state);

    enum entry (*enter)(struct seller *seller, struct order *order);
    void (*enter_async)(struct shop *shop, struct order *order);
    void (*sell)(struct seller *seller, struct order *order);
    void (*leave)(struct seller *seller, struct order *order);
};

/* All of them, in the order of the story; ends with NULL. */
extern const struct strategy *const strategies[];
const struct strategy *strategy_find(const char *name);

/* Say on stderr that there is none of this name, and which there are; the exit status for it. */
int strategy_say_unknown(const char *name);

/* The state that open() made, or NULL. */
void *strategy_state(struct shop *shop, const struct strategy *strategy);

#endif
