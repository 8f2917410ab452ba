/* SPDX-License-Identifier: Apache-2.0 */
/* Cores; place.h describes it. The server has the first core that we may use, a side that is apart
 * the last one. */
#include "lib/place.h"

#include "lib/die.h"

#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

/* What this process was allowed at first; sides ask before they change anything. */
static cpu_set_t allowed;
static bool asked;

static void ask(void)
{
    if (!asked && sched_getaffinity(getpid(), sizeof allowed, &allowed) != 0) {
        die("sched_getaffinity failed");
    }
    asked = true;
}

static void pin(pid_t pid, bool last)
{
    cpu_set_t one;
    int chosen = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET((size_t)cpu, &allowed) && (last || chosen < 0)) {
            chosen = cpu;
        }
    }
    CPU_ZERO(&one);
    CPU_SET((size_t)chosen, &one);
    if (sched_setaffinity(pid, sizeof one, &one) != 0) {
        die("sched_setaffinity failed");
    }
}

void place_server(const struct server *server, enum placement placement)
{
    ask();
    if (placement == PLACEMENT_FREE) {
        sched_setaffinity(server->pid, sizeof allowed, &allowed);
    } else {
        pin(server->pid, false);
    }
}

void place_self(enum placement placement)
{
    ask();
    if (placement != PLACEMENT_FREE) {
        pin(getpid(), placement == PLACEMENT_APART);
    }
}
