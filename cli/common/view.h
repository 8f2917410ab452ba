/* SPDX-License-Identifier: Apache-2.0 */
/* One lock with everybody who has to do with it, as `show` and `break` show it: its holders, of
 * whom a read lock may have several, and those who stand in the queue of a fair one. Taken by a few
 * questions, one after the other: what changes meanwhile may be seen in one and not in the next. */
#ifndef PAWL_COMMON_VIEW_H
#define PAWL_COMMON_VIEW_H

#include "common/holds.h"

struct cli_view {
    struct cli_holds holders; /* a writer first */
    struct cli_hold unheld;   /* what is known of it if there are none */
    pawl_waiter *queue;       /* the next one first */
    size_t queue_count;
    size_t queue_room;
};

/* PAWL_OK, or the last error says why not; then there is nothing to free. */
pawl_status cli_view_take(pawl_client *client, const char *name, struct cli_view *view_out);

/* The same for a name that is a semaphore's, as the user says: when no permit is out, it cannot be
 * told from other numbers. */
pawl_status cli_view_take_semaphore(
    pawl_client *client, const char *name, struct cli_view *view_out);

/* And for a latch, which never can: it counts as held until it is at zero. */
pawl_status cli_view_take_latch(pawl_client *client, const char *name, struct cli_view *view_out);

void cli_view_free(struct cli_view *view);

/* The lock as its first holder has it, or as nobody does. */
const struct cli_hold *cli_view_lock(const struct cli_view *view);

/* All about it, a line for each thing, indented. */
void cli_view_add_lines(const struct cli_view *view, size_t indent, struct cli_text *text);

/* A JSON object: as for one hold, and the lists "holders" and "queue". */
void cli_view_json(struct cli_json *json, const struct cli_view *view);

#endif
