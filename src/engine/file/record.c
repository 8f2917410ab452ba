/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a lock file, and the token in it.
 *
 * Tokens begin with the microseconds of the wall clock and then count by one. Nobody takes a
 * million locks of one name per second, so the clock stays ahead of the tokens, and a file that was
 * deleted starts above all that it ever gave out. The same helps after a power failure: writes of
 * the last seconds before may be missing from the file, so the first grant in a new boot goes to
 * the clock again.
 *
 * Pure but for pawl__record_init(), which asks for the host, the process and the boot, for
 * pawl__record_writer(), which asks for a process, and for the clock. */
#include "engine/file/record.h"

#include "base/clock.h"
#include "base/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TOKEN_MIN UINT64_C(1000000000000000)    /* 10^15 us: in 2001 */
#define TOKEN_MAX UINT64_C(1000000000000000000) /* in the year 33658: surely garbage */
#define GRANTS_UNDER_WAY_MAX 10
#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

/* ===== Fields ===== */

static void put_text(char *field, size_t field_size, const char *text, size_t size)
{
    size_t used = size < field_size ? size : field_size;
    memcpy(field, text, used);
    memset(field + used, ' ', field_size - used);
}

/* Text that others chose: whatever it is, it stays on its line. */
static void put_line(char *field, size_t field_size, const char *text)
{
    put_text(field, field_size, text, strnlen(text, field_size));
    for (size_t i = 0; i < field_size; i++) {
        if ((unsigned char)field[i] < ' ' || field[i] == 0x7f) {
            field[i] = '?';
        }
    }
}

static void put_number(char *field, size_t field_size, uint64_t number)
{
    char digits[20];
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put_text(field, field_size, digits + first, sizeof digits - first);
}

/* Digits up to a blank or the end of the field; 0 for anything else. */
static uint64_t get_number(const char *field, size_t field_size)
{
    uint64_t number = 0;
    for (size_t i = 0; i < field_size && field[i] != ' '; i++) {
        if (field[i] < '0' || field[i] > '9' || number > (UINT64_MAX - 9) / 10) {
            return 0;
        }
        number = number * 10 + (uint64_t)(field[i] - '0');
    }
    return number;
}

/* ===== The record ===== */

static void put_boot(struct pawl__record *record)
{
    char text[sizeof record->boot];
    ssize_t size = -1;
    int fd = pawl__fd_openat(AT_FDCWD, BOOT_ID_FILE, O_RDONLY, 0);
    if (fd >= 0) {
        size = read(fd, text, sizeof text);
        pawl__fd_close(fd);
    }
    put_text(record->boot, sizeof record->boot, size > 0 ? text : "-", size > 0 ? (size_t)size : 1);
}

static void put_labels(struct pawl__record *record)
{
    memset(record, ' ', sizeof *record);
    memcpy(record->title, PAWL__RECORD_TITLE, sizeof record->title);
    memcpy(record->token_label, "\ntoken  ", sizeof record->token_label);
    memcpy(record->holder_label, "\nholder ", sizeof record->holder_label);
    memcpy(record->count_label, "\ncount  ", sizeof record->count_label);
    memcpy(record->alone_label, "\nalone  ", sizeof record->alone_label);
    memcpy(record->pid_label, "\npid    ", sizeof record->pid_label);
    memcpy(record->since_label, "\nsince  ", sizeof record->since_label);
    memcpy(record->boot_label, "\nboot   ", sizeof record->boot_label);
    memcpy(record->host_label, "\nhost   ", sizeof record->host_label);
    memcpy(record->command_label, "\ncmd    ", sizeof record->command_label);
    memcpy(record->name_label, "\nname   ", sizeof record->name_label);
}

void pawl__record_init(struct pawl__record *record, const char *uuid)
{
    put_labels(record);
    pawl__record_set_alone(record, false);
    memcpy(record->holder, uuid, PAWL__UUID_SIZE);
    record->holder[PAWL__UUID_SIZE] = ':';
    put_number(record->pid, sizeof record->pid, (uint64_t)getpid());
    put_number(record->since, sizeof record->since, (uint64_t)pawl__now_us() / 1000);
    put_line(record->command, sizeof record->command, program_invocation_short_name);
    put_boot(record);
    char host[sizeof record->host + 1] = "";
    if (gethostname(host, sizeof host) == 0) {
        put_line(record->host, sizeof record->host, host);
    }
}

void pawl__record_set_token(struct pawl__record *record, uint64_t token)
{
    put_number(record->token, sizeof record->token, token);
}

void pawl__record_set_count(struct pawl__record *record, unsigned count)
{
    put_number(record->count, sizeof record->count, count);
}

void pawl__record_set_alone(struct pawl__record *record, bool alone)
{
    record->alone[0] = alone ? '1' : '0';
}

void pawl__record_set_tenure(struct pawl__record *record, uint64_t id)
{
    put_number(record->holder + PAWL__UUID_SIZE + 1, 20, id);
}

void pawl__record_clear_holder(struct pawl__record *record)
{
    memset(record->holder, ' ', sizeof record->holder);
    pawl__record_set_count(record, 0);
    pawl__record_set_alone(record, false);
}

uint64_t pawl__record_token(const struct pawl__record *record)
{
    uint64_t token = get_number(record->token, sizeof record->token);
    return token >= TOKEN_MIN && token < TOKEN_MAX ? token : 0;
}

unsigned pawl__record_count(const struct pawl__record *record)
{
    return (unsigned)get_number(record->count, sizeof record->count);
}

bool pawl__record_alone(const struct pawl__record *record)
{
    return record->alone[0] == '1';
}

bool pawl__record_is_by(const struct pawl__record *record, const struct pawl__record *mine)
{
    return memcmp(record->holder, mine->holder, PAWL__UUID_SIZE) == 0;
}

void pawl__record_holder(const struct pawl__record *record, char *holder_out)
{
    size_t size = 0;
    while (size < sizeof record->holder && record->holder[size] > ' ') {
        size++;
    }
    memcpy(holder_out, record->holder, size);
    holder_out[size] = '\0';
}

/* A field without the blanks behind it. Whatever stands there, no terminal obeys it. */
static void get_line(const char *field, size_t field_size, char *out)
{
    size_t size = 0;
    for (size_t i = 0; i < field_size; i++) {
        unsigned char c = (unsigned char)field[i];
        out[i] = field[i];
        if (c < ' ' || c == 0x7f) {
            out[i] = '?';
        }
        size = c != ' ' ? i + 1 : size;
    }
    out[size] = '\0';
}

bool pawl__record_is_of_boot(const struct pawl__record *record, const struct pawl__record *mine)
{
    return memcmp(record->boot, mine->boot, sizeof mine->boot) == 0;
}

/* Processes of another host, or of a namespace of their own, cannot be asked for; a number that
 * means another process here, or none, helps nobody. */
static int64_t get_pid(const struct pawl__record *record, const struct pawl__record *mine)
{
    uint64_t pid = get_number(record->pid, sizeof record->pid);
    bool here = memcmp(record->host, mine->host, sizeof mine->host) == 0;
    if (pid == 0 || pid > INT32_MAX || (here && kill((pid_t)pid, 0) != 0 && errno == ESRCH)) {
        return 0;
    }
    return (int64_t)pid;
}

void pawl__record_writer(const struct pawl__record *record, const struct pawl__record *mine,
    struct pawl__record_writer *writer_out)
{
    writer_out->host[0] = '\0';
    writer_out->command[0] = '\0';
    writer_out->pid = 0;
    writer_out->since_ms = -1;
    if (!pawl__record_is_of_boot(record, mine)) {
        return;
    }
    get_line(record->host, sizeof record->host, writer_out->host);
    get_line(record->command, sizeof record->command, writer_out->command);
    writer_out->pid = get_pid(record, mine);
    uint64_t since_ms = get_number(record->since, sizeof record->since);
    uint64_t now_ms = (uint64_t)pawl__now_us() / 1000;
    if (since_ms > 0 && since_ms <= now_ms) {
        writer_out->since_ms = (int64_t)(now_ms - since_ms);
    }
}

/* The one use of the wall clock in the library: it orders tokens, never decides how long something
 * lasts. */
static uint64_t wall_clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t seed_token(uint64_t least)
{
    uint64_t seed = wall_clock_us();
    return seed > least ? seed : least;
}

uint64_t pawl__record_next_token(const struct pawl__record *last, const struct pawl__record *mine)
{
    uint64_t token = last == NULL ? 0 : pawl__record_token(last);
    if (token == 0) {
        return seed_token(TOKEN_MIN);
    }
    if (!pawl__record_is_of_boot(last, mine)) {
        return seed_token(token + 1);
    }
    return token + 1;
}

/* Above the old file's, also if a grant is just being written to it, and above what any file may
 * have given out that was in its place meanwhile. */
uint64_t pawl__record_carry_token(const struct pawl__record *last, const struct pawl__record *mine)
{
    return seed_token(pawl__record_next_token(last, mine) + GRANTS_UNDER_WAY_MAX);
}

/* ===== The whole file ===== */

/* The first layout: the same fields up to the count. */
#define OLD_TITLE "pawl lock file 1: the last holder; held as long as byte 0 is locked"

struct old_record {
    char same[offsetof(struct pawl__record, alone_label)];
    char pid_label[8];
    char pid[10];
    char boot_label[8];
    char boot[PAWL__UUID_SIZE];
    char host_label[8];
    char host[64];
    char name_label[8];
};

_Static_assert(sizeof OLD_TITLE == sizeof PAWL__RECORD_TITLE, "the fields begin at the same place");

/* Whether the bytes are the beginning of the expected ones, or all of them. */
static bool is_beginning(const char *bytes, size_t size, const char *expected, size_t expected_size)
{
    return size <= expected_size && memcmp(bytes, expected, size) == 0;
}

static bool is_old(const struct pawl__content *content)
{
    return content->size >= sizeof(struct old_record) &&
           memcmp(&content->record, OLD_TITLE, sizeof content->record.title) == 0;
}

/* What its writer could not tell stays blank. */
static void renew(struct pawl__content *content)
{
    struct old_record old;
    struct pawl__record *record = &content->record;
    memcpy(&old, record, sizeof old);
    char *bytes = (char *)content;
    size_t name_size = content->size - sizeof old;
    if (name_size > sizeof content->name) {
        name_size = sizeof content->name;
    }
    memmove(content->name, bytes + sizeof old, name_size);
    content->size = sizeof *record + name_size;
    put_labels(record);
    memcpy((char *)record + sizeof record->title, old.same + sizeof record->title,
        sizeof old.same - sizeof record->title);
    pawl__record_set_alone(record, false);
    memcpy(record->pid, old.pid, sizeof record->pid);
    memcpy(record->boot, old.boot, sizeof record->boot);
    memcpy(record->host, old.host, sizeof record->host);
}

static enum pawl__content_kind judge_name(
    const struct pawl__content *content, const char *encoded, size_t encoded_size)
{
    size_t size = content->size - sizeof content->record;
    if (size <= encoded_size) {
        bool begun = is_beginning(content->name, size, encoded, encoded_size);
        return begun ? PAWL__CONTENT_NEW : PAWL__CONTENT_OTHER;
    }
    bool same = memcmp(content->name, encoded, encoded_size) == 0;
    return same && content->name[encoded_size] == '\n' ? PAWL__CONTENT_OURS : PAWL__CONTENT_OTHER;
}

enum pawl__content_kind pawl__content_judge(
    struct pawl__content *content, const char *encoded, size_t encoded_size)
{
    const struct pawl__record *record = &content->record;
    bool old = is_old(content);
    if (old) {
        renew(content);
    }
    size_t size = content->size < sizeof record->title ? content->size : sizeof record->title;
    bool blank = size == 0 || record->title[0] == '\0'; /* NULs: from before a power failure */
    if (!blank && !is_beginning(record->title, size, PAWL__RECORD_TITLE, sizeof record->title) &&
        !is_beginning(record->title, size, OLD_TITLE, sizeof record->title)) {
        return PAWL__CONTENT_FOREIGN;
    }
    if (blank || content->size < sizeof *record) {
        return PAWL__CONTENT_NEW;
    }
    enum pawl__content_kind kind =
        encoded == NULL ? PAWL__CONTENT_OURS : judge_name(content, encoded, encoded_size);
    return old && kind == PAWL__CONTENT_OURS ? PAWL__CONTENT_OLD : kind;
}

const char *pawl__content_name(const struct pawl__content *content, size_t *encoded_size_out)
{
    size_t size = content->size - sizeof content->record;
    const char *end = memchr(content->name, '\n', size);
    *encoded_size_out = end == NULL ? 0 : (size_t)(end - content->name);
    return end == NULL ? NULL : content->name;
}

void pawl__content_set_name(struct pawl__content *content, const char *encoded, size_t encoded_size)
{
    memcpy(content->name, encoded, encoded_size);
    content->name[encoded_size] = '\n';
    content->size = sizeof content->record + encoded_size + 1;
}
