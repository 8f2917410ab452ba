/* SPDX-License-Identifier: Apache-2.0 */
/* A bar on the terminal (stderr) that shows how far a load has come; nothing if there is no
 * terminal. It is gone when the load is over. */
#ifndef FLASHSALE_LOAD_PROGRESS_H
#define FLASHSALE_LOAD_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct load_run;

struct progress {
    bool is_shown; /* something stands on the terminal */
    bool wanted;
    int64_t drawn_us;
};

void progress_init(struct progress *progress);
void progress_draw(struct progress *progress, struct load_run *run);
void progress_clear(struct progress *progress);

#endif
