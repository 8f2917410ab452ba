/* SPDX-License-Identifier: Apache-2.0 */
/* Servers and clients for the tests of quorum locks. */
#include "nodes.h"

#include "support/process.h"

#include <stdio.h>

/* If it is durable, it has been so for long. */
static void make_old(struct server *server)
{
    free(server_command(server, "SET pawl_seen:durable 1000"));
}

void nodes_start(struct nodes *nodes, size_t count, bool proxied)
{
    memset(nodes, 0, sizeof *nodes);
    nodes->count = count;
    for (size_t i = 0; i < count; i++) {
        nodes->servers[i] = server_start(NULL);
        make_old(nodes->servers[i]);
        nodes->proxies[i] = proxied ? proxy_start_for(nodes->servers[i]) : NULL;
    }
}

void nodes_resume(const struct nodes *nodes)
{
    for (size_t i = 0; i < NODES_MAX && nodes->servers[i] != NULL; i++) {
        if (process_is_alive(server_pid(nodes->servers[i]))) {
            server_resume(nodes->servers[i]);
        }
    }
}

void nodes_reset(struct nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++) {
        if (!process_is_alive(server_pid(nodes->servers[i]))) {
            server_restart(nodes->servers[i], false);
        }
        server_resume(nodes->servers[i]);
        free(server_command(nodes->servers[i], "FLUSHALL"));
        make_old(nodes->servers[i]);
    }
}

void party_connect(struct party *party, const struct nodes *nodes, const char *query)
{
    memset(party, 0, sizeof *party);
    party->count = nodes->count;
    for (size_t i = 0; i < nodes->count; i++) {
        char url[256];
        const char *base = nodes->proxies[i] != NULL ? proxy_url(nodes->proxies[i])
                                                     : server_url(nodes->servers[i]);
        snprintf(url, sizeof url, "%s%s", base, query != NULL ? query : "?durable=1");
        assert_ok(pawl_client_open(url, NULL, &party->clients[i]));
    }
}

void party_open(struct party *party, const struct nodes *nodes, const char *query,
    const pawl_lock_options *options)
{
    party_connect(party, nodes, query);
    assert_ok(pawl_lock_open_quorum(party->clients, party->count, NAME, options, &party->lock));
}

void party_close(struct party *party)
{
    pawl_lock_close(party->lock);
    for (size_t i = 0; i < party->count; i++) {
        pawl_client_close(party->clients[i]);
    }
    memset(party, 0, sizeof *party);
}

size_t nodes_with_key(const struct nodes *nodes, const char *key)
{
    size_t found = 0;
    for (size_t i = 0; i < nodes->count; i++) {
        const pid_t pid = server_pid(nodes->servers[i]);
        if (process_is_alive(pid) && process_state(pid) != 'T') {
            found += server_integer(nodes->servers[i], "EXISTS %s", key) == 1 ? 1 : 0;
        }
    }
    return found;
}

size_t nodes_holding(const struct nodes *nodes)
{
    return nodes_with_key(nodes, NAME);
}

static void await_longer(struct server *server)
{
    int64_t before_ms = 0;
    int64_t left_ms = server_integer(server, "PTTL " NAME);
    const int64_t end_ms = boottime_ms() + 15000;
    do {
        before_ms = left_ms;
        nap_ms(1);
        left_ms = server_integer(server, "PTTL " NAME);
    } while (left_ms <= before_ms && boottime_ms() < end_ms);
    assert_true(left_ms > before_ms);
}

void nodes_await_renewal(const struct nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++) {
        await_longer(nodes->servers[i]); /* this one may have been sent before, */
        await_longer(nodes->servers[i]); /* but not this one */
    }
}
