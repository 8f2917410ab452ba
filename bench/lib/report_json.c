/* SPDX-License-Identifier: Apache-2.0 */
/* The rows as JSON: one object with the machine, the commit and every round of every row. */
#include "lib/report.h"

#include <stdio.h>
#include <stdlib.h>

static void put_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            fputc('\\', file);
        }
        fputc(*text >= 0 && *text < ' ' ? ' ' : *text, file);
    }
    fputc('"', file);
}

static void put_key_text(FILE *file, const char *key, const char *text)
{
    fprintf(file, "\"%s\": ", key);
    put_text(file, text);
    fputs(", ", file);
}

static void put_series(FILE *file, const char *key, const struct series *series)
{
    fprintf(file, "\"%s\": {\"median\": %.6g, \"min\": %.6g, \"max\": %.6g, \"rounds\": [", key,
        series_median(series), series_min(series), series_max(series));
    for (size_t i = 0; i < series->count; i++) {
        fprintf(file, "%s%.6g", i > 0 ? ", " : "", series->values[i]);
    }
    fputs("]}", file);
}

static const char *must_name(enum must_kind kind)
{
    switch (kind) {
    case MUST_RATIO_AT_LEAST:
        return "ratio at least";
    case MUST_RATIO_AT_MOST:
        return "ratio at most";
    case MUST_VALUE_AT_MOST:
        return "value at most";
    case MUST_NOT:
        break;
    }
    return "none";
}

static void put_row(FILE *file, const struct row *row)
{
    fputs("    {", file);
    put_key_text(file, "group", row->group);
    put_key_text(file, "what", row->what);
    put_key_text(file, "unit", row->unit);
    put_key_text(file, "must_kind", must_name(row->must_kind));
    fprintf(file, "\"must\": %.6g, ", row->must);
    put_key_text(file, "note", row->note);
    put_series(file, "ours", &row->ours);
    if (row->against.count > 0) {
        const struct series ratio = series_ratio(&row->ours, &row->against);
        fputs(", ", file);
        put_key_text(file, "against_name", row->against_name);
        put_series(file, "against", &row->against);
        fputs(", ", file);
        put_series(file, "ratio", &ratio);
    }
    fputs("}", file);
}

bool report_write_json(
    const struct report *report, const char *path, const struct server *server, size_t rounds)
{
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        return false;
    }
    char machine[512];
    const char *commit = getenv("PAWL_BENCH_COMMIT");
    report_describe_machine(machine, sizeof machine, server);
    fputs("{\n  ", file);
    put_key_text(file, "machine", machine);
    put_key_text(file, "compiler", __VERSION__);
    put_key_text(file, "commit", commit != NULL ? commit : "unknown");
    fprintf(file, "\"rounds\": %zu,\n  \"rows\": [\n", rounds);
    for (size_t i = 0; i < report->row_count; i++) {
        put_row(file, &report->rows[i]);
        fputs(i + 1 < report->row_count ? ",\n" : "\n", file);
    }
    fputs("  ],\n  \"failed\": [", file);
    for (size_t i = 0; i < report->failed_count; i++) {
        fputs(i > 0 ? ", " : "", file);
        put_text(file, report->failed[i]);
    }
    fputs("]\n}\n", file);
    const bool good = ferror(file) == 0;
    return fclose(file) == 0 && good;
}
