/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads that feed the model of `pawl top`: one lists, one listens. The display never waits
 * for a server: it shows what the model knows, and since when there is nothing new. */
#ifndef PAWL_TOP_OBSERVE_H
#define PAWL_TOP_OBSERVE_H

#include "top/model.h"

#include <pthread.h>
#include <stdatomic.h>

struct top_observer {
    pawl_client *client;
    struct top_model *model;
    const char *pattern; /* NULL: all */
    int64_t every_ms;
    pthread_t threads[2];
    unsigned thread_count;
    atomic_bool stop;
    atomic_int refusal;         /* the pawl_status of a listing that no repetition will mend */
    char refusal_sentence[256]; /* written before it */
};

/* Begin; false if this machine has no thread left. */
bool top_observer_begin(struct top_observer *observer);

/* End both threads; false if one of them still waits for the server after half a second: then
 * nothing that it uses may be freed. */
bool top_observer_end(struct top_observer *observer);

#endif
