/* SPDX-License-Identifier: Apache-2.0 */
/* Meeting the servers of --redlock: their clients are opened at the same time, each by a thread of
 * its own, because opening one waits for its server, and one that hangs shall not keep the others.
 *
 * It is over when all have answered or failed, when one has failed in a way that waiting does not
 * mend, or when a majority is open and the others have had as long again. Who has not come by then
 * gets a client that does not wait for first contact; should the thread succeed after all, it
 * closes what it has opened.
 *
 * All calls are the keeper's, on its one thread. */
#ifndef PAWL_RUN_MEET_H
#define PAWL_RUN_MEET_H

#include "run/run.h"

struct run_meeting;

/* `options` are those of every client; wake_fd, an eventfd, becomes readable when somebody has
 * come. NULL: no memory. */
struct run_meeting *run_meeting_start(
    const struct run_options *run, const pawl_client_options *options, int wake_fd);

/* False: it is over. Otherwise look again when somebody has come, or at *until_us_out. */
bool run_meeting_goes_on(struct run_meeting *meeting, int64_t *until_us_out);

/* A client for every server, in their order. Those that are open are in `clients`, also if that
 * fails; then why_out says why. */
pawl_status run_meeting_end(struct run_meeting *meeting, pawl_client *clients[RUN_SERVERS_MAX],
    size_t *count_out, char *why_out, size_t why_size);

/* A majority has answered for the lock: say who is away, now or when it is known. Again: nothing is
 * said twice. */
void run_meeting_tell(struct run_meeting *meeting);

#endif
