/* SPDX-License-Identifier: Apache-2.0 */
/* Servers and relays; fleet.h says what for.
 *
 * One thread relays for all. What a server says waits in its link until it is due; meanwhile
 * nothing more is read from that server. Answers to locks are small and come one at a time, so that
 * is enough. Servers listen on unix sockets, in a directory of their own each. */
#include "lib/fleet.h"

#include "lib/clock.h"
#include "lib/die.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINKS_MAX = 64, CHUNK_SIZE = 16384, START_WAIT_MS = 5000 };

struct link {
    int client; /* -1: free */
    int server;
    int64_t due_ns; /* of what waits */
    size_t waiting;
    size_t stuck; /* what a hung server has no room for */
    char chunk[CHUNK_SIZE];
    char request[CHUNK_SIZE];
};

static struct link links[LINKS_MAX];
static int listeners[FLEET_MAX];
static char directories[FLEET_MAX][64];
static size_t relay_count;
static int64_t delay_ns;

/* ===== Relaying ===== */

static int connect_to(size_t index)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", directories[index]);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
        return fd;
    }
    close(fd);
    return -1;
}

static void accept_one(size_t index)
{
    const int on = 1;
    const int client = accept4(listeners[index], NULL, NULL, SOCK_CLOEXEC);
    const int server = client >= 0 ? connect_to(index) : -1;
    struct link *link = links;
    while (link < links + LINKS_MAX && link->client >= 0) {
        link++;
    }
    if (server < 0 || link == links + LINKS_MAX) {
        die("a relay cannot connect: %s", strerror(errno));
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    *link = (struct link){.client = client, .server = server};
}

static void end_link(struct link *link)
{
    close(link->client);
    close(link->server);
    link->client = -1;
}

static bool send_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

/* What the client says goes through at once, if the server has room for it. */
static void push_on(struct link *link)
{
    const ssize_t sent =
        send(link->server, link->request, link->stuck, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
        link->stuck -= (size_t)sent;
        memmove(link->request, link->request + sent, link->stuck);
    } else if (sent < 0 && errno != EAGAIN) {
        end_link(link);
    }
}

static void pass_on(struct link *link)
{
    const ssize_t size =
        link->stuck == 0 ? recv(link->client, link->request, CHUNK_SIZE, MSG_DONTWAIT) : -1;
    if (size == 0) {
        end_link(link);
        return;
    }
    link->stuck += size > 0 ? (size_t)size : 0;
    if (link->stuck > 0) {
        push_on(link);
    }
}

static void take_answer(struct link *link)
{
    const ssize_t size = recv(link->server, link->chunk, sizeof link->chunk, MSG_DONTWAIT);
    if (size == 0) {
        end_link(link);
    } else if (size > 0) {
        link->waiting = (size_t)size;
        link->due_ns = now_ns() + delay_ns;
    }
}

/* Deliver what is due; when the next is. */
static int64_t deliver_due(void)
{
    int64_t next_ns = now_ns() + NS_PER_S;
    for (struct link *link = links; link < links + LINKS_MAX; link++) {
        if (link->client < 0 || link->waiting == 0) {
            continue;
        }
        if (now_ns() >= link->due_ns) {
            const size_t size = link->waiting;
            link->waiting = 0;
            if (!send_all(link->client, link->chunk, size)) {
                end_link(link);
            }
        } else if (link->due_ns < next_ns) {
            next_ns = link->due_ns;
        }
    }
    return next_ns;
}

static void poll_once(int64_t until_ns)
{
    struct pollfd fds[FLEET_MAX + 2 * LINKS_MAX];
    for (size_t i = 0; i < relay_count; i++) {
        fds[i] = (struct pollfd){listeners[i], POLLIN, 0};
    }
    struct pollfd *pairs = fds + relay_count;
    for (size_t i = 0; i < LINKS_MAX; i++) {
        const bool open = links[i].client >= 0;
        const short answers = links[i].waiting == 0 ? POLLIN : 0;
        const short room = links[i].stuck > 0 ? POLLOUT : 0;
        pairs[2 * i] = (struct pollfd){open ? links[i].client : -1, room == 0 ? POLLIN : 0, 0};
        pairs[2 * i + 1] = (struct pollfd){open ? links[i].server : -1, (short)(answers | room), 0};
    }
    const int64_t left_ns = until_ns > now_ns() ? until_ns - now_ns() : 0;
    const struct timespec timeout = {left_ns / NS_PER_S, left_ns % NS_PER_S};
    ppoll(fds, relay_count + 2 * LINKS_MAX, &timeout, NULL);
    for (size_t i = 0; i < LINKS_MAX; i++) {
        const short server = pairs[2 * i + 1].revents;
        if ((server & ~POLLOUT) != 0 && links[i].waiting == 0) {
            take_answer(&links[i]);
        }
        if ((server & POLLOUT) != 0 && links[i].client >= 0) {
            push_on(&links[i]);
        }
        if ((pairs[2 * i].revents & (POLLHUP | POLLERR)) != 0 && links[i].client >= 0) {
            end_link(&links[i]);
        } else if (pairs[2 * i].revents != 0 && links[i].client >= 0) {
            pass_on(&links[i]);
        }
    }
    for (size_t i = 0; i < relay_count; i++) {
        if (fds[i].revents != 0) {
            accept_one(i);
        }
    }
}

static void *relay(void *arg)
{
    (void)arg;
    prctl(PR_SET_TIMERSLACK, 1UL); /* a delay is to be as long as it was asked for */
    for (;;) {
        poll_once(deliver_due());
    }
    return NULL;
}

/* ===== Starting and stopping ===== */

static uint16_t listen_for(size_t index)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 16) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        die("no port for a relay: %s", strerror(errno));
    }
    listeners[index] = fd;
    return ntohs(address.sin_port);
}

static pid_t start_server(size_t index)
{
    const pid_t parent = getpid();
    snprintf(directories[index], sizeof directories[index], "/tmp/pawl-bench.XXXXXX");
    if (mkdtemp(directories[index]) == NULL) {
        die("no temporary directory: %s", strerror(errno));
    }
    const pid_t pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent ||
            chdir(directories[index]) != 0) {
            _exit(1);
        }
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", "s", "--save", "",
            "--appendonly", "no", "--logfile", "log", (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void await_server(size_t index)
{
    const int64_t deadline_ns = now_ns() + START_WAIT_MS * NS_PER_MS;
    int fd = connect_to(index);
    while (fd < 0) {
        if (now_ns() > deadline_ns) {
            die("a redis-server did not start");
        }
        pause_ns(5 * NS_PER_MS);
        fd = connect_to(index);
    }
    close(fd);
}

void fleet_start(struct fleet *fleet, size_t count, int64_t round_trip_us)
{
    pthread_t thread;
    delay_ns = round_trip_us * 1000;
    for (size_t i = 0; i < LINKS_MAX; i++) {
        links[i].client = -1;
    }
    fleet->count = count;
    for (size_t i = 0; i < count; i++) {
        fleet->pids[i] = start_server(i);
        fleet->ports[i] = listen_for(i);
    }
    for (size_t i = 0; i < count; i++) {
        await_server(i);
    }
    relay_count = count;
    if (pthread_create(&thread, NULL, relay, NULL) != 0) {
        die("no thread for the relays");
    }
}

void fleet_stop(struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->count; i++) {
        char path[96];
        kill(fleet->pids[i], SIGKILL);
        waitpid(fleet->pids[i], NULL, 0);
        snprintf(path, sizeof path, "%s/s", directories[i]);
        unlink(path);
        snprintf(path, sizeof path, "%s/log", directories[i]);
        unlink(path);
        rmdir(directories[i]);
    }
}
