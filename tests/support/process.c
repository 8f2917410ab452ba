/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes for tests.
 *
 * Each child has two pipes and an entry in the clean-up. Between fork and exec only calls that are
 * safe in a process with other threads are made. The signals that cmocka catches (SIGSEGV and the
 * like) are put back to their defaults in a forked child: cmocka's handler would jump into the
 * parent's test loop. */
#include "support/process.h"

#include "support/fail.h"
#include "support/sockets.h"
#include "support/text.h"
#include "support/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The first argument of a test program that runs again to be a child. */
#define ROLE_MARK "--pawl-test-role"

struct child {
    pid_t pid;
    int in;             /* we write here, the child reads; -1 when closed */
    int out;            /* the child writes, we read */
    struct text unread; /* received, not yet asked for */
    bool reaped;
    int status;         /* as waitpid gave it, once reaped */
    struct child *next; /* in the list of all */
};

/* Children that were not freed yet. Used by the main thread only. */
static struct child *children;

char *find_program(const char *name)
{
    if (strchr(name, '/') != NULL) {
        return access(name, X_OK) == 0 ? support_copy(name, strlen(name)) : NULL;
    }
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        const size_t size = strcspn(path, ":");
        struct text candidate = {0};
        text_addf(&candidate, "%.*s/%s", (int)size, path, name);
        if (size > 0 && access(candidate.data, X_OK) == 0) {
            return text_take(&candidate);
        }
        text_free(&candidate);
        path += size + (path[size] == ':' ? 1 : 0);
    }
    return NULL;
}

void die_with_parent(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* The parent may have ended before the line above: then nobody will send the signal. */
    if (getppid() != parent) {
        _exit(127);
    }
}

bool reap(pid_t pid, int *status_out, int64_t timeout_ms)
{
    const int64_t end_ms = boottime_ms() + timeout_ms;
    for (;;) {
        const bool over = boottime_ms() >= end_ms;
        pid_t ended = waitpid(pid, status_out, WNOHANG);
        if (ended == pid) {
            return true;
        }
        if (ended < 0 && errno != EINTR) {
            *status_out = 0;
            return true;
        }
        if (over) {
            return false;
        }
        nap_ms(1);
    }
}

bool wait_stopped(pid_t pid)
{
    const int64_t end_ms = boottime_ms() + 5000;
    while (boottime_ms() < end_ms) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG) != 0) {
            return false;
        }
        if (info.si_pid == pid) {
            return true;
        }
        nap_ms(1);
    }
    return false;
}

char process_state(pid_t pid)
{
    char path[40];
    char line[200];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return '-';
    }
    const char *got = fgets(line, sizeof line, file);
    fclose(file);
    /* The name before the state is in brackets and may contain anything. */
    const char *end = got != NULL ? strrchr(line, ')') : NULL;
    if (end == NULL) {
        return '-';
    }
    return end[2];
}

bool process_is_alive(pid_t pid)
{
    return strchr("-ZX", process_state(pid)) == NULL;
}

static void end_child(void *object)
{
    struct child *child = object;
    for (struct child **place = &children; *place != NULL; place = &(*place)->next) {
        if (*place == child) {
            *place = child->next;
            break;
        }
    }
    if (!child->reaped) {
        kill(child->pid, SIGKILL);
        child->reaped = reap(child->pid, &child->status, 10000);
    }
    if (child->in >= 0) {
        close(child->in);
    }
    close(child->out);
    text_free(&child->unread);
    free(child);
}

void child_free(struct child *child)
{
    if (child != NULL) {
        cleanup_drop(child);
        end_child(child);
    }
}

/* What a fork of a test program must do before it runs anything of its own. */
static void become_child(pid_t parent)
{
    die_with_parent(parent);
    static const int caught[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS};
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++) {
        signal(caught[i], SIG_DFL);
    }
    const struct rlimit none = {0};
    setrlimit(RLIMIT_CORE, &none);
    /* The pipes of elder children: a copy here would keep them from seeing the end of their input.
     */
    for (const struct child *elder = children; elder != NULL; elder = elder->next) {
        if (elder->in >= 0) {
            close(elder->in);
        }
        close(elder->out);
    }
}

/* Both ends of both pipes: [0] is read from, [1] is written to. */
struct pipe_pairs {
    int in[2];
    int out[2];
};

static struct pipe_pairs open_pipes(void)
{
    struct pipe_pairs pairs;
    if (pipe2(pairs.in, O_CLOEXEC) != 0 || pipe2(pairs.out, O_CLOEXEC) != 0) {
        support_fail("pipe: %s", strerror(errno));
    }
    return pairs;
}

static struct child *adopt(pid_t pid, const struct pipe_pairs *pairs)
{
    if (pid < 0) {
        support_fail("fork: %s", strerror(errno));
    }
    close(pairs->in[0]);
    close(pairs->out[1]);
    struct child *child = support_alloc(sizeof *child);
    child->pid = pid;
    child->in = pairs->in[1];
    child->out = pairs->out[0];
    child->next = children;
    children = child;
    cleanup_add(end_child, child);
    return child;
}

/* A failed assertion ends a child by abort(); what the child has started goes first. This is
 * no interrupt: abort() raises the signal in the thread that failed, where anything may be called.
 * When the handler returns, abort() kills. */
static void clean_up_on_abort(int signal_number)
{
    (void)signal_number;
    signal(SIGABRT, SIG_DFL);
    cleanup_to(0);
}

/* In a child, before a function of the test runs: a failed assertion ends the child. */
static void prepare_body(void)
{
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    signal(SIGABRT, clean_up_on_abort);
}

struct child *child_fork(int (*body)(const struct child_pipes *pipes, void *arg), void *arg)
{
    const struct pipe_pairs pairs = open_pipes();
    const pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        become_child(parent);
        prepare_body();
        close(pairs.in[1]);
        close(pairs.out[0]);
        const struct child_pipes pipes = {.in = pairs.in[0], .out = pairs.out[1]};
        int code = body(&pipes, arg);
        fflush(NULL);
        _exit(code);
    }
    return adopt(pid, &pairs);
}

static void exec_child(const char *path, const char *const argv[], const struct pipe_pairs *pairs)
{
    dup2(pairs->in[0], STDIN_FILENO);
    dup2(pairs->out[1], STDOUT_FILENO);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    union {
        const char *const *given;
        char *const *wanted; /* execv has no const for historical reasons */
    } words = {.given = argv};
    execv(path, words.wanted);
    _exit(127);
}

static struct child *spawn(char *path, const char *const argv[])
{
    const struct pipe_pairs pairs = open_pipes();
    const pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        become_child(parent);
        exec_child(path, argv, &pairs);
    }
    free(path);
    return adopt(pid, &pairs);
}

struct child *child_spawn(const char *const argv[])
{
    char *path = find_program(argv[0]);
    if (path == NULL) {
        support_fail("no program %s in PATH", argv[0]);
    }
    return spawn(path, argv);
}

struct child *child_start(const char *role, const char *arg)
{
    char *path = realpath("/proc/self/exe", NULL);
    if (path == NULL) {
        support_fail("/proc/self/exe: %s", strerror(errno));
    }
    const char *const argv[] = {path, ROLE_MARK, role, arg, NULL};
    return spawn(path, argv);
}

void child_dispatch(int argc, char *const argv[], const struct child_role roles[], size_t count)
{
    if (argc < 3 || strcmp(argv[1], ROLE_MARK) != 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(roles[i].name, argv[2]) == 0) {
            prepare_body();
            const struct child_pipes pipes = {.in = STDIN_FILENO, .out = STDOUT_FILENO};
            exit(roles[i].body(&pipes, argc > 3 ? argv[3] : NULL));
        }
    }
    fprintf(stderr, "no role %s in this program\n", argv[2]);
    exit(127);
}

pid_t child_pid(const struct child *child)
{
    return child->pid;
}

/* A pipe raises SIGPIPE where a socket can be told not to, so the signal is blocked meanwhile and
 * taken out again if it came. */
bool child_write(struct child *child, const char *text)
{
    if (child->in < 0) {
        return false;
    }
    sigset_t broken;
    sigset_t before;
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken, &before);
    size_t left = strlen(text);
    bool written = true;
    while (left > 0 && written) {
        ssize_t size = write(child->in, text, left);
        if (size > 0) {
            text += size;
            left -= (size_t)size;
        }
        written = size > 0 || errno == EINTR;
    }
    if (!written) {
        const struct timespec now = {0};
        sigtimedwait(&broken, NULL, &now);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return written;
}

void child_close_input(struct child *child)
{
    if (child->in >= 0) {
        close(child->in);
        child->in = -1;
    }
}

/* Receive more of the child's output; false at its end or when the time is over. */
static bool read_more(struct child *child, int64_t end_ms)
{
    const int64_t left_ms = end_ms - boottime_ms();
    struct pollfd item = {.fd = child->out, .events = POLLIN};
    if (poll(&item, 1, left_ms > 0 ? (int)left_ms : 0) <= 0) {
        return errno == EINTR && boottime_ms() < end_ms;
    }
    char chunk[4096];
    ssize_t size = read(child->out, chunk, sizeof chunk);
    if (size <= 0) {
        return false;
    }
    text_add(&child->unread, chunk, (size_t)size);
    return true;
}

char *child_read_line(struct child *child, int64_t timeout_ms)
{
    const int64_t end_ms = boottime_ms() + timeout_ms;
    for (;;) {
        const char *end =
            child->unread.size > 0 ? memchr(child->unread.data, '\n', child->unread.size) : NULL;
        if (end != NULL) {
            const size_t size = (size_t)(end - child->unread.data);
            char *line = support_copy(child->unread.data, size);
            text_remove(&child->unread, size + 1);
            return line;
        }
        errno = 0;
        if (!read_more(child, end_ms)) {
            return NULL;
        }
    }
}

bool child_read(struct child *child, void *data, size_t size, int64_t timeout_ms)
{
    const int64_t end_ms = boottime_ms() + timeout_ms;
    while (child->unread.size < size) {
        errno = 0;
        if (!read_more(child, end_ms)) {
            return false;
        }
    }
    if (size > 0) {
        memcpy(data, child->unread.data, size);
    }
    text_remove(&child->unread, size);
    return true;
}

int child_wait(struct child *child, int64_t timeout_ms)
{
    if (!child->reaped) {
        child->reaped = reap(child->pid, &child->status, timeout_ms);
    }
    if (!child->reaped) {
        return -1;
    }
    return WIFSIGNALED(child->status) ? 128 + WTERMSIG(child->status) : WEXITSTATUS(child->status);
}

bool child_is_running(struct child *child)
{
    return child_wait(child, 0) < 0;
}

void child_signal(struct child *child, int signal_number)
{
    if (!child->reaped) {
        kill(child->pid, signal_number);
    }
}

void child_stop(struct child *child)
{
    child_signal(child, SIGSTOP);
    if (!wait_stopped(child->pid)) {
        support_fail("child %d did not stop", (int)child->pid);
    }
}

void child_continue(struct child *child)
{
    child_signal(child, SIGCONT);
}

struct nobody_call {
    int (*body)(void *arg);
    void *arg;
    uid_t uid;
    gid_t gid;
    pid_t parent;
};

static int call_as_nobody(const struct child_pipes *pipes, void *arg)
{
    (void)pipes;
    const struct nobody_call *call = arg;
    if (setgroups(0, NULL) != 0 || setresgid(call->gid, call->gid, call->gid) != 0 ||
        setresuid(call->uid, call->uid, call->uid) != 0) {
        return 126;
    }
    die_with_parent(call->parent); /* a change of user clears it */
    return call->body(call->arg);
}

int run_as_nobody(int (*body)(void *arg), void *arg, int64_t timeout_ms)
{
    if (geteuid() != 0) {
        print_message("only root can become another user\n");
        skip();
    }
    const struct passwd *nobody = getpwnam("nobody");
    struct nobody_call call = {.body = body,
        .arg = arg,
        .uid = nobody != NULL ? nobody->pw_uid : 65534,
        .gid = nobody != NULL ? nobody->pw_gid : 65534,
        .parent = getpid()};
    struct child *child = child_fork(call_as_nobody, &call);
    int code = child_wait(child, timeout_ms);
    child_free(child);
    return code;
}
