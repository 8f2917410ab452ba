/* SPDX-License-Identifier: Apache-2.0 */
/* What it costs redis-server to have many held locks renewed by the library, against the cheapest
 * way known: a script for 100 locks at a time, ten of them in a pipeline, written here.
 *
 * The library renews when it likes, so it is watched for a while: the server counts the PEXPIREs.
 * The lease is shorter than usual; the figure is that of 10,000 renewals, which is what 100,000
 * locks with a lease of 30 s need each second. */
#include "groups.h"
#include "lib/clock.h"
#include "lib/die.h"
#include "lib/ours.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    HELD_COUNT = 100000,
    HELD_COUNT_QUICK = 20000,
    LEASE_MS = 9000, /* each lock is renewed every 3 s */
    WINDOW_MS = 6000,
    KEYS_PER_SCRIPT = 100,
    SCRIPTS_PER_WRITE = 10,
    KEYS_PER_WRITE = KEYS_PER_SCRIPT * SCRIPTS_PER_WRITE,
    WORDS_MAX = 3 + 3 * KEYS_PER_SCRIPT,
    WORD_SIZE = 64,
    REFERENCE_PASSES = 2,
    RENEWALS_PER_S = 10000, /* of the figure */
};

static size_t held_count(const struct bench *bench)
{
    return bench->quick ? HELD_COUNT_QUICK : HELD_COUNT;
}

/* ===== The library holds many ===== */

struct holder {
    const struct bench *bench;
    pawl_client *client;
    pawl_lock **locks;
};

static void *holder_open(const void *arg)
{
    struct holder *holder = calloc(1, sizeof *holder);
    holder->bench = arg;
    const size_t count = held_count(holder->bench);
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.owner = PAWL_OWNER_HANDLE; /* one thread holds them all */
    options.lease_ms = LEASE_MS;
    holder->client = ours_open(server_url(holder->bench->server, TRANSPORT_UNIX));
    holder->locks = calloc(count, sizeof holder->locks[0]);
    for (size_t i = 0; i < count; i++) {
        char name[PAIR_NAME_SIZE + 1];
        pair_name(name, (unsigned)i);
        holder->locks[i] = ours_lock(holder->client, name, &options);
        ours_acquire(holder->locks[i]);
    }
    return holder;
}

/* The library renews by itself. */
static void holder_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    struct holder *holder = self;
    pause_ns(slice_ns);
    sample->count = (double)held_count(holder->bench);
}

static void holder_close(void *self)
{
    struct holder *holder = self;
    const size_t count = held_count(holder->bench);
    pawl_client_close(holder->client);
    for (size_t i = 0; i < count; i++) {
        pawl_lock_close(holder->locks[i]);
    }
    free(holder->locks);
    free(holder);
}

static const struct side_kind holder_kind = {"many holds", holder_open, holder_slice, holder_close};

/* ===== The cheapest way ===== */

static const char reference_text[] =
    "local renewed = {}\n"
    "for i = 1, #KEYS do\n"
    "renewed[i] = redis.call('HEXISTS', KEYS[i], ARGV[2 * i - 1])\n"
    "if renewed[i] == 1 then\n"
    "redis.call('PEXPIRE', KEYS[i], ARGV[2 * i])\n"
    "end\n"
    "end\n"
    "return renewed\n";

struct reference {
    const struct bench *bench;
    redisContext *context;
    char sha[41];
    char words[WORDS_MAX][WORD_SIZE];
};

static void name_key(char word[WORD_SIZE], size_t number)
{
    snprintf(word, WORD_SIZE, "bench-%06zu", number);
}

static void name_owner(char word[WORD_SIZE], size_t number)
{
    snprintf(word, WORD_SIZE, "00000000-0000-4000-8000-000000000000:%zu", number + 1);
}

/* Take `count` replies; those of the script must say that the first lock was renewed. */
static void take_replies(redisContext *context, int count, bool of_script)
{
    for (int i = 0; i < count; i++) {
        void *taken = NULL;
        if (redisGetReply(context, &taken) != REDIS_OK) {
            die("%s", context->errstr);
        }
        const redisReply *reply = taken;
        if (reply->type == REDIS_REPLY_ERROR ||
            (of_script &&
                (reply->elements != KEYS_PER_SCRIPT || reply->element[0]->integer != 1))) {
            die("not renewed: %s", reply->str != NULL ? reply->str : "the lock is not held");
        }
        freeReplyObject(taken);
    }
}

static void *reference_open(const void *arg)
{
    struct reference *reference = calloc(1, sizeof *reference);
    reference->bench = arg;
    reference->context = server_connect(reference->bench->server, TRANSPORT_UNIX);
    redisReply *reply = server_command(reference->bench->server, "SCRIPT LOAD %s", reference_text);
    snprintf(reference->sha, sizeof reference->sha, "%s", reply->str);
    freeReplyObject(reply);
    for (size_t i = 0; i < held_count(reference->bench); i++) {
        char key[WORD_SIZE];
        char owner[WORD_SIZE];
        name_key(key, i);
        name_owner(owner, i);
        redisAppendCommand(reference->context, "HSET %s %s 1", key, owner);
        redisAppendCommand(reference->context, "SET redisson_lock_token:{%s} 1 EX 604800", key);
        if (i % KEYS_PER_WRITE == KEYS_PER_WRITE - 1) {
            take_replies(reference->context, 2 * KEYS_PER_WRITE, false);
        }
    }
    return reference;
}

static void append_script(struct reference *reference, size_t first)
{
    const char *words[WORDS_MAX] = {"EVALSHA", reference->sha, "100"};
    const size_t keys_at = 3;
    const size_t values_at = keys_at + KEYS_PER_SCRIPT;
    for (size_t i = 0; i < KEYS_PER_SCRIPT; i++) {
        const size_t owner_at = values_at + 2 * i;
        name_key(reference->words[keys_at + i], first + i);
        name_owner(reference->words[owner_at], first + i);
        words[keys_at + i] = reference->words[keys_at + i];
        words[owner_at] = reference->words[owner_at];
        words[owner_at + 1] = "30000";
    }
    redisAppendCommandArgv(reference->context, WORDS_MAX, words, NULL);
}

/* All locks, however long it takes. */
static void reference_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    struct reference *reference = self;
    const size_t count = held_count(reference->bench);
    (void)slice_ns;
    for (size_t i = 0; i < REFERENCE_PASSES * count; i += KEYS_PER_SCRIPT) {
        append_script(reference, i % count);
        if (i % KEYS_PER_WRITE == KEYS_PER_WRITE - KEYS_PER_SCRIPT) {
            take_replies(reference->context, SCRIPTS_PER_WRITE, true);
        }
    }
    sample->count = (double)(REFERENCE_PASSES * count);
}

static void reference_close(void *self)
{
    struct reference *reference = self;
    redisFree(reference->context);
    free(reference);
}

static const struct side_kind reference_kind = {
    "renewing by hand", reference_open, reference_slice, reference_close};

/* ===== The group ===== */

/* CPU time of the server for the figure's renewals each second, in ms. */
static bool measure(
    struct bench *bench, const struct side_kind *kind, int64_t slice_ns, double *ms_out)
{
    const char *const counter = "cmdstat_pexpire:calls=";
    struct side side = {.kind = kind, .arg = bench};
    struct sample sample = {0};
    server_empty(bench->server);
    bool good = side_start(&side);
    const double began_count = server_info(bench->server, "commandstats", counter);
    const int64_t began_ns = process_cpu_ns(bench->server->pid);
    good = good && side_order(&side, slice_ns) && side_answer(&side, &sample);
    const int64_t cpu_ns = process_cpu_ns(bench->server->pid) - began_ns;
    const double renewed = server_info(bench->server, "commandstats", counter) - began_count;
    side_stop(&side);
    if (good && renewed < sample.count / 2) {
        progress("bench: only %.0f of %.0f locks were renewed\n", renewed, sample.count);
        return false;
    }
    *ms_out = (double)cpu_ns / (double)NS_PER_MS / renewed * RENEWALS_PER_S;
    return good;
}

bool group_renewal(struct bench *bench)
{
    double ours_ms = 0;
    double reference_ms = 0;
    if (!measure(bench, &holder_kind, WINDOW_MS * NS_PER_MS, &ours_ms) ||
        !measure(bench, &reference_kind, 1, &reference_ms)) {
        return false;
    }
    const struct row row = {.group = "renewal",
        .what = "100,000 locks renewed: redis CPU per second",
        .unit = "ms",
        .against_name = "by hand",
        .ours = {.count = 1, .values = {ours_ms}},
        .against = {.count = 1, .values = {reference_ms}},
        .must_kind = MUST_RATIO_AT_MOST,
        .must = 1.25}; /* 15 ms where by hand takes 12 ms */
    report_add(&bench->report, &row);
    return true;
}
