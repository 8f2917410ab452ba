/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket. One connection at a time, one line each: faults are not struck in parallel.
 */
#include "up/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/say.h"
#include "up/faults.h"
#include "up/house.h"

#define LINE_SIZE 64
#define LINE_MS 500 /* whoever connects has something to say */
#define BACKLOG 16

bool control_open(struct house *house)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(house->control_path, sizeof(house->control_path), "%s/control", house->dir);
    memcpy(address.sun_path, house->control_path, sizeof(address.sun_path));
    house->control_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (house->control_fd < 0 ||
        bind(house->control_fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        chmod(house->control_path, 0600) != 0 || listen(house->control_fd, BACKLOG) != 0) {
        say("no control socket at %s: %s", house->control_path, strerror(errno));
        return false;
    }
    return true;
}

/* A line without its end. False: there is none. */
static bool read_line(int fd, char line[LINE_SIZE])
{
    size_t length = 0;
    while (length < LINE_SIZE - 1) {
        ssize_t count = recv(fd, line + length, LINE_SIZE - 1 - length, 0);
        if (count <= 0) {
            return false;
        }
        length += (size_t)count;
        line[length] = '\0';
        char *end = strpbrk(line, "\r\n");
        if (end) {
            *end = '\0';
            return true;
        }
    }
    return false;
}

void control_answer(struct house *house)
{
    int fd = accept4(house->control_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    struct timeval patience = {.tv_usec = LINE_MS * 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    char line[LINE_SIZE];
    char answer[ANSWER_SIZE];
    if (read_line(fd, line)) {
        fault_strike(house, line, answer);
        if (strcmp(line, "status") != 0) {
            say("%s: %s", line, answer);
        }
        size_t length = strlen(answer);
        answer[length] = '\n';
        if (send(fd, answer, length + 1, MSG_NOSIGNAL) < 0) {
            say("whoever asked for %s did not wait for the answer", line);
        }
    }
    close(fd);
}
