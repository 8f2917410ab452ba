/* SPDX-License-Identifier: Apache-2.0 */
/* What the wire tests have in common: a scripted server that grants and releases everything, so
 * that a test says only which reply is to be strange, and a look at what the client said.
 *
 * The usual answers come from handlers, by the SHA-1 of the script that is called, whether it is
 * called by its digest or by its text. A test replaces single replies by playing a script. */
#ifndef PAWL_WIRE_LIB_TALK_H
#define PAWL_WIRE_LIB_TALK_H

#include "engine/redis/lua_scripts.h"
#include "pawl.h"
#include "support/fail.h"
#include "support/proxy.h"
#include "support/resources.h"
#include "support/scripted.h"
#include "support/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LEASE_MS 30000
#define TIMEOUT_MS 400
#define SLACK_MS 1600 /* for a busy machine, and a sanitizer */
#define TOKEN 1700000000000001
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* The server of the running test; stopped by the clean-up. */
extern struct scripted *scripted;

/* Start it, with all usual answers. A setup and a teardown for cmocka. */
int talk_begin(void **state);
int talk_end(void **state); /* what the client has open is closed first */

/* Open a client, and a lock named "x" whose owner is the handle. Closed by talk_end() if the test
 * did not. `query` begins with '?', or is NULL. */
pawl_client *talk_client(const char *query);
pawl_lock *talk_lock(pawl_client *client);
pawl_lock *talk_lock_with(pawl_client *client, int64_t lease_ms, bool renew, bool reentry);
pawl_status talk_open(const char *query); /* only the status; the client is closed again */

/* The next call of this script is answered with these bytes (escaped as in SEND), once; several
 * steps may follow, as in scripted_play(), where "reply" stands. */
void talk_answer(const struct pawl__script *script, const char *reply);
void talk_then(const struct pawl__script *script, const char *steps);

/* How often a script was called so far: by digest, and by text. */
size_t talk_calls(const struct pawl__script *script);
size_t talk_texts(const struct pawl__script *script);

/* The commands of one connection, without arguments but the first word of some: "HELLO INFO LOAD
 * RIGHTS ACQUIRE". SCRIPT LOADs in a row are one LOAD. To be freed. */
char *talk_order(size_t connection);

/* The owner string in the nth (from 0) call of acquire, by digest or text; to be freed. */
char *talk_owner(size_t nth);

void assert_status_at(
    pawl_status got, pawl_status wanted, const char *call, const char *file, int line);

#define ASSERT_STATUS(wanted, call) assert_status_at(call, wanted, #call, __FILE__, __LINE__)
#define ASSERT_OK(call) ASSERT_STATUS(PAWL_OK, call)

/* The sentence of the last failure has this part. */
void assert_says(const char *part);

/* Acquire and release work as if nothing had happened. */
void assert_works(pawl_lock *lock);

#define CASE(name) cmocka_unit_test_setup_teardown(name, talk_begin, talk_end)

#endif
