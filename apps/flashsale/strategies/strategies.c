/* SPDX-License-Identifier: Apache-2.0 */
/* The strategies, in the order of the story. Adding one is adding its row here, and the struct that
 * it names to a file beside this one. */
#include "strategies/strategies.h"

#include <string.h>

const struct strategy *const strategies[] = {
    &strategy_none,
    &strategy_process_mutex,
    &strategy_pawl,
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
