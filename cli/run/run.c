/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl run`: hold a lock while a command runs. This file has its options and what they mean; run.h
 * tells how it works and where. */
#include "run/run.h"

#include "commands.h"
#include "common/backend.h"
#include "line/options.h"
#include "line/say.h"
#include "line/secret.h"
#include "text/duration.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum {
    LEASE_MS_DEFAULT = 30000,
    LEASE_MS_MIN = 500,
    REDLOCK_LEASE_MS_MAX = 30000, /* the library's max_lease_ms, which all programs must share */
    GRACE_MS_DEFAULT = 5000,
    GRACE_PARTS = 3,               /* of the lease, at most, unless it is given */
    TERM_MARGIN_US = 1 * US_PER_S, /* before KILL's margin and the grace */
    KILL_MARGIN_US = 500 * US_PER_MS,
    MARGIN_PARTS = 6, /* of a short lease */
    SHARE_MAX = 60,   /* percent of the lease: a renewal is due at 67 */
};

#define DURATION_MS_MAX (INT64_C(365) * 86400 * 1000)

static const char help[] =
    "usage: pawl run [OPTION]... NAME [--] COMMAND [ARGUMENT]...\n"
    "       pawl run [OPTION]... NAME -c 'SHELL LINE'\n"
    "\n"
    "Waits for the lock NAME, runs the command while holding it, and releases it. The lock is "
    "kept\n"
    "alive while the command runs; if it is lost all the same, the command is ended.\n"
    "\n"
    "  pawl run backup -- rsync -a /data nas:      wait as long as it takes\n"
    "  pawl run -n -E 0 nightly -- ./report        somebody else does it already? fine\n"
    "  pawl run -w 1m30s deploy -c 'git pull && make install'\n"
    "  PAWL_URL=redis://db7 pawl run leader -- ./worker      one in the whole cluster\n"
    "\n"
    "  -n, --no-wait        do not wait: exit with 75 if somebody else holds the lock\n"
    "  -w, --wait TIME      wait at most so long: 5, 0.5, 500ms, 1m30s, 2h\n"
    "  -E, --busy-exit CODE exit with CODE instead of 75\n"
    "  -c LINE              run /bin/sh -c LINE\n"
    "  --lease TIME         how long the lock outlives this machine's death (30s); it is renewed\n"
    "                       every third of that. 500ms to 365d. Locks in files end with the "
    "process\n"
    "  --max-hold TIME      end the command before it has held the lock for so long, 500ms to "
    "365d:\n"
    "                       TERM comes the grace + 1s earlier (in proportion if it is under 6s)\n"
    "  --grace TIME         from TERM to KILL when the command must end (5s, or a third of the\n"
    "                       lease); less than half the lease\n"
    "  --kind KIND          mutex (the default); fair: in the order of asking; read: together "
    "with\n"
    "                       others who read; write: alone; semaphore:N: with up to N in all; "
    "plain\n"
    "                       or spin: see the manual\n"
    "  --redlock URL,URL,.. a majority of these servers keeps the lock, instead of one\n"
    "  -q, --quiet          say nothing about waiting and busy locks\n"
    "  --url URL            where the lock is kept; else $PAWL_URL, else files of this machine\n"
    "\n"
    "The command has PAWL_NAME, PAWL_TOKEN (the fencing token) and PAWL_OWNER in its environment.\n"
    "Signals sent to pawl run go to the command; ^Z stops both and keeps the lock. When the lock\n"
    "cannot be renewed, the command and all its descendants get TERM when the time left falls "
    "below\n"
    "the grace + 1s, and KILL 500ms before the end (in proportion for leases under 6s).\n"
    "\n"
    "Exit status: that of the command; 128+n if signal n ended it; else\n"
    "   64  the command line is wrong          75  the lock is busy (or -E)\n"
    "   65  the name is something else         76  the lock was lost, or about to be\n"
    "   69  the backend cannot be reached,     77  wrong password, or a right is missing\n"
    "       or is not fit to keep locks       126  the command cannot be executed\n"
    "   71  no processes or memory left       127  the command was not found\n";

static const char *const kinds[] = {
    "mutex", "fair", "read", "write", "spin", "plain", "semaphore:N", NULL};

enum { KIND_SEMAPHORE = 6 };

_Static_assert(PAWL_MUTEX == 0 && PAWL_FAIR == 1 && PAWL_READ == 2 && PAWL_WRITE == 3 &&
                   PAWL_SPIN == 4 && PAWL_PLAIN == 5,
    "kinds[] is in the order of pawl_kind");

struct line {
    bool no_wait;
    bool quiet;
    int64_t wait_ms;
    int64_t lease_ms;
    int64_t max_hold_ms;
    int64_t grace_ms; /* -1: not given */
    int64_t busy_status;
    int kind;
    int64_t permits;
    char *redlock;
    char *shell_line;
};

/* ===== What follows from the options ===== */

/* The time that a renewal gives, at most. */
static int64_t span_ms(const struct run_options *options)
{
    return options->max_hold_ms > 0 ? run_min(options->lease_ms, options->max_hold_ms)
                                    : options->lease_ms;
}

int64_t run_kill_margin_us(const struct run_options *options)
{
    return run_min(KILL_MARGIN_US, span_ms(options) * US_PER_MS / (2 * MARGIN_PARTS));
}

int64_t run_term_margin_us(const struct run_options *options)
{
    const int64_t span_us = span_ms(options) * US_PER_MS;
    const int64_t margin_us = run_min(TERM_MARGIN_US, span_us / MARGIN_PARTS);
    return run_min(options->grace_ms * US_PER_MS + margin_us, span_us * SHARE_MAX / 100);
}

static int choose_grace(struct run_options *options, int64_t given_ms)
{
    const int64_t span = span_ms(options);
    options->grace_ms = given_ms >= 0 ? given_ms : run_min(GRACE_MS_DEFAULT, span / GRACE_PARTS);
    if (2 * options->grace_ms < span) {
        return CLI_GO_ON;
    }
    char grace[CLI_DURATION_SIZE];
    char whole[CLI_DURATION_SIZE];
    const bool lease = span == options->lease_ms;
    return cli_say_usage("--grace %s must be less than half of the %s, which is %s; give a shorter "
                         "--grace or a longer %s",
        cli_duration_show(options->grace_ms, grace), lease ? "lease" : "longest hold",
        cli_duration_show(span, whole), lease ? "--lease" : "--max-hold");
}

static int check_name(const char *name)
{
    const size_t size = strlen(name);
    if (size == 0) {
        return cli_say_usage("NAME is empty; a lock's name has 1 to %d bytes", CLI_NAME_SIZE_MAX);
    }
    return size <= CLI_NAME_SIZE_MAX
               ? CLI_GO_ON
               : cli_say_usage(
                     "NAME has %zu bytes; a lock's name has 1 to %d", size, CLI_NAME_SIZE_MAX);
}

static int choose_command(
    struct run_options *options, char *shell_line, const struct cli_arguments *arguments)
{
    static char sh[] = "/bin/sh";
    static char dash_c[] = "-c";
    static char *shell[4] = {sh, dash_c, NULL, NULL};
    if (shell_line != NULL && arguments->command != NULL) {
        char shown[CLI_QUOTE_SIZE];
        return cli_say_usage("-c brings the command; leave out '%s', or -c",
            cli_quote(arguments->command[0], shown));
    }
    if (shell_line == NULL && arguments->command == NULL) {
        return cli_say_usage("COMMAND is missing; write it behind the name: pawl run NAME -- "
                             "COMMAND");
    }
    shell[2] = shell_line;
    options->command = shell_line != NULL ? shell : arguments->command;
    return CLI_GO_ON;
}

/* Cut the list of URLs at its commas. The argument loses its secrets. */
static int choose_servers(struct run_options *options, char *list)
{
    static char *servers[RUN_SERVERS_MAX];
    static char *copy; /* they point into it */
    if (list == NULL) {
        return CLI_GO_ON;
    }
    copy = strdup(list);
    cli_secret_wipe(list);
    char *rest = copy;
    if (rest == NULL) {
        cli_say("no memory for the URLs");
        return CLI_SYSTEM;
    }
    char *url = NULL;
    while ((url = strsep(&rest, ",")) != NULL) {
        if (options->server_count == RUN_SERVERS_MAX) {
            return cli_say_usage("--redlock: more than %d servers", RUN_SERVERS_MAX);
        }
        if (url[0] == '\0') {
            return cli_say_usage("--redlock: a URL is empty; write them with one comma between "
                                 "two, and a comma inside of one as %%2C");
        }
        const int result = cli_backend_check_scheme(url);
        if (result != CLI_GO_ON) {
            return result;
        }
        servers[options->server_count++] = url;
    }
    options->servers = servers;
    return CLI_GO_ON;
}

/* What only a lock of one server can be. */
static int check_redlock(const struct run_options *options, int kind)
{
    if (kind != PAWL_MUTEX) {
        return cli_say_usage("--redlock keeps locks of the kind mutex only; leave --kind out");
    }
    char lease[CLI_DURATION_SIZE];
    return options->lease_ms <= REDLOCK_LEASE_MS_MAX
               ? CLI_GO_ON
               : cli_say_usage("--lease %s is longer than 30s, after which a server of --redlock "
                               "that has restarted votes again; give a shorter one",
                     cli_duration_show(options->lease_ms, lease));
}

/* ===== The command line ===== */

static int parse(int argc, char **argv, struct line *line, struct cli_arguments *arguments_out)
{
    struct cli_option options[] = {
        {.name = "no-wait",
            .letter = 'n',
            .type = CLI_FLAG,
            .value = &line->no_wait,
            .excludes = "wait"},
        {.name = "wait",
            .letter = 'w',
            .type = CLI_DURATION,
            .value = &line->wait_ms,
            .max = DURATION_MS_MAX},
        {.name = "busy-exit",
            .letter = 'E',
            .type = CLI_NUMBER,
            .value = &line->busy_status,
            .max = 255},
        {.letter = 'c', .type = CLI_TEXT, .value = &line->shell_line},
        {.name = "lease",
            .type = CLI_DURATION,
            .value = &line->lease_ms,
            .min = LEASE_MS_MIN,
            .max = DURATION_MS_MAX},
        {.name = "max-hold",
            .type = CLI_DURATION,
            .value = &line->max_hold_ms,
            .min = LEASE_MS_MIN,
            .max = DURATION_MS_MAX},
        {.name = "grace", .type = CLI_DURATION, .value = &line->grace_ms, .max = DURATION_MS_MAX},
        {.name = "kind",
            .type = CLI_CHOICE,
            .value = &line->kind,
            .choices = kinds,
            .count = &line->permits,
            .min = 1,
            .max = INT32_MAX},
        {.name = "redlock", .type = CLI_TEXT, .value = &line->redlock, .excludes = "url"},
        {.name = "quiet", .letter = 'q', .type = CLI_FLAG, .value = &line->quiet},
    };
    const struct cli_syntax syntax = {
        .command = "pawl run",
        .help = help,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .operands = {"NAME"},
        .operands_min = 1,
        .takes_command = true,
    };
    return cli_options_parse(&syntax, argc, argv, arguments_out);
}

int cli_run(int argc, char **argv)
{
    struct line line = {
        .wait_ms = PAWL_FOREVER,
        .lease_ms = LEASE_MS_DEFAULT,
        .grace_ms = -1,
        .busy_status = CLI_BUSY,
    };
    struct cli_arguments arguments;
    int result = parse(argc, argv, &line, &arguments);
    if (result != CLI_GO_ON) {
        return result;
    }
    struct run_options options = {
        .name = arguments.operands[0],
        .kind = line.kind != KIND_SEMAPHORE ? (pawl_kind)line.kind : PAWL_MUTEX,
        .kind_name = kinds[line.kind],
        .permits = line.permits,
        .wait_ms = line.no_wait ? PAWL_TRY : line.wait_ms,
        .lease_ms = line.lease_ms,
        .max_hold_ms = line.max_hold_ms,
        .busy_status = (int)line.busy_status,
        .quiet = line.quiet,
    };
    result = choose_servers(&options, line.redlock);
    if (result == CLI_GO_ON) {
        result = check_name(options.name);
    }
    if (result == CLI_GO_ON) {
        result = options.server_count > 0 ? check_redlock(&options, line.kind)
                                          : cli_backend_check_shared();
    }
    if (result == CLI_GO_ON) {
        result = choose_command(&options, line.shell_line, &arguments);
    }
    if (result == CLI_GO_ON) {
        result = choose_grace(&options, line.grace_ms);
    }
    if (result != CLI_GO_ON) {
        return result;
    }
    options.tells = !options.quiet && options.wait_ms != PAWL_TRY && isatty(STDERR_FILENO);
    return run_front(&options);
}
