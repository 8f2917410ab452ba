/* SPDX-License-Identifier: Apache-2.0 */
/* What locks of a client have in common and therefore share: the terms that their users chose, and
 * the text of their name. Programs have few sorts of locks, and many of each.
 *
 * Both are counted, without the mutex, so that a lock can be freed by whoever leaves it last, even
 * after its client. While they can be found by others, in the client's terms or in its machine's
 * names, that counts as well. */
#include "core/client.h"

#include "base/alloc.h"

#define LOOKED_AT 16 /* who chooses something else each time shall not search for ever longer */

static bool are_same(const struct pawl__terms *one, const struct pawl__terms *other)
{
    return one->kind == other->kind && one->handoff == other->handoff &&
           one->reentry == other->reentry && one->renew == other->renew &&
           one->unawaited == other->unawaited && one->lease_us == other->lease_us &&
           one->max_hold_us == other->max_hold_us && one->warn_us == other->warn_us &&
           one->on_risk == other->on_risk && one->on_lost == other->on_lost;
}

static void drop(struct pawl__terms *terms)
{
    pawl__list_remove(&terms->node);
    pawl__terms_leave(terms);
}

/* The same among those that were asked for last; those that nobody has any more are forgotten on
 * the way. */
static struct pawl__terms *find(struct pawl__list *known, const struct pawl__terms *chosen)
{
    struct pawl__list *node = known->next;
    for (int i = 0; i < LOOKED_AT && node != known; i++) {
        struct pawl__terms *terms = PAWL__CONTAINER(node, struct pawl__terms, node);
        node = node->next;
        if (are_same(terms, chosen)) {
            return terms;
        }
        if (atomic_load(&terms->users) == 1) {
            drop(terms);
        }
    }
    return NULL;
}

struct pawl__terms *pawl__terms_share(struct pawl_client *client, const struct pawl__terms *chosen)
{
    struct pawl__terms *terms = find(&client->terms, chosen);
    if (terms == NULL) {
        terms = pawl__alloc(sizeof *terms);
        if (terms == NULL) {
            return NULL;
        }
        *terms = *chosen;
        pawl__list_init(&terms->node);
        atomic_store(&terms->users, 1); /* the client itself */
    }
    pawl__list_remove(&terms->node);
    pawl__list_push_front(&client->terms, &terms->node);
    atomic_fetch_add(&terms->users, 1);
    return terms;
}

void pawl__terms_leave(struct pawl__terms *terms)
{
    if (atomic_fetch_sub(&terms->users, 1) == 1) {
        pawl__free(terms);
    }
}

void pawl__terms_forget(struct pawl_client *client)
{
    while (!pawl__list_empty(&client->terms)) {
        drop(PAWL__CONTAINER(client->terms.next, struct pawl__terms, node));
    }
}

void pawl__name_leave(struct pawl__name *name)
{
    if (atomic_fetch_sub(&name->keepers, 1) == 1) {
        pawl__name_free(name);
    }
}
