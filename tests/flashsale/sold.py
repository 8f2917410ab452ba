#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the strategies sell on a good day, and the tutorials' own procedures: sold.py --flashsale
FILE"""

import re
import sys
import threading

import stage as stages
from books import (ITEM, LOCK, audit, expect_exact, expect_twice, for_each, inside, lease_left,
                   order_later, owner)
from stage import expect, expect_true, until

CASES, case = stages.cases()

# Those that sell every piece once as long as nothing goes wrong, however long they take over it.
FINE = ["setnx-recursive", "setnx-sleep", "setnx-spin", "setnx-expire", "set-nx-ex", "owner-check",
        "owner-shared", "lua-release", "reentrant", "renew-ownerless", "renewed", "pawl",
        "pawl-handoff", "pawl-fair", "pawl-multi", "redlock", "redlock5", "pawl-fenced", "split",
        "atomic"]
FLAWED = ["none", "process-mutex", "setnx-once", "reentry-flag", "renew-inline"]


def order_from_all(shops, count, **query):
    """As many orders at once from each instance; how often each status came."""
    answers = stages.together(len(shops), lambda i: shops[i].order_at_once(count, ITEM, **query))
    statuses = {}
    for answer in answers:
        for status, times in answer.items():
            statuses[status] = statuses.get(status, 0) + times
    return statuses


def two(stage, *arguments):
    redis = stage.redis()
    return redis, [stage.serve(redis, *arguments) for _ in range(2)]


# ===== Every strategy =====

@case
def every_strategy_is_known_with_its_flaw(stage):
    shop = stage.serve(stage.redis())
    rows = shop.ask("/strategies").json
    expect(sorted(row["name"] for row in rows), sorted(FINE + FLAWED), "names")
    for row in rows:
        expect_true(row["title"], f"{row['name']}: its title")
        expect(row["flaw"] is None, row["sound"], f"{row['name']}: sound, or a flaw")
    expect([row["name"] for row in rows if row["sound"]], ["pawl-fenced", "split", "atomic"],
           "those that stand every fault")


@case
def two_instances_sell_every_piece_once(stage):
    quorum = ",".join(stage.redis().url() for _ in range(5))
    redis, shops = two(stage, "--lease", "1s", "--wait", "30s", "--quorum", quorum)
    for strategy in FINE:
        stock = 12 if strategy == "setnx-recursive" else 40
        shops[0].put(ITEM, stock=stock)
        statuses = order_from_all(shops, stock // 2 + 5, strategy=strategy)
        expect(statuses, {201: stock, 409: 10}, f"{strategy}: answers")
        books = audit(stage, redis)
        expect_exact(books, strategy, sold=stock)
        expect(len(books.ports), 2, f"{strategy}: instances that sold")
        redis.cli("flushdb", db=1)  # renew-ownerless would keep locks of the next one alive


@case
def an_order_for_several_pieces_takes_them_together(stage):
    redis, shops = two(stage, "--wait", "10s")
    for strategy in ("renewed", "pawl", "pawl-fenced", "split", "atomic"):
        shops[0].put(ITEM, stock=50)
        expect(order_from_all(shops, 10, strategy=strategy, quantity=3), {201: 16, 409: 4},
               f"{strategy}: answers")
        expect_exact(audit(stage, redis), strategy, sold=48)


@case
def the_fair_lock_serves_in_the_order_of_arrival(stage):
    redis, (one, other) = two(stage, "--strategy", "pawl-fair", "--wait", "20s")
    slow = stage.serve(redis, "--strategy", "pawl-fair", "--slow-at", "1:5s")
    one.put(ITEM, stock=50)
    orders = [order_later(slow)]
    inside(slow)
    for number, shop in enumerate((one, other, other, one, other, one)):
        orders.append(order_later(shop))
        until(lambda n=number: int(redis.cli("llen", f"redisson_lock_queue:{{{LOCK}}}", db=1)) == n
              + 1, "it stands in the queue")
    expect([order.result().status for order in orders], [201] * 7, "answers")
    expect([record["port"] for record in stages.records(redis, ITEM)],
           [shop.port for shop in (slow, one, other, other, one, other, one)], "who sold, in turn")


@case
def the_lock_may_live_elsewhere(stage):
    locks = stage.redis()
    redis = stage.redis()
    for url in (locks.url(3), f"file://{stage.directory}/locks"):
        shops = [stage.serve(redis, "--strategy", "pawl", "--lock", url) for _ in range(2)]
        shops[0].put(ITEM, stock=30)
        for strategy in ("pawl", "pawl-fenced", "split"):
            shops[0].put(ITEM, stock=30)
            statuses = order_from_all(shops, 20, strategy=strategy)
            expect(statuses, {201: 30, 409: 10}, f"{strategy} on {url}")
            expect_exact(audit(stage, redis), f"{strategy} on {url}", sold=30)
    expect(redis.cli("keys", "*", db=1), "", "locks on the stock's server")


# ===== The tutorials' procedures =====

@case
def three_customers_without_a_lock_all_see_49(stage):
    redis, shops = two(stage, "--strategy", "none", "--work", "1500ms")
    shops[0].put(ITEM, stock=50)
    answers = stages.together(3, lambda i: shops[i % 2].order(ITEM))
    expect([(answer.status, answer.json["remaining"]) for answer in answers], [(201, 49)] * 3,
           "answers")
    expect_twice(audit(stage, redis), 49, [shops[0].port, shops[1].port, shops[0].port], "none")


@case
def a_process_mutex_is_enough_for_one_instance_and_not_for_two(stage):
    redis, shops = two(stage, "--strategy", "process-mutex", "--wait", "20s", "--work", "1ms")
    shops[0].put(ITEM, stock=200)
    expect(shops[0].order_at_once(200, ITEM), {201: 200}, "one instance")
    books = audit(stage, redis)
    expect_exact(books, "one instance", sold=200)
    expect(books.left, 0, "left")
    shops[0].put(ITEM, stock=200)
    expect(order_from_all(shops, 100), {201: 200}, "two instances")
    books = audit(stage, redis)
    expect_true(books.left > 0 and books.duplicates, f"two instances oversell: {books}")


def watch_commands(stage, redis):
    """Everything that Redis is told from now on: a process whose output grows."""
    monitor = stages.Process(stage, "monitor", ["redis-cli", "-p", str(redis.port), "monitor"])
    until(lambda: "OK" in monitor.printed(), "the monitor listens")
    return monitor


def told(monitor, words):
    """When Redis was told this about the lock, in seconds."""
    rows = [row for row in monitor.printed().split("\n")
            if re.search(rf'"({words})".* "{LOCK}"', row, re.IGNORECASE)]
    return [float(row.split(" ")[0]) for row in rows]


@case
def an_order_of_four_leases_is_renewed_every_third_and_not_after(stage):
    def holds(stage, strategy):
        redis = stage.redis()
        slow = stage.serve(redis, "--strategy", strategy, "--lease", "1800ms",
                           "--slow-at", "1:7200ms")
        other = stage.serve(redis, "--strategy", strategy, "--lease", "1800ms", "--wait", "20s")
        slow.put(ITEM, stock=50)
        monitor = watch_commands(stage, redis)
        first = order_later(slow)
        inside(slow)
        holder = owner(redis)
        second = order_later(other)
        while not first.done():
            expect_true(owner(redis) == holder or first.done(), f"{strategy}: held to the end")
            threading.Event().wait(0.1)
        expect((first.result().status, second.result().status), (201, 201), f"{strategy}: answers")
        expect_exact(audit(stage, redis), strategy, sold=2)
        return redis, monitor

    def check(stage, strategy):
        redis, monitor = holds(stage, strategy)
        until(lambda: lease_left(redis) == -2, f"{strategy}: nobody holds the lock")
        times = told(monitor, "p?expire")
        gaps = [later - earlier for earlier, later in zip(times, times[1:])][:-1]
        expect_true(9 <= len(gaps) <= 13, f"{strategy}: renewed {len(gaps)} times in 12 thirds")
        expect_true(max(gaps) < 1.2, f"{strategy}: late renewals: {gaps}")
        redis.cli("set", LOCK, "another", "px", "60000", db=1)
        scripts = told(monitor, "eval|evalsha")
        until(lambda: lease_left(redis) < 58600, "two more thirds have passed")
        expect(told(monitor, "eval|evalsha"), scripts, f"{strategy}: scripts after the release")

    for_each(stage, ["renewed", "pawl"], check)


if __name__ == "__main__":
    sys.exit(stages.run_all(CASES, __doc__))
