/* SPDX-License-Identifier: Apache-2.0 */

/* The life of a reader between replies, and the limits that it goes by. Reading is resp.c's. */
#include "engine/redis/resp.h"

#include "base/alloc.h"

#include <assert.h>

const struct pawl__resp_limits pawl__resp_limits_default = {
    .reply_size = 4 << 20,
    .bulk_size = 1 << 20,
    .line_size = 64 << 10,
    .element_count = 1 << 10, /* PAWL__JOINT_MAX and no more */
    .node_count = 8 << 10,    /* 256 KiB of nodes */
    .depth = 8,
};

const struct pawl__resp_limits pawl__resp_limits_listing = {
    .reply_size = 4 << 20,
    .bulk_size = 1 << 20,
    .line_size = 64 << 10,
    .element_count = 64 << 10,
    .node_count = 128 << 10, /* 4 MiB of nodes */
    .depth = 8,
};

void pawl__resp_init(struct pawl__resp_reader *reader, const struct pawl__resp_limits *limits)
{
    *reader = (struct pawl__resp_reader){0};
    pawl__resp_set_limits(reader, limits);
}

void pawl__resp_free(struct pawl__resp_reader *reader)
{
    pawl__free(reader->nodes);
    pawl__resp_init(reader, reader->limits);
}

void pawl__resp_reset(struct pawl__resp_reader *reader)
{
    reader->broken = NULL;
    reader->data = NULL;
    reader->at = 0;
    reader->scanned = 0;
    reader->body_open = false;
    reader->depth = 0;
    reader->node_count = 0;
}

void pawl__resp_set_limits(struct pawl__resp_reader *reader, const struct pawl__resp_limits *limits)
{
    assert(reader->at == 0);
    assert(limits->depth <= PAWL__RESP_DEPTH_MAX);
    assert(limits->reply_size <= INT32_MAX); /* offsets and sizes fit a node */
    assert(limits->element_count <= INT32_MAX);
    reader->limits = limits;
    const uint32_t capacity = reader->node_capacity;
    reader->node_room = capacity < limits->node_count ? capacity : limits->node_count;
}
