/* SPDX-License-Identifier: Apache-2.0 */
/* What front and keeper say to each other; see run.h.
 *
 * A message is one packet on a socket pair. Sending does not wait, since the other may be stopped
 * for hours. What is said again and again, for the user to read, is left out while the last is
 * unheard, so there is room for what changes the state; should there be none all the same, the
 * keeper stays until there is, unless it has a command to watch. What must be known later, and
 * nobody has to be woken for, is in memory that both share. */
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
    RUN_HOLDER,   /* who has it meanwhile, with RUN_LESS around what may be left out */
    RUN_NOTE,     /* a sentence for the user */
    RUN_PAUSED,   /* neither holding nor waiting */
    RUN_RELEASED, /* the lock is released, or was lost: an exit status */
    /* The front says: */
    RUN_DONE,  /* release, or stop waiting, and end */
    RUN_PAUSE, /* stop waiting for now */
    RUN_RESUME,
};

enum { RUN_TEXT_SIZE = 1792, RUN_LESS = 0x1f };

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
    _Atomic int64_t held_us;     /* when the lock was had; written by the keeper */
    _Atomic int talk;            /* how many RUN_HOLDER and RUN_NOTE the front has not heard yet */
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

/* False: nobody is there, or there is no room. */
bool run_link_send(int fd, const struct run_message *message);

/* The same, and wait for room. */
void run_link_tell(int fd, const struct run_message *message);

/* A message with a word and a text (may be NULL). */
bool run_link_say(int fd, enum run_word word, const char *text);

/* The same for what may be left out: nothing is sent while more than `max` of these are unheard. */
void run_link_talk(const struct run_link *link, enum run_word word, const char *text, int max);

enum run_heard { RUN_HEARD, RUN_SILENCE, RUN_CLOSED };

/* The next message, if there is one. RUN_CLOSED: the other process is gone. */
enum run_heard run_link_hear(int fd, struct run_message *message_out);

#endif
