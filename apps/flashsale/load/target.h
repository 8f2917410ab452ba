/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shop to be loaded, named by its base URL: where it is, and single requests to it, one at a time
 * on a connection of their own, for what has to be done before and after the load.
 */
#ifndef FLASHSALE_LOAD_TARGET_H
#define FLASHSALE_LOAD_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

enum { TARGET_HOST_SIZE = 256, TARGET_PREFIX_SIZE = 256, TARGET_WHY_SIZE = 400 };

struct target {
    const char *url;                 /* as it was given */
    char host[TARGET_HOST_SIZE];     /* "127.0.0.1:3786", as the header Host wants it */
    char prefix[TARGET_PREFIX_SIZE]; /* what stands before every path; usually nothing */
    struct sockaddr_storage address;
    socklen_t address_size;
    bool is_loopback;
    char *order; /* the request that orders a piece, whole */
    size_t order_length;
};

/* Take the URL apart and look its host up. If it cannot be used, false, and why in a sentence. */
bool target_parse(struct target *target, const char *url, char why[TARGET_WHY_SIZE]);

/* Write the request that is sent again and again. False: no memory. */
bool target_prepare(struct target *target, const char *item, const char *strategy);
void target_close(struct target *target);

/* One request and its answer: the status, or 0 and why. The body (JSON or NULL) is sent along; the
 * answer's is kept as far as it fits. */
int target_ask(const struct target *target, const char *method, const char *path, const char *body,
    char *answer, size_t answer_size, char why[TARGET_WHY_SIZE]);

/* Whether somebody listens there; if not, why. */
bool target_listens(const struct target *target, char why[TARGET_WHY_SIZE]);

#endif
