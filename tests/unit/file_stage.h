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

#endif
