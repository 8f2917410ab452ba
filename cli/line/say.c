/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences on stderr, and the exit status that goes with each answer of the library; see say.h.
 *
 * A sentence is made in a buffer and leaves in one write. Secrets are found by their place in a
 * URL, wherever that URL stands: scheme://user:SECRET@host, and ?password=SECRET. */
#include "line/say.h"

#include "line/secret.h"
#include "text/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SENTENCE_SIZE = 2048 };

static const char *speaker = "pawl";

void cli_say_as(const char *who)
{
    speaker = who;
}

/* ===== Quoting ===== */

/* Where the next hidden part of the text begins and ends; past the end if there is none. */
static struct cli_secret next_secret(
    const char *text, size_t from, enum cli_secret_place place, size_t size)
{
    struct cli_secret secret = cli_secret_find(text, from, place);
    return secret.size > 0 ? secret : (struct cli_secret){size, 0};
}

/* Backslashes stay as they are: what was shown once may be shown again, as a part of a sentence. */
static size_t show(const char *text, enum cli_secret_place place, char *out, size_t size)
{
    const char *const ellipsis = "...";
    const size_t room = size - strlen(ellipsis) - 1;
    const size_t length = strlen(text);
    struct cli_secret secret = next_secret(text, 0, place, length);
    size_t used = 0;
    for (size_t at = 0; at < length;) {
        char shown[CLI_SHOWN_SIZE] = "***";
        if (at == secret.start) {
            at += secret.size;
            secret = next_secret(text, at, place, length);
        } else {
            at += cli_text_show(text + at, secret.start - at, shown);
        }
        if (used + strlen(shown) > room) {
            memcpy(out + used, ellipsis, strlen(ellipsis));
            used += strlen(ellipsis);
            break;
        }
        memcpy(out + used, shown, strlen(shown));
        used += strlen(shown);
    }
    out[used] = '\0';
    return used;
}

const char *cli_quote_into(const char *text, char *out, size_t size)
{
    show(text, CLI_SECRET_IN_ARGUMENT, out, size);
    return out;
}

const char *cli_quote(const char *text, char out[CLI_QUOTE_SIZE])
{
    return cli_quote_into(text, out, CLI_QUOTE_SIZE);
}

/* ===== Sentences ===== */

/* A write that fails cannot be reported anywhere. */
static void write_all(const char *text, size_t size)
{
    while (size > 0) {
        ssize_t written = write(STDERR_FILENO, text, size);
        if (written <= 0) {
            return;
        }
        text += written;
        size -= (size_t)written;
    }
}

static void __attribute__((format(printf, 1, 0)))
say(const char *format, va_list arguments, const char *ending)
{
    char sentence[SENTENCE_SIZE];
    int head = snprintf(sentence, sizeof sentence, "%s: ", speaker);
    size_t used = head > 0 ? (size_t)head : 0;
    vsnprintf(sentence + used, sizeof sentence - used, format, arguments);

    /* The library quotes names and servers, and these may say anything. */
    char line[SENTENCE_SIZE];
    used = show(sentence, CLI_SECRET_IN_SENTENCE, line, sizeof line - strlen(ending));
    memcpy(line + used, ending, strlen(ending));
    write_all(line, used + strlen(ending));
}

void cli_say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments, "\n");
    va_end(arguments);
}

int cli_say_usage(const char *format, ...)
{
    char ending[64];
    snprintf(ending, sizeof ending, " ('%s --help' explains)\n", speaker);
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments, ending);
    va_end(arguments);
    return CLI_USAGE;
}

int cli_exit_of(pawl_status status)
{
    switch (status) {
    case PAWL_OK:
        return CLI_OK;
    case PAWL_BUSY:
    case PAWL_CANCELED:
    case PAWL_DEADLOCK:
        return CLI_BUSY;
    case PAWL_LOST:
    case PAWL_NOT_HELD:
        return CLI_LOST;
    case PAWL_UNAVAILABLE:
    case PAWL_PROTOCOL:
    case PAWL_REFUSED:
        return CLI_UNAVAILABLE;
    case PAWL_DENIED:
        return CLI_DENIED;
    case PAWL_NO_MEMORY:
        return CLI_SYSTEM;
    case PAWL_INVALID:
    case PAWL_UNSUPPORTED:
        return CLI_USAGE;
    case PAWL_MISUSE:
        break;
    }
    return CLI_SOFTWARE;
}

/* The library has one status for every refusal, so its words have to do. What each server of a
 * quorum says is no verdict on the name. */
static bool is_about_data(const char *sentence)
{
    const char *each = strstr(sentence, " servers are needed: ");
    static const char *const words[] = {" is not a lock", " is something else",
        " is not the file of this lock", " is not a plain file", " remove what lies there",
        " keeps the lock of another name", ", its token counter, "};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *found = strstr(sentence, words[i]);
        if (found != NULL && (each == NULL || found < each)) {
            return true;
        }
    }
    return false;
}

int cli_exit_for(pawl_status status, const char *sentence)
{
    return status == PAWL_REFUSED && is_about_data(sentence) ? CLI_DATA : cli_exit_of(status);
}

bool cli_passes(pawl_status status, const char *sentence)
{
    static const char *const words[] = {
        " is still loading its data", " is busy running somebody's script", " (failover)"};
    bool refused_for_now = false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        refused_for_now = refused_for_now || strstr(sentence, words[i]) != NULL;
    }
    return status == PAWL_UNAVAILABLE || (status == PAWL_REFUSED && refused_for_now);
}

int cli_say_failure(pawl_status status)
{
    cli_say("%s", pawl_last_error());
    return cli_exit_for(status, pawl_last_error());
}

int cli_output_end(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return CLI_OK;
    }
    cli_say("writing the result: %s", strerror(errno));
    return CLI_SYSTEM;
}
