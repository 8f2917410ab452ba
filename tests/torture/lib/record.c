/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a campaign, as a table for people and as JSON for whoever compares them. */
#include "torture/lib/torture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *engine_name(const struct campaign *campaign)
{
    return campaign->engine == TORTURE_REDIS ? "redis" : "file";
}

static const struct fault_kind *kinds_of(const struct campaign *campaign)
{
    return campaign->engine == TORTURE_REDIS ? torture_redis_faults : torture_file_faults;
}

static void format_time(int64_t at_s, char out[32])
{
    const time_t at = (time_t)at_s;
    struct tm parts;
    gmtime_r(&at, &parts);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

static uint64_t fault_sum(const struct campaign *campaign)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < KINDS_MAX; i++) {
        sum += campaign->kind_counts[i];
    }
    return sum;
}

/* ===== For people ===== */

static void print_number(const char *what, uint64_t number)
{
    printf("  %-52s %12" PRIu64 "\n", what, number);
}

static void print_time(const char *what, int64_t late_us)
{
    printf("  %-52s %9" PRId64 ".%" PRId64 " ms\n", what, late_us / 1000, late_us % 1000 / 100);
}

static void print_faults(const struct campaign *campaign)
{
    const struct fault_kind *kinds = kinds_of(campaign);
    print_number("faults", fault_sum(campaign));
    for (size_t i = 0; kinds[i].name != NULL; i++) {
        printf("    %-50s %12" PRIu64 "%s\n", kinds[i].name, campaign->kind_counts[i],
            kinds[i].victim == VICTIM_DISK && !campaign->disk_was_full ? "  (only root can)" : "");
    }
}

static void print_oracles(const struct verdict *verdict)
{
    static const char *const names[ORACLE_COUNT] = {"complaints of workers",
        "O1 two valid holds at once", "O2 tokens that fall or repeat", "O3 lost additions",
        "O4 stale writes accepted", "O5 calls beyond their limits", "O6 reports late or wrong",
        "O7 things left behind", "O8 leaks", "O9 threads that starve"};
    print_number("violations", verdict_violations(verdict));
    for (unsigned i = 0; i < ORACLE_COUNT; i++) {
        printf("    %-50s %12" PRIu64 "\n", names[i], verdict->violations[i]);
        if (verdict->violations[i] > 0) {
            printf("      %s\n", verdict->first[i]);
        }
    }
}

void record_print(const struct campaign *campaign)
{
    const struct verdict *verdict = &campaign->verdict;
    char began[32];
    format_time(campaign->began_s, began);
    printf("torture of the %s engine (%s), commit %s, %s\n", engine_name(campaign),
        campaign->server, campaign->commit, began);
    printf("  seed %" PRIu64 ", %u rounds in %" PRId64
           " s; %u workers with %u threads on %u names, "
           "lease %" PRId64 " ms\n",
        campaign->seed, campaign->rounds, campaign->took_ms / 1000, campaign->workers,
        campaign->threads, campaign->names, campaign->lease_ms);
    print_number("acquisitions", campaign->acquired);
    print_number("of these, of several locks at once", campaign->several);
    print_number("of these, of locks that three servers keep", campaign->themed[THEME_QUORUM]);
    print_number("of these, of permits", campaign->themed[THEME_COUNTS]);
    print_number("permits taken", verdict->permits);
    print_number("the most at once of a semaphore", verdict->most_out);
    print_number("permits of the dead, replaced", verdict->replaced);
    print_number("permits in doubt", verdict->doubted);
    print_number("of these, missing at the end", verdict->missing);
    print_number("latches counted down", campaign->latches_counted);
    print_number("waits for a latch that opened", campaign->latches_opened);
    print_number("counts of latches compared", campaign->latches_checked);
    print_faults(campaign);
    print_number("holds that were lost", verdict->lost);
    print_number("calls of on_lost", verdict->reports);
    print_number("of these, while or after it was being released", verdict->reports_after);
    print_number("of these, while several were being acquired", verdict->reports_passing);
    print_time("its lateness, worst", verdict->report_late_us_max);
    print_time("its lateness, 99.9 % below", verdict_report_late_us(verdict, 999));
    print_time("its lateness, 99 % below", verdict_report_late_us(verdict, 990));
    print_time("a call beyond its limit, worst", verdict->call_late_us_max);
    print_number("locks taken away by force", verdict->taken);
    print_number("of these, overtaken while they went on", verdict->overlaps);
    print_number("of these, in doubt about their release", verdict->overlaps_in_doubt);
    print_number("hand-overs compared (O3)", verdict->handovers);
    print_number("hand-overs not compared, next to a late store", verdict->handovers_skipped);
    print_number("writes accepted by the register (O4)", verdict->writes);
    print_number("late writes refused by the register", verdict->stale_refused);
    print_oracles(verdict);
    fflush(stdout);
}

/* ===== For programs ===== */

static void write_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            fputc('\\', file);
        }
        fputc((unsigned char)*text < ' ' ? ' ' : *text, file);
    }
    fputc('"', file);
}

static void write_text(FILE *file, const char *name, const char *text)
{
    fprintf(file, "  \"%s\": ", name);
    write_string(file, text);
    fputs(",\n", file);
}

static void write_number(FILE *file, const char *name, uint64_t number)
{
    fprintf(file, "  \"%s\": %" PRIu64 ",\n", name, number);
}

static void write_statuses(FILE *file, const char *name, const uint64_t counts[ARENA_STATUS_MAX])
{
    const char *comma = "";
    fprintf(file, "  \"%s\": {", name);
    for (unsigned i = 0; i < ARENA_STATUS_MAX; i++) {
        if (counts[i] > 0) {
            fprintf(
                file, "%s\"%s\": %" PRIu64, comma, pawl_status_string((pawl_status)i), counts[i]);
            comma = ", ";
        }
    }
    fputs("},\n", file);
}

static void write_faults(FILE *file, const struct campaign *campaign)
{
    const struct fault_kind *kinds = kinds_of(campaign);
    const char *comma = "";
    fputs("  \"faults\": {", file);
    for (size_t i = 0; kinds[i].name != NULL; i++) {
        fprintf(file, "%s\n    \"%s\": %" PRIu64, comma, kinds[i].name, campaign->kind_counts[i]);
        comma = ",";
    }
    fputs("\n  },\n", file);
}

static void write_violations(FILE *file, const struct verdict *verdict)
{
    fputs("  \"violations\": {", file);
    for (unsigned i = 0; i < ORACLE_COUNT; i++) {
        fprintf(file, "%s\"%s%u\": %" PRIu64, i > 0 ? ", " : "", i > 0 ? "O" : "complaints", i,
            verdict->violations[i]);
    }
    fputs("},\n  \"first_violations\": [", file);
    const char *comma = "";
    for (unsigned i = 0; i < ORACLE_COUNT; i++) {
        if (verdict->violations[i] > 0) {
            fputs(comma, file);
            write_string(file, verdict->first[i]);
            comma = ", ";
        }
    }
    fputs("]\n", file);
}

static void write_verdict(FILE *file, const struct verdict *verdict)
{
    write_number(file, "holds", verdict->holds);
    write_number(file, "lost", verdict->lost);
    write_number(file, "reports", verdict->reports);
    write_number(file, "reports_after_release", verdict->reports_after);
    write_number(file, "reports_of_several", verdict->reports_passing);
    write_number(file, "report_late_us_max", (uint64_t)verdict->report_late_us_max);
    write_number(file, "report_late_us_p999", (uint64_t)verdict_report_late_us(verdict, 999));
    write_number(file, "report_late_us_p99", (uint64_t)verdict_report_late_us(verdict, 990));
    write_number(file, "calls_late", verdict->calls_late);
    write_number(file, "call_late_us_max", (uint64_t)verdict->call_late_us_max);
    write_number(file, "taken", verdict->taken);
    write_number(file, "overlaps_expected", verdict->overlaps);
    write_number(file, "overlaps_told", verdict->overlaps_told);
    write_number(file, "overlaps_in_doubt", verdict->overlaps_in_doubt);
    write_number(file, "handovers", verdict->handovers);
    write_number(file, "handovers_skipped", verdict->handovers_skipped);
    write_number(file, "late_stores", verdict->late_stores);
    write_number(file, "register_writes", verdict->writes);
    write_number(file, "stale_writes_refused", verdict->stale_refused);
    write_number(file, "stale_writes_accepted", verdict->violations[4]);
}

void record_write(const struct campaign *campaign)
{
    char path[ARENA_TEXT_SIZE];
    char began[32];
    format_time(campaign->began_s, began);
    snprintf(path, sizeof path, "%s/%s-%" PRIu64 ".json", campaign->directory,
        engine_name(campaign), campaign->seed);
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        printf("  no record: %s: %s\n", path, strerror(errno));
        return;
    }
    fputs("{\n", file);
    write_text(file, "engine", engine_name(campaign));
    write_text(file, "server", campaign->server);
    write_text(file, "commit", campaign->commit);
    write_text(file, "began", began);
    write_text(file, "logs", campaign->kept);
    write_number(file, "seed", campaign->seed);
    write_number(file, "rounds", campaign->rounds);
    write_number(file, "took_ms", (uint64_t)campaign->took_ms);
    write_number(file, "workers", campaign->workers);
    write_number(file, "threads", campaign->threads);
    write_number(file, "names", campaign->names);
    write_number(file, "lease_ms", (uint64_t)campaign->lease_ms);
    write_number(file, "acquisitions", campaign->acquired);
    write_number(file, "of_several", campaign->several);
    write_number(file, "of_quorums", campaign->themed[THEME_QUORUM]);
    write_number(file, "of_permits", campaign->themed[THEME_COUNTS]);
    write_number(file, "permits", campaign->verdict.permits);
    write_number(file, "permits_most_out", campaign->verdict.most_out);
    write_number(file, "permits_replaced", campaign->verdict.replaced);
    write_number(file, "permits_doubted", campaign->verdict.doubted);
    write_number(file, "permits_missing", campaign->verdict.missing);
    write_number(file, "latches_counted", campaign->latches_counted);
    write_number(file, "latches_opened", campaign->latches_opened);
    write_number(file, "latches_checked", campaign->latches_checked);
    write_statuses(file, "acquires", campaign->acquires);
    write_statuses(file, "releases", campaign->releases);
    write_faults(file, campaign);
    write_verdict(file, &campaign->verdict);
    write_violations(file, &campaign->verdict);
    fputs("}\n", file);
    fclose(file);
    printf("  record: %s\n", path);
    fflush(stdout);
}
