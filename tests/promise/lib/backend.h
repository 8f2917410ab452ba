/* SPDX-License-Identifier: Apache-2.0 */
/* What the promise tests on real backends stand on: one server for the test program, emptied before
 * each case, and if a test asks for it a proxy before it or a directory beside it. */
#ifndef PAWL_PROMISE_LIB_BACKEND_H
#define PAWL_PROMISE_LIB_BACKEND_H

#include "promise/common.h"

extern struct server *server;
extern struct proxy *proxy;
extern char file_url[URL_SIZE];

int backend_start(void **state); /* of the group */

int backend_begin(void **state);
int backend_begin_proxy(void **state); /* a new proxy for each case */
int backend_begin_file(void **state);  /* a new directory for each case */

#define CASE(begin, test) cmocka_unit_test_setup_teardown(test, begin, cleanup_teardown)

/* Are so many callers of this lock's client in line for it, besides the one that asks or holds?
 * Nothing public tells. */
bool stand_in_line(pawl_client *client, pawl_lock *lock, size_t count);

#endif
