/* SPDX-License-Identifier: Apache-2.0 */
/* The wire format of Redis (RESP2 and RESP3), as much of it as the test support needs.
 *
 * This is deliberately not the library's own codec: a fault proxy that shared the parser it is
 * meant to test would share its mistakes. It finds where a value ends, takes requests apart into
 * words, and prints replies as flat text. It trusts its peer and has no limits but depth. */
#ifndef PAWL_SUPPORT_RESP_H
#define PAWL_SUPPORT_RESP_H

#include "support/text.h"

#include <stdbool.h>
#include <stddef.h>

enum resp_state {
    RESP_COMPLETE, /* a whole value is there */
    RESP_PARTIAL,  /* more bytes are needed */
    RESP_BROKEN    /* this is no RESP */
};

/* Find the end of the first value (for a request: an array of strings, or one inline line). */
enum resp_state resp_find_end(const char *data, size_t size, size_t *value_size_out);

/* The words of one request. Words may contain any byte; each has a NUL behind it. */
struct resp_words {
    size_t count;
    char **items;
    size_t *sizes;
};

/* Take one complete request apart; false if it is no list of strings. */
bool resp_read_words(const char *data, size_t size, struct resp_words *words_out);
void resp_free_words(struct resp_words *words);

/* The words with one space between them, for matching and for messages. */
void resp_join_words(const struct resp_words *words, struct text *text);

/* The request that consists of these words. */
void resp_add_request(
    struct text *text, size_t count, const char *const words[], const size_t sizes[]);

/* Print one complete value as flat text: strings and numbers as they are, "(nil)", errors as
 * "(error) ERR ...", the elements of an aggregate with a space between them, inner aggregates in
 * brackets. */
void resp_add_flat(struct text *text, const char *data, size_t size);

#endif
