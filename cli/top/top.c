/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl top`: a live view of all locks. On a terminal it is a screen with keys (screen.h),
 * elsewhere one picture after the other. What is shown is view.h, what is known model.h,
 * where it comes from observe.h. */
#include "commands.h"
#include "common/backend.h"
#include "line/options.h"
#include "line/say.h"
#include "text/terminal.h"
#include "top/model.h"
#include "top/observe.h"
#include "top/screen.h"
#include "top/view.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: pawl top [--every TIME] [--count N] [--sort ORDER] [PATTERN]\n"
    "\n"
    "A live view of the locks: who holds them and for how long, who waits, how often they change.\n"
    "\n"
    "  --every TIME  how often to look: 200ms to 1h, default 1s\n"
    "  --count N     end after so many pictures\n"
    "  --sort ORDER  waiters (default), held, rate or name\n"
    "  --url URL     where the locks are; see pawl --help\n"
    "\n"
    "Keys: q ends, p pauses, s changes the order. Without a terminal it prints one picture after "
    "the\n"
    "other.\n"
    "\n"
    "HELD: so far; '>': or longer. RATE/s: acquisitions, over the last 30 seconds.\n"
    "~HOLD, ~WAIT: means since top began, the wait reckoned from waiters and rate.\n";

static const char *const orders[] = {"waiters", "held", "rate", "name", NULL};

struct top {
    struct top_view view;
    struct top_model model;
    struct top_observer observer;
    int64_t left; /* pictures still to show */
};

/* Whether the backend refuses to list its locks at all. */
static bool is_refused(struct top *top)
{
    return atomic_load(&top->observer.refusal) != PAWL_OK;
}

static int say_refusal(struct top *top)
{
    cli_say("%s", top->observer.refusal_sentence);
    return cli_exit_of((pawl_status)atomic_load(&top->observer.refusal));
}

/* ===== On a terminal ===== */

/* Leave out what a very small terminal has no line for. */
static void cut_lines(char *lines, size_t rows_max)
{
    for (char *end = strchr(lines, '\n'); end != NULL; end = strchr(end + 1, '\n')) {
        rows_max--;
        if (rows_max == 0) {
            *end = '\0';
            return;
        }
    }
}

static void draw(struct top *top)
{
    const struct cli_terminal_size size = cli_terminal_size(STDOUT_FILENO);
    top->view.columns_max = size.columns;
    top->view.rows_max = size.rows;
    struct cli_text picture = CLI_TEXT_INIT;
    top_view_render(&top->view, &top->model, cli_now_ms(), &picture);
    cut_lines(picture.bytes, size.rows);
    cli_screen_draw(cli_text_string(&picture));
    cli_text_free(&picture);
}

/* False: the end. */
static bool obey(struct top *top, char key)
{
    switch (key) {
    case 'q':
    case 'Q':
        return false;
    case 'p':
    case 'P':
    case ' ':
        top->view.paused = !top->view.paused;
        break;
    case 's':
    case 'S':
        top->view.order = (top->view.order + 1) % TOP_ORDER_COUNT;
        break;
    default:
        break;
    }
    return true;
}

/* Wait for what comes first: a key, a signal, or the time for the next picture. False: the end. */
static bool wait_for_next(struct top *top, int64_t next_ms)
{
    for (;;) {
        const int64_t left_ms = next_ms - cli_now_ms();
        if (left_ms <= 0 && !top->view.paused) {
            return true;
        }
        const struct cli_screen_event event =
            cli_screen_wait(top->view.paused ? top->view.every_ms : left_ms);
        switch (event.kind) {
        case CLI_SCREEN_KEY:
            if (!obey(top, event.key)) {
                return false;
            }
            draw(top);
            break;
        case CLI_SCREEN_REDRAW:
            draw(top);
            break;
        case CLI_SCREEN_END:
            cli_screen_die_of(event.signal);
        case CLI_SCREEN_NOTHING:
            break;
        }
    }
}

enum { FIRST_PICTURES_MS = 100 };

static int run_live(struct top *top)
{
    if (!cli_screen_open()) {
        cli_say("taking the terminal: %s", strerror(errno));
        return CLI_SYSTEM;
    }
    top->view.live = true;
    top->view.bold = cli_terminal_has_colours(STDOUT_FILENO);
    bool go_on = true;
    while (go_on && top->left > 0 && !is_refused(top)) {
        /* Until the first listing is there, the picture comes more often: it shows that we are at
         * it. A listing that comes while we draw is not on this picture. */
        const bool counts = top_model_listings(&top->model) > 0;
        draw(top);
        top->left -= counts;
        go_on =
            wait_for_next(top, cli_now_ms() + (counts ? top->view.every_ms : FIRST_PICTURES_MS));
    }
    cli_screen_close();
    return CLI_OK;
}

/* ===== Elsewhere ===== */

/* Nothing is known before the first listing; trouble is shown at once. */
static void await_first_listing(struct top *top)
{
    while (
        top_model_listings(&top->model) == 0 && !top_model_in_trouble(&top->model, TOP_LISTINGS)) {
        poll(NULL, 0, 10);
    }
}

static int run_plain(struct top *top)
{
    await_first_listing(top);
    int result = CLI_OK;
    bool first = true;
    for (; result == CLI_OK && top->left > 0 && !is_refused(top); first = false, top->left--) {
        if (!first) {
            poll(NULL, 0, (int)top->view.every_ms);
        }
        struct cli_text picture = CLI_TEXT_INIT;
        top->view.columns_max = cli_terminal_size(STDOUT_FILENO).columns;
        top_view_render(&top->view, &top->model, cli_now_ms(), &picture);
        printf("%s%s", first ? "" : "\n", cli_text_string(&picture));
        cli_text_free(&picture);
        result = cli_output_end();
    }
    return result;
}

/* ===== The command ===== */

static int observe(struct top *top, pawl_client *client, const char *pattern)
{
    top_model_open(&top->model, cli_now_ms());
    top->observer.client = client;
    top->observer.model = &top->model;
    top->observer.pattern = pattern;
    top->observer.every_ms = top->view.every_ms;
    int result = CLI_SYSTEM;
    if (!top_observer_begin(&top->observer)) {
        cli_say("no thread can be started: %s", strerror(errno));
    } else {
        result = cli_screen_possible() ? run_live(top) : run_plain(top);
    }
    if (result == CLI_OK && is_refused(top)) {
        result = say_refusal(top);
    }
    if (!top_observer_end(&top->observer)) {
        _exit(result); /* a server that does not answer must not keep anybody from leaving */
    }
    top_model_close(&top->model);
    return result;
}

int cli_top(int argc, char **argv)
{
    static struct top top = {.view = {.every_ms = 1000}, .left = INT64_MAX};
    int order = TOP_BY_WAITERS;
    struct cli_option options[] = {
        {.name = "every",
            .type = CLI_DURATION,
            .value = &top.view.every_ms,
            .min = 200,
            .max = 3600 * 1000},
        {.name = "count", .type = CLI_NUMBER, .value = &top.left, .min = 1, .max = INT32_MAX},
        {.name = "sort", .type = CLI_CHOICE, .value = &order, .choices = orders},
    };
    const struct cli_syntax syntax = {
        .command = "pawl top",
        .help = help,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .operands = {"PATTERN"},
    };
    struct cli_arguments arguments;
    static char title[CLI_BACKEND_TITLE_SIZE]; /* as long as `top` is there */
    int result = cli_options_parse(&syntax, argc, argv, &arguments);
    if (result == CLI_GO_ON) {
        result = cli_check_pattern(arguments.operands[0]);
    }
    pawl_client *client = NULL;
    if (result == CLI_GO_ON) {
        cli_backend_title(title);
        top.view.title = title;
        top.view.order = (enum top_order)order;
        if (cli_screen_possible()) {
            cli_screen_block_signals();
        }
        result = cli_backend_open_to_look(&client);
    }
    if (result == CLI_GO_ON) {
        result = observe(&top, client, arguments.operands[0]);
        pawl_client_close(client);
    }
    return result;
}
