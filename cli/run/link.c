/* SPDX-License-Identifier: Apache-2.0 */
/* The socket pair and the shared page between front and keeper; see link.h. */
#include "run/link.h"

#include "run/run.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

bool run_link_open(struct run_link *link)
{
    int fds[2];
    void *page =
        mmap(NULL, sizeof *link->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        return false;
    }
    link->front_fd = fds[0];
    link->keeper_fd = fds[1];
    link->shared = page;
    atomic_init(&link->shared->deadline_us, RUN_NEVER);
    return true;
}

void run_link_be_front(struct run_link *link)
{
    close(link->keeper_fd);
    link->keeper_fd = -1;
}

void run_link_be_keeper(struct run_link *link)
{
    close(link->front_fd);
    link->front_fd = -1;
}

static bool send_message(int fd, const struct run_message *message, int flags)
{
    const size_t size = offsetof(struct run_message, text) + strlen(message->text) + 1;
    return send(fd, message, size, MSG_NOSIGNAL | flags) == (ssize_t)size;
}

bool run_link_send(int fd, const struct run_message *message)
{
    return send_message(fd, message, MSG_DONTWAIT);
}

/* If it fails, nobody is there any more, which is heard soon. */
void run_link_tell(int fd, const struct run_message *message)
{
    send_message(fd, message, 0);
}

bool run_link_say(int fd, enum run_word word, const char *text)
{
    struct run_message message;
    message.word = word;
    message.status = 0;
    message.token = 0;
    snprintf(message.text, sizeof message.text, "%s", text != NULL ? text : "");
    return run_link_send(fd, &message);
}

/* The front counts down when it hears it. */
void run_link_talk(const struct run_link *link, enum run_word word, const char *text, int max)
{
    const bool many = atomic_fetch_add(&link->shared->talk, 1) > max;
    if (many || !run_link_say(link->keeper_fd, word, text)) {
        atomic_fetch_sub(&link->shared->talk, 1);
    }
}

enum run_heard run_link_hear(int fd, struct run_message *message_out)
{
    ssize_t size = 0;
    do {
        size = recv(fd, message_out, sizeof *message_out, MSG_DONTWAIT);
    } while (size < 0 && errno == EINTR);
    if (size < 0 && errno == EAGAIN) {
        return RUN_SILENCE;
    }
    if (size <= (ssize_t)offsetof(struct run_message, text)) {
        return RUN_CLOSED;
    }
    message_out->text[sizeof message_out->text - 1] = '\0';
    return RUN_HEARD;
}
