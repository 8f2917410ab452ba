/* SPDX-License-Identifier: Apache-2.0 */
/* What a test looks at to find leaks, and the sweep that fails one allocation after the other. */
#ifndef PAWL_SUPPORT_RESOURCES_H
#define PAWL_SUPPORT_RESOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Open descriptors, threads and resident memory of this process. A thread that has been joined is
 * not counted any more. */
size_t open_descriptor_count(void);
size_t thread_count(void);
size_t resident_size(void); /* bytes */

/* How long the threads that this process has now, taken together, were ready to run and had no
 * processor. One that waits at this moment is counted when it gets it. 0: the kernel does not say.
 */
int64_t processor_wait_ms(void);

/* A new directory (0700) that the clean-up removes with all that is in it. The path stays valid
 * until then; tempdir_remove() does it earlier. Removal never follows a symbolic link. */
const char *tempdir_make(void);
void tempdir_remove(const char *path);

/* Remove a file or a directory tree; nothing there is fine. False when something stays behind. */
bool remove_tree(const char *path);

/* Make the library's n-th allocation from now fail, on whatever thread; 0: none. Returns how many
 * were left until the one that was to fail before. */
uint64_t fail_allocation(uint64_t nth);

/* Whether it has failed that was the last to be told to. */
bool allocation_has_failed(void);

/* "Fail the n-th allocation, n = 1, 2, 3 ... until the call no longer meets the failure."
 *
 * `attempt` runs the call and everything it checks, and returns whether the call succeeded. By
 * default fail_allocation() is what fails it. Who has another way: `fail_nth(n)` arms it (0 disarms
 * it), and `fired` says whether the armed failure happened; without that the sweep ends at the
 * first attempt that succeeds, which stops too early when the code can do without the memory it
 * asked for. */
struct allocation_sweep {
    void (*fail_nth)(uint64_t nth); /* NULL: the default for both */
    bool (*fired)(void);            /* may be NULL */
    bool (*attempt)(void *arg);
    void *arg;
    uint64_t nth_max; /* the test fails beyond it; 0: 100,000 */
};

/* Returns how many allocations were failed in turn. The last attempt, without a failure, must
 * succeed, else the test fails. */
uint64_t sweep_allocations(const struct allocation_sweep *sweep);

#endif
