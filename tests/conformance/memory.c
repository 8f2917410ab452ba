/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite on memory:NAME, where the processes are clients of this one.
 *
 * Another engine is used first: what the library prepares for fork() is then prepared in the other
 * order than in the programs of the other engines. */
#include "conformance/lib/suite.h"
#include "pawl.h"
#include "support/fail.h"
#include "support/resources.h"
#include "support/text.h"

static const char *begin(void)
{
    struct text url = {0};
    pawl_client *client = NULL;
    text_addf(&url, "file://%s", tempdir_make());
    if (pawl_client_open(url.data, NULL, &client) != PAWL_OK) {
        support_fail("%s", pawl_last_error());
    }
    pawl_client_close(client);
    text_free(&url);
    return "memory:conformance";
}

int main(int argc, char *argv[])
{
    static const struct suite_engine engine = {
        .name = "memory",
        .begin = begin,
        .has = {[FLAG_EXPIRES] = true,
            [FLAG_PASS] = true,
            [FLAG_PUSH] = true,
            [FLAG_FAIR] = true,
            [FLAG_READ_WRITE] = true,
            [FLAG_SPIN] = true,
            [FLAG_PLAIN] = true,
            [FLAG_HANDOFF] = true,
            [FLAG_SEMAPHORE] = true,
            [FLAG_LATCH] = true},
    };
    return suite_main(argc, argv, &engine);
}
