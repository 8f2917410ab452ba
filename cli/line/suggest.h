/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean ...?": among known words, the one nearest to a misspelt one. */
#ifndef PAWL_LINE_SUGGEST_H
#define PAWL_LINE_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>

struct cli_suggestion {
    const char *word; /* the misspelt one */
    size_t size;
    size_t distance; /* of the best known word so far, or what is still tolerated */
};

struct cli_suggestion cli_suggest_for(const char *word, size_t size);

/* Whether `known` is nearer than all that were offered before, and near enough to be meant. */
bool cli_suggest_offer(struct cli_suggestion *suggestion, const char *known);

#endif
