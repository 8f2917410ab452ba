/* SPDX-License-Identifier: Apache-2.0 */
/* How slow this build is: bounds of real time are multiplied by PACE. And what else sanitizers do
 * to a process. */
#ifndef PAWL_FAULT_LIB_PACE_H
#define PAWL_FAULT_LIB_PACE_H

#include <pthread.h>

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#ifndef UNDER_ASAN
#define UNDER_ASAN 0
#endif

#define PACE (UNDER_TSAN || UNDER_ASAN ? 4 : 1)

/* The thread sanitizer has a thread of its own from the first that is started on. Call this before
 * threads are counted. */
static inline void *pace_nothing(void *arg)
{
    return arg;
}

static inline void pace_first_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, pace_nothing, NULL) == 0) {
        pthread_join(thread, NULL);
    }
}

/* On a busy machine. What is promised is 50 ms; the lateness is printed. */
#define SLACK_MS (400 * PACE)

#endif
