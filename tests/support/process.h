/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes for tests: a function run in a fork or in a fresh copy of the test program, or
 * another program, with pipes both ways, every wait bounded, and nobody left behind.
 *
 * A child dies with the thread that started it, so start children from the main thread. In a
 * forked child a failed cmocka assertion aborts the child instead of running the rest of the tests
 * a second time; the parent sees that as a child that did not exit with 0. A forked child may use
 * the address of a server or a proxy and server_command(), not the proxy's or the scripted server's
 * functions: their threads exist in the parent only.
 *
 * A child that starts threads (any client of the library may) while its parent has some should be
 * made by child_start(): the thread sanitizer does not support that after a mere fork. */
#ifndef PAWL_SUPPORT_PROCESS_H
#define PAWL_SUPPORT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct child;

/* The child's ends of the pipes: what it writes to `out` its parent reads, and the reverse. */
struct child_pipes {
    int in;
    int out;
};

/* Run `body` in a forked child; what it returns is the child's exit status. */
struct child *child_fork(int (*body)(const struct child_pipes *pipes, void *arg), void *arg);

/* Run a function of this program in a fresh process: the program is executed again, and its main()
 * hands over to the function before it does anything else:
 *     int main(int argc, char *argv[])
 *     {
 *         static const struct child_role roles[] = {{"holder", hold_the_lock}};
 *         child_dispatch(argc, argv, roles, 1);
 *         ... the tests ...
 * child_start("holder", "name") runs hold_the_lock(pipes, "name"); `arg` may be NULL. */
struct child_role {
    const char *name;
    int (*body)(const struct child_pipes *pipes, const char *arg);
};

struct child *child_start(const char *role, const char *arg);
void child_dispatch(int argc, char *const argv[], const struct child_role roles[], size_t count);

/* Run a program (looked up in PATH), its standard input and output being the pipes. */
struct child *child_spawn(const char *const argv[]);

pid_t child_pid(const struct child *child);

/* Send a line to the child; false if it no longer reads. */
bool child_write(struct child *child, const char *text);
void child_close_input(struct child *child);

/* The next line the child wrote, without its end, to be freed; NULL when the child's output or the
 * time ended first. */
char *child_read_line(struct child *child, int64_t timeout_ms);

/* Read exactly so many bytes; false when the output or the time ended first. */
bool child_read(struct child *child, void *data, size_t size, int64_t timeout_ms);

/* Wait for the end: the exit status, 128 + signal for a child that was killed, -1 when it still
 * runs after the time. May be called again. */
int child_wait(struct child *child, int64_t timeout_ms);

bool child_is_running(struct child *child);
void child_signal(struct child *child, int signal_number);

/* SIGSTOP, and wait until it really stands still; SIGCONT. */
void child_stop(struct child *child);
void child_continue(struct child *child);

/* Kill it if it still runs, reap it, close the pipes. Also done by the clean-up. */
void child_free(struct child *child);

/* Run `body` in a child that has become the user nobody, and return its exit status as child_wait
 * does. Skips the running test when the caller is not root. */
int run_as_nobody(int (*body)(void *arg), void *arg, int64_t timeout_ms);

/* The state letter of a process as in /proc (R, S, T stopped, Z ended but not reaped), '-' if there
 * is none; and whether it is still there and has not ended. */
char process_state(pid_t pid);
bool process_is_alive(pid_t pid);

/* The pieces that server.c needs as well.
 * find_program: full path of a program in PATH, to be freed, or NULL.
 * die_with_parent: for the child between fork and exec; ends it at once if the parent has gone.
 * reap: wait for a child for a bounded time; false if it still runs, else the raw status. */
char *find_program(const char *name);
void die_with_parent(pid_t parent);
bool reap(pid_t pid, int *status_out, int64_t timeout_ms);

/* Wait until a process of ours is stopped by SIGSTOP; false if that does not happen in 5 s. */
bool wait_stopped(pid_t pid);

#endif
