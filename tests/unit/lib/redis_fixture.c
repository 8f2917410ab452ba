/* SPDX-License-Identifier: Apache-2.0 */
/* The server and its client; see redis_fixture.h. */
#include "redis_fixture.h"

struct server *server;
struct side side;

int fixture_start(void **state)
{
    (void)state;
    server = server_start(NULL);
    return 0;
}

int fixture_begin(void **state)
{
    cleanup_setup(state);
    free(server_command(server, "FLUSHALL"));
    side_open(&side, server_url(server));
    return 0;
}

int fixture_end(void **state)
{
    side_close(&side);
    return cleanup_teardown(state);
}
