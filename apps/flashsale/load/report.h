/* SPDX-License-Identifier: Apache-2.0 */
/* What came of a load, for people and as JSON; and, in sentences, what its figures cannot be
 * trusted for: a load that stumbles over its own limits measures those and not the shop. */
#ifndef FLASHSALE_LOAD_REPORT_H
#define FLASHSALE_LOAD_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "load/outcome.h"

/* The item's books after the load, as its shop tells them. */
struct item_state {
    bool is_known;
    int64_t initial;
    int64_t left;
    int64_t sold;
    int64_t oversold; /* sold + left - initial, if more than 0 */
};

struct report {
    const char *item;
    const char *strategy; /* NULL: each shop's own */
    int64_t connections;
    int64_t orders;
    size_t shops;
    const struct outcome *outcome;
    double seconds;         /* to the last answer */
    int64_t sold_in_time;   /* orders, within these: */
    double selling_seconds; /* to the last sale, if it ran out */
    int64_t stuck_us;       /* the longest time in which nothing was sold */
    int64_t unanswered;     /* under way when it was interrupted */
    struct item_state state;
};

/* Sold orders a second, as long as something was sold. */
double report_rate(const struct report *report);

/* The 99th percentile of the orders that were sold, or of all answers if none was; in ms. */
double report_p99_ms(const struct report *report);

void report_print(const struct report *report);

/* False: no memory, or stdout does not take it. */
bool report_print_json(const struct report *report);

/* Why there were errors, and the remedies, on stderr. */
void report_explain(const struct report *report);

#endif
