/* SPDX-License-Identifier: Apache-2.0 */
/* 11 read/write: many may read, one may write, and a writer may go on reading.
 *
 * Introduces PAWL_READ and PAWL_WRITE, what each keeps out, the step from writing to reading that
 * leaves no gap, and PAWL_DEADLOCK for the step that cannot be: from reading to writing. Two
 * clients stand for two processes.
 *
 *     cc 11_read_write.c -o 11_read_write $(pkg-config --cflags --libs pawl)
 *     ./11_read_write
 *     PAWL_URL=redis://127.0.0.1 ./11_read_write
 */
#include <pawl.h>
#include <stdio.h>
#include <stdlib.h>

struct process {
    pawl_client *client;
    pawl_lock *reading;
    pawl_lock *writing;
};

static pawl_status open_process(struct process *process)
{
    const char *named = getenv("PAWL_URL");
    pawl_lock_options options = PAWL_LOCK_OPTIONS_INIT;
    pawl_status status =
        pawl_client_open(named != NULL ? named : "memory:example", NULL, &process->client);
    options.kind = PAWL_READ;
    if (status == PAWL_OK) {
        status = pawl_lock_open(process->client, "example-catalogue", &options, &process->reading);
    }
    options.kind = PAWL_WRITE;
    if (status == PAWL_OK) {
        status = pawl_lock_open(process->client, "example-catalogue", &options, &process->writing);
    }
    return status;
}

static void close_process(struct process *process)
{
    pawl_lock_close(process->reading);
    pawl_lock_close(process->writing);
    pawl_client_close(process->client);
}

static int surprises;

static void expect(const char *what, pawl_status expected, pawl_status got)
{
    printf("  %-44s %s\n", what, pawl_status_string(got));
    if (got != expected) {
        fprintf(stderr, "    that is a surprise: %s\n", pawl_last_error());
        surprises++;
    }
}

static void show(const struct process *one, const struct process *two)
{
    printf("readers do not exclude each other, but they exclude writers:\n");
    expect("one reads", PAWL_OK, pawl_lock_acquire(one->reading, PAWL_TRY));
    expect("two reads", PAWL_OK, pawl_lock_acquire(two->reading, PAWL_TRY));
    expect("two releases", PAWL_OK, pawl_lock_release(two->reading));
    expect("two wants to write", PAWL_BUSY, pawl_lock_acquire(two->writing, PAWL_TRY));
    expect("one, who reads, wants to write", PAWL_DEADLOCK, pawl_lock_acquire(one->writing, 1000));
    expect("one releases", PAWL_OK, pawl_lock_release(one->reading));

    printf("a writer is alone, and may go on reading without a gap:\n");
    expect("one writes", PAWL_OK, pawl_lock_acquire(one->writing, PAWL_TRY));
    expect("two wants to read", PAWL_BUSY, pawl_lock_acquire(two->reading, PAWL_TRY));
    expect("one reads as well", PAWL_OK, pawl_lock_acquire(one->reading, PAWL_TRY));
    expect("one stops writing", PAWL_OK, pawl_lock_release(one->writing));
    expect("two reads", PAWL_OK, pawl_lock_acquire(two->reading, PAWL_TRY));
    expect("two releases", PAWL_OK, pawl_lock_release(two->reading));
    expect("two wants to write", PAWL_BUSY, pawl_lock_acquire(two->writing, PAWL_TRY));
    expect("one releases", PAWL_OK, pawl_lock_release(one->reading));
    expect("two writes", PAWL_OK, pawl_lock_acquire(two->writing, PAWL_TRY));
    expect("two releases", PAWL_OK, pawl_lock_release(two->writing));
}

int main(void)
{
    struct process one = {0};
    struct process two = {0};
    pawl_status status = open_process(&one);
    if (status == PAWL_OK) {
        status = open_process(&two);
    }
    if (status == PAWL_OK) {
        show(&one, &two);
    } else {
        fprintf(stderr, "%s\n", pawl_last_error());
    }
    close_process(&one);
    close_process(&two);
    return status == PAWL_OK && surprises == 0 ? 0 : 1;
}
