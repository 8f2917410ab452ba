/* SPDX-License-Identifier: Apache-2.0 */
/* 08 latch: go on when all parts are done, wherever they are done.
 *
 * Introduces setting, counting down, and waiting with a limit. Each part of a job counts the latch
 * down when it is done; whoever waits for the whole job goes on at zero. Files keep no latches, so
 * without PAWL_URL this program keeps it in its own memory, and its threads stand for processes.
 *
 *     cc 08_latch.c -o 08_latch $(pkg-config --cflags --libs pawl) -pthread
 *     ./08_latch
 *     PAWL_URL=redis://127.0.0.1 ./08_latch
 */
#include <pawl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { PARTS = 4 };

static pawl_latch *latch;

static void *import_part(void *arg)
{
    (void)arg;
    /* ... an hour of work on some host ... */
    if (pawl_latch_count_down(latch) != PAWL_OK) {
        fprintf(stderr, "part: %s\n", pawl_last_error());
    }
    return NULL;
}

static pawl_status import_all(void)
{
    pthread_t threads[PARTS];
    int64_t left = 0;
    for (int i = 0; i < PARTS; i++) {
        if (pthread_create(&threads[i], NULL, import_part, NULL) != 0) {
            exit(1);
        }
    }
    pawl_status status = pawl_latch_wait(latch, 10000); /* PAWL_BUSY: a part is missing */
    if (status == PAWL_OK) {
        status = pawl_latch_count(latch, &left);
    }
    for (int i = 0; i < PARTS; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%lld parts are missing\n", (long long)left);
    return status;
}

int main(void)
{
    pawl_client *client = NULL;
    bool first = false;
    const char *url = getenv("PAWL_URL") != NULL ? NULL : "memory:example";
    pawl_status status = pawl_client_open(url, NULL, &client);
    if (status == PAWL_OK) {
        status = pawl_latch_open(client, "import-2026-11-15", &latch); /* a name for each run */
    }
    if (status == PAWL_OK) {
        status = pawl_latch_set(latch, PARTS, &first);
    }
    if (status == PAWL_OK) {
        printf("%s\n", first ? "set by us" : "set before");
        status = import_all();
    }
    if (status != PAWL_OK) {
        fprintf(stderr, "%s: %s\n", pawl_status_string(status), pawl_last_error());
    }
    pawl_latch_close(latch);
    pawl_client_close(client);
    return status == PAWL_OK ? 0 : 1;
}
