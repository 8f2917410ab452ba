/* SPDX-License-Identifier: Apache-2.0 */
/* What INFO and CONFIG say about a server that is to keep locks; examine.h describes the whole.
 *
 * A topic of which nothing may be asked is told as a warning with the right that is missing. */
#include "engine/redis/examine.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/redis/channels.h"

#include <stdio.h>
#include <string.h>

enum {
    WORD_SIZE = 96,
    SIZE_SIZE = 24,
    LAG_S_MAX = 10, /* a replica that has not been heard of for so long */
    REPLICAS_MAX = 64,
};

#define ROOM_SHARE 10 /* less than a tenth left is little */

static pawl_status tell(const struct pawl__examination *examination, pawl_verdict verdict,
    const char *topic, char *sentence, char *remedy)
{
    return pawl__examination_tell(examination, verdict, topic, sentence, remedy);
}

static int64_t number(const struct pawl__examination *examination, const char *field)
{
    return pawl__info_number(pawl__examination_info(examination, field));
}

static bool is(const struct pawl__examination *examination, const char *field, const char *text)
{
    return pawl__info_is(pawl__examination_info(examination, field), text);
}

static void word(
    const struct pawl__examination *examination, const char *field, char out[WORD_SIZE])
{
    pawl__info_word(pawl__examination_info(examination, field), out, WORD_SIZE);
}

/* The start of a line to paste. */
static const char *redis_cli(const struct pawl__examination *examination)
{
    return examination->console->config->redis_cli;
}

/* "1.5 GB" */
static const char *show_size(int64_t size, char out[SIZE_SIZE])
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    size_t unit = 0;
    double shown = (double)size;
    while (shown >= 1024 && unit < sizeof units / sizeof units[0] - 1) {
        shown /= 1024;
        unit++;
    }
    snprintf(out, SIZE_SIZE, unit == 0 ? "%.0f %s" : "%.1f %s", shown, units[unit]);
    return out;
}

/* ===== Version, mode, role ===== */

static pawl_status examine_version(const struct pawl__examination *examination)
{
    char version[WORD_SIZE];
    char valkey[WORD_SIZE];
    const unsigned major = examination->console->link.greet.version_major;
    word(examination, "redis_version", version);
    word(examination, "valkey_version", valkey);
    if (valkey[0] != '\0') {
        return tell(examination, PAWL_FIT, "version",
            pawl__format("Valkey %s, which speaks as Redis %s does", valkey, version), NULL);
    }
    if (version[0] == '\0') {
        snprintf(version, sizeof version, "%u", major);
    }
    return tell(examination, PAWL_FIT, "version",
        pawl__format("Redis %s%s", version,
            major < 7 ? "; before 7.0 a server cannot be asked in advance which rights a user has"
                      : ""),
        NULL);
}

static pawl_status examine_mode(const struct pawl__examination *examination)
{
    if (is(examination, "redis_mode", "cluster") || is(examination, "cluster_enabled", "1")) {
        return tell(examination, PAWL_UNFIT, "mode",
            pawl__format("a node of a cluster: most names belong to other nodes, and it answers "
                         "MOVED to these"),
            pawl__format("name a server that stands alone; this version of pawl does not speak to "
                         "clusters yet"));
    }
    return tell(
        examination, PAWL_FIT, "mode", pawl__format("a server of its own, no cluster"), NULL);
}

static pawl_status examine_role(const struct pawl__examination *examination)
{
    char host[WORD_SIZE];
    char port[WORD_SIZE];
    if (is(examination, "role", "master")) {
        return tell(examination, PAWL_FIT, "role", pawl__format("a master"), NULL);
    }
    word(examination, "master_host", host);
    word(examination, "master_port", port);
    return tell(examination, PAWL_UNFIT, "role",
        pawl__format("a replica of %s:%s: it takes no writes, and its data may be old", host, port),
        pawl__format("name its master: redis://%s:%s", host, port));
}

static pawl_status examine_loading(const struct pawl__examination *examination)
{
    const bool loading = is(examination, "loading", "1") || is(examination, "async_loading", "1");
    const struct pawl__info_value failover =
        pawl__examination_info(examination, "master_failover_state");
    if (loading) {
        return pawl__examination_tell_loading(examination);
    }
    if (failover.text != NULL && !pawl__info_is(failover, "no-failover")) {
        return tell(examination, PAWL_UNFIT, "loading",
            pawl__format("it is handing over to another server (failover)"),
            pawl__format("wait until it has finished, and name the new master"));
    }
    return tell(examination, PAWL_FIT, "loading",
        pawl__format("it neither loads its data nor hands over to another server"), NULL);
}

/* ===== Persistence ===== */

/* It cannot write, and then Redis takes no writes either. */
static bool cannot_save(const struct pawl__examination *examination)
{
    const bool appending = is(examination, "aof_enabled", "1");
    const bool strict = !examination->known[PAWL__SETTING_STOP_WRITES] ||
                        strcmp(examination->settings[PAWL__SETTING_STOP_WRITES], "yes") == 0;
    const bool saves = !examination->known[PAWL__SETTING_SAVE] ||
                       examination->settings[PAWL__SETTING_SAVE][0] != '\0';
    return (appending && is(examination, "aof_last_write_status", "err")) ||
           (strict && saves && is(examination, "rdb_last_bgsave_status", "err"));
}

static pawl_status examine_append(const struct pawl__examination *examination)
{
    const char *sync = examination->known[PAWL__SETTING_APPENDFSYNC]
                           ? examination->settings[PAWL__SETTING_APPENDFSYNC]
                           : "";
    if (strcmp(sync, "always") == 0) {
        return tell(examination, PAWL_FIT, "persistence",
            pawl__format("an append-only file, written before each answer: a restart forgets "
                         "nothing"),
            NULL);
    }
    if (strcmp(sync, "everysec") == 0) {
        return tell(examination, PAWL_FIT, "persistence",
            pawl__format("an append-only file, written every second: a restart forgets nothing, a "
                         "power failure the last second"),
            NULL);
    }
    if (sync[0] == '\0') {
        return tell(examination, PAWL_FIT, "persistence",
            pawl__format(
                "an append-only file; how often it is written may not be asked (CONFIG GET "
                "appendfsync)"),
            NULL);
    }
    return tell(examination, PAWL_WARNING, "persistence",
        pawl__format("an append-only file, written when the kernel likes to: a restart forgets "
                     "nothing, a power failure up to half a minute"),
        pawl__format("%s CONFIG SET appendfsync everysec; %s CONFIG REWRITE",
            redis_cli(examination), redis_cli(examination)));
}

static char *append_remedy(const struct pawl__examination *examination)
{
    const char *cli = redis_cli(examination);
    return pawl__format("%s CONFIG SET appendonly yes; %s CONFIG SET appendfsync everysec; %s "
                        "CONFIG REWRITE (everysec: a power failure may cost the last second; "
                        "always: nothing, but every write waits for the disk)",
        cli, cli, cli);
}

static pawl_status examine_snapshots(const struct pawl__examination *examination)
{
    const long long changes = (long long)number(examination, "rdb_changes_since_last_save");
    if (!examination->known[PAWL__SETTING_SAVE]) {
        return tell(examination, PAWL_WARNING, "persistence",
            pawl__format("no append-only file; whether it saves snapshots may not be asked (CONFIG "
                         "GET save). At best a restart goes back to the last one"),
            append_remedy(examination));
    }
    if (examination->settings[PAWL__SETTING_SAVE][0] == '\0') {
        return tell(examination, PAWL_WARNING, "persistence",
            pawl__format("nothing is kept on disk: a restart forgets every lock and every token "
                         "counter, and two holders may be inside at once until the old leases end"),
            append_remedy(examination));
    }
    return tell(examination, PAWL_WARNING, "persistence",
        pawl__format("snapshots only (save %s; %lld changes since the last one): a restart forgets "
                     "the locks taken since, and may bring back released ones until their leases "
                     "end",
            examination->settings[PAWL__SETTING_SAVE], changes),
        append_remedy(examination));
}

static pawl_status examine_persistence(const struct pawl__examination *examination)
{
    if (cannot_save(examination)) {
        return tell(examination, PAWL_UNFIT, "persistence",
            pawl__format("it could not write its data the last time, and refuses writes while that "
                         "is so"),
            pawl__format("look at its disk (space, permissions) and at its log"));
    }
    return is(examination, "aof_enabled", "1") ? examine_append(examination)
                                               : examine_snapshots(examination);
}

/* ===== Memory ===== */

static pawl_status examine_eviction(const struct pawl__examination *examination)
{
    char policy[WORD_SIZE];
    const bool limited = number(examination, "maxmemory") > 0;
    word(examination, "maxmemory_policy", policy);
    if (strcmp(policy, "noeviction") == 0) {
        return tell(examination, PAWL_FIT, "eviction",
            pawl__format("maxmemory-policy noeviction: no lock is dropped for want of memory"),
            NULL);
    }
    if (!limited) {
        return tell(examination, PAWL_FIT, "eviction",
            pawl__format("no memory limit is set, so nothing is dropped; with one, "
                         "maxmemory-policy %s would drop locks",
                policy),
            NULL);
    }
    return tell(examination, PAWL_UNFIT, "eviction",
        pawl__format(
            "maxmemory-policy %s: when memory is short it drops keys, and locks among them",
            policy),
        pawl__format("%s CONFIG SET maxmemory-policy noeviction; %s CONFIG REWRITE",
            redis_cli(examination), redis_cli(examination)));
}

/* The server counts what it uses without the buffers of replicas and of the append-only file, and
 * over its limit refuses every lock. */
static bool is_full(const struct pawl__examination *examination)
{
    const int64_t limit = number(examination, "maxmemory");
    const int64_t counted =
        number(examination, "used_memory") - number(examination, "mem_not_counted_for_evict");
    return limit > 0 && counted > limit;
}

static pawl_status examine_memory(const struct pawl__examination *examination)
{
    const int64_t used = number(examination, "used_memory");
    const int64_t limit = number(examination, "maxmemory");
    const int64_t machine = number(examination, "total_system_memory");
    const int64_t most = limit > 0 ? limit : machine;
    const bool little = most > 0 && most - used < most / ROOM_SHARE;
    const bool full = is_full(examination);
    char shown_used[SIZE_SIZE];
    char shown_most[SIZE_SIZE];
    show_size(used, shown_used);
    char *sentence =
        most > 0 ? pawl__format("%s in use of %s (%s)", shown_used, show_size(most, shown_most),
                       limit > 0 ? "maxmemory" : "the machine's; maxmemory is not set")
                 : pawl__format("%s in use, without a limit", shown_used);
    const char *refuses =
        full ? "it is full and refuses new locks" : "a server that is full refuses new locks";
    return tell(examination,
        full     ? PAWL_UNFIT
        : little ? PAWL_WARNING
                 : PAWL_FIT,
        "memory", sentence,
        full || little ? pawl__format("raise maxmemory or free some: %s", refuses) : NULL);
}

/* ===== Replicas ===== */

struct replicas {
    int64_t count;
    int64_t behind; /* bytes, of the last of them */
    int64_t lag_s;  /* since the last of them was heard of */
    int64_t offline_count;
};

static struct replicas count_replicas(const struct pawl__examination *examination)
{
    struct replicas replicas = {.count = number(examination, "connected_slaves")};
    const int64_t offset = number(examination, "master_repl_offset");
    for (int i = 0; i < replicas.count && i < REPLICAS_MAX; i++) {
        char field[32];
        snprintf(field, sizeof field, "slave%d", i);
        const struct pawl__info_value replica = pawl__examination_info(examination, field);
        const int64_t own = pawl__info_number(pawl__info_part(replica, "offset"));
        const bool online = pawl__info_is(pawl__info_part(replica, "state"), "online");
        replicas.offline_count += online ? 0 : 1;
        replicas.behind = online ? pawl__max64(replicas.behind, offset - own) : replicas.behind;
        replicas.lag_s =
            pawl__max64(replicas.lag_s, pawl__info_number(pawl__info_part(replica, "lag")));
    }
    return replicas;
}

/* That a failover may lose a lock cannot be helped; a replica that is far behind can. */
static pawl_status examine_replicas(const struct pawl__examination *examination)
{
    const struct replicas replicas = count_replicas(examination);
    const bool known = examination->known[PAWL__SETTING_MIN_REPLICAS];
    const char *least = known ? examination->settings[PAWL__SETTING_MIN_REPLICAS] : "not known";
    char behind[SIZE_SIZE];
    if (replicas.count == 0) {
        return tell(examination, PAWL_FIT, "replicas",
            pawl__format("none: a lock has one home, and there is no failover to lose it in"),
            NULL);
    }
    const bool late = replicas.offline_count > 0 || replicas.lag_s > LAG_S_MAX;
    return tell(examination, PAWL_WARNING, "replicas",
        pawl__format("%lld replicas, %lld of them not in step, at most %s and %lld s behind "
                     "(min-replicas-to-write %s): they learn of a lock after its holder does, so a "
                     "failover may lose one that was just given",
            (long long)replicas.count, (long long)replicas.offline_count,
            show_size(replicas.behind, behind), (long long)replicas.lag_s, least),
        pawl__format("%slet the store that is written to refuse smaller fencing tokens; %s "
                     "CONFIG SET min-replicas-to-write 1 ends writes to a master that is cut off",
            late ? "find out why replicas are behind; " : "", redis_cli(examination)));
}

/* ===== Clients and events ===== */

static pawl_status examine_clients(const struct pawl__examination *examination)
{
    const int64_t used = number(examination, "connected_clients");
    const char *word_used = used == 1 ? "connection" : "connections";
    struct pawl__info_value limit = pawl__examination_info(examination, "maxclients");
    if (limit.text == NULL && examination->known[PAWL__SETTING_MAXCLIENTS]) {
        const char *text = examination->settings[PAWL__SETTING_MAXCLIENTS];
        limit = (struct pawl__info_value){text, strlen(text)};
    }
    const int64_t most = pawl__info_number(limit);
    if (most == 0) {
        return tell(examination, PAWL_FIT, "clients",
            pawl__format("%lld %s; how many it takes may not be asked (CONFIG GET maxclients)",
                (long long)used, word_used),
            NULL);
    }
    const bool little = most - used < most / ROOM_SHARE;
    return tell(examination, little ? PAWL_WARNING : PAWL_FIT, "clients",
        pawl__format("%lld %s of %lld (maxclients)", (long long)used, word_used, (long long)most),
        little ? pawl__format("raise maxclients, or find out who keeps so many connections open")
               : NULL);
}

static pawl_status examine_events(const struct pawl__examination *examination)
{
    const char *events = examination->settings[PAWL__SETTING_EVENTS];
    if (!examination->known[PAWL__SETTING_EVENTS]) {
        return tell(examination, PAWL_FIT, "events",
            pawl__format("whether keyspace events are on may not be asked (CONFIG GET "
                         "notify-keyspace-events): who watches hears of releases, and finds the "
                         "rest by looking"),
            NULL);
    }
    return tell(examination, PAWL_FIT, "events",
        pawl__format("notify-keyspace-events is '%s': who watches %s", events,
            pawl__keyspace_suffices(events, strlen(events))
                ? "is told of everything at once"
                : "hears of releases, and finds the rest by looking (Kghxz would tell everything, "
                  "and costs the server a little for each write)"),
        NULL);
}

/* ===== All of them ===== */

static pawl_status not_allowed(const struct pawl__examination *examination)
{
    return tell(examination, PAWL_WARNING, "info",
        pawl__format("the user may not ask for INFO, so role, persistence, eviction, memory, "
                     "replicas and clients are not known"),
        pawl__format("%s +info", examination->console->config->grant));
}

pawl_status pawl__examine_server(const struct pawl__examination *examination)
{
    static pawl_status (*const topics[])(const struct pawl__examination *) = {examine_mode,
        examine_role, examine_loading, examine_persistence, examine_eviction, examine_memory,
        examine_replicas, examine_clients};
    pawl_status status = examine_version(examination);
    if (examination->info == NULL) {
        return status == PAWL_OK ? not_allowed(examination) : status;
    }
    for (size_t i = 0; i < sizeof topics / sizeof topics[0] && status == PAWL_OK; i++) {
        status = topics[i](examination);
    }
    return status == PAWL_OK ? examine_events(examination) : status;
}
