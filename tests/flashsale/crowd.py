#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Thousands of orders at once: crowd.py --flashsale FILE"""

import sys
import time

import stage as stages
from stage import expect, expect_true, until

CASES, case = stages.cases()

# All connect before the first of them asks, and on a busy machine that takes a while.
PATIENT = ["--patience", "60s"]


@case
def three_thousand_wait_without_three_thousand_threads(stage):
    """All of them wait at the same time, because the first one takes its time inside."""
    redis = stage.redis()
    shop = stage.serve(redis, "--strategy", "pawl", "--wait", "60s", "--slow-at", "1:4s", *PATIENT)
    shop.put("10001", stock=3000)
    orders = stages.in_background(shop.order_at_once, 3000, "10001", 90)
    waiting = until(lambda: shop.metrics()["flashsale_waiting"] >= 2990, "nearly all wait")
    threads = shop.threads()
    expect_true(threads < 120, f"{threads} threads for 3,000 orders")
    expect_true(waiting, "they wait")
    expect(orders.result(90), {201: 3000}, "all are sold")
    expect(shop.item("10001"), {"item": "10001", "stock": 0, "initial": 3000, "sold": 3000}, "item")
    left = [record["remaining"] for record in stages.records(redis, "10001")]
    expect(left, list(range(2999, -1, -1)), "every piece once, in order")
    expect(shop.order("10001").status, 409, "one more")


@case
def two_instances_sell_exactly(stage):
    redis = stage.redis()
    shops = [stage.serve(redis, "--wait", "60s", *PATIENT) for _ in range(2)]
    for strategy in ("pawl", "pawl-handoff"):
        sell_with_two(redis, shops, strategy)


def sell_with_two(redis, shops, strategy):
    shops[0].put("10001", stock=500)
    runs = [stages.in_background(lambda s=shop: s.order_at_once(300, "10001", strategy=strategy))
            for shop in shops]
    statuses = {}
    for run in runs:
        for status, count in run.result(90).items():
            statuses[status] = statuses.get(status, 0) + count
    expect(statuses, {201: 500, 409: 100}, "statuses")
    left = [record["remaining"] for record in stages.records(redis, "10001")]
    expect(left, list(range(499, -1, -1)), "every piece once")
    ports = {record["port"] for record in stages.records(redis, "10001")}
    expect(ports, {shop.port for shop in shops}, "both have sold")


@case
def without_a_lock_the_same_piece_is_sold_again_and_again(stage):
    redis = stage.redis()
    shop = stage.serve(redis, "--work", "5ms", *PATIENT)
    for strategy, exact in (("none", False), ("process-mutex", True), ("atomic", True)):
        shop.put("10001", stock=100)
        sold = shop.order_at_once(100, "10001", strategy=strategy)
        expect(sold, {201: 100}, strategy)
        left = {record["remaining"] for record in stages.records(redis, "10001")}
        expect(len(left) == 100, exact, f"{strategy}: every piece once ({len(left)} of 100)")
        expect(shop.item("10001")["sold"], 100, f"{strategy}: records")


@case
def a_mutex_of_the_process_is_not_enough_for_two(stage):
    redis = stage.redis()
    shops = [stage.serve(redis, "--strategy", "process-mutex", "--work", "2ms", *PATIENT)
             for _ in range(2)]
    shops[0].put("10001", stock=200)
    runs = [stages.in_background(shop.order_at_once, 100, "10001") for shop in shops]
    for run in runs:
        expect(run.result(60), {201: 100}, "statuses")
    expect_true(shops[0].item("10001")["stock"] > 0, "200 were sold, and nothing is left over")


@case
def whoever_waits_too_long_is_told(stage):
    redis = stage.redis()
    for strategy in ("pawl", "pawl-handoff", "process-mutex"):
        shop = stage.serve(
            redis, "--strategy", strategy, "--wait", "300ms", "--slow-at", "1:4s")
        shop.put("10001", stock=10)
        first = stages.in_background(shop.order, "10001")
        until(lambda: "is inside" in shop.said(), "the first is inside")
        begin = time.monotonic()
        answer = shop.order("10001")
        expect((answer.status, answer.json["error"]), (503, "busy"), strategy)
        expect(answer.headers["Retry-After"], "1", "Retry-After")
        expect_true(0.25 < time.monotonic() - begin < 3, "it waits for --wait, not longer")
        expect(first.result(10).status, 201, "the slow one is sold")
        expect(shop.order("10001").json["remaining"], 8, "and nothing is lost")


@case
def not_to_wait_is_to_try_once(stage):
    shop = stage.serve(stage.redis(), "--wait", "0")
    for strategy in ("none", "process-mutex", "setnx-sleep", "renewed", "pawl", "split", "atomic"):
        shop.put("10001", stock=2)
        expect(shop.order("10001", strategy=strategy).status, 201, strategy)


if __name__ == "__main__":
    sys.exit(stages.run_all(CASES, __doc__))
