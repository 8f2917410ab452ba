/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite on memory:NAME, where the processes are clients of this one. */
#include "conformance/lib/suite.h"

static const char *begin(void)
{
    return "memory:conformance";
}

int main(int argc, char *argv[])
{
    static const struct suite_engine engine = {
        .name = "memory",
        .begin = begin,
        .has = {[FLAG_EXPIRES] = true, [FLAG_PASS] = true, [FLAG_PUSH] = true},
    };
    return suite_main(argc, argv, &engine);
}
