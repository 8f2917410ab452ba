/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads HTTP/1.x answers as they arrive, byte by byte if need be: the status, whether the
 * connection stays open, and the beginning of the body. It knows no sockets; whoever has one feeds
 * it.
 *
 * Bodies may be counted (Content-Length), chunked, or end with the connection. Interim answers
 * (1xx) are passed over. What is longer than the buffers is read to its end; only its beginning is
 * kept.
 */
#ifndef FLASHSALE_LOAD_READER_H
#define FLASHSALE_LOAD_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { READER_LINE_SIZE = 160 };

enum reader_state {
    READER_STATUS_LINE,
    READER_HEADERS,
    READER_BODY_COUNTED,
    READER_BODY_TO_THE_END, /* of the connection */
    READER_CHUNK_LINE,
    READER_CHUNK,
    READER_CHUNK_END, /* the empty line behind a chunk */
    READER_TRAILERS,
    READER_DONE,
    READER_BAD, /* this is not HTTP/1.x */
};

struct reader {
    enum reader_state state;
    int status;
    bool keeps_open; /* the connection may be used again */
    bool has_length;
    bool is_chunked;
    uint64_t left; /* bytes of the body or the chunk that are still to come */
    size_t line_length;
    size_t body_length; /* of what is kept */
    char line[READER_LINE_SIZE];
    char *body; /* ends with 0 */
    size_t body_size;
};

/* Once; the body's beginning goes to the buffer, which must outlive the reader. */
void reader_init(struct reader *reader, char *body, size_t body_size);

/* Before each answer. */
void reader_reset(struct reader *reader);

/* Take bytes until the answer is complete; how many were taken. The state says how it stands. */
size_t reader_feed(struct reader *reader, const char *data, size_t length);

/* The connection has ended; true if the answer is complete with that. */
bool reader_end(struct reader *reader);

#endif
