/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A crew: some worker threads and the queue before them. The shop has three: sellers, who carry
 * orders out from the beginning and may have to wait for a hand-written lock; tills, for orders
 * that waited without a thread and are inside now, so that nobody keeps the lock while all sellers
 * wait for it; and the desk, for everything that is no order.
 *
 * Whoever became idle last is the next to get work: few threads stay warm, and the others sleep.
 */
#ifndef FLASHSALE_SHOP_CREW_H
#define FLASHSALE_SHOP_CREW_H

#include <stdbool.h>

struct seller;
struct shop;
struct crew;

/* Something to do, inside whatever it is about. */
struct task {
    void (*run)(struct seller *seller, struct task *task);
    struct task *next;
};

/* NULL: no memory or no threads. The sellers are numbered from first_number. */
struct crew *crew_start(struct shop *shop, int count, int first_number);

/* Have it done by the next free worker. */
void crew_give(struct crew *crew, struct task *task);

/* By a worker, inside a task: the first of the tasks that are given on this thread, until it says
 * false again, is its own next one, and nobody has to be woken for it. */
void crew_keep_next(struct seller *seller, bool keep);

/* By a worker, inside a task: whether it has a next one already. */
bool crew_has_next(struct seller *seller);

/* Do what is still in the queue, and end. */
void crew_stop(struct crew *crew);

#endif
