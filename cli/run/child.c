/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the command: its environment, its process group, its signals as the caller had them.
 *
 * The child shares our memory until it executes the command, which spares copying it, and we stand
 * still meanwhile; as vfork() does, but on a stack of its own. It makes system calls and writes one
 * variable. It asks to get TERM should its parent die: then it ends even if front and keeper are
 * killed together. */
#include "run/child.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OURS_COUNT = 3, NOT_EXECUTED = 127, STACK_SIZE = 256 * 1024 };

static const char *const our_variables[OURS_COUNT] = {"PAWL_NAME", "PAWL_TOKEN", "PAWL_OWNER"};

static bool is_ours(const char *entry)
{
    for (size_t i = 0; i < OURS_COUNT; i++) {
        const size_t size = strlen(our_variables[i]);
        if (strncmp(entry, our_variables[i], size) == 0 && entry[size] == '=') {
            return true;
        }
    }
    return false;
}

/* VARIABLE=value, allocated. */
static char *make_entry(const char *variable, const char *value)
{
    const size_t size = strlen(variable) + strlen(value) + 2;
    char *entry = malloc(size);
    if (entry != NULL) {
        snprintf(entry, size, "%s=%s", variable, value);
    }
    return entry;
}

struct environment {
    char **entries; /* as execve takes them */
    char *ours[OURS_COUNT];
};

static void free_environment(struct environment *environment)
{
    for (size_t i = 0; i < OURS_COUNT; i++) {
        free(environment->ours[i]);
    }
    free(environment->entries);
}

/* The caller's entries, but for those that an outer pawl made; how many. */
static size_t copy_environment(char **entries)
{
    size_t used = 0;
    for (size_t i = 0; environ[i] != NULL; i++) {
        if (!is_ours(environ[i])) {
            entries[used++] = environ[i];
        }
    }
    return used;
}

/* The caller's environment with our variables in it. A lock without a token has no PAWL_TOKEN.
 * False: no memory. */
static bool make_environment(const struct run_child_plan *plan, struct environment *environment_out)
{
    size_t count = 0;
    while (environ[count] != NULL) {
        count++;
    }
    char token[24];
    snprintf(token, sizeof token, "%" PRIu64, plan->token);
    const char *const values[OURS_COUNT] = {plan->name, token, plan->owner};
    *environment_out = (struct environment){NULL, {NULL}};
    char **entries = malloc((count + OURS_COUNT + 1) * sizeof *entries);
    environment_out->entries = entries;
    size_t used = entries != NULL ? copy_environment(entries) : 0;
    for (size_t i = 0; i < OURS_COUNT && entries != NULL; i++) {
        if (values[i] == token && plan->token == 0) {
            continue;
        }
        environment_out->ours[i] = make_entry(our_variables[i], values[i]);
        if (environment_out->ours[i] == NULL) {
            return false;
        }
        entries[used++] = environment_out->ours[i];
    }
    if (entries != NULL) {
        entries[used] = NULL;
    }
    return entries != NULL;
}

/* The file to execute, as execvp() would find it. It is looked for here, and not by the child: if
 * ^Z stopped that while it searched, we would stand still for good. NULL: an error number. */
static const char *find_command(const char *name, char out[PATH_MAX], int *error_out)
{
    const char *path = getenv("PATH");
    path = path != NULL ? path : "/bin:/usr/bin";
    *error_out = ENOENT;
    if (strchr(name, '/') != NULL || name[0] == '\0') {
        return name;
    }
    while (path != NULL) {
        const size_t size = strcspn(path, ":");
        const int used =
            snprintf(out, PATH_MAX, "%.*s%s%s", (int)size, path, size > 0 ? "/" : "./", name);
        struct stat info;
        if (used < PATH_MAX && stat(out, &info) == 0 && S_ISREG(info.st_mode)) {
            if (access(out, X_OK) == 0) {
                return out;
            }
            *error_out = EACCES;
        }
        path = path[size] == ':' ? path + size + 1 : NULL;
    }
    return NULL;
}

struct birth {
    const struct run_child_plan *plan;
    const char *file;
    char **environment;
    pid_t parent;
    int error; /* of exec */
};

/* In the child, which borrows its parent's memory, but for the stack. Gives its exit status. */
static int become(void *birth_)
{
    struct birth *birth = birth_;
    const struct run_child_plan *plan = birth->plan;
    if (plan->own_group) {
        setpgid(0, 0);
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != birth->parent) {
        return NOT_EXECUTED; /* it died before it could be watched */
    }
    run_signals_restore(plan->signals);
    execvpe(birth->file, plan->command, birth->environment); /* also scripts without #! */
    birth->error = errno;
    return NOT_EXECUTED;
}

pid_t run_child_start(const struct run_child_plan *plan, int *error_out, bool *execed_out)
{
    struct environment environment;
    char buffer[PATH_MAX];
    _Alignas(16) static char stack[STACK_SIZE];
    int error = 0;
    pid_t child = -1;
    *execed_out = true;
    const char *file = find_command(plan->command[0], buffer, error_out);
    if (file == NULL) {
        return -1;
    }
    *error_out = ENOMEM;
    if (make_environment(plan, &environment)) {
        struct birth birth = {plan, file, environment.entries, getpid(), 0};
        child = clone(become, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &birth);
        error = birth.error;
        *error_out = child < 0 ? errno : error;
    }
    free_environment(&environment);
    *execed_out = child > 0;
    if (child > 0 && error != 0) {
        waitpid(child, NULL, 0);
        return -1;
    }
    return child;
}
