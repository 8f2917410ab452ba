/* SPDX-License-Identifier: Apache-2.0 */
/* See model.h.
 *
 * Listings and events overtake each other: a lock that was released while a listing was under way
 * may still be in it, and one that was acquired meanwhile may be missing. So a listing says nothing
 * about a lock whose last event is younger than the listing's beginning. */
#include "top/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORGET_MS = 60000, LOCKS_MAX = 200000 };

/* ===== Rates ===== */

/* Make the counter of this second the newest one. */
static void rate_advance(struct top_rate *rate, int64_t now_ms)
{
    const int64_t second = now_ms / 1000;
    int64_t empty = second - rate->second;
    for (empty = empty > TOP_WINDOW_S ? TOP_WINDOW_S : empty; empty > 0; empty--) {
        rate->counts[(second - empty + 1) % TOP_WINDOW_S] = 0;
    }
    rate->second = second > rate->second ? second : rate->second;
}

static void rate_count(struct top_rate *rate, int64_t now_ms)
{
    rate_advance(rate, now_ms);
    rate->counts[rate->second % TOP_WINDOW_S]++;
}

/* Per second, over the window or since the beginning. */
static double rate_now(const struct top_rate *rate, int64_t begun_ms, int64_t now_ms)
{
    struct top_rate copy = *rate;
    rate_advance(&copy, now_ms);
    uint64_t sum = 0;
    for (size_t i = 0; i < TOP_WINDOW_S; i++) {
        sum += copy.counts[i];
    }
    double seconds = (double)(now_ms - begun_ms) / 1e3;
    seconds = seconds > TOP_WINDOW_S ? TOP_WINDOW_S : seconds;
    return seconds < 0.5 ? 0 : (double)sum / seconds;
}

/* ===== Locks by name ===== */

void top_model_open(struct top_model *model, int64_t now_ms)
{
    memset(model, 0, sizeof *model);
    pthread_mutex_init(&model->mutex, NULL);
    model->begun_ms = now_ms;
}

static void lock_free(struct top_lock *lock)
{
    cli_hold_free(&lock->hold);
    free(lock);
}

void top_model_close(struct top_model *model)
{
    for (size_t i = 0; i < model->count; i++) {
        lock_free(model->locks[i]);
    }
    free(model->locks);
    pthread_mutex_destroy(&model->mutex);
}

/* Where the name is, or where it belongs. */
static size_t position_of(const struct top_model *model, const char *name, bool *found_out)
{
    size_t low = 0;
    size_t high = model->count;
    *found_out = false;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(model->locks[middle]->hold.name, name);
        if (order == 0) {
            *found_out = true;
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The lock of this entry, new if need be; NULL if there are too many. */
static struct top_lock *lock_for(struct top_model *model, const pawl_entry *entry, int64_t now_ms)
{
    bool found = false;
    const size_t position = position_of(model, entry->name, &found);
    if (found) {
        return model->locks[position];
    }
    if (model->count == LOCKS_MAX) {
        return NULL;
    }
    if (model->count == model->room) {
        model->room = model->room == 0 ? 64 : model->room * 2;
        model->locks = cli_memory_resize(model->locks, model->room, sizeof *model->locks);
    }
    struct top_lock *lock = cli_memory_resize(NULL, 1, sizeof *lock);
    *lock = (struct top_lock){.hold = cli_hold_from(entry), .waiters_at_ms = now_ms};
    lock->hold.waiters = -1;
    memmove(model->locks + position + 1, model->locks + position,
        (model->count - position) * sizeof *model->locks);
    model->locks[position] = lock;
    model->count++;
    return lock;
}

/* ===== What happens to one lock ===== */

/* The waiters that were there until now have waited until now. */
static void count_waiting(struct top_lock *lock, int64_t now_ms)
{
    if (lock->hold.waiters > 0) {
        lock->waiter_ms += (double)lock->hold.waiters * (double)(now_ms - lock->waiters_at_ms);
    }
    lock->waiters_at_ms = now_ms;
}

static void take_hold(struct top_lock *lock, const pawl_entry *entry)
{
    const int64_t waiters = entry->waiters >= 0 ? entry->waiters : lock->hold.waiters;
    cli_hold_free(&lock->hold);
    lock->hold = cli_hold_from(entry);
    lock->hold.waiters = waiters;
}

static void begin_hold(struct top_lock *lock, int64_t now_ms, bool seen)
{
    lock->holders = 1;
    lock->held_since_ms = now_ms;
    lock->held_before = !seen;
    lock->changed_ms = now_ms;
}

static void end_hold(struct top_lock *lock, int64_t now_ms)
{
    if (lock->holders > 0 && !lock->held_before) {
        lock->measured++;
        lock->measured_ms += now_ms - lock->held_since_ms;
    }
    lock->holders = 0;
    lock->changed_ms = now_ms;
}

/* ===== Listings ===== */

void top_model_list_begin(struct top_model *model, int64_t now_ms)
{
    pthread_mutex_lock(&model->mutex);
    model->listing_ms = now_ms;
    for (size_t i = 0; i < model->count; i++) {
        model->locks[i]->holders_listed = 0;
    }
    pthread_mutex_unlock(&model->mutex);
}

static void list_entry(
    struct top_model *model, struct top_lock *lock, const pawl_entry *entry, int64_t now_ms)
{
    const bool same = lock->holders > 0 && (cli_kind_is_shared(entry->kind) ||
                                               strcmp(lock->hold.holder, entry->holder) == 0);
    lock->holders_listed++;
    if (lock->holders_listed > 1 || lock->changed_ms > model->listing_ms) {
        return; /* one of several is enough to show; an event knows better */
    }
    count_waiting(lock, now_ms);
    take_hold(lock, entry);
    if (!same) {
        begin_hold(lock, now_ms, false);
    }
}

void top_model_list_entry(struct top_model *model, const pawl_entry *entry, int64_t now_ms)
{
    pthread_mutex_lock(&model->mutex);
    struct top_lock *lock = lock_for(model, entry, now_ms);
    if (lock != NULL) {
        list_entry(model, lock, entry, now_ms);
    }
    pthread_mutex_unlock(&model->mutex);
}

/* What the whole listing says about a lock. */
static void settle(const struct top_model *model, struct top_lock *lock, int64_t now_ms)
{
    if (lock->changed_ms > model->listing_ms && lock->holders_listed <= 1) {
        return;
    }
    if (lock->holders_listed == 0 && lock->holders > 0) {
        count_waiting(lock, now_ms);
        lock->holders = 0;
    }
    if (lock->holders_listed == 0) {
        lock->hold.waiters = -1;
    } else {
        lock->holders = lock->holders_listed;
    }
}

void top_model_list_end(struct top_model *model, int64_t now_ms)
{
    pthread_mutex_lock(&model->mutex);
    size_t kept = 0;
    for (size_t i = 0; i < model->count; i++) {
        struct top_lock *lock = model->locks[i];
        settle(model, lock, now_ms);
        if (lock->holders == 0 && now_ms - lock->changed_ms > FORGET_MS) {
            lock_free(lock);
        } else {
            model->locks[kept++] = lock;
        }
    }
    model->count = kept;
    model->listings++;
    pthread_mutex_unlock(&model->mutex);
}

/* ===== Events ===== */

static void acquired(
    struct top_model *model, struct top_lock *lock, const pawl_watch_event *event, int64_t now_ms)
{
    const bool joins = lock->holders > 0 && cli_kind_is_shared(event->entry.kind);
    count_waiting(lock, now_ms);
    take_hold(lock, &event->entry);
    if (joins) { /* the time in which somebody holds it has begun before */
        lock->holders++;
        lock->changed_ms = now_ms;
    } else {
        begin_hold(lock, now_ms, true);
    }
    lock->acquired++;
    rate_count(&lock->rate, now_ms);
    rate_count(&model->acquired, now_ms);
}

/* One of several may leave others behind. */
static void released(struct top_lock *lock, int64_t now_ms)
{
    if (lock->holders > 1 && cli_kind_is_shared(lock->hold.kind)) {
        lock->holders--;
        lock->changed_ms = now_ms;
    } else {
        end_hold(lock, now_ms);
    }
}

void top_model_event(struct top_model *model, const pawl_watch_event *event, int64_t now_ms)
{
    pthread_mutex_lock(&model->mutex);
    struct top_lock *lock = lock_for(model, &event->entry, now_ms);
    if (lock != NULL && event->change == PAWL_ACQUIRED) {
        acquired(model, lock, event, now_ms);
    } else if (lock != NULL) {
        released(lock, now_ms);
        rate_count(&model->released, now_ms);
        model->expired += event->change == PAWL_EXPIRED;
    }
    pthread_mutex_unlock(&model->mutex);
}

void top_model_trouble(
    struct top_model *model, enum top_source source, const char *sentence, int64_t now_ms)
{
    pthread_mutex_lock(&model->mutex);
    struct top_trouble *trouble = &model->troubles[source];
    if (trouble->sentence[0] == '\0') {
        trouble->since_ms = now_ms;
    }
    snprintf(trouble->sentence, sizeof trouble->sentence, "%s", sentence);
    pthread_mutex_unlock(&model->mutex);
}

bool top_model_in_trouble(struct top_model *model, enum top_source source)
{
    pthread_mutex_lock(&model->mutex);
    const bool trouble = model->troubles[source].sentence[0] != '\0';
    pthread_mutex_unlock(&model->mutex);
    return trouble;
}

void top_model_set_exact(struct top_model *model, bool exact)
{
    pthread_mutex_lock(&model->mutex);
    model->exact = exact;
    pthread_mutex_unlock(&model->mutex);
}

/* ===== Figures ===== */

uint64_t top_model_listings(struct top_model *model)
{
    pthread_mutex_lock(&model->mutex);
    const uint64_t listings = model->listings;
    pthread_mutex_unlock(&model->mutex);
    return listings;
}

double top_lock_rate(const struct top_model *model, const struct top_lock *lock, int64_t now_ms)
{
    return rate_now(&lock->rate, model->begun_ms, now_ms);
}

int64_t top_lock_mean_hold_ms(const struct top_lock *lock)
{
    return lock->measured == 0 ? -1 : lock->measured_ms / (int64_t)lock->measured;
}

int64_t top_lock_mean_wait_ms(const struct top_lock *lock)
{
    return lock->acquired == 0 ? -1 : (int64_t)(lock->waiter_ms / (double)lock->acquired);
}

struct top_totals top_model_totals(const struct top_model *model, int64_t now_ms)
{
    struct top_totals totals = {.waiters = -1, .expired = model->expired};
    for (size_t i = 0; i < model->count; i++) {
        const struct top_lock *lock = model->locks[i];
        totals.held += lock->holders > 0;
        if (lock->holders > 0 && lock->hold.waiters >= 0) {
            totals.waiters = (totals.waiters < 0 ? 0 : totals.waiters) + lock->hold.waiters;
        }
    }
    totals.acquired_rate = rate_now(&model->acquired, model->begun_ms, now_ms);
    totals.released_rate = rate_now(&model->released, model->begun_ms, now_ms);
    return totals;
}
