/* SPDX-License-Identifier: Apache-2.0 */
/* What front and keeper say to each other; see run.h.
 *
 * A message is one packet on a socket pair. Sending never waits: whoever is stopped for hours must
 * not stop the other. Nothing that is sent often matters if it is dropped; what must be known
 * later, and nobody has to be woken for, is in memory that both share. */
#ifndef PAWL_RUN_LINK_H
#define PAWL_RUN_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum run_word {
    /* The keeper says: */
    RUN_HELD = 1, /* the lock is ours; with token, and the owner string as text */
    RUN_LOST,     /* it is not any more; why */
    RUN_FAILED,   /* it cannot be had; exit status and why */
    RUN_HOLDER,   /* who has it meanwhile */
    RUN_NOTE,     /* a sentence for the user */
    RUN_PAUSED,   /* neither holding nor waiting */
    RUN_RELEASED, /* the lock is released, or was lost: an exit status */
    /* The front says: */
    RUN_DONE,  /* release, or stop waiting, and end */
    RUN_PAUSE, /* stop waiting for now */
    RUN_RESUME,
};

enum { RUN_TEXT_SIZE = 1024 };

struct run_message {
    enum run_word word;
    int status;
    uint64_t token;
    char text[RUN_TEXT_SIZE]; /* only what is used of it travels */
};

struct run_shared {
    _Atomic int64_t deadline_us; /* the lock is sure until then; written by the keeper */
    _Atomic int64_t child_us;    /* when the command had been started; written by the front */
    _Atomic int64_t child;       /* its process id; 0: not started */
};

struct run_link {
    int front_fd; /* -1 in the keeper */
    int keeper_fd;
    struct run_shared *shared;
};

/* Before the fork. False: errno says why. */
bool run_link_open(struct run_link *link);

/* After it: keep one's own end. The descriptors are above 2 and close on exec. */
void run_link_be_front(struct run_link *link);
void run_link_be_keeper(struct run_link *link);

void run_link_send(int fd, const struct run_message *message);

/* A message with a word and a text (may be NULL). */
void run_link_say(int fd, enum run_word word, const char *text);

enum run_heard { RUN_HEARD, RUN_SILENCE, RUN_CLOSED };

/* The next message, if there is one. RUN_CLOSED: the other process is gone. */
enum run_heard run_link_hear(int fd, struct run_message *message_out);

#endif
