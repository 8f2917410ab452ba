/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door: the HTTP server. A few threads of libmicrohttpd serve all connections; those whose
 * answer takes time are suspended meanwhile.
 */
#ifndef FLASHSALE_SERVE_DOOR_H
#define FLASHSALE_SERVE_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct door;
struct events;
struct shop;

/* A socket that listens there, or one of the next two, and `why` says why. *port is the one that
 * was got, should it have been 0. */
enum { DOOR_NO_ADDRESS = -2, DOOR_NO_SOCKET = -1 };
int door_listen(const char *address, int *port, char *why, size_t why_size);

/* Open it on that socket, which then belongs to the door. patience_ms: how long a client may take
 * over sending a request. NULL: it cannot be opened. */
struct door *door_open(struct shop *shop, struct events *events, int listener, int64_t patience_ms);

/* Now and then: show clients out that are too slow. */
void door_look_after(struct door *door);

/* Nobody new comes in; those who are inside and ask again are told that it is closing. */
void door_shut(struct door *door);

/* Wait until all answers were given, then end. The shop must have finished. */
void door_close(struct door *door);

bool door_is_shut(const struct door *door);

/* Requests whose answer comes later: one more, or one less. */
void door_count(struct door *door, int change);

struct events *door_events(struct door *door);

/* Items that were asked for lately, for the metrics; how many. */
enum { DOOR_ITEMS_MAX = 16 };
void door_remember_item(struct door *door, const char *id);
size_t door_items(struct door *door, char ids_out[DOOR_ITEMS_MAX][65]);

#endif
