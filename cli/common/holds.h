/* SPDX-License-Identifier: Apache-2.0 */
/* Holds, as `ls`, `watch` and `top` show them: collected from the library, in order of their names,
 * as a table and as JSON. */
#ifndef PAWL_COMMON_HOLDS_H
#define PAWL_COMMON_HOLDS_H

#include "pawl.h"
#include "text/json.h"
#include "text/table.h"
#include "text/text.h"

#include <stdatomic.h>

#define CLI_PERMITS_UNKNOWN INT64_MIN

/* One hold: what pawl_entry has, in as much memory as it takes. */
struct cli_hold {
    char *name;
    char *holder;
    char *host;
    char *command;
    pawl_kind kind;
    bool held;
    unsigned hold_count;
    int64_t remaining_ms;
    uint64_t token;
    int64_t pid;
    int64_t since_ms;
    int64_t waiters;
    int64_t permits; /* of a semaphore; what is left of a latch; or CLI_PERMITS_UNKNOWN */
    int64_t free_permits;
};

struct cli_holds {
    struct cli_hold *items;
    size_t count;
    size_t room;
    atomic_size_t seen; /* the same as count, for another thread */
};

#define CLI_HOLDS_INIT \
    {                  \
        NULL, 0, 0, 0  \
    }

/* A pawl_entry_callback; arg is the struct cli_holds. */
bool cli_holds_collect(const pawl_entry *entry, void *arg);

void cli_holds_sort(struct cli_holds *holds); /* by name, a writer first, then by holder */
void cli_holds_free(struct cli_holds *holds);

struct cli_hold cli_hold_from(const pawl_entry *entry);
void cli_hold_free(struct cli_hold *hold);

/* "mutex" */
const char *cli_kind_name(pawl_kind kind);

/* Can several hold it at a time? */
bool cli_kind_is_shared(pawl_kind kind);

/* Who holds it, for people and safe to show: "db7:2231 backup.sh", or the owner string if that is
 * all that is known. */
void cli_hold_add_who(const struct cli_hold *hold, struct cli_text *text);

/* A JSON object; its members alone; and those of them that are about the holder. */
void cli_hold_json(struct cli_json *json, const char *key, const struct cli_hold *hold);
void cli_hold_json_members(struct cli_json *json, const struct cli_hold *hold);
void cli_hold_json_holder(struct cli_json *json, const struct cli_hold *hold);

/* All of them as a table or as a list of JSON objects. */
void cli_holds_table(
    const struct cli_holds *holds, const struct cli_table_limits *limits, struct cli_text *text);
void cli_holds_json(struct cli_json *json, const char *key, const struct cli_holds *holds);

#endif
