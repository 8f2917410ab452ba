/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the scripted server share.
 *
 * One thread runs the server in a poll loop (scripted.c). scripted_script.c reads scripts and
 * patterns and knows nothing of sockets; scripted_play.c walks through the steps and answers
 * commands; scripted_handshake.c has the usual answers.
 *
 * Threads: scripted->mutex guards everything. The loop holds it except while it polls and while a
 * handler runs; connections are made, changed and freed by the loop's thread only. */
#ifndef PAWL_SUPPORT_SCRIPTED_INTERNAL_H
#define PAWL_SUPPORT_SCRIPTED_INTERNAL_H

#include "support/scripted.h"

#include <pthread.h>

enum step_kind {
    STEP_EXPECT,
    STEP_SEND,
    STEP_BYTES,
    STEP_CLOSE,
    STEP_RESET,
    STEP_SILENCE,
    STEP_ACCEPT,
    STEP_ON,
    STEP_REPEAT,
    STEP_END
};

/* A command to look for. */
struct pattern {
    char *source; /* as written, for messages */
    char *part;   /* NULL, or the text after ~ */
    struct resp_words words;
};

struct step {
    enum step_kind kind;
    unsigned line;
    struct pattern pattern; /* EXPECT, ON */
    struct text bytes;      /* SEND, BYTES */
    int64_t number;         /* BYTES: size; SILENCE: ms; REPEAT: times; -1: for ever */
    int64_t left;           /* REPEAT: rounds to go */
    size_t start;           /* END: its REPEAT */
};

struct handler {
    struct handler *next;
    struct resp_words prefix;
    struct text reply; /* used when function is NULL */
    scripted_handler function;
    void *arg;
};

enum output_kind { OUTPUT_DATA, OUTPUT_CLOSE, OUTPUT_RESET };

/* Something to be written: bytes, once or repeated up to a size, or the end. */
struct output {
    struct output *next;
    enum output_kind kind;
    char *data;
    size_t data_size;
    uint64_t left;   /* bytes still to be written */
    size_t position; /* in data, of the next byte */
};

struct connection {
    struct connection *next; /* newer ones first */
    size_t number;
    int fd; /* -1: over */
    bool resp3;
    bool blocked;
    struct text received;
    struct output *first;
    struct output *last;
};

struct record {
    size_t connection;
    struct resp_words words;
    char *joined;
    size_t joined_size;
};

struct info_field {
    struct info_field *next;
    char *name;
    char *value;
};

struct scripted {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    bool stopping;
    int wake_fd;
    int listen_fd;
    uint16_t port;
    char *url;

    struct step *steps;
    size_t step_count;
    size_t step_index;          /* where the script stands */
    unsigned line;              /* of the script's last line so far */
    int64_t silent_until_ms;    /* 0: not silent */
    struct connection *current; /* that SEND acts on */
    size_t claimed;             /* connections that an ACCEPT has met */
    size_t last_record;         /* the command of the last EXPECT, for %{}; or SIZE_MAX */
    struct handler *handlers;
    struct connection *connections;
    size_t accepted;
    struct record *records;
    size_t record_count;
    size_t record_capacity;
    uint64_t sent_size;
    struct info_field *info;
    char *error;
};

/* scripted_script.c: pure functions. */
bool scripted__parse(const char *line, struct step *step_out, const char **mistake_out);
void scripted__step_free(struct step *step);
bool scripted__pattern_parse(const char *source, struct pattern *pattern_out);
void scripted__pattern_free(struct pattern *pattern);
bool scripted__pattern_matches(const struct pattern *pattern, const struct resp_words *words,
    const char *joined, size_t joined_size);
bool scripted__begins_with(const struct resp_words *words, const struct resp_words *prefix);
bool scripted__unescape(const char *source, struct text *bytes);
void scripted__expand(
    const struct text *bytes, const struct resp_words *words, struct text *expanded);

/* scripted_play.c: the mutex is held. */
void scripted__take_command(
    struct scripted *scripted, struct connection *connection, struct resp_words *words);
void scripted__advance(struct scripted *scripted);
bool scripted__is_silent(const struct scripted *scripted);
bool scripted__is_done(const struct scripted *scripted);
void scripted__complain(struct scripted *scripted, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
