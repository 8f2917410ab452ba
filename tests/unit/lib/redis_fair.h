/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of fair locks in Redis have in common: the lock "lock", its queue as it stands in
 * the server, and waiters in it, ours and those of Redisson. */
#ifndef PAWL_UNIT_LIB_REDIS_FAIR_H
#define PAWL_UNIT_LIB_REDIS_FAIR_H

#include "redis_fixture.h"

#define QUEUE "redisson_lock_queue:{lock}"
#define TIMES "redisson_lock_timeout:{lock}"
#define CHANNEL "redisson_lock__channel:{lock}"
#define JAVA "285475da-9152-4c83-822a-67ee2f116a79:54"
#define DEAD "00000000-9152-4c83-822a-67ee2f116a79:1"

enum { WAIT_MS = 5000, JAVA_WAIT_MS = 300000, SLACK_MS = 3000, ROUNDED_MS = 5 };

struct pawl__place *fair_open(struct side *one);

/* The owner string of a tenure, good until the eighth call after it. */
const char *owner_of(const struct side *one, uint64_t id);

/* ===== What stands in the server ===== */

int64_t server_ms(void);            /* its clock */
int64_t left_ms(const char *owner); /* when this waiter counts as dead, from now */
void set_left(const char *owner, int64_t ms);
void assert_left(const char *owner, int64_t ms); /* about so much, and no more */

/* The queue, head first, and the times of the same members. */
void assert_queue(size_t count, const char *const *owners);

#define ASSERT_QUEUE(...)                                          \
    do {                                                           \
        const char *const owners_[] = {__VA_ARGS__};               \
        assert_queue(sizeof owners_ / sizeof owners_[0], owners_); \
    } while (0)

/* ===== Waiters ===== */

/* Ask, and stand in the queue if need be. */
enum pawl__answer stand(
    struct side *one, struct call *call, struct pawl__place *place, uint64_t id);

/* The same, when it has to wait. It is told not to ask in a loop: the hint. */
int64_t assert_stands(struct side *one, struct pawl__place *place, uint64_t id);

/* Somebody in the queue who does not ask. */
void put_waiter(const char *owner, int64_t in_ms);

/* ===== Who is told ===== */

int subscriber(const char *owner); /* a connection that hears what this waiter is told */
void assert_told(int fd, const char *owner);

/* Nothing came, or the answer to PING would not be the first word. */
void assert_not_told(int fd);

#endif
