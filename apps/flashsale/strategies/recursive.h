/* SPDX-License-Identifier: Apache-2.0 */
/* The child process of the strategy setnx-recursive, `flashsale recurse`. */
#ifndef FLASHSALE_STRATEGIES_RECURSIVE_H
#define FLASHSALE_STRATEGIES_RECURSIVE_H

/* What --stack may say: less would not carry a single try. */
#define RECURSE_STACK_MIN 65536
#define RECURSE_STACK_MAX 1073741824

int recurse_main(int argc, char **argv);

#endif
