/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The edge: fill the template, start nginx, and read its error log.
 */
#include "up/nginx.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/say.h"
#include "embedded.h"
#include "up/net.h"
#include "up/patience.h"

#define READY_MS 10000
#define MORE_FILES 512  /* that are no connections */
#define SILENCE_MS 5000 /* between two words about the same */
#define LOG_SIZE 16384  /* read at a time */

/* ===== The configuration ===== */

struct blank {
    const char *name;
    const char *value;
};

static const char *find_value(const struct blank *blanks, const char *name, size_t length)
{
    for (; blanks->name; blanks++) {
        if (strlen(blanks->name) == length && memcmp(blanks->name, name, length) == 0) {
            return blanks->value;
        }
    }
    return NULL;
}

/* The template with its ${NAMES} replaced, as envsubst does it, but only by those it is given:
 * nginx has names of its own. Free it. */
static char *fill_in(const char *template, const struct blank *blanks)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) {
        return NULL;
    }
    while (*template) {
        const char *end = strncmp(template, "${", 2) == 0 ? strchr(template, '}') : NULL;
        const char *value = NULL;
        if (end) {
            value = find_value(blanks, template + 2, (size_t)(end - template - 2));
        }
        if (value) {
            fputs(value, out);
            template = end + 1;
        } else {
            fputc(*template ++, out);
        }
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static bool write_configuration(const struct nginx *nginx, const struct nginx_plan *plan)
{
    char listen[32];
    char redis_port[16];
    char connections[24];
    char files[24];
    snprintf(listen, sizeof(listen), "127.0.0.1:%d", nginx->port);
    snprintf(redis_port, sizeof(redis_port), "%d", plan->redis_port);
    snprintf(connections, sizeof(connections), "%" PRId64, plan->connections);
    snprintf(files, sizeof(files), "%" PRId64, plan->connections + MORE_FILES);
    const struct blank blanks[] = {
        {"EDGE_DIR", nginx->dir},
        {"EDGE_LISTEN", listen},
        {"EDGE_SERVERS", plan->servers},
        {"EDGE_REDIS_HOST", "127.0.0.1"},
        {"EDGE_REDIS_PORT", redis_port},
        {"EDGE_CONNECTIONS", connections},
        {"EDGE_FILES", files},
        /* The directory is its owner's alone, so the worker must be the owner as well. */
        {"EDGE_USER", geteuid() == 0 ? "user root;" : ""},
        {"EDGE_RESOLVER", ""},
        {NULL, NULL},
    };
    char *text = fill_in(embedded_edge_nginx_conf_template.text, blanks);
    bool written = text && workdir_write(nginx->dir, "nginx.conf", text, strlen(text)) &&
                   workdir_write(nginx->dir, "soldout.lua", embedded_edge_soldout_lua.text,
                       embedded_edge_soldout_lua.size);
    free(text);
    return written;
}

/* ===== The process ===== */

bool nginx_is_there(void)
{
    static const char *const needs[][2] = {
        {"/usr/sbin/nginx", "nginx-extras"},
        {"/usr/lib/nginx/modules/ngx_http_lua_module.so", "libnginx-mod-http-lua"},
        {"/usr/share/lua/5.1/nginx/redis.lua", "lua-nginx-redis"},
    };
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
        if (access(needs[i][0], R_OK) != 0) {
            say("--edge needs %s, which is not there: apt-get install %s", needs[i][0],
                needs[i][1]);
            return false;
        }
    }
    return true;
}

static bool answers_or_died(void *arg)
{
    struct nginx *nginx = arg;
    return !process_runs(&nginx->process) || net_ask(nginx->port, "GET", "/healthz", "") == 200;
}

bool nginx_open(struct nginx *nginx, const struct nginx_plan *plan)
{
    nginx->port = plan->port;
    struct process *process = &nginx->process;
    process_init(process, "nginx on port %d", nginx->port);
    if (!workdir_make_room(plan->dir, "nginx", nginx->dir) || !write_configuration(nginx, plan)) {
        return false;
    }
    /* Its master must have the time to end its worker. */
    process->orphan_signal = SIGTERM;
    process_add(process, "/usr/sbin/nginx");
    process_add(process, "-p");
    process_add(process, "%s", nginx->dir);
    process_add(process, "-c");
    process_add(process, "%s/nginx.conf", nginx->dir);
    process_add(process, "-e");
    process_add(process, "%s/error.log", nginx->dir);
    if (!process_start(process)) {
        return false;
    }
    if (wait_for(answers_or_died, nginx, READY_MS) && process->pid != 0) {
        return true;
    }
    if (!signals_stop()) {
        say("nginx does not start on port %d; is the port in use? See also %s/error.log",
            nginx->port, nginx->dir);
    }
    return false;
}

/* ===== Its complaints ===== */

static int64_t count_in(const char *text, const char *what)
{
    int64_t count = 0;
    for (const char *found = strstr(text, what); found; found = strstr(found + 1, what)) {
        count++;
    }
    return count;
}

/* The log grows by whole lines; a line that is cut by our buffer is read again the next time. */
static int64_t read_shortages(struct nginx *nginx, int fd)
{
    static char text[LOG_SIZE + 1];
    int64_t shortages = 0;
    for (;;) {
        ssize_t count = pread(fd, text, LOG_SIZE, nginx->log_position);
        const char *end = count > 0 ? memrchr(text, '\n', (size_t)count) : NULL;
        if (!end) {
            return shortages;
        }
        text[end - text] = '\0';
        shortages += count_in(text, "worker_connections are not enough");
        shortages += count_in(text, "Too many open files");
        nginx->log_position += end - text + 1;
    }
}

void nginx_listen(struct nginx *nginx)
{
    char path[WORKDIR_PATH_SIZE + 16];
    snprintf(path, sizeof(path), "%s/error.log", nginx->dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    nginx->shortages += read_shortages(nginx, fd);
    close(fd);
    int64_t now = now_ms();
    if (nginx->shortages > nginx->told_shortages && now >= nginx->tells_again_ms) {
        say("nginx had not connections enough, %" PRId64
            " times by now: what is being measured is the proxy, not the shop;"
            " give --worker-connections more",
            nginx->shortages);
        nginx->told_shortages = nginx->shortages;
        nginx->tells_again_ms = now + SILENCE_MS;
    }
}
