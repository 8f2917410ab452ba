/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCP forwarder on 127.0.0.1 whose target can be exchanged: the clients' address stays the same,
 * as it does behind a virtual address or a service name, while the server behind it becomes
 * another. It runs on a thread of its own.
 */
#ifndef FLASHSALE_UP_FORWARD_H
#define FLASHSALE_UP_FORWARD_H

struct forwarder;

/* NULL: there is no port, thread or memory for it; it has been said. */
struct forwarder *forwarder_open(int target_port);
int forwarder_port(const struct forwarder *forwarder);

/* Cuts all connections; from now on clients reach the other port. */
void forwarder_switch(struct forwarder *forwarder, int target_port);

/* NULL is harmless. */
void forwarder_close(struct forwarder *forwarder);

#endif
