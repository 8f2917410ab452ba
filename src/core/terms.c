/* SPDX-License-Identifier: Apache-2.0 */
/* What locks of a client have in common and therefore share: the terms that their users chose, and
 * the text of their name. Programs have few sorts of locks, and many of each.
 *
 * Both are counted, without the mutex, so that a lock can be freed by whoever leaves it last, even
 * after its client. While they can be found by others, in the client's terms or in its machine's
 * names, that counts as well. */
#include "core/client.h"

#include "base/alloc.h"

#define KNOWN_MOST 16 /* who chooses something else each time shall not search for ever longer */

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

/* The same among those that are known; those that nobody has any more are forgotten on the way. */
static struct pawl__terms *find(struct pawl__list *known, const struct pawl__terms *chosen)
{
    struct pawl__list *node = known->next;
    while (node != known) {
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

/* Field by field: what was chosen may be shared itself, and its users come and go. */
static struct pawl__terms *make(const struct pawl__terms *chosen)
{
    struct pawl__terms *terms = pawl__alloc(sizeof *terms);
    if (terms != NULL) {
        terms->kind = chosen->kind;
        terms->handoff = chosen->handoff;
        terms->reentry = chosen->reentry;
        terms->renew = chosen->renew;
        terms->unawaited = chosen->unawaited;
        terms->lease_us = chosen->lease_us;
        terms->max_hold_us = chosen->max_hold_us;
        terms->warn_us = chosen->warn_us;
        terms->on_risk = chosen->on_risk;
        terms->on_lost = chosen->on_lost;
        pawl__list_init(&terms->node);
        atomic_store(&terms->users, 1); /* the client itself */
    }
    return terms;
}

/* Those that were not asked for lately are known to their locks alone. */
static void forget_surplus(struct pawl__list *known)
{
    struct pawl__list *node = known->next;
    for (int i = 0; i < KNOWN_MOST && node != known; i++) {
        node = node->next;
    }
    if (node != known) {
        drop(PAWL__CONTAINER(node, struct pawl__terms, node));
    }
}

struct pawl__terms *pawl__terms_share(struct pawl_client *client, const struct pawl__terms *chosen)
{
    struct pawl__terms *terms = find(&client->terms, chosen);
    terms = terms != NULL ? terms : make(chosen);
    if (terms == NULL) {
        return NULL;
    }
    pawl__list_remove(&terms->node);
    pawl__list_push_front(&client->terms, &terms->node);
    atomic_fetch_add(&terms->users, 1);
    forget_surplus(&client->terms);
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
