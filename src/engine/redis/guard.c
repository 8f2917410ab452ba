/* SPDX-License-Identifier: Apache-2.0 */
/* Judging INFO; guard.h says what for. */
#include "engine/redis/guard.h"

#include "engine/redis/info.h"

#include <stdio.h>
#include <string.h>

static bool is_present_and_not(struct pawl__info_value value, const char *text)
{
    return value.text != NULL && !pawl__info_is(value, text);
}

void pawl__redis_facts_read(struct pawl__redis_facts *facts, const char *info, size_t info_size)
{
    const struct pawl__info_value policy = pawl__info_find(info, info_size, "maxmemory_policy");
    const struct pawl__info_value limit = pawl__info_find(info, info_size, "maxmemory");
    pawl__info_word(
        pawl__info_find(info, info_size, "run_id"), facts->run_id, sizeof facts->run_id);
    pawl__info_word(policy, facts->policy, sizeof facts->policy);
    facts->time_us = pawl__info_number(pawl__info_find(info, info_size, "server_time_usec"));
    facts->uptime_us =
        pawl__info_number(pawl__info_find(info, info_size, "uptime_in_seconds")) * 1000000;
    facts->replica = is_present_and_not(pawl__info_find(info, info_size, "role"), "master");
    facts->loading = pawl__info_is(pawl__info_find(info, info_size, "loading"), "1") ||
                     pawl__info_is(pawl__info_find(info, info_size, "async_loading"), "1");
    facts->failing_over = is_present_and_not(
        pawl__info_find(info, info_size, "master_failover_state"), "no-failover");
    facts->evicts = is_present_and_not(limit, "0") && is_present_and_not(policy, "noeviction");
}

static void refuse(struct pawl__fitness *fitness, const char *sentence)
{
    fitness->status = PAWL_REFUSED;
    fitness->sentence = sentence;
}

void pawl__redis_guard(
    const struct pawl__redis_facts *facts, pawl_guard guard, struct pawl__fitness *fitness)
{
    fitness->status = PAWL_OK;
    fitness->sentence = NULL;
    if (guard == PAWL_GUARD_OFF) {
        return;
    }
    if (facts->replica) {
        refuse(fitness, "the server is a replica and no place for a lock; name its master");
    } else if (facts->loading) {
        refuse(
            fitness, "the server is still loading its data, and can be used when it has finished");
    } else if (facts->failing_over) {
        refuse(fitness, "the server is handing over to another one (failover); try again after it");
    } else if (facts->evicts) {
        snprintf(fitness->text, sizeof fitness->text,
            "the server may evict locks when memory is short (maxmemory is set, with "
            "maxmemory-policy %s)%s",
            facts->policy[0] != '\0' ? facts->policy : "?",
            guard == PAWL_GUARD_ENFORCE
                ? "; set maxmemory-policy noeviction, or accept it with ?guard=warn"
                : "; maxmemory-policy noeviction would keep them");
        fitness->status = guard == PAWL_GUARD_ENFORCE ? PAWL_REFUSED : PAWL_OK;
        fitness->sentence = fitness->text;
    }
}
