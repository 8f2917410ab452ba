/* SPDX-License-Identifier: Apache-2.0 */
/* What pawl_client_list() told, kept for assertions until the clean-up. */
#ifndef PAWL_OPERATORS_TOLD_H
#define PAWL_OPERATORS_TOLD_H

#include "operators/common.h"

struct told {
    size_t count;
    size_t stop_at; /* 0: never */
    pawl_entry *entries;
};

static inline void free_told(void *object)
{
    struct told *told = object;
    free(told->entries);
    free(told);
}

static inline struct told *told_new(void)
{
    struct told *told = calloc(1, sizeof *told);
    assert_non_null(told);
    cleanup_add(free_told, told);
    return told;
}

static inline bool note(const pawl_entry *entry, void *arg)
{
    struct told *told = arg;
    assert_int_equal(entry->size, sizeof *entry);
    told->entries = realloc(told->entries, (told->count + 1) * sizeof *entry);
    assert_non_null(told->entries);
    told->entries[told->count++] = *entry;
    return told->count != told->stop_at;
}

static inline struct told *list(pawl_client *client, const char *pattern)
{
    struct told *told = told_new();
    ASSERT_OK(pawl_client_list(client, pattern, note, told));
    return told;
}

static inline size_t times_told(const struct told *told, const char *name, const char *holder)
{
    size_t count = 0;
    for (size_t i = 0; i < told->count; i++) {
        count += strcmp(told->entries[i].name, name) == 0 &&
                         (holder == NULL || strcmp(told->entries[i].holder, holder) == 0)
                     ? 1
                     : 0;
    }
    return count;
}

static inline const pawl_entry *entry_of(
    const struct told *told, const char *name, const char *holder)
{
    assert_int_equal(times_told(told, name, holder), 1);
    for (size_t i = 0; i < told->count; i++) {
        if (strcmp(told->entries[i].name, name) == 0 &&
            (holder == NULL || strcmp(told->entries[i].holder, holder) == 0)) {
            return &told->entries[i];
        }
    }
    return NULL;
}

#endif
