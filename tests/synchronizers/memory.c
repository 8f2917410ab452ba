/* SPDX-License-Identifier: Apache-2.0 */
/* Semaphores and latches on memory:NAME. */
#include "synchronizers/lib/cases.h"

static const char *begin(void)
{
    return "memory:synchronizers";
}

int main(void)
{
    return cases_main(begin);
}
