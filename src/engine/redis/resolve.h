/* SPDX-License-Identifier: Apache-2.0 */
/* A host's addresses, without ever blocking the caller.
 *
 * Numbers are addresses at once. Names are looked up by getaddrinfo() on a thread of their own,
 * because it may take as long as it likes and cannot be called back. The thread and the asker share
 * one record, which the last of the two frees: an asker that has lost patience just lets go. */
#ifndef PAWL_ENGINE_REDIS_RESOLVE_H
#define PAWL_ENGINE_REDIS_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

enum { PAWL__ADDRESSES_MAX = 16 };

struct pawl__addresses {
    size_t count;
    struct pawl__address {
        struct sockaddr_storage storage;
        socklen_t size;
    } items[PAWL__ADDRESSES_MAX];
};

struct pawl__resolve;

/* An address in numbers; false: it is a name. */
bool pawl__resolve_numeric(const char *host, const char *port, struct pawl__addresses *addresses);

/* Begin to look a name up. NULL: no memory, no descriptor or no thread, see errno. */
struct pawl__resolve *pawl__resolve_start(const char *host, const char *port);

/* A descriptor that is readable once the answer is there. */
int pawl__resolve_fd(const struct pawl__resolve *resolve);

/* False: not there yet. Otherwise *failure_out is NULL or says why there are no addresses. */
bool pawl__resolve_finished(
    struct pawl__resolve *resolve, struct pawl__addresses *addresses, const char **failure_out);

/* Let go of it, finished or not; NULL is fine. */
void pawl__resolve_drop(struct pawl__resolve *resolve);

#endif
