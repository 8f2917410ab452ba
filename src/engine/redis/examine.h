/* SPDX-License-Identifier: Apache-2.0 */
/* Is this server fit to keep locks? Asked on a console of its own and told topic by topic, each
 * with what was seen and what to do about it. What the user may not ask is said, too.
 *
 *   examine.c         asking INFO and CONFIG, and the order of the topics
 *   examine_server.c  what INFO and CONFIG say: version, role, persistence, memory, replicas, ...
 *   examine_access.c  rights, and who else may come in
 *   examine_pace.c    the clock and the time that answers take
 *
 * One thread, on a console that was reached; the database is chosen here. After the first failure
 * nothing more is asked. */
#ifndef PAWL_ENGINE_REDIS_EXAMINE_H
#define PAWL_ENGINE_REDIS_EXAMINE_H

#include "engine/redis/console.h"
#include "engine/redis/info.h"

enum pawl__setting {
    PAWL__SETTING_SAVE,
    PAWL__SETTING_APPENDFSYNC,
    PAWL__SETTING_STOP_WRITES,
    PAWL__SETTING_MIN_REPLICAS,
    PAWL__SETTING_MAXCLIENTS,
    PAWL__SETTING_BIND,
    PAWL__SETTING_PROTECTED,
    PAWL__SETTING_EVENTS,
    PAWL__SETTING_COUNT
};

enum { PAWL__SETTING_SIZE = 256 };

struct pawl__examination {
    struct pawl__console *console;
    pawl_finding_callback each;
    void *arg;
    char *info; /* the text of INFO, NULL: the user may not ask */
    size_t info_size;
    bool known[PAWL__SETTING_COUNT]; /* else the user may not ask, or there is no such setting */
    char settings[PAWL__SETTING_COUNT][PAWL__SETTING_SIZE];
};

/* Examine, and tell. Sets the last error. */
pawl_status pawl__redis_examine(
    struct pawl__console *console, pawl_finding_callback each, void *arg);

/* ===== Between the files ===== */

/* Tell a finding. Takes both texts, from pawl__format(); `remedy` NULL: none is needed. */
pawl_status pawl__examination_tell(const struct pawl__examination *examination,
    pawl_verdict verdict, const char *topic, char *sentence, char *remedy);

/* An error reply that ends the examination. PAWL_BUSY: the server answers nothing for the time
 * being, which has been told as a finding; else why the examination failed. */
pawl_status pawl__examination_refused(const struct pawl__examination *examination,
    const struct pawl__resp_node *reply, const char *what, const char *rights);

pawl_status pawl__examination_tell_loading(const struct pawl__examination *examination);

static inline struct pawl__info_value pawl__examination_info(
    const struct pawl__examination *examination, const char *field)
{
    return examination->info != NULL
               ? pawl__info_find(examination->info, examination->info_size, field)
               : (struct pawl__info_value){NULL, 0};
}

pawl_status pawl__examine_server(const struct pawl__examination *examination);
pawl_status pawl__examine_access(const struct pawl__examination *examination);
pawl_status pawl__examine_pace(const struct pawl__examination *examination);

#endif
