/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences on stderr: see say.h. */
#include "common/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_SIZE = 1024 };

static const char *speaker = "flashsale";

void say_as(const char *who)
{
    speaker = who;
}

static void __attribute__((format(printf, 2, 0)))
say_line(const char *end, const char *format, va_list arguments)
{
    char sentence[LINE_SIZE];
    vsnprintf(sentence, sizeof sentence, format, arguments);
    char line[LINE_SIZE + 128];
    const int length = snprintf(line, sizeof line, "%s: %s%s\n", speaker, sentence, end);
    const size_t size = (size_t)length < sizeof line ? (size_t)length : sizeof line - 1;
    /* Nobody can be told that nobody can be told. */
    const ssize_t written = write(STDERR_FILENO, line, size);
    (void)written;
}

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_line("", format, arguments);
    va_end(arguments);
}

int say_usage(const char *format, ...)
{
    char end[160];
    snprintf(end, sizeof end, "; see `%s --help`", speaker);
    va_list arguments;
    va_start(arguments, format);
    say_line(end, format, arguments);
    va_end(arguments);
    return EXIT_USAGE;
}
