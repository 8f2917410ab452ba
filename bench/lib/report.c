/* SPDX-License-Identifier: Apache-2.0 */
/* The table; report.h describes it. The ratio of a row is the median of the ratios of its rounds,
 * not the ratio of the medians: what disturbed one round of a shared machine disturbed both sides
 * of it. */
#include "lib/report.h"

#include "lib/die.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

struct row *report_add(struct report *report, const struct row *row)
{
    if (report->row_count == REPORT_ROWS_MAX) {
        die("more than %d rows", REPORT_ROWS_MAX);
    }
    report->rows[report->row_count] = *row;
    return &report->rows[report->row_count++];
}

struct row *report_compare(struct report *report, const char *group, const struct rounds *rounds,
    const struct comparison *comparison)
{
    const struct row row = {.group = group,
        .what = comparison->what,
        .unit = comparison->unit,
        .against_name = comparison->against_name,
        .ours = rounds_series(rounds, comparison->ours, comparison->metric),
        .against = rounds_series(rounds, comparison->against, comparison->metric),
        .must_kind = comparison->must_kind,
        .must = comparison->must};
    return report_add(report, &row);
}

void report_fail(struct report *report, const char *group)
{
    if (report->failed_count < REPORT_ROWS_MAX) {
        report->failed[report->failed_count++] = group;
    }
}

static bool is_reached(const struct row *row)
{
    const struct series ratio = series_ratio(&row->ours, &row->against);
    switch (row->must_kind) {
    case MUST_RATIO_AT_LEAST:
        return series_median(&ratio) >= row->must;
    case MUST_RATIO_AT_MOST:
        return series_median(&ratio) <= row->must;
    case MUST_VALUE_AT_MOST:
        return series_median(&row->ours) <= row->must;
    case MUST_NOT:
        break;
    }
    return true;
}

static const char *verdict(const struct row *row)
{
    if (row->must_kind == MUST_NOT) {
        return "-";
    }
    if (is_reached(row)) {
        return "reached";
    }
    return row->must_kind == MUST_RATIO_AT_LEAST ? "below" : "above";
}

static void format_value(char *text, size_t size, double value, const char *unit)
{
    if (strcmp(unit, "/s") == 0 && value >= 1000) {
        snprintf(text, size, "%.1f k/s", value / 1000);
    } else if (strcmp(unit, "share") == 0) {
        snprintf(text, size, "%.1f %%", value * 100);
    } else {
        snprintf(text, size, value >= 100 ? "%.0f %s" : "%.2f %s", value, unit);
    }
}

static void format_must(char *text, size_t size, const struct row *row)
{
    switch (row->must_kind) {
    case MUST_RATIO_AT_LEAST:
        snprintf(text, size, ">= %.2f", row->must);
        return;
    case MUST_RATIO_AT_MOST:
        snprintf(text, size, "<= %.2f", row->must);
        return;
    case MUST_VALUE_AT_MOST:
        snprintf(text, size, "<= %.0f %s", row->must, row->unit);
        return;
    case MUST_NOT:
        break;
    }
    snprintf(text, size, "-");
}

static void print_row(const struct row *row)
{
    char ours[32];
    char against[64] = "-";
    char ratio[16] = "-";
    char range[32] = "-";
    char must[32];
    format_value(ours, sizeof ours, series_median(&row->ours), row->unit);
    format_must(must, sizeof must, row);
    if (row->against.count > 0) {
        const struct series ratios = series_ratio(&row->ours, &row->against);
        char value[32];
        format_value(value, sizeof value, series_median(&row->against), row->unit);
        snprintf(against, sizeof against, "%s %s", value, row->against_name);
        snprintf(ratio, sizeof ratio, "%.2f", series_median(&ratios));
        snprintf(range, sizeof range, "%.2f-%.2f", series_min(&ratios), series_max(&ratios));
    }
    printf("%-52s %12s  %-24s %6s  %-11s %-9s %s\n", row->what, ours, against, ratio, range, must,
        verdict(row));
    if (row->note[0] != '\0') {
        printf("    %s\n", row->note);
    }
}

void report_print(const struct report *report)
{
    printf("%-52s %12s  %-24s %6s  %-11s %-9s %s\n", "what", "ours", "against", "ratio", "min-max",
        "must", "verdict");
    for (size_t i = 0; i < report->row_count; i++) {
        if (i > 0 && strcmp(report->rows[i].group, report->rows[i - 1].group) != 0) {
            printf("\n");
        }
        print_row(&report->rows[i]);
    }
    for (size_t i = 0; i < report->failed_count; i++) {
        printf("%-52s could not be measured\n", report->failed[i]);
    }
    fflush(stdout);
}

/* ===== The machine ===== */

/* The first line of a file that begins with `key`, from behind its colon. */
static void read_field(const char *path, const char *key, char *value, size_t size)
{
    char line[256];
    FILE *file = fopen(path, "re");
    snprintf(value, size, "unknown");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) == 0 && (colon != NULL || key[0] == '\0')) {
            const char *from = key[0] == '\0' ? line : colon + 2;
            snprintf(value, size, "%.*s", (int)strcspn(from, "\n"), from);
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

static void read_redis_version(const struct server *server, char *version, size_t size)
{
    redisReply *reply = server_command(server, "INFO server");
    const char *key = "redis_version:";
    const char *found = strstr(reply->str, key);
    snprintf(version, size, "unknown");
    if (found != NULL) {
        found += strlen(key);
        snprintf(version, size, "%.*s", (int)strcspn(found, "\r\n"), found);
    }
    freeReplyObject(reply);
}

void report_describe_machine(char *text, size_t size, const struct server *server)
{
    char cpu[128];
    char version[32];
    char load[64];
    struct utsname system;
    read_field("/proc/cpuinfo", "model name", cpu, sizeof cpu);
    read_field("/proc/loadavg", "", load, sizeof load);
    read_redis_version(server, version, sizeof version);
    uname(&system);
    snprintf(text, size, "%ld x %s, Linux %s, redis %s, hiredis %d.%d.%d, load %s",
        sysconf(_SC_NPROCESSORS_ONLN), cpu, system.release, version, HIREDIS_MAJOR, HIREDIS_MINOR,
        HIREDIS_PATCH, load);
}
