/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The little of TCP and HTTP that `flashsale up` needs: free ports, and a question to a shop.
 */
#ifndef FLASHSALE_UP_NET_H
#define FLASHSALE_UP_NET_H

#include <stdbool.h>
#include <stdint.h>

/* A port of 127.0.0.1 that was free a moment ago; 0: there is none. */
int net_free_port(void);

/* A listening socket on 127.0.0.1; port 0 takes a free one. -1: it cannot be had, errno says why.
 */
int net_listen(int port, int *port_out);

/* A connection to 127.0.0.1, or -1. */
int net_connect(int port);

/* One HTTP request; the status of the answer, or 0 if there was none within 2 s. */
int net_ask(int port, const char *method, const char *path, const char *body);

#endif
