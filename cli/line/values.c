/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the values of options; see values.h. */
#include "line/values.h"

#include "line/say.h"
#include "line/suggest.h"
#include "text/duration.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *cli_value_wanted(const struct cli_option *option)
{
    switch (option->type) {
    case CLI_DURATION:
        return "a duration such as 5, 500ms or 1m30s";
    case CLI_NUMBER:
        return "a number";
    case CLI_CHOICE:
        return "one of its words";
    case CLI_TEXT:
    case CLI_FLAG:
        break;
    }
    return "a value";
}

static bool has_range(const struct cli_option *option)
{
    return option->min != 0 || option->max != 0;
}

static int store_duration(const struct cli_option *option, const char *shown, const char *text)
{
    char quoted[CLI_QUOTE_SIZE];
    int64_t ms = 0;
    const char *wrong = cli_duration_parse(text, &ms);
    if (wrong != NULL) {
        return cli_say_usage("%s: '%s' %s", shown, cli_quote(text, quoted), wrong);
    }
    if (has_range(option) && (ms < option->min || ms > option->max)) {
        char least[CLI_DURATION_SIZE];
        char most[CLI_DURATION_SIZE];
        return cli_say_usage("%s: %s is out of range; it must be %s to %s", shown,
            cli_quote(text, quoted), cli_duration_show(option->min, least),
            cli_duration_show(option->max, most));
    }
    *(int64_t *)option->value = ms;
    return CLI_GO_ON;
}

static int store_number(const struct cli_option *option, const char *shown, const char *text)
{
    char quoted[CLI_QUOTE_SIZE];
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    const bool well_formed = strspn(text, "-0123456789") == strlen(text) && *text != '\0';
    const int64_t least = has_range(option) ? option->min : INT64_MIN;
    const int64_t most = has_range(option) ? option->max : INT64_MAX;
    if (!well_formed || *end != '\0') {
        return cli_say_usage("%s: '%s' is no whole number; give one from %" PRId64 " to %" PRId64,
            shown, cli_quote(text, quoted), least, most);
    }
    if (errno != 0 || number < least || number > most) {
        return cli_say_usage("%s: %s is out of range; it must be %" PRId64 " to %" PRId64, shown,
            cli_quote(text, quoted), least, most);
    }
    *(int64_t *)option->value = number;
    return CLI_GO_ON;
}

/* "fair, read or write" */
static void list_choices(const char *const *choices, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; choices[i] != NULL && used < size; i++) {
        const char *link = i == 0 ? "" : choices[i + 1] == NULL ? " or " : ", ";
        int added = snprintf(out + used, size - used, "%s%s", link, choices[i]);
        used += added > 0 ? (size_t)added : 0;
    }
}

/* Is the text "word:" and something, where the choice is "word:N"? Then the something. */
static const char *count_in(const char *choice, const char *text)
{
    const char *colon = strchr(choice, ':');
    const size_t size = colon != NULL ? (size_t)(colon - choice) + 1 : 0;
    return size > 0 && strncmp(choice, text, size) == 0 ? text + size : NULL;
}

static int store_count(
    const struct cli_option *option, int choice, const char *shown, const char *number)
{
    char where[CLI_QUOTE_SIZE];
    const struct cli_option counted = {
        .type = CLI_NUMBER, .value = option->count, .min = option->min, .max = option->max};
    snprintf(where, sizeof where, "%s %s", shown, option->choices[choice]);
    *(int *)option->value = choice;
    return store_number(&counted, where, number);
}

static int store_choice(const struct cli_option *option, const char *shown, const char *text)
{
    struct cli_suggestion suggestion = cli_suggest_for(text, strlen(text));
    const char *nearest = NULL;
    for (int i = 0; option->choices[i] != NULL; i++) {
        const char *number = count_in(option->choices[i], text);
        if (number != NULL) {
            return store_count(option, i, shown, number);
        }
        if (strcmp(option->choices[i], text) == 0) {
            *(int *)option->value = i;
            return CLI_GO_ON;
        }
        if (cli_suggest_offer(&suggestion, option->choices[i])) {
            nearest = option->choices[i];
        }
    }
    char quoted[CLI_QUOTE_SIZE];
    char choices[CLI_QUOTE_SIZE];
    list_choices(option->choices, choices, sizeof choices);
    const bool several = option->choices[1] != NULL;
    return cli_say_usage("%s: '%s' is %s %s%s%s%s", shown, cli_quote(text, quoted),
        several ? "none of" : "not", choices, nearest != NULL ? "; did you mean '" : "",
        nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
}

static int store_text(const struct cli_option *option, const char *shown, char *text)
{
    if (text[0] == '\0') {
        return cli_say_usage("%s: the value is empty; give one, or leave the option out", shown);
    }
    *(char **)option->value = text;
    return CLI_GO_ON;
}

int cli_value_store(const struct cli_option *option, const char *shown, char *text)
{
    switch (option->type) {
    case CLI_DURATION:
        return store_duration(option, shown, text);
    case CLI_NUMBER:
        return store_number(option, shown, text);
    case CLI_CHOICE:
        return store_choice(option, shown, text);
    case CLI_TEXT:
        return store_text(option, shown, text);
    case CLI_FLAG:
        break;
    }
    return CLI_SOFTWARE;
}
