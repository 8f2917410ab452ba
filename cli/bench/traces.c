/* SPDX-License-Identifier: Apache-2.0 */
/* See traces.h. Files are found by their documented names (docs/engines.md): the name of the
 * lock, percent-encoded, and ".lock". Only those that begin with our random prefix are touched. */
#include "bench/traces.h"

#include "line/options.h"
#include "text/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool begins_with(const char *string, const char *beginning)
{
    return strncmp(string, beginning, strlen(beginning)) == 0;
}

static int hex_digit(char digit)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = digit == '\0' ? NULL : strchr(digits, digit | 0x20);
    return at == NULL ? -1 : (int)(at - digits);
}

/* The path of a file: URL; "" or no URL at all is the default directory. */
static char *directory_of(const char *path)
{
    struct cli_text directory = CLI_TEXT_INIT;
    if (path[0] == '\0' || path[0] == '?') {
        cli_text_print(&directory, "/tmp/pawl-%ld", (long)geteuid());
        return directory.bytes;
    }
    while (*path != '\0' && *path != '?') {
        char byte = *path;
        const int high = byte == '%' ? hex_digit(path[1]) : -1;
        const int low = high >= 0 ? hex_digit(path[2]) : -1;
        if (low >= 0) {
            byte = (char)(high * 16 + low);
            path += 2;
        }
        cli_text_add(&directory, &byte, 1);
        path++;
    }
    return directory.bytes;
}

static char *with_short_counters(const char *url)
{
    struct cli_text longer = CLI_TEXT_INIT;
    cli_text_add_string(&longer, url);
    if (begins_with(url, "redis") && strstr(url, "token_ttl=") == NULL) {
        cli_text_print(&longer, "%ctoken_ttl=1m", strchr(url, '?') == NULL ? '?' : '&');
    }
    return longer.bytes;
}

void bench_traces_open(struct bench_traces *traces)
{
    *traces = (struct bench_traces){.url = NULL};
    const char *url = cli_url();
    if (url == NULL) {
        url = getenv("PAWL_URL");
    }
    if (url == NULL || url[0] == '\0') {
        traces->directory = directory_of("");
        return;
    }
    traces->url = with_short_counters(url);
    if (begins_with(url, "file://")) {
        traces->directory = directory_of(url + strlen("file://"));
    } else if (begins_with(url, "file:")) {
        traces->directory = directory_of(url + strlen("file:"));
    }
}

const char *bench_traces_url(const struct bench_traces *traces)
{
    return traces->url;
}

/* Delete the files whose names begin so. */
static void remove_files(const char *directory, const char *beginning)
{
    DIR *files = opendir(directory);
    if (files == NULL) {
        return;
    }
    for (const struct dirent *file = readdir(files); file != NULL; file = readdir(files)) {
        if (begins_with(file->d_name, beginning)) {
            unlinkat(dirfd(files), file->d_name, 0);
        }
    }
    closedir(files);
}

void bench_traces_remove(const struct bench_traces *traces)
{
    if (traces->directory == NULL) {
        return;
    }
    struct cli_text encoded = CLI_TEXT_INIT;
    const char *colon = strchr(traces->prefix, ':');
    cli_text_print(
        &encoded, "%.*s%%3A%s", (int)(colon - traces->prefix), traces->prefix, colon + 1);
    remove_files(traces->directory, cli_text_string(&encoded));
    remove_files(traces->directory, traces->prefix);
    cli_text_free(&encoded);
}

const char *bench_traces_left(const struct bench_traces *traces)
{
    if (traces->url != NULL && begins_with(traces->url, "redis")) {
        return "all locks are released; their token counters are gone within a minute, unless the "
               "URL has a token_ttl";
    }
    return "all locks are released, and nothing is left";
}

void bench_traces_close(struct bench_traces *traces)
{
    if (traces->url != NULL) {
        explicit_bzero(traces->url, strlen(traces->url));
    }
    free(traces->url);
    free(traces->directory);
}
