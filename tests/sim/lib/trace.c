/* SPDX-License-Identifier: Apache-2.0 */
/* What happened: as a hash over everything, so that two runs of a seed can be compared; as lines
 * for a reader, if somebody reads; and the first thing that was wrong. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *sim_only;

void sim_hash(struct sim_world *world, uint64_t value)
{
    uint64_t x = (world->hash ^ value) * 0x9e3779b97f4a7c15u;
    world->hash = x ^ (x >> 29);
}

static void say(struct sim_world *world, const struct sim_client *client, const char *format,
    va_list args) __attribute__((format(printf, 3, 0)));

static void say(
    struct sim_world *world, const struct sim_client *client, const char *format, va_list args)
{
    printf("%12.6f ", (double)world->now_us / 1e6);
    if (client != NULL) {
        printf("client %u @%.6f ", client->index, (double)sim_now(client) / 1e6);
    }
    vprintf(format, args);
    printf("\n");
}

void sim_say(struct sim_world *world, const struct sim_client *client, const char *format, ...)
{
    if (world->verbose) {
        va_list args;
        va_start(args, format);
        say(world, client, format, args);
        va_end(args);
    }
}

void sim_fail(struct sim_world *world, const char *oracle, const char *format, ...)
{
    if (world->failure[0] != '\0' || (sim_only != NULL && strcmp(sim_only, oracle) != 0)) {
        return;
    }
    int used = snprintf(world->failure, sizeof world->failure, "%s at %.6f s: ", oracle,
        (double)world->now_us / 1e6);
    va_list args;
    va_start(args, format);
    vsnprintf(world->failure + used, sizeof world->failure - (size_t)used, format, args);
    va_end(args);
    sim_say(world, NULL, "FAILED %s", world->failure);
}

const char *sim_op_text(enum pawl__op_kind kind)
{
    static const char *const texts[] = {[PAWL__OP_ACQUIRE] = "acquire",
        [PAWL__OP_RENEW] = "renew",
        [PAWL__OP_VERIFY] = "verify",
        [PAWL__OP_COUNT] = "count",
        [PAWL__OP_RELEASE] = "release",
        [PAWL__OP_PASS] = "pass",
        [PAWL__OP_INSPECT] = "inspect",
        [PAWL__OP_BREAK] = "break",
        [PAWL__OP_RAISE] = "raise",
        [PAWL__OP_TALLY] = "question",
        [PAWL__OP_WATCH] = "watch",
        [PAWL__OP_UNWATCH] = "unwatch"};
    return texts[kind];
}

const char *sim_answer_text(enum pawl__answer answer)
{
    static const char *const texts[] = {[PAWL__PENDING] = "pending",
        [PAWL__DONE] = "done",
        [PAWL__HELD] = "held",
        [PAWL__GONE] = "gone",
        [PAWL__SPARED] = "spared",
        [PAWL__LEFT] = "left",
        [PAWL__FAILED] = "failed",
        [PAWL__UNKNOWN] = "unknown"};
    return texts[answer];
}

const char *sim_request_text(enum pawl__request_kind kind)
{
    static const char *const texts[] = {[PAWL__WANT_ACQUIRE] = "acquire",
        [PAWL__WANT_RELEASE] = "release",
        [PAWL__WANT_EXTEND] = "extend",
        [PAWL__WANT_INSPECT] = "inspect",
        [PAWL__WANT_BREAK] = "break",
        [PAWL__WANT_RAISE] = "raise",
        [PAWL__WANT_TALLY] = "call about"};
    return texts[kind];
}

const char *sim_verb_text(enum pawl__tally_verb verb)
{
    static const char *const texts[] = {[PAWL__TALLY_READ] = "read",
        [PAWL__TALLY_SET] = "set",
        [PAWL__TALLY_ADD] = "add",
        [PAWL__TALLY_DRAIN] = "drain",
        [PAWL__TALLY_TAKE] = "take",
        [PAWL__TALLY_GIVE] = "give",
        [PAWL__TALLY_UNDO] = "undo",
        [PAWL__TALLY_EXTEND] = "extend",
        [PAWL__TALLY_DOWN] = "count down",
        [PAWL__TALLY_RESET] = "reset",
        [PAWL__TALLY_AWAIT] = "await"};
    return texts[verb];
}

const char *sim_state_text(enum pawl__tenure_state state)
{
    static const char *const texts[] = {[PAWL__TENURE_IDLE] = "idle",
        [PAWL__TENURE_CLAIMING] = "claiming",
        [PAWL__TENURE_WAITING] = "waiting",
        [PAWL__TENURE_HELD] = "held",
        [PAWL__TENURE_RELEASING] = "releasing",
        [PAWL__TENURE_LOST] = "lost",
        [PAWL__TENURE_CLEANING] = "cleaning",
        [PAWL__TENURE_ENDED] = "ended"};
    return texts[state];
}
