/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences for requests about counts that ended without what was asked for, from what this side
 * knows. An op may be out while they are made, so they read nothing that the engine writes. */
#include "core/tally.h"

#include "base/alloc.h"
#include "base/error.h"

static const char *busy_words(const struct pawl__tally *tally)
{
    if (tally->ask.verb == PAWL__TALLY_AWAIT) {
        return "it has not been counted down to zero yet";
    }
    if (tally->unset) {
        return "nobody has set its permits yet (pawl_semaphore_set)";
    }
    return tally->ask.amount == 1 ? "all its permits are taken"
                                  : "fewer permits are free than asked for";
}

char *pawl__tally_explain(const struct pawl__tally *tally, pawl_status status)
{
    const struct pawl__name *name = tally->name;
    const bool latch = pawl__name_family(name) == PAWL__FAMILY_LATCH;
    const char *words = "no answer in time";
    char shown[128];
    if (status == PAWL_BUSY) {
        words = busy_words(tally);
    } else if (status == PAWL_CANCELED) {
        words = "the wait was canceled";
    } else if (status == PAWL_UNAVAILABLE && name->traffic->error != NULL) {
        return pawl__strdup(name->traffic->error);
    }
    return pawl__format("%s '%s': %s", latch ? "latch" : "semaphore",
        pawl__printable(name->node.key, name->node.key_size, shown, sizeof shown), words);
}
