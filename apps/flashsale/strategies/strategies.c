/* SPDX-License-Identifier: Apache-2.0 */
/* The strategies, in the order of the story. Adding one is adding its row here, and the struct that
 * it names to a file beside this one. */
#include "strategies/strategies.h"

#include "common/say.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_SIZE = 600 };

const struct strategy *const strategies[] = {
    &strategy_none,
    &strategy_process_mutex,
    &strategy_setnx_once,
    &strategy_setnx_recursive,
    &strategy_setnx_sleep,
    &strategy_setnx_spin,
    &strategy_setnx_expire,
    &strategy_set_nx_ex,
    &strategy_owner_check,
    &strategy_owner_shared,
    &strategy_lua_release,
    &strategy_reentry_flag,
    &strategy_reentrant,
    &strategy_renew_inline,
    &strategy_renew_ownerless,
    &strategy_renewed,
    &strategy_pawl,
    &strategy_pawl_handoff,
    &strategy_pawl_fair,
    &strategy_pawl_multi,
    &strategy_redlock,
    &strategy_redlock5,
    &strategy_pawl_fenced,
    &strategy_split,
    &strategy_atomic,
    NULL,
};

const struct strategy *strategy_find(const char *name)
{
    for (size_t i = 0; strategies[i] != NULL; i++) {
        if (strcmp(strategies[i]->name, name) == 0) {
            return strategies[i];
        }
    }
    return NULL;
}

int strategy_say_unknown(const char *name)
{
    char names[NAMES_SIZE] = "";
    size_t length = 0;
    for (size_t i = 0; strategies[i] != NULL && length < sizeof names; i++) {
        length += (size_t)snprintf(
            names + length, sizeof names - length, "%s%s", i > 0 ? ", " : "", strategies[i]->name);
    }
    return say_usage("no strategy '%.64s'; there are %s", name, names);
}
