/* SPDX-License-Identifier: Apache-2.0 */
/* A mark for functions that the common case never enters. Between two exchanges the server and the
 * kernel use the processor's caches, so what a lock costs here is counted in cache lines of code
 * that have to be fetched again, much more than in instructions; rare code that is inlined into
 * common code doubles them. The compiler puts marked functions apart, and the branches that lead to
 * them behind. */
#ifndef PAWL_BASE_RARE_H
#define PAWL_BASE_RARE_H

#define PAWL__RARE __attribute__((cold, noinline))

#endif
