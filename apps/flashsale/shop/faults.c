/* SPDX-License-Identifier: Apache-2.0 */
/* Faults on demand: see faults.h.
 *
 * To die is to be killed, with no chance to release anything. To stop is to be stopped as a whole,
 * all threads and their renewals with it, as a machine that pages, or a debugger, would do; a small
 * process of its own stops us and lets us go on. To take one's time is to sleep while the rest of
 * the process lives: whoever renews the lock in the background goes on doing so. */
#include "shop/faults.h"

#include "common/clock.h"
#include "common/say.h"
#include "shop/inside.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const fault_names[FAULT_COUNT] = {"die", "stop", "slow"};

void faults_open(struct faults *faults)
{
    pthread_mutex_init(&faults->mutex, NULL);
}

void faults_close(struct faults *faults)
{
    pthread_mutex_destroy(&faults->mutex);
}

void shop_arm_fault(struct shop *shop, enum fault fault, struct fault_plan plan)
{
    struct faults *faults = &shop->faults;
    char which[32] = "next";
    if (plan.at > 0) {
        snprintf(which, sizeof which, "%" PRId64 ".", plan.at);
    }
    pthread_mutex_lock(&faults->mutex);
    if (plan.at == 0) {
        plan.at = faults->passed[plan.place] + 1;
    }
    faults->plans[fault] = plan;
    snprintf(faults->note, sizeof faults->note, "port %d will %s at its %s order inside the lock",
        shop->settings.port, fault == FAULT_SLOW ? "be slow" : fault_names[fault], which);
    pthread_mutex_unlock(&faults->mutex);
}

int shop_armed_faults(struct shop *shop)
{
    int count = 0;
    pthread_mutex_lock(&shop->faults.mutex);
    for (int i = 0; i < FAULT_COUNT; i++) {
        count += shop->faults.plans[i].at > 0;
    }
    pthread_mutex_unlock(&shop->faults.mutex);
    return count;
}

void shop_fault_note(struct shop *shop, char note_out[FAULT_NOTE_SIZE])
{
    pthread_mutex_lock(&shop->faults.mutex);
    snprintf(note_out, FAULT_NOTE_SIZE, "%s", shop->faults.note);
    pthread_mutex_unlock(&shop->faults.mutex);
}

void shop_set_fault_note(struct shop *shop, const char *note)
{
    pthread_mutex_lock(&shop->faults.mutex);
    snprintf(shop->faults.note, sizeof shop->faults.note, "%s", note);
    pthread_mutex_unlock(&shop->faults.mutex);
}

/* Only what a child of a process with many threads may do: no allocation, no locks. */
static _Noreturn void be_the_helper(int pid_fd, int64_t for_us)
{
    /* Our sockets must not stay open in here, should the shop die meanwhile. */
    if (pid_fd != 3) {
        dup2(pid_fd, 3);
    }
    const struct timespec pause = {.tv_sec = for_us / 1000000, .tv_nsec = for_us % 1000000 * 1000};
    struct pollfd shop = {.fd = 3, .events = POLLIN}; /* readable when the shop has died */
    syscall(SYS_close_range, 4U, ~0U, 0U);
    syscall(SYS_pidfd_send_signal, 3, SIGSTOP, NULL, 0U);
    ppoll(&shop, 1, &pause, NULL);
    syscall(SYS_pidfd_send_signal, 3, SIGCONT, NULL, 0U);
    _exit(0);
}

static void stop_for(int64_t for_us)
{
    const int pid_fd = (int)syscall(SYS_pidfd_open, getpid(), 0U);
    if (pid_fd < 0) {
        say("cannot stop myself on this kernel: it has no pidfd");
        return;
    }
    const pid_t helper = fork();
    if (helper == 0) {
        be_the_helper(pid_fd, for_us);
    }
    close(pid_fd);
    /* It is over when the helper is: then we were stopped, and go on. */
    while (helper > 0 && waitpid(helper, NULL, 0) < 0 && errno == EINTR) {
    }
}

static void strike(struct shop *shop, enum fault fault, int64_t for_us, int64_t number)
{
    const double seconds = (double)for_us / 1e6;
    char note[FAULT_NOTE_SIZE];
    if (fault == FAULT_DIE) {
        say("order %" PRId64 " is inside: dying with the lock", number);
        kill(getpid(), SIGKILL);
    }
    if (fault == FAULT_STOP) {
        say("order %" PRId64 " is inside: stopped for %.3g s with the lock", number, seconds);
        stop_for(for_us);
        snprintf(note, sizeof note, "port %d was stopped for %.3g s inside the lock",
            shop->settings.port, seconds);
    } else {
        say("order %" PRId64 " is inside: it takes %.3g s", number, seconds);
        sleep_us(for_us);
        snprintf(note, sizeof note, "port %d took %.3g s over one order inside the lock",
            shop->settings.port, seconds);
    }
    shop_set_fault_note(shop, note);
}

/* Count one more order that has come to a place where faults strike, and strike. */
static void pass(struct shop *shop, enum fault_place place)
{
    struct faults *faults = &shop->faults;
    struct fault_plan due[FAULT_COUNT] = {{0, 0, FAULT_AT_WORK}};
    pthread_mutex_lock(&faults->mutex);
    const int64_t number = ++faults->passed[place];
    for (int i = 0; i < FAULT_COUNT; i++) {
        if (faults->plans[i].at == number && faults->plans[i].place == place) {
            due[i] = faults->plans[i];
            faults->plans[i].at = 0;
        }
    }
    pthread_mutex_unlock(&faults->mutex);
    for (int i = 0; i < FAULT_COUNT; i++) {
        if (due[i].at > 0) {
            strike(shop, (enum fault)i, due[i].for_us, number);
        }
    }
}

void shop_work(struct shop *shop, struct order *order)
{
    (void)order;
    sleep_us(shop->settings.work_us);
    pass(shop, FAULT_AT_WORK);
}

void shop_gap(struct shop *shop, struct order *order)
{
    (void)order;
    pass(shop, FAULT_IN_GAP);
}
