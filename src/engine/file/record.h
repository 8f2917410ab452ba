/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in a lock file: text of fixed width, so that one write replaces all of it and `cat`
 * shows it.
 *
 *     pawl lock file 2: the last holder; held as long as byte 0 is locked
 *     token  1700000000000042
 *     holder 5bd36e9c-7a0f-4f5e-9d6a-2a8f5a3c1b77:9
 *     count  1
 *     alone  0
 *     pid    4711
 *     since  1357924680
 *     boot   0c2b...
 *     host   build-7
 *     cmd    report
 *     name   jobs%2Fnightly
 *
 * The name (encoded, see names.h) is written when the file is made, the rest at every grant.
 * Nothing is written when the lock is released: whether it is held is asked of the kernel.
 *
 * Files of the first layout, without alone, since and cmd, are read too, and become files of this
 * one with their next grant. */
#ifndef PAWL_FILE_RECORD_H
#define PAWL_FILE_RECORD_H

#include "base/random.h"
#include "engine/file/names.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAWL__RECORD_TITLE "pawl lock file 2: the last holder; held as long as byte 0 is locked"

/* Only characters: no padding, no byte order. Each label begins with the newline that ends the line
 * before; each field is filled up with blanks. */
struct pawl__record {
    char title[sizeof PAWL__RECORD_TITLE - 1];
    char token_label[8];
    char token[20];
    char holder_label[8];
    char holder[PAWL__UUID_SIZE + 1 + 20]; /* "<client uuid>:<tenure>" */
    char count_label[8];
    char count[10];
    char alone_label[8];
    char alone[1]; /* '1': the holder wants to hear of who comes, see place.c */
    char pid_label[8];
    char pid[10];
    char since_label[8];
    char since[20]; /* when the client began, in ms after that boot */
    char boot_label[8];
    char boot[PAWL__UUID_SIZE]; /* which boot of the machine the token was given out in */
    char host_label[8];
    char host[64];
    char command_label[8];
    char command[128]; /* the name of the program */
    char name_label[8];
};

/* A whole file. */
struct pawl__content {
    struct pawl__record record;
    char name[PAWL__ENCODED_SIZE_MAX + 1]; /* with a newline behind it */
    size_t size;                           /* how many bytes there are of it all */
};

/* What a file turns out to be. */
enum pawl__content_kind {
    PAWL__CONTENT_OURS,
    PAWL__CONTENT_OLD,     /* ours, in the first layout: to be written anew as a whole */
    PAWL__CONTENT_NEW,     /* empty, or its writer died half-way */
    PAWL__CONTENT_FOREIGN, /* no lock file */
    PAWL__CONTENT_OTHER    /* the lock file of another name */
};

/* A record without holder and token, for this process. */
void pawl__record_init(struct pawl__record *record, const char *uuid);

void pawl__record_set_token(struct pawl__record *record, uint64_t token);
void pawl__record_set_count(struct pawl__record *record, unsigned count);
void pawl__record_set_alone(struct pawl__record *record, bool alone);

/* Write the tenure behind the client's uuid, which stands there since init. */
void pawl__record_set_tenure(struct pawl__record *record, uint64_t id);

/* Nobody holds it. */
void pawl__record_clear_holder(struct pawl__record *record);

/* The fields of what was read; 0 and "" for those that make no sense. `holder_out` has room for the
 * field and a NUL. */
uint64_t pawl__record_token(const struct pawl__record *record);
unsigned pawl__record_count(const struct pawl__record *record);
bool pawl__record_alone(const struct pawl__record *record);
void pawl__record_holder(const struct pawl__record *record, char *holder_out);

/* Who wrote it, as far as it says so and can be believed: nothing of what stood there before the
 * machine was started. `mine` is any record of this process. */
struct pawl__record_writer {
    char host[64 + 1];
    char command[128 + 1];
    int64_t pid;      /* 0: unknown, or no such process (any more, or not in this namespace) */
    int64_t since_ms; /* how long ago the client began; -1: unknown */
};
void pawl__record_writer(const struct pawl__record *record, const struct pawl__record *mine,
    struct pawl__record_writer *writer_out);

/* Whether it was written since the machine was started. */
bool pawl__record_is_of_boot(const struct pawl__record *record, const struct pawl__record *mine);

/* Whether it was written by the client that `mine` belongs to. */
bool pawl__record_is_by(const struct pawl__record *record, const struct pawl__record *mine);

/* The token after the one in `last` (NULL: there is none), as seen in the boot of `mine`. */
uint64_t pawl__record_next_token(const struct pawl__record *last, const struct pawl__record *mine);

/* The token that a file starts with which takes the place of one with the record `last`. */
uint64_t pawl__record_carry_token(const struct pawl__record *last, const struct pawl__record *mine);

/* Judge what was read, and bring it into the present layout. `encoded`: the name it should have;
 * NULL: looked at before. */
enum pawl__content_kind pawl__content_judge(
    struct pawl__content *content, const char *encoded, size_t encoded_size);

/* The name behind a record that is there as a whole; NULL: it is cut off. */
const char *pawl__content_name(const struct pawl__content *content, size_t *encoded_size_out);

/* Put a name behind the record, which must be set already. */
void pawl__content_set_name(
    struct pawl__content *content, const char *encoded, size_t encoded_size);

#endif
