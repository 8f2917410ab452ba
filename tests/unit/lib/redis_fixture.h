/* SPDX-License-Identifier: Apache-2.0 */
/* One real server for a test program, emptied before each case, and one client of it. */
#ifndef PAWL_UNIT_LIB_REDIS_FIXTURE_H
#define PAWL_UNIT_LIB_REDIS_FIXTURE_H

#include "redis_side.h"

extern struct server *server;
extern struct side side;

int fixture_start(void **state); /* of the group */
int fixture_begin(void **state);
int fixture_end(void **state);

#define CASE(test) cmocka_unit_test_setup_teardown(test, fixture_begin, fixture_end)

#endif
