/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite on redis+unix://, with a server of its own. */
#include "conformance/lib/suite.h"
#include "support/server.h"

static const char *begin(void)
{
    return server_unix_url(server_start(NULL));
}

int main(int argc, char *argv[])
{
    static const struct suite_engine engine = {
        .name = "redis+unix",
        .begin = begin,
        .joins = true,
        .has =
            {
                [FLAG_PROCESSES] = true,
                [FLAG_EXPIRES] = true,
                [FLAG_PASS] = true,
                [FLAG_PUSH] = true,
                [FLAG_FAIR] = true,
                [FLAG_READ_WRITE] = true,
                [FLAG_SPIN] = true,
                [FLAG_PLAIN] = true,
                [FLAG_HANDOFF] = true,
                [FLAG_SEMAPHORE] = true,
                [FLAG_LATCH] = true,
            },
    };
    return suite_main(argc, argv, &engine);
}
