/* SPDX-License-Identifier: Apache-2.0 */
/* Subscribing, and the queue of hints; watching.h describes it from outside. */
#include "engine/redis/watching.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/glob.h"
#include "engine/redis/channels.h"

#include <stdio.h>
#include <string.h>

enum {
    US_PER_MS = 1000,
    HINTS_SIZE_MAX = 256 << 10,    /* bytes of hints that are kept */
    PATTERN_SIZE_MAX = 4 << 10,    /* of one subscription */
    SETTLE_US = 5 * US_PER_MS,     /* so long a vague hint waits for a better one */
    SILENCE_US = 5000 * US_PER_MS, /* after so long the server is asked for a sign of life */
    AT_ONCE = 1000,                /* messages, before somebody may look at the clock */
    KEYSPACE_SIZE = 32,
};

/* A subscription that was granted. */
struct subscription {
    enum pawl__channel_source source;
    const char *prefix;
    pawl_kind kind;              /* of what its messages are about */
    struct pawl__buffer pattern; /* as the server repeats it with each message */
};

enum { SUBSCRIPTIONS_MAX = 10 }; /* three channels in two ways each, latches, three of keys */

/* One hint in the queue; the name follows. */
struct record {
    uint16_t name_size;
    uint8_t change;
    uint8_t kind;
    bool vague; /* may be replaced by the next one about the same name */
};

struct pawl__watching {
    struct pawl__looking *looking;
    char *pattern;                /* NULL: all */
    char keyspace[KEYSPACE_SIZE]; /* the prefix of the database's events, without its colon */
    struct pawl__console console;
    struct subscription subscriptions[SUBSCRIPTIONS_MAX];
    size_t subscription_count;
    bool ready; /* connected and subscribed */
    bool exact;
    bool hears_releases; /* by the channels of locks */
    bool missed;         /* anything may have changed */
    bool asked;          /* for a sign of life */
    int64_t heard_us;    /* when the server last said anything */
    struct pawl__buffer hints;
    size_t last_size; /* bytes of the newest hint if it is vague; 0: it is not */
    int64_t vague_us; /* when that came */
};

/* ===== Hints ===== */

/* Is the newest hint a vague one about this name? */
static bool last_is_about(const struct pawl__watching *watching, struct pawl__redis_text name)
{
    if (watching->last_size != sizeof(struct record) + name.size) {
        return false;
    }
    const char *end = pawl__buffer_data(&watching->hints) + pawl__buffer_size(&watching->hints);
    return memcmp(end - name.size, name.bytes, name.size) == 0;
}

static void add_hint(struct pawl__watching *watching, struct pawl__redis_text name, int change,
    pawl_kind kind, bool vague)
{
    struct pawl__buffer *hints = &watching->hints;
    const struct record record = {(uint16_t)name.size, (uint8_t)change, (uint8_t)kind, vague};
    if (watching->last_size > 0 && last_is_about(watching, name)) {
        pawl__buffer_truncate(hints, pawl__buffer_size(hints) - watching->last_size);
    }
    watching->last_size = 0;
    if (pawl__buffer_left(hints) < sizeof record + name.size ||
        !pawl__buffer_append(hints, &record, sizeof record) ||
        !pawl__buffer_append(hints, name.bytes, name.size)) {
        pawl__buffer_clear(hints);
        watching->missed = true;
        return;
    }
    if (vague) {
        watching->last_size = sizeof record + name.size;
        watching->vague_us = pawl__now_us();
    }
}

/* Until when a vague hint waits that is the only one; 0: there is something to be told. */
static int64_t settle_us(const struct pawl__watching *watching)
{
    const bool alone =
        watching->last_size > 0 && watching->last_size == pawl__buffer_size(&watching->hints);
    return alone ? watching->vague_us + SETTLE_US : 0;
}

static bool take_hint(struct pawl__watching *watching, struct pawl__hint *hint_out)
{
    struct pawl__buffer *hints = &watching->hints;
    struct record record;
    if (watching->missed) {
        watching->missed = false;
        *hint_out = (struct pawl__hint){.change = 0};
        return true;
    }
    if (pawl__buffer_size(hints) == 0 || pawl__now_us() < settle_us(watching)) {
        return false;
    }
    memcpy(&record, pawl__buffer_data(hints), sizeof record);
    pawl__buffer_consume(hints, sizeof record);
    memcpy(hint_out->name, pawl__buffer_data(hints), record.name_size);
    hint_out->name[record.name_size] = '\0';
    hint_out->change = (pawl_change)record.change;
    hint_out->kind = (pawl_kind)record.kind;
    pawl__buffer_consume(hints, record.name_size);
    if (pawl__buffer_size(hints) == 0) {
        watching->last_size = 0;
    }
    return true;
}

/* ===== Messages ===== */

static struct pawl__redis_text text_of(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *node)
{
    const bool text = node != NULL && node->type == PAWL__RESP_TEXT;
    return (struct pawl__redis_text){
        text ? pawl__resp_text(reader, node) : "", text ? node->text_size : 0};
}

static const struct subscription *subscription_of(
    const struct pawl__watching *watching, struct pawl__redis_text pattern)
{
    for (size_t i = 0; i < watching->subscription_count; i++) {
        const struct pawl__buffer *own = &watching->subscriptions[i].pattern;
        if (pawl__buffer_size(own) == pattern.size &&
            memcmp(pawl__buffer_data(own), pattern.bytes, pattern.size) == 0) {
            return &watching->subscriptions[i];
        }
    }
    return NULL;
}

static void take_event(struct pawl__watching *watching, enum pawl__channel_source source,
    struct pawl__redis_text channel, struct pawl__redis_text event)
{
    const size_t skipped = strlen(watching->keyspace) + 1;
    if (channel.size <= skipped) {
        return;
    }
    const struct pawl__redis_text key = {channel.bytes + skipped, channel.size - skipped};
    const bool all = source == PAWL__SOURCE_ALL_KEYS;
    const int change = all || source == PAWL__SOURCE_KEYS ? pawl__keyspace_change(event) : -1;
    if (change >= 0 && key.size <= PAWL__NAME_SIZE_MAX &&
        memchr(key.bytes, '\0', key.size) == NULL &&
        pawl__glob_matches(watching->pattern, key.bytes, key.size)) {
        add_hint(watching, key, change, PAWL_MUTEX, change == 0);
    }
    const int leases = source != PAWL__SOURCE_KEYS ? pawl__leases_change(event) : -1;
    const struct pawl__redis_text name = pawl__leases_name(key, watching->pattern);
    if (leases >= 0 && name.size > 0) {
        add_hint(watching, name, leases, PAWL_SEMAPHORE, leases == 0);
    }
}

/* A message on the channel of locks, semaphores or latches. A latch that was shut says `1`, as a
 * writer does that leaves. */
static void take_news(struct pawl__watching *watching, const struct subscription *by,
    struct pawl__redis_text channel, struct pawl__redis_text text)
{
    const struct pawl__channel_meaning meaning =
        pawl__channel_meaning(channel, by->source, by->prefix, watching->pattern);
    const bool one = text.size == 1 && text.bytes[0] == '1';
    const bool shut = by->kind == PAWL_LATCH && one;
    const pawl_kind kind = meaning.waiter                 ? PAWL_FAIR
                           : by->kind == PAWL_READ && one ? PAWL_WRITE
                                                          : by->kind;
    if (meaning.name.size > 0 && !shut) {
        add_hint(watching, meaning.name, meaning.sure ? PAWL_RELEASED : 0, kind, false);
    }
}

/* [pmessage, pattern, channel, payload] */
static void take_message(struct pawl__watching *watching, const struct pawl__resp_node *push)
{
    const struct pawl__resp_reader *reader = &watching->console.link.reader;
    const struct subscription *by =
        subscription_of(watching, text_of(reader, pawl__resp_child(reader, push, 1)));
    const struct pawl__redis_text channel = text_of(reader, pawl__resp_child(reader, push, 2));
    const struct pawl__redis_text text = text_of(reader, pawl__resp_child(reader, push, 3));
    if (by == NULL) {
        return;
    }
    if (by->source >= PAWL__SOURCE_KEYS) {
        take_event(watching, by->source, channel, text);
    } else {
        take_news(watching, by, channel, text);
    }
}

static void take(struct pawl__watching *watching, const struct pawl__resp_node *reply)
{
    const struct pawl__resp_reader *reader = &watching->console.link.reader;
    const struct pawl__resp_node *word = pawl__resp_first(reader, reply);
    watching->heard_us = pawl__now_us();
    watching->asked = false;
    if (pawl__resp_is_push(reply) && word != NULL &&
        pawl__resp_text_equals(reader, word, "pmessage")) {
        take_message(watching, reply);
    }
}

/* ===== Subscribing ===== */

/* Ask for one pattern. *granted_out: the user may. Messages that come before the answer are taken.
 */
static pawl_status ask_pattern(
    struct pawl__watching *watching, struct pawl__redis_text pattern, bool *granted_out)
{
    struct pawl__console *console = &watching->console;
    const char *const words[] = {"PSUBSCRIBE", pattern.bytes};
    const size_t sizes[] = {strlen(words[0]), pattern.size};
    if (!pawl__resp_put_command(&console->link.out, 2, words, sizes)) {
        return pawl__console_no_memory();
    }
    const int64_t deadline_us = pawl__console_deadline(console);
    for (;;) {
        const struct pawl__resp_node *reply = NULL;
        const pawl_status status = pawl__console_push(console, deadline_us, &reply);
        if (status == PAWL_BUSY || pawl__now_us() >= deadline_us) {
            return pawl__fail(
                PAWL_UNAVAILABLE, "%s does not let us subscribe in time", console->config->peer);
        }
        if (status != PAWL_OK) {
            return status;
        }
        const struct pawl__resp_node *word = pawl__resp_first(&console->link.reader, reply);
        *granted_out = !pawl__resp_is_error(reply);
        if (!pawl__resp_is_push(reply) ||
            (word != NULL && pawl__resp_text_equals(&console->link.reader, word, "psubscribe"))) {
            return PAWL_OK;
        }
        take(watching, reply);
    }
}

static pawl_status subscribe(struct pawl__watching *watching, enum pawl__channel_source source,
    const char *prefix, pawl_kind kind, bool *granted_out)
{
    struct subscription *subscription = &watching->subscriptions[watching->subscription_count];
    struct pawl__buffer *pattern = &subscription->pattern;
    *granted_out = false;
    if (watching->subscription_count == SUBSCRIPTIONS_MAX) {
        return PAWL_OK;
    }
    pawl__buffer_clear(pattern);
    if (!pawl__channel_pattern(pattern, source, prefix, watching->pattern)) {
        return pawl__console_no_memory();
    }
    subscription->source = source;
    subscription->prefix = prefix;
    subscription->kind = kind;
    const struct pawl__redis_text text = {pawl__buffer_data(pattern), pawl__buffer_size(pattern)};
    watching->subscription_count++; /* messages may come at once */
    const pawl_status status = ask_pattern(watching, text, granted_out);
    watching->subscription_count -= *granted_out ? 0 : 1;
    return status;
}

/* A kind of channel: as narrow as the pattern, or, if the user may not, all of them. A user's
 * rights name patterns literally, so the wide one may be allowed where a narrower one is not. */
static pawl_status subscribe_channels(
    struct pawl__watching *watching, const char *prefix, pawl_kind kind)
{
    bool braced = false;
    bool other = false;
    pawl_status status = PAWL_OK;
    if (watching->pattern != NULL) {
        status = subscribe(watching, PAWL__SOURCE_BRACED, prefix, kind, &braced);
    }
    if (status != PAWL_OK) {
        return status;
    }
    return subscribe(watching, braced ? PAWL__SOURCE_BARE : PAWL__SOURCE_ALL, prefix, kind, &other);
}

/* The events of keys, in the same way. */
static pawl_status subscribe_keys(struct pawl__watching *watching)
{
    static const enum pawl__channel_source narrow[] = {
        PAWL__SOURCE_KEYS, PAWL__SOURCE_BRACED_LEASES, PAWL__SOURCE_BARE_LEASES};
    enum { COUNT = sizeof narrow / sizeof narrow[0] };
    pawl_status status = PAWL_OK;
    bool granted = watching->pattern != NULL;
    for (size_t i = 0; i < COUNT && granted && status == PAWL_OK; i++) {
        status = subscribe(watching, narrow[i], watching->keyspace, PAWL_MUTEX, &granted);
    }
    if (!granted && status == PAWL_OK) {
        status =
            subscribe(watching, PAWL__SOURCE_ALL_KEYS, watching->keyspace, PAWL_MUTEX, &granted);
    }
    watching->exact = granted;
    return status;
}

static pawl_status subscribe_events(struct pawl__watching *watching)
{
    struct pawl__console *console = &watching->console;
    const struct pawl__resp_reader *reader = &console->link.reader;
    const struct pawl__resp_node *reply = NULL;
    const char *const words[] = {"CONFIG", "GET", "notify-keyspace-events"};
    const pawl_status status = pawl__console_ask(console, 3, words, &reply);
    if (status != PAWL_OK) {
        return status;
    }
    /* An error: the user may not ask, and we do without. */
    const struct pawl__redis_text setting =
        text_of(reader, pawl__resp_map_get(reader, reply, "notify-keyspace-events"));
    return pawl__keyspace_suffices(setting.bytes, setting.size) ? subscribe_keys(watching)
                                                                : PAWL_OK;
}

/* All that may be heard. Events come first: for them CONFIG is asked, whose answer is no push. */
static pawl_status subscribe_all(struct pawl__watching *watching)
{
    static const struct {
        const char *prefix;
        pawl_kind kind;
    } channels[] = {
        {PAWL__CHANNEL_PREFIX, PAWL_MUTEX},
        {PAWL__RW_CHANNEL_PREFIX, PAWL_READ},
        {PAWL__PERMITS_CHANNEL_PREFIX, PAWL_SEMAPHORE},
    };
    bool latches = false;
    watching->subscription_count = 0;
    watching->exact = false;
    pawl_status status = subscribe_events(watching);
    const size_t event_count = watching->subscription_count;
    for (size_t i = 0; i < sizeof channels / sizeof channels[0] && status == PAWL_OK; i++) {
        status = subscribe_channels(watching, channels[i].prefix, channels[i].kind);
        watching->hears_releases =
            i == 0 ? watching->subscription_count > event_count : watching->hears_releases;
    }
    if (status == PAWL_OK) {
        status = subscribe(
            watching, PAWL__SOURCE_LATCHES, PAWL__LATCH_CHANNEL_PREFIX, PAWL_LATCH, &latches);
    }
    watching->ready = status == PAWL_OK;
    watching->heard_us = pawl__now_us();
    watching->asked = false;
    return status;
}

/* ===== The connection ===== */

static void lose(struct pawl__watching *watching)
{
    watching->ready = false;
    watching->exact = false;
    watching->hears_releases = false;
    watching->missed = true;
    watching->last_size = 0;
    pawl__buffer_clear(&watching->hints);
    pawl__console_drop(&watching->console);
}

/* PAWL_BUSY: not yet. */
static pawl_status connect_again(struct pawl__watching *watching, int64_t deadline_us)
{
    pawl_status status = pawl__console_connect(&watching->console, deadline_us);
    if (status == PAWL_OK) {
        status = subscribe_all(watching);
        if (status != PAWL_OK) {
            lose(watching);
        }
    } else if (status == PAWL_BUSY) {
        status =
            pawl__fail(PAWL_UNAVAILABLE, "no connection to %s yet", watching->console.config->peer);
    }
    return status;
}

/* A connection that died without a word looks like one without news. */
static pawl_status ask_for_life(struct pawl__watching *watching, int64_t now_us)
{
    const struct pawl__redis_config *config = watching->console.config;
    const char *const words[] = {"PING"};
    if (!watching->asked && now_us >= watching->heard_us + SILENCE_US) {
        watching->asked = true;
        return pawl__resp_put_command(&watching->console.link.out, 1, words, NULL)
                   ? PAWL_OK
                   : pawl__console_no_memory();
    }
    if (watching->asked &&
        now_us >= watching->heard_us + SILENCE_US + config->settings.timeout_us) {
        return pawl__fail(PAWL_UNAVAILABLE, "%s shows no sign of life", config->peer);
    }
    return PAWL_OK;
}

/* Wait for one thing that the server says, and take it, and all that has come with it. */
static pawl_status hear(struct pawl__watching *watching, int64_t deadline_us)
{
    const struct pawl__resp_node *reply = NULL;
    pawl_status status = ask_for_life(watching, pawl__now_us());
    if (status == PAWL_OK) {
        status = pawl__console_push(&watching->console, deadline_us, &reply);
    }
    for (int count = 1; status == PAWL_OK; count++) {
        take(watching, reply);
        if (count == AT_ONCE) {
            break;
        }
        status = pawl__console_push(&watching->console, 0, &reply);
    }
    if (status != PAWL_OK && status != PAWL_BUSY) {
        lose(watching);
        return status;
    }
    return PAWL_OK;
}

pawl_status pawl__watching_wait(
    struct pawl__watching *watching, int64_t deadline_us, struct pawl__hint *hint_out)
{
    do {
        if (!watching->ready) {
            const pawl_status status = connect_again(watching, deadline_us);
            if (status != PAWL_OK) {
                return status;
            }
        }
        if (take_hint(watching, hint_out)) {
            return PAWL_OK;
        }
        const int64_t settle = settle_us(watching);
        const pawl_status status =
            hear(watching, settle > 0 ? pawl__min64(deadline_us, settle) : deadline_us);
        if (status != PAWL_OK && status != PAWL_UNAVAILABLE) {
            return status;
        }
    } while (pawl__now_us() < deadline_us);
    return take_hint(watching, hint_out) ? PAWL_OK : PAWL_BUSY;
}

bool pawl__watching_exact(const struct pawl__watching *watching)
{
    return watching->exact;
}

bool pawl__watching_hears_releases(const struct pawl__watching *watching)
{
    return watching->exact || watching->hears_releases;
}

/* ===== Opening and closing ===== */

void pawl__watching_close(struct pawl__watching *watching)
{
    for (size_t i = 0; i < SUBSCRIPTIONS_MAX; i++) {
        pawl__buffer_free(&watching->subscriptions[i].pattern);
    }
    pawl__console_close(&watching->console);
    pawl__buffer_free(&watching->hints);
    pawl__looking_let_go(watching->looking);
    pawl__free(watching->pattern);
    pawl__free(watching);
}

static struct pawl__watching *watching_new(struct pawl__looking *looking, const char *pattern)
{
    struct pawl__watching *watching = pawl__alloc(sizeof *watching);
    if (watching == NULL) {
        return NULL;
    }
    watching->looking = looking;
    watching->pattern = pattern != NULL ? pawl__strdup(pattern) : NULL;
    snprintf(watching->keyspace, sizeof watching->keyspace, "__keyspace@%lld__",
        (long long)looking->config->db);
    pawl__buffer_init(&watching->hints, HINTS_SIZE_MAX);
    for (size_t i = 0; i < SUBSCRIPTIONS_MAX; i++) {
        pawl__buffer_init(&watching->subscriptions[i].pattern, PATTERN_SIZE_MAX);
    }
    pawl__console_init(&watching->console, looking->config);
    pawl__looking_keep(looking);
    if (pattern != NULL && watching->pattern == NULL) {
        pawl__watching_close(watching);
        return NULL;
    }
    return watching;
}

pawl_status pawl__watching_open(
    struct pawl__looking *looking, const char *pattern, struct pawl__watching **watching_out)
{
    const struct pawl__settings *settings = &looking->config->settings;
    struct pawl__watching *watching = watching_new(looking, pattern);
    if (watching == NULL) {
        return pawl__fail(PAWL_NO_MEMORY, "no memory for a watch");
    }
    const pawl_status status = connect_again(
        watching, pawl__now_us() + settings->connect_timeout_us + settings->timeout_us);
    if (status != PAWL_OK) {
        pawl__watching_close(watching);
        return status;
    }
    *watching_out = watching;
    return PAWL_OK;
}
