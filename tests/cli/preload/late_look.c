/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a program, this makes it slow at one point: having seen that a child was
 * continued, without taking that, it makes a file "looked" and goes on only when the child has
 * ended. So a test can have the end between look and take, where it comes by chance once in
 * thousands of times. What the program starts is not concerned. */
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((constructor)) static void leave_others_alone(void)
{
    unsetenv("LD_PRELOAD");
}

__attribute__((visibility("default"))) int waitid(
    idtype_t type, id_t id, siginfo_t *info, int options)
{
    const int result = (int)syscall(SYS_waitid, type, id, info, options, NULL);
    if (result == 0 && (options & WNOWAIT) != 0 && info->si_pid != 0 &&
        info->si_code == CLD_CONTINUED) {
        siginfo_t end;
        close(open("looked", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        syscall(SYS_waitid, P_PID, info->si_pid, &end, WEXITED | WNOWAIT, NULL);
    }
    return result;
}
