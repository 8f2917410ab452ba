/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the URL; config.h says what comes of it. */
#include "engine/redis/config.h"

#include "base/alloc.h"
#include "base/error.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PORT_DEFAULT = 6379,
    TOKEN_TTL_DAYS = 7,
    WORD_SIZE = 1024, /* a host, a path or a user for a shell, with every byte quoted */
};

/* Where redis-cli goes if nothing is said. */
#define HOST_OF_REDIS_CLI "127.0.0.1"
#define PORT_OF_REDIS_CLI "6379"

static const int64_t ms_per_day = INT64_C(24) * 3600 * 1000;

static pawl_status no_memory(void)
{
    return pawl__fail(PAWL_NO_MEMORY, "no memory for a client");
}

/* "/3" is database 3; "/" and nothing are database 0. */
static pawl_status read_db_path(struct pawl__redis_config *config, const char *path)
{
    if (path == NULL || path[0] == '\0' || path[1] == '\0') {
        return PAWL_OK;
    }
    const char *digits = path + 1;
    const size_t size = strlen(digits);
    if (strspn(digits, "0123456789") != size || size > 9) {
        return pawl__fail(PAWL_INVALID,
            "the path of a redis:// URL is the number of a database, as "
            "in redis://host/0");
    }
    config->db = strtol(digits, NULL, 10);
    return PAWL_OK;
}

static pawl_status read_tcp(struct pawl__redis_config *config, const struct pawl__url *url)
{
    if (url->host_count == 0) {
        return pawl__fail(PAWL_INVALID, "a redis:// URL has two slashes and a server behind them, "
                                        "as in redis://127.0.0.1:6379");
    }
    if (url->host_count > 1) {
        return pawl__fail(PAWL_INVALID,
            "a redis:// URL names one server, as in redis://127.0.0.1:6379; this one names %zu",
            url->host_count);
    }
    const struct pawl__url_host *host = &url->hosts[0];
    config->host = pawl__strdup(host->name);
    snprintf(config->port, sizeof config->port, "%d",
        (host->port != 0 ? host->port : PORT_DEFAULT) & 0xffff);
    const bool ipv6 = strchr(host->name, ':') != NULL;
    config->peer = pawl__format(ipv6 ? "[%s]:%s" : "%s:%s", host->name, config->port);
    if (config->host == NULL || config->peer == NULL) {
        return no_memory();
    }
    return read_db_path(config, url->path);
}

static pawl_status read_unix(struct pawl__redis_config *config, struct pawl__url *url)
{
    char shown[128];
    if (url->host_count > 0 || url->path == NULL || url->path[0] != '/' || url->path[1] == '\0') {
        return pawl__fail(PAWL_INVALID,
            "a redis+unix:// URL names a socket by its full path, as in "
            "redis+unix:///run/redis/redis.sock");
    }
    config->path = pawl__strdup(url->path);
    config->peer = pawl__strdup(pawl__printable(url->path, strlen(url->path), shown, sizeof shown));
    if (config->path == NULL || config->peer == NULL) {
        return no_memory();
    }
    return pawl__url_get_int(url, "db", 0, INT_MAX, &config->db);
}

static pawl_status read_credentials(struct pawl__redis_config *config, struct pawl__url *url)
{
    const char *user = url->user != NULL ? url->user : "default";
    pawl__printable(user, strlen(user), config->shown_user, sizeof config->shown_user);
    const pawl_status status = pawl__url_password(url, &config->password);
    if (status != PAWL_OK || url->user == NULL) {
        return status;
    }
    if (config->password == NULL) {
        /* Often a password without its colon, so it is not repeated. */
        return pawl__fail(PAWL_INVALID,
            "the URL names a user but no password; a password alone is written "
            "redis://:password@host");
    }
    config->user = pawl__strdup(url->user);
    if (config->password == NULL) {
        config->password = pawl__strdup(""); /* what a user without a password is greeted with */
    }
    return config->user != NULL && config->password != NULL ? PAWL_OK : no_memory();
}

/* The start of a line for a shell that reaches this server: redis-cli by itself goes to port 6379
 * of this machine. */
static char *name_console(const struct pawl__redis_config *config)
{
    char word[WORD_SIZE];
    if (config->path != NULL) {
        return pawl__format("redis-cli -s %s", pawl__shell_word(config->path, word, sizeof word));
    }
    const bool usual_host = strcmp(config->host, HOST_OF_REDIS_CLI) == 0;
    const bool usual_port = strcmp(config->port, PORT_OF_REDIS_CLI) == 0;
    pawl__shell_word(config->host, word, sizeof word);
    return pawl__format("redis-cli%s%s%s%s", usual_host ? "" : " -h ", usual_host ? "" : word,
        usual_port ? "" : " -p ", usual_port ? "" : config->port);
}

static pawl_status name_commands(struct pawl__redis_config *config)
{
    char user[WORD_SIZE];
    config->redis_cli = name_console(config);
    if (config->redis_cli == NULL) {
        return no_memory();
    }
    config->grant = pawl__format("%s ACL SETUSER %s", config->redis_cli,
        pawl__shell_word(config->shown_user, user, sizeof user));
    return config->grant != NULL ? PAWL_OK : no_memory();
}

static pawl_status read_token_ttl(struct pawl__redis_config *config, struct pawl__url *url)
{
    int64_t ttl_ms = TOKEN_TTL_DAYS * ms_per_day;
    const pawl_status status =
        pawl__url_get_duration_ms(url, "token_ttl", 0, 36525 * ms_per_day, &ttl_ms);
    config->token_ttl_s = (ttl_ms + 999) / 1000;
    return status;
}

pawl_status pawl__redis_config_read(
    struct pawl__redis_config *config, struct pawl__url *url, const struct pawl__settings *settings)
{
    *config = (struct pawl__redis_config){.settings = *settings};
    pawl_status status =
        strcmp(url->scheme, "redis+unix") == 0 ? read_unix(config, url) : read_tcp(config, url);
    if (status == PAWL_OK) {
        status = read_token_ttl(config, url);
    }
    if (status == PAWL_OK) {
        status = pawl__url_get_bool(url, "durable", &config->durable);
    }
    if (status == PAWL_OK) {
        status = read_credentials(config, url);
    }
    if (status == PAWL_OK) {
        status = name_commands(config);
    }
    if (status != PAWL_OK) {
        pawl__redis_config_free(config);
    }
    return status;
}

void pawl__redis_config_free(struct pawl__redis_config *config)
{
    pawl__free(config->host);
    pawl__free(config->path);
    pawl__free(config->peer);
    pawl__free(config->user);
    pawl__free(config->redis_cli);
    pawl__free(config->grant);
    pawl__wipe_free(config->password);
    *config = (struct pawl__redis_config){0};
}
