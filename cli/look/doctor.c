/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl doctor`: is this backend fit to keep locks? The library examines it; this prints what it
 * found, with the remedy under everything that is not well, and sums it up in the exit status. The
 * backend is opened lazily and without the guard, so that one that is unfit can be examined at all.
 */
#include "commands.h"
#include "common/backend.h"
#include "line/options.h"
#include "line/say.h"
#include "text/json.h"
#include "text/terminal.h"
#include "text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

static const char help[] =
    "usage: pawl doctor [--strict] [--json]\n"
    "\n"
    "Examine the backend: is it fit to keep locks, and if not, what is to be done?\n"
    "\n"
    "  --strict     warnings count as unfit\n"
    "  --json       one JSON document: {\"verdict\": ..., \"findings\": [...]}\n"
    "  --url URL    what to examine; see pawl --help\n"
    "\n"
    "Exit status 0 if it is fit or there are warnings only, 78 if it is unfit, 69 if nobody "
    "answers.\n";

struct examination {
    bool as_json;
    bool strict; /* warnings count as unfit */
    bool colours;
    size_t columns_max; /* 0: any */
    struct cli_json json;
    size_t counts[3]; /* of findings, by verdict */
};

/* Where sentences begin: "warning  persistence  ". */
enum { VERDICT_COLUMNS = 9, TOPIC_COLUMNS = 13, SENTENCE_AT = VERDICT_COLUMNS + TOPIC_COLUMNS };

static const char *verdict_name(pawl_verdict verdict)
{
    switch (verdict) {
    case PAWL_FIT:
        return "ok";
    case PAWL_WARNING:
        return "warning";
    case PAWL_UNFIT:
        return "unfit";
    }
    return "unknown";
}

static const char *verdict_colour(pawl_verdict verdict)
{
    switch (verdict) {
    case PAWL_FIT:
        return "\x1b[32m";
    case PAWL_WARNING:
        return "\x1b[33m";
    case PAWL_UNFIT:
        return "\x1b[31m";
    }
    return "";
}

/* One line of others' text, made safe. It is broken where the terminal ends, unless it has a
 * command to paste, which would not survive that; the terminal's own line ends do no harm. */
static void add_paragraph(struct cli_text *out, const char *line, size_t size, size_t columns_max)
{
    struct cli_text raw = CLI_TEXT_INIT;
    struct cli_text safe = CLI_TEXT_INIT;
    cli_text_add(&raw, line, size);
    cli_text_add_safe(&safe, cli_text_string(&raw));
    const bool to_paste = strstr(cli_text_string(&raw), "redis-cli ") != NULL;
    if (columns_max > SENTENCE_AT + 20 && !to_paste) {
        cli_text_add_wrapped(out, cli_text_string(&safe), SENTENCE_AT, columns_max);
    } else {
        cli_text_add_string(out, cli_text_string(&safe));
    }
    cli_text_add_string(out, "\n");
    cli_text_free(&raw);
    cli_text_free(&safe);
}

/* A remedy may have several lines. */
static void add_remedy(struct cli_text *out, const char *remedy, size_t columns_max)
{
    while (*remedy != '\0') {
        const size_t size = strcspn(remedy, "\n");
        cli_text_add_spaces(out, SENTENCE_AT);
        add_paragraph(out, remedy, size, columns_max);
        remedy += size;
        remedy += *remedy == '\n';
    }
}

static void print_lines(const struct examination *examination, const pawl_finding *finding)
{
    struct cli_text out = CLI_TEXT_INIT;
    cli_text_print(&out, "%s%-*s%s%-*s",
        examination->colours ? verdict_colour(finding->verdict) : "", VERDICT_COLUMNS,
        verdict_name(finding->verdict), examination->colours ? "\x1b[0m" : "", TOPIC_COLUMNS,
        finding->topic);
    add_paragraph(&out, finding->sentence, strlen(finding->sentence), examination->columns_max);
    add_remedy(&out, finding->remedy, examination->columns_max);
    fputs(cli_text_string(&out), stdout);
    cli_text_free(&out);
    fflush(stdout);
}

static void print_json(struct cli_json *json, const pawl_finding *finding)
{
    cli_json_object(json, NULL);
    cli_json_string(json, "verdict", verdict_name(finding->verdict));
    cli_json_string(json, "topic", finding->topic);
    cli_json_string(json, "sentence", finding->sentence);
    if (finding->remedy[0] != '\0') {
        cli_json_string(json, "remedy", finding->remedy);
    } else {
        cli_json_null(json, "remedy");
    }
    cli_json_object_end(json);
}

static void take_finding(const pawl_finding *finding, void *arg)
{
    struct examination *examination = arg;
    examination->counts[finding->verdict]++;
    if (examination->as_json) {
        print_json(&examination->json, finding);
    } else {
        print_lines(examination, finding);
    }
}

static pawl_verdict worst_of(const struct examination *examination)
{
    if (examination->counts[PAWL_UNFIT] > 0) {
        return PAWL_UNFIT;
    }
    return examination->counts[PAWL_WARNING] > 0 ? PAWL_WARNING : PAWL_FIT;
}

static const char *number_of(size_t count, const char *one, const char *many, char out[64])
{
    snprintf(out, 64, "%zu %s", count, count == 1 ? one : many);
    return out;
}

/* It agrees with the exit status. */
static void print_summary(const struct examination *examination)
{
    char text[64];
    const size_t warnings = examination->counts[PAWL_WARNING];
    const size_t counted = examination->strict ? warnings : 0;
    const size_t unfit = examination->counts[PAWL_UNFIT] + counted;
    if (unfit > 0) {
        printf("\nNot fit to keep locks%s: %s.\n", counted > 0 ? ", as warnings count" : "",
            number_of(unfit, "thing has to be mended", "things have to be mended", text));
    } else if (warnings > 0) {
        printf("\nFit to keep locks, with %s.\n", number_of(warnings, "warning", "warnings", text));
    } else {
        puts("\nFit to keep locks.");
    }
}

static int verdict_exit(const struct examination *examination)
{
    const pawl_verdict least = examination->strict ? PAWL_WARNING : PAWL_UNFIT;
    return worst_of(examination) >= least ? EX_CONFIG : CLI_OK;
}

static pawl_status examine_in_lines(pawl_client *client, struct examination *examination)
{
    pawl_status status = pawl_client_examine(client, take_finding, examination);
    if (status == PAWL_OK) {
        print_summary(examination);
    }
    return status;
}

/* Nothing is printed before the end, so that there is a whole document or none. */
static pawl_status examine_in_json(pawl_client *client, struct examination *examination)
{
    char *document = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&document, &size);
    if (memory == NULL) {
        return PAWL_NO_MEMORY;
    }
    struct cli_json *json = &examination->json;
    cli_json_open(json, memory);
    cli_json_object(json, NULL);
    cli_json_list(json, "findings");
    pawl_status status = pawl_client_examine(client, take_finding, examination);
    cli_json_list_end(json);
    const pawl_verdict worst = worst_of(examination);
    cli_json_string(json, "verdict", worst == PAWL_FIT ? "fit" : verdict_name(worst));
    cli_json_object_end(json);
    cli_json_close(json);
    fclose(memory);
    if (status == PAWL_OK) {
        fwrite(document, 1, size, stdout);
    }
    free(document);
    return status;
}

static int examine(pawl_client *client, struct examination *examination)
{
    pawl_status status = examination->as_json ? examine_in_json(client, examination)
                                              : examine_in_lines(client, examination);
    if (status != PAWL_OK) {
        return cli_say_failure(status);
    }
    const int result = cli_output_end();
    return result != CLI_OK ? result : verdict_exit(examination);
}

/* Whatever the backend is like, opening must not refuse it. */
static int open_unfit(pawl_client **client_out)
{
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    options.guard = PAWL_GUARD_OFF;
    options.lazy = true;
    return cli_backend_open(&options, client_out);
}

int cli_doctor(int argc, char **argv)
{
    struct examination examination = {
        .columns_max = cli_terminal_size(STDOUT_FILENO).columns,
        .colours = cli_terminal_has_colours(STDOUT_FILENO),
    };
    struct cli_option options[] = {
        {.name = "strict", .type = CLI_FLAG, .value = &examination.strict},
        {.name = "json", .type = CLI_FLAG, .value = &examination.as_json},
    };
    const struct cli_syntax syntax = {
        .command = "pawl doctor",
        .help = help,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    };
    struct cli_arguments arguments;
    int result = cli_options_parse(&syntax, argc, argv, &arguments);
    pawl_client *client = NULL;
    if (result == CLI_GO_ON) {
        result = open_unfit(&client);
    }
    if (result == CLI_GO_ON) {
        result = examine(client, &examination);
        pawl_client_close(client);
    }
    return result;
}
