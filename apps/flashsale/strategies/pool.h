/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way in by one of pawl's locks, for thousands of orders that wait without a thread each: a
 * pool of handles. The strategies that use it differ in the kind of lock, or in how they sell.
 */
#ifndef FLASHSALE_STRATEGIES_POOL_H
#define FLASHSALE_STRATEGIES_POOL_H

#include "pawl.h"
#include "shop/strategy.h"

/* The steps of a strategy; pool_open() is for pawl's mutex as it is. */
bool pool_open(struct shop *shop, void **state_out, char *why, size_t why_size);
bool pool_open_kind(struct shop *shop, pawl_kind kind, unsigned handoff, void **state_out,
    char *why, size_t why_size);
void pool_close(struct shop *shop, void *state);
void pool_cancel(struct shop *shop, void *state);
void pool_enter(struct shop *shop, struct order *order);
void pool_leave(struct seller *seller, struct order *order);

/* For strategies that use pawl without the pool: what a status means for an order, and what to do
 * when a lock is lost (the argument is the shop). */
enum entry pool_entry_of(pawl_status status);
void pool_lost(const pawl_event *event, void *arg);

#endif
