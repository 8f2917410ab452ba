/* SPDX-License-Identifier: Apache-2.0 */
/* hold NAME [LEASE_MS [KIND]]: acquires the lock through PAWL_URL and keeps it until SIGTERM, then
 * releases it; KIND is the number of a pawl_kind. For tests of the command, which need somebody to
 * look at. Says "waiting" when it has to wait and "held TOKEN" when it holds; "lost" and status 1
 * if the lock is lost. */
#include "pawl.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(void)
{
    fprintf(stderr, "hold: %s\n", pawl_last_error());
    return 1;
}

static void say(const char *word)
{
    puts(word);
    fflush(stdout);
}

/* PAWL_OK, or why not. While it waits, the default action of SIGTERM ends us. */
static pawl_status acquire(pawl_lock *lock)
{
    pawl_status status = pawl_lock_acquire(lock, PAWL_TRY);
    if (status == PAWL_BUSY) {
        say("waiting");
        status = pawl_lock_acquire(lock, PAWL_FOREVER);
    }
    return status;
}

static int keep(pawl_lock *lock)
{
    sigset_t end;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    if (acquire(lock) != PAWL_OK) {
        return fail();
    }
    sigprocmask(SIG_BLOCK, &end, NULL);
    printf("held %" PRIu64 "\n", pawl_lock_token(lock));
    fflush(stdout);
    int number = 0;
    sigwait(&end, &number);
    if (pawl_lock_release(lock) == PAWL_LOST) {
        say("lost");
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs("usage: hold NAME [LEASE_MS [KIND]]\n", stderr);
        return 64;
    }
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    if (argc > 2) {
        options.lease_ms = atoll(argv[2]);
    }
    if (argc > 3) {
        options.kind = (pawl_kind)atoi(argv[3]);
    }
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    if (pawl_client_open(NULL, NULL, &client) != PAWL_OK ||
        pawl_lock_open(client, argv[1], &options, &lock) != PAWL_OK) {
        return fail();
    }
    const int result = keep(lock);
    pawl_lock_close(lock);
    pawl_client_close(client);
    return result;
}
