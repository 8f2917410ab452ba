/* SPDX-License-Identifier: Apache-2.0 */
/* The line that the front shows on a terminal while it waits for the lock, written over as things
 * change and taken away when the waiting is over. */
#include "run_front.h"
#include "say.h"

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

static void put(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0) {
        return; /* nobody to tell */
    }
}

/* Cut to the width of the terminal, with room for the ^C that it echoes: a line that wraps could
 * not be taken back. */
void run_line_show(struct run_front *front, const char *text)
{
    char shown[LINE_SIZE];
    char line[LINE_SIZE + 32];
    const size_t room = columns() - ROOM_FOR_KEYS - strlen("pawl run: ");
    cli_quote_into(text, shown, room < sizeof shown ? room : sizeof shown);
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
