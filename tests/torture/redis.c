/* SPDX-License-Identifier: Apache-2.0 */
/* Torture of locks in Redis: four processes with four threads each on six names of a private
 * server, one for each kind of lock and one more for hand-offs, half of them through fault proxies,
 * for half a minute; lib/redis_faults.c has what is done to them, lib/oracles.h what must be true
 * all the same. With arguments it is a campaign: see scripts/torture. */
#include "torture/lib/torture.h"

int main(int argc, char *argv[])
{
    return torture_main(argc, argv, TORTURE_REDIS);
}
