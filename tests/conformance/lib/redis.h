/* SPDX-License-Identifier: Apache-2.0 */
/* What a Redis server has, however it is reached. */
#ifndef PAWL_CONFORMANCE_LIB_REDIS_H
#define PAWL_CONFORMANCE_LIB_REDIS_H

#include "conformance/lib/suite.h"

/* suite_main() for one way to reach it. */
int suite_main_redis(int argc, char *argv[], const char *name, const char *(*begin)(void));

#endif
