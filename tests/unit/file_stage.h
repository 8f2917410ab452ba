/* SPDX-License-Identifier: Apache-2.0 */
/* The stage of tests about people who look: one side that looks, one that holds, on one directory.
 * Included once by each test program. */
#ifndef PAWL_UNIT_FILE_STAGE_H
#define PAWL_UNIT_FILE_STAGE_H

#include "file_side.h"

struct stage {
    const char *directory;
    struct side looker;
    struct side holder;
};

static int stage_setup(void **state)
{
    struct stage *stage = support_alloc(sizeof *stage);
    if (cleanup_setup(state) != 0) {
        return -1;
    }
    stage->directory = tempdir_make();
    side_open(&stage->looker, stage->directory);
    side_open(&stage->holder, stage->directory);
    *state = stage;
    return 0;
}

static int stage_teardown(void **state)
{
    struct stage *stage = *state;
    side_close(&stage->looker);
    side_close(&stage->holder);
    free(stage);
    return cleanup_teardown(state);
}

static int hold_in_child(const struct child_pipes *pipes, void *arg)
{
    char word;
    struct side side;
    side_open(&side, arg);
    struct pawl__place *place = place_open(&side, "lock");
    if (ask(&side, place, PAWL__OP_ACQUIRE, 9) != PAWL__DONE || write(pipes->out, "\n", 1) != 1) {
        return 1;
    }
    return read(pipes->in, &word, 1) == 1 ? 0 : 2;
}

/* Another process, that holds "lock" until it is told a word. */
static struct child *start_holder(struct stage *stage)
{
    char *copy = support_copy(stage->directory, strlen(stage->directory));
    struct child *child = child_fork(hold_in_child, copy);
    char *line = child_read_line(child, BOUND_MS);
    assert_non_null(line);
    free(line);
    free(copy);
    return child;
}

#endif
