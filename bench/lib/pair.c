/* SPDX-License-Identifier: Apache-2.0 */
/* Observing and repeating the library's two commands; pair.h describes it.
 *
 * In the observed words the lock's name and the owner string are recognized by their form,
 * everything else (script hashes, lease, prefixes of keys) is repeated as it is. */
#include "lib/pair.h"

#include "lib/die.h"
#include "lib/ours.h"
#include "lib/side.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { PROBE_NUMBER = 999999, UUID_SIZE = 36, NUMBER_SIZE = 7, MONITOR_WAIT_S = 5 };

static const char marker[] = "pawl-bench-observed";

void pair_name(char name[PAIR_NAME_SIZE + 1], unsigned number)
{
    snprintf(name, PAIR_NAME_SIZE + 1, "bench-%06u", number % 1000000);
}

/* ===== The library does one pair ===== */

struct probe {
    pawl_client *client;
    pawl_lock *lock;
};

static void *probe_open(const void *arg)
{
    struct probe *probe = calloc(1, sizeof *probe);
    char name[PAIR_NAME_SIZE + 1];
    pair_name(name, PROBE_NUMBER);
    probe->client = ours_open(server_url(arg, TRANSPORT_TCP));
    probe->lock = ours_lock(probe->client, name, NULL);
    ours_acquire(probe->lock); /* the first pair may do more */
    ours_release(probe->lock);
    return probe;
}

static void probe_slice(void *self, int64_t slice_ns, struct sample *sample)
{
    struct probe *probe = self;
    (void)slice_ns;
    ours_acquire(probe->lock);
    ours_release(probe->lock);
    sample->count = 1;
}

static void probe_close(void *self)
{
    struct probe *probe = self;
    pawl_lock_close(probe->lock);
    pawl_client_close(probe->client);
    free(probe);
}

static const struct side_kind probe_kind = {"probe", probe_open, probe_slice, probe_close};

/* ===== What the server saw ===== */

/* The next word of a line of MONITOR, unquoted, to be freed; NULL at the end. */
static char *next_word(const char **at)
{
    const char *from = strchr(*at, '"');
    if (from == NULL) {
        return NULL;
    }
    char *word = calloc(1, strlen(from));
    size_t size = 0;
    for (from++; *from != '\0' && *from != '"'; from++) {
        if (*from == '\\') {
            from++;
        }
        word[size++] = *from;
    }
    *at = *from == '"' ? from + 1 : from;
    return word;
}

/* Whether it is a command that a client sent, not one that a script ran. */
static bool is_from_client(const char *line)
{
    const char *words = strchr(line, '"');
    const char *lua = strstr(line, " lua] ");
    return words != NULL && (lua == NULL || lua > words);
}

static void take_command(struct pair_pattern *pattern, size_t index, const char *line)
{
    char *word = next_word(&line);
    size_t count = 0;
    while (word != NULL && count < PAIR_WORDS_MAX) {
        pattern->words[index][count++] = word;
        word = next_word(&line);
    }
    free(word);
    pattern->word_counts[index] = count;
}

/* Read what MONITOR shows up to the marker; the number of commands. */
static size_t read_commands(redisContext *monitor, struct pair_pattern *pattern)
{
    size_t count = 0;
    void *reply = NULL;
    while (redisGetReply(monitor, &reply) == REDIS_OK) {
        const char *line = ((redisReply *)reply)->str;
        if (line != NULL && strstr(line, marker) != NULL) {
            freeReplyObject(reply);
            return count;
        }
        if (line != NULL && is_from_client(line)) {
            if (count < 2) {
                take_command(pattern, count, line);
            } else {
                progress("bench: a pair sends more: %s\n", line);
            }
            count++;
        }
        freeReplyObject(reply);
    }
    die("MONITOR: %s", monitor->errstr);
}

bool pair_observe(const struct server *server, struct pair_pattern *pattern)
{
    struct side probe = {.kind = &probe_kind, .arg = server};
    struct sample ignored;
    bool good = side_start(&probe);
    if (good) {
        redisContext *monitor = server_connect(server, TRANSPORT_UNIX);
        redisSetTimeout(monitor, (struct timeval){.tv_sec = MONITOR_WAIT_S});
        freeReplyObject(redisCommand(monitor, "MONITOR"));
        good = side_order(&probe, 1) && side_answer(&probe, &ignored);
        freeReplyObject(server_command(server, "ECHO %s", marker));
        const size_t count = read_commands(monitor, pattern);
        redisFree(monitor);
        if (good && count != 2) {
            progress("bench: a pair takes %zu commands, not 2: nothing to compare with\n", count);
            good = false;
        }
    }
    side_stop(&probe);
    return good;
}

/* ===== The same for another name and owner ===== */

static bool is_owner(const char *word)
{
    return strlen(word) > UUID_SIZE + 1 && word[8] == '-' && word[UUID_SIZE] == ':' &&
           isdigit((unsigned char)word[UUID_SIZE + 1]);
}

static char *make_word(const char *observed, unsigned name_number)
{
    char probe_name[PAIR_NAME_SIZE + 1];
    char name[PAIR_NAME_SIZE + 1];
    pair_name(probe_name, PROBE_NUMBER);
    pair_name(name, name_number);
    char *word = calloc(1, strlen(observed) + NUMBER_SIZE + 1);
    if (is_owner(observed)) {
        /* Another client's uuid, so that the sides never meet. */
        snprintf(word, UUID_SIZE + NUMBER_SIZE + 2, "%08x-0000-4000-8000-%012x:%07d", name_number,
            name_number, 1000000);
        return word;
    }
    memcpy(word, observed, strlen(observed));
    char *at = strstr(word, probe_name);
    if (at != NULL) {
        memcpy(at, name, PAIR_NAME_SIZE);
    }
    return word;
}

static void encode(struct command *command)
{
    size_t size = 16;
    for (size_t i = 0; i < command->word_count; i++) {
        size += command->sizes[i] + 32;
    }
    char *at = command->bytes = malloc(size);
    at += sprintf(at, "*%zu\r\n", command->word_count);
    for (size_t i = 0; i < command->word_count; i++) {
        at += sprintf(at, "$%zu\r\n%s\r\n", command->sizes[i], command->words[i]);
        if (is_owner(command->words[i])) {
            command->word_number = command->words[i] + command->sizes[i] - 1;
            command->bytes_number = at - 3;
        }
    }
    command->size = (size_t)(at - command->bytes);
}

static void command_open(
    struct command *command, size_t word_count, char *const *observed, unsigned name_number)
{
    command->word_count = word_count;
    for (size_t i = 0; i < word_count; i++) {
        command->words[i] = make_word(observed[i], name_number);
        command->sizes[i] = strlen(command->words[i]);
        memcpy(command->format + 3 * i, "%s ", 3);
    }
    encode(command);
    if (command->word_number == NULL) {
        die("no owner string in the library's %s", observed[0]);
    }
}

static void command_close(struct command *command)
{
    for (size_t i = 0; i < command->word_count; i++) {
        free(command->words[i]);
    }
    free(command->bytes);
}

void pair_open(struct pair *pair, const struct pair_pattern *pattern, unsigned name_number)
{
    *pair = (struct pair){0};
    command_open(&pair->acquire, pattern->word_counts[0], pattern->words[0], name_number);
    command_open(&pair->release, pattern->word_counts[1], pattern->words[1], name_number);
}

void pair_close(struct pair *pair)
{
    command_close(&pair->acquire);
    command_close(&pair->release);
}

/* Count up in decimal digits; `last` is the last one of NUMBER_SIZE. */
static void count_up(char *last)
{
    for (int i = 0; i < NUMBER_SIZE; i++, last--) {
        if (*last != '9') {
            ++*last;
            return;
        }
        *last = '0';
    }
}

void pair_advance(struct pair *pair)
{
    count_up(pair->acquire.word_number);
    count_up(pair->acquire.bytes_number);
    count_up(pair->release.word_number);
    count_up(pair->release.bytes_number);
}

/* ===== Sending ===== */

void command_exchange_raw(const struct command *command, int fd)
{
    char reply[256];
    size_t size = 0;
    if (send(fd, command->bytes, command->size, MSG_NOSIGNAL) != (ssize_t)command->size) {
        die("send failed");
    }
    do {
        const ssize_t received = recv(fd, reply + size, sizeof reply - size, 0);
        if (received <= 0) {
            die("recv failed");
        }
        size += (size_t)received;
    } while (reply[size - 1] != '\n' && size < sizeof reply);
    if (reply[0] != ':' || reply[1] < '1' || reply[1] > '9') {
        die("%s answered: %.*s", command->words[0], (int)size, reply);
    }
}

static void expect_positive(
    const struct command *command, redisReply *reply, const redisContext *context)
{
    if (reply == NULL || reply->type != REDIS_REPLY_INTEGER || reply->integer < 1) {
        die("%s answered: %s", command->words[0],
            reply == NULL        ? context->errstr
            : reply->str != NULL ? reply->str
                                 : "a refusal");
    }
    freeReplyObject(reply);
}

void command_exchange_hiredis(const struct command *command, redisContext *context)
{
    char *const *word = command->words; /* as many are used as the format names */
    expect_positive(command,
        redisCommand(context, command->format, word[0], word[1], word[2], word[3], word[4], word[5],
            word[6], word[7], word[8], word[9], word[10], word[11], word[12], word[13], word[14],
            word[15]),
        context);
}

void command_exchange_hiredis_argv(const struct command *command, redisContext *context)
{
    const char *words[PAIR_WORDS_MAX];
    for (size_t i = 0; i < command->word_count; i++) {
        words[i] = command->words[i];
    }
    expect_positive(command,
        redisCommandArgv(context, (int)command->word_count, words, command->sizes), context);
}
