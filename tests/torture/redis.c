/* SPDX-License-Identifier: Apache-2.0 */
/* Torture of locks in Redis: four processes with four threads each, half of them through fault
 * proxies, for half a minute in three rounds. The first is about six names of a private server, one
 * for each kind of lock and one more for hand-offs, now and then several at once; the second about
 * semaphores, leased permits and latches; the third about locks that three servers keep together.
 * lib/redis_faults.c has what is done to them, lib/oracles.h what must be true all the same. With
 * arguments it is a campaign: see scripts/torture. */
#include "torture/lib/torture.h"

int main(int argc, char *argv[])
{
    return torture_main(argc, argv, TORTURE_REDIS);
}
