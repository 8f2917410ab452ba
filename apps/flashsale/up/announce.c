/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where everything is, on stdout: for people, or as one line of JSON for scripts.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "up/house.h"

static json_t *url_of(const char *scheme, int port)
{
    return json_sprintf("%s://127.0.0.1:%d", scheme, port);
}

static json_t *describe_server(const struct server *server)
{
    return json_pack("{s:o, s:i, s:i}", "url", url_of("redis", server->port), "port", server->port,
        "pid", (int)server->process.pid);
}

static json_t *describe_shop(const struct shop_process *shop)
{
    return json_pack("{s:o, s:i, s:i}", "url", url_of("http", shop->port), "port", shop->port,
        "pid", (int)shop->process.pid);
}

static void announce_json(const struct house *house)
{
    json_t *shops = json_array();
    for (int i = 0; i < house->settings.instances; i++) {
        json_array_append_new(shops, describe_shop(&house->shops[i]));
    }
    json_t *quorum = json_array();
    for (int i = 0; i < house->settings.quorum; i++) {
        json_t *master = describe_server(&house->quorum[i]);
        json_object_set_new(master, "url", json_sprintf(QUORUM_URL, house->quorum[i].port));
        json_array_append_new(quorum, master);
    }
    json_t *all =
        json_pack("{s:s, s:s, s:o, s:o, s:o}", "dir", house->dir, "control", house->control_path,
            "stock", describe_server(&house->stock), "instances", shops, "quorum", quorum);
    if (house->forwarder) {
        json_object_set_new(all, "lock", url_of("redis", forwarder_port(house->forwarder)));
        json_object_set_new(all, "master", describe_server(&house->pair[0]));
        json_object_set_new(all, "replica", describe_server(&house->pair[1]));
    }
    if (house->settings.edge) {
        json_object_set_new(all, "edge", url_of("http", house->nginx.port));
        json_object_set_new(all, "nginx_pid", json_integer(house->nginx.process.pid));
    }
    json_dumpf(all, stdout, JSON_COMPACT);
    printf("\n");
    json_decref(all);
}

static void announce_text(const struct house *house)
{
    for (int i = 0; i < house->settings.instances; i++) {
        printf("shop       http://127.0.0.1:%d/\n", house->shops[i].port);
    }
    if (house->settings.edge) {
        printf("edge       http://127.0.0.1:%d/  (weights %s)\n", house->nginx.port,
            house->settings.weights);
    }
    printf("stock      redis://127.0.0.1:%d/0  (flashsale audit --redis ...)\n", house->stock.port);
    if (house->forwarder) {
        printf("locks      redis://127.0.0.1:%d/0  (a replica follows)\n",
            forwarder_port(house->forwarder));
    }
    for (int i = 0; i < house->settings.quorum; i++) {
        printf("quorum %-3d " QUORUM_URL "\n", i + 1, house->quorum[i].port);
    }
    printf("control    %s\n", house->control_path);
    printf("Ctrl-C ends all of it.\n");
}

void house_announce(const struct house *house)
{
    if (house->settings.json) {
        announce_json(house);
    } else {
        announce_text(house);
    }
    fflush(stdout);
}
