/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences for requests about counts that ended without what was asked for, from what this side
 * knows; and what may be left of one. An op may be out while they are made, so they read nothing
 * that the engine writes. */
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

unsigned pawl__tally_at_stake(const struct pawl__tally *tally)
{
    const bool leased = pawl__name_family(tally->name) == PAWL__FAMILY_PERMITS;
    const unsigned permits = leased ? PAWL__UNHEARD_LEASE : PAWL__UNHEARD_PERMITS;
    switch (tally->ask.verb) {
    case PAWL__TALLY_GIVE:
        return PAWL__UNHEARD_RELEASE | permits;
    case PAWL__TALLY_TAKE:
    case PAWL__TALLY_DRAIN:
    case PAWL__TALLY_UNDO:
        return permits;
    case PAWL__TALLY_DOWN:
        return PAWL__UNHEARD_RELEASE | PAWL__UNHEARD_LATCH;
    case PAWL__TALLY_READ:
    case PAWL__TALLY_SET:
    case PAWL__TALLY_ADD:
    case PAWL__TALLY_EXTEND:
    case PAWL__TALLY_RESET:
    case PAWL__TALLY_AWAIT:
        break; /* nothing, or what its caller was told */
    }
    return 0;
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
