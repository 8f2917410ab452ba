/* SPDX-License-Identifier: Apache-2.0 */
/* What the front says: sentences, and the line that it shows on a terminal while it waits for the
 * lock, written over as things change and taken away when the waiting is over.
 *
 * Nobody may be reading: a full pipe, or ^S on the terminal. Sentences are then kept for later, a
 * few of them, and the line is left as it is. */
#include "line/say.h"
#include "run/front.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS_DEFAULT = 80, LINE_SIZE = 512, ROOM_FOR_KEYS = 4 };

static size_t columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col
                                                                            : COLUMNS_DEFAULT;
}

/* Whether a write would not wait. */
static bool is_read(int wait_ms)
{
    struct pollfd fd = {STDERR_FILENO, POLLOUT, 0};
    return poll(&fd, 1, wait_ms) != 0;
}

static void put(const char *text)
{
    if (is_read(0) && write(STDERR_FILENO, text, strlen(text)) < 0) {
        return; /* nobody to tell */
    }
}

void run_say_unsaid(struct run_front *front, int wait_ms)
{
    int said = 0;
    while (said < front->unsaid_count && is_read(wait_ms)) {
        cli_say("%s", front->unsaid[said++]);
    }
    front->unsaid_count -= said;
    memmove(front->unsaid[0], front->unsaid[said],
        (size_t)front->unsaid_count * sizeof front->unsaid[0]);
}

void run_say(struct run_front *front, const char *format, ...)
{
    if (front->unsaid_count < RUN_UNSAID_MAX) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(front->unsaid[front->unsaid_count++], RUN_SENTENCE_SIZE, format, arguments);
        va_end(arguments);
    }
    run_say_unsaid(front, 0);
}

/* All of it, or without what may be left out, or with its beginning cut: what comes last, when the
 * waiting ends, is what people want to see. */
static void fit(const char *text, char *out, size_t size)
{
    enum { HEAD_MIN = 20 };
    const char *less = strchr(text, RUN_LESS);
    const char *more = less != NULL ? strchr(less + 1, RUN_LESS) : NULL;
    if (more == NULL) {
        cli_quote_into(text, out, size);
        return;
    }
    const char *tail = more + 1;
    const size_t tail_size = strlen(tail);
    const int head_size = (int)(less - text);
    const int middle_size = (int)(more - less - 1);
    if ((size_t)(head_size + middle_size) + tail_size < size) {
        snprintf(out, size, "%.*s%.*s%s", head_size, text, middle_size, less + 1, tail);
        return;
    }
    char head[LINE_SIZE];
    const size_t room = size > tail_size + HEAD_MIN ? size - tail_size : size;
    if ((size_t)head_size < room) {
        snprintf(out, size, "%.*s", head_size, text);
    } else {
        snprintf(head, sizeof head, "%.*s", head_size, text);
        cli_quote_into(head, out, room);
    }
    const size_t used = strlen(out);
    snprintf(out + used, size - used, "%s", tail);
}

/* In the background the terminal belongs to somebody else.
 *
 * Cut to the width of the terminal, with room for the ^C that it echoes: a line that wraps could
 * not be taken back. */
void run_line_show(struct run_front *front, const char *text)
{
    if (tcgetpgrp(STDERR_FILENO) != getpgrp()) {
        return;
    }
    char shown[LINE_SIZE];
    char line[LINE_SIZE + 32];
    const size_t room = columns() - ROOM_FOR_KEYS - strlen("pawl run: ");
    fit(text, shown, room < sizeof shown ? room : sizeof shown);
    snprintf(line, sizeof line, "\r\033[Kpawl run: %s", shown);
    put(line);
    front->line_shown = true;
}

void run_line_clear(struct run_front *front)
{
    if (front->line_shown) {
        put("\r\033[K");
        front->line_shown = false;
    }
}
