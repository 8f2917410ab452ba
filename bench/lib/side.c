/* SPDX-License-Identifier: Apache-2.0 */
/* Sides as child processes, and rounds of them; side.h describes it. */
#include "lib/side.h"

#include "lib/clock.h"
#include "lib/die.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER_WAIT_MS = 60000, STOP_WAIT_MS = 10000, DOT_ROUNDS = 3 };

/* Other sides inherit the driver's end of the pipe, so its closing alone would not be noticed. */
enum { LAST_ORDER = 0 };

/* ===== In the child ===== */

static bool write_all(int fd, const void *data, size_t size)
{
    return write(fd, data, size) == (ssize_t)size; /* less than PIPE_BUF: all or nothing */
}

static struct sample measure(const struct side_kind *kind, void *self, int64_t slice_ns)
{
    struct sample sample = {0};
    const int64_t began_cpu = own_cpu_ns();
    const int64_t began = now_ns();
    kind->slice(self, slice_ns, &sample);
    if (sample.seconds <= 0) {
        sample.seconds = (double)(now_ns() - began) / (double)NS_PER_S;
    }
    sample.cpu_seconds = (double)(own_cpu_ns() - began_cpu) / (double)NS_PER_S;
    return sample;
}

static void serve(const struct side *side, int orders, int samples)
{
    die_as(side->kind->name);
    signal(SIGINT, SIG_IGN); /* the driver decides */
    void *self = side->kind->open(side->arg);
    struct sample sample = {0};
    int64_t slice_ns = 0;
    bool going = write_all(samples, &sample, sizeof sample);
    while (going && read(orders, &slice_ns, sizeof slice_ns) == (ssize_t)sizeof slice_ns &&
           slice_ns != LAST_ORDER) {
        sample = measure(side->kind, self, slice_ns);
        going = write_all(samples, &sample, sizeof sample);
    }
    side->kind->close(self);
    _exit(0);
}

/* ===== In the driver ===== */

bool side_start(struct side *side)
{
    int orders[2];
    int samples[2];
    if (pipe2(orders, O_CLOEXEC) != 0 || pipe2(samples, O_CLOEXEC) != 0) {
        die("no pipe");
    }
    const pid_t driver = getpid();
    side->pid = fork();
    if (side->pid < 0) {
        die("cannot fork");
    }
    if (side->pid == 0) {
        close(orders[1]);
        close(samples[0]);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != driver) {
            _exit(1);
        }
        serve(side, orders[0], samples[1]);
    }
    close(orders[0]);
    close(samples[1]);
    side->orders = orders[1];
    side->samples = samples[0];
    struct sample ready;
    return side_answer(side, &ready);
}

bool side_order(const struct side *side, int64_t slice_ns)
{
    return write_all(side->orders, &slice_ns, sizeof slice_ns);
}

bool side_answer(const struct side *side, struct sample *sample)
{
    struct pollfd entry = {side->samples, POLLIN, 0};
    const int ready = poll(&entry, 1, ANSWER_WAIT_MS);
    if (ready == 0) {
        progress("bench: %s: no answer in %d s\n", side->kind->name, ANSWER_WAIT_MS / 1000);
    }
    return ready == 1 && read(side->samples, sample, sizeof *sample) == (ssize_t)sizeof *sample;
}

void side_stop(struct side *side)
{
    if (side->pid <= 0) {
        return;
    }
    side_order(side, LAST_ORDER);
    const int64_t deadline = now_ns() + STOP_WAIT_MS * NS_PER_MS;
    while (waitpid(side->pid, NULL, WNOHANG) == 0) {
        if (now_ns() > deadline || interrupted()) {
            progress("bench: %s: does not end; killed\n", side->kind->name);
            kill(side->pid, SIGKILL);
            waitpid(side->pid, NULL, 0);
            break;
        }
        pause_ns(NS_PER_MS);
    }
    close(side->orders);
    close(side->samples);
    side->pid = 0;
}

/* ===== Rounds ===== */

static bool start_all(struct side *sides, size_t count)
{
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        sides[i].pid = 0;
    }
    for (size_t i = 0; good && i < count; i++) {
        good = side_start(&sides[i]);
    }
    return good;
}

static void stop_all(struct side *sides, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        side_stop(&sides[i]);
    }
}

/* One slice of all of these sides at the same time. */
static bool run_slice(const struct server *server, const struct side *sides, size_t count,
    int64_t slice_ns, struct sample *samples)
{
    const int64_t began = process_cpu_ns(server->pid);
    bool good = true;
    for (size_t i = 0; good && i < count; i++) {
        good = side_order(&sides[i], slice_ns);
    }
    for (size_t i = 0; good && i < count; i++) {
        good = side_answer(&sides[i], &samples[i]);
    }
    const double cpu = (double)(process_cpu_ns(server->pid) - began) / (double)NS_PER_S;
    for (size_t i = 0; good && i < count; i++) {
        samples[i].server_cpu_seconds = cpu;
    }
    return good && !interrupted();
}

/* `turns` slices a round, each of `side_count / turns` sides together. */
static bool run(struct rounds *rounds, const struct server *server, struct side *sides,
    size_t turns, int64_t slice_ns)
{
    const size_t together = rounds->side_count / turns;
    struct sample ignored[SIDES_MAX];
    bool good = start_all(sides, rounds->side_count);
    for (size_t i = 0; good && i < turns; i++) {
        good = run_slice(server, sides + i * together, together, slice_ns / 2, ignored);
    }
    for (size_t round = 0; good && round < rounds->count; round++) {
        progress(round % DOT_ROUNDS == 0 ? "." : "");
        for (size_t i = 0; good && i < turns; i++) {
            good = run_slice(server, sides + i * together, together, slice_ns,
                rounds->samples[round] + i * together);
        }
    }
    stop_all(sides, rounds->side_count);
    return good;
}

bool rounds_run(struct rounds *rounds, const struct server *server, struct side *sides,
    size_t side_count, size_t count, int64_t slice_ns)
{
    rounds->count = count;
    rounds->side_count = side_count;
    return run(rounds, server, sides, side_count, slice_ns);
}

bool rounds_run_together(struct rounds *rounds, const struct server *server, struct side *sides,
    size_t side_count, size_t count, int64_t slice_ns)
{
    rounds->count = count;
    rounds->side_count = side_count;
    return run(rounds, server, sides, 1, slice_ns);
}
