/* SPDX-License-Identifier: Apache-2.0 */
/* The fitness guard: which servers are refused, from the text of INFO alone.
 *
 * Method: texts as servers of different versions send them, and broken ones. */
#include "engine/redis/guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define RUN_ID "0123456789abcdef0123456789abcdef01234567"
#define HEALTHY                                                                                \
    "# Server\r\nredis_version:7.0.15\r\nrun_id:" RUN_ID "\r\n\r\n# Memory\r\nmaxmemory:0\r\n" \
    "maxmemory_human:0B\r\nmaxmemory_policy:noeviction\r\n\r\n# Persistence\r\nloading:0\r\n"  \
    "async_loading:0\r\n\r\n# Replication\r\nrole:master\r\n"                                  \
    "master_failover_state:no-failover\r\n"

static struct pawl__redis_facts facts_of(const char *info)
{
    struct pawl__redis_facts facts;
    memset(&facts, 0x5a, sizeof facts);
    pawl__redis_facts_read(&facts, info, strlen(info));
    return facts;
}

static void healthy_server(void **state)
{
    (void)state;
    const struct pawl__redis_facts facts = facts_of(HEALTHY);
    assert_string_equal(facts.run_id, RUN_ID);
    assert_string_equal(facts.policy, "noeviction");
    assert_false(facts.replica || facts.loading || facts.failing_over || facts.evicts);
    for (int guard = PAWL_GUARD_ENFORCE; guard <= PAWL_GUARD_OFF; guard++) {
        struct pawl__fitness fitness;
        pawl__redis_guard(&facts, (pawl_guard)guard, &fitness);
        assert_int_equal(fitness.status, PAWL_OK);
        assert_null(fitness.sentence);
    }
}

/* Under which guards is it refused, and what does the sentence say? */
static void judge(const char *info, bool enforce, bool warn, const char *part)
{
    const struct pawl__redis_facts facts = facts_of(info);
    const bool refused[] = {enforce, warn, false};
    for (int guard = PAWL_GUARD_ENFORCE; guard <= PAWL_GUARD_OFF; guard++) {
        struct pawl__fitness fitness;
        pawl__redis_guard(&facts, (pawl_guard)guard, &fitness);
        assert_int_equal(fitness.status, refused[guard] ? PAWL_REFUSED : PAWL_OK);
        if (guard == PAWL_GUARD_OFF) {
            assert_null(fitness.sentence);
        } else {
            assert_non_null(fitness.sentence);
            assert_non_null(strstr(fitness.sentence, part));
        }
    }
}

static void unfit_servers(void **state)
{
    (void)state;
    judge("role:slave\r\n", true, true, "replica");
    judge("role:master\r\nloading:1\r\n", true, true, "loading");
    judge("async_loading:1\r\n", true, true, "loading");
    judge("master_failover_state:failover-in-progress\r\n", true, true, "failover");
}

static void evicting_servers(void **state)
{
    (void)state;
    static const char *const policies[] = {"volatile-lru", "allkeys-lru", "volatile-lfu",
        "allkeys-lfu", "volatile-random", "allkeys-random", "volatile-ttl"};
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        char info[128];
        snprintf(info, sizeof info, "maxmemory:1048576\r\nmaxmemory_policy:%s\r\n", policies[i]);
        judge(info, true, false, policies[i]);
    }
    struct pawl__fitness fitness;
    struct pawl__redis_facts facts = facts_of("maxmemory:1\r\nmaxmemory_policy:allkeys-lru\r\n");
    pawl__redis_guard(&facts, PAWL_GUARD_ENFORCE, &fitness);
    assert_non_null(strstr(fitness.sentence, "?guard=warn"));
    assert_non_null(strstr(fitness.sentence, "maxmemory-policy noeviction"));
    facts = facts_of("maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n");
    assert_false(facts.evicts);
    facts = facts_of("maxmemory:1\r\nmaxmemory_policy:noeviction\r\n");
    assert_false(facts.evicts);
}

static void odd_texts(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "\r\n", "run_id", "run_id:", "run_id:\r\n", ":", "\n\n",
        "xrun_id:" RUN_ID, "run_idx:" RUN_ID, "run_id:" RUN_ID "0\r\n", "run_id:a b\r\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const struct pawl__redis_facts facts = facts_of(texts[i]);
        assert_string_equal(facts.run_id, "");
        assert_false(facts.replica || facts.loading || facts.failing_over || facts.evicts);
    }
    /* Lines may end without CR, and the last one without LF. */
    assert_string_equal(facts_of("a:b\nrun_id:" RUN_ID "\nrole:slave").run_id, RUN_ID);
    assert_true(facts_of("run_id:x\nrole:slave").replica);
    /* A policy too long or strange for the sentence is not repeated in it. */
    judge("maxmemory:5\r\nmaxmemory_policy:\x1b[31m\r\n", true, false, "maxmemory-policy ?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(healthy_server),
        cmocka_unit_test(unfit_servers),
        cmocka_unit_test(evicting_servers),
        cmocka_unit_test(odd_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
