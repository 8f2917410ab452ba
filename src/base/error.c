/* SPDX-License-Identifier: Apache-2.0 */
/* Each thread's last sentence. A library's thread-local storage has to be small (see
 * src/CMakeLists.txt), so the room for it is allocated when the thread first fails and goes with
 * the thread. There is a little room that is always there, so that running out of memory can be
 * reported too. */
#include "base/error.h"

#include "base/alloc.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SENTENCE_SIZE = 2048 }; /* a line to paste must not be cut */

static _Thread_local char *sentence; /* NULL: the short one */
static _Thread_local char short_sentence[160];
static _Thread_local char errno_text[48]; /* for numbers without a text */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;

static void thread_ended(void *room)
{
    pawl__free(room);
    sentence = NULL; /* a later destructor may fail again */
}

static void make_key(void)
{
    key_made = pthread_key_create(&key, thread_ended) == 0;
}

/* The calling thread's room for a sentence. */
static char *find_room(size_t *size_out)
{
    pthread_once(&once, make_key);
    if (sentence == NULL && key_made) {
        char *room = pawl__alloc(SENTENCE_SIZE);
        if (room != NULL && pthread_setspecific(key, room) != 0) {
            pawl__free(room);
            room = NULL;
        }
        sentence = room;
    }
    *size_out = sentence != NULL ? SENTENCE_SIZE : sizeof short_sentence;
    return sentence != NULL ? sentence : short_sentence;
}

pawl_status pawl__fail(pawl_status status, const char *format, ...)
{
    char text[SENTENCE_SIZE]; /* the arguments may be parts of the last sentence */
    size_t size = 0;
    char *room = find_room(&size);
    va_list args;
    va_start(args, format);
    vsnprintf(text, size, format, args);
    va_end(args);
    memcpy(room, text, strlen(text) + 1);
    return status;
}

pawl_status pawl__fail_text(pawl_status status, char *text)
{
    pawl__fail(status, "%s", text != NULL ? text : pawl_status_string(status));
    pawl__free(text);
    return status;
}

const char *pawl__error_text(void)
{
    return sentence != NULL ? sentence : short_sentence;
}

/* How many of the bytes that follow the first one of a character belong to it, and what the second
 * one must be: there is one way only to write a character, none for half a pair of UTF-16, and none
 * beyond the last one. The C1 controls, which some terminals obey, do not count as characters here.
 */
static const struct lead {
    unsigned char first, last; /* of the first byte */
    unsigned char more;
    unsigned char second_min, second_max;
} leads[] = {
    {0x20, 0x7e, 0, 0, 0},
    {0xc2, 0xc2, 1, 0xa0, 0xbf},
    {0xc3, 0xdf, 1, 0x80, 0xbf},
    {0xe0, 0xe0, 2, 0xa0, 0xbf},
    {0xe1, 0xec, 2, 0x80, 0xbf},
    {0xed, 0xed, 2, 0x80, 0x9f},
    {0xee, 0xef, 2, 0x80, 0xbf},
    {0xf0, 0xf0, 3, 0x90, 0xbf},
    {0xf1, 0xf3, 3, 0x80, 0xbf},
    {0xf4, 0xf4, 3, 0x80, 0x8f},
};

static bool continues(const unsigned char *text, const struct lead *lead)
{
    for (size_t i = 1; i <= lead->more; i++) {
        if (text[i] < (i == 1 ? lead->second_min : 0x80) ||
            text[i] > (i == 1 ? lead->second_max : 0xbf)) {
            return false;
        }
    }
    return true;
}

/* The size of the character of UTF-8 at the beginning; 0: there is none that can be printed. */
static size_t character_size(const char *text, size_t text_size)
{
    const unsigned char *bytes = (const unsigned char *)text;
    for (size_t i = 0; i < sizeof leads / sizeof leads[0]; i++) {
        const struct lead *lead = &leads[i];
        if (bytes[0] >= lead->first && bytes[0] <= lead->last) {
            return lead->more < text_size && continues(bytes, lead) ? lead->more + 1u : 0;
        }
    }
    return 0;
}

static void spell(char byte, char out[4])
{
    static const char hex[] = "0123456789abcdef";
    const unsigned value = (unsigned char)byte;
    out[0] = '\\';
    out[1] = 'x';
    out[2] = hex[value >> 4];
    out[3] = hex[value & 15];
}

const char *pawl__printable(const char *name, size_t name_size, char *out, size_t out_size)
{
    static const char dots[] = "...";
    assert(out_size >= sizeof dots);
    size_t used = 0;
    size_t cut = 0; /* the last place between two characters where dots still fit */
    size_t taken = 0;
    while (taken < name_size) {
        const char *from = name + taken;
        char spelled[4];
        size_t size = character_size(from, name_size - taken);
        taken += size > 0 ? size : 1;
        if (size == 0) {
            spell(*from, spelled);
            from = spelled;
            size = sizeof spelled;
        }
        if (used + sizeof dots <= out_size) {
            cut = used;
        }
        if (used + size >= out_size) {
            memcpy(out + cut, dots, sizeof dots);
            return out;
        }
        memcpy(out + used, from, size);
        used += size;
    }
    out[used] = '\0';
    return out;
}

const char *pawl__shell_word(const char *word, char *out, size_t out_size)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789+-_.,:/@%";
    enum { ONE_MORE = 6 }; /* a quote needs four bytes; and the end */
    const size_t size = strlen(word);
    if (size > 0 && size < out_size && strspn(word, plain) == size) {
        memcpy(out, word, size + 1);
        return out;
    }
    size_t used = 0;
    out[used++] = '\'';
    for (const char *c = word; *c != '\0' && used + ONE_MORE <= out_size; c++) {
        if (*c == '\'') { /* ends the quotes, stands alone, and begins them again */
            memcpy(out + used, "'\\''", 4);
            used += 4;
        } else {
            out[used++] = *c;
        }
    }
    memcpy(out + used, "'", 2);
    return out;
}

const char *pawl__errno_text(int error)
{
    return strerror_r(error, errno_text, sizeof errno_text);
}
