/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of command lines; see options.h. The values themselves are read in values.c.
 *
 * It walks over argv once. Each word is an operand, an option or several letters in one word; an
 * option that wants a value takes the rest of its word or the next one, whatever that looks like.
 * The common options are tried after the command's own ones. */
#include "line/options.h"

#include "line/say.h"
#include "line/secret.h"
#include "line/suggest.h"
#include "line/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *url; /* a copy: the argument is wiped */

static bool help_wanted;
static char *url_argument;

static struct cli_option common[] = {
    {.name = "url", .type = CLI_TEXT, .value = &url_argument},
    {.name = "help", .letter = 'h', .type = CLI_FLAG, .value = &help_wanted},
};

enum { COMMON_COUNT = sizeof common / sizeof common[0] };

struct parser {
    const struct cli_syntax *syntax;
    char **argv;
    int argc;
    int at; /* the word that comes next */
    size_t operand_count;
    struct cli_arguments *arguments;
};

const char *cli_url(void)
{
    return url;
}

void cli_url_forget(void)
{
    if (url != NULL) {
        explicit_bzero(url, strlen(url));
        free(url);
        url = NULL;
    }
}

/* ===== Finding an option ===== */

static bool is_named(const struct cli_option *option, const char *name, size_t size)
{
    return option->name != NULL && strlen(option->name) == size &&
           memcmp(option->name, name, size) == 0;
}

/* The option number i of the command, its own ones first; NULL behind the last. */
static struct cli_option *option_at(const struct cli_syntax *syntax, size_t i)
{
    if (i < syntax->option_count) {
        return &syntax->options[i];
    }
    i -= syntax->option_count;
    return i < COMMON_COUNT ? &common[i] : NULL;
}

static struct cli_option *find_name(const struct cli_syntax *syntax, const char *name, size_t size)
{
    struct cli_option *option = NULL;
    for (size_t i = 0; (option = option_at(syntax, i)) != NULL; i++) {
        if (is_named(option, name, size)) {
            return option;
        }
    }
    return NULL;
}

static struct cli_option *find_letter(const struct cli_syntax *syntax, char letter)
{
    struct cli_option *option = NULL;
    for (size_t i = 0; (option = option_at(syntax, i)) != NULL; i++) {
        if (option->letter == letter) {
            return option;
        }
    }
    return NULL;
}

/* By its name, or by its letter. */
static struct cli_option *find_either(const struct cli_syntax *syntax, const char *name)
{
    struct cli_option *option = find_name(syntax, name, strlen(name));
    return option == NULL && strlen(name) == 1 ? find_letter(syntax, name[0]) : option;
}

bool cli_option_given(const struct cli_syntax *syntax, const char *name)
{
    const struct cli_option *option = find_either(syntax, name);
    return option != NULL && option->given;
}

static int unknown_name(const struct parser *parser, const char *name, size_t size)
{
    const char *nearest = NULL;
    struct cli_option *option = NULL;
    struct cli_suggestion suggestion = cli_suggest_for(name, size);
    for (size_t i = 0; (option = option_at(parser->syntax, i)) != NULL; i++) {
        if (option->name != NULL && cli_suggest_offer(&suggestion, option->name)) {
            nearest = option->name;
        }
    }
    char word[CLI_QUOTE_SIZE];
    char shown[CLI_QUOTE_SIZE];
    snprintf(word, sizeof word, "%.*s", (int)(size < 64 ? size : 64), name);
    cli_quote(word, shown);
    return nearest != NULL
               ? cli_say_usage("unknown option '--%s'; did you mean '--%s'?", shown, nearest)
               : cli_say_usage("unknown option '--%s'", shown);
}

static int unknown_letter(const char *letter)
{
    const char word[2] = {letter[0], '\0'};
    char shown[CLI_QUOTE_SIZE];
    return cli_say_usage("unknown option '-%s'", cli_quote(word, shown));
}

/* ===== One option ===== */

/* As the user wrote it: "--lease" or "-n". */
static const char *spell(const struct cli_option *option, char out[CLI_QUOTE_SIZE])
{
    if (option->name != NULL && !option->by_letter) {
        snprintf(out, CLI_QUOTE_SIZE, "--%s", option->name);
    } else {
        snprintf(out, CLI_QUOTE_SIZE, "-%c", option->letter);
    }
    return out;
}

/* Keep the URL and take its secrets out of the process list. */
static int take_url(char *text)
{
    url = strdup(text);
    if (url == NULL) {
        cli_say("no memory for the URL");
        return CLI_SYSTEM;
    }
    cli_secret_wipe(text);
    return CLI_GO_ON;
}

/* The value: the rest of the word, or the next word; NULL and a sentence if there is none. */
static char *take_value(struct parser *parser, const struct cli_option *option, char *attached)
{
    if (attached != NULL) {
        return attached;
    }
    if (parser->at < parser->argc) {
        return parser->argv[parser->at++];
    }
    char shown[CLI_QUOTE_SIZE];
    cli_say_usage("%s needs %s behind it", spell(option, shown), cli_value_wanted(option));
    return NULL;
}

static int take_option(struct parser *parser, struct cli_option *option, char *attached)
{
    char shown[CLI_QUOTE_SIZE];
    spell(option, shown);
    if (option->type == CLI_FLAG) {
        if (attached != NULL) {
            return cli_say_usage("%s takes no value; write it alone", shown);
        }
        option->given = true;
        *(bool *)option->value = true;
        return CLI_GO_ON;
    }
    char *text = take_value(parser, option, attached);
    if (text == NULL) {
        return CLI_USAGE;
    }
    if (option->value == &url_argument && text[0] == '\0') {
        return cli_say_usage("%s: the value is empty; give one, or leave the option out", shown);
    }
    if (option->given) {
        cli_secret_wipe(text);
        return cli_say_usage("%s is given twice; give it once", shown);
    }
    option->given = true;
    return option->value == &url_argument ? take_url(text) : cli_value_store(option, shown, text);
}

static int take_long(struct parser *parser, char *word)
{
    char *name = word + 2;
    char *equals = strchr(name, '=');
    const size_t size = equals != NULL ? (size_t)(equals - name) : strlen(name);
    struct cli_option *option = find_name(parser->syntax, name, size);
    if (option == NULL) {
        return unknown_name(parser, name, size);
    }
    option->by_letter = false;
    return take_option(parser, option, equals != NULL ? equals + 1 : NULL);
}

/* Flags may share a word; the first option with a value takes what is left of it. */
static int take_letters(struct parser *parser, char *word)
{
    for (char *letter = word + 1; *letter != '\0'; letter++) {
        struct cli_option *option = find_letter(parser->syntax, *letter);
        if (option == NULL) {
            return unknown_letter(letter);
        }
        option->by_letter = true;
        char *rest = letter[1] != '\0' ? letter + 1 : NULL;
        const int result = take_option(parser, option, option->type != CLI_FLAG ? rest : NULL);
        if (result != CLI_GO_ON || option->type != CLI_FLAG) {
            return result;
        }
    }
    return CLI_GO_ON;
}

/* ===== The whole line ===== */

static size_t operand_count_max(const struct cli_syntax *syntax)
{
    size_t count = 0;
    while (count < CLI_OPERANDS_MAX && syntax->operands[count] != NULL) {
        count++;
    }
    return count;
}

static int take_operand(struct parser *parser, char *word)
{
    if (parser->operand_count < operand_count_max(parser->syntax)) {
        parser->arguments->operands[parser->operand_count++] = word;
        return CLI_GO_ON;
    }
    if (parser->syntax->takes_command) {
        parser->at--;
        parser->arguments->command = parser->argv + parser->at;
        return CLI_GO_ON;
    }
    char shown[CLI_QUOTE_SIZE];
    return cli_say_usage(
        "I do not know what to do with '%s'; leave it out", cli_quote(word, shown));
}

/* Behind "--" nothing is an option. A second one may stand between operands and command. */
static int take_rest(struct parser *parser)
{
    int result = CLI_GO_ON;
    while (result == CLI_GO_ON && parser->at < parser->argc && parser->arguments->command == NULL) {
        char *word = parser->argv[parser->at++];
        const bool command_next = parser->syntax->takes_command &&
                                  parser->operand_count == operand_count_max(parser->syntax);
        const bool separator = command_next && strcmp(word, "--") == 0 && parser->at < parser->argc;
        result = take_operand(parser, separator ? parser->argv[parser->at++] : word);
    }
    return result;
}

static int take_word(struct parser *parser)
{
    char *word = parser->argv[parser->at++];
    if (strcmp(word, "--") == 0) {
        return take_rest(parser);
    }
    if (strncmp(word, "--", 2) == 0) {
        return take_long(parser, word);
    }
    return word[0] == '-' && word[1] != '\0' ? take_letters(parser, word)
                                             : take_operand(parser, word);
}

/* What can be said only when everything was read. */
static int check(const struct parser *parser)
{
    const struct cli_syntax *syntax = parser->syntax;
    for (size_t i = 0; i < syntax->option_count; i++) {
        const struct cli_option *option = &syntax->options[i];
        const struct cli_option *other =
            option->excludes != NULL ? find_either(syntax, option->excludes) : NULL;
        if (option->given && other != NULL && other->given) {
            char shown[CLI_QUOTE_SIZE];
            char other_shown[CLI_QUOTE_SIZE];
            return cli_say_usage("%s and %s contradict each other; give one of them",
                spell(option, shown), spell(other, other_shown));
        }
    }
    if (parser->operand_count < syntax->operands_min) {
        return cli_say_usage("%s is missing", syntax->operands[parser->operand_count]);
    }
    return CLI_GO_ON;
}

int cli_options_parse(
    const struct cli_syntax *syntax, int argc, char **argv, struct cli_arguments *arguments_out)
{
    cli_say_as(syntax->command);
    *arguments_out = (struct cli_arguments){{NULL}, NULL};
    struct parser parser = {syntax, argv, argc, 1, 0, arguments_out};
    int result = CLI_GO_ON;
    while (result == CLI_GO_ON && parser.at < argc && arguments_out->command == NULL) {
        result = take_word(&parser);
        if (help_wanted) {
            fputs(syntax->help, stdout);
            return cli_output_end();
        }
    }
    return result == CLI_GO_ON ? check(&parser) : result;
}
