/* SPDX-License-Identifier: Apache-2.0 */
/* What is said on the push connection; push.h describes the whole. */
#include "engine/redis/push.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "engine/redis/errors.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    US_PER_MS = 1000,
    SILENCE_US = 10 * 1000 * US_PER_MS, /* after so long ask for a sign of life */
    ASKS_MIN = 16,
    ASKS_MAX = 1 << 20,
    SENTENCE_SIZE = 256,
    SHOWN_SIZE = 160,
    WAITER_CHANNEL_SIZE = PAWL__COMPOSED_SIZE_MAX + PAWL__UUID_SIZE + 24,
};

static const char no_memory_sentence[] = "no memory for another subscription";

/* ===== What was asked ===== */

static struct pawl__ask *ask_at(const struct pawl__push *push, size_t index)
{
    return &push->asks[(push->ask_head + index) & (push->ask_capacity - 1)];
}

static bool reserve_ask(struct pawl__push *push)
{
    if (push->ask_count < push->ask_capacity) {
        return true;
    }
    const size_t capacity = push->ask_capacity == 0 ? ASKS_MIN : 2 * push->ask_capacity;
    struct pawl__ask *asks = capacity > ASKS_MAX ? NULL : pawl__alloc(capacity * sizeof *asks);
    if (asks == NULL) {
        return false;
    }
    for (size_t i = 0; i < push->ask_count; i++) {
        asks[i] = *ask_at(push, i);
    }
    pawl__free(push->asks);
    push->asks = asks;
    push->ask_capacity = capacity;
    push->ask_head = 0;
    return true;
}

/* Queue a command about a channel (NULL: PING) and remember it. */
static bool ask(struct pawl__push *push, enum pawl__ask_kind kind, const char *command,
    const struct pawl__map_node *channel, struct pawl__subscription *subscription)
{
    const char *const words[] = {command, channel != NULL ? channel->key : NULL};
    const size_t sizes[] = {strlen(command), channel != NULL ? channel->key_size : 0};
    if (!reserve_ask(push) ||
        !pawl__resp_put_command(&push->link.out, channel != NULL ? 2 : 1, words, sizes)) {
        return false;
    }
    push->ask_count++;
    *ask_at(push, push->ask_count - 1) = (struct pawl__ask){kind, false, subscription};
    return true;
}

/* The oldest question, which is being answered. */
static struct pawl__ask pop_ask(struct pawl__push *push)
{
    assert(push->ask_count > 0);
    const struct pawl__ask oldest = *ask_at(push, 0);
    push->ask_head = (push->ask_head + 1) & (push->ask_capacity - 1);
    push->ask_count--;
    return oldest;
}

/* ===== Subscriptions ===== */

static struct pawl__subscription *subscription_of(struct pawl__map_node *node)
{
    return PAWL__CONTAINER(node, struct pawl__subscription, node);
}

static void set_heard(const struct pawl__subscription *subscription, bool heard)
{
    if (subscription->id == 0) {
        atomic_store(&subscription->place->subscribed, heard);
    }
}

static void drop(struct pawl__push *push, struct pawl__subscription *subscription)
{
    struct pawl__redis_place *place = subscription->place;
    for (size_t i = 0; i < push->ask_count; i++) {
        if (ask_at(push, i)->subscription == subscription) {
            ask_at(push, i)->subscription = NULL;
        }
    }
    set_heard(subscription, false);
    pawl__map_remove(&push->channels, &subscription->node);
    if (subscription->id != 0) {
        place->waiter_count--;
    } else {
        place->own = NULL;
    }
    pawl__free(subscription);
}

static struct pawl__op *take_watch(struct pawl__push *push, struct pawl__subscription *subscription)
{
    struct pawl__op *op = subscription->watch;
    if (op != NULL) {
        subscription->watch = NULL;
        atomic_fetch_sub(push->watches_open, 1);
    }
    return op;
}

/* It cannot be watched: tell who waits for it, and forget it. */
static void refuse(struct pawl__push *push, struct pawl__subscription *subscription,
    pawl_status status, bool again, const char *sentence, struct pawl__effects *effects)
{
    struct pawl__op *op = take_watch(push, subscription);
    drop(push, subscription);
    if (op != NULL) {
        pawl__effects_fail(effects, op, PAWL__FAILED, status, again, sentence);
    }
}

/* False: no memory. */
static bool subscribe(struct pawl__push *push, struct pawl__subscription *subscription)
{
    if (!ask(push, PAWL__ASK_SUBSCRIBE, "SUBSCRIBE", &subscription->node, subscription)) {
        return false;
    }
    subscription->stage = PAWL__WATCH_SENT;
    return true;
}

/* ===== Whose ===== */

/* "<the name's channel>:<client uuid>:<id>" */
static struct pawl__redis_text waiter_channel(
    const struct pawl__push *push, const struct pawl__op *op, char to[WAITER_CHANNEL_SIZE])
{
    const size_t size = pawl__redis_channel(to, op->place).size;
    const int rest = snprintf(to + size, WAITER_CHANNEL_SIZE - size, ":%s:%llu", push->host->uuid,
        (unsigned long long)op->id);
    return (struct pawl__redis_text){to, size + (size_t)rest};
}

static bool is_waiters(const struct pawl__op *op)
{
    return op->place->family == PAWL__FAMILY_FAIR && op->id != 0;
}

/* What the operation is about; NULL: it is not in the map. */
static struct pawl__subscription *find(struct pawl__push *push, const struct pawl__op *op)
{
    struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    if (!is_waiters(op)) {
        return place->own;
    }
    char text[WAITER_CHANNEL_SIZE];
    const struct pawl__redis_text channel = waiter_channel(push, op, text);
    struct pawl__map_node *node = pawl__map_find(&push->channels, channel.bytes, channel.size);
    return node != NULL ? subscription_of(node) : NULL;
}

/* Put a new one into the map. NULL: no memory. */
static struct pawl__subscription *add(struct pawl__push *push, const struct pawl__op *op)
{
    struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char text[WAITER_CHANNEL_SIZE];
    const struct pawl__redis_text channel =
        is_waiters(op) ? waiter_channel(push, op, text) : pawl__redis_channel(text, op->place);
    struct pawl__subscription *subscription = pawl__alloc(sizeof *subscription + channel.size);
    if (subscription == NULL) {
        return NULL;
    }
    char *copy = (char *)(subscription + 1);
    memcpy(copy, channel.bytes, channel.size);
    subscription->place = place;
    if (is_waiters(op)) {
        subscription->id = op->id;
        place->waiter_count++;
    } else {
        place->own = subscription;
    }
    pawl__map_add(&push->channels, &subscription->node, copy, channel.size);
    subscription->stage = PAWL__WATCH_WANTED;
    return subscription;
}

static void watch(struct pawl__push *push, struct pawl__op *op, struct pawl__effects *effects)
{
    struct pawl__subscription *subscription = find(push, op);
    if (subscription == NULL) {
        subscription = add(push, op);
    }
    if (subscription == NULL) {
        pawl__effects_fail(effects, op, PAWL__FAILED, PAWL_NO_MEMORY, true, no_memory_sentence);
        return;
    }
    if (subscription->stage == PAWL__WATCH_CONFIRMED) {
        op->answer = PAWL__DONE;
        pawl__effects_end(effects, op);
        return;
    }
    assert(subscription->watch == NULL);
    op->next = NULL;
    subscription->watch = op;
    atomic_fetch_add(push->watches_open, 1);
    if (subscription->stage == PAWL__WATCH_WANTED && push->link.state == PAWL__LINK_READY &&
        !subscribe(push, subscription)) {
        refuse(push, subscription, PAWL_NO_MEMORY, true, no_memory_sentence, effects);
    }
}

static void end(
    struct pawl__push *push, struct pawl__subscription *subscription, struct pawl__effects *effects)
{
    if (subscription->stage == PAWL__WATCH_SENT || subscription->stage == PAWL__WATCH_CONFIRMED) {
        /* Without memory the subscription stays; its messages are for nobody. */
        ask(push, PAWL__ASK_UNSUBSCRIBE, "UNSUBSCRIBE", &subscription->node, NULL);
    }
    refuse(push, subscription, PAWL_CANCELED, true, "it is not watched any more", effects);
}

static void unwatch(struct pawl__push *push, struct pawl__op *op, struct pawl__effects *effects)
{
    struct pawl__subscription *subscription = find(push, op);
    if (subscription != NULL) {
        end(push, subscription, effects);
    }
    op->answer = PAWL__DONE;
    pawl__effects_end(effects, op);
}

void pawl__push_start(struct pawl__push *push, struct pawl__op *op, struct pawl__effects *effects)
{
    if (op->kind == PAWL__OP_WATCH) {
        watch(push, op, effects);
    } else {
        unwatch(push, op, effects);
    }
}

void pawl__push_end_place(struct pawl__push *push, struct pawl__redis_place *place)
{
    struct pawl__effects effects;
    struct pawl__map_node *node = NULL;
    pawl__effects_init(&effects);
    if (place->own != NULL) {
        end(push, place->own, &effects);
    }
    if (place->waiter_count > 0) {
        node = pawl__map_next(&push->channels, NULL);
    }
    while (node != NULL) {
        struct pawl__subscription *subscription = subscription_of(node);
        node = pawl__map_next(&push->channels, node);
        if (subscription->place == place) {
            end(push, subscription, &effects);
        }
    }
    assert(place->own == NULL && place->waiter_count == 0);
}

/* ===== Coming and going of the connection ===== */

/* Messages may have been missed until now. */
static void tell_if_all_renewed(struct pawl__push *push)
{
    if (push->missed && push->renewed_count == 0 && !push->rest) {
        push->missed = false;
        push->wake_all = true;
    }
}

/* Who was confirmed before still believes to be heard, so nobody is left out: for want of room the
 * rest has its turn when something was answered, or with the next connection. */
void pawl__push_subscribe_rest(
    struct pawl__push *push, int64_t now_us, struct pawl__effects *effects)
{
    struct pawl__map_node *node = pawl__map_next(&push->channels, NULL);
    push->rest = false;
    for (; node != NULL && !push->rest; node = pawl__map_next(&push->channels, node)) {
        struct pawl__subscription *subscription = subscription_of(node);
        if (subscription->stage != PAWL__WATCH_WANTED) {
            continue;
        }
        push->rest = !subscribe(push, subscription);
        if (!push->rest && subscription->watch == NULL) {
            ask_at(push, push->ask_count - 1)->renewed = true;
            push->renewed_count++;
        }
    }
    if (push->rest && push->ask_count == 0) {
        pawl__push_lose(push, now_us, PAWL_NO_MEMORY, no_memory_sentence, effects);
    } else {
        tell_if_all_renewed(push);
    }
}

void pawl__push_opened(struct pawl__push *push, int64_t now_us, struct pawl__effects *effects)
{
    push->heard_us = now_us;
    push->pong_us = PAWL__NEVER;
    push->reopened_seen = atomic_load(push->reopened);
    push->renewed_count = 0;
    pawl__push_subscribe_rest(push, now_us, effects);
}

/* What has not been confirmed to anybody is forgotten; the core asks again. */
static void refuse_waiting(struct pawl__push *push, pawl_status status, bool again,
    const char *sentence, struct pawl__effects *effects)
{
    struct pawl__map_node *node = pawl__map_next(&push->channels, NULL);
    while (node != NULL) {
        struct pawl__subscription *subscription = subscription_of(node);
        node = pawl__map_next(&push->channels, node);
        if (subscription->watch != NULL) {
            refuse(push, subscription, status, again, sentence, effects);
        } else {
            subscription->stage = PAWL__WATCH_WANTED;
            set_heard(subscription, false);
        }
    }
}

void pawl__push_refuse_all(
    struct pawl__push *push, const char *sentence, struct pawl__effects *effects)
{
    struct pawl__map_node *node = pawl__map_next(&push->channels, NULL);
    while (node != NULL) {
        struct pawl__subscription *subscription = subscription_of(node);
        node = pawl__map_next(&push->channels, node);
        refuse(push, subscription, PAWL_UNAVAILABLE, true, sentence, effects);
    }
}

void pawl__push_not_opened(struct pawl__push *push, struct pawl__effects *effects)
{
    const struct pawl__link *link = &push->link;
    const bool again = link->status != PAWL_DENIED && link->status != PAWL_INVALID;
    refuse_waiting(push, link->status, again,
        link->sentence != NULL ? link->sentence : "no connection, and no memory to say why",
        effects);
}

void pawl__push_lose(struct pawl__push *push, int64_t now_us, pawl_status status, const char *why,
    struct pawl__effects *effects)
{
    char sentence[SENTENCE_SIZE];
    snprintf(sentence, sizeof sentence, "the push connection to %s was given up: %s",
        push->config->peer, why);
    push->ask_head = 0;
    push->ask_count = 0;
    refuse_waiting(push, status, true, sentence, effects);
    push->missed = push->channels.count > 0;
    pawl__link_drop(&push->link, now_us);
}

/* ===== What arrives ===== */

static void confirmed(
    struct pawl__push *push, struct pawl__subscription *subscription, struct pawl__effects *effects)
{
    subscription->stage = PAWL__WATCH_CONFIRMED;
    set_heard(subscription, true);
    struct pawl__op *op = take_watch(push, subscription);
    if (op != NULL) {
        op->answer = PAWL__DONE;
        pawl__effects_end(effects, op);
    }
}

/* How the channels of a family begin, behind Redisson's name. */
static const char *channel_sort(enum pawl__family family)
{
    switch (family) {
    case PAWL__FAMILY_SHARED:
        return "rwlock:";
    case PAWL__FAMILY_SEMAPHORE:
    case PAWL__FAMILY_PERMITS:
        return "sc:";
    case PAWL__FAMILY_LATCH:
        return "countdownlatch__channel__";
    case PAWL__FAMILY_MUTEX:
    case PAWL__FAMILY_FAIR:
    case PAWL__FAMILY_SPIN:
    case PAWL__FAMILY_PLAIN:
        break;
    }
    return "lock__channel:";
}

static void denied(struct pawl__push *push, struct pawl__subscription *subscription,
    const char *text, size_t text_size, struct pawl__effects *effects)
{
    const struct pawl__redis_place *place = subscription->place;
    const struct pawl__map_node *channel = &subscription->node;
    const struct pawl__verdict verdict = pawl__redis_judge(
        text, text_size, place->place.name, place->place.name_size, push->config->password);
    char shown[SHOWN_SIZE];
    char sentence[4 * SENTENCE_SIZE];
    snprintf(sentence, sizeof sentence,
        "the user may not subscribe to '%s'; add the right with: %s +subscribe '&redisson_%s*'",
        pawl__printable(channel->key, channel->key_size, shown, sizeof shown), push->config->grant,
        channel_sort(place->place.family));
    refuse(push, subscription, verdict.status, verdict.again,
        verdict.status == PAWL_DENIED || verdict.sentence == NULL ? sentence : verdict.sentence,
        effects);
    pawl__free(verdict.sentence);
}

static void add_woken(struct pawl__push *push, const struct pawl__subscription *subscription)
{
    const struct pawl__place *place = &subscription->place->place;
    const struct pawl__woken woken = {subscription->id, place->name_size};
    const size_t before = pawl__buffer_size(&push->woken);
    if (!pawl__buffer_append(&push->woken, &woken, sizeof woken) ||
        !pawl__buffer_append(&push->woken, place->name, place->name_size)) {
        pawl__buffer_truncate(&push->woken, before);
        push->wake_all = true; /* for want of memory everybody looks */
    }
}

/* [message, channel, payload]: somebody released it, whatever the payload says. */
static void take_message(struct pawl__push *push, const struct pawl__resp_node *channel)
{
    if (channel == NULL || channel->type != PAWL__RESP_TEXT) {
        return;
    }
    struct pawl__map_node *node = pawl__map_find(
        &push->channels, pawl__resp_text(&push->link.reader, channel), channel->text_size);
    if (node != NULL) {
        add_woken(push, subscription_of(node));
    }
}

/* False: it answers nothing that was asked. */
static bool take_answer(struct pawl__push *push, const struct pawl__resp_node *reply,
    enum pawl__ask_kind kind, struct pawl__effects *effects)
{
    if (push->ask_count == 0) {
        return false;
    }
    const struct pawl__ask oldest = pop_ask(push);
    const bool error = pawl__resp_is_error(reply);
    push->renewed_count -= oldest.renewed ? 1 : 0;
    if (!error && oldest.kind != kind) {
        return false;
    }
    if (oldest.subscription != NULL && error) {
        denied(push, oldest.subscription, pawl__resp_text(&push->link.reader, reply),
            reply->text_size, effects);
    } else if (oldest.subscription != NULL) {
        confirmed(push, oldest.subscription, effects);
    }
    tell_if_all_renewed(push);
    return true;
}

static bool take_one(
    struct pawl__push *push, const struct pawl__resp_node *reply, struct pawl__effects *effects)
{
    const struct pawl__resp_reader *reader = &push->link.reader;
    const struct pawl__resp_node *word = pawl__resp_first(reader, reply);
    if (!pawl__resp_is_push(reply)) {
        return take_answer(push, reply, PAWL__ASK_PING, effects);
    }
    if (word == NULL) {
        return true;
    }
    if (pawl__resp_text_equals(reader, word, "message")) {
        take_message(push, pawl__resp_next(reader, reply, word));
        return true;
    }
    if (pawl__resp_text_equals(reader, word, "subscribe")) {
        return take_answer(push, reply, PAWL__ASK_SUBSCRIBE, effects);
    }
    if (pawl__resp_text_equals(reader, word, "unsubscribe")) {
        return take_answer(push, reply, PAWL__ASK_UNSUBSCRIBE, effects);
    }
    return true; /* some other kind of push: not for us */
}

void pawl__push_take(struct pawl__push *push, int64_t now_us, struct pawl__effects *effects)
{
    push->heard_us = now_us;
    push->pong_us = PAWL__NEVER;
    for (;;) {
        const struct pawl__resp_node *reply = NULL;
        const enum pawl__resp_result parsed = pawl__link_next(&push->link, &reply);
        if (parsed == PAWL__RESP_MORE) {
            return;
        }
        if (parsed != PAWL__RESP_COMPLETE || !take_one(push, reply, effects)) {
            const bool short_of_memory = parsed == PAWL__RESP_NO_MEMORY;
            pawl__push_lose(push, now_us, short_of_memory ? PAWL_NO_MEMORY : PAWL_PROTOCOL,
                short_of_memory               ? "no memory for a reply"
                : parsed == PAWL__RESP_BROKEN ? push->link.reader.broken
                                              : "a reply does not fit the question",
                effects);
            return;
        }
    }
}

/* ===== Time ===== */

/* When the first of those who wait for a confirmation has to be told. */
static int64_t watch_due(const struct pawl__push *push)
{
    int64_t due_us = PAWL__NEVER;
    if (atomic_load(push->watches_open) == 0) {
        return due_us;
    }
    for (struct pawl__map_node *node = pawl__map_next(&push->channels, NULL); node != NULL;
         node = pawl__map_next(&push->channels, node)) {
        const struct pawl__op *op = subscription_of(node)->watch;
        due_us = op != NULL ? pawl__min64(due_us, op->deadline_us) : due_us;
    }
    return due_us;
}

static int64_t health_due(const struct pawl__push *push)
{
    const bool doubtful = atomic_load(push->reopened) != push->reopened_seen;
    return push->pong_us != PAWL__NEVER ? push->pong_us
           : doubtful                   ? push->heard_us
                                        : push->heard_us + SILENCE_US;
}

int64_t pawl__push_due(const struct pawl__push *push)
{
    if (push->channels.count == 0) {
        return PAWL__NEVER;
    }
    const bool ready = push->link.state == PAWL__LINK_READY;
    return pawl__min64(watch_due(push), ready ? health_due(push) : pawl__link_due(&push->link));
}

static void ask_for_life(struct pawl__push *push, int64_t now_us, struct pawl__effects *effects)
{
    if (push->pong_us != PAWL__NEVER) {
        pawl__push_lose(push, now_us, PAWL_UNAVAILABLE, "it shows no sign of life", effects);
        return;
    }
    push->reopened_seen = atomic_load(push->reopened);
    if (ask(push, PAWL__ASK_PING, "PING", NULL, NULL)) {
        push->pong_us = pawl__later(now_us, push->config->settings.timeout_us);
    } else {
        push->heard_us = now_us; /* no memory: later */
    }
}

void pawl__push_check_time(struct pawl__push *push, int64_t now_us, struct pawl__effects *effects)
{
    const bool ready = push->link.state == PAWL__LINK_READY;
    if (now_us >= watch_due(push)) {
        if (ready) {
            pawl__push_lose(
                push, now_us, PAWL_UNAVAILABLE, "it did not confirm a subscription", effects);
        } else {
            refuse_waiting(
                push, PAWL_UNAVAILABLE, true, "no push connection to the server in time", effects);
        }
    } else if (ready && push->channels.count > 0 && now_us >= health_due(push)) {
        ask_for_life(push, now_us, effects);
    }
}
