/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that `flashsale up` starts and answers for: a server, an instance of the shop, nginx.
 *
 * Each has a process group of its own, so that Ctrl-C reaches `up` alone, which then ends them in a
 * sensible order; and each dies with `up`, however that ends (PR_SET_PDEATHSIG). One that shall run
 * and dies by itself is told, and started again by house_mend().
 */
#ifndef FLASHSALE_UP_PROCESS_H
#define FLASHSALE_UP_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "up/workdir.h"

#define PROCESS_NAME_SIZE 48
#define PROCESS_WORDS_MAX 64

struct process {
    char name[PROCESS_NAME_SIZE];       /* for sentences: "the shop on port 3786" */
    const char *program;                /* what is executed; NULL: what the first word names */
    char *words[PROCESS_WORDS_MAX + 1]; /* its command line; ends with NULL */
    size_t word_count;
    char log_path[WORKDIR_PATH_SIZE]; /* for all it prints; "": its stderr is ours */
    int end_signal;                   /* which ends it politely; SIGTERM */
    int orphan_signal;                /* which it gets when `up` dies; SIGKILL */
    pid_t pid;                        /* 0: it does not run */
    bool wanted;                      /* it shall run */
    int end_status;                   /* how it ended last, as waitpid() tells it */
    int64_t started_ms;
    int64_t due_ms;  /* when it is to be started again */
    int quick_count; /* deaths in a row that came soon after the start */
    int death_count;
};

void process_init(struct process *process, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds a word to the command line. Too many is a mistake of ours, not of the user. */
void process_add(struct process *process, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Starts it, and wants it from now on. */
bool process_start(struct process *process);

/* Whether it still runs; a death that is seen here is not told. */
bool process_runs(struct process *process);

/* Ends it and waits: kindly for so long, then by force. It is not wanted any more. */
void process_end(struct process *process, int64_t patience_ms);
void process_kill(struct process *process);

/* Frees its command line. */
void process_free(struct process *process);

/* Tells of one that died though it is wanted, and starts it again when its time has come. False: it
 * dies again and again, and there is no use in going on. */
bool process_mend(struct process *process);

#endif
