/* SPDX-License-Identifier: Apache-2.0 */
/* Semaphores and latches on redis://, with a server of its own. */
#include "support/server.h"
#include "synchronizers/lib/cases.h"

static const char *begin(void)
{
    return server_url(server_start(NULL));
}

int main(void)
{
    return cases_main(begin);
}
