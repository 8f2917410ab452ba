/* SPDX-License-Identifier: Apache-2.0 */
/* The library's calls, checked; ours.h describes it. */
#include "lib/ours.h"

#include "lib/die.h"

#include <stddef.h>

static void expect_ok(pawl_status status, const char *call)
{
    if (status != PAWL_OK) {
        die("%s: %s: %s", call, pawl_status_string(status), pawl_last_error());
    }
}

pawl_client *ours_open(const char *url)
{
    pawl_client *client = NULL;
    expect_ok(pawl_client_open(url, NULL, &client), "open");
    return client;
}

pawl_lock *ours_lock(pawl_client *client, const char *name, const pawl_lock_options *options)
{
    pawl_lock *lock = NULL;
    expect_ok(pawl_lock_open(client, name, options, &lock), "open lock");
    return lock;
}

void ours_acquire(pawl_lock *lock)
{
    expect_ok(pawl_lock_acquire(lock, PAWL_FOREVER), "acquire");
}

void ours_release(pawl_lock *lock)
{
    expect_ok(pawl_lock_release(lock), "release");
}
