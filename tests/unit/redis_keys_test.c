/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of operations on locks, as bytes: no server takes part. Every size of a name that
 * changes how many digits a size has is tried, with the brace that a name may have. */
#include "engine/redis/commands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define UUID "6ba7b810-9dad-41d1-80b4-00c04fd430c8"

enum { EXPECTED_SIZE = 8 * PAWL__COMPOSED_SIZE_MAX, KEYS_MAX = 5 };

static size_t add_word(char *to, size_t size, const char *prefix, const char *name, const char *end)
{
    const size_t word_size = strlen(prefix) + strlen(name) + strlen(end);
    return size + (size_t)snprintf(to + size, EXPECTED_SIZE - size, "$%zu\r\n%s%s%s\r\n", word_size,
                      prefix, name, end);
}

struct key {
    const char *prefix;
    bool braces; /* round the name, unless it has one of its own */
};

static const struct key token = {"redisson_lock_token:", true};
static const struct key lock = {"", false};
static const struct key channel = {"redisson_lock__channel:", true};
static const struct key rw_channel = {"redisson_rwlock:", true};
static const struct key queue = {"redisson_lock_queue:", true};
static const struct key timeouts = {"redisson_lock_timeout:", true};
static const struct key stem = {"", true};

static size_t add_key(char *to, size_t size, const struct key *key, const char *name)
{
    char prefix[64];
    const bool braces = key->braces && strchr(name, '{') == NULL;
    snprintf(prefix, sizeof prefix, "%s%s", key->prefix, braces ? "{" : "");
    return add_word(to, size, prefix, name, braces ? "}" : "");
}

/* Behind the head of the script's call come these keys, and then the owner. */
static void expect_keys(const char *name, enum pawl__family family, enum pawl__op_kind kind,
    const struct key *const keys[KEYS_MAX])
{
    char expected[EXPECTED_SIZE];
    size_t size = 0;
    for (size_t i = 0; i < KEYS_MAX && keys[i] != NULL; i++) {
        size = add_key(expected, size, keys[i], name);
    }
    size = add_word(expected, size, UUID, ":7", "");

    struct pawl__commands commands;
    struct pawl__redis_place place = {
        .place = {.name = name, .name_size = (uint32_t)strlen(name), .family = family}};
    const struct pawl__op op = {.kind = kind,
        .place = &place.place,
        .as = PAWL_WRITE,
        .id = 7,
        .heir_id = 8,
        .lease_us = 1000};
    struct pawl__buffer out;
    pawl__redis_place_init(&place);
    pawl__commands_init(&commands, UUID, 100);
    pawl__buffer_init(&out, 1 << 16);
    assert_true(pawl__command_put(&commands, &out, &op, false));
    const char *text = pawl__buffer_data(&out);
    const size_t text_size = pawl__buffer_size(&out);
    static const char end_of_sha[] = "\r\n$1\r\n";
    const char *head = memmem(text, text_size, end_of_sha, sizeof end_of_sha - 1);
    assert_non_null(head);
    head += sizeof end_of_sha - 1 + 3; /* and the number of keys */
    assert_true((size_t)(text + text_size - head) >= size);
    assert_memory_equal(head, expected, size);
    pawl__buffer_free(&out);
}

static const struct {
    enum pawl__family family;
    enum pawl__op_kind kind;
    const struct key *keys[KEYS_MAX];
} operations[] = {
    {PAWL__FAMILY_MUTEX, PAWL__OP_ACQUIRE, {&token, &lock}},
    {PAWL__FAMILY_MUTEX, PAWL__OP_RENEW, {&lock}},
    {PAWL__FAMILY_MUTEX, PAWL__OP_COUNT, {&lock}},
    {PAWL__FAMILY_MUTEX, PAWL__OP_RELEASE, {&lock, &channel}},
    {PAWL__FAMILY_MUTEX, PAWL__OP_PASS, {&token, &lock, &channel}},
    {PAWL__FAMILY_MUTEX, PAWL__OP_INSPECT, {&token, &lock}},
    {PAWL__FAMILY_FAIR, PAWL__OP_ACQUIRE, {&token, &lock, &queue, &timeouts}},
    {PAWL__FAMILY_FAIR, PAWL__OP_RELEASE, {&lock, &queue, &timeouts, &channel}},
    {PAWL__FAMILY_SHARED, PAWL__OP_ACQUIRE, {&token, &lock, &stem}},
    {PAWL__FAMILY_SHARED, PAWL__OP_RELEASE, {&lock, &rw_channel, &stem}},
    {PAWL__FAMILY_SPIN, PAWL__OP_ACQUIRE, {&token, &lock}},
    {PAWL__FAMILY_PLAIN, PAWL__OP_ACQUIRE, {&lock}},
};

static void expect_all(const char *name)
{
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        expect_keys(name, operations[i].family, operations[i].kind, operations[i].keys);
    }
}

static void keys_of_every_size(void **state)
{
    (void)state;
    static const size_t limits[] = {1, 10, 100, 1000, PAWL__NAME_SIZE_MAX};
    enum { AROUND = 30 }; /* more than prefix and braces have */
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const size_t first = limits[i] > AROUND ? limits[i] - AROUND : 1;
        for (size_t size = first; size <= limits[i]; size++) {
            char name[PAWL__NAME_SIZE_MAX + 1];
            memset(name, 'n', size);
            name[size] = '\0';
            expect_all(name);
            name[size / 2] = '}';
            expect_all(name);
            name[size - 1] = '{';
            expect_all(name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_every_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
