/* SPDX-License-Identifier: Apache-2.0 */
/* The two commands of an acquire and a release, exactly as the library sends them.
 *
 * They are not written down here: the server is asked (MONITOR) what the library sends for one
 * pair, and the floor and hiredis then send the same, with a lock name and an owner of their own of
 * the same length. So the comparison stays fair when the scripts or their arguments change, and it
 * is noticed when a pair takes more than two commands. */
#ifndef PAWL_LIB_PAIR_H
#define PAWL_LIB_PAIR_H

#include "lib/server.h"

#include <stdbool.h>
#include <stddef.h>

enum { PAIR_WORDS_MAX = 16, PAIR_NAME_SIZE = 12 };

/* What the library sends, word by word. */
struct pair_pattern {
    size_t word_counts[2];
    char *words[2][PAIR_WORDS_MAX];
};

/* One command, ready to be sent with hiredis (words) or bare (bytes). */
struct command {
    size_t word_count;
    char *words[PAIR_WORDS_MAX];
    size_t sizes[PAIR_WORDS_MAX];
    char format[3 * PAIR_WORDS_MAX + 1]; /* of the words, for redisCommand() */
    char *bytes;
    size_t size;
    char *word_number;  /* the last digit of the owner's number, in the words */
    char *bytes_number; /* and in the bytes */
};

struct pair {
    struct command acquire;
    struct command release;
};

/* The names that the sides lock all have this form. */
void pair_name(char name[PAIR_NAME_SIZE + 1], unsigned number);

/* Watch the library do one pair. False: it has been said why not. */
bool pair_observe(const struct server *server, struct pair_pattern *pattern);

/* The pair for one lock name. */
void pair_open(struct pair *pair, const struct pair_pattern *pattern, unsigned name_number);
void pair_close(struct pair *pair);

/* The next owner: the library never uses an owner string twice. */
void pair_advance(struct pair *pair);

/* Send a command and read its one-line reply. Dies unless it is a positive number, as both replies
 * are. With hiredis either as its manual shows it, redisCommand() with a format, or by the quicker
 * redisCommandArgv(). */
void command_exchange_raw(const struct command *command, int fd);
void command_exchange_hiredis(const struct command *command, redisContext *context);
void command_exchange_hiredis_argv(const struct command *command, redisContext *context);

#endif
