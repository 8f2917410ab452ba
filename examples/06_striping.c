/* SPDX-License-Identifier: Apache-2.0 */
/* 06 striping: a million users, and 64 locks.
 *
 * Introduces pawl_stripe_name(): the lock of a user is one of a fixed number of names. So handles
 * can be opened once and kept, and a server has never more than so many keys. Two users that get
 * the same name wait for each other now and then, and that is all it costs.
 *
 *     cc 06_striping.c -o 06_striping $(pkg-config --cflags --libs pawl)
 *     ./06_striping
 */
#include <pawl.h>
#include <stdio.h>
#include <string.h>

#define STRIPES 64 /* every process has to use the same number */

static pawl_status visit(pawl_client *client, const char *user)
{
    char name[64];
    pawl_lock *lock = NULL;
    pawl_status status =
        pawl_stripe_name("example-user", user, strlen(user), STRIPES, name, sizeof name);
    if (status == PAWL_OK) {
        status = pawl_lock_open(client, name, NULL, &lock);
    }
    if (status == PAWL_OK) {
        status = pawl_lock_acquire(lock, 10000);
    }
    if (status == PAWL_OK) {
        printf("%s is behind %s\n", user, name);
        status = pawl_lock_release(lock);
    }
    pawl_lock_close(lock);
    return status;
}

int main(void)
{
    static const char *const users[] = {"anna", "bert", "carla", "user-999999"};
    pawl_client *client = NULL;
    pawl_status status = pawl_client_open(NULL, NULL, &client);
    for (size_t i = 0; i < sizeof users / sizeof users[0] && status == PAWL_OK; i++) {
        status = visit(client, users[i]);
    }
    if (status != PAWL_OK) {
        fprintf(stderr, "%s\n", pawl_last_error());
    }
    pawl_client_close(client);
    return status == PAWL_OK ? 0 : 1;
}
