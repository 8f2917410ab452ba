/* SPDX-License-Identifier: Apache-2.0 */

/* The reply reader; resp.h describes it from outside.
 *
 * One element is read at a time: its header line, and for a bulk string its body. An element is
 * taken in whole or not at all: `at` moves past it only when all its bytes are there and its node
 * is stored, so a call that ends early (more bytes wanted, no memory) can be made again.
 * What keeps that linear: a number is at most 22 bytes with its CRLF, the search for the end of
 * a text line goes on where it stopped (`scanned`), and the length of a bulk string is read once.
 *
 * `frames` is the stack of aggregates that are still open. An element that is complete counts down
 * the innermost one; one that reaches zero is complete itself and counts down the next.
 *
 * The limits are looked at as soon as the header that would break them is read, before a byte of
 * the body is waited for. Nodes are allocated as elements arrive, never by an announced count. */
#include "engine/redis/resp.h"

#include "base/alloc.h"
#include "engine/redis/resp_form.h"

#include <assert.h>
#include <string.h>

enum {
    NODES_MIN = 16,      /* the first allocation */
    VERBATIM_PREFIX = 4, /* three letters and a colon, "txt:" */
    INT64_DIGITS = 19,   /* of the largest 64-bit integer; so many never overflow 64 bits */
};

_Static_assert(sizeof(struct pawl__resp_node) == 32, "the limits count 32 bytes a node");

/* The bytes at hand. */
struct input {
    const char *data;
    size_t size;
};

static enum pawl__resp_result broken(struct pawl__resp_reader *reader, const char *reason)
{
    reader->broken = reason;
    return PAWL__RESP_BROKEN;
}

/* ===== Nodes ===== */

static enum pawl__resp_result grow_nodes(struct pawl__resp_reader *reader)
{
    const uint32_t count_max = reader->limits->node_count;
    if (reader->node_count >= count_max) {
        return broken(reader, "too many elements in one reply");
    }
    uint32_t capacity = reader->node_capacity == 0 ? NODES_MIN : reader->node_capacity * 2;
    if (capacity > count_max) {
        capacity = count_max;
    }
    struct pawl__resp_node *nodes = pawl__realloc(reader->nodes, capacity * sizeof *nodes);
    if (nodes == NULL) {
        return PAWL__RESP_NO_MEMORY;
    }
    reader->nodes = nodes;
    reader->node_capacity = capacity;
    reader->node_room = capacity;
    return PAWL__RESP_COMPLETE;
}

/* Store a node that has no children and no text (yet), and go past the bytes of its header. */
static inline enum pawl__resp_result take_node(struct pawl__resp_reader *reader,
    enum pawl__resp_type type, int64_t integer, size_t header_size)
{
    if (reader->node_count >= reader->node_room) {
        const enum pawl__resp_result grown = grow_nodes(reader);
        if (grown != PAWL__RESP_COMPLETE) {
            return grown;
        }
    }
    const uint32_t index = reader->node_count++;
    reader->nodes[index] =
        (struct pawl__resp_node){.integer = integer, .next = index + 1, .type = type};
    reader->at += header_size;
    return PAWL__RESP_COMPLETE;
}

static struct pawl__resp_node *last_node(struct pawl__resp_reader *reader)
{
    assert(reader->node_count > 0);
    return &reader->nodes[reader->node_count - 1];
}

/* An element is complete: so may be the aggregates that it was the last child of. An attribute is
 * dropped when it is complete and does not count: the value that it belongs to is still to come. */
static inline void count_element(struct pawl__resp_reader *reader)
{
    while (reader->depth > 0) {
        struct pawl__resp_frame *frame = &reader->frames[reader->depth - 1];
        frame->left_count--;
        if (frame->left_count > 0) {
            return;
        }
        reader->depth--;
        if (frame->attribute) {
            reader->node_count = frame->node_index;
            return;
        }
        reader->nodes[frame->node_index].next = reader->node_count;
    }
}

/* Store a node without children and text that is its header line and nothing else. */
static inline enum pawl__resp_result take_leaf(struct pawl__resp_reader *reader,
    enum pawl__resp_type type, int64_t integer, size_t header_size)
{
    const enum pawl__resp_result taken = take_node(reader, type, integer, header_size);
    if (taken == PAWL__RESP_COMPLETE) {
        count_element(reader);
    }
    return taken;
}

/* ===== Lines ===== */

static inline enum pawl__resp_result expect_line_end(
    struct pawl__resp_reader *reader, const struct input *in, size_t offset)
{
    if (offset < in->size && in->data[offset] != '\r') {
        return broken(reader, "a line does not end where it should");
    }
    if (offset + 1 < in->size && in->data[offset + 1] != '\n') {
        return broken(reader, "a line does not end in CR LF");
    }
    return offset + 1 < in->size ? PAWL__RESP_COMPLETE : PAWL__RESP_MORE;
}

/* Read the number that the line at `at` has behind its type byte: an optional minus and digits,
 * no plus sign, no leading zero, no overflow. Not resumable inside; it is at most 22 bytes. */
static inline enum pawl__resp_result read_number(struct pawl__resp_reader *reader,
    const struct input *in, int64_t *value_out, size_t *header_size_out)
{
    size_t offset = reader->at + 1;
    const bool negative = offset < in->size && in->data[offset] == '-';
    offset += negative ? 1 : 0;
    const size_t first = offset;
    const size_t stop = in->size - first > INT64_DIGITS ? first + INT64_DIGITS : in->size;
    uint64_t value = 0;
    while (offset < stop && pawl__resp_is_digit(in->data[offset])) {
        value = value * 10 + (uint64_t)(in->data[offset] - '0');
        offset++;
    }
    if (offset == in->size) {
        return PAWL__RESP_MORE;
    }
    if (offset == first || (in->data[first] == '0' && (negative || offset - first > 1))) {
        return broken(reader, "a number is malformed");
    }
    if (value > (uint64_t)INT64_MAX + (negative ? 1 : 0) || pawl__resp_is_digit(in->data[offset])) {
        return broken(reader, "a number is too large");
    }
    *value_out = negative ? (int64_t)(0 - value) : (int64_t)value;
    *header_size_out = offset + 2 - reader->at;
    return expect_line_end(reader, in, offset);
}

/* Find the end of the text line at `at`; the search goes on where the last call left off. */
static enum pawl__resp_result read_line(
    struct pawl__resp_reader *reader, const struct input *in, size_t *line_size_out)
{
    const size_t begin = reader->at + 1;
    const size_t longest_end = begin + reader->limits->line_size + 2;
    const size_t window_end = in->size < longest_end ? in->size : longest_end;
    const size_t from = reader->scanned > begin ? reader->scanned : begin;
    const char *newline =
        from < window_end ? memchr(in->data + from, '\n', window_end - from) : NULL;
    if (newline == NULL) {
        reader->scanned = window_end;
        return window_end == longest_end ? broken(reader, "a line is too long") : PAWL__RESP_MORE;
    }
    const size_t end = (size_t)(newline - in->data);
    const char *cr = memchr(in->data + begin, '\r', end - begin);
    if (cr == NULL || cr + 1 != newline) {
        return broken(reader, "a line does not end in CR LF");
    }
    *line_size_out = end - 1 - begin;
    return PAWL__RESP_COMPLETE;
}

/* ===== The types ===== */

static inline enum pawl__resp_result read_integer(
    struct pawl__resp_reader *reader, const struct input *in)
{
    int64_t value;
    size_t header_size;
    const enum pawl__resp_result read = read_number(reader, in, &value, &header_size);
    if (read != PAWL__RESP_COMPLETE) {
        return read;
    }
    return take_leaf(reader, PAWL__RESP_INTEGER, value, header_size);
}

static enum pawl__resp_result read_null(struct pawl__resp_reader *reader, const struct input *in)
{
    const enum pawl__resp_result read = expect_line_end(reader, in, reader->at + 1);
    if (read != PAWL__RESP_COMPLETE) {
        return read;
    }
    return take_leaf(reader, PAWL__RESP_NULL, 0, 3);
}

static enum pawl__resp_result read_boolean(struct pawl__resp_reader *reader, const struct input *in)
{
    const size_t offset = reader->at + 1;
    if (offset >= in->size) {
        return PAWL__RESP_MORE;
    }
    const bool value = in->data[offset] == 't';
    if (!value && in->data[offset] != 'f') {
        return broken(reader, "a boolean is neither t nor f");
    }
    const enum pawl__resp_result read = expect_line_end(reader, in, offset + 1);
    if (read != PAWL__RESP_COMPLETE) {
        return read;
    }
    return take_leaf(reader, PAWL__RESP_BOOLEAN, value ? 1 : 0, 4);
}

/* A type whose text is the rest of its line. */
static enum pawl__resp_result read_text_line(
    struct pawl__resp_reader *reader, const struct input *in, enum pawl__resp_type type)
{
    const size_t begin = reader->at + 1;
    size_t size;
    const enum pawl__resp_result read = read_line(reader, in, &size);
    if (read != PAWL__RESP_COMPLETE) {
        return read;
    }
    if (!pawl__resp_well_formed(type, in->data + begin, size)) {
        return broken(reader, "a number is malformed");
    }
    const enum pawl__resp_result taken = take_node(reader, type, 0, size + 3);
    if (taken != PAWL__RESP_COMPLETE) {
        return taken;
    }
    last_node(reader)->text_offset = (uint32_t)begin;
    last_node(reader)->text_size = (uint32_t)size;
    count_element(reader);
    return PAWL__RESP_COMPLETE;
}

/* The header of a bulk string: its length, which is checked before anything is waited for. */
static enum pawl__resp_result open_body(
    struct pawl__resp_reader *reader, const struct input *in, enum pawl__resp_type type)
{
    const char type_byte = in->data[reader->at];
    int64_t size;
    size_t header_size;
    const enum pawl__resp_result read = read_number(reader, in, &size, &header_size);
    if (read != PAWL__RESP_COMPLETE) {
        return read;
    }
    if (size == -1 && type_byte == '$') {
        return take_leaf(reader, PAWL__RESP_NULL, 0, header_size);
    }
    if (size < (type_byte == '=' ? VERBATIM_PREFIX : 0)) {
        return broken(reader, "a length is too small");
    }
    if (size > reader->limits->bulk_size) {
        return broken(reader, "a bulk string is too long");
    }
    if (reader->at + header_size + (size_t)size + 2 > reader->limits->reply_size) {
        return broken(reader, "the reply is too long");
    }
    const enum pawl__resp_result taken = take_node(reader, type, 0, header_size);
    if (taken != PAWL__RESP_COMPLETE) {
        return taken;
    }
    last_node(reader)->text_offset = (uint32_t)reader->at;
    last_node(reader)->text_size = (uint32_t)size;
    reader->body_open = true;
    reader->body_verbatim = type_byte == '=';
    return PAWL__RESP_COMPLETE;
}

static enum pawl__resp_result read_body(struct pawl__resp_reader *reader, const struct input *in)
{
    struct pawl__resp_node *node = last_node(reader);
    const size_t end = reader->at + node->text_size;
    const enum pawl__resp_result read = expect_line_end(reader, in, end);
    if (read != PAWL__RESP_COMPLETE) {
        return read;
    }
    if (reader->body_verbatim) {
        if (in->data[reader->at + VERBATIM_PREFIX - 1] != ':') {
            return broken(reader, "a verbatim string has no format");
        }
        node->text_offset += VERBATIM_PREFIX;
        node->text_size -= VERBATIM_PREFIX;
    }
    reader->at = end + 2;
    reader->body_open = false;
    count_element(reader);
    return PAWL__RESP_COMPLETE;
}

static void push_frame(struct pawl__resp_reader *reader, struct pawl__resp_frame frame)
{
    assert(reader->depth < reader->limits->depth);
    reader->frames[reader->depth] = frame;
    reader->depth++;
}

/* Read the header of an aggregate into the number of elements that follow; -1 is RESP2's null
 * array. */
static enum pawl__resp_result read_count(struct pawl__resp_reader *reader, const struct input *in,
    int64_t *count_out, size_t *header_size_out)
{
    const char type_byte = in->data[reader->at];
    int64_t count;
    const enum pawl__resp_result read = read_number(reader, in, &count, header_size_out);
    if (read != PAWL__RESP_COMPLETE) {
        return read;
    }
    *count_out = count;
    if (count == -1 && type_byte == '*') {
        return PAWL__RESP_COMPLETE;
    }
    if (count < 0) {
        return broken(reader, "a length is too small");
    }
    const int64_t per_count = type_byte == '%' || type_byte == '|' ? 2 : 1;
    if (count > reader->limits->element_count / per_count) {
        return broken(reader, "an aggregate has too many elements");
    }
    if (reader->depth == reader->limits->depth) {
        return broken(reader, "aggregates are nested too deep");
    }
    *count_out = count * per_count;
    return PAWL__RESP_COMPLETE;
}

static enum pawl__resp_result open_aggregate(
    struct pawl__resp_reader *reader, const struct input *in, enum pawl__resp_type type)
{
    int64_t count;
    size_t header_size;
    const enum pawl__resp_result read = read_count(reader, in, &count, &header_size);
    if (read != PAWL__RESP_COMPLETE) {
        return read;
    }
    if (type == PAWL__RESP_PUSH && reader->depth > 0) {
        return broken(reader, "a push inside another reply");
    }
    if (count <= 0) {
        return take_leaf(reader, count < 0 ? PAWL__RESP_NULL : type, 0, header_size);
    }
    const enum pawl__resp_result taken = take_node(reader, type, 0, header_size);
    if (taken != PAWL__RESP_COMPLETE) {
        return taken;
    }
    last_node(reader)->child_count = (uint32_t)count;
    push_frame(reader, (struct pawl__resp_frame){
                           .node_index = reader->node_count - 1, .left_count = (uint32_t)count});
    return PAWL__RESP_COMPLETE;
}

/* An attribute has no node of its own; the nodes of its elements go when the last one is read. */
static enum pawl__resp_result open_attribute(
    struct pawl__resp_reader *reader, const struct input *in)
{
    int64_t count;
    size_t header_size;
    const enum pawl__resp_result read = read_count(reader, in, &count, &header_size);
    if (read != PAWL__RESP_COMPLETE) {
        return read;
    }
    reader->at += header_size;
    if (count > 0) {
        push_frame(reader, (struct pawl__resp_frame){.node_index = reader->node_count,
                               .left_count = (uint32_t)count,
                               .attribute = true});
    }
    return PAWL__RESP_COMPLETE;
}

static enum pawl__resp_result read_step(struct pawl__resp_reader *reader, const struct input *in)
{
    if (reader->body_open) {
        return read_body(reader, in);
    }
    if (reader->at >= in->size) {
        return PAWL__RESP_MORE;
    }
    switch (in->data[reader->at]) {
    case ':':
        return read_integer(reader, in);
    case '_':
        return read_null(reader, in);
    case '#':
        return read_boolean(reader, in);
    case '+':
        return read_text_line(reader, in, PAWL__RESP_STATUS);
    case '-':
        return read_text_line(reader, in, PAWL__RESP_ERROR);
    case ',':
        return read_text_line(reader, in, PAWL__RESP_DOUBLE);
    case '(':
        return read_text_line(reader, in, PAWL__RESP_BIG);
    case '$':
    case '=':
        return open_body(reader, in, PAWL__RESP_TEXT);
    case '!':
        return open_body(reader, in, PAWL__RESP_ERROR);
    case '*':
        return open_aggregate(reader, in, PAWL__RESP_ARRAY);
    case '~':
        return open_aggregate(reader, in, PAWL__RESP_SET);
    case '%':
        return open_aggregate(reader, in, PAWL__RESP_MAP);
    case '>':
        return open_aggregate(reader, in, PAWL__RESP_PUSH);
    case '|':
        return open_attribute(reader, in);
    default:
        return broken(reader, "an unknown type of reply");
    }
}

/* ===== The whole reply ===== */

/* Is there a reply with nothing of it still to come? An attribute alone is none. */
static inline bool is_complete(const struct pawl__resp_reader *reader)
{
    return reader->depth == 0 && reader->node_count > 0 && !reader->body_open;
}

static enum pawl__resp_result finish(
    struct pawl__resp_reader *reader, const char *data, size_t *consumed_out)
{
    *consumed_out = reader->at;
    reader->data = data;
    reader->at = 0;
    reader->scanned = 0;
    return PAWL__RESP_COMPLETE;
}

enum pawl__resp_result pawl__resp_parse(
    struct pawl__resp_reader *reader, const char *data, size_t size, size_t *consumed_out)
{
    const struct input in = {.data = data, .size = size};
    *consumed_out = 0;
    if (reader->broken != NULL) {
        return PAWL__RESP_BROKEN;
    }
    if (reader->at == 0) {
        reader->node_count = 0;
    }
    enum pawl__resp_result result;
    do {
        result = read_step(reader, &in);
        /* What is there is not a whole reply yet: at least one more byte would have to come. */
        if (result == PAWL__RESP_MORE && size >= reader->limits->reply_size) {
            return broken(reader, "the reply is too long");
        }
        if (reader->at > reader->limits->reply_size) {
            return broken(reader, "the reply is too long");
        }
    } while (result == PAWL__RESP_COMPLETE && !is_complete(reader));
    return result == PAWL__RESP_COMPLETE ? finish(reader, data, consumed_out) : result;
}
