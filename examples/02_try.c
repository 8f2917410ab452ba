/* SPDX-License-Identifier: Apache-2.0 */
/* 02 try: a job that must not run twice at the same time, and exit codes that tell why it did not.
 *
 * Introduces PAWL_TRY and a limited wait, and the difference between an answer (PAWL_BUSY) and a
 * fault (PAWL_UNAVAILABLE). job() is what a cron job would do; main() holds the lock and runs the
 * job in three other processes, so that there is something to see.
 *
 *     cc 02_try.c -o 02_try $(pkg-config --cflags --libs pawl)
 *     ./02_try
 *     PAWL_URL=redis://127.0.0.1:1 ./02_try; echo $?      nobody listens there: 69
 */
#include <pawl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

/* What went wrong, for people on stderr and for cron and systemd as an exit code. */
static int explain(pawl_status status)
{
    if (status == PAWL_OK) {
        return EX_OK;
    }
    fprintf(stderr, "  %s: %s\n", pawl_status_string(status), pawl_last_error());
    if (status == PAWL_BUSY) {
        return EX_TEMPFAIL; /* 75: an answer. Another one runs; nothing is wrong */
    }
    if (status == PAWL_UNAVAILABLE) {
        return EX_UNAVAILABLE; /* 69: no answer. We do not know whether another one runs */
    }
    return EX_SOFTWARE; /* 70: lost in the middle, wrong password, wrong URL, ... */
}

static pawl_status open_lock(pawl_client **client_out, pawl_lock **lock_out)
{
    pawl_status status = pawl_client_open(NULL, NULL, client_out);
    return status == PAWL_OK ? pawl_lock_open(*client_out, "example-try", NULL, lock_out) : status;
}

static int job(int64_t wait_ms)
{
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    pawl_status status = open_lock(&client, &lock);
    if (status == PAWL_OK) {
        status = pawl_lock_acquire(lock, wait_ms);
    }
    if (status == PAWL_OK) {
        printf("  the job runs\n");
        status = pawl_lock_release(lock);
    }
    int code = explain(status);
    pawl_lock_close(lock);
    pawl_client_close(client);
    return code;
}

/* ===== Something to see ===== */

/* The job in a process of its own. A child inherits no lock; it opens its own client. */
static pid_t start_job(int64_t wait_ms)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int code = job(wait_ms);
        fflush(NULL);
        _exit(code);
    }
    return pid;
}

static bool ends_with(pid_t pid, int expected)
{
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
        return false;
    }
    printf("  exit code %d\n", WEXITSTATUS(status));
    return WEXITSTATUS(status) == expected;
}

/* The lock is held on entry, and released on return. */
static bool show(pawl_lock *lock)
{
    printf("held by us; another process tries:\n");
    bool tried = ends_with(start_job(PAWL_TRY), EX_TEMPFAIL);
    printf("held by us; another process waits 200 ms for it:\n");
    bool waited = ends_with(start_job(200), EX_TEMPFAIL);
    printf("another process waits up to 10 s for it, and we release it:\n");
    pid_t last = start_job(10000);
    bool released = explain(pawl_lock_release(lock)) == EX_OK;
    return ends_with(last, EX_OK) && tried && waited && released;
}

int main(void)
{
    pawl_client *client = NULL;
    pawl_lock *lock = NULL;
    pawl_status status = open_lock(&client, &lock);
    if (status == PAWL_OK) {
        status = pawl_lock_acquire(lock, 10000);
    }
    int code = explain(status);
    if (status == PAWL_OK && !show(lock)) {
        code = EX_SOFTWARE;
    }
    pawl_lock_close(lock);
    pawl_client_close(client);
    return code;
}
