/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of strategies.c, wherever they are written. */
#ifndef FLASHSALE_STRATEGIES_STRATEGIES_H
#define FLASHSALE_STRATEGIES_STRATEGIES_H

#include "shop/strategy.h"

extern const struct strategy strategy_none;
extern const struct strategy strategy_process_mutex;
extern const struct strategy strategy_setnx_once;
extern const struct strategy strategy_setnx_recursive;
extern const struct strategy strategy_setnx_sleep;
extern const struct strategy strategy_setnx_spin;
extern const struct strategy strategy_setnx_expire;
extern const struct strategy strategy_set_nx_ex;
extern const struct strategy strategy_owner_check;
extern const struct strategy strategy_owner_shared;
extern const struct strategy strategy_lua_release;
extern const struct strategy strategy_reentry_flag;
extern const struct strategy strategy_reentrant;
extern const struct strategy strategy_renew_inline;
extern const struct strategy strategy_renew_ownerless;
extern const struct strategy strategy_renewed;
extern const struct strategy strategy_pawl;
extern const struct strategy strategy_pawl_handoff;
extern const struct strategy strategy_pawl_fair;
extern const struct strategy strategy_pawl_multi;
extern const struct strategy strategy_redlock;
extern const struct strategy strategy_redlock5;
extern const struct strategy strategy_pawl_fenced;
extern const struct strategy strategy_split;
extern const struct strategy strategy_atomic;

#endif
