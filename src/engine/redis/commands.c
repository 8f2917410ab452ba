/* SPDX-License-Identifier: Apache-2.0 */
/* Operations as commands; commands.h describes it from outside. On the hot path a command is a
 * few copies: the prefix, the keys, and the numbers. Replies are read by answers.c. */
#include "engine/redis/commands.h"

#include "base/rare.h"
#include "engine/redis/commands_fair.h"
#include "engine/redis/commands_families.h"
#include "engine/redis/commands_write.h"
#include "engine/redis/tally.h"

/* Loaded at the greeting; the others when they are first used, by their text. */
static const struct pawl__script *const scripts[] = {&pawl__script_acquire, &pawl__script_renew,
    &pawl__script_count, &pawl__script_release, &pawl__script_pass, &pawl__script_inspect,
    &pawl__script_break, &pawl__script_rights, &pawl__script_introduce};

void pawl__commands_init(struct pawl__commands *commands, const char *uuid, int64_t token_ttl_s)
{
    memcpy(commands->owner, "$00\r\n", 5);
    memcpy(commands->owner + 5, uuid, PAWL__UUID_SIZE);
    commands->owner[5 + PAWL__UUID_SIZE] = ':';
    commands->token_ttl_s = token_ttl_s;
    commands->lease_us = 0;
    commands->token_floor = PAWL__TOKEN_FLOOR;
    head_init(&commands->acquire, &pawl__script_acquire, 2, 4);
    head_init(&commands->acquire_clocked, &pawl__script_acquire_clocked, 2, 4);
    head_init(&commands->count, &pawl__script_count, 1, 2);
    head_init(&commands->release, &pawl__script_release, 1, 2);
    head_init(&commands->pass, &pawl__script_pass, 2, 7);
    head_init(&commands->inspect, &pawl__script_inspect, 2, 1);
    head_init(&commands->break_up, &pawl__script_break, 1, 1);
    head_init(&commands->raise, &pawl__script_raise, 1, 2);
    pawl__family_scripts_init(commands->families);
    head_init(&commands->acquire_fair, &pawl__script_acquire_fair, 4, 7);
    head_init(&commands->release_fair, &pawl__script_release_fair, 3, 2);
    head_init(&commands->break_fair, &pawl__script_break_fair, 3, 1);
}

void pawl__commands_set_floor(struct pawl__commands *commands, int64_t token_floor)
{
    commands->token_floor = token_floor;
    commands->lease_us = 0; /* the text has the old one */
}

/* ===== Keys ===== */

/* How a key begins. All are copied in the size of the longest; what was too much is written over.
 */
struct key_form {
    _Alignas(32) char prefix[24]; /* so one lies in one cache line */
    uint8_t prefix_size;
    bool braces; /* round the name, unless it has one of its own */
};

static const struct key_form key_forms[] = {
    [KEY_TOKEN] = {PAWL__TOKEN_PREFIX ":", sizeof PAWL__TOKEN_PREFIX, true},
    [KEY_CHANNEL] = {PAWL__CHANNEL_PREFIX ":", sizeof PAWL__CHANNEL_PREFIX, true},
    [KEY_LOCK] = {"", 0, false},
    [KEY_QUEUE] = {PAWL__QUEUE_PREFIX ":", sizeof PAWL__QUEUE_PREFIX, true},
    [KEY_TIMEOUTS] = {PAWL__TIMEOUTS_PREFIX ":", sizeof PAWL__TIMEOUTS_PREFIX, true},
    [KEY_RW_CHANNEL] = {PAWL__RW_CHANNEL_PREFIX ":", sizeof PAWL__RW_CHANNEL_PREFIX, true},
    [KEY_STEM] = {"", 0, true},
};

_Static_assert(
    sizeof key_forms[0].prefix + sizeof "$0000\r\n{}\r\n" <= KEY_SIZE_MAX, "a key has its room");

/* A size of three or four digits. */
PAWL__RARE static char *write_long_size(char *at, unsigned size)
{
    at += size >= 1000 ? 4 : 3;
    write_digits_before(at, size);
    return at;
}

static inline char *write_key_size(char *at, unsigned size)
{
    *at++ = '$';
    if (size >= 100) {
        at = write_long_size(at, size);
    } else {
        const unsigned tens = size / 10;
        *at = (char)('0' + tens);
        at += tens > 0 ? 1 : 0;
        *at++ = (char)('0' + size % 10);
    }
    return write_bytes(at, "\r\n", 2);
}

char *pawl__command_write_key(char *at, const struct pawl__redis_place *place, enum key key)
{
    const struct key_form *form = &key_forms[key];
    const unsigned name_size = place->place.name_size;
    const unsigned brace_size = form->braces & place->braces;
    at = write_key_size(at, form->prefix_size + name_size + 2 * brace_size);
    memcpy(at, form->prefix, sizeof form->prefix);
    at += form->prefix_size;
    *at = '{'; /* the name is written over it, if there are no braces */
    at = write_bytes(at + brace_size, place->place.name, name_size);
    *at = '}';
    return write_bytes(at + brace_size, "\r\n", 2);
}

/* ===== One operation ===== */

/* For a quorum. Not in one with the other: nothing must be added to what a mutex takes. */
PAWL__RARE static bool put_acquire_clocked(struct pawl__commands *commands,
    struct pawl__buffer *out, const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    struct pawl__script_head longer;
    const struct pawl__script *script = &pawl__script_acquire_clocked;
    char *at = begin(out, head_for(&commands->acquire_clocked, script, op, &longer), script, whole,
        rest_size(place, 2));
    if (at == NULL) {
        return false;
    }
    at = write_key(at, place, KEY_TOKEN);
    at = write_key(at, place, KEY_LOCK);
    at = write_owner(at, commands, op->id);
    at = write_grant(at, commands, op->lease_us);
    return finish(out, write_tokens(at, op));
}

static bool put_acquire(struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    struct pawl__script_head longer;
    char *at = begin(out, head_for(&commands->acquire, &pawl__script_acquire, op, &longer),
        &pawl__script_acquire, whole, rest_size(place, 2));
    if (at == NULL) {
        return false;
    }
    at = write_key(at, place, KEY_TOKEN);
    at = write_key(at, place, KEY_LOCK);
    at = write_owner(at, commands, op->id);
    at = write_grant(at, commands, op->lease_us);
    return finish(out, write_tokens(at, op));
}

/* What acquire_mixed.lua calls a lock. */
static char letter_of(const struct pawl__op *op)
{
    const enum pawl__family family = op->place->family;
    if (family == PAWL__FAMILY_FAIR) {
        return 'f';
    }
    if (family == PAWL__FAMILY_PLAIN) {
        return 'p';
    }
    if (family != PAWL__FAMILY_SHARED) {
        return 'm';
    }
    return op->as == PAWL_WRITE ? 'w' : 'r';
}

static char *write_letters(char *at, const struct pawl__op *ops, unsigned count)
{
    at = write_key_size(at, count);
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        *at++ = letter_of(op);
    }
    return write_bytes(at, "\r\n", 2);
}

/* The keys of all locks, and behind them those of fair ones' queues. */
static char *write_all_keys(char *at, const struct pawl__op *ops)
{
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
        at = write_key(at, place, letter_of(op) == 'p' ? KEY_LOCK : KEY_TOKEN);
        at = write_key(at, place, KEY_LOCK);
    }
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        if (letter_of(op) == 'f') {
            const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
            at = write_key(at, place, KEY_QUEUE);
            at = write_key(at, place, KEY_TIMEOUTS);
        }
    }
    return at;
}

/* What only some letters need. */
static char *write_extras(char *at, const struct pawl__op *ops, bool fair)
{
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
        const char letter = letter_of(op);
        if (letter == 'r' || letter == 'f') {
            at = write_key(at, place, letter == 'r' ? KEY_STEM : KEY_CHANNEL);
        }
    }
    return fair ? write_number(at, PAWL__FAIR_WAIT_MS) : at;
}

/* Several that are one; see acquire_all.lua and acquire_mixed.lua. */
__attribute__((noinline)) static bool put_acquires(const struct pawl__commands *commands,
    struct pawl__buffer *out, const struct pawl__op *ops, bool whole)
{
    struct pawl__script_head head;
    uint32_t count = 0;
    uint32_t readers = 0;
    uint32_t fairs = 0;
    bool mixed = false;
    size_t size = REST_SIZE_MAX;
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        const char letter = letter_of(op);
        assert(!op->queue);
        count++;
        readers += letter == 'r' ? 1 : 0;
        fairs += letter == 'f' ? 1 : 0;
        mixed = mixed || letter != 'm';
        size += rest_size(pawl__redis_place_of(op->place), letter == 'f' ? 5 : 3);
    }
    assert(count <= PAWL__JOINT_MAX);
    const struct pawl__script *script =
        mixed ? &pawl__script_acquire_mixed : &pawl__script_acquire_all;
    head_init(&head, script, 2 * count + 2 * fairs,
        (mixed ? 3U : 2U) + 3 * count + readers + fairs + (fairs > 0 ? 1 : 0));
    char *at = begin(out, &head, script, whole, size);
    if (at == NULL) {
        return false;
    }
    at = write_all_keys(at, ops);
    at = write_number(at, commands->token_ttl_s);
    at = write_number(at, commands->token_floor);
    at = mixed ? write_letters(at, ops, count) : at;
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        at = write_owner(at, commands, op->id);
        at = write_lease(at, op->lease_us);
        at = write_number(at, op->tokens > 0 ? op->tokens : 1);
    }
    return finish(out, mixed ? write_extras(at, ops, fairs > 0) : at);
}

static bool put_count(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at = begin(out, &commands->count, &pawl__script_count, whole, rest_size(place, 1));
    if (at == NULL) {
        return false;
    }
    at = write_key(at, place, KEY_LOCK);
    at = write_owner(at, commands, op->id);
    return finish(out, write_number(at, op->count));
}

static bool put_release(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at = begin(out, &commands->release, &pawl__script_release, whole, rest_size(place, 2));
    if (at == NULL) {
        return false;
    }
    at = write_key(at, place, KEY_LOCK);
    at = write_key(at, place, KEY_CHANNEL);
    return finish(out, write_owner(at, commands, op->id));
}

/* Several at once; see release_all.lua. */
__attribute__((noinline)) static bool put_releases(const struct pawl__commands *commands,
    struct pawl__buffer *out, const struct pawl__op *ops, bool whole)
{
    const struct pawl__script *script = &pawl__script_release_all;
    struct pawl__script_head head;
    uint32_t count = 0;
    size_t size = 0;
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        count++;
        size += rest_size(pawl__redis_place_of(op->place), 2);
    }
    head_init(&head, script, count, 2 * count);
    char *at = begin(out, &head, script, whole, size);
    if (at == NULL) {
        return false;
    }
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        at = write_key(at, pawl__redis_place_of(op->place), KEY_LOCK);
    }
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        at = write_key(at, pawl__redis_place_of(op->place), KEY_CHANNEL);
        at = write_owner(at, commands, op->id);
    }
    return finish(out, at);
}

static bool put_pass(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    struct pawl__script_head longer;
    char *at = begin(out, head_for(&commands->pass, &pawl__script_pass, op, &longer),
        &pawl__script_pass, whole, rest_size(place, 3));
    if (at == NULL) {
        return false;
    }
    at = write_key(at, place, KEY_TOKEN);
    at = write_key(at, place, KEY_LOCK);
    at = write_key(at, place, KEY_CHANNEL);
    at = write_owner(at, commands, op->id);
    at = write_owner(at, commands, op->heir_id);
    at = write_lease(at, op->lease_us);
    at = write_number(at, commands->token_ttl_s);
    at = write_number(at, commands->token_floor);
    at = write_number(at, op->offer ? atomic_load(&place->subscribed) : -1);
    return finish(out, write_tokens(at, op));
}

static bool put_inspect(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at = begin(out, &commands->inspect, &pawl__script_inspect, whole, rest_size(place, 2));
    if (at == NULL) {
        return false;
    }
    at = write_key(at, place, KEY_TOKEN);
    at = write_key(at, place, KEY_LOCK);
    return finish(out, write_owner(at, commands, op->id));
}

static bool put_break(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at = begin(out, &commands->break_up, &pawl__script_break, whole, rest_size(place, 2));
    if (at == NULL) {
        return false;
    }
    at = write_key(at, place, KEY_LOCK);
    return finish(out, write_key(at, place, KEY_CHANNEL));
}

static bool put_raise(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *op, bool whole)
{
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at = begin(out, &commands->raise, &pawl__script_raise, whole, rest_size(place, 1));
    if (at == NULL) {
        return false;
    }
    at = write_key(at, place, KEY_TOKEN);
    at = write_number(at, (int64_t)op->token);
    return finish(out, write_number(at, commands->token_ttl_s));
}

static bool put_verify(
    const struct pawl__commands *commands, struct pawl__buffer *out, const struct pawl__op *op)
{
    static const char head[] = "*3\r\n$7\r\nHEXISTS\r\n";
    const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
    char *at = pawl__buffer_reserve(out, rest_size(place, 1));
    if (at == NULL) {
        return false;
    }
    at = write_bytes(at, head, sizeof head - 1);
    at = write_key(at, place, KEY_LOCK);
    return finish(out, write_owner(at, commands, op->id));
}

bool pawl__command_put_renewals(const struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *ops, const struct pawl__script *script, bool whole)
{
    uint32_t count = 0;
    size_t size = 0;
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        assert(op->kind == PAWL__OP_RENEW);
        count++;
        size += rest_size(pawl__redis_place_of(op->place), 1);
    }
    assert(count <= PAWL__BATCH_MAX);
    struct pawl__script_head head;
    head_init(&head, script, count, 2 * count);
    char *at = begin(out, &head, script, whole, size);
    if (at == NULL) {
        return false;
    }
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        const struct pawl__redis_place *place = pawl__redis_place_of(op->place);
        at = write_key(at, place, KEY_LOCK);
    }
    for (const struct pawl__op *op = ops; op != NULL; op = op->next) {
        at = write_owner(at, commands, op->id);
        at = write_lease(at, op->lease_us);
    }
    return finish(out, at);
}

static bool put_mutex(struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *ops, bool whole)
{
    switch (ops->kind) {
    case PAWL__OP_ACQUIRE:
        return atomic_load_explicit(&ops->place->clocked, memory_order_relaxed)
                   ? put_acquire_clocked(commands, out, ops, whole)
                   : put_acquire(commands, out, ops, whole);
    case PAWL__OP_RENEW:
        return pawl__command_put_renewals(commands, out, ops, &pawl__script_renew, whole);
    case PAWL__OP_VERIFY:
        return put_verify(commands, out, ops);
    case PAWL__OP_COUNT:
        return put_count(commands, out, ops, whole);
    case PAWL__OP_RELEASE:
        return ops->next != NULL ? put_releases(commands, out, ops, whole)
                                 : put_release(commands, out, ops, whole);
    case PAWL__OP_PASS:
        return put_pass(commands, out, ops, whole);
    case PAWL__OP_INSPECT:
        return put_inspect(commands, out, ops, whole);
    case PAWL__OP_BREAK:
        return put_break(commands, out, ops, whole);
    case PAWL__OP_TALLY:
        return pawl__tally_command_put(commands->owner + 5, out, ops, whole);
    case PAWL__OP_RAISE:
        return put_raise(commands, out, ops, whole);
    case PAWL__OP_WATCH:
    case PAWL__OP_UNWATCH:
        break;
    }
    return false; /* these are for the push connection */
}

bool pawl__command_put(struct pawl__commands *commands, struct pawl__buffer *out,
    const struct pawl__op *ops, bool whole)
{
    const enum pawl__family family = ops->place->family;
    if (ops->kind == PAWL__OP_ACQUIRE && ops->next != NULL) {
        return put_acquires(commands, out, ops, whole);
    }
    if (family == PAWL__FAMILY_MUTEX) {
        return put_mutex(commands, out, ops, whole);
    }
    if (family == PAWL__FAMILY_FAIR && pawl__command_is_fair(ops->kind)) {
        return pawl__command_put_fair(commands, out, ops, whole);
    }
    return pawl__command_differs(family, ops->kind)
               ? pawl__command_put_family(commands, out, ops, whole)
               : put_mutex(commands, out, ops, whole);
}

/* How to renew the holds of a family. */
static const struct pawl__script *renewal_of(enum pawl__family family)
{
    return family == PAWL__FAMILY_SHARED  ? &pawl__script_renew_shared
           : family == PAWL__FAMILY_PLAIN ? &pawl__script_renew_plain
                                          : &pawl__script_renew;
}

bool pawl__command_joins(const struct pawl__op *op, const struct pawl__op *next)
{
    if (next->kind == PAWL__OP_ACQUIRE) {
        return next->joint && op->kind == PAWL__OP_ACQUIRE;
    }
    if (op->kind != next->kind) {
        return false;
    }
    if (op->kind == PAWL__OP_RELEASE) {
        return op->place->family == PAWL__FAMILY_MUTEX && next->place->family == PAWL__FAMILY_MUTEX;
    }
    return op->kind == PAWL__OP_RENEW &&
           renewal_of(op->place->family) == renewal_of(next->place->family);
}

/* ===== Loading scripts, and asking for rights ===== */

static bool put_load(struct pawl__buffer *out, const struct pawl__script *script)
{
    const char *const words[] = {"SCRIPT", "LOAD", script->text};
    const size_t sizes[] = {6, 4, script->text_size};
    return pawl__resp_put_command(out, 3, words, sizes);
}

bool pawl__command_put_loads(struct pawl__buffer *out, size_t *count_out)
{
    bool put = true;
    *count_out = sizeof scripts / sizeof scripts[0];
    for (size_t i = 0; i < *count_out && put; i++) {
        put = put_load(out, scripts[i]);
    }
    return put;
}

/* How rights.lua calls what a family needs. */
static const char *rights_of(enum pawl__family family)
{
    switch (family) {
    case PAWL__FAMILY_FAIR:
        return "fair";
    case PAWL__FAMILY_SHARED:
        return "shared";
    case PAWL__FAMILY_SPIN:
        return "spin";
    case PAWL__FAMILY_PLAIN:
        return "plain";
    case PAWL__FAMILY_SEMAPHORE:
        return "semaphore";
    case PAWL__FAMILY_PERMITS:
        return "permits";
    case PAWL__FAMILY_LATCH:
        return "latch";
    case PAWL__FAMILY_MUTEX:
        break;
    }
    return "mutex";
}

/* The arguments of rights.lua, but for the family. */
enum { TOKEN, LOCK, CHANNEL, FIFTH, SIXTH, NAME_COUNT };

static bool put_rights(struct pawl__buffer *out, const struct pawl__redis_text names[NAME_COUNT],
    const char *family, bool whole)
{
    const struct pawl__script *script = &pawl__script_rights;
    const char *const words[] = {whole ? "EVAL" : "EVALSHA", whole ? script->text : script->sha1,
        "0", names[TOKEN].bytes, names[LOCK].bytes, names[CHANNEL].bytes, family,
        names[FIFTH].bytes, names[SIXTH].bytes};
    const size_t sizes[] = {strlen(words[0]), strlen(words[1]), 1, names[TOKEN].size,
        names[LOCK].size, names[CHANNEL].size, strlen(family), names[FIFTH].size,
        names[SIXTH].size};
    return pawl__resp_put_command(out, sizeof words / sizeof words[0], words, sizes);
}

bool pawl__command_put_rights(
    struct pawl__buffer *out, const struct pawl__redis_place *place, bool whole)
{
    const enum pawl__family family = place->place.family;
    const char *name = place->place.name;
    const size_t name_size = place->place.name_size;
    char keys[4][PAWL__COMPOSED_SIZE_MAX];
    struct pawl__redis_text fifth = pawl__redis_stem(keys[0], &place->place);
    if (family == PAWL__FAMILY_FAIR) {
        fifth = pawl__redis_compose(keys[0], PAWL__QUEUE_PREFIX, name, name_size);
    } else if (family == PAWL__FAMILY_PERMITS) {
        fifth = pawl__redis_compose_leases(keys[0], name, name_size);
    }
    const struct pawl__redis_text names[] = {pawl__redis_token(keys[1], &place->place),
        {name, name_size}, pawl__redis_channel(keys[2], &place->place), fifth,
        pawl__redis_compose(keys[3], PAWL__TIMEOUTS_PREFIX, name, name_size)};
    return put_rights(out, names, rights_of(family), whole);
}

bool pawl__command_put_probe(struct pawl__buffer *out, struct pawl__redis_text name, bool whole)
{
    const struct pawl__redis_text names[] = {name, name, name, name, name};
    return put_rights(out, names, "all", whole);
}
