/* SPDX-License-Identifier: Apache-2.0 */
/* See backend.h. */
#include "common/backend.h"

#include "line/options.h"
#include "line/say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATTERN_SIZE_MAX = 2 * CLI_NAME_SIZE_MAX };

int cli_check_name(const char *name)
{
    if (name[0] == '\0') {
        return cli_say_usage("the name is empty; give 1 to %d bytes", CLI_NAME_SIZE_MAX);
    }
    if (strlen(name) > CLI_NAME_SIZE_MAX) {
        return cli_say_usage(
            "the name has %zu bytes; at most %d are allowed", strlen(name), CLI_NAME_SIZE_MAX);
    }
    return CLI_GO_ON;
}

int cli_check_pattern(const char *pattern)
{
    if (pattern != NULL && pattern[0] == '\0') {
        return cli_say_usage("the pattern is empty; leave it out to mean all names");
    }
    if (pattern != NULL && strlen(pattern) > PATTERN_SIZE_MAX) {
        return cli_say_usage(
            "the pattern has %zu bytes; at most %d are allowed", strlen(pattern), PATTERN_SIZE_MAX);
    }
    return CLI_GO_ON;
}

static const char *url_of_environment(void)
{
    return cli_url() != NULL ? cli_url() : getenv("PAWL_URL");
}

void cli_backend_scheme(char scheme_out[CLI_SCHEME_SIZE])
{
    const char *url = url_of_environment();
    snprintf(scheme_out, CLI_SCHEME_SIZE, "%.*s", url != NULL ? (int)strcspn(url, ":") : 4,
        url != NULL ? url : "file");
}

int cli_backend_check(void)
{
    const char *url = url_of_environment();
    if (url == NULL || url[0] != '\0') {
        return CLI_GO_ON;
    }
    return cli_say_usage("%s is empty; %s, or leave it out to keep locks in files of this machine",
        cli_url() != NULL ? "the URL of --url" : "PAWL_URL", "name a backend, as redis://host");
}

int cli_backend_check_scheme(const char *url)
{
    static const char memory[] = "memory:";
    return strncasecmp(url, memory, strlen(memory)) != 0
               ? CLI_GO_ON
               : cli_say_usage("memory: is inside one process, and no other one sees its locks; "
                               "name a Redis server, or files (file:///dir)");
}

int cli_backend_check_shared(void)
{
    const char *url = url_of_environment();
    const int result = url != NULL ? cli_backend_check_scheme(url) : CLI_GO_ON;
    return result == CLI_GO_ON ? cli_backend_check() : result;
}

int cli_backend_open(const pawl_client_options *options, pawl_client **client_out)
{
    const int result = cli_backend_check();
    if (result != CLI_GO_ON) {
        return result;
    }
    pawl_status status = pawl_client_open(cli_url(), options, client_out);
    cli_url_forget();
    return status == PAWL_OK ? CLI_GO_ON : cli_say_failure(status);
}

int cli_backend_open_to_look(pawl_client **client_out)
{
    pawl_client_options options = PAWL_CLIENT_OPTIONS_INIT;
    char scheme[CLI_SCHEME_SIZE];
    cli_backend_scheme(scheme);
    options.guard = PAWL_GUARD_OFF;
    options.lazy = strcmp(scheme, "file") == 0; /* who looks makes no directory */
    const int result = cli_backend_check_shared();
    return result == CLI_GO_ON ? cli_backend_open(&options, client_out) : result;
}

void cli_backend_title(char title_out[CLI_BACKEND_TITLE_SIZE])
{
    const char *url = url_of_environment();
    if (url == NULL || url[0] == '\0') {
        snprintf(title_out, CLI_BACKEND_TITLE_SIZE, "file:/tmp/pawl-%ld", (long)geteuid());
        return;
    }
    cli_quote_into(url, title_out, CLI_BACKEND_TITLE_SIZE);
    title_out[strcspn(title_out, "?")] = '\0';
}

int64_t cli_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t cli_now_ms(void)
{
    return cli_now_us() / 1000;
}

void cli_time_of_day(char time_out[CLI_TIME_SIZE], bool utc)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm parts;
    char seconds[24];
    if (utc) {
        gmtime_r(&now.tv_sec, &parts);
        strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &parts);
    } else {
        localtime_r(&now.tv_sec, &parts);
        strftime(seconds, sizeof seconds, "%H:%M:%S", &parts);
    }
    snprintf(time_out, CLI_TIME_SIZE, "%s.%03d%s", seconds, (int)(now.tv_nsec / 1000000),
        utc ? "Z" : "");
}
