/* SPDX-License-Identifier: Apache-2.0 */
/* See terminal.h. */
#include "text/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* A size in the environment; 0: none that makes sense. */
static size_t environment_size(const char *variable)
{
    const char *text = getenv(variable);
    if (text == NULL || text[0] < '1' || text[0] > '9') {
        return 0;
    }
    unsigned long number = strtoul(text, NULL, 10);
    return number > 10000 ? 10000 : number;
}

static size_t first_known(size_t told, size_t environment, size_t otherwise)
{
    if (told > 0) {
        return told;
    }
    return environment > 0 ? environment : otherwise;
}

struct cli_terminal_size cli_terminal_size(int fd)
{
    struct winsize window = {0};
    if (!isatty(fd)) {
        return (struct cli_terminal_size){0, 0};
    }
    if (ioctl(fd, TIOCGWINSZ, &window) != 0) {
        window = (struct winsize){0};
    }
    return (struct cli_terminal_size){
        first_known(window.ws_col, environment_size("COLUMNS"), 80),
        first_known(window.ws_row, environment_size("LINES"), 24),
    };
}

bool cli_terminal_has_colours(int fd)
{
    const char *term = getenv("TERM");
    const char *unwanted = getenv("NO_COLOR");
    return isatty(fd) && (unwanted == NULL || unwanted[0] == '\0') && term != NULL &&
           strcmp(term, "dumb") != 0;
}
