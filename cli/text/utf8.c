/* SPDX-License-Identifier: Apache-2.0 */
/* See utf8.h. The tables of widths are coarse, whole blocks instead of single characters: a column
 * too many leaves a gap in a table, nothing worse. */
#include "text/utf8.h"

struct range {
    uint32_t first, last;
};

static bool in_ranges(uint32_t code, const struct range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (code >= ranges[i].first && code <= ranges[i].last) {
            return true;
        }
    }
    return false;
}

/* How many bytes the first one announces; 0: it cannot be a first one. */
static size_t announced_size(unsigned char first)
{
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xc2 && first <= 0xdf) {
        return 2;
    }
    if (first >= 0xe0 && first <= 0xef) {
        return 3;
    }
    return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

size_t cli_utf8_decode(const char *bytes, size_t size, uint32_t *code_out)
{
    static const unsigned char first_mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};

    const unsigned char *in = (const unsigned char *)bytes;
    size_t length = announced_size(in[0]);
    if (length == 0 || length > size) {
        return 0;
    }
    uint32_t code = in[0] & first_mask[length];
    for (size_t i = 1; i < length; i++) {
        if ((in[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (in[i] & 0x3f);
    }
    if (code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
        return 0;
    }
    *code_out = code;
    return length;
}

size_t cli_utf8_width(uint32_t code)
{
    static const struct range none[] = {
        {0x0300, 0x036f}, /* combining marks, here and below */
        {0x0483, 0x0489},
        {0x0591, 0x05bd},
        {0x064b, 0x065f},
        {0x0e31, 0x0e31},
        {0x0e34, 0x0e3a},
        {0x0e47, 0x0e4e},
        {0x1ab0, 0x1aff},
        {0x1dc0, 0x1dff},
        {0x20d0, 0x20ff},
        {0xfe00, 0xfe0f}, /* variation selectors */
        {0xfe20, 0xfe2f},
    };
    static const struct range two[] = {
        {0x1100, 0x115f}, /* Hangul, CJK, Kana */
        {0x2e80, 0x303e},
        {0x3041, 0xa4cf},
        {0xa960, 0xa97f},
        {0xac00, 0xd7a3},
        {0xf900, 0xfaff},
        {0xfe30, 0xfe6f},
        {0xff00, 0xff60}, /* full-width forms */
        {0xffe0, 0xffe6},
        {0x1f300, 0x1f64f}, /* pictures */
        {0x1f680, 0x1f6ff},
        {0x1f900, 0x1f9ff},
        {0x20000, 0x3fffd},
    };
    if (code < 0x300) {
        return 1;
    }
    if (in_ranges(code, none, sizeof none / sizeof none[0])) {
        return 0;
    }
    return in_ranges(code, two, sizeof two / sizeof two[0]) ? 2 : 1;
}

bool cli_utf8_is_harmful(uint32_t code)
{
    static const struct range harmful[] = {
        {0x00, 0x1f}, {0x7f, 0x9f}, {0xad, 0xad}, /* soft hyphen */
        {0x061c, 0x061c},                         /* a direction mark */
        {0x180e, 0x180e},                         /* invisible */
        {0x200b, 0x200f},                         /* invisible, and direction marks */
        {0x2028, 0x202e},    /* separators, and directions that reach further */
        {0x2060, 0x206f},    /* invisible, and the same once more */
        {0xfeff, 0xfeff},    /* invisible */
        {0xfff9, 0xfffb},    /* annotations */
        {0xe0000, 0xe0fff},  /* tags */
        {0xf0000, 0x10ffff}, /* private planes */
    };
    return in_ranges(code, harmful, sizeof harmful / sizeof harmful[0]);
}
