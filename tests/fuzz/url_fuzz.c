/* SPDX-License-Identifier: Apache-2.0 */
/* The URL parser, given any bytes.
 *
 * First the input is the URL. One that is accepted must keep the invariants of its parts, and when
 * its parts are written down again, escaped wherever that is possible, the parser must make the
 * same parts of it. All typed getters are tried on each parameter. Then the input is put around a
 * canary in the place of the password: whatever is wrong, no sentence may contain it. */
#include "base/error.h"
#include "base/limits.h"
#include "base/url.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANARY "Kz9canaryQ4"
#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "url_fuzz: %s\n", what);
        abort();
    }
}

/* ===== Written down again ===== */

struct text {
    char bytes[8 * PAWL__URL_SIZE_MAX];
    size_t size;
};

static void add(struct text *text, const char *string)
{
    size_t size = strlen(string);
    must(text->size + size < sizeof text->bytes, "the buffer is too small");
    memcpy(text->bytes + text->size, string, size + 1);
    text->size += size;
}

/* Everything escaped but letters, digits and what is spared. */
static void add_escaped(struct text *text, const char *string, const char *spared)
{
    for (const char *c = string; *c != '\0'; c++) {
        char one[4] = {*c, '\0'};
        if (strchr(PLAIN, *c) == NULL && strchr(spared, *c) == NULL) {
            snprintf(one, sizeof one, "%%%02x", (unsigned)(unsigned char)*c);
        }
        add(text, one);
    }
}

static void add_user(struct text *text, const struct pawl__url *url)
{
    if (url->user != NULL) {
        add_escaped(text, url->user, "");
    }
    if (url->password != NULL) {
        add(text, ":");
        add_escaped(text, url->password, "");
    }
    if (url->user != NULL || url->password != NULL) {
        add(text, "@");
    }
}

static void add_host(struct text *text, const struct pawl__url_host *host)
{
    bool bracketed = strchr(host->name, ':') != NULL;
    add(text, bracketed ? "[" : "");
    add_escaped(text, host->name, ":");
    add(text, bracketed ? "]" : "");
    if (host->port != 0) {
        char port[16];
        snprintf(port, sizeof port, ":%d", host->port);
        add(text, port);
    }
}

static void write_url(struct text *text, const struct pawl__url *url)
{
    text->size = 0;
    add(text, url->scheme);
    bool slash = url->path != NULL && url->path[0] == '/';
    add(text, url->host_count > 0 || slash ? "://" : ":");
    add_user(text, url);
    for (size_t i = 0; i < url->host_count; i++) {
        add(text, i > 0 ? "," : "");
        add_host(text, &url->hosts[i]);
    }
    if (url->path != NULL) {
        add(text, slash ? "/" : "");
        add_escaped(text, url->path + (slash ? 1 : 0), "");
    }
    for (size_t i = 0; i < url->parameter_count; i++) {
        add(text, i > 0 ? "&" : "?");
        add_escaped(text, url->parameters[i].key, "");
        add(text, "=");
        add_escaped(text, url->parameters[i].value, "");
    }
}

/* ===== What must hold ===== */

static bool same(const char *a, const char *b)
{
    return (a == NULL) == (b == NULL) && (a == NULL || strcmp(a, b) == 0);
}

static void check_same(const struct pawl__url *a, const struct pawl__url *b)
{
    must(same(a->scheme, b->scheme), "another scheme");
    must(same(a->user, b->user), "another user");
    must(same(a->password, b->password), "another password");
    must(same(a->path, b->path), "another path");
    must(a->host_count == b->host_count, "more or fewer hosts");
    for (size_t i = 0; i < a->host_count; i++) {
        must(same(a->hosts[i].name, b->hosts[i].name), "another host");
        must(a->hosts[i].port == b->hosts[i].port, "another port");
    }
    must(a->parameter_count == b->parameter_count, "more or fewer parameters");
    for (size_t i = 0; i < a->parameter_count; i++) {
        must(same(a->parameters[i].key, b->parameters[i].key), "another key");
        must(same(a->parameters[i].value, b->parameters[i].value), "another value");
    }
}

/* A string of the URL: inside the storage, NUL included, and without control bytes. */
static void check_string(const struct pawl__url *url, const char *string)
{
    if (string == NULL) {
        return;
    }
    must(string >= url->storage && string < url->storage + url->storage_size, "outside");
    size_t left = url->storage_size - (size_t)(string - url->storage);
    size_t size = strnlen(string, left);
    must(size < left, "no NUL");
    for (size_t i = 0; i < size; i++) {
        must((unsigned char)string[i] >= 0x20 && string[i] != 0x7f, "a control byte");
    }
}

static void check_parts(const struct pawl__url *url)
{
    must(url->scheme != NULL && url->scheme[0] != '\0', "no scheme");
    must(strpbrk(url->scheme, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == NULL, "a capital in the scheme");
    must(url->user == NULL || url->user[0] != '\0', "an empty user");
    must(url->path == NULL || url->path[0] != '\0', "an empty path");
    must(url->host_count <= PAWL__URL_HOSTS_MAX, "too many hosts");
    must(url->parameter_count <= PAWL__URL_PARAMETERS_MAX, "too many parameters");
    check_string(url, url->scheme);
    check_string(url, url->user);
    check_string(url, url->password);
    check_string(url, url->path);
    for (size_t i = 0; i < url->host_count; i++) {
        must(url->hosts[i].name[0] != '\0', "an empty host");
        must(url->hosts[i].port >= 0 && url->hosts[i].port <= 65535, "a port out of range");
        check_string(url, url->hosts[i].name);
    }
    for (size_t i = 0; i < url->parameter_count; i++) {
        must(url->parameters[i].key[0] != '\0', "an empty key");
        check_string(url, url->parameters[i].key);
        check_string(url, url->parameters[i].value);
    }
}

static void check_round_trip(const struct pawl__url *url)
{
    static struct text text;
    struct pawl__url again;
    write_url(&text, url);
    if (text.size <= PAWL__URL_SIZE_MAX) {
        must(pawl__url_parse(text.bytes, &again) == PAWL_OK, "refused when written again");
        check_same(url, &again);
        pawl__url_free(&again);
    }
}

static void check_getters(struct pawl__url *url)
{
    for (size_t i = 0; i < url->parameter_count; i++) {
        const char *key = url->parameters[i].key;
        int64_t value = -1;
        pawl_status status = pawl__url_get_duration_ms(url, key, 10, 1000000, &value);
        must((status == PAWL_OK) == (value >= 10 && value <= 1000000), "a wrong duration");
        value = -1;
        status = pawl__url_get_int(url, key, 0, 15, &value);
        must((status == PAWL_OK) == (value >= 0 && value <= 15), "a wrong number");
        bool flag = false;
        status = pawl__url_get_bool(url, key, &flag);
        must(status == PAWL_OK || !flag, "a wrong flag");
        must(same(pawl__url_get(url, key), url->parameters[i].value), "the wrong value");
    }
    must(pawl__url_check_unused(url) == PAWL_OK, "unused after all were asked for");
}

static void parse(const char *text)
{
    struct pawl__url url;
    pawl__fail(PAWL_OK, "%s", "");
    pawl_status status = pawl__url_parse(text, &url);
    if (status == PAWL_OK) {
        check_parts(&url);
        check_round_trip(&url);
        check_getters(&url);
    } else {
        must(status == PAWL_INVALID, "neither accepted nor invalid");
        must(pawl__error_text()[0] != '\0', "no sentence");
        must(url.storage == NULL && url.host_count == 0, "a result in spite of the refusal");
    }
    pawl__url_free(&url);
}

/* ===== The canary ===== */

/* The first byte says where the input is cut in two; NUL bytes would only end the URL early. */
static void parse_around_canary(const uint8_t *data, size_t size)
{
    static char text[PAWL__URL_SIZE_MAX + 200];
    if (size < 1 || size > PAWL__URL_SIZE_MAX || memchr(data, '\0', size) != NULL) {
        return;
    }
    int before = (int)(data[0] % size);
    snprintf(text, sizeof text, "redis://u:%.*s" CANARY "%.*s@host:0", before,
        (const char *)data + 1, (int)size - 1 - before, (const char *)data + 1 + before);
    struct pawl__url url;
    pawl_status status = pawl__url_parse(text, &url);
    must(status == PAWL_INVALID, "port 0 was accepted");
    must(strstr(pawl__error_text(), "canary") == NULL, "the password is in the sentence");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    must(text != NULL, "no memory");
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    parse(text);
    free(text);
    parse_around_canary(data, size);
    return 0;
}
