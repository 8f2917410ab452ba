/* SPDX-License-Identifier: Apache-2.0 */

/* How to look at a complete reply: walking its nodes and comparing their texts, as resp.h declares
 * it. Nothing here changes a reader.
 *
 * The nodes lie in the order of the wire, so the first child of a node is the one behind it, and
 * `next` of a child is its sibling as long as that is still inside the parent. */
#include "engine/redis/resp.h"

#include <assert.h>
#include <string.h>

const struct pawl__resp_node *pawl__resp_first(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *parent)
{
    (void)reader;
    return parent->child_count > 0 ? parent + 1 : NULL;
}

const struct pawl__resp_node *pawl__resp_next(const struct pawl__resp_reader *reader,
    const struct pawl__resp_node *parent, const struct pawl__resp_node *child)
{
    assert(child > parent);
    return child->next < parent->next ? &reader->nodes[child->next] : NULL;
}

const struct pawl__resp_node *pawl__resp_child(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *parent, uint32_t index)
{
    const struct pawl__resp_node *child = pawl__resp_first(reader, parent);
    while (child != NULL && index > 0) {
        child = pawl__resp_next(reader, parent, child);
        index--;
    }
    return child;
}

static bool text_is(const struct pawl__resp_reader *reader, const struct pawl__resp_node *node,
    const char *text, size_t text_size)
{
    return node->text_size == text_size &&
           memcmp(pawl__resp_text(reader, node), text, text_size) == 0;
}

bool pawl__resp_text_equals(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *node, const char *text)
{
    const bool has_text = node->type == PAWL__RESP_STATUS || node->type == PAWL__RESP_TEXT;
    return has_text && text_is(reader, node, text, strlen(text));
}

bool pawl__resp_error_is(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *node, const char *word)
{
    const size_t word_size = strlen(word);
    if (node->type != PAWL__RESP_ERROR || node->text_size < word_size) {
        return false;
    }
    const char *text = pawl__resp_text(reader, node);
    const bool ends_there = node->text_size == word_size || text[word_size] == ' ';
    return ends_there && memcmp(text, word, word_size) == 0;
}

const struct pawl__resp_node *pawl__resp_map_get(
    const struct pawl__resp_reader *reader, const struct pawl__resp_node *map, const char *key)
{
    if (map->type != PAWL__RESP_MAP && map->type != PAWL__RESP_ARRAY) {
        return NULL;
    }
    const struct pawl__resp_node *entry = pawl__resp_first(reader, map);
    while (entry != NULL) {
        const struct pawl__resp_node *value = pawl__resp_next(reader, map, entry);
        if (value == NULL || pawl__resp_text_equals(reader, entry, key)) {
            return value;
        }
        entry = pawl__resp_next(reader, map, value);
    }
    return NULL;
}
