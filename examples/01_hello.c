/* SPDX-License-Identifier: Apache-2.0 */
/* 01 hello: take a lock and give it back.
 *
 * Introduces pawl_client_open(), pawl_lock_open(), pawl_lock_acquire(), pawl_lock_release(), and
 * how to say what went wrong.
 *
 *     cc 01_hello.c -o 01_hello $(pkg-config --cflags --libs pawl)
 *     ./01_hello                                  locks among the processes of this machine
 *     PAWL_URL=redis://127.0.0.1 ./01_hello       locks among all hosts that use this server
 */
#include <inttypes.h>
#include <pawl.h>
#include <stdio.h>

/* What only one process at a time may do. */
static void work(const pawl_lock *lock)
{
    printf("the lock is mine; my token is %" PRIu64 "\n", pawl_lock_token(lock));
}

static pawl_status take_work_give_back(pawl_client *client)
{
    pawl_lock *lock = NULL;
    pawl_status status = pawl_lock_open(client, "example-hello", NULL, &lock);
    if (status != PAWL_OK) {
        return status;
    }
    status = pawl_lock_acquire(lock, 10000); /* wait for it, but not longer than 10 s */
    if (status == PAWL_OK) {
        work(lock);
        status = pawl_lock_release(lock); /* PAWL_LOST would mean: others may have been inside */
    }
    pawl_lock_close(lock);
    return status;
}

int main(void)
{
    pawl_client *client = NULL;
    pawl_status status = pawl_client_open(NULL, NULL, &client); /* NULL: as PAWL_URL says */
    if (status == PAWL_OK) {
        status = take_work_give_back(client);
    }
    if (status != PAWL_OK) {
        fprintf(stderr, "01_hello: %s: %s\n", pawl_status_string(status), pawl_last_error());
    }
    pawl_client_close(client);
    return status == PAWL_OK ? 0 : 1;
}
