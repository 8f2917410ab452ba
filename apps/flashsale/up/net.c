/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports and questions, on the loopback interface only.
 */
#include "up/net.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define BACKLOG 1024
#define ANSWER_S 2

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

int net_listen(int port, int *port_out)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    struct sockaddr_in address = loopback(port);
    socklen_t size = sizeof(address);
    if (bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        close(fd);
        return -1;
    }
    *port_out = ntohs(address.sin_port);
    return fd;
}

int net_free_port(void)
{
    int port = 0;
    int fd = net_listen(0, &port);
    if (fd >= 0) {
        close(fd);
    }
    return port;
}

int net_connect(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(port);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int net_ask(int port, const char *method, const char *path, const char *body)
{
    int fd = net_connect(port);
    if (fd < 0) {
        return 0;
    }
    struct timeval patience = {.tv_sec = ANSWER_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    char text[512];
    int length = snprintf(text, sizeof(text),
        "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
        method, path, strlen(body), body);
    int status = 0;
    if (send(fd, text, (size_t)length, MSG_NOSIGNAL) == length) {
        ssize_t count = recv(fd, text, sizeof(text) - 1, MSG_WAITALL);
        text[count > 0 ? count : 0] = '\0';
        if (sscanf(text, "HTTP/1.1 %3d", &status) != 1) {
            status = 0;
        }
    }
    close(fd);
    return status;
}
