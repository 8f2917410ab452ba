/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the command that need no backend: text made safe, measured, cut and wrapped; tables
 * that fit; JSON from any bytes; percentiles; and what `pawl top` makes of listings and events,
 * with times that the test chooses. */
#include "cli/bench/histogram.h"
#include "cli/line/say.h"
#include "cli/line/secret.h"
#include "cli/text/json.h"
#include "cli/text/table.h"
#include "cli/text/text.h"
#include "cli/text/utf8.h"
#include "cli/top/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ===== Text ===== */

static void assert_safe(const char *raw, const char *expected)
{
    struct cli_text text = CLI_TEXT_INIT;
    cli_text_add_safe(&text, raw);
    assert_string_equal(cli_text_string(&text), expected);
    cli_text_free(&text);
}

static void text_is_made_safe(void **state)
{
    (void)state;
    assert_safe("jobs:nightly", "jobs:nightly");
    assert_safe("Grüße 東京 🔒", "Grüße 東京 🔒");
    assert_safe("a\x1b[2Jb", "a\\x1b[2Jb");
    assert_safe("a\nb\tc\rd", "a\\nb\\tc\\rd");
    assert_safe("back\\slash", "back\\\\slash");
    assert_safe("\x7f", "\\x7f");
    assert_safe("\xc2\x9b"
                "31m",
        "\\xc2\\x9b"
        "31m"); /* CSI in one character */
    assert_safe("\x9b"
                "31m",
        "\\x9b"
        "31m"); /* and in one byte */
    assert_safe("\xe2\x80\xae"
                "txt",
        "\\xe2\\x80\\xae"
        "txt"); /* right to left */
    assert_safe("\xff\xfe", "\\xff\\xfe");
    assert_safe("\xc3", "\\xc3");                            /* cut */
    assert_safe("\xc0\xaf", "\\xc0\\xaf");                   /* overlong */
    assert_safe("\xed\xa0\x80", "\\xed\\xa0\\x80");          /* a surrogate */
    assert_safe("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* beyond Unicode */
}

/* Whatever the bytes: printable, valid, and the same again when made safe once more but for
 * backslashes. */
static void no_byte_slips_through(void **state)
{
    (void)state;
    for (unsigned first = 1; first < 256; first++) {
        for (unsigned second = 1; second < 256; second++) {
            const char raw[] = {(char)first, (char)second, 'x', '\0'};
            struct cli_text text = CLI_TEXT_INIT;
            cli_text_add_safe(&text, raw);
            const char *at = cli_text_string(&text);
            while (*at != '\0') {
                uint32_t code = 0;
                const size_t size = cli_utf8_decode(at, strlen(at), &code);
                assert_int_not_equal(size, 0);
                assert_false(cli_utf8_is_harmful(code));
                at += size;
            }
            cli_text_free(&text);
        }
    }
}

/* Marks and controls that turn text around, first and last of each row. */
static void directions_are_shown_not_obeyed(void **state)
{
    (void)state;
    assert_safe("\xe2\x80\x8e", "\\xe2\\x80\\x8e");
    assert_safe("\xe2\x80\x8f", "\\xe2\\x80\\x8f");
    assert_safe("\xe2\x80\xaa", "\\xe2\\x80\\xaa");
    assert_safe("\xe2\x80\xae", "\\xe2\\x80\\xae");
    assert_safe("\xe2\x81\xa6", "\\xe2\\x81\\xa6");
    assert_safe("\xe2\x81\xa9", "\\xe2\\x81\\xa9");
}

static void assert_quoted(const char *raw, const char *expected)
{
    char shown[CLI_QUOTE_SIZE];
    char again[CLI_QUOTE_SIZE];
    assert_string_equal(cli_quote(raw, shown), expected);
    assert_string_equal(cli_quote(shown, again), expected);
}

static void quotes_are_as_safe(void **state)
{
    (void)state;
    assert_quoted("Grüße 東京", "Grüße 東京");
    assert_quoted("a\x1b[2J\nb\\", "a\\x1b[2J\\nb\\");
    assert_quoted("\xc2\x9b"
                  "31m \x9b"
                  "31m",
        "\\xc2\\x9b"
        "31m \\x9b"
        "31m");
    assert_quoted("\xe2\x80\xae"
                  "txt",
        "\\xe2\\x80\\xae"
        "txt");
    assert_quoted("redis://u:\xe2\x80\xae@h", "redis://u:***@h");
    char shown[12];
    assert_string_equal(cli_quote_into("12345678", shown, sizeof shown), "12345678");
    assert_string_equal(cli_quote_into("123456789", shown, sizeof shown), "12345678...");
    assert_string_equal(cli_quote_into("123456ü9", shown, sizeof shown), "123456ü...");
    assert_string_equal(cli_quote_into("1234567ü9", shown, sizeof shown), "1234567...");
}

/* ===== Secrets ===== */

static void assert_wiped(const char *raw, const char *expected)
{
    char argument[128] = {0};
    snprintf(argument, sizeof argument, "%s", raw);
    cli_secret_wipe(argument);
    assert_string_equal(argument, expected);
    for (size_t i = strlen(argument); i < sizeof argument; i++) {
        assert_int_equal(argument[i], '\0');
    }
}

static void secrets_are_wiped(void **state)
{
    (void)state;
    assert_wiped("redis://db7/2?timeout=1s", "redis://db7/2?timeout=1s");
    assert_wiped("redis://u@db7:6379/2", "redis://u@db7:6379/2");
    assert_wiped("redis://u:secret@db7", "redis://u:***@db7");
    assert_wiped("redis://:s@db7", "redis://:*@db7");
    assert_wiped("redis://u:two words@db7", "redis://u:***@db7");
    assert_wiped("redis://u:a@b\tc/d?e@db7", "redis://u:***@db7");
    assert_wiped(
        "redis://db7?password=two words&timeout=1s", "redis://db7?password=***&timeout=1s");
    assert_wiped("redis://db7?password=&password=secret", "redis://db7?password=&password=***");
    assert_wiped("file:///dir,redis://u:secret@db7", "file:///dir,redis:***@db7");
}

/* The part of a sentence that is hidden. */
static void assert_found(const char *sentence, const char *expected)
{
    const struct cli_secret secret = cli_secret_find(sentence, 0, CLI_SECRET_IN_SENTENCE);
    assert_int_equal(secret.size, strlen(expected));
    assert_memory_equal(sentence + (secret.size > 0 ? secret.start : 0), expected, secret.size);
}

static void secrets_are_found_in_sentences(void **state)
{
    (void)state;
    assert_found("redis://h:6379: add +@all", "");
    assert_found("no redis://u:secret@h here", "secret");
    assert_found("file:///dir is not redis://u:secret@h", "secret");
    assert_found("not password=secret but", "secret");
}

/* What one server of several says of the name does not make the whole a matter of data. */
static void refusals_are_told_apart(void **state)
{
    (void)state;
    assert_int_equal(cli_exit_for(PAWL_REFUSED, "lock 'a': the key exists and is not a lock of "
                                                "this kind; refused by a, b, and 2 of 3 servers "
                                                "are needed"),
        CLI_DATA);
    assert_int_equal(cli_exit_for(PAWL_REFUSED, "lock 'a': no majority grants it; 2 of 3 servers "
                                                "are needed: redis://a: the key exists and is not "
                                                "a lock of this kind; redis://b: has restarted"),
        CLI_UNAVAILABLE);
    assert_int_equal(cli_exit_for(PAWL_BUSY, "'a' is not a lock"), CLI_BUSY);
    assert_true(cli_passes(PAWL_UNAVAILABLE, "h:1: cannot connect"));
    assert_true(cli_passes(PAWL_REFUSED, "h:1: the server is handing over to another one "
                                         "(failover); try again after it"));
    assert_false(cli_passes(PAWL_REFUSED, "h:1: the server is a replica and no place for a lock"));
    assert_false(cli_passes(PAWL_DENIED, "h:1: the server wants a password"));
}

static void columns_are_counted(void **state)
{
    (void)state;
    assert_int_equal(cli_text_columns(""), 0);
    assert_int_equal(cli_text_columns("abc"), 3);
    assert_int_equal(cli_text_columns("Grüße"), 5);
    assert_int_equal(cli_text_columns("東京"), 4);
    assert_int_equal(cli_text_columns("e\xcc\x81"), 1); /* an accent of its own */
}

static void assert_cut(const char *string, size_t columns, const char *expected)
{
    struct cli_text text = CLI_TEXT_INIT;
    cli_text_add_cut(&text, string, columns);
    assert_string_equal(cli_text_string(&text), expected);
    cli_text_free(&text);
}

static void text_is_cut_between_characters(void **state)
{
    (void)state;
    assert_cut("abcdef", 6, "abcdef");
    assert_cut("abcdef", 5, "ab...");
    assert_cut("abcdef", 2, "..");
    assert_cut("東京東京", 8, "東京東京");
    assert_cut("東京東京", 7, "東京...");
    assert_cut("東京東京", 6, "東...");
    assert_cut("Grüße", 4, "G...");
}

static void text_is_wrapped_at_spaces(void **state)
{
    (void)state;
    struct cli_text text = CLI_TEXT_INIT;
    cli_text_add_string(&text, "ab");
    cli_text_add_wrapped(&text, "one two three extraordinarily four", 2, 12);
    assert_string_equal(cli_text_string(&text), "abone two\n  three\n  extraordinarily\n  four");
    cli_text_free(&text);
}

static void durations_have_two_units(void **state)
{
    (void)state;
    const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "0.00s"},
        {1234, "1.23s"},
        {9994, "9.99s"},
        {9996, "10.0s"},
        {59940, "59.9s"},
        {59960, "1m00s"},
        {60000, "1m00s"},
        {3599499, "59m59s"},
        {3600000, "1h00m"},
        {86400000, "1d0h"},
        {INT64_C(100) * 86400000, "100d0h"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cli_text text = CLI_TEXT_INIT;
        cli_text_add_duration(&text, cases[i].ms);
        assert_string_equal(cli_text_string(&text), cases[i].text);
        cli_text_free(&text);
    }
}

/* ===== Tables ===== */

static const struct cli_table_column columns[] = {
    {.title = "NAME", .columns_good = 10, .columns_min = 5},
    {.title = "N", .right = true, .expendable = 1},
    {.title = "LAST", .expendable = 2},
};

static void fill(struct cli_table *table)
{
    cli_table_open(table, columns, 3);
    cli_table_add_safe(table, "a-rather-long-name");
    cli_table_print(table, "%d", 7);
    cli_table_add(table, "last");
    cli_table_add_safe(table, "東京");
    cli_table_print(table, "%d", 4711);
    cli_table_add(table, "");
}

static void assert_table(size_t columns_max, const char *expected)
{
    struct cli_table table;
    struct cli_text text = CLI_TEXT_INIT;
    fill(&table);
    cli_table_render(&table, &(struct cli_table_limits){.columns_max = columns_max}, &text);
    assert_string_equal(cli_text_string(&text), expected);
    cli_text_free(&text);
    cli_table_close(&table);
}

static void a_table_fits(void **state)
{
    (void)state;
    assert_table(0, "NAME                   N  LAST\n"
                    "a-rather-long-name     7  last\n"
                    "東京                4711\n");
    assert_table(30, "NAME                   N  LAST\n"
                     "a-rather-long-name     7  last\n"
                     "東京                4711\n");
    assert_table(22, "NAME           N  LAST\n"
                     "a-rathe...     7  last\n"
                     "東京        4711\n");
    assert_table(20, "NAME               N\n"
                     "a-rather-lo...     7\n"
                     "東京            4711\n");
    assert_table(8, "NAME\n"
                    "a-rat...\n"
                    "東京\n");
    assert_table(3, "...\n"
                    "...\n"
                    "...\n");
}

/* Every width: no line is wider, and every row is there. */
static void no_line_is_too_wide(void **state)
{
    (void)state;
    for (size_t width = 1; width < 60; width++) {
        struct cli_table table;
        struct cli_text text = CLI_TEXT_INIT;
        fill(&table);
        cli_table_render(&table, &(struct cli_table_limits){.columns_max = width}, &text);
        char *rest = NULL;
        size_t lines = 0;
        for (char *line = strtok_r(text.bytes, "\n", &rest); line != NULL;
             line = strtok_r(NULL, "\n", &rest)) {
            assert_true(cli_text_columns(line) <= width);
            lines++;
        }
        assert_int_equal(lines, 3);
        cli_text_free(&text);
        cli_table_close(&table);
    }
}

/* ===== JSON ===== */

static void assert_json(const char *raw, const char *expected)
{
    char *document = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&document, &size);
    assert_non_null(memory);
    struct cli_json json;
    cli_json_open(&json, memory);
    cli_json_object(&json, NULL);
    cli_json_bytes(&json, "k", raw);
    cli_json_token(&json, "t", UINT64_MAX);
    cli_json_object_end(&json);
    cli_json_close(&json);
    fclose(memory);
    assert_string_equal(document, expected);
    free(document);
}

#define TOKEN "\"t\": \"18446744073709551615\""

static void json_takes_any_bytes(void **state)
{
    (void)state;
    assert_json("plain", "{\"k\": \"plain\", " TOKEN "}\n");
    assert_json("a\"b\\c\n\x1b", "{\"k\": \"a\\\"b\\\\c\\u000a\\u001b\", " TOKEN "}\n");
    assert_json("é東", "{\"k\": \"é東\", " TOKEN "}\n");
    assert_json("\xc2\x9b", "{\"k\": \"\\u009b\", " TOKEN "}\n");
    assert_json("a\xff", "{\"k\": \"a\xef\xbf\xbd\", \"k_hex\": \"61ff\", " TOKEN "}\n");
    assert_json("\xf3\xa0\x80\x81", "{\"k\": \"\\udb40\\udc01\", " TOKEN "}\n");
}

/* ===== Percentiles ===== */

static void percentiles_are_near(void **state)
{
    (void)state;
    static struct cli_histogram histogram;
    assert_int_equal(cli_histogram_at(&histogram, 0.5), 0);
    for (int64_t ns = 1; ns <= 1000000; ns++) {
        cli_histogram_add(&histogram, ns);
    }
    const double shares[] = {0.01, 0.5, 0.9, 0.99, 1};
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        const double exact = shares[i] * 1e6;
        const double found = (double)cli_histogram_at(&histogram, shares[i]);
        assert_true(found >= exact * 0.999 && found <= exact * 1.04);
    }
    cli_histogram_add(&histogram, INT64_MAX); /* nothing is too long */
    cli_histogram_add(&histogram, -1);
    assert_true(cli_histogram_at(&histogram, 1) > 1000000);
}

/* ===== What top makes of it ===== */

static pawl_entry entry_of(const char *name, const char *holder, int64_t waiters)
{
    pawl_entry entry = {.size = sizeof entry, .held = true, .since_ms = -1, .waiters = waiters};
    snprintf(entry.name, sizeof entry.name, "%s", name);
    snprintf(entry.holder, sizeof entry.holder, "%s", holder);
    return entry;
}

static void list_one(struct top_model *model, const pawl_entry *entry, int64_t begun_ms)
{
    top_model_list_begin(model, begun_ms);
    if (entry != NULL) {
        top_model_list_entry(model, entry, begun_ms + 1);
    }
    top_model_list_end(model, begun_ms + 2);
}

static void tell(
    struct top_model *model, pawl_change change, const pawl_entry *entry, int64_t now_ms)
{
    const pawl_watch_event event = {.size = sizeof event, .change = change, .entry = *entry};
    top_model_event(model, &event, now_ms);
}

static void holds_are_measured_if_both_ends_were_seen(void **state)
{
    (void)state;
    struct top_model model;
    const pawl_entry a = entry_of("jobs", "a:1", -1);
    top_model_open(&model, 1000);
    list_one(&model, &a, 2000);
    assert_int_equal(model.locks[0]->holders, 1);
    assert_true(model.locks[0]->held_before);
    tell(&model, PAWL_RELEASED, &a, 3000);
    assert_int_equal(model.locks[0]->holders, 0);
    assert_int_equal(top_lock_mean_hold_ms(model.locks[0]), -1);

    tell(&model, PAWL_ACQUIRED, &a, 4000);
    tell(&model, PAWL_RELEASED, &a, 4100);
    tell(&model, PAWL_ACQUIRED, &a, 5000);
    tell(&model, PAWL_EXPIRED, &a, 5300);
    assert_int_equal(top_lock_mean_hold_ms(model.locks[0]), 200);
    assert_int_equal(top_model_totals(&model, 5300).expired, 1);
    assert_int_equal(top_model_totals(&model, 5300).held, 0);
    top_model_close(&model);
}

/* From the first that comes until the last has gone it is held. */
static void readers_hold_together(void **state)
{
    (void)state;
    struct top_model model;
    pawl_entry a = entry_of("doc", "a:1", -1);
    pawl_entry b = entry_of("doc", "b:1", -1);
    a.kind = b.kind = PAWL_READ;
    top_model_open(&model, 0);
    tell(&model, PAWL_ACQUIRED, &a, 1000);
    tell(&model, PAWL_ACQUIRED, &b, 1100);
    assert_int_equal(model.locks[0]->holders, 2);
    tell(&model, PAWL_RELEASED, &a, 1200);
    assert_int_equal(model.locks[0]->holders, 1);
    list_one(&model, &b, 1300);
    tell(&model, PAWL_RELEASED, &b, 1500);
    assert_int_equal(model.locks[0]->holders, 0);
    assert_int_equal(top_lock_mean_hold_ms(model.locks[0]), 500);
    top_model_close(&model);
}

static void a_listing_does_not_undo_a_younger_event(void **state)
{
    (void)state;
    struct top_model model;
    const pawl_entry a = entry_of("jobs", "a:1", 0);
    top_model_open(&model, 0);
    list_one(&model, &a, 1000);
    top_model_list_begin(&model, 2000);
    tell(&model, PAWL_RELEASED, &a, 2001);
    top_model_list_entry(&model, &a, 2002); /* read before it was released */
    top_model_list_end(&model, 2003);
    assert_int_equal(model.locks[0]->holders, 0);

    top_model_list_begin(&model, 3000);
    tell(&model, PAWL_ACQUIRED, &a, 3001); /* after its page was read */
    top_model_list_end(&model, 3003);
    assert_int_equal(model.locks[0]->holders, 1);

    list_one(&model, NULL, 4000); /* now it is known to be gone */
    assert_int_equal(model.locks[0]->holders, 0);
    top_model_close(&model);
}

static void waits_are_reckoned_from_waiters_and_rate(void **state)
{
    (void)state;
    struct top_model model;
    const pawl_entry a = entry_of("jobs", "a:1", 3);
    top_model_open(&model, 0);
    list_one(&model, &a, 1000); /* three wait from 1001 on */
    tell(&model, PAWL_RELEASED, &a, 1101);
    tell(&model, PAWL_ACQUIRED, &a, 1101);
    assert_int_equal(top_lock_mean_wait_ms(model.locks[0]), 300);
    top_model_close(&model);
}

static void rates_are_of_the_last_seconds(void **state)
{
    (void)state;
    struct top_model model;
    const pawl_entry a = entry_of("jobs", "a:1", 0);
    top_model_open(&model, 0);
    for (int64_t ms = 0; ms < 100000; ms += 100) {
        tell(&model, PAWL_ACQUIRED, &a, ms);
        tell(&model, PAWL_RELEASED, &a, ms + 50);
    }
    const double rate = top_model_totals(&model, 100000).acquired_rate;
    assert_true(rate > 9 && rate < 11);
    assert_true(top_model_totals(&model, 200000).acquired_rate == 0);
    top_model_close(&model);
}

static void names_are_found_and_forgotten(void **state)
{
    (void)state;
    struct top_model model;
    top_model_open(&model, 0);
    for (unsigned i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i * 7919 % 1000);
        const pawl_entry entry = entry_of(name, "a:1", 0);
        tell(&model, PAWL_ACQUIRED, &entry, 10);
        tell(&model, PAWL_RELEASED, &entry, 20);
    }
    assert_int_equal(model.count, 1000);
    for (size_t i = 1; i < model.count; i++) {
        assert_true(strcmp(model.locks[i - 1]->hold.name, model.locks[i]->hold.name) < 0);
    }
    list_one(&model, NULL, 100000);
    assert_int_equal(model.count, 0);
    top_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_made_safe),
        cmocka_unit_test(no_byte_slips_through),
        cmocka_unit_test(directions_are_shown_not_obeyed),
        cmocka_unit_test(quotes_are_as_safe),
        cmocka_unit_test(secrets_are_wiped),
        cmocka_unit_test(secrets_are_found_in_sentences),
        cmocka_unit_test(refusals_are_told_apart),
        cmocka_unit_test(columns_are_counted),
        cmocka_unit_test(text_is_cut_between_characters),
        cmocka_unit_test(text_is_wrapped_at_spaces),
        cmocka_unit_test(durations_have_two_units),
        cmocka_unit_test(a_table_fits),
        cmocka_unit_test(no_line_is_too_wide),
        cmocka_unit_test(json_takes_any_bytes),
        cmocka_unit_test(percentiles_are_near),
        cmocka_unit_test(holds_are_measured_if_both_ends_were_seen),
        cmocka_unit_test(readers_hold_together),
        cmocka_unit_test(a_listing_does_not_undo_a_younger_event),
        cmocka_unit_test(waits_are_reckoned_from_waiters_and_rate),
        cmocka_unit_test(rates_are_of_the_last_seconds),
        cmocka_unit_test(names_are_found_and_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
