/* SPDX-License-Identifier: Apache-2.0 */
/* stub for the first build */
#include "compound/quorum.h"
#include <stdio.h>

bool pawl__guard_admits(struct pawl__node *node, int64_t now_us, int64_t *left_us_out)
{
    (void)node;
    (void)now_us;
    *left_us_out = 0;
    return true;
}
void pawl__guard_describe(const struct pawl__node *node, char *out, size_t size)
{
    (void)node;
    snprintf(out, size, "barred");
}
pawl_status pawl__guard_review(struct pawl__quorum *quorum)
{
    (void)quorum;
    return PAWL_OK;
}
void pawl__guard_stop(struct pawl__quorum *quorum)
{
    (void)quorum;
}
