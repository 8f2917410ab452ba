/* SPDX-License-Identifier: Apache-2.0 */

/* The reply reader: bytes of a Redis server in, a flat tree of nodes out.
 *
 * It knows no socket. The caller keeps the received bytes in one contiguous block that begins with
 * the first byte of the current reply, and calls pawl__resp_parse() whenever there are more. The
 * block may lie elsewhere at each call: between calls the reader keeps offsets only. What was read
 * is not read again, so a reply that drips in byte by byte costs no more than one that comes whole.
 *
 * A complete reply is an array of nodes in the order of the wire, each parent before its children;
 * `next` leads past a whole subtree. The array is kept and used again, so the reader does not
 * allocate once it has seen its largest reply. Nested replies need no recursion, attributes are
 * skipped, and everything that a server could make large has a limit.
 *
 * RESP2 and RESP3 are read alike: + - : $ * _ # , ( ! = % ~ > |. Streamed types (of unknown
 * length) are refused; no Redis sends them. Numbers and lengths must be in canonical form.
 *
 * No locks: one thread at a time uses a reader. It relies on base/alloc.h. */
#ifndef PAWL_ENGINE_REDIS_RESP_H
#define PAWL_ENGINE_REDIS_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PAWL__RESP_DEPTH_MAX = 16, /* the most that a struct pawl__resp_limits may allow */
};

/* What a reply may be at most; one more is a broken reply. */
struct pawl__resp_limits {
    uint32_t reply_size;    /* bytes of one reply on the wire, framing included */
    uint32_t bulk_size;     /* bytes of one bulk string */
    uint32_t line_size;     /* bytes of one simple string, error or number, without type and CRLF */
    uint32_t element_count; /* elements of one array, set or push; keys plus values of one map */
    uint32_t node_count;    /* nodes of one reply in all; bounds the reader's memory */
    uint32_t depth;         /* aggregates inside each other */
};

extern const struct pawl__resp_limits pawl__resp_limits_default;
extern const struct pawl__resp_limits pawl__resp_limits_listing; /* long arrays */

enum pawl__resp_type {
    PAWL__RESP_NULL,    /* _ and RESP2's $-1 and *-1 */
    PAWL__RESP_BOOLEAN, /* # */
    PAWL__RESP_INTEGER, /* : */
    PAWL__RESP_DOUBLE,  /* , as text, its form checked */
    PAWL__RESP_BIG,     /* ( as text, its form checked */
    PAWL__RESP_STATUS,  /* + */
    PAWL__RESP_ERROR,   /* - and ! */
    PAWL__RESP_TEXT,    /* $ and = (without the format prefix) */
    PAWL__RESP_ARRAY,   /* * */
    PAWL__RESP_SET,     /* ~ */
    PAWL__RESP_MAP,     /* % */
    PAWL__RESP_PUSH,    /* > */
};

struct pawl__resp_node {
    int64_t integer;      /* of an integer; 0 or 1 of a boolean; else 0 */
    uint32_t text_offset; /* from the first byte of the reply */
    uint32_t text_size;   /* 0 unless it is a double, big number, status, error or text */
    uint32_t child_count; /* 0 unless it is an aggregate; a map of n pairs has 2n children */
    uint32_t next;        /* index of the first node behind this one and all below it */
    enum pawl__resp_type type;
};

enum pawl__resp_result {
    PAWL__RESP_COMPLETE,  /* one reply is there */
    PAWL__RESP_MORE,      /* so far so good */
    PAWL__RESP_BROKEN,    /* not RESP, or over a limit: for ever; `broken` says why */
    PAWL__RESP_NO_MEMORY, /* nothing is lost: the same call may be made again later */
};

/* An aggregate whose children are being read. */
struct pawl__resp_frame {
    uint32_t node_index;
    uint32_t left_count; /* children still to come, the current one included */
    bool attribute;      /* its nodes are dropped when it is complete */
};

struct pawl__resp_reader {
    const struct pawl__resp_limits *limits;
    const char *broken;     /* NULL, or why the stream is broken: a constant text */
    const char *data;       /* of the complete reply, for the accessors */
    size_t at;              /* offset of the first byte not yet understood; 0: no reply begun */
    size_t scanned;         /* the line that begins at `at` does not end before this offset */
    bool body_open;         /* the last node is a bulk string whose body begins at `at` */
    bool body_verbatim;     /* that body begins with a format prefix */
    uint32_t depth;         /* frames in use */
    uint32_t node_count;    /* nodes in use */
    uint32_t node_capacity; /* nodes allocated */
    uint32_t node_room;     /* the smaller of that and the limit */
    struct pawl__resp_node *nodes;
    struct pawl__resp_frame frames[PAWL__RESP_DEPTH_MAX];
};

/* `limits` must live as long as they are set; normally one of the two above. */
void pawl__resp_init(struct pawl__resp_reader *reader, const struct pawl__resp_limits *limits);

/* Give the memory back; the reader may be used again for a new stream. */
void pawl__resp_free(struct pawl__resp_reader *reader);

/* Forget all about the old stream (also that it is broken), keep the memory. */
void pawl__resp_reset(struct pawl__resp_reader *reader);

/* Other limits for the reply that comes next. Not in the middle of one. */
void pawl__resp_set_limits(
    struct pawl__resp_reader *reader, const struct pawl__resp_limits *limits);

/* Read on. `data` is where the current reply begins now, `size` is what has arrived of it and of
 * what follows it.
 *
 * COMPLETE: the reply is consumed_out bytes long, its nodes stay until the next call, its texts as
 * long as the caller leaves the bytes alone. The next call is about the next reply, which begins
 * consumed_out bytes further on. All else: consumed_out is 0. */
__attribute__((warn_unused_result)) enum pawl__resp_result pawl__resp_parse(
    struct pawl__resp_reader *reader, const char *data, size_t size, size_t *consumed_out);

/* The accessors below are for a complete reply. */

static inline const struct pawl__resp_node *pawl__resp_root(const struct pawl__resp_reader *reader)
{
    return reader->nodes;
}

/* The children of an aggregate in turn: first() of the parent, then next() of each child; NULL
 * behind the last one, and at once for what has no children. */
const struct pawl__resp_node *pawl__resp_first(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *parent);
const struct pawl__resp_node *pawl__resp_next(const struct pawl__resp_reader *reader,
    const struct pawl__resp_node *parent, const struct pawl__resp_node *child);

/* The child with that index, or NULL. Walks: for short arrays. */
const struct pawl__resp_node *pawl__resp_child(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *parent, uint32_t index);

/* The value that a key has in a map, or in an array of keys and values in turn (as RESP2 sends
 * it); NULL if there is none. */
const struct pawl__resp_node *pawl__resp_map_get(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *map, const char *key);

/* The text of a node, text_size bytes, without a NUL behind it. */
static inline const char *pawl__resp_text(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *node)
{
    return reader->data + node->text_offset;
}

/* Is it a status or a text, and exactly this one? An error or a number never is. */
bool pawl__resp_text_equals(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *node, const char *text);

/* Is it an error whose first word is this one, for example "NOSCRIPT"? */
bool pawl__resp_error_is(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *node, const char *word);

static inline bool pawl__resp_is_error(const struct pawl__resp_node *node)
{
    return node->type == PAWL__RESP_ERROR;
}

/* Did nobody ask for this reply? Pushes come between replies and answer no command. */
static inline bool pawl__resp_is_push(const struct pawl__resp_node *node)
{
    return node->type == PAWL__RESP_PUSH;
}

#endif
