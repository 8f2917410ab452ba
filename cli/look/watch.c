/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl watch`: a line for everything that happens to locks. What the backend does not tell is
 * found by looking, and the first line (on stderr, so that what is piped stays clean) says which is
 * which. ^C ends it as it ends every program: no handler, nothing to undo. */
#include "commands.h"
#include "common/backend.h"
#include "common/holds.h"
#include "line/options.h"
#include "line/say.h"
#include "text/duration.h"
#include "text/terminal.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The library rides out an outage within one wait; a short one lets us tell of it. */
enum { LOOK_MS_DEFAULT = 1000, PATIENCE_MS = 2000, RETRY_MS = 500 };

static const char help[] =
    "usage: pawl watch [--every TIME] [--for TIME] [--count N] [--json] [NAME|PATTERN]\n"
    "\n"
    "Print a line whenever a lock is acquired, released or expires, until ^C.\n"
    "\n"
    "  --every TIME  how often to look for what no message tells: 100ms to 1h, default 1s\n"
    "  --for TIME    end after this time\n"
    "  --count N     end after so many lines\n"
    "  --json        one JSON object per line\n"
    "  --url URL     where the locks are; see pawl --help\n"
    "\n"
    "'=' in a line: told at that moment; '~': found by looking, so it happened a little earlier, "
    "and\n"
    "shorter holds may have been missed.\n";

struct watching {
    pawl_watch *watch;
    int64_t every_ms;
    int64_t end_ms; /* INT64_MAX: never */
    int64_t left;   /* lines still to print */
    bool as_json;
    bool failing; /* it has been said that nobody answers */
};

static const char *change_name(pawl_change change)
{
    switch (change) {
    case PAWL_ACQUIRED:
        return "acquired";
    case PAWL_RELEASED:
        return "released";
    case PAWL_EXPIRED:
        return "expired";
    }
    return "changed";
}

static void print_line(const pawl_watch_event *event, const struct cli_hold *hold)
{
    char time[CLI_TIME_SIZE];
    cli_time_of_day(time, false);
    struct cli_text line = CLI_TEXT_INIT;
    cli_text_print(
        &line, "%s  %-8s %c  ", time, change_name(event->change), event->exact ? '=' : '~');
    cli_text_add_safe(&line, hold->name);
    if (hold->holder[0] != '\0' || hold->host[0] != '\0') {
        cli_text_add_string(&line, "  ");
        cli_hold_add_who(hold, &line);
    }
    if (hold->kind != PAWL_MUTEX) {
        cli_text_print(&line, "  %s", cli_kind_name(hold->kind));
    }
    if (hold->token != 0) {
        cli_text_print(&line, "  token %" PRIu64, hold->token);
    }
    const size_t columns_max = cli_terminal_size(STDOUT_FILENO).columns;
    if (columns_max > 0) {
        struct cli_text cut = CLI_TEXT_INIT;
        cli_text_add_cut(&cut, cli_text_string(&line), columns_max);
        cli_text_free(&line);
        line = cut;
    }
    puts(cli_text_string(&line));
    cli_text_free(&line);
}

static void print_json(const pawl_watch_event *event, const struct cli_hold *hold)
{
    char time[CLI_TIME_SIZE];
    cli_time_of_day(time, true);
    struct cli_json json;
    cli_json_open(&json, stdout);
    cli_json_object(&json, NULL);
    cli_json_string(&json, "time", time);
    cli_json_string(&json, "change", change_name(event->change));
    cli_json_bool(&json, "exact", event->exact);
    cli_hold_json(&json, "lock", hold);
    cli_json_object_end(&json);
    cli_json_close(&json);
}

static int print_event(struct watching *watching, const pawl_watch_event *event)
{
    struct cli_hold hold = cli_hold_from(&event->entry);
    if (hold.holder[0] == '\0') {
        hold.permits = CLI_PERMITS_UNKNOWN; /* nothing but a message tells of it */
    }
    if (hold.kind == PAWL_READ) {
        hold.token = 0; /* the name's last, which may be another reader's */
    }
    if (watching->as_json) {
        print_json(event, &hold);
    } else {
        print_line(event, &hold);
    }
    cli_hold_free(&hold);
    watching->left--;
    return cli_output_end();
}

static void say_what_is_exact(const struct watching *watching)
{
    char every[CLI_DURATION_SIZE];
    cli_duration_show(watching->every_ms, every);
    if (pawl_watch_exact(watching->watch)) {
        cli_say("changes are told by the backend (=); plain locks, and permits and readers whose "
                "lease ends, are found by looking every %s (~)",
            every);
    } else if (!pawl_watch_hears_releases(watching->watch)) {
        cli_say("every change is found by looking, every %s or sooner (~), and shorter holds may "
                "be missed",
            every);
    } else {
        cli_say("most releases are told by the backend (=); the rest is found by looking every %s "
                "(~), and shorter holds may be missed",
            every);
    }
}

/* Nobody answers: say it once and go on. */
static void endure(struct watching *watching)
{
    if (!watching->failing) {
        cli_say("%s; trying again", pawl_last_error());
        watching->failing = true;
    }
    poll(NULL, 0, RETRY_MS);
}

static void say_recovered(struct watching *watching)
{
    if (watching->failing) {
        cli_say("it answers again; what happened meanwhile may be missing");
        watching->failing = false;
    }
}

/* Whoever reads our lines may have gone (`pawl watch | head -n 1`), which a write would tell us,
 * and there may be none for long. */
static bool is_unread(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO};
    return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

static int end_unread(void)
{
    raise(SIGPIPE); /* as the write would, and it may be ignored */
    cli_say("writing the result: %s", strerror(EPIPE));
    return CLI_SYSTEM;
}

/* The next event, or some time without one. CLI_GO_ON, or the exit status. */
static int watch_some(struct watching *watching)
{
    const int64_t left_ms = watching->end_ms - cli_now_ms();
    if (left_ms <= 0 || watching->left == 0) {
        return CLI_OK;
    }
    pawl_watch_event event = {.size = sizeof event};
    const pawl_status status =
        pawl_watch_next(watching->watch, left_ms < PATIENCE_MS ? left_ms : PATIENCE_MS, &event);
    if (status == PAWL_UNAVAILABLE) {
        endure(watching);
        return CLI_GO_ON;
    }
    if (status != PAWL_OK && status != PAWL_BUSY) {
        return cli_say_failure(status);
    }
    say_recovered(watching);
    if (status == PAWL_BUSY) {
        return is_unread() ? end_unread() : CLI_GO_ON;
    }
    const int result = print_event(watching, &event);
    return result == CLI_OK ? CLI_GO_ON : result;
}

static int watch_until_end(pawl_client *client, const char *pattern, struct watching *watching)
{
    pawl_status status = pawl_watch_open(client, pattern, watching->every_ms, &watching->watch);
    if (status != PAWL_OK) {
        return cli_say_failure(status);
    }
    say_what_is_exact(watching);
    int result = CLI_GO_ON;
    while (result == CLI_GO_ON) {
        result = watch_some(watching);
    }
    pawl_watch_close(watching->watch);
    return result;
}

int cli_watch(int argc, char **argv)
{
    struct watching watching = {.every_ms = LOOK_MS_DEFAULT, .left = INT64_MAX};
    int64_t for_ms = 0;
    struct cli_option options[] = {
        {.name = "every",
            .type = CLI_DURATION,
            .value = &watching.every_ms,
            .min = 100,
            .max = 3600 * 1000},
        {.name = "for",
            .type = CLI_DURATION,
            .value = &for_ms,
            .min = 1,
            .max = 365LL * 24 * 3600 * 1000},
        {.name = "count", .type = CLI_NUMBER, .value = &watching.left, .min = 1, .max = INT32_MAX},
        {.name = "json", .type = CLI_FLAG, .value = &watching.as_json},
    };
    const struct cli_syntax syntax = {
        .command = "pawl watch",
        .help = help,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .operands = {"NAME"},
    };
    struct cli_arguments arguments;
    int result = cli_options_parse(&syntax, argc, argv, &arguments);
    if (result == CLI_GO_ON) {
        result = cli_check_pattern(arguments.operands[0]);
    }
    watching.end_ms = for_ms > 0 ? cli_now_ms() + for_ms : INT64_MAX;
    pawl_client *client = NULL;
    if (result == CLI_GO_ON) {
        result = cli_backend_open_to_look(&client);
    }
    if (result == CLI_GO_ON) {
        result = watch_until_end(client, arguments.operands[0], &watching);
        pawl_client_close(client);
    }
    return result;
}
