/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of URLs.
 *
 * The text is judged as a whole first (its length, bytes that never stand in a URL), then cut into
 * spans, and each span is percent-decoded into one block of memory, of which all strings of the
 * result are parts. No name is looked up, and which schemes exist is not known here. It relies on
 * base/alloc.h and base/error.h and keeps no state. The values behind the '?' are read by
 * url_query.c.
 *
 * A sentence about a URL never repeats its password, not even where a slip of the pen puts it in
 * another's place: "redis://user:pa/ss@host" reads as the host "user" with the port "pa". Hence the
 * invariant: only what stands behind the last '@' of the text is ever quoted. check_at_signs() sees
 * to it before anything else is looked at. Ports are not quoted at all. */
#include "base/url.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/limits.h"

#include <arpa/inet.h>
#include <assert.h>
#include <string.h>

#define QUOTE_SIZE 80
#define STRINGS_MAX (4 + PAWL__URL_HOSTS_MAX + 2 * PAWL__URL_PARAMETERS_MAX)
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

struct span {
    const char *at;
    size_t size;
};

struct parser {
    struct pawl__url *url;
    char *cursor; /* where the next string goes in url->storage */
};

static struct span skip(struct span text, size_t size)
{
    return (struct span){text.at + size, text.size - size};
}

/* The length of the beginning that has none of these characters. */
static size_t find(struct span text, const char *stops)
{
    size_t i = 0;
    while (i < text.size && strchr(stops, text.at[i]) == NULL) {
        i++;
    }
    return i;
}

/* Cut at the first `stop`, which is dropped. False: there is none, and the head is everything. */
static bool cut(struct span *rest, const char *stop, struct span *head)
{
    size_t size = find(*rest, stop);
    bool found = size < rest->size;
    *head = (struct span){rest->at, size};
    *rest = skip(*rest, found ? size + 1 : size);
    return found;
}

static bool has(struct span text, const char *stops)
{
    return find(text, stops) < text.size;
}

static bool made_of(const char *text, size_t size, const char *allowed)
{
    return strspn(text, allowed) >= size;
}

static bool is_control(int byte)
{
    return byte < 0x20 || byte == 0x7f;
}

static const char *quote(const char *text, char out[QUOTE_SIZE])
{
    return pawl__printable(text, strlen(text), out, QUOTE_SIZE);
}

/* ===== Decoding ===== */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that an escape means; -1: it is none. */
static int escape_value(struct span escape)
{
    if (escape.size < 3) {
        return -1;
    }
    int high = hex_value(escape.at[1]);
    int low = hex_value(escape.at[2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Decode a part of the URL to the end of the storage. `what` names the part in a sentence. */
static pawl_status put(struct parser *parser, const char *what, struct span part, char **string_out)
{
    assert(parser->cursor + part.size < parser->url->storage + parser->url->storage_size);
    char *to = parser->cursor;
    while (part.size > 0) {
        int byte = (unsigned char)part.at[0];
        if (byte == '%') {
            byte = escape_value(part);
            if (byte < 0) {
                return pawl__fail(PAWL_INVALID,
                    "%s in the URL has a %% without two hexadecimal digits behind it; write the "
                    "percent sign itself as %%25",
                    what);
            }
            part = skip(part, 2);
        }
        if (is_control(byte)) {
            return pawl__fail(PAWL_INVALID,
                "%s in the URL must not have control bytes (%%00 to %%1F, %%7F)", what);
        }
        *to++ = (char)byte;
        part = skip(part, 1);
    }
    *to++ = '\0';
    *string_out = parser->cursor;
    parser->cursor = to;
    return PAWL_OK;
}

/* ===== The text as a whole ===== */

/* What a byte is called that never stands in a URL; NULL: it may. */
static const char *forbidden(int byte)
{
    if (byte == '#') {
        return "#";
    }
    if (byte == ' ') {
        return "space";
    }
    return is_control(byte) ? "control byte" : NULL;
}

static pawl_status check_bytes(struct span text)
{
    if (text.size == 0) {
        return pawl__fail(PAWL_INVALID,
            "the URL is empty; write one such as redis://host:6379 or file:///directory");
    }
    if (text.size > PAWL__URL_SIZE_MAX) {
        return pawl__fail(
            PAWL_INVALID, "the URL is longer than %d bytes; make it shorter", PAWL__URL_SIZE_MAX);
    }
    for (size_t i = 0; i < text.size; i++) {
        const char *name = forbidden((unsigned char)text.at[i]);
        if (name != NULL) {
            return pawl__fail(PAWL_INVALID,
                "byte %zu of the URL is a %s; write a space as %%20 and a # as %%23", i + 1, name);
        }
    }
    return PAWL_OK;
}

/* One '@' may end the user and password. Another one is allowed only where no password can have
 * been meant: in a path with a slash at its beginning, without hosts, and with no ':' before it. */
static pawl_status check_at_signs(struct span authority, struct span tail)
{
    struct span user;
    if (cut(&authority, "@", &user) && has(authority, "@")) {
        return pawl__fail(PAWL_INVALID, "the URL has more than one @ before its host; write an @ "
                                        "in a user or password as %%40");
    }
    struct span head;
    bool bare = user.size > 0 || authority.size > 0 || tail.size == 0 || tail.at[0] != '/';
    while (cut(&tail, "@", &head)) {
        if (bare || has(head, ":")) {
            return pawl__fail(PAWL_INVALID, "the URL has an @ in its path or query; write it as "
                                            "%%40, and in a user or password "
                                            "also / as %%2F and ? as %%3F, behind scheme://");
        }
    }
    return PAWL_OK;
}

bool pawl__url_is_address(const char *text)
{
    const size_t host = strspn(text, LETTERS DIGITS ".-_");
    const char *port = text + host + 1;
    if (host == 0 || host > 255 || text[host] != ':') {
        return false;
    }
    const size_t digits = strspn(port, DIGITS);
    const char *db = port + digits;
    db += db[0] == '/' ? 1 + strspn(db + 1, DIGITS) : 0;
    return digits > 0 && digits <= 5 && db[0] == '\0' && db - port <= 8;
}

/* The rest of the URL stands behind the scheme. */
static pawl_status put_scheme(struct parser *parser, struct span scheme)
{
    if (scheme.size == 0 || !made_of(scheme.at, 1, LETTERS) ||
        !made_of(scheme.at, scheme.size, LETTERS DIGITS "+-.")) {
        const bool guessed = pawl__url_is_address(scheme.at);
        return pawl__fail(PAWL_INVALID,
            "the URL has no scheme; %s%s%srite it as scheme://host or scheme:/path, such as "
            "redis://host:6379 or file:///directory",
            guessed ? "did you mean redis://" : "", guessed ? scheme.at : "",
            guessed ? "? W" : "w");
    }
    pawl_status status = put(parser, "the scheme", scheme, &parser->url->scheme);
    for (char *c = parser->url->scheme; *c != '\0'; c++) {
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c | 0x20 : *c);
    }
    return status;
}

/* ===== User, password, hosts ===== */

/* An empty user is none; an empty password is one if its ':' is there. */
static pawl_status put_user(struct parser *parser, struct span text)
{
    struct span user;
    bool has_password = cut(&text, ":", &user);
    pawl_status status = PAWL_OK;
    if (user.size > 0) {
        status = put(parser, "the user", user, &parser->url->user);
    }
    if (status == PAWL_OK && has_password) {
        status = put(parser, "the password", text, &parser->url->password);
    }
    return status;
}

/* An IPv6 address, with its zone if it has one: fe80::1%eth0. */
static bool is_ipv6(const char *name)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr ignored;
    size_t size = strcspn(name, "%");
    if (size >= sizeof address || (name[size] == '%' && name[size + 1] == '\0')) {
        return false;
    }
    memcpy(address, name, size);
    address[size] = '\0';
    return inet_pton(AF_INET6, address, &ignored) == 1;
}

static pawl_status check_name(const char *name, bool bracketed, size_t number)
{
    char shown[QUOTE_SIZE];
    if (name[0] == '\0') {
        return pawl__fail(PAWL_INVALID,
            "host %zu of the URL is empty; write scheme://host:port,host:port, and an IPv6 address "
            "in brackets",
            number);
    }
    if (bracketed && !is_ipv6(name)) {
        return pawl__fail(PAWL_INVALID,
            "host \"[%s]\" of the URL is not an IPv6 address; brackets are for those, as in "
            "[::1]:6379",
            quote(name, shown));
    }
    if (!bracketed && !made_of(name, strlen(name), LETTERS DIGITS ".-_")) {
        return pawl__fail(PAWL_INVALID,
            "host \"%s\" of the URL has characters that no host has; use letters, digits, '.', '-' "
            "and '_', or an IPv6 address in brackets, as in [::1]:6379",
            quote(name, shown));
    }
    return PAWL_OK;
}

static pawl_status put_port(struct pawl__url_host *host, struct span text)
{
    int port = 0;
    for (size_t i = 0; i < text.size && text.at[i] >= '0' && text.at[i] <= '9'; i++) {
        port = port > 65535 ? port : port * 10 + (text.at[i] - '0');
    }
    if (port == 0 || port > 65535 || !made_of(text.at, text.size, DIGITS)) {
        char shown[QUOTE_SIZE];
        return pawl__fail(PAWL_INVALID,
            "the port of host \"%s\" of the URL must be a number from 1 to 65535 (an IPv6 address "
            "is written in brackets, as in [::1]:6379)",
            quote(host->name, shown));
    }
    host->port = port;
    return PAWL_OK;
}

/* Cut "[address]" or "[address]:port". */
static pawl_status cut_brackets(struct span *rest, struct span *name, bool *has_port)
{
    *rest = skip(*rest, 1);
    bool closed = cut(rest, "]", name);
    *has_port = rest->size > 0;
    if (!closed || (*has_port && rest->at[0] != ':')) {
        return pawl__fail(PAWL_INVALID,
            "the brackets of a host of the URL do not match; write an IPv6 address as [::1] or "
            "[::1]:6379");
    }
    *rest = skip(*rest, *has_port ? 1 : 0);
    return PAWL_OK;
}

static pawl_status put_host(struct parser *parser, struct span text)
{
    struct pawl__url *url = parser->url;
    if (url->host_count == PAWL__URL_HOSTS_MAX) {
        return pawl__fail(
            PAWL_INVALID, "the URL has more than %d hosts; leave some out", PAWL__URL_HOSTS_MAX);
    }
    struct pawl__url_host *host = &url->hosts[url->host_count++];
    bool bracketed = text.size > 0 && text.at[0] == '[';
    bool has_port = false;
    struct span name;
    pawl_status status = PAWL_OK;
    if (bracketed) {
        status = cut_brackets(&text, &name, &has_port);
    } else {
        has_port = cut(&text, ":", &name);
    }
    if (status == PAWL_OK) {
        status = put(parser, "a host", name, &host->name);
    }
    if (status == PAWL_OK) {
        status = check_name(host->name, bracketed, url->host_count);
    }
    if (status == PAWL_OK && has_port) {
        status = put_port(host, text);
    }
    return status;
}

/* What stands between "//" and the path. Empty, or with nothing after the user, it means no host at
 * all, as for a socket's path. */
static pawl_status put_authority(struct parser *parser, struct span text)
{
    pawl_status status = PAWL_OK;
    if (has(text, "@")) {
        struct span user;
        cut(&text, "@", &user);
        status = put_user(parser, user);
    }
    bool more = text.size > 0;
    while (status == PAWL_OK && more) {
        struct span host;
        more = cut(&text, ",", &host);
        status = put_host(parser, host);
    }
    return status;
}

/* ===== Parameters ===== */

static pawl_status check_key(const struct pawl__url *url, const char *key)
{
    char shown[QUOTE_SIZE];
    for (size_t i = 0; i + 1 < url->parameter_count; i++) {
        if (strcmp(url->parameters[i].key, key) == 0) {
            return pawl__fail(PAWL_INVALID,
                "the URL has the parameter \"%s\" twice; leave one of them", quote(key, shown));
        }
    }
    return PAWL_OK;
}

static pawl_status put_parameter(struct parser *parser, struct span value)
{
    struct pawl__url *url = parser->url;
    if (url->parameter_count == PAWL__URL_PARAMETERS_MAX) {
        return pawl__fail(PAWL_INVALID, "the URL has more than %d parameters; leave some out",
            PAWL__URL_PARAMETERS_MAX);
    }
    struct pawl__url_parameter *parameter = &url->parameters[url->parameter_count++];
    struct span key;
    if (!cut(&value, "=", &key) || key.size == 0) {
        return pawl__fail(PAWL_INVALID,
            "parameter %zu of the URL is not of the form key=value, as in ?timeout=500ms&lazy=1",
            url->parameter_count);
    }
    pawl_status status = put(parser, "the key of a parameter", key, &parameter->key);
    if (status == PAWL_OK) {
        status = check_key(url, parameter->key);
    }
    if (status == PAWL_OK) {
        status = put(parser, "the value of a parameter", value, &parameter->value);
    }
    return status;
}

static pawl_status put_query(struct parser *parser, struct span text)
{
    pawl_status status = PAWL_OK;
    bool more = text.size > 0;
    while (status == PAWL_OK && more) {
        struct span parameter;
        more = cut(&text, "&", &parameter);
        status = put_parameter(parser, parameter);
    }
    return status;
}

/* ===== All of it ===== */

static pawl_status put_all(struct parser *parser, struct span rest)
{
    struct span scheme;
    if (!cut(&rest, ":", &scheme)) {
        scheme.size = 0;
    }
    struct span authority = {rest.at, 0};
    if (rest.size >= 2 && memcmp(rest.at, "//", 2) == 0) {
        rest = skip(rest, 2);
        parser->url->slashed = true;
        authority = (struct span){rest.at, find(rest, "/?")};
        rest = skip(rest, authority.size);
    }
    pawl_status status = check_at_signs(authority, rest);
    if (status == PAWL_OK) {
        status = put_scheme(parser, scheme);
    }
    if (status == PAWL_OK) {
        status = put_authority(parser, authority);
    }
    struct span path;
    cut(&rest, "?", &path);
    if (status == PAWL_OK && path.size > 0) {
        status = put(parser, "the path", path, &parser->url->path);
    }
    if (status == PAWL_OK) {
        status = put_query(parser, rest);
    }
    return status;
}

/* Decoding never makes a part longer, but each gets its NUL. */
static pawl_status make_storage(struct pawl__url *url, size_t text_size)
{
    url->storage_size = text_size + STRINGS_MAX;
    url->storage = pawl__alloc(url->storage_size);
    return url->storage != NULL ? PAWL_OK
                                : pawl__fail(PAWL_NO_MEMORY, "no memory to take the URL apart");
}

pawl_status pawl__url_parse(const char *text, struct pawl__url *url_out)
{
    *url_out = (struct pawl__url){0};
    struct span all = {text, strnlen(text, PAWL__URL_SIZE_MAX + 1)};
    pawl_status status = check_bytes(all);
    if (status == PAWL_OK) {
        status = make_storage(url_out, all.size);
    }
    if (status == PAWL_OK) {
        struct parser parser = {url_out, url_out->storage};
        status = put_all(&parser, all);
    }
    if (status != PAWL_OK) {
        pawl__url_free(url_out);
    }
    return status;
}

void pawl__url_free(struct pawl__url *url)
{
    if (url->storage != NULL) {
        explicit_bzero(url->storage, url->storage_size);
        pawl__free(url->storage);
    }
    *url = (struct pawl__url){0};
}

char *pawl__url_backend(const struct pawl__url *url)
{
    char *text = pawl__format("%s:", url->scheme);
    for (size_t i = 0; text != NULL && i < url->host_count; i++) {
        const struct pawl__url_host *host = &url->hosts[i];
        char *longer = pawl__format("%s%s%s:%d", text, i == 0 ? "//" : ",", host->name, host->port);
        pawl__free(text);
        text = longer;
    }
    const char *db = NULL; /* beside the path of a socket */
    for (size_t i = 0; i < url->parameter_count; i++) {
        db = strcmp(url->parameters[i].key, "db") == 0 ? url->parameters[i].value : db;
    }
    char *whole = NULL;
    if (text != NULL) {
        whole = pawl__format("%s%s%s%s", text, url->path != NULL ? url->path : "",
            db != NULL ? "?db=" : "", db != NULL ? db : "");
    }
    pawl__free(text);
    return whole;
}
