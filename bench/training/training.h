/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the training share. main.c has the tools and the list of parts, the other files
 * the parts themselves. Whatever does not answer as it must ends the program: a recording of
 * failures is worth nothing. */
#ifndef PAWL_TRAINING_TRAINING_H
#define PAWL_TRAINING_TRAINING_H

#include <pawl.h>

enum { WAIT_MS = 20000 }; /* long enough for anything that must succeed */

/* Go on if the status is the one expected; otherwise say what happened and end. */
void must_be(pawl_status expected, pawl_status status, const char *what);
void must(pawl_status status, const char *what);

pawl_client *open_client(const char *url);
pawl_lock *open_lock(pawl_client *client, const char *name, const pawl_lock_options *options);
/* "<what>-<number>" is the name. */
pawl_lock *open_numbered(
    pawl_client *client, const char *what, int number, const pawl_lock_options *options);
void close_client(pawl_client *client);
void close_lock(pawl_lock *lock);

/* Acquire and release so many times. */
void use_lock(pawl_lock *lock, int times);

/* Each of these threads runs the function with the argument and its own number from 0; all have
 * ended when this returns. */
enum { THREADS_MAX = 16 };
void run_threads(int count, void (*function)(void *arg, int number), void *arg);

void pause_ms(long ms);

/* The parts, for a backend by its URL. */
void train_one_thread(const char *url);
void train_threads(const char *url);
void train_hot_lock(const char *url);
void train_busy(const char *url);
void train_reentry(const char *url);
void train_renewal(const char *url);
void train_async(const char *url);
void train_kinds(const char *url);
void train_counts(const char *url);
void train_several(const char *url);
void train_operators(const char *url);

#endif
