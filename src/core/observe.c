/* SPDX-License-Identifier: Apache-2.0 */
/* Watching; observe.h says how. */
#include "core/observe.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/limits.h"
#include "base/thread.h"

#include <assert.h>
#include <string.h>

enum {
    US_PER_MS = 1000,
    SLICE_US = 100 * US_PER_MS, /* the longest sleep without asking whether the client closes */
    REST = 3,                   /* after a look at everything rest so many times as long */
    LATE_US = 100 * US_PER_MS,  /* a lease this close to its end when last seen has run out */
    HOLDS_MAX = 64 << 10,       /* that are remembered */
    SPOTS_MAX = HOLDS_MAX + (4 << 10),
    OWED_US = 1000 * US_PER_MS, /* so long a message may be on its way */
    OWED_MAX = 1000,
};

struct event {
    struct pawl__list node;
    pawl_change change;
    bool exact;
    pawl_kind kind;
    struct pawl__sight *sight; /* NULL: no more is known */
    char name[];
};

static pawl_status no_memory(void)
{
    return pawl__fail(PAWL_NO_MEMORY, "no memory for what is watched");
}

/* ===== Events ===== */

/* Takes the sight, even if there is no memory. */
static bool add_event(struct pawl__list *events, pawl_change change, bool exact, const char *name,
    pawl_kind kind, struct pawl__sight *sight)
{
    const size_t size = strlen(name) + 1;
    struct event *event = pawl__alloc(sizeof *event + size);
    if (event == NULL) {
        pawl__free(sight);
        return false;
    }
    event->change = change;
    event->exact = exact;
    event->kind = kind;
    event->sight = sight;
    memcpy(event->name, name, size);
    pawl__list_push(events, &event->node);
    return true;
}

static void free_event(struct event *event)
{
    pawl__free(event->sight);
    pawl__free(event);
}

static bool take_event(struct pawl_watch *watch, pawl_watch_event *event_out)
{
    struct pawl__list *node = pawl__list_pop(&watch->events);
    if (node == NULL) {
        return false;
    }
    struct event *event = PAWL__CONTAINER(node, struct event, node);
    *event_out = (pawl_watch_event){.size = sizeof *event_out,
        .change = event->change,
        .exact = event->exact,
        .entry = {
            .size = sizeof event_out->entry, .kind = event->kind, .since_ms = -1, .waiters = -1}};
    pawl__text_copy(event_out->entry.name, sizeof event_out->entry.name, event->name);
    if (event->sight != NULL) {
        pawl__sight_show(event->sight, &event_out->entry);
    }
    event_out->entry.held = event->change == PAWL_ACQUIRED;
    free_event(event);
    return true;
}

/* ===== Looking ===== */

/* One look, at everything or at one name. */
struct look {
    struct pawl_watch *watch;
    const struct pawl__hint *hint; /* that caused it; NULL: none did */
    bool exact;                    /* the engine's hints tell everything */
    bool silent;                   /* the first one: what is held is no event */
    int64_t now_us;
    pawl_status status;
    unsigned ended;          /* holds that are gone */
    struct pawl__list begun; /* to be told after what has ended */
};

static struct look look_begin(struct pawl_watch *watch, const struct pawl__hint *hint)
{
    const struct pawl__engine *engine = watch->client->engine;
    watch->round++;
    return (struct look){.watch = watch,
        .hint = hint,
        .exact = hint != NULL && engine->watch_exact != NULL &&
                 engine->watch_exact(watch->client->self, watch->engine_watch),
        .now_us = pawl__now_us(),
        .status = PAWL_OK};
}

/* Was this change told at its moment? */
static bool was_told(const struct look *look, pawl_change change)
{
    return look->exact || (look->hint != NULL && look->hint->change == change);
}

/* A hold that was not known before. */
static bool begin_hold(struct look *look, struct pawl__spot *spot, const pawl_entry *entry)
{
    struct pawl__sight *sight = pawl__sight_new(entry);
    struct pawl__sight *shown = look->silent ? NULL : pawl__sight_new(entry);
    if (sight == NULL || (shown == NULL && !look->silent)) {
        pawl__free(sight);
        pawl__free(shown);
        return false;
    }
    pawl__sight_update(sight, entry, look->watch->round, look->now_us);
    sight->next = spot->sights;
    spot->sights = sight;
    look->watch->hold_count++;
    if (look->silent) {
        return true;
    }
    pawl__sight_update(shown, entry, 0, look->now_us);
    return add_event(&look->begun, PAWL_ACQUIRED, was_told(look, PAWL_ACQUIRED), entry->name,
        entry->kind, shown);
}

/* Runs for each hold that the backend shows. */
static bool see(const pawl_entry *entry, void *arg)
{
    struct look *look = arg;
    struct pawl_watch *watch = look->watch;
    if (pawl__call_closing(watch->client)) {
        look->status = pawl__fail(PAWL_CANCELED, "the client was closed");
        return false;
    }
    look->now_us = pawl__now_us();
    struct pawl__spot *spot = pawl__spot_find(&watch->spots, entry->name);
    struct pawl__sight *sight = spot != NULL ? pawl__spot_sight(spot, entry->holder) : NULL;
    if (sight != NULL) {
        pawl__sight_update(sight, entry, watch->round, look->now_us);
        return true;
    }
    if (watch->hold_count >= HOLDS_MAX) {
        look->status = pawl__fail(PAWL_NO_MEMORY,
            "more than %d holds match, and a watch remembers no more; choose a narrower pattern",
            HOLDS_MAX);
        return false;
    }
    spot = spot != NULL ? spot : pawl__spot_add(&watch->spots, entry->name);
    const bool begun = spot != NULL && begin_hold(look, spot, entry);
    if (!begun) {
        look->status = no_memory(); /* a spot without a hold goes with the next look around */
    }
    return begun;
}

/* Is the lock in the hands of the same client now? */
static bool passed_on(
    const struct pawl__spot *spot, const struct pawl__sight *ended, uint64_t round)
{
    const size_t client_size = strcspn(ended->holder, ":") + 1;
    for (const struct pawl__sight *sight = spot->sights; sight != NULL; sight = sight->next) {
        if (sight->round == round && strncmp(sight->holder, ended->holder, client_size) == 0) {
            return true;
        }
    }
    return false;
}

/* A hold is gone, and unless a message said how: by how long it would have lasted. That permits of
 * a semaphore came back says nothing of any of them. */
static pawl_change how_it_ended(
    const struct look *look, const struct pawl__spot *spot, const struct pawl__sight *sight)
{
    const pawl_change told = look->hint != NULL ? look->hint->change : 0;
    if (told == PAWL_EXPIRED || (told == PAWL_RELEASED && sight->kind != PAWL_SEMAPHORE)) {
        return told;
    }
    const bool limited = sight->remaining_ms >= 0;
    if (!limited || passed_on(spot, sight, look->watch->round)) {
        return PAWL_RELEASED;
    }
    const int64_t end_us = pawl__later(sight->seen_us, sight->remaining_ms * US_PER_MS);
    return end_us <= look->now_us + LATE_US ? PAWL_EXPIRED : PAWL_RELEASED;
}

/* So many messages about this name may still be on their way. */
static void owe(struct look *look, struct pawl__spot *spot, unsigned count)
{
    if (count > 0 && spot->owed_count < OWED_MAX) {
        spot->owed_count += count;
        spot->owed_us = look->now_us;
    }
}

/* Holds of a name have ended. Each permit has a message, and somebody tells of those that were not
 * given back, too; a lock has one when nobody holds it any more. */
static void owe_messages(
    struct look *look, struct pawl__spot *spot, pawl_kind kind, pawl_change change, unsigned ended)
{
    const bool told = look->hint != NULL && look->hint->change == PAWL_RELEASED;
    if (kind == PAWL_SEMAPHORE) {
        owe(look, spot, told && ended > 0 ? ended - 1 : ended);
    } else if (spot->sights == NULL && change == PAWL_RELEASED && !told) {
        owe(look, spot, 1);
    }
}

/* Tell of the holds of a name that this look did not see. The spot may be gone afterwards. */
static void end_unseen(struct look *look, struct pawl__spot *spot)
{
    struct pawl_watch *watch = look->watch;
    struct pawl__sight **link = &spot->sights;
    pawl_change change = 0;
    pawl_kind kind = PAWL_MUTEX;
    unsigned ended = 0;
    while (*link != NULL) {
        struct pawl__sight *sight = *link;
        if (sight->round == watch->round) {
            link = &sight->next;
            continue;
        }
        change = how_it_ended(look, spot, sight);
        kind = sight->kind;
        ended++;
        *link = sight->next;
        sight->next = NULL;
        watch->hold_count--;
        if (!add_event(&watch->events, change, was_told(look, change), spot->name, kind, sight)) {
            look->status = no_memory();
        }
    }
    look->ended += ended;
    owe_messages(look, spot, kind, change, ended);
    if (spot->sights == NULL && (spot->owed_count == 0 || watch->spots.count > SPOTS_MAX)) {
        pawl__spot_drop(&watch->spots, spot);
    }
}

static pawl_status look_end(struct look *look, pawl_status status)
{
    pawl__list_splice(&look->watch->events, &look->begun);
    return look->status != PAWL_OK ? look->status : status;
}

/* Look at everything. */
static pawl_status look_around(struct pawl_watch *watch, bool silent)
{
    struct pawl_client *client = watch->client;
    struct look look = look_begin(watch, NULL);
    const int64_t start_us = look.now_us;
    look.silent = silent;
    pawl__list_init(&look.begun);
    const pawl_status status = client->engine->list(client->self, watch->pattern, see, &look);
    look.now_us = pawl__now_us();
    if (status == PAWL_OK && look.status == PAWL_OK) {
        struct pawl__map_node *node = pawl__map_next(&watch->spots, NULL);
        while (node != NULL) {
            struct pawl__spot *spot = pawl__spot_of(node);
            node = pawl__map_next(&watch->spots, node);
            if (spot->sights != NULL) {
                end_unseen(&look, spot);
            } else if (look.now_us - spot->owed_us > OWED_US) {
                pawl__spot_drop(&watch->spots, spot);
            }
        }
    }
    const int64_t rest_us = REST * (look.now_us - start_us);
    watch->earliest_us = look.now_us + rest_us;
    watch->next_us = look.now_us + pawl__max64(rest_us, watch->look_us);
    return look_end(&look, status);
}

/* Tell all holds of one name to see(). A key that is no lock holds nothing. */
static pawl_status show_name(struct pawl_watch *watch, const char *name, struct look *look)
{
    struct pawl_client *client = watch->client;
    const size_t size = strlen(name);
    pawl_entry entry = {.size = sizeof entry, .since_ms = -1, .waiters = -1};
    pawl__text_copy(entry.name, sizeof entry.name, name);
    const pawl_status status = client->engine->look(client->self, name, size, &entry);
    if (status == PAWL_REFUSED) {
        return PAWL_OK;
    }
    if (status != PAWL_OK || !entry.held) {
        return status;
    }
    if (entry.kind == PAWL_READ || entry.kind == PAWL_WRITE || entry.kind == PAWL_SEMAPHORE) {
        /* it may have several */
        char pattern[2 * PAWL__NAME_SIZE_MAX + 1];
        pawl__glob_escape(name, size, pattern);
        return client->engine->list(client->self, pattern, see, look);
    }
    see(&entry, look);
    return PAWL_OK;
}

/* Is this the message of a release that was told already? Then it tells nothing more. */
static bool was_owed(struct pawl__spot *spot, const struct pawl__hint *hint)
{
    if (hint->change != PAWL_RELEASED || spot == NULL || spot->owed_count == 0) {
        return false;
    }
    spot->owed_count--;
    return pawl__now_us() - spot->owed_us <= OWED_US;
}

/* Look at the name of a hint. */
static pawl_status look_at(struct pawl_watch *watch, struct pawl__hint *hint)
{
    struct pawl__spot *spot = pawl__spot_find(&watch->spots, hint->name);
    const bool known = spot != NULL && spot->sights != NULL;
    if (!known && hint->change == PAWL_EXPIRED) {
        return PAWL_OK; /* some other key, or told already */
    }
    if (was_owed(spot, hint)) {
        hint->change = 0;
    }
    struct look look = look_begin(watch, hint);
    pawl__list_init(&look.begun);
    const pawl_status status = show_name(watch, hint->name, &look);
    look.now_us = pawl__now_us();
    spot = pawl__spot_find(&watch->spots, hint->name);
    if (status == PAWL_OK && look.status == PAWL_OK && spot != NULL && spot->sights != NULL) {
        end_unseen(&look, spot);
    }
    const bool unseen = !known || (hint->kind == PAWL_SEMAPHORE && look.ended == 0);
    if (unseen && hint->change == PAWL_RELEASED && status == PAWL_OK &&
        !add_event(&watch->events, PAWL_RELEASED, true, hint->name, hint->kind, NULL)) {
        look.status = no_memory();
    }
    return look_end(&look, status);
}

/* ===== Opening and closing ===== */

void pawl__watch_free(struct pawl_watch *watch)
{
    struct pawl__list *event = NULL;
    while ((event = pawl__list_pop(&watch->events)) != NULL) {
        free_event(PAWL__CONTAINER(event, struct event, node));
    }
    struct pawl__map_node *node = pawl__map_next(&watch->spots, NULL);
    while (node != NULL) {
        struct pawl__spot *spot = pawl__spot_of(node);
        node = pawl__map_next(&watch->spots, node);
        pawl__spot_drop(&watch->spots, spot);
    }
    pawl__map_free(&watch->spots);
    pawl__free(watch->pattern);
    pawl__free(watch);
}

static struct pawl_watch *watch_new(
    struct pawl_client *client, const char *pattern, int64_t look_us)
{
    struct pawl_watch *watch = pawl__alloc(sizeof *watch);
    if (watch == NULL) {
        return NULL;
    }
    watch->client = client;
    watch->forks = client->forks;
    watch->look_us = look_us;
    pawl__list_init(&watch->node);
    pawl__list_init(&watch->events);
    watch->pattern = pattern != NULL ? pawl__strdup(pattern) : NULL;
    const bool map = pawl__map_init(&watch->spots);
    if (!map || (pattern != NULL && watch->pattern == NULL)) {
        pawl__watch_free(watch);
        return NULL;
    }
    return watch;
}

pawl_status pawl__watch_open(
    struct pawl_client *client, const char *pattern, int64_t look_us, struct pawl_watch **watch_out)
{
    const struct pawl__engine *engine = client->engine;
    struct pawl_watch *watch = watch_new(client, pattern, look_us);
    if (watch == NULL) {
        return no_memory();
    }
    pawl_status status = engine->watch_open(client->self, watch->pattern, &watch->engine_watch);
    if (status == PAWL_OK) {
        status = look_around(watch, true);
        if (status != PAWL_OK) {
            engine->watch_close(client->self, watch->engine_watch);
        }
    }
    if (status != PAWL_OK) {
        pawl__watch_free(watch);
        return status;
    }
    pthread_mutex_lock(&client->mutex);
    pawl__list_push(&client->watches, &watch->node);
    pthread_mutex_unlock(&client->mutex);
    *watch_out = watch;
    return PAWL_OK;
}

/* ===== Waiting ===== */

/* One look, or one short wait for a hint and what it asks for. */
static pawl_status take_step(struct pawl_watch *watch, int64_t deadline_us)
{
    struct pawl_client *client = watch->client;
    const int64_t now_us = pawl__now_us();
    struct pawl__hint hint = {.change = 0};
    if (now_us >= watch->next_us) {
        return look_around(watch, false);
    }
    const int64_t until_us =
        pawl__min64(pawl__min64(deadline_us, watch->next_us), now_us + SLICE_US);
    const pawl_status status =
        client->engine->watch_wait(client->self, watch->engine_watch, until_us, &hint);
    if (status != PAWL_OK) {
        return status == PAWL_BUSY ? PAWL_OK : status;
    }
    if (hint.name[0] != '\0') {
        return look_at(watch, &hint);
    }
    watch->next_us = pawl__min64(watch->next_us, pawl__max64(now_us, watch->earliest_us));
    return PAWL_OK;
}

/* An outage: a moment's pause, and whatever was missed has to be looked for. */
static void pause_after_fault(struct pawl_watch *watch, int64_t deadline_us)
{
    struct pawl__waiter nobody;
    const int64_t later_us = pawl__now_us() + SLICE_US;
    pawl__waiter_init(&nobody);
    watch->next_us = pawl__min64(watch->next_us, pawl__max64(later_us, watch->earliest_us));
    pawl__waiter_sleep(&nobody, pawl__min64(deadline_us, later_us));
}

pawl_status pawl__watch_next(
    struct pawl_watch *watch, int64_t deadline_us, pawl_watch_event *event_out)
{
    struct pawl_client *client = watch->client;
    const int64_t give_up_us = client->machine.give_up_us; /* set once, at open */
    int64_t answered_us = pawl__now_us();
    pawl_status status = PAWL_OK;
    for (;;) {
        if (take_event(watch, event_out)) {
            return PAWL_OK;
        }
        if (pawl__call_closing(client)) {
            return pawl__fail(PAWL_CANCELED, "the client was closed");
        }
        status = take_step(watch, deadline_us);
        const int64_t now_us = pawl__now_us();
        const int64_t end_us = pawl__min64(deadline_us, pawl__later(answered_us, give_up_us));
        if (status == PAWL_OK) {
            answered_us = now_us;
        } else if (status != PAWL_UNAVAILABLE) {
            return status;
        } else {
            pause_after_fault(watch, end_us);
        }
        if (now_us >= (status == PAWL_OK ? deadline_us : end_us) &&
            pawl__list_empty(&watch->events)) {
            break;
        }
    }
    return status == PAWL_OK ? pawl__fail(PAWL_BUSY, "nothing happened within the wait") : status;
}
