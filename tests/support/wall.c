/* SPDX-License-Identifier: Apache-2.0 */
/* A file of eight bytes that both sides map; wall.h says what for. */
#include "support/wall.h"

#include "support/fail.h"
#include "support/resources.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PRELOAD PAWL_TEST_BIN_DIR "/clock_offset.so"

struct wall wall_make(void)
{
    struct wall wall;
    char file[WALL_TEXT_SIZE - 32];
    snprintf(file, sizeof file, "%s/clock", tempdir_make());
    snprintf(wall.path, sizeof wall.path, "PAWL_TEST_CLOCK=%s", file);
    snprintf(wall.preload, sizeof wall.preload, "LD_PRELOAD=%s", PRELOAD);
    const int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *wall.offset_ns) != 0) {
        support_fail("%s: %s", file, strerror(errno));
    }
    void *memory = mmap(NULL, sizeof *wall.offset_ns, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) {
        support_fail("%s cannot be mapped: %s", file, strerror(errno));
    }
    wall.offset_ns = memory;
    return wall;
}

static void begin(const struct wall *wall)
{
    setenv("LD_PRELOAD", PRELOAD, 1);
    setenv("PAWL_TEST_CLOCK", strchr(wall->path, '=') + 1, 1);
}

static void end(void)
{
    unsetenv("LD_PRELOAD");
    unsetenv("PAWL_TEST_CLOCK");
}

struct server *wall_start_server(const struct wall *wall, const struct server_options *options)
{
    begin(wall);
    struct server *server = server_start(options);
    end();
    return server;
}

void wall_restart_server(const struct wall *wall, struct server *server, bool keep_data)
{
    begin(wall);
    server_restart(server, keep_data);
    end();
}
