/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of the families that are kept otherwise than a mutex: spin (a release tells nobody),
 * plain (a string instead of a hash), and shared (readers and a writer). The other half of
 * commands.c; the scripts say what is done. */
#ifndef PAWL_ENGINE_REDIS_COMMANDS_FAMILIES_H
#define PAWL_ENGINE_REDIS_COMMANDS_FAMILIES_H

#include "engine/redis/commands.h"
#include "engine/redis/lua_scripts.h"

/* Is this operation written otherwise than a mutex's? */
bool pawl__command_differs(enum pawl__family family, enum pawl__op_kind kind);

/* The same as pawl__command_put(), for operations that differ. */
__attribute__((warn_unused_result)) bool pawl__command_put_family(struct pawl__commands *commands,
    struct pawl__buffer *out, const struct pawl__op *ops, bool whole);

/* How the calls of these scripts begin. */
void pawl__family_scripts_init(struct pawl__script_head *heads);

/* Renewals by a script that takes an owner string and a lease for each key. In commands.c. */
__attribute__((warn_unused_result)) bool pawl__command_put_renewals(
    const struct pawl__commands *commands, struct pawl__buffer *out, const struct pawl__op *ops,
    const struct pawl__script *script, bool whole);

#endif
