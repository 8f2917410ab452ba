/* SPDX-License-Identifier: Apache-2.0 */
/* Failing, skipping and tidying up for the test support.
 *
 * The registry is a fixed array used as a stack under one mutex. The mutex is not held while an
 * object is ended, since ending it may unregister others. A fork empties the child's view: entries
 * carry the process id that added them, and the mutex is made anew in the child, because another
 * thread of the parent may have held it at the fork. */
#include "support/fail.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#define CLEANUP_COUNT_MAX 4096

struct entry {
    void (*end)(void *object);
    void *object;
    pid_t owner;
};

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry entries[CLEANUP_COUNT_MAX]; /* guarded by registry_mutex */
static size_t entry_count;                      /* guarded by registry_mutex */
static size_t test_mark;                        /* where the running test began */

void support_fail(const char *format, ...)
{
    char message[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    print_error("support: %s\n", message);
    _fail("tests/support", 0);
    abort();
}

void support_skip_program(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("SKIPPED: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(77);
}

static void end_all(void)
{
    cleanup_to(0);
}

static void renew_mutex(void)
{
    pthread_mutex_init(&registry_mutex, NULL);
}

static void prepare_once(void)
{
    atexit(end_all);
    pthread_atfork(NULL, NULL, renew_mutex);
}

void cleanup_add(void (*end)(void *object), void *object)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare_once);
    pthread_mutex_lock(&registry_mutex);
    if (entry_count == CLEANUP_COUNT_MAX) {
        fputs("test support: too many things to clean up\n", stderr);
        abort();
    }
    entries[entry_count++] = (struct entry){.end = end, .object = object, .owner = getpid()};
    pthread_mutex_unlock(&registry_mutex);
}

/* An unregistered entry stays in its place without an object, so that marks keep their meaning;
 * empty places at the top are given back. */
void cleanup_drop(void *object)
{
    pthread_mutex_lock(&registry_mutex);
    for (size_t i = entry_count; i > 0; i--) {
        if (entries[i - 1].object == object) {
            entries[i - 1].object = NULL;
            break;
        }
    }
    while (entry_count > 0 && entries[entry_count - 1].object == NULL) {
        entry_count--;
    }
    pthread_mutex_unlock(&registry_mutex);
}

size_t cleanup_mark(void)
{
    pthread_mutex_lock(&registry_mutex);
    size_t mark = entry_count;
    pthread_mutex_unlock(&registry_mutex);
    return mark;
}

/* Take the newest entry above the mark; false when there is none. */
static bool take_newest(size_t mark, struct entry *entry_out)
{
    pthread_mutex_lock(&registry_mutex);
    bool found = entry_count > mark;
    if (found) {
        *entry_out = entries[--entry_count];
    }
    pthread_mutex_unlock(&registry_mutex);
    return found;
}

void cleanup_to(size_t mark)
{
    struct entry entry;
    while (take_newest(mark, &entry)) {
        if (entry.object != NULL && entry.owner == getpid()) {
            entry.end(entry.object);
        }
    }
}

int cleanup_setup(void **state)
{
    (void)state;
    test_mark = cleanup_mark();
    return 0;
}

int cleanup_teardown(void **state)
{
    (void)state;
    cleanup_to(test_mark);
    return 0;
}
