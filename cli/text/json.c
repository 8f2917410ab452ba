/* SPDX-License-Identifier: Apache-2.0 */
/* See json.h. */
#include "text/json.h"

#include "text/utf8.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

void cli_json_open(struct cli_json *json, FILE *out)
{
    *json = (struct cli_json){.out = out};
}

/* One character inside a string. */
static void put_code(FILE *out, uint32_t code, const char *bytes, size_t size)
{
    if (code == '"' || code == '\\') {
        fprintf(out, "\\%c", (char)code);
    } else if (!cli_utf8_is_harmful(code)) {
        fwrite(bytes, 1, size, out);
    } else if (code < 0x10000) {
        fprintf(out, "\\u%04" PRIx32, code);
    } else {
        uint32_t rest = code - 0x10000;
        fprintf(
            out, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
    }
}

/* A string in quotes. False: not all of it was UTF-8. */
static bool put_string(FILE *out, const char *string)
{
    bool whole = true;
    size_t left = strlen(string);
    fputc('"', out);
    while (left > 0) {
        uint32_t code = 0;
        size_t size = cli_utf8_decode(string, left, &code);
        if (size > 0) {
            put_code(out, code, string, size);
        } else {
            fputs("\xef\xbf\xbd", out);
            whole = false;
            size = 1;
        }
        string += size;
        left -= size;
    }
    fputc('"', out);
    return whole;
}

/* What stands before every value. */
static void begin(struct cli_json *json, const char *key)
{
    assert(json->depth < CLI_JSON_DEPTH_MAX);
    if (json->filled[json->depth]) {
        fputs(", ", json->out);
    }
    json->filled[json->depth] = true;
    if (key != NULL) {
        put_string(json->out, key);
        fputs(": ", json->out);
    }
}

static void enter(struct cli_json *json, const char *key, char bracket)
{
    begin(json, key);
    fputc(bracket, json->out);
    json->depth++;
    assert(json->depth < CLI_JSON_DEPTH_MAX);
    json->filled[json->depth] = false;
}

static void leave(struct cli_json *json, char bracket)
{
    assert(json->depth > 0);
    json->depth--;
    fputc(bracket, json->out);
}

void cli_json_object(struct cli_json *json, const char *key)
{
    enter(json, key, '{');
}

void cli_json_object_end(struct cli_json *json)
{
    leave(json, '}');
}

void cli_json_list(struct cli_json *json, const char *key)
{
    enter(json, key, '[');
}

void cli_json_list_end(struct cli_json *json)
{
    leave(json, ']');
}

void cli_json_string(struct cli_json *json, const char *key, const char *value)
{
    begin(json, key);
    put_string(json->out, value);
}

void cli_json_bytes(struct cli_json *json, const char *key, const char *value)
{
    begin(json, key);
    if (put_string(json->out, value)) {
        return;
    }
    fprintf(json->out, ", \"%s_hex\": \"", key);
    for (const char *at = value; *at != '\0'; at++) {
        fprintf(json->out, "%02x", (unsigned)(unsigned char)*at);
    }
    fputc('"', json->out);
}

void cli_json_integer(struct cli_json *json, const char *key, int64_t value)
{
    begin(json, key);
    fprintf(json->out, "%" PRId64, value);
}

void cli_json_decimal(struct cli_json *json, const char *key, double value, int digits)
{
    if (!isfinite(value)) {
        cli_json_null(json, key);
        return;
    }
    begin(json, key);
    fprintf(json->out, "%.*f", digits, value);
}

void cli_json_bool(struct cli_json *json, const char *key, bool value)
{
    begin(json, key);
    fputs(value ? "true" : "false", json->out);
}

void cli_json_null(struct cli_json *json, const char *key)
{
    begin(json, key);
    fputs("null", json->out);
}

void cli_json_token(struct cli_json *json, const char *key, uint64_t value)
{
    if (value == 0) {
        cli_json_null(json, key);
        return;
    }
    begin(json, key);
    fprintf(json->out, "\"%" PRIu64 "\"", value);
}

void cli_json_close(struct cli_json *json)
{
    assert(json->depth == 0);
    fputc('\n', json->out);
    fflush(json->out);
    json->filled[0] = false;
}

void cli_json_integer_or_null(struct cli_json *json, const char *key, int64_t value, bool known)
{
    if (known) {
        cli_json_integer(json, key, value);
    } else {
        cli_json_null(json, key);
    }
}

void cli_json_bytes_or_null(struct cli_json *json, const char *key, const char *value)
{
    if (value[0] != '\0') {
        cli_json_bytes(json, key, value);
    } else {
        cli_json_null(json, key);
    }
}
