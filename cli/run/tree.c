/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and signalling the command with all its descendants.
 *
 * Children are found by their parent's number in /proc. The front is a child subreaper: what is
 * orphaned below it becomes its child and stays in the tree, also after a double fork or setsid().
 * When the front is gone that link is cut; then the environment tells: PAWL_OWNER is different for
 * every hold. A process that cleans its environment, and is orphaned, and outlives a killed front
 * is not found.
 *
 * Numbers of processes are used again. Those of the front's own children are not while it has not
 * reaped them; for others the start time is compared once more when a descriptor of the process is
 * open, and the signal goes through that descriptor. */
#include "run/tree.h"

#include "run/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    STAT_SIZE = 1024,
    ENVIRONMENT_SIZE_MAX = 1 << 20,
    ANCESTORS_MAX = 4096,
};

/* ===== Reading /proc ===== */

/* Up to size - 1 bytes of a file of /proc, and a NUL. The number of bytes; 0: cannot be read. */
static size_t read_file(pid_t pid, const char *name, char *out, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    while (fd >= 0 && used < size - 1) {
        const ssize_t got = read(fd, out + used, size - 1 - used);
        if (got <= 0) {
            break;
        }
        used += (size_t)got;
    }
    if (fd >= 0) {
        close(fd);
    }
    out[used] = '\0';
    return used;
}

/* The name in brackets may hold anything, so the fields are counted from the last bracket. */
static bool read_process(pid_t pid, struct run_process *process_out)
{
    char text[STAT_SIZE];
    long parent = 0;
    long session = 0;
    long threads = 0;
    char state = 0;
    uint64_t start = 0;
    read_file(pid, "stat", text, sizeof text);
    const char *fields = strrchr(text, ')');
    if (fields == NULL ||
        sscanf(fields,
            ") %c %ld %*d %ld %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %" SCNu64,
            &state, &parent, &session, &threads, &start) != 5) {
        return false;
    }
    /* A process whose first thread has ended looks like a zombie while others run. */
    const bool alive = (state != 'Z' && state != 'X') || threads > 1;
    *process_out =
        (struct run_process){pid, (pid_t)parent, (pid_t)session, state, alive, false, start};
    return true;
}

bool run_tree_is_stopped(pid_t pid)
{
    struct run_process process;
    return read_process(pid, &process) && (process.state == 'T' || process.state == 't');
}

bool run_tree_descends(pid_t pid, pid_t ancestor)
{
    struct run_process process;
    for (int i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
        if (pid == ancestor) {
            return true;
        }
        if (!read_process(pid, &process)) {
            return false;
        }
        pid = process.parent;
    }
    return false;
}

/* Whether PAWL_OWNER has that value in the environment that the process was started with. */
static bool has_mark(pid_t pid, const char *mark)
{
    char *text = malloc(ENVIRONMENT_SIZE_MAX);
    if (text == NULL) {
        return false;
    }
    bool found = false;
    const size_t size = read_file(pid, "environ", text, ENVIRONMENT_SIZE_MAX);
    for (const char *entry = text; entry < text + size && !found; entry += strlen(entry) + 1) {
        found = strncmp(entry, "PAWL_OWNER=", 11) == 0 && strcmp(entry + 11, mark) == 0;
    }
    free(text);
    return found;
}

/* ===== Who belongs to it ===== */

static bool add_process(struct run_tree *tree, const struct run_process *process)
{
    if (tree->count == tree->room) {
        const size_t room = tree->room > 0 ? 2 * tree->room : 256;
        struct run_process *larger = realloc(tree->processes, room * sizeof *larger);
        if (larger == NULL) {
            return false;
        }
        tree->processes = larger;
        tree->room = room;
    }
    tree->processes[tree->count++] = *process;
    return true;
}

static int compare_pids(const void *a, const void *b)
{
    const pid_t first = ((const struct run_process *)a)->pid;
    const pid_t second = ((const struct run_process *)b)->pid;
    return (first > second) - (first < second);
}

/* All processes there are, by number. Without /proc, the command alone. */
static void look(struct run_tree *tree)
{
    tree->count = 0;
    DIR *directory = opendir("/proc");
    const struct dirent *entry = NULL;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        struct run_process process;
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            read_process((pid_t)atol(entry->d_name), &process)) {
            add_process(tree, &process);
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    if (tree->count == 0 && tree->child > 0) {
        const struct run_process child = {.pid = tree->child, .alive = true};
        add_process(tree, &child);
    }
    if (tree->count > 0) {
        qsort(tree->processes, tree->count, sizeof tree->processes[0], compare_pids);
    }
}

/* On the clock of run_now_us(), rounded down. */
static int64_t start_us(const struct run_process *process)
{
    return (int64_t)process->start * (US_PER_S / sysconf(_SC_CLK_TCK));
}

static bool is_root(const struct run_tree *tree, const struct run_process *process)
{
    if (process->pid == tree->keeper || process->pid == tree->front || process->pid == getpid()) {
        return false;
    }
    if (tree->front > 0) {
        return process->pid == tree->child ||
               (process->parent == tree->front &&
                   (!tree->shares || has_mark(process->pid, tree->mark)));
    }
    const bool is_child = process->pid == tree->child && start_us(process) <= tree->child_us;
    return process->alive && (is_child || has_mark(process->pid, tree->mark));
}

static const struct run_process *find(const struct run_tree *tree, pid_t pid)
{
    const struct run_process key = {.pid = pid};
    return bsearch(&key, tree->processes, tree->count, sizeof key, compare_pids);
}

/* Whoever has a member as a parent is one, until nobody is added any more. */
static void mark_members(struct run_tree *tree)
{
    bool changed = false;
    for (size_t i = 0; i < tree->count; i++) {
        tree->processes[i].member = is_root(tree, &tree->processes[i]);
        changed = changed || tree->processes[i].member;
    }
    while (changed) {
        changed = false;
        for (size_t i = 0; i < tree->count; i++) {
            struct run_process *process = &tree->processes[i];
            if (process->member || process->pid == getpid()) {
                continue;
            }
            const struct run_process *parent = find(tree, process->parent);
            process->member = parent != NULL && parent->member;
            changed = changed || process->member;
        }
    }
}

/* ===== Signals ===== */

/* 0, or an error number. */
static int send_signal(const struct run_process *process, int number)
{
    const int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    if (fd < 0) {
        /* An old kernel, or no descriptors left. */
        return errno == ESRCH ? ESRCH : kill(process->pid, number) != 0 ? errno : 0;
    }
    struct run_process now;
    const bool same =
        process->start == 0 || (read_process(process->pid, &now) && now.start == process->start);
    const long result = same ? syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) : 0;
    const int error = result != 0 ? errno : 0;
    close(fd);
    return error;
}

static int signal_member(const struct run_process *process, int number)
{
    const int error = number != 0 ? send_signal(process, number) : 0;
    if (number == SIGTERM && (process->state == 'T' || process->state == 't')) {
        send_signal(process, SIGCONT);
    }
    return error;
}

struct run_census run_tree_signal(struct run_tree *tree, int number)
{
    struct run_census census = {0, 0};
    look(tree);
    mark_members(tree);
    for (size_t i = 0; i < tree->count; i++) {
        const struct run_process *process = &tree->processes[i];
        if (!process->member || !process->alive ||
            (tree->session != 0 && process->session != tree->session)) {
            continue;
        }
        census.alive++;
        census.denied += signal_member(process, number) == EPERM ? 1 : 0;
    }
    return census;
}

/* While the command waits to be reaped, waiting for any child would find that one only. */
void run_tree_reap(const struct run_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++) {
        const struct run_process *process = &tree->processes[i];
        if (process->parent == getpid() && process->state == 'Z' && process->pid != tree->child &&
            process->pid != tree->keeper) {
            waitpid(process->pid, NULL, WNOHANG);
        }
    }
}

void run_tree_free(struct run_tree *tree)
{
    free(tree->processes);
}
