/* SPDX-License-Identifier: Apache-2.0 */
/* What `pawl top` shows, as text: some lines about everything, then a table of locks. */
#ifndef PAWL_TOP_VIEW_H
#define PAWL_TOP_VIEW_H

#include "text/text.h"
#include "top/model.h"

enum top_order { TOP_BY_WAITERS, TOP_BY_HELD, TOP_BY_RATE, TOP_BY_NAME, TOP_ORDER_COUNT };

struct top_view {
    const char *title; /* where the locks are */
    int64_t every_ms;
    enum top_order order;
    bool paused;
    bool live; /* with the line that explains the keys */
    bool bold;
    size_t columns_max; /* 0: any */
    size_t rows_max;    /* 0: any */
};

/* "waiters" */
const char *top_order_name(enum top_order order);

/* Add a picture of the model; takes its mutex. The last line has no newline. */
void top_view_render(
    const struct top_view *view, struct top_model *model, int64_t now_ms, struct cli_text *out);

#endif
