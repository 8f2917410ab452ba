/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite on file:///dir, in a fresh directory. The kernel ends what a dead process
 * held, and nothing but the holder itself ends a lease. */
#include "conformance/lib/suite.h"
#include "support/resources.h"
#include "support/text.h"

static const char *begin(void)
{
    struct text url = {0};
    text_addf(&url, "file://%s", tempdir_make());
    static char *kept; /* until the program ends */
    kept = text_take(&url);
    return kept;
}

int main(int argc, char *argv[])
{
    static const struct suite_engine engine = {
        .name = "file",
        .begin = begin,
        .sessions = true,
        .has = {[FLAG_PROCESSES] = true, [FLAG_PASS] = true, [FLAG_PUSH] = true},
    };
    return suite_main(argc, argv, &engine);
}
