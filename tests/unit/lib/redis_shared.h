/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of read/write locks in Redis have in common: the lock "lock" of one client, what
 * stands in the server under its name, and who hears the messages. */
#ifndef PAWL_UNIT_LIB_REDIS_SHARED_H
#define PAWL_UNIT_LIB_REDIS_SHARED_H

#include "redis_fixture.h"

#define CHANNEL "redisson_rwlock:{lock}"

extern struct pawl__place *place;

int shared_begin(void **state); /* of a case */
int shared_end(void **state);

#define SHARED_CASE(test) cmocka_unit_test_setup_teardown(test, shared_begin, shared_end)

/* ===== What stands in the server ===== */

/* Both are good until the next call. */
const char *owner(uint64_t id); /* a tenure's owner string */
const char *hold(uint64_t id);  /* the key of its hold for reading */

void assert_ttl(const char *key, int64_t ttl_ms); /* about so long, and no longer */
void assert_field(const char *field, const char *value);
void assert_mode(const char *mode, int64_t field_count);
void assert_reads(uint64_t id, int64_t lease_ms); /* the tenure has its field and its key */
void assert_free(void);                           /* nothing is left but the token counter */

/* ===== Operations, which must be answered ===== */

struct pawl__op operate(enum pawl__op_kind kind, pawl_kind as, uint64_t id, int64_t lease_ms);
enum pawl__answer reads(uint64_t id, int64_t lease_ms);
enum pawl__answer writes(uint64_t id, int64_t lease_ms);
enum pawl__answer renews(pawl_kind as, uint64_t id, int64_t lease_ms);
enum pawl__answer releases(uint64_t id);

/* ===== Messages ===== */

int listener(void); /* a connection that hears all */
void assert_message(int fd, const char *expected);
void assert_heard(int fd, const char *payload); /* on the lock's channel */
void assert_nothing_heard(int fd);

#endif
