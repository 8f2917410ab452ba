/* SPDX-License-Identifier: Apache-2.0 */
/* A program of somebody who installed pawl: it takes and gives back a lock at the URL it is given,
 * and says which version it was compiled with. tests/docs/install.sh builds it in every way there
 * is. */
#include <pawl.h>
#include <stdio.h>

static pawl_status take_and_give_back(pawl_client *client)
{
    pawl_lock *lock = NULL;
    pawl_status status = pawl_lock_open(client, "consumer", NULL, &lock);
    if (status == PAWL_OK) {
        status = pawl_lock_acquire(lock, 5000);
    }
    if (status == PAWL_OK) {
        status = pawl_lock_release(lock);
    }
    pawl_lock_close(lock);
    return status;
}

int main(int argc, char **argv)
{
    pawl_client *client = NULL;
    pawl_status status = pawl_client_open(argc > 1 ? argv[1] : NULL, NULL, &client);
    if (status == PAWL_OK) {
        status = take_and_give_back(client);
    }
    if (status != PAWL_OK) {
        fprintf(stderr, "%s: %s\n", pawl_status_string(status), pawl_last_error());
    }
    pawl_client_close(client);
    printf("pawl %d.%d.%d: %s\n", PAWL_VERSION_MAJOR, PAWL_VERSION_MINOR, PAWL_VERSION_PATCH,
        pawl_status_string(status));
    return status == PAWL_OK ? 0 : 1;
}
