/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One item's sale as the live page shows it: read anew at each tick, with what can only be seen
 * over time (the pace) remembered in between.
 */
#ifndef FLASHSALE_SERVE_VIEW_H
#define FLASHSALE_SERVE_VIEW_H

#include "pawl.h"
#include "shop/items.h"

#include <jansson.h>
#include <stdint.h>

enum { VIEW_PACE_TICKS = 5 }; /* the pace is that of the last second */

struct view_moment {
    int64_t at_us;
    int64_t orders;
};

struct view {
    char id[ITEM_SIZE];
    struct item item;
    struct ledger ledger;
    int64_t oversold;
    struct view_moment moments[VIEW_PACE_TICKS + 1]; /* the newest last */
    struct view *next;
};

/* Read the item and draw it. `lock` may be NULL; then nobody knows who holds the lock. */
json_t *view_draw(struct view *view, struct seller *seller, pawl_client *lock);

#endif
