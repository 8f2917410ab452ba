/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renewal by a timer: one thread and one connection for all holds of this process under one
 * strategy. Each hold that was begun is renewed every third of its lease by a script, which gets
 * the key, the owner and the lease and answers 1 (renewed) or 0 (nothing to renew: no more then).
 */
#ifndef FLASHSALE_STRATEGIES_RENEWAL_H
#define FLASHSALE_STRATEGIES_RENEWAL_H

#include <stdbool.h>
#include <stddef.h>

struct embedded;
struct shop;
struct renewal; /* of one hold */
struct renewals;

/* NULL: `why` says what is missing. */
struct renewals *renewals_open(
    struct shop *shop, const struct embedded *script, char *why, size_t why_size);

/* Ends the thread, and with it all renewals. */
void renewals_close(struct renewals *renewals);

/* The first renewal comes after a third of the lease. The hold must be ended with renewal_end(),
 * unless it is `astray`: then it ends by itself when the script answers 0, and NULL is given. NULL
 * otherwise: out of memory. */
struct renewal *renewal_begin(struct renewals *renewals, const char *owner, bool astray);

/* No renewal of this hold is under way or will begin. NULL is fine. */
void renewal_end(struct renewals *renewals, struct renewal *renewal);

#endif
