/* SPDX-License-Identifier: Apache-2.0 */
/* JSON (RFC 8259), written as it comes: no tree is kept, commas and nesting are looked after.
 *
 * Names of locks, hosts and commands may be any bytes, JSON strings may not. What is not valid
 * UTF-8 comes as U+FFFD, and then a second member, <key>_hex, has all the bytes. Whatever a
 * terminal might obey is written as \uXXXX. Whole documents are lines: nothing is indented. */
#ifndef PAWL_TEXT_JSON_H
#define PAWL_TEXT_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { CLI_JSON_DEPTH_MAX = 8 };

struct cli_json {
    FILE *out;
    unsigned depth;
    bool filled[CLI_JSON_DEPTH_MAX]; /* this level has a member already */
};

void cli_json_open(struct cli_json *json, FILE *out);

/* In an object every value has a key; in a list it is NULL. */
void cli_json_object(struct cli_json *json, const char *key);
void cli_json_object_end(struct cli_json *json);
void cli_json_list(struct cli_json *json, const char *key);
void cli_json_list_end(struct cli_json *json);

void cli_json_string(struct cli_json *json, const char *key, const char *value);
void cli_json_bytes(struct cli_json *json, const char *key, const char *value); /* with <key>_hex */
void cli_json_integer(struct cli_json *json, const char *key, int64_t value);
void cli_json_decimal(struct cli_json *json, const char *key, double value, int digits);
void cli_json_bool(struct cli_json *json, const char *key, bool value);
void cli_json_null(struct cli_json *json, const char *key);

/* null for what is not known; an empty string is not. */
void cli_json_integer_or_null(struct cli_json *json, const char *key, int64_t value, bool known);
void cli_json_bytes_or_null(struct cli_json *json, const char *key, const char *value);

/* A number of 64 bits as a string: many readers keep 53 of them only. 0 is null. */
void cli_json_token(struct cli_json *json, const char *key, uint64_t value);

/* The end of the document: a newline, and everything goes out. */
void cli_json_close(struct cli_json *json);

#endif
