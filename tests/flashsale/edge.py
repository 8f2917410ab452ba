#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The edge: nginx shares the orders out, and says "sold out" by itself and only when it is true."""

import collections
import json
import os
import signal
import subprocess
import sys
import threading
import time

import stage as stages
from house import House, at_once, by_edge, run_all
from stage import expect, until

HERE = os.path.dirname(os.path.abspath(__file__))
COMPOSE = os.path.join(HERE, "../../apps/flashsale/compose.yaml")
CASES, case = stages.cases()


def put(client, **about):
    expect(client.ask("PUT", "/items/10001", about).status, 200, f"PUT {about}")


def stopped(pids):
    """As if they were not there: they take connections and do not answer."""
    class Stopped:
        def __enter__(self):
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)

        def __exit__(self, *_):
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
    return Stopped()


def same_but_for_the_speaker(answer):
    """What it says, without who says it."""
    return {**answer.json, "port": 0, "strategy": ""}


# ===== Balance =====

@case
def weights_are_one_to_two(stage):
    house = House(stage, "--edge")
    edge = house.edge()
    put(edge, stock=300)
    ports = collections.Counter(edge.order().json["port"] for _ in range(300))
    first, second = (row["port"] for row in house.about["instances"])
    # What else comes through (the PUT) is counted by nginx as well: one more or less.
    if abs(ports[first] - 100) > 1 or abs(ports[second] - 200) > 1:
        raise AssertionError(f"not 100 to 200: {ports}")


@case
def other_weights(stage):
    house = House(stage, "--edge", "--instances", "3", "--weights", "3:1", "--stock", "50")
    edge = house.edge()
    ports = collections.Counter(edge.order().json["port"] for _ in range(50))
    counts = [ports[row["port"]] for row in house.about["instances"]]
    if any(abs(count - wanted) > 1 for count, wanted in zip(counts, (30, 10, 10))):
        raise AssertionError(f"not 30, 10, 10: {counts}")


# ===== Sold out =====

@case
def sold_out_does_not_touch_the_shop(stage):
    house = House(stage, "--edge")
    edge = house.edge()
    put(edge, stock=1)
    expect(edge.order().status, 201, "the last piece")
    with stopped([row["pid"] for row in house.about["instances"]]):
        answer = edge.order()
    expect((answer.status, by_edge(answer)), (409, True), "when nothing is left")
    expect(answer.headers["Content-Type"], "application/json", "its type")


@case
def the_edge_says_it_as_the_shop_does(stage):
    house = House(stage, "--edge")
    edge, shop = house.edge(), house.shop()
    put(edge, stock=0)
    at_edge, at_shop = edge.order(), shop.order()
    expect((by_edge(at_edge), by_edge(at_shop)), (True, False), "who answers")
    expect(same_but_for_the_speaker(at_edge), same_but_for_the_speaker(at_shop), "the answer")
    expect(at_edge.json["port"], int(house.about["edge"].rpartition(":")[2]), "the edge's port")
    expect(at_edge.headers["Content-Type"], at_shop.headers["Content-Type"], "the type")


@case
def users_who_had_theirs(stage):
    house = House(stage, "--edge")
    edge, shop = house.edge(), house.shop()
    put(edge, stock=10, per_user=2)
    expect(edge.order(query="?user=u1&activity=a1").status, 201, "a first piece")
    first = edge.order(query="?user=u1&activity=a1&quantity=2")
    expect((first.status, by_edge(first)), (409, True), "two more")
    expect(edge.order(query="?user=u1&activity=a1").status, 201, "a second piece")
    at_edge = edge.order(query="?user=u1&activity=a1")
    at_shop = shop.order(query="?user=u1&activity=a1")
    expect((at_edge.status, by_edge(at_edge)), (409, True), "a third piece")
    expect(same_but_for_the_speaker(at_edge), same_but_for_the_speaker(at_shop), "the answer")
    expect(at_edge.json["error"] == "sold out", False, "pieces are left, so it is not sold out")
    expect(edge.order(query="?user=u1&activity=a2").status, 201, "another activity")
    expect(edge.order(query="?user=u2&activity=a1").status, 201, "another user")
    for query in ("", "?user=u1&user=u2", "?user=%20", "?user=u1&activity=a1&quantity=x"):
        expect(by_edge(edge.order(query=query)), False, f"who judges {query}")
    body = {"user": "u1", "activity": "a1"}
    answer = edge.ask("POST", "/items/10001/orders", body)
    expect((answer.status, by_edge(answer)), (409, False), "a body is the shop's to read")


@case
def nothing_but_orders_is_answered_by_the_edge(stage):
    house = House(stage, "--edge")
    edge = house.edge()
    put(edge, stock=0)
    expect(edge.ask("PUT", "/items/inventory001", {"stock": 0}).status, 200, "PUT")
    for method, path in (("GET", "/items/10001/orders"), ("GET", "/items/10001"),
                         ("GET", "/redis/distributed/lock/inventory/sale"),
                         ("GET", "/submitOrder"), ("POST", "/items/unknown/orders"),
                         ("POST", "/items/10001/orders/x"), ("GET", "/healthz")):
        expect(by_edge(edge.ask(method, path)), False, f"who answers {method} {path}")
    expect(edge.order("unknown").status, 404, "an item that is not there")


@case
def put_makes_it_sell_again_at_once(stage):
    edge = House(stage, "--edge").edge()
    for _ in range(20):
        put(edge, stock=1)
        expect(edge.order().status, 201, "the piece that was put")
        expect(by_edge(edge.order()), True, "the next order")


@case
def split_stock_is_summed(stage):
    house = House(stage, "--edge")
    edge = house.edge()
    put(edge, stock=3, segments=2)
    house.redis("set", "10001_0", "0")
    expect(by_edge(edge.order()), False, "one segment has pieces")
    house.redis("set", "10001_1", "0")
    expect(by_edge(edge.order()), True, "none has")
    house.redis("set", "10001_0", "-1")
    house.redis("set", "10001_1", "1")
    expect(by_edge(edge.order()), False, "a negative one does not eat the others' pieces")
    house.redis("set", "10001_1", "0")
    house.redis("rpush", "10001", "10001_2@1")
    expect(by_edge(edge.order()), False, "one lies on another server")
    house.redis("rpop", "10001")
    expect(by_edge(edge.order()), True, "and now it does not")
    house.redis("del", "10001_1")
    expect(by_edge(edge.order()), False, "a segment is missing")
    put(edge, stock=1)
    expect(edge.order().status, 201, "not split any more")


@case
def never_sold_out_while_a_piece_is_left(stage):
    """Rounds of buyers who stop at their first "sold out". If one of these came too early, a sale
    would begin after it, and in the end pieces would be left over."""
    house = House(stage, "--edge")
    edge = house.edge()
    for _ in range(6):
        put(edge, stock=60)
        events = []
        buyers = [threading.Thread(target=buy_until_sold_out, args=(house, events))
                  for _ in range(12)]
        for buyer in buyers:
            buyer.start()
        for buyer in buyers:
            buyer.join(60)
        sold = [event for event in events if event[0] == 201]
        refused = [event for event in events if event[0] == 409]
        expect((len(sold), len(refused)), (60, 12), "pieces sold, orders refused")
        expect(house.redis("get", "10001"), "0", "what is left")
        last_begin = max(begin for _, begin, _, _ in sold)
        for _, _, end, early in refused:
            if early and end < last_begin:
                raise AssertionError("sold out was said before the last sale had begun")
    expect(any(event[3] for event in refused), True, "some are answered by the edge")


def buy_until_sold_out(house, events):
    client = house.edge()
    while True:
        begin = time.monotonic()
        answer = client.order()
        events.append((answer.status, begin, time.monotonic(), by_edge(answer)))
        if answer.status != 201:
            return


# ===== Bad days =====

@case
def without_redis_it_lets_orders_through(stage):
    house = House(stage, "--edge", "--stock", "0", "--strategy", "none")
    edge = house.edge()
    expect(by_edge(edge.order()), True, "sold out")
    log = os.path.join(house.about["dir"], "nginx/error.log")
    with stopped([house.about["stock"]["pid"]]):
        for _ in range(3):
            answer = edge.order()
            expect((answer.status, by_edge(answer)), (503, False), "the shop's word")
    with open(log, encoding="utf-8") as file:
        expect(file.read().count("does not answer"), 1, "how often it is said")
    until(lambda: by_edge(edge.order()), "sold out again")


@case
def three_thousand_at_once(stage):
    house = House(stage, "--edge", "--stock", "3000", "--wait", "60s")
    status, printed, said = stage.run("load", "--at-once", "--requests", "3000", "--timeout", "60s",
                                      "--json", house.about["edge"], seconds=90)
    expect((status, said), (0, ""), f"load, which prints {printed}")
    expect(json.loads(printed)["sold"], 3000, f"orders that were sold: {printed}")
    status, printed, _ = stage.run("audit", "--redis", house.about["stock"]["url"], "--json")
    audit = json.loads(printed)
    expect((status, audit["exact"], audit["left"]), (0, True, 0), f"the audit: {printed}")
    expect(house.control("status"), "ok instances=2 deaths=0", "status")
    expect(house.said(), "", "complaints")


@case
def too_few_connections_are_noticed(stage):
    house = House(stage, "--edge", "--worker-connections", "64", "--stock", "1000")
    statuses = collections.Counter(at_once(house.about["edge"], 120))
    expect(statuses[201] < 120, True, f"some orders fail: {statuses}")
    until(lambda: "nginx had not connections enough" in house.said(), "a word about it")
    answer = house.control("status")
    expect("(nginx had not connections enough" in answer, True, answer)


# ===== For those who have Docker =====

@case
def compose_is_well_formed(stage):
    text = subprocess.run([yaml_python(), "-c", "import json, sys, yaml\n"
                           "print(json.dumps(yaml.safe_load(open(sys.argv[1]))))", COMPOSE],
                          capture_output=True, text=True, check=True).stdout
    services = json.loads(text)["services"]
    expect(sorted(services), ["edge", "lock1", "lock2", "lock3", "shop1", "shop2", "stock"],
           "the services")
    for number in (1, 2, 3):
        expect(services[f"lock{number}"]["ports"], [f"127.0.0.1:638{number}:638{number}"], "ports")
    expect(services["shop1"]["entrypoint"], services["shop2"]["entrypoint"], "the shops")
    for number, port in ((1, 3786), (2, 3787)):
        shop = services[f"shop{number}"]
        expect((shop["command"], shop["ports"]), ([f"--port={port}"], [f"127.0.0.1:{port}:{port}"]),
               "a port for each")
        upstream = services["edge"]["environment"]["EDGE_SERVERS"]
        expect(f"shop{number}:{port}" in upstream, True, "nginx knows it")
    words = services["shop1"]["entrypoint"][2:] + services["shop1"]["command"]
    expect_known_options(stage, [word.partition("=")[0] for word in words])
    expect_all_names_given(services["edge"]["environment"])


def yaml_python():
    """An interpreter that has the parser; Debian's has it as python3-yaml."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import yaml"], capture_output=True).returncode == 0:
            return python
    raise AssertionError("no YAML parser: apt-get install python3-yaml")


def expect_known_options(stage, names):
    text = stage.run("serve", "--help")[1]
    expect([name for name in names if name not in text], [], "options that serve does not know")


def expect_all_names_given(environment):
    template = os.path.join(HERE, "../../apps/flashsale/edge/nginx.conf.template")
    with open(template, encoding="utf-8") as file:
        wanted = {part.partition("}")[0] for part in file.read().split("${EDGE_")[1:]}
    expect(sorted(environment), sorted("EDGE_" + name for name in wanted), "the template's names")


if __name__ == "__main__":
    sys.exit(run_all(CASES, __doc__))
