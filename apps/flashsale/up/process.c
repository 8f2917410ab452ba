/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes: fork, exec, and an eye on them.
 */
#include "up/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/say.h"
#include "up/patience.h"

#define QUICK_MS 500 /* a death this soon after the start */
#define QUICK_MAX 5  /* in a row, and we give it up */
#define PAUSE_MS 200 /* before it is started again; doubled with each quick death */
#define EXEC_FAILED 127
#define KILL_PATIENCE_MS 5000

void process_init(struct process *process, const char *format, ...)
{
    memset(process, 0, sizeof(*process));
    process->end_signal = SIGTERM;
    process->orphan_signal = SIGKILL;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(process->name, sizeof(process->name), format, arguments);
    va_end(arguments);
}

void process_add(struct process *process, const char *format, ...)
{
    char *word = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&word, format, arguments);
    va_end(arguments);
    if (length < 0 || process->word_count == PROCESS_WORDS_MAX) {
        say("the command line of %s cannot be made; too many options?", process->name);
        exit(EXIT_FAILURE);
    }
    process->words[process->word_count++] = word;
}

void process_free(struct process *process)
{
    for (size_t i = 0; i < process->word_count; i++) {
        free(process->words[i]);
    }
    process->word_count = 0;
}

/* In the child: nothing of ours but stderr, and then it is somebody else. */
static _Noreturn void become(const struct process *process, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, process->orphan_signal);
    if (getppid() != parent) { /* too late for the signal */
        _exit(EXEC_FAILED);
    }
    setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);

    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(input, STDIN_FILENO);
    if (process->log_path[0]) {
        int log = open(process->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
    } else {
        int nobody = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(nobody, STDOUT_FILENO);
    }
    const char *program = process->program ? process->program : process->words[0];
    execvp(program, process->words);
    dprintf(STDERR_FILENO, "flashsale up: %s: %s\n", program, strerror(errno));
    _exit(EXEC_FAILED);
}

bool process_start(struct process *process)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        become(process, parent);
    }
    if (pid < 0) {
        say("%s cannot be started: %s", process->name, strerror(errno));
        return false;
    }
    process->pid = pid;
    process->wanted = true;
    process->started_ms = now_ms();
    process->due_ms = 0;
    return true;
}

/* Whether it has ended by now; how, is in end_status then. */
static bool has_ended(struct process *process)
{
    if (process->pid == 0) {
        return true;
    }
    if (waitpid(process->pid, &process->end_status, WNOHANG) != process->pid) {
        return false;
    }
    process->pid = 0;
    return true;
}

bool process_runs(struct process *process)
{
    return !has_ended(process);
}

/* Waits without looking at signals: whoever wants to end it all wants this, too. */
static bool is_gone_within(struct process *process, int64_t patience_ms)
{
    int64_t end_ms = now_ms() + patience_ms;
    while (!has_ended(process)) {
        if (now_ms() >= end_ms) {
            return false;
        }
        sleep_us(2000);
    }
    return true;
}

void process_kill(struct process *process)
{
    process->wanted = false;
    process->due_ms = 0;
    if (process->pid != 0) {
        kill(process->pid, SIGKILL);
        is_gone_within(process, KILL_PATIENCE_MS);
    }
}

void process_end(struct process *process, int64_t patience_ms)
{
    process->wanted = false;
    process->due_ms = 0;
    if (process->pid == 0) {
        return;
    }
    kill(process->pid, process->end_signal);
    kill(process->pid, SIGCONT); /* a fault may have stopped it */
    if (!is_gone_within(process, patience_ms)) {
        say("%s does not end by itself within %lld s; it is killed", process->name,
            (long long)patience_ms / 1000);
        process_kill(process);
    }
}

static void tell_death(const struct process *process)
{
    const int status = process->end_status;
    if (WIFSIGNALED(status)) {
        say("%s died: signal %d (%s); it is started again", process->name, WTERMSIG(status),
            strsignal(WTERMSIG(status)));
    } else {
        say("%s ended with status %d; it is started again", process->name, WEXITSTATUS(status));
    }
}

bool process_mend(struct process *process)
{
    if (process->wanted && process->pid != 0 && has_ended(process)) {
        int64_t now = now_ms();
        bool quick = now - process->started_ms < QUICK_MS;
        process->quick_count = quick ? process->quick_count + 1 : 0;
        process->death_count++;
        if (process->quick_count >= QUICK_MAX) {
            say("%s died %d times as soon as it was started", process->name, QUICK_MAX);
            return false;
        }
        tell_death(process);
        process->due_ms = now + ((int64_t)PAUSE_MS << process->quick_count);
    }
    if (process->wanted && process->due_ms != 0 && now_ms() >= process->due_ms) {
        return process_start(process);
    }
    return true;
}
