/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of strategies.c, wherever they are written. */
#ifndef FLASHSALE_STRATEGIES_STRATEGIES_H
#define FLASHSALE_STRATEGIES_STRATEGIES_H

#include "shop/strategy.h"

extern const struct strategy strategy_none;
extern const struct strategy strategy_process_mutex;
extern const struct strategy strategy_pawl;
extern const struct strategy strategy_atomic;

#endif
