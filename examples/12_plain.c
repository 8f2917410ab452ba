/* SPDX-License-Identifier: Apache-2.0 */
/* 12 plain: the textbook lock, shared with programs that just do SET NX PX.
 *
 * Introduces PAWL_PLAIN. It has no fencing token, and nobody is
 * told of a release: a waiter asks again and again, with pauses that grow. On Redis a script meets
 * this lock with
 *
 *     redis-cli SET example-plain "$(uuidgen):1" NX PX 30000
 *
 * and our program with
 *
 *     cc 12_plain.c -o 12_plain $(pkg-config --cflags --libs pawl)
 *     ./12_plain
 *     PAWL_URL=redis://127.0.0.1 ./12_plain
 */
#include <inttypes.h>
#include <pawl.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    const char *named = getenv("PAWL_URL");
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    options.kind = PAWL_PLAIN;
    pawl_status status = pawl_client_open(named != NULL ? named : "memory:example", NULL, &client);
    if (status == PAWL_OK) {
        status = pawl_lock_open(client, "example-plain", &options, &lock);
    }
    if (status == PAWL_OK) {
        status = pawl_lock_acquire(lock, 5000);
    }
    if (status == PAWL_OK) {
        printf("held, with token %" PRIu64 " (a plain lock has none)\n", pawl_lock_token(lock));
        status = pawl_lock_release(lock);
    }
    if (status != PAWL_OK) {
        fprintf(stderr, "%s\n", pawl_last_error());
    }
    pawl_lock_close(lock);
    pawl_client_close(client);
    return status == PAWL_OK ? 0 : 1;
}
