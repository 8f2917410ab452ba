/* SPDX-License-Identifier: Apache-2.0 */
/* Suggestions by edit distance (a letter changed, missing, too many, or two swapped); see
 * suggest.h. Capitals are as good as small letters. A word that begins like a known one (--lea) is
 * as near as one wrong letter. */
#include "line/suggest.h"

#include <stdint.h>
#include <string.h>

enum { WORD_SIZE_MAX = 32, TOLERATED = 2 };

static size_t min2(size_t a, size_t b)
{
    return a < b ? a : b;
}

struct cli_suggestion cli_suggest_for(const char *word, size_t size)
{
    /* Two mistakes in three letters could be any word. */
    const size_t tolerated = size > 3 ? TOLERATED : 1;
    return (struct cli_suggestion){word, size, tolerated + 1};
}

/* Known words are in ASCII, whatever the locale. */
static bool same(char a, char b)
{
    const char small = (char)(a >= 'A' && a <= 'Z' ? a + ('a' - 'A') : a);
    return small == b || a == b;
}

static bool begins_like(const char *word, size_t size, const char *known)
{
    size_t at = 0;
    while (at < size && same(word[at], known[at])) {
        at++;
    }
    return at == size;
}

/* Row by row over the table of distances between beginnings of both words. */
static size_t distance_of(const char *a, size_t a_size, const char *b, size_t b_size)
{
    size_t table[WORD_SIZE_MAX + 1][WORD_SIZE_MAX + 1];
    for (size_t i = 0; i <= a_size; i++) {
        for (size_t j = 0; j <= b_size; j++) {
            if (i == 0 || j == 0) {
                table[i][j] = i + j;
                continue;
            }
            const size_t changed = same(a[i - 1], b[j - 1]) ? 0 : 1;
            size_t best = min2(table[i - 1][j], table[i][j - 1]) + 1;
            best = min2(best, table[i - 1][j - 1] + changed);
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1])) {
                best = min2(best, table[i - 2][j - 2] + 1);
            }
            table[i][j] = best;
        }
    }
    return table[a_size][b_size];
}

bool cli_suggest_offer(struct cli_suggestion *suggestion, const char *known)
{
    const size_t size = strlen(known);
    if (suggestion->size == 0 || suggestion->size > WORD_SIZE_MAX || size > WORD_SIZE_MAX) {
        return false;
    }
    size_t distance = distance_of(suggestion->word, suggestion->size, known, size);
    if (suggestion->size >= 2 && suggestion->size < size &&
        begins_like(suggestion->word, suggestion->size, known)) {
        distance = 1;
    }
    if (distance >= suggestion->distance) {
        return false;
    }
    suggestion->distance = distance;
    return true;
}
