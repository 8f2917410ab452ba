/* SPDX-License-Identifier: Apache-2.0 */

/* Fuzz target: the reply reader on any bytes, with hiredis as the oracle.
 *
 * The input is taken as a stream of replies. Each reply is read whole and, with a second reader,
 * byte by byte from a new block of exactly the size that has arrived; both must say the same and
 * build the same nodes. The nodes must form a tree whose texts lie inside the reply.
 *
 * Each reply is also given to hiredis 0.14, which knows RESP2 only. Where both find a reply it must
 * be the same one, of the same size. They may differ where
 *   - hiredis meets a type byte that it does not know, or its own limit of 7 levels,
 *   - we are stricter on purpose: a lone CR or LF in a line, a body that does not end in CR LF,
 *     numbers that are not canonical, and our limits.
 * In all other cases a difference ends the program. */
#include "engine/redis/resp.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    DRIP_SIZE_MAX = 2048, /* longer replies are not read byte by byte: that is quadratic here */
    ORACLE_SIZE_MAX = 1 << 16,
};

/* Small enough that inputs of a few hundred bytes reach them. */
static const struct pawl__resp_limits limits = {
    .reply_size = 4096,
    .bulk_size = 600,
    .line_size = 300,
    .element_count = 64,
    .node_count = 100,
    .depth = 8,
};

static void require(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "resp_fuzz: %s\n", what);
        abort();
    }
}

/* --- The tree itself --- */

static bool is_aggregate(const struct pawl__resp_node *node)
{
    return node->type == PAWL__RESP_ARRAY || node->type == PAWL__RESP_SET ||
           node->type == PAWL__RESP_MAP || node->type == PAWL__RESP_PUSH;
}

static void check_tree(const struct pawl__resp_reader *reader, size_t reply_size)
{
    require(reader->node_count > 0, "a complete reply without nodes");
    require(reader->nodes[0].next == reader->node_count, "the root does not span all nodes");
    for (uint32_t i = 0; i < reader->node_count; i++) {
        const struct pawl__resp_node *node = &reader->nodes[i];
        require(node->next > i && node->next <= reader->node_count, "a node leads nowhere");
        require((size_t)node->text_offset + node->text_size <= reply_size, "a text too far");
        require(is_aggregate(node) || node->child_count == 0, "a leaf with children");
        require(node->type != PAWL__RESP_PUSH || i == 0, "a push inside");
        uint32_t count = 0;
        for (const struct pawl__resp_node *child = pawl__resp_first(reader, node); child != NULL;
             child = pawl__resp_next(reader, node, child)) {
            count++;
        }
        require(count == node->child_count, "a node with another number of children");
    }
}

/* --- Byte by byte --- */

static void check_same_nodes(
    const struct pawl__resp_reader *whole, const struct pawl__resp_reader *dripped)
{
    require(whole->node_count == dripped->node_count, "other nodes byte by byte");
    for (uint32_t i = 0; i < whole->node_count; i++) {
        const struct pawl__resp_node *a = &whole->nodes[i];
        const struct pawl__resp_node *b = &dripped->nodes[i];
        require(a->type == b->type && a->integer == b->integer && a->next == b->next &&
                    a->child_count == b->child_count && a->text_offset == b->text_offset &&
                    a->text_size == b->text_size,
            "another node byte by byte");
    }
}

static enum pawl__resp_result feed(
    struct pawl__resp_reader *reader, const char *data, size_t size, size_t *consumed_out)
{
    char *block = malloc(size > 0 ? size : 1);
    require(block != NULL, "no memory");
    memcpy(block, data, size);
    const enum pawl__resp_result result = pawl__resp_parse(reader, block, size, consumed_out);
    free(block);
    return result;
}

static void check_dripping(const struct pawl__resp_reader *whole, enum pawl__resp_result expected,
    const char *data, size_t size)
{
    struct pawl__resp_reader dripped;
    pawl__resp_init(&dripped, &limits);
    enum pawl__resp_result result = PAWL__RESP_MORE;
    size_t consumed = 0;
    size_t arrived = 0;
    while (result == PAWL__RESP_MORE && arrived <= size) {
        result = feed(&dripped, data, arrived, &consumed);
        require(consumed == (result == PAWL__RESP_COMPLETE ? arrived : 0), "consumed elsewhere");
        arrived++;
    }
    require(result == expected, "another result byte by byte");
    if (result == PAWL__RESP_COMPLETE) {
        check_same_nodes(whole, &dripped);
    }
    pawl__resp_free(&dripped);
}

/* --- The oracle --- */

static bool same_text(const struct pawl__resp_reader *reader, const struct pawl__resp_node *node,
    const redisReply *reply)
{
    return node->text_size == reply->len &&
           memcmp(pawl__resp_text(reader, node), reply->str, node->text_size) == 0;
}

/* Compare a node with a reply of hiredis. The depth is hiredis' own limit, so this may recurse. */
static bool same_reply(const struct pawl__resp_reader *reader, const struct pawl__resp_node *node,
    const redisReply *reply)
{
    switch (reply->type) {
    case REDIS_REPLY_NIL:
        return node->type == PAWL__RESP_NULL;
    case REDIS_REPLY_INTEGER:
        return node->type == PAWL__RESP_INTEGER && node->integer == reply->integer;
    case REDIS_REPLY_STATUS:
        return node->type == PAWL__RESP_STATUS && same_text(reader, node, reply);
    case REDIS_REPLY_ERROR:
        return node->type == PAWL__RESP_ERROR && same_text(reader, node, reply);
    case REDIS_REPLY_STRING:
        return node->type == PAWL__RESP_TEXT && same_text(reader, node, reply);
    default:
        break;
    }
    if (node->type != PAWL__RESP_ARRAY || node->child_count != reply->elements) {
        return false;
    }
    const struct pawl__resp_node *child = pawl__resp_first(reader, node);
    for (size_t i = 0; i < reply->elements; i++) {
        if (!same_reply(reader, child, reply->element[i])) {
            return false;
        }
        child = pawl__resp_next(reader, node, child);
    }
    return true;
}

/* Reasons for which we refuse what hiredis may accept or still wait for. */
static bool is_stricter_on_purpose(const char *reason)
{
    static const char *const reasons[] = {
        "a line does not end in CR LF",
        "a line does not end where it should",
        "a number is malformed",
        "a line is too long",
        "a bulk string is too long",
        "an aggregate has too many elements",
        "too many elements in one reply",
        "the reply is too long",
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (strcmp(reason, reasons[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_beyond_hiredis(const char *error)
{
    return strstr(error, "as reply type byte") != NULL ||
           strstr(error, "nested multi bulk") != NULL;
}

static void compare(const struct pawl__resp_reader *reader, enum pawl__resp_result result,
    size_t consumed, const redisReply *reply, size_t oracle_consumed)
{
    if (reply == NULL) {
        require(result != PAWL__RESP_COMPLETE, "a reply that hiredis is still waiting for");
        return;
    }
    if (result == PAWL__RESP_BROKEN) {
        require(is_stricter_on_purpose(reader->broken), "refused what hiredis reads");
        return;
    }
    require(result == PAWL__RESP_COMPLETE, "still waiting for what hiredis has read");
    require(consumed == oracle_consumed, "a reply of another size than hiredis'");
    require(same_reply(reader, pawl__resp_root(reader), reply), "another reply than hiredis'");
}

static redisReplyObjectFunctions oracle_functions; /* hiredis' own, but for the next one */
static void *(*create_any_array)(const redisReadTask *, int);

/* hiredis allocates by the announced count, whatever that is; we must not let it. */
static void *create_small_array(const redisReadTask *task, int count)
{
    return count > (int)limits.element_count ? NULL : create_any_array(task, count);
}

static redisReader *create_oracle(void)
{
    redisReader *oracle = redisReaderCreate();
    require(oracle != NULL, "no oracle");
    oracle_functions = *oracle->fn;
    create_any_array = oracle_functions.createArray;
    oracle_functions.createArray = create_small_array;
    oracle->fn = &oracle_functions;
    return oracle;
}

static void check_oracle(const struct pawl__resp_reader *reader, enum pawl__resp_result result,
    size_t consumed, const char *data, size_t size)
{
    redisReader *oracle = create_oracle();
    require(redisReaderFeed(oracle, data, size) == REDIS_OK, "no oracle");
    const size_t fed = oracle->len;
    void *reply = NULL;
    if (redisReaderGetReply(oracle, &reply) == REDIS_OK) {
        /* hiredis drops what it has read when that is long enough, and counts from there. */
        const size_t left = oracle->len - oracle->pos;
        compare(reader, result, consumed, reply, fed - left);
    } else {
        require(result == PAWL__RESP_BROKEN || is_beyond_hiredis(oracle->errstr),
            "accepted what hiredis refuses");
    }
    if (reply != NULL) {
        freeReplyObject(reply);
    }
    redisReaderFree(oracle);
}

/* --- The target --- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pawl__resp_reader reader;
    pawl__resp_init(&reader, &limits);
    const char *bytes = (const char *)data;
    enum pawl__resp_result result = PAWL__RESP_COMPLETE;
    while (result == PAWL__RESP_COMPLETE && size > 0) {
        size_t consumed;
        result = pawl__resp_parse(&reader, bytes, size, &consumed);
        require(result != PAWL__RESP_NO_MEMORY, "no memory");
        require((consumed > 0) == (result == PAWL__RESP_COMPLETE), "consumed without a reply");
        if (result == PAWL__RESP_COMPLETE) {
            require(consumed <= size && consumed <= limits.reply_size, "consumed too much");
            check_tree(&reader, consumed);
        }
        if (size <= DRIP_SIZE_MAX || consumed > 0) {
            check_dripping(&reader, result, bytes, consumed > 0 ? consumed : size);
        }
        if (size <= ORACLE_SIZE_MAX) {
            check_oracle(&reader, result, consumed, bytes, size);
        }
        bytes += consumed;
        size -= consumed;
    }
    require((result == PAWL__RESP_BROKEN) == (reader.broken != NULL), "broken without a reason");
    pawl__resp_free(&reader);
    return 0;
}
