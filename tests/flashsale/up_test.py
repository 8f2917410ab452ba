#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`flashsale up`: it starts, sells, mends what dies, strikes its faults, and leaves nothing."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time

from house import House, expect, processes_of, runs, until
import stage

CASES = []


def case(function):
    CASES.append(function)
    return function


def expect_nothing_left(house):
    for pid in house.pids():
        expect(runs(pid), False, f"process {pid} runs on")
    expect(processes_of(house.about["dir"]), [], "processes that are left")


def expect_refusal(program, arguments, status, sentence, **options):
    run = subprocess.run([program, "up", *arguments], capture_output=True, text=True, timeout=30,
                         **options)
    expect(run.returncode, status, f"exit status of up {arguments}")
    if sentence not in run.stderr:
        raise AssertionError(f"up {arguments} does not say '{sentence}': {run.stderr}")


# ===== Beginning and end =====

@case
def starts_sells_and_leaves_nothing(program):
    with House(program, "--edge", "--quorum", "3", "--replica", "--stock", "5") as house:
        expect(house.shop(0).order().status, 201, "an order")
        expect(house.shop(1).order().status, 201, "an order at the other")
        expect(house.redis("get", "10001"), "3", "what is left")
        expect(house.redis("get", "inventory001"), "5", "stock of the aliases' item")
        expect(all(map(runs, house.pids())), True, "everything runs")
        expect(house.end(), 0, "exit status after Ctrl-C")
        expect_nothing_left(house)
        expect(os.listdir(house.directory), ["stderr"], "what is left in TMPDIR")


@case
def a_terminal_that_is_closed_ends_it(program):
    for number in (signal.SIGTERM, signal.SIGHUP):
        with House(program, "--instances", "1") as house:
            expect(house.end(number), 0, f"exit status after signal {number}")
            expect_nothing_left(house)


@case
def ends_while_it_starts(program):
    house = House.__new__(House)  # without waiting for its announcement
    command = [program, "up", "--base-port", "0", "--quorum", "9"]
    house.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    until(lambda: [pid for pid in children(house.process.pid)], "a first server")
    started = children(house.process.pid)
    house.process.send_signal(signal.SIGINT)
    expect(house.process.wait(20), 0, "exit status")
    expect(house.process.stdout.read(), b"", "its announcement")
    expect([pid for pid in started if runs(pid)], [], "processes that are left")
    house.process.stdout.close()


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return [int(word) for word in file.read().split()]


@case
def dies_and_takes_all_with_it(program):
    with House(program, "--edge", "--quorum", "1", "--replica") as house:
        workers = children(house.about["nginx_pid"])
        expect(len(workers), 1, "nginx's workers")
        house.process.kill()
        house.process.wait()
        until(lambda: not any(map(runs, house.pids() + workers)), "all of them gone", 10)


@case
def wrong_command_lines_begin_nothing(program):
    expect_refusal(program, ["--instances", "0"], 64, "--instances takes a number from 1")
    expect_refusal(program, ["--weights", "1:0"], 64, "--weights takes numbers")
    expect_refusal(program, ["--strategy", "hope"], 64, "no strategy 'hope'")
    expect_refusal(program, ["--base-port", "65535"], 64, "--base-port leaves no room")


@case
def a_missing_server_is_named_with_its_package(program):
    expect_refusal(program, [], 69, "apt-get install redis-server", env={"PATH": "/nonexistent"})


@case
def a_port_in_use_ends_it(program):
    with socket.socket() as other, House(program, "--instances", "1") as house:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        expect_refusal(program, ["--instances", "1", "--base-port", str(port)], 69,
                       f"the shop does not start on port {port}",
                       env={**os.environ, "TMPDIR": house.directory})
        left = [name for name in os.listdir(house.directory)
                if name not in ("stderr", os.path.basename(house.about["dir"]))]
        expect(left, [], "what is left in TMPDIR")


@case
def says_where_everything_is(program):
    process = subprocess.Popen(
        [program, "up", "--base-port", "0", "--quorum", "1", "--replica", "--instances", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        lines = [process.stdout.readline() for _ in range(6)]
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
    for line, word in zip(lines, ("shop", "stock", "locks", "quorum", "control", "Ctrl-C")):
        expect(line.split()[0], word, f"the line {line!r}")


# ===== What dies =====

@case
def a_dead_shop_is_told_and_started_again(program):
    with House(program, "--stock", "10") as house:
        shop = house.about["instances"][0]
        os.kill(shop["pid"], signal.SIGKILL)
        until(lambda: f"the shop on port {shop['port']} died: signal 9" in house.said(), "a word")

        def sells():
            try:
                return house.shop(0).order().status == 201
            except (OSError, http.client.HTTPException):
                return False
        until(sells, "an order at the new one")
        expect(house.control("status"), "ok instances=2 deaths=1", "status")


@case
def a_shop_that_dies_over_an_order_comes_back(program):
    with House(program, "--stock", "10", "--lease", "1s", "--strategy", "pawl",
               "--allow-faults") as house:
        expect(house.shop(0).ask("POST", "/faults/die").status // 100, 2, "asking for it")
        try:
            house.shop(0).order()
            raise AssertionError("the shop lives")
        except (OSError, http.client.HTTPException):
            pass
        until(lambda: house.control("status").endswith("deaths=1"), "the death")
        expect(house.shop(1).order().status, 201, "an order when the lease is over")


@case
def dead_servers_come_back(program):
    with House(program, "--edge", "--stock", "3") as house:
        os.kill(house.about["stock"]["pid"], signal.SIGKILL)
        os.kill(house.about["nginx_pid"], signal.SIGTERM)
        until(lambda: "the stock server died" in house.said(), "a word about it")
        until(lambda: "nginx on port" in house.said(), "a word about nginx")

        def sells():
            try:
                return house.edge().order().status == 201
            except (OSError, http.client.HTTPException):
                return False
        until(sells, "an order")
        expect(house.redis("get", "10001"), "2", "what is left")


# ===== Faults of servers =====

@case
def redis_restarts_and_forgets_nothing(program):
    with House(program, "--stock", "10", "--allow-faults") as house:
        expect(house.shop().order().status, 201, "an order before")
        answer = house.control("redis-restart")
        expect(answer.startswith("ok the stock server was killed and is back"), True, answer)
        expect(runs(house.about["stock"]["pid"]), False, "the old server")
        expect(house.redis("get", "10001"), "9", "what is left")
        until(lambda: house.shop().order().status == 201, "an order after")
        answer = house.shop().ask("POST", "/faults/redis-restart")
        expect(answer.status // 100, 2, "the same through the shop")


@case
def one_of_three_lock_servers_is_down(program):
    with House(program, "--stock", "100", "--quorum", "3", "--wait", "1s") as house:
        shop = house.shop()
        for strategy in ("redlock", "pawl-multi"):
            expect(shop.order(query=f"?strategy={strategy}").status, 201, f"{strategy} before")
        expect(house.control("lock-server-up").split()[0], "error", "up when nothing is down")
        expect(house.control("lock-server-down"), "ok lock master 1 of 3 was killed", "down")
        expect(house.control("lock-server-down").split()[0], "error", "down twice")
        expect(shop.order(query="?strategy=redlock").status, 201, "redlock with one down")
        expect(shop.order(query="?strategy=pawl-multi").status, 503, "pawl-multi with one down")
        expect(house.control("lock-server-up"), "ok lock master 1 is back, and empty", "up")
        until(lambda: shop.order(query="?strategy=pawl-multi").status == 201, "pawl-multi again")


@case
def the_lock_server_fails_over_and_forgets_the_lock(program):
    with House(program, "--stock", "100", "--replica", "--strategy", "pawl", "--lease", "2s",
               "--", "--work", "3s") as house:
        lock_port = house.about["lock"].rpartition(":")[2]
        shop = house.shop(timeout=30)
        shop.link.request("POST", "/items/10001/orders")  # holds the lock for three seconds
        until(lambda: house.redis("exists", "RedisDistributedLock", port=lock_port) == "1", "a lock")
        begin = time.monotonic()
        answer = house.control("failover")
        expect(answer.startswith("ok the lock server died"), True, answer)
        expect(runs(house.about["master"]["pid"]), False, "the old master")
        expect(house.redis("role", port=lock_port).split()[0], "master", "who answers now")
        expect("master" in house.about and time.monotonic() - begin < 10, True, "soon")
        shop.link.getresponse().read()
        answer = house.control("failover")  # the replica has a replica
        expect(answer.startswith("ok the lock server died"), True, answer)
        until(lambda: shop.order().status == 201, "an order afterwards")


@case
def faults_that_cannot_be_had_are_refused(program):
    with House(program, "--instances", "1") as house:
        expect(house.control("earthquake").startswith("error no fault 'earthquake'"), True,
               "an unknown one")
        expect(house.control("failover"), "error there is no replica; start with --replica",
               "failover")
        expect(house.control("lock-server-down"),
               "error there is no quorum; start with --quorum 3", "lock-server-down")


if __name__ == "__main__":
    sys.exit(stage.run_all(CASES, __doc__))
