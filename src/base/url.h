/* SPDX-License-Identifier: Apache-2.0 */
/* URLs taken apart: scheme://user:password@host:port,host:port/path?key=value&key=value
 *
 * Everything is percent-decoded. Sentences about a URL never repeat its password. */
#ifndef PAWL_BASE_URL_H
#define PAWL_BASE_URL_H

#include "pawl.h"

#include <stddef.h>
#include <stdint.h>

#define PAWL__URL_HOSTS_MAX 16
#define PAWL__URL_PARAMETERS_MAX 32

struct pawl__url_host {
    char *name; /* without the brackets of an IPv6 address */
    int port;   /* 0: none given */
};

struct pawl__url_parameter {
    char *key;
    char *value;
    bool used; /* set by the getters below; what is left unused at the end was a spelling mistake */
};

struct pawl__url {
    char *scheme; /* lower case */
    char *user;   /* NULL: none */
    char *password;
    bool slashed; /* "//" stands behind the scheme */
    char *path;   /* with its leading slash; NULL: none */
    struct pawl__url_host hosts[PAWL__URL_HOSTS_MAX];
    size_t host_count;
    struct pawl__url_parameter parameters[PAWL__URL_PARAMETERS_MAX];
    size_t parameter_count;
    char *storage; /* one block that all of the above points into; wiped before it is freed */
    size_t storage_size;
};

/* PAWL_INVALID sets the last error. The URL is copied. */
pawl_status pawl__url_parse(const char *text, struct pawl__url *url_out);
void pawl__url_free(struct pawl__url *url);

/* Whether it is no URL, but "host:6379" or "host:6379/0", to which only a scheme is missing. May be
 * repeated then: a password is more than a few digits. */
bool pawl__url_is_address(const char *text);

/* What the URL names, without who asks and how: "redis://host:port/0". For comparing, and for
 * people. NULL: no memory. */
char *pawl__url_backend(const struct pawl__url *url);

/* The value of ?key=, or NULL. Marks it used. */
const char *pawl__url_get(struct pawl__url *url, const char *key);

/* Typed getters: leave *value alone if the key is absent; PAWL_INVALID names the key and the right
 * form. Durations: "250ms", "10s", "1m30s", "2h", "1d", or a bare number of milliseconds, unless it
 * is one from 1 to 9, which was rather meant as seconds. */
pawl_status pawl__url_get_duration_ms(
    struct pawl__url *url, const char *key, int64_t min_ms, int64_t max_ms, int64_t *value);
pawl_status pawl__url_get_int(
    struct pawl__url *url, const char *key, int64_t min, int64_t max, int64_t *value);
pawl_status pawl__url_get_bool(struct pawl__url *url, const char *key, bool *value);

/* PAWL_INVALID if a parameter was never asked for, naming it. */
pawl_status pawl__url_check_unused(const struct pawl__url *url);

/* The password by ?password_env= or ?password_file= or from the URL itself, in this order, copied
 * with pawl__strdup; NULL for none. A file's trailing newline is dropped; a file that other users
 * can read is refused. The caller wipes it with pawl__wipe_free(). */
pawl_status pawl__url_password(struct pawl__url *url, char **password_out);
void pawl__wipe_free(char *secret);

#endif
