/* SPDX-License-Identifier: Apache-2.0 */
/* Thread-local sentences: no allocation, so that running out of memory can be reported too. */
#include "base/error.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[512];
static _Thread_local char errno_text[96];

pawl_status pawl__fail(pawl_status status, const char *format, ...)
{
    char sentence[sizeof last_error]; /* the arguments may be parts of the last error */
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    memcpy(last_error, sentence, strlen(sentence) + 1);
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
    return last_error;
}

/* One byte as it is shown: itself, or four characters. */
static size_t spell(unsigned char byte, char out[4])
{
    static const char hex[] = "0123456789abcdef";
    if (byte >= 0x20 && byte != 0x7f) {
        out[0] = (char)byte;
        return 1;
    }
    out[0] = '\\';
    out[1] = 'x';
    out[2] = hex[byte >> 4];
    out[3] = hex[byte & 15];
    return 4;
}

const char *pawl__printable(const char *name, size_t name_size, char *out, size_t out_size)
{
    static const char dots[] = "...";
    assert(out_size >= sizeof dots);
    size_t used = 0;
    size_t cut = 0; /* the last place between two characters (of UTF-8) where dots still fit */
    for (size_t i = 0; i < name_size; i++) {
        unsigned char byte = (unsigned char)name[i];
        if ((byte & 0xc0) != 0x80 && used + sizeof dots <= out_size) {
            cut = used;
        }
        char shown[4];
        size_t size = spell(byte, shown);
        if (used + size >= out_size) {
            memcpy(out + cut, dots, sizeof dots);
            return out;
        }
        memcpy(out + used, shown, size);
        used += size;
    }
    out[used] = '\0';
    return out;
}

const char *pawl__errno_text(int error)
{
    return strerror_r(error, errno_text, sizeof errno_text);
}
