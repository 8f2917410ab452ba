#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`flashsale up`: it starts, sells, mends what dies, strikes its faults, and leaves nothing."""

import http.client
import os
import signal
import socket
import sys

import stage as stages
from house import House, processes_of, run_all, runs
from stage import expect, expect_true, until

CASES, case = stages.cases()
FAILED_OVER = ("ok the lock server died while the lock was held, its replica, which did not know, "
               "has taken its place")


def expect_nothing_left(house):
    for pid in house.pids():
        expect(runs(pid), False, f"process {pid} runs on")
    expect(processes_of(house.about["dir"]), [], "processes that are left")


def expect_refusal(stage, arguments, status, sentence):
    """It says why not, and leaves nothing."""
    before = os.listdir(stage.directory)
    code, printed, said = stage.run("up", *arguments)
    expect((code, printed), (status, ""), f"up {arguments}, which says {said}")
    expect_true(sentence in said, f"up {arguments} does not say '{sentence}': {said}")
    expect(os.listdir(stage.directory), before, "what is in TMPDIR")


def tries_to_sell(client):
    """Whether an order was sold; the shop may be away."""
    try:
        return client.order().status == 201
    except (OSError, http.client.HTTPException):
        return False
    finally:
        client.close()


# ===== Beginning and end =====

@case
def starts_sells_and_leaves_nothing(stage):
    house = House(stage, "--edge", "--quorum", "3", "--replica", "--stock", "5")
    expect(house.shop(0).order().status, 201, "an order")
    expect(house.shop(1).order().status, 201, "an order at the other")
    expect(house.redis("get", "10001"), "3", "what is left")
    expect(house.redis("get", "inventory001"), "5", "stock of the aliases' item")
    expect(all(map(runs, house.pids())), True, "everything runs")
    expect(house.end(), 0, "exit status after Ctrl-C")
    expect_nothing_left(house)
    expect(os.path.exists(house.about["dir"]), False, "its directory is left")


@case
def a_terminal_that_is_closed_ends_it(stage):
    for number in (signal.SIGTERM, signal.SIGHUP):
        house = House(stage, "--instances", "1")
        expect(house.end(number), 0, f"exit status after signal {number}")
        expect_nothing_left(house)


@case
def ends_while_it_starts(stage):
    up = stage.start("up", "--base-port", "0", "--quorum", "9")
    started = until(lambda: children(up.pid), "a first server")
    up.signal(signal.SIGINT)
    expect((up.wait(), up.printed()), (0, ""), "exit status, and what it printed")
    expect([pid for pid in started if runs(pid)], [], "processes that are left")
    expect([name for name in os.listdir(stage.directory) if not name.startswith("up.")], [],
           "what is left in TMPDIR")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return [int(word) for word in file.read().split()]


@case
def dies_and_takes_all_with_it(stage):
    house = House(stage, "--edge", "--quorum", "1", "--replica")
    workers = children(house.about["nginx_pid"])
    expect(len(workers), 1, "nginx's workers")
    house.process.kill()
    house.process.wait()
    until(lambda: not any(map(runs, house.pids() + workers)), "all of them gone", 10)


@case
def wrong_command_lines_begin_nothing(stage):
    expect_refusal(stage, ["--instances", "0"], 64, "--instances takes a number from 1")
    expect_refusal(stage, ["--weights", "1:0"], 64, "--weights takes numbers")
    expect_refusal(stage, ["--strategy", "hope"], 64, "no strategy 'hope'; there are none, ")
    expect_refusal(stage, ["--base-port", "0", "--instances", "1", "--lease", "long"], 64,
                   "ended; what it said is above")
    expect_refusal(stage, ["--base-port", "65535"], 64, "--base-port leaves no room")
    expect_refusal(stage, ["--base-port", "0", "--strategy", "redlock5"], 64, "needs 5 lock")


@case
def a_missing_server_is_named_with_its_package(stage):
    stage.environment["PATH"] = "/nonexistent"
    expect_refusal(stage, [], 69, "apt-get install redis-server")


@case
def a_port_in_use_ends_it(stage):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        expect_refusal(stage, ["--instances", "1", "--base-port", str(port)], 69,
                       f"port {port} of 127.0.0.1 is in use")
        expect_refusal(stage, ["--base-port", "0", "--edge", "--edge-port", str(port)], 69,
                       f"port {port} of 127.0.0.1 is in use")


@case
def says_where_everything_is(stage):
    up = stage.start("up", "--base-port", "0", "--quorum", "1", "--replica", "--instances", "1")
    until(lambda: "Ctrl-C" in up.printed() or not up.runs(), "all of it")
    words = [line.split()[0] for line in up.printed().splitlines()]
    expect(words, ["shop", "stock", "locks", "quorum", "control", "Ctrl-C"], "the lines")


# ===== What dies =====

@case
def a_dead_shop_is_told_and_started_again(stage):
    house = House(stage, "--stock", "10")
    shop = house.about["instances"][0]
    os.kill(shop["pid"], signal.SIGKILL)
    until(lambda: f"the shop on port {shop['port']} died: signal 9" in house.said(), "a word")
    until(lambda: tries_to_sell(house.shop(0)), "an order at the new one")
    expect(house.control("status"), "ok instances=2 deaths=1", "status")


@case
def a_shop_that_dies_over_an_order_comes_back(stage):
    house = House(stage, "--stock", "10", "--lease", "1s", "--strategy", "pawl",
                  "--allow-faults")
    expect(house.shop(0).ask("POST", "/faults/die").status // 100, 2, "asking for it")
    expect(tries_to_sell(house.shop(0)), False, "an order over which it dies")
    until(lambda: house.control("status").endswith("deaths=1"), "the death")
    expect(house.shop(1).order().status, 201, "an order when the lease is over")


@case
def dead_servers_come_back(stage):
    house = House(stage, "--edge", "--stock", "3")
    os.kill(house.about["stock"]["pid"], signal.SIGKILL)
    os.kill(house.about["nginx_pid"], signal.SIGTERM)
    until(lambda: "the stock server died" in house.said(), "a word about it")
    until(lambda: "nginx on port" in house.said(), "a word about nginx")
    until(lambda: tries_to_sell(house.edge()), "an order")
    expect(house.redis("get", "10001"), "2", "what is left")


# ===== Faults of servers =====

@case
def redis_restarts_and_forgets_nothing(stage):
    house = House(stage, "--stock", "10", "--allow-faults")
    expect(house.shop().order().status, 201, "an order before")
    answer = house.control("redis-restart")
    expect(answer.startswith("ok the stock server was killed and is back"), True, answer)
    expect(runs(house.about["stock"]["pid"]), False, "the old server")
    expect(house.redis("get", "10001"), "9", "what is left")
    until(lambda: house.shop().order().status == 201, "an order after")
    answer = house.shop().ask("POST", "/faults/redis-restart")
    expect(answer.status // 100, 2, "the same through the shop")


@case
def one_of_three_lock_servers_is_down(stage):
    house = House(stage, "--stock", "100", "--quorum", "3", "--wait", "1s")
    shop = house.shop()
    for strategy in ("redlock", "pawl-multi"):
        expect(shop.order(query=f"?strategy={strategy}").status, 201, f"{strategy} before")
    expect(house.control("lock-server-up").split()[0], "error", "up when nothing is down")
    expect(house.control("lock-server-down"), "ok lock master 1 of 3 was killed", "down")
    expect(house.control("lock-server-down").split()[0], "error", "down twice")
    expect(shop.order(query="?strategy=redlock").status, 201, "redlock with one down")
    expect(shop.order(query="?strategy=pawl-multi").status, 503, "pawl-multi with one down")
    expect(house.control("lock-server-up"), "ok lock master 1 is back, with all it had",
           "up")
    until(lambda: shop.order(query="?strategy=pawl-multi").status == 201, "pawl-multi again")


@case
def the_lock_server_fails_over_and_forgets_the_lock(stage):
    house = House(stage, "--stock", "100", "--replica", "--strategy", "pawl", "--lease", "1s",
                  "--", "--work", "5s")
    lock_port = house.about["lock"].rpartition(":")[2]
    first, second = house.shop(0), house.shop(1)
    first.send_order()  # it holds the lock for five seconds
    until(lambda: house.redis("exists", "RedisDistributedLock", port=lock_port) == "1", "a lock")
    expect(house.control("failover"), FAILED_OVER, "failover")
    expect(runs(house.about["master"]["pid"]), False, "the old master runs")
    second.send_order()
    # Both had it at the same time, and both have sold the hundredth piece.
    for answer in (first.answer(), second.answer()):
        expect((answer.status, answer.json["remaining"]), (201, 99), "an order")


@case
def the_replica_has_a_replica(stage):
    house = House(stage, "--stock", "100", "--replica", "--strategy", "pawl", "--lease", "500ms")
    lock_port = house.about["lock"].rpartition(":")[2]
    for _ in range(2):
        answer = house.control("failover")
        expect_true(answer.startswith("ok the lock server died"), answer)
        expect(house.redis("role", port=lock_port).split()[0], "master", "who answers now")
        until(lambda: tries_to_sell(house.shop()), "an order afterwards")


@case
def what_the_readme_says_works_as_it_is_written(stage):
    """Without another option: the tutorials' addresses, and every fault but that of a replica."""
    house = House(stage, "--edge", "--allow-faults", "--stock", "5", quorum=None)
    edge = house.edge()
    for path in ("/redis/distributed/lock/inventory/sale", "/inventory/saleByRedisson",
                 "/inventory/saleByRedlock", "/submitOrder"):
        answer = edge.ask("GET", path)
        expect((answer.status, answer.text[:8]), (200, "sold one"), path)
    expect(edge.ask("GET", "/faults").json["allowed"],
           ["die", "stop", "slow", "redis-restart", "lock-server-down", "lock-server-up"], "faults")


@case
def faults_that_cannot_be_had_are_refused(stage):
    house = House(stage, "--instances", "1", "--quorum", "0")
    expect(house.control("earthquake").startswith("error no fault 'earthquake'"), True,
           "an unknown one")
    expect(house.control("failover"), "error there is no replica; start with --replica",
           "failover")
    expect(house.control("lock-server-down"),
           "error there is no quorum; start with --quorum 3", "lock-server-down")


if __name__ == "__main__":
    sys.exit(run_all(CASES, __doc__))
