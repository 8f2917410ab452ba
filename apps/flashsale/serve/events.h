/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events for the live page: how the sale goes, about five times a second, while
 * somebody listens. */
#ifndef FLASHSALE_SERVE_EVENTS_H
#define FLASHSALE_SERVE_EVENTS_H

struct events;
struct shop;

/* NULL: no memory or no thread. */
struct events *events_open(struct shop *shop);

/* End all streams; nobody may begin to listen any more. */
void events_shut(struct events *events);

/* After the door is closed. */
void events_close(struct events *events);

#endif
