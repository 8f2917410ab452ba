/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite on redis://, with a server of its own. */
#include "conformance/lib/redis.h"
#include "support/server.h"

static const char *begin(void)
{
    return server_url(server_start(NULL));
}

int main(int argc, char *argv[])
{
    return suite_main_redis(argc, argv, "redis", begin);
}
