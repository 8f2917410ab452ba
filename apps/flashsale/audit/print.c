/* SPDX-License-Identifier: Apache-2.0 */
/* An audit's result, for people and as JSON. */
#include "audit/audit.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

enum { DUPLICATES_SHOWN = 10 };

static void print_duplicates(const struct audit *audit)
{
    for (size_t i = 0; i < audit->duplicate_count && i < DUPLICATES_SHOWN; i++) {
        const struct audit_duplicate *duplicate = &audit->duplicates[i];
        printf("  %s: %" PRId64 " orders left %" PRId64 " behind, by port", duplicate->key,
            duplicate->times, duplicate->remaining);
        for (size_t k = 0; k < duplicate->port_count; k++) {
            printf("%s %" PRId64, k == 0 ? "" : ",", duplicate->ports[k]);
        }
        printf("\n");
    }
    if (audit->duplicate_count > DUPLICATES_SHOWN) {
        printf(
            "  and %zu more; --json lists them all\n", audit->duplicate_count - DUPLICATES_SHOWN);
    }
}

static void print_findings(const struct audit *audit)
{
    if (audit->oversold > 0) {
        printf(
            "OVERSOLD by %" PRId64 ": sold and left make more than there was\n", audit->oversold);
    }
    if (audit->missing > 0) {
        printf("MISSING %" PRId64 ": sold and left make less than there was\n", audit->missing);
    }
    if (audit->negative) {
        printf("NEGATIVE: a stock is or was below 0\n");
    }
    if (audit->unreadable > 0) {
        printf("UNREADABLE: %" PRId64 " records are no orders\n", audit->unreadable);
    }
    if (audit->unordered > 0) {
        printf("OUT OF ORDER: %" PRId64 " orders wrote a greater stock than the order before\n",
            audit->unordered);
    }
    if (audit->duplicate_count > 0) {
        printf("SOLD MORE THAN ONCE: %zu piece%s\n", audit->duplicate_count,
            audit->duplicate_count == 1 ? "" : "s");
        print_duplicates(audit);
    }
}

bool audit_print(const struct audit *audit, const char *item)
{
    printf("item %s: %" PRId64 " pieces", item, audit->initial);
    if (audit->segments > 0) {
        printf(" in %zu segments", audit->segments);
    }
    printf(", %" PRId64 " orders, %" PRId64 " sold, %" PRId64 " left\n", audit->orders, audit->sold,
        audit->left);
    for (size_t i = 0; i < audit->port_count; i++) {
        printf("%s%" PRId64 ": %" PRId64 "%s", i == 0 ? "orders by port " : ", ",
            audit->ports[i].port, audit->ports[i].orders, i + 1 == audit->port_count ? "\n" : "");
    }
    print_findings(audit);
    if (audit->exact) {
        printf("exact\n");
    }
    return fflush(stdout) == 0;
}

static json_t *duplicates_json(const struct audit *audit)
{
    json_t *list = json_array();
    for (size_t i = 0; i < audit->duplicate_count; i++) {
        const struct audit_duplicate *duplicate = &audit->duplicates[i];
        json_t *ports = json_array();
        for (size_t k = 0; k < duplicate->port_count; k++) {
            json_array_append_new(ports, json_integer((json_int_t)duplicate->ports[k]));
        }
        json_array_append_new(list, json_pack("{s:s,s:I,s:I,s:o}", "key", duplicate->key,
                                        "remaining", (json_int_t)duplicate->remaining, "times",
                                        (json_int_t)duplicate->times, "ports", ports));
    }
    return list;
}

static json_t *ports_json(const struct audit *audit)
{
    json_t *object = json_object();
    for (size_t i = 0; i < audit->port_count; i++) {
        char key[24];
        snprintf(key, sizeof key, "%" PRId64, audit->ports[i].port);
        json_object_set_new(object, key, json_integer((json_int_t)audit->ports[i].orders));
    }
    return object;
}

bool audit_print_json(const struct audit *audit, const char *item)
{
    json_t *object = json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:b,s:b}", "item",
        item, "initial", (json_int_t)audit->initial, "sold", (json_int_t)audit->sold, "orders",
        (json_int_t)audit->orders, "left", (json_int_t)audit->left, "oversold",
        (json_int_t)audit->oversold, "missing", (json_int_t)audit->missing, "unreadable",
        (json_int_t)audit->unreadable, "unordered", (json_int_t)audit->unordered, "segments",
        (json_int_t)audit->segments, "duplicates", duplicates_json(audit), "ports",
        ports_json(audit), "negative", audit->negative, "exact", audit->exact);
    if (!object) {
        return false;
    }
    const bool printed = json_dumpf(object, stdout, JSON_COMPACT) == 0 && puts("") >= 0;
    json_decref(object);
    return fflush(stdout) == 0 && printed;
}
