/* SPDX-License-Identifier: Apache-2.0 */
/* The pulse of a worker: whether its process got to run. Stopped, or left waiting for a processor,
 * it keeps no promise about time, and that is nobody's fault here. The thread does nothing else
 * than look. */
#include "torture/lib/worker.h"

#include "support/wait.h"
#include "torture/lib/arena.h"

#include <pthread.h>
#include <unistd.h>

enum {
    PULSE_MS = 2,
    PAUSE_US = 5000, /* a pulse so late is a pause */
};

static int log_fd;

static void *feel_pulse(void *arg)
{
    (void)arg;
    int64_t last_us = boottime_us();
    bool written = true;
    while (written) {
        nap_ms(PULSE_MS);
        const int64_t now_us = boottime_us();
        if (now_us - last_us > PULSE_MS * 1000 + PAUSE_US) {
            const struct torture_record record = {
                .step = RECORD_PAUSED, .at_us = last_us, .until_us = now_us};
            written = write(log_fd, &record, sizeof record) == (ssize_t)sizeof record;
        }
        last_us = now_us;
    }
    return NULL;
}

bool pulse_start(int fd)
{
    pthread_t thread;
    log_fd = fd;
    return pthread_create(&thread, NULL, feel_pulse, NULL) == 0 && pthread_detach(thread) == 0;
}
