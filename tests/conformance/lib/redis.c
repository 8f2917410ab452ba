/* SPDX-License-Identifier: Apache-2.0 */
/* The row of Redis; see redis.h. */
#include "conformance/lib/redis.h"

int suite_main_redis(int argc, char *argv[], const char *name, const char *(*begin)(void))
{
    const struct suite_engine engine = {
        .name = name,
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
