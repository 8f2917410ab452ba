/* SPDX-License-Identifier: Apache-2.0 */
/* See reader.h. Lines are gathered one at a time and judged when they are complete; only the few
 * headers that say how long the body is, and whether the connection stays, are looked at. */
#include "load/reader.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

void reader_init(struct reader *reader, char *body, size_t body_size)
{
    reader->body = body;
    reader->body_size = body_size;
    reader_reset(reader);
}

void reader_reset(struct reader *reader)
{
    reader->state = READER_STATUS_LINE;
    reader->status = 0;
    reader->keeps_open = true;
    reader->has_length = false;
    reader->is_chunked = false;
    reader->left = 0;
    reader->line_length = 0;
    reader->body_length = 0;
    reader->line[0] = '\0';
    reader->body[0] = '\0';
}

/* "HTTP/1.1 201 Created" */
static void take_status_line(struct reader *reader)
{
    const char *line = reader->line;
    if (strncmp(line, "HTTP/1.", 7) != 0 || strlen(line) < 12 || line[8] != ' ') {
        reader->state = READER_BAD;
        return;
    }
    reader->status = atoi(line + 9);
    reader->keeps_open = line[7] != '0';
    reader->state = reader->status >= 100 && reader->status <= 599 ? READER_HEADERS : READER_BAD;
}

/* The value of the line if it is this header, or NULL. */
static const char *header_value(const char *line, const char *name)
{
    const size_t length = strlen(name);
    if (strncasecmp(line, name, length) != 0 || line[length] != ':') {
        return NULL;
    }
    return line + length + 1 + strspn(line + length + 1, " \t");
}

static void take_header(struct reader *reader)
{
    const char *value = header_value(reader->line, "Content-Length");
    if (value) {
        reader->left = strtoull(value, NULL, 10);
        reader->has_length = true;
        return;
    }
    value = header_value(reader->line, "Transfer-Encoding");
    if (value) {
        reader->is_chunked = strncasecmp(value, "chunked", 7) == 0;
        return;
    }
    value = header_value(reader->line, "Connection");
    if (value) {
        reader->keeps_open = strncasecmp(value, "close", 5) != 0;
    }
}

static void end_headers(struct reader *reader)
{
    if (reader->status < 200) {
        reader_reset(reader); /* "100 Continue" and the like: the answer is yet to come */
    } else if (reader->status == 204 || reader->status == 304) {
        reader->state = READER_DONE;
    } else if (reader->is_chunked) {
        reader->state = READER_CHUNK_LINE;
    } else if (reader->has_length) {
        reader->state = reader->left > 0 ? READER_BODY_COUNTED : READER_DONE;
    } else {
        reader->keeps_open = false;
        reader->state = READER_BODY_TO_THE_END;
    }
}

static void take_chunk_line(struct reader *reader)
{
    char *end = NULL;
    reader->left = strtoull(reader->line, &end, 16);
    if (end == reader->line) {
        reader->state = READER_BAD;
    } else {
        reader->state = reader->left > 0 ? READER_CHUNK : READER_TRAILERS;
    }
}

/* A complete line, without its end. */
static void take_line(struct reader *reader)
{
    const bool is_empty = reader->line[0] == '\0';
    switch (reader->state) {
    case READER_STATUS_LINE:
        take_status_line(reader);
        break;
    case READER_HEADERS:
        if (is_empty) {
            end_headers(reader);
        } else {
            take_header(reader);
        }
        break;
    case READER_CHUNK_LINE:
        take_chunk_line(reader);
        break;
    case READER_CHUNK_END:
        reader->state = is_empty ? READER_CHUNK_LINE : READER_BAD;
        break;
    case READER_TRAILERS:
        reader->state = is_empty ? READER_DONE : READER_TRAILERS;
        break;
    case READER_BODY_COUNTED:
    case READER_BODY_TO_THE_END:
    case READER_CHUNK:
    case READER_DONE:
    case READER_BAD:
        break;
    }
}

/* Bytes up to the end of a line; what does not fit into the buffer is dropped. */
static size_t feed_line(struct reader *reader, const char *data, size_t length)
{
    const char *newline = memchr(data, '\n', length);
    const size_t taken = newline ? (size_t)(newline - data) : length;
    const size_t room = READER_LINE_SIZE - 1 - reader->line_length;
    const size_t kept = taken < room ? taken : room;
    memcpy(reader->line + reader->line_length, data, kept);
    reader->line_length += kept;
    reader->line[reader->line_length] = '\0';
    if (!newline) {
        return taken;
    }
    if (reader->line_length > 0 && reader->line[reader->line_length - 1] == '\r') {
        reader->line[reader->line_length - 1] = '\0';
    }
    reader->line_length = 0;
    take_line(reader);
    return taken + 1;
}

static void keep_body(struct reader *reader, const char *data, size_t length)
{
    const size_t room = reader->body_size - 1 - reader->body_length;
    const size_t kept = length < room ? length : room;
    memcpy(reader->body + reader->body_length, data, kept);
    reader->body_length += kept;
    reader->body[reader->body_length] = '\0';
}

static size_t feed_body(struct reader *reader, const char *data, size_t length)
{
    if (reader->state == READER_BODY_TO_THE_END) {
        keep_body(reader, data, length);
        return length;
    }
    const size_t taken = length < reader->left ? length : (size_t)reader->left;
    keep_body(reader, data, taken);
    reader->left -= taken;
    if (reader->left == 0) {
        reader->state = reader->state == READER_CHUNK ? READER_CHUNK_END : READER_DONE;
    }
    return taken;
}

static bool is_in_body(const struct reader *reader)
{
    return reader->state == READER_BODY_COUNTED || reader->state == READER_BODY_TO_THE_END ||
           reader->state == READER_CHUNK;
}

size_t reader_feed(struct reader *reader, const char *data, size_t length)
{
    size_t taken = 0;
    while (taken < length && reader->state != READER_DONE && reader->state != READER_BAD) {
        const char *rest = data + taken;
        taken += is_in_body(reader) ? feed_body(reader, rest, length - taken)
                                    : feed_line(reader, rest, length - taken);
    }
    return taken;
}

bool reader_end(struct reader *reader)
{
    if (reader->state == READER_BODY_TO_THE_END) {
        reader->state = READER_DONE;
    }
    return reader->state == READER_DONE;
}
