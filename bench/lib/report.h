/* SPDX-License-Identifier: Apache-2.0 */
/* The rows that were measured, as one table for people and as JSON for machines. */
#ifndef PAWL_LIB_REPORT_H
#define PAWL_LIB_REPORT_H

#include "lib/server.h"
#include "lib/stats.h"

#include <stdbool.h>

enum { REPORT_ROWS_MAX = 128 };

/* What the must is compared with. */
enum must_kind {
    MUST_NOT,            /* the row is only reported */
    MUST_RATIO_AT_LEAST, /* ours / against */
    MUST_RATIO_AT_MOST,
    MUST_VALUE_AT_MOST /* ours alone */
};

struct row {
    const char *group;
    const char *what;
    const char *unit;         /* of the numbers: "/s", "us", "ns", "ms", "B", "share" */
    const char *against_name; /* NULL: compared with nothing */
    struct series ours;
    struct series against; /* as many as ours, or none */
    enum must_kind must_kind;
    double must;
    char note[128]; /* stands below the row; "" for none */
};

struct report {
    size_t row_count;
    struct row rows[REPORT_ROWS_MAX];
    size_t failed_count;
    const char *failed[REPORT_ROWS_MAX]; /* groups that could not be measured */
};

/* Adds a copy; answers it, for a note. */
struct row *report_add(struct report *report, const struct row *row);
/* The same out of rounds: one metric of two of their sides. */
struct comparison {
    const char *what;
    const char *unit;
    double (*metric)(const struct sample *sample);
    size_t ours;
    size_t against;
    const char *against_name;
    enum must_kind must_kind;
    double must;
};

struct row *report_compare(struct report *report, const char *group, const struct rounds *rounds,
    const struct comparison *comparison);

/* A group could not be measured. */
void report_fail(struct report *report, const char *group);

void report_print(const struct report *report);

/* False: the file cannot be written. */
bool report_write_json(
    const struct report *report, const char *path, const struct server *server, size_t rounds);

/* One line about the machine, for the table's head. */
void report_describe_machine(char *text, size_t size, const struct server *server);

#endif
