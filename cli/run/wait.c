/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper while it waits for the lock. It asks once without waiting, which is all that most runs
 * need; then the library waits in the background, so that the front can be heard meanwhile. On a
 * terminal the front is told now and then who holds the lock; looking is a question to the backend,
 * so it is done less often after a while. If it is not waited for a holder but for a server,
 * or for several of which too few can be reached or may vote, or if somebody's data has the name,
 * that is told once, on a terminal or not; and so is every outage that comes later. */
#include "line/say.h"
#include "run/ask.h"
#include "run/keeper.h"
#include "text/duration.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_FIRST_US = 200 * US_PER_MS,
    LATE_US = 50 * US_PER_MS, /* until it is seen what has come of it meanwhile */
    LOOK_OFTEN_US = 1 * US_PER_S,
    LOOK_SELDOM_US = 5 * US_PER_S,
    LOOKS_OFTEN = 10,           /* how many, before it becomes seldom */
    TROUBLE_US = 1 * US_PER_S,  /* of servers, or with the name, before it is told */
    REMIND_US = 3 * US_PER_S,   /* of the number of permits, */
    COUNT_US = 200 * US_PER_MS, /* while it is not known */
    NOTES_MAX = 3,
};

/* ===== Who holds it ===== */

/* "web3 pid 4711 (rsync)", as far as it is known. */
static void describe_holder(const pawl_entry *entry, char *out, size_t size)
{
    char host[CLI_QUOTE_SIZE];
    char command[CLI_QUOTE_SIZE];
    if (entry->pid == 0) {
        snprintf(out, size, "%s", cli_quote(entry->holder, host));
        return;
    }
    snprintf(out, size, "%s pid %" PRId64 "%s%s%s", cli_quote(entry->host, host), entry->pid,
        entry->command[0] != '\0' ? " (" : "", cli_quote(entry->command, command),
        entry->command[0] != '\0' ? ")" : "");
}

static const char *others(const pawl_entry *entry)
{
    return entry->kind == PAWL_READ ? " and maybe other readers" : "";
}

static void describe(
    const struct run_keeper *keeper, const struct run_view *view, char *out, size_t size)
{
    const pawl_entry *entry = view->entry;
    char name[CLI_QUOTE_SIZE];
    char holder[3 * CLI_QUOTE_SIZE] = "";
    char lease[64] = "";
    char queue[64] = "";
    char patience[64] = "";
    char duration[CLI_DURATION_SIZE];
    cli_quote(keeper->options->name, name);
    if (entry == NULL || !entry->held) {
        snprintf(out, size, "waiting for %s%s'%s'",
            view->trouble[0] != '\0' ? "the server, and then for " : "",
            keeper->options->permits > 0 ? "a permit of " : "", name);
        return;
    }
    describe_holder(entry, holder, sizeof holder);
    if (entry->remaining_ms >= 0) {
        snprintf(lease, sizeof lease, ", for %s unless renewed",
            cli_duration_show(entry->remaining_ms, duration));
    }
    if (keeper->wait_end_us != RUN_NEVER) {
        const int64_t left_us = keeper->wait_end_us - run_now_us();
        snprintf(patience, sizeof patience, "; giving up in %s",
            cli_duration_show(left_us > 0 ? left_us / US_PER_S * 1000 : 0, duration));
    }
    const int64_t waiters = entry->waiters - (keeper->options->kind == PAWL_FAIR ? 1 : 0);
    if (entry->kind == PAWL_FAIR && waiters > 0) {
        snprintf(queue, sizeof queue, "; %" PRId64 " other%s in its queue", waiters,
            waiters > 1 ? "s" : "");
    }
    snprintf(out, size, "'%s' is held by %s%s%c%s%c%s%s", name, holder, others(entry), RUN_LESS,
        lease, RUN_LESS, queue, patience);
}

/* Permits are nobody's. */
static void look_how(
    struct run_keeper *keeper, bool whole, int64_t until_us, struct run_view *view_out)
{
    struct run_grip *grip = &keeper->grip;
    const bool one_server = keeper->options->server_count == 0 && !grip->in_files;
    if (grip->asking == NULL && grip->semaphore == NULL) {
        grip->asking = run_asking_new(grip->clients, grip->client_count, keeper->options->name,
            one_server ? grip->lock : NULL);
    }
    *view_out = (struct run_view){.entry = NULL};
    if (grip->asking != NULL) {
        run_asking_look(grip->asking, whole, until_us, view_out);
    }
}

static void look(struct run_keeper *keeper, int64_t until_us, struct run_view *view_out)
{
    look_how(keeper, true, until_us, view_out);
}

/* Is it somebody's data that is in the way, as a hash of other fields? The scripts that acquire
 * take every hash for a lock. Somebody else's kind of lock may look like data, but then it expires;
 * -1: it does not. A plain lock that expires is one, whatever stands in it. */
static bool is_data(
    const struct run_keeper *keeper, const struct run_view *view, int64_t *remaining_ms_out)
{
    pawl_lock_info info = {.size = sizeof info};
    const struct run_grip *grip = &keeper->grip;
    const bool found = view->data && !grip->in_files &&
                       pawl_lock_inspect(grip->lock, &info) == PAWL_OK && info.held;
    *remaining_ms_out = info.remaining_ms;
    return found && (info.remaining_ms < 0 || keeper->options->kind != PAWL_PLAIN);
}

static void describe_data(
    const struct run_keeper *keeper, int64_t remaining_ms, char *out, size_t size)
{
    char name[CLI_QUOTE_SIZE];
    char duration[CLI_DURATION_SIZE];
    const bool expires = remaining_ms >= 0;
    snprintf(out, size, "the key '%s' is not a lock as pawl or Redisson writes it, and %s%s; %s",
        cli_quote(keeper->options->name, name), expires ? "expires in " : "never expires",
        expires ? cli_duration_show(remaining_ms, duration) : "",
        expires ? "choose another name if it is somebody's data"
                : "choose another name, or delete it if nobody needs it");
}

/* It is not waited for a holder, but for a server: told once, until it answers again. */
static void tell_outage(struct run_keeper *keeper, const char *trouble)
{
    char text[RUN_TEXT_SIZE];
    const bool news = trouble[0] != '\0' && !keeper->outage_told && !keeper->options->quiet;
    keeper->outage_told = trouble[0] != '\0';
    if (news) {
        snprintf(text, sizeof text, "waiting for %s: %.*s",
            keeper->options->server_count > 0 ? "servers" : "the server", RUN_TEXT_SIZE - 32,
            trouble);
        run_link_talk(keeper->link, RUN_NOTE, text, NOTES_MAX);
    }
}

static void tell_data(const struct run_keeper *keeper, const struct run_view *view)
{
    char text[RUN_TEXT_SIZE] = "waiting, maybe for ever: ";
    const size_t used = strlen(text);
    int64_t remaining_ms = 0;
    if (is_data(keeper, view, &remaining_ms) && remaining_ms < 0) {
        describe_data(keeper, remaining_ms, text + used, sizeof text - used);
        run_link_talk(keeper->link, RUN_NOTE, text, NOTES_MAX);
    }
}

static void say_holder(struct run_keeper *keeper, const struct run_view *view)
{
    char text[RUN_TEXT_SIZE];
    describe(keeper, view, text, sizeof text);
    run_link_talk(keeper->link, RUN_HOLDER, text, 0);
    keeper->holder_told = true;
}

/* While an answer is on its way what was said before stays. */
static void tell_holder(struct run_keeper *keeper)
{
    struct run_view view;
    look(keeper, keeper->wait_end_us, &view);
    tell_outage(keeper, view.trouble);
    keeper->late = view.late;
    if (!view.late || view.trouble[0] != '\0' || !keeper->holder_told) {
        say_holder(keeper, &view);
    }
}

/* The way to the server is long, so a look does not wait for all that comes of it. */
static void tell_late(struct run_keeper *keeper)
{
    struct run_view view;
    run_asking_hear(keeper->grip.asking, &view);
    keeper->late = view.late;
    if (!view.late && keeper->options->tells) {
        say_holder(keeper, &view);
    }
    if (!view.late && keeper->data_due) {
        tell_data(keeper, &view);
        keeper->data_due = false;
    }
}

/* Do we run under a lock of this name? */
static bool is_own_name(const struct run_keeper *keeper)
{
    const char *name = getenv("PAWL_NAME");
    return name != NULL && strcmp(name, keeper->options->name) == 0;
}

/* Whether who holds it is known to be, or not to be, who runs us. Each of several servers knows the
 * holder by another owner string, and PAWL_OWNER is one of these. */
static bool is_holder_known(const struct run_keeper *keeper, const pawl_entry *entry)
{
    return keeper->options->server_count == 0 && entry != NULL && entry->held &&
           entry->kind != PAWL_READ && getenv("PAWL_OWNER") != NULL;
}

/* And maybe under this very lock? The name could be that of another backend's lock, so who holds it
 * must not be known to be somebody else. */
static bool is_own(const struct run_keeper *keeper, const pawl_entry *entry)
{
    const char *owner = getenv("PAWL_OWNER");
    return is_own_name(keeper) && (owner == NULL || !is_holder_known(keeper, entry) ||
                                      strncmp(entry->holder, owner, strlen(owner)) == 0);
}

/* What is said of a lock that was not had. */
static void explain_busy(struct run_keeper *keeper, const struct run_view *view)
{
    char name[CLI_QUOTE_SIZE];
    char holder[3 * CLI_QUOTE_SIZE];
    struct run_grip *grip = &keeper->grip;
    const pawl_entry *entry = view->entry;
    int64_t remaining_ms = 0;
    cli_quote(keeper->options->name, name);
    if (entry != NULL && entry->held) {
        describe_holder(entry, holder, sizeof holder);
        snprintf(grip->why, sizeof grip->why, "'%s' is held by %s%s", name, holder, others(entry));
    } else if (entry == NULL && is_data(keeper, view, &remaining_ms)) {
        describe_data(keeper, remaining_ms, grip->why, sizeof grip->why);
    }
    if (is_own(keeper, entry)) {
        const size_t used = strlen(grip->why);
        snprintf(grip->why + used, sizeof grip->why - used,
            "; this command %s under it already (PAWL_NAME)",
            is_holder_known(keeper, entry) ? "runs" : "may run");
    }
}

/* Nobody would ever get it: that is told once, on a terminal or not. */
static void tell_own(struct run_keeper *keeper)
{
    char name[CLI_QUOTE_SIZE];
    char text[RUN_TEXT_SIZE];
    struct run_view view;
    if (keeper->options->quiet || !is_own_name(keeper)) {
        return;
    }
    look(keeper, keeper->wait_end_us, &view);
    if (!is_own(keeper, view.entry)) {
        return;
    }
    snprintf(text, sizeof text,
        "waiting for '%s', under which this command runs already (PAWL_NAME): it may be waiting "
        "for its own end",
        cli_quote(keeper->options->name, name));
    run_link_talk(keeper->link, RUN_NOTE, text, NOTES_MAX);
}

/* ===== Waiting ===== */

static bool unwanted(const struct run_keeper *keeper)
{
    return keeper->done || keeper->pausing || keeper->front_gone;
}

/* What is in the way beside a holder; `trouble`: why the servers did not answer before, or "". */
static void tell_trouble(struct run_keeper *keeper, const char *trouble, bool first)
{
    struct run_view view;
    if (first && trouble[0] != '\0') {
        tell_outage(keeper, trouble);
        return;
    }
    look_how(keeper, first, keeper->wait_end_us, &view);
    tell_outage(keeper, view.trouble);
    if (first && view.late) {
        keeper->late = keeper->data_due = true;
    } else if (first) {
        tell_data(keeper, &view);
    }
}

/* Whether to look for outages again; on a terminal every look at the holder does. */
static bool is_watched(const struct run_keeper *keeper)
{
    const struct run_grip *grip = &keeper->grip;
    return !keeper->options->tells && !grip->in_files && grip->client_count == 1 &&
           grip->semaphore == NULL;
}

/* When the server is to be reminded of how many permits there are. */
static int64_t next_remind_us(const struct run_keeper *keeper)
{
    if (keeper->options->permits == 0) {
        return RUN_NEVER;
    }
    return run_now_us() + (keeper->grip.counted ? REMIND_US : COUNT_US);
}

/* May the server say how many permits there are when it is asked again? */
static bool is_countable(const struct run_keeper *keeper, pawl_status counted)
{
    return counted == PAWL_OK || cli_passes(counted, keeper->grip.why);
}

/* A permit has come before it is known how many there are. If that stays so, closing gives it back;
 * who does not want it any more is told that it is there, and gives it back. */
static pawl_status await_count(struct run_keeper *keeper)
{
    struct run_grip *grip = &keeper->grip;
    pawl_status status = run_grip_counted(grip);
    while (status != PAWL_OK && is_countable(keeper, status) && !unwanted(keeper) &&
           run_now_us() < keeper->wait_end_us) {
        run_grip_remind(grip);
        run_keeper_pump(keeper, run_min(run_now_us() + LATE_US, keeper->wait_end_us));
        status = run_grip_counted(grip);
    }
    return unwanted(keeper) ? PAWL_OK : status;
}

/* Stay until the asynchronous acquire is answered; it is canceled if the front does not want it any
 * more. `trouble`: why the servers did not answer before, or "". */
static pawl_status await_answer(struct run_keeper *keeper, const char *trouble)
{
    int64_t look_us = keeper->options->tells ? run_now_us() + LOOK_FIRST_US : RUN_NEVER;
    int64_t trouble_us = keeper->options->quiet ? RUN_NEVER : run_now_us() + TROUBLE_US;
    int64_t remind_us = next_remind_us(keeper);
    bool canceled = false;
    int troubles = 0;
    keeper->late = keeper->data_due = keeper->holder_told = false;
    for (int looks = 0; !keeper->grip.answered;) {
        const int64_t late_us = keeper->late ? run_now_us() + LATE_US : RUN_NEVER;
        const int64_t next_us = run_min(run_min(remind_us, late_us), run_min(look_us, trouble_us));
        run_keeper_pump(keeper, canceled ? RUN_NEVER : next_us);
        if (keeper->grip.answered) {
            break;
        }
        if (unwanted(keeper) && !canceled) {
            canceled = true;
            run_grip_cancel(&keeper->grip);
        }
        const int64_t now_us = run_now_us();
        if (!canceled && keeper->late) {
            tell_late(keeper);
        }
        if (!canceled && now_us >= trouble_us) {
            tell_trouble(keeper, trouble, troubles++ == 0);
            trouble_us = is_watched(keeper) ? now_us + LOOK_SELDOM_US : RUN_NEVER;
        }
        if (!canceled && now_us >= remind_us) {
            const pawl_status counted = run_grip_counted(&keeper->grip);
            if (!is_countable(keeper, counted)) {
                return counted; /* there are more or fewer; closing ends the wait */
            }
            run_grip_remind(&keeper->grip);
            remind_us = next_remind_us(keeper);
        }
        if (!canceled && now_us >= look_us) {
            tell_holder(keeper);
            look_us = now_us + (looks++ < LOOKS_OFTEN ? LOOK_OFTEN_US : LOOK_SELDOM_US);
        }
    }
    const bool granted = keeper->grip.answer == PAWL_OK;
    return granted && keeper->options->permits > 0 ? await_count(keeper) : keeper->grip.answer;
}

static int64_t wait_left_ms(const struct run_keeper *keeper)
{
    if (keeper->wait_end_us == RUN_NEVER) {
        return PAWL_FOREVER;
    }
    const int64_t left_ms = (keeper->wait_end_us - run_now_us()) / US_PER_MS;
    return left_ms > 0 ? left_ms : PAWL_TRY;
}

/* May it be another answer after a while? A full disk stays full. Servers of a majority that have
 * restarted are refused for a while. */
static bool is_temporary(const struct run_keeper *keeper, pawl_status status)
{
    const char *why = keeper->grip.why;
    return status == PAWL_BUSY || (cli_passes(status, why) && !keeper->grip.in_files) ||
           (status == PAWL_REFUSED && keeper->options->server_count > 0 &&
               cli_exit_for(status, why) != CLI_DATA);
}

static pawl_status try_and_wait(struct run_keeper *keeper)
{
    pawl_status status = run_grip_try(&keeper->grip);
    if (!is_temporary(keeper, status) || wait_left_ms(keeper) == PAWL_TRY) {
        return status;
    }
    if (status == PAWL_BUSY) {
        run_grip_tell_absent(&keeper->grip);
        tell_own(keeper);
    }
    char trouble[RUN_TEXT_SIZE];
    snprintf(trouble, sizeof trouble, "%s", status != PAWL_BUSY ? keeper->grip.why : "");
    status = run_grip_start(&keeper->grip, wait_left_ms(keeper));
    return status == PAWL_OK ? await_answer(keeper, trouble) : status;
}

/* Somebody had the lock when the server last said something. After a wait that may be long ago: is
 * it still there? Of several servers a majority has said so just now. */
static pawl_status judge_busy(struct run_keeper *keeper)
{
    struct run_grip *grip = &keeper->grip;
    const bool old = keeper->options->wait_ms != PAWL_TRY && keeper->options->server_count == 0 &&
                     !grip->in_files;
    struct run_view view;
    if (keeper->options->quiet && !old) {
        return PAWL_BUSY;
    }
    look_how(keeper, !keeper->options->quiet, RUN_NEVER, &view);
    if (old && view.trouble[0] != '\0') {
        char name[CLI_QUOTE_SIZE];
        snprintf(grip->why, sizeof grip->why,
            "lock '%s': it was held elsewhere, and now the server is away: %.*s",
            cli_quote(keeper->options->name, name), RUN_TEXT_SIZE - CLI_QUOTE_SIZE - 64,
            view.trouble);
        return PAWL_UNAVAILABLE;
    }
    if (!keeper->options->quiet) {
        explain_busy(keeper, &view);
    }
    return PAWL_BUSY;
}

/* The library cannot know how another kind is asked for here. Several servers have only one. */
static void add_remedy(struct run_grip *grip)
{
    const size_t used = strlen(grip->why);
    if (grip->options->server_count == 0 &&
        strstr(grip->why, " is not a lock of this kind") != NULL) {
        snprintf(grip->why + used, sizeof grip->why - used, "; --kind asks for another kind");
    }
}

pawl_status run_wait(struct run_keeper *keeper)
{
    const pawl_status status = try_and_wait(keeper);
    if (status == PAWL_OK) {
        run_grip_tell_absent(&keeper->grip);
    } else if (cli_exit_for(status, keeper->grip.why) == CLI_DATA) {
        add_remedy(&keeper->grip);
    }
    return status == PAWL_BUSY && !unwanted(keeper) ? judge_busy(keeper) : status;
}
