/* SPDX-License-Identifier: Apache-2.0 */
/* long_way SOCKET MS: a long way to the server behind a unix socket, so many milliseconds in each
 * direction, until its input ends. Says the URL of its beginning. For tests of the command. */
#include "support/proxy.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: long_way SOCKET MS\n", stderr);
        return 64;
    }
    struct proxy *proxy = proxy_start_unix(argv[1]);
    const int64_t delay_ms = strtoll(argv[2], NULL, 10);
    proxy_set_delay(proxy, PROXY_TO_SERVER, delay_ms, 0);
    proxy_set_delay(proxy, PROXY_TO_CLIENT, delay_ms, 0);
    puts(proxy_url(proxy));
    fflush(stdout);
    while (getchar() != EOF) {
    }
    proxy_stop(proxy);
    return 0;
}
