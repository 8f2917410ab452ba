/* SPDX-License-Identifier: Apache-2.0 */
/* See audit.h. The orders of each stock are sorted by what they left behind: equal ones lie side by
 * side then. */
#include "audit/audit.h"

#include "audit/books.h"

#include <stdlib.h>
#include <string.h>

void audit_free(struct audit *audit)
{
    free(audit->duplicates);
    *audit = (struct audit){0};
}

static void count_port(struct audit *audit, int64_t port)
{
    for (size_t i = 0; i < audit->port_count; i++) {
        if (audit->ports[i].port == port) {
            audit->ports[i].orders++;
            return;
        }
    }
    if (audit->port_count < AUDIT_PORTS_MAX) {
        audit->ports[audit->port_count++] = (struct audit_port){.port = port, .orders = 1};
    }
}

static void add_up(struct audit *audit, const struct stock *stock)
{
    audit->left += stock->left;
    audit->unreadable += stock->unreadable;
    audit->orders += (int64_t)stock->sale_count + stock->unreadable;
    audit->negative = audit->negative || stock->left < 0;
    for (size_t i = 0; i < stock->sale_count; i++) {
        const struct sale *sale = &stock->sales[i];
        audit->sold += sale->quantity;
        audit->negative = audit->negative || sale->remaining < 0;
        if (i > 0 && sale->remaining > stock->sales[i - 1].remaining) {
            audit->unordered++;
        }
        count_port(audit, sale->port);
    }
}

/* ===== Pieces sold twice ===== */

static int by_remaining(const void *left, const void *right)
{
    const struct sale *a = left;
    const struct sale *b = right;
    if (a->remaining != b->remaining) {
        return a->remaining < b->remaining ? 1 : -1;
    }
    return (a->number > b->number) - (a->number < b->number);
}

static void note_port(struct audit_duplicate *duplicate, int64_t port)
{
    for (size_t i = 0; i < duplicate->port_count; i++) {
        if (duplicate->ports[i] == port) {
            return;
        }
    }
    if (duplicate->port_count < AUDIT_PORTS_MAX) {
        duplicate->ports[duplicate->port_count++] = port;
    }
}

/* sales[0...count) all left the same number behind. */
static bool add_duplicate(
    struct audit *audit, const char *key, const struct sale *sales, size_t count)
{
    /* Grown by doubling whenever the count is a power of two. */
    const size_t used = audit->duplicate_count;
    if ((used & (used - 1)) == 0) {
        const size_t room = used == 0 ? 1 : used * 2;
        void *grown = realloc(audit->duplicates, room * sizeof *audit->duplicates);
        if (!grown) {
            return false;
        }
        audit->duplicates = grown;
    }
    struct audit_duplicate *duplicate = &audit->duplicates[audit->duplicate_count++];
    memset(duplicate, 0, sizeof *duplicate);
    memcpy(duplicate->key, key, sizeof duplicate->key);
    duplicate->remaining = sales[0].remaining;
    duplicate->times = (int64_t)count;
    for (size_t i = 0; i < count; i++) {
        note_port(duplicate, sales[i].port);
    }
    return true;
}

static bool find_duplicates(struct audit *audit, const struct stock *stock)
{
    qsort(stock->sales, stock->sale_count, sizeof *stock->sales, by_remaining);
    size_t first = 0;
    for (size_t i = 1; i <= stock->sale_count; i++) {
        if (i < stock->sale_count && stock->sales[i].remaining == stock->sales[first].remaining) {
            continue;
        }
        if (i - first > 1 && !add_duplicate(audit, stock->key, &stock->sales[first], i - first)) {
            return false;
        }
        first = i;
    }
    return true;
}

static int by_port(const void *left, const void *right)
{
    const struct audit_port *a = left;
    const struct audit_port *b = right;
    return (a->port > b->port) - (a->port < b->port);
}

bool audit_item(redisContext *const *servers, size_t server_count, const char *item,
    struct audit *audit_out, char why[AUDIT_WHY_SIZE])
{
    *audit_out = (struct audit){0};
    struct books books;
    if (!books_read(servers, server_count, item, &books, why)) {
        return false;
    }
    bool is_complete = true;
    for (size_t i = 0; i < books.stock_count; i++) {
        add_up(audit_out, &books.stocks[i]);
        is_complete = find_duplicates(audit_out, &books.stocks[i]) && is_complete;
    }
    audit_out->initial = books.initial;
    audit_out->segments = books.is_split ? books.stock_count : 0;
    books_free(&books);
    qsort(audit_out->ports, audit_out->port_count, sizeof audit_out->ports[0], by_port);
    const int64_t surplus = audit_out->sold + audit_out->left - audit_out->initial;
    audit_out->oversold = surplus > 0 ? surplus : 0;
    audit_out->missing = surplus < 0 ? -surplus : 0;
    audit_out->exact = surplus == 0 && audit_out->duplicate_count == 0 && !audit_out->negative &&
                       audit_out->unreadable == 0 && audit_out->unordered == 0;
    if (!is_complete) {
        audit_free(audit_out);
        memcpy(why, "no memory left", sizeof "no memory left");
    }
    return is_complete;
}
