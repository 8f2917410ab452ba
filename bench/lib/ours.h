/* SPDX-License-Identifier: Apache-2.0 */
/* The library as its users use it. Nothing is expected to fail here: what does ends the side with
 * the library's own sentence. */
#ifndef PAWL_LIB_OURS_H
#define PAWL_LIB_OURS_H

#include <pawl.h>

pawl_client *ours_open(const char *url);
pawl_lock *ours_lock(pawl_client *client, const char *name, const pawl_lock_options *options);
void ours_acquire(pawl_lock *lock);
void ours_release(pawl_lock *lock);

#endif
