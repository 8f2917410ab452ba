#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""flashsale audit, on books that the cases write themselves and on those of a shop: what it finds,
and what it says."""

import json
import sys

import stage as stages
from stage import expect, expect_true

CASES, case = stages.cases()

EXACT, WRONG, USAGE, UNAVAILABLE = 0, 1, 64, 69


def record(remaining, port=3786, quantity=1, key="10001"):
    return json.dumps({"item": "10001", "segment": key, "quantity": quantity,
                       "remaining": remaining, "port": port, "strategy": "none", "user": "",
                       "activity": "", "at_ms": 1, "token": 0})


def write(redis, stock, records, key="10001"):
    redis.cli("set", key, stock)
    if records:
        redis.cli("rpush", f"orders:{key}", *records)


def audit(stage, redis, *arguments, status=EXACT):
    """The result as JSON; the sentences must agree with it."""
    arguments = ["--redis", redis.url(), *arguments]
    code, out, said = stage.run("audit", *arguments, "--json")
    expect(code, status, f"exit status of {arguments}: {out}{said}")
    text_code, text, _ = stage.run("audit", *arguments)
    expect(text_code, status, f"exit status without --json: {text}")
    result = json.loads(out)
    expect("exact\n" in text, result["exact"], f"exact in the sentences {text!r}")
    expect("OVERSOLD" in text, result["oversold"] > 0, f"oversold in the sentences {text!r}")
    return result, text


@case
def sold_exactly(stage):
    redis = stage.redis()
    redis.cli("set", "initial:10001", 50)
    write(redis, 45, [record(49), record(48, 3787), record(45, 3787, quantity=3)])
    result, text = audit(stage, redis)
    expect(result, {"item": "10001", "initial": 50, "sold": 5, "orders": 3, "left": 45,
                    "oversold": 0, "missing": 0, "unreadable": 0, "unordered": 0, "segments": 0,
                    "duplicates": [], "ports": {"3786": 1, "3787": 2}, "negative": False,
                    "exact": True}, "result")
    expect_true("3786: 1, 3787: 2" in text, f"ports in {text!r}")


@case
def nothing_sold_is_exact(stage):
    redis = stage.redis()
    redis.cli("set", "initial:10001", 50)
    write(redis, 50, [])
    expect(audit(stage, redis)[0]["orders"], 0, "orders")


@case
def three_that_all_saw_49(stage):
    redis = stage.redis()
    redis.cli("set", "initial:10001", 50)
    write(redis, 49, [record(49, 3786), record(49, 3787), record(49, 3786)])
    result, text = audit(stage, redis, status=WRONG)
    expect((result["sold"], result["oversold"]), (3, 2), "sold and oversold")
    expect(result["duplicates"],
           [{"key": "10001", "remaining": 49, "times": 3, "ports": [3786, 3787]}], "duplicates")
    expect_true("3 orders left 49 behind, by port 3786, 3787" in text, f"who did it, in {text!r}")


@case
def more_sold_than_there_was(stage):
    redis = stage.redis()
    redis.cli("set", "initial:10001", 2)
    write(redis, -1, [record(1), record(0), record(-1)])
    result, _ = audit(stage, redis, status=WRONG)
    expect((result["negative"], result["oversold"], result["sold"]), (True, 0, 3), "below 0")


@case
def a_stock_that_was_negative_is_found_in_the_records(stage):
    redis = stage.redis()
    redis.cli("set", "initial:10001", 1)
    write(redis, 0, [record(-1, quantity=2), record(0, quantity=-1)])
    expect(audit(stage, redis, status=WRONG)[0]["negative"], True, "negative")


@case
def pieces_that_vanished(stage):
    redis = stage.redis()
    redis.cli("set", "initial:10001", 10)
    write(redis, 7, [record(9)])
    result, _ = audit(stage, redis, status=WRONG)
    expect((result["missing"], result["oversold"]), (2, 0), "missing")


@case
def a_stale_write_is_out_of_order(stage):
    redis = stage.redis()
    redis.cli("set", "initial:10001", 50)
    write(redis, 47, [record(49), record(46, quantity=2), record(47, quantity=0)])
    result, text = audit(stage, redis, status=WRONG)
    expect((result["unordered"], result["oversold"]), (1, 0), "out of order")
    expect_true("OUT OF ORDER" in text, text)


@case
def records_that_are_no_orders(stage):
    redis = stage.redis()
    redis.cli("set", "initial:10001", 50)
    write(redis, 49, [record(49), "soup", '{"remaining":"49"}'])
    result, _ = audit(stage, redis, status=WRONG)
    expect((result["unreadable"], result["orders"], result["sold"]), (2, 3, 1), "unreadable")


@case
def segments_on_two_servers(stage):
    redis, further = stage.redis(), stage.redis()
    redis.cli("set", "initial:10001", 100)
    redis.cli("rpush", "10001", "10001_0", "10001_1@1")
    write(redis, 49, [record(49, key="10001_0")], "10001_0")
    write(further, 48, [record(49, 3787, key="10001_1"), record(48, 3787, key="10001_1")],
          "10001_1")
    result, _ = audit(stage, redis, "--segments-on", further.url())
    expect((result["segments"], result["sold"], result["left"], result["ports"]),
           (2, 3, 97, {"3786": 1, "3787": 2}), "both")
    code, _, said = stage.run("audit", "--redis", redis.url())
    expect(code, UNAVAILABLE, "without the further server")
    expect_true("--segments-on" in said, said)


@case
def the_same_number_in_two_segments_is_no_duplicate(stage):
    redis = stage.redis()
    redis.cli("set", "initial:10001", 100)
    redis.cli("rpush", "10001", "10001_0", "10001_1")
    write(redis, 49, [record(49)], "10001_0")
    write(redis, 49, [record(49)], "10001_1")
    expect(audit(stage, redis)[0]["duplicates"], [], "duplicates")


@case
def many_orders_are_read_in_portions(stage):
    redis = stage.redis()
    count = 4100  # more than two portions
    redis.cli("set", "initial:10001", count)
    for begin in range(0, count, 500):
        end = min(begin + 500, count)
        write(redis, count - end, [record(count - 1 - i) for i in range(begin, end)])
    result, _ = audit(stage, redis)
    expect((result["orders"], result["left"]), (count, 0), "all of them")
    redis.cli("rpush", "orders:10001", record(0))
    expect(audit(stage, redis, status=WRONG)[0]["duplicates"][0]["remaining"], 0, "the last one")


@case
def another_item(stage):
    redis = stage.redis()
    redis.cli("set", "initial:x-1", 5)
    write(redis, 5, [], "x-1")
    expect(audit(stage, redis, "--item", "x-1")[0]["item"], "x-1", "item")


@case
def another_database(stage):
    redis = stage.redis()
    shop = stage.serve(redis, "--redis", redis.url(3))
    shop.put("10001", stock=5)
    expect(shop.order("10001").status, 201, "an order")
    code, out, said = stage.run("audit", "--redis", redis.url(3))
    expect((code, out.splitlines()[0]), (0, "item 10001: 5 pieces, 1 orders, 1 sold, 4 left"), said)
    expect(stage.run("audit", "--redis", redis.url())[0], UNAVAILABLE, "database 0 has no item")


@case
def what_a_shop_has_sold_from_segments_on_two_servers(stage):
    redis, further = stage.redis(), stage.redis()
    shop = stage.serve(redis, "--segments-on", further.url())
    code, out, said = stage.run("load", "--stock", "100", "--segments", "4", "--strategy", "split",
                                "--clients", "16", "--requests", "120", shop.url)
    expect(code, 0, f"load: {out}{said}")
    result, _ = audit(stage, redis, "--segments-on", further.url())
    expect((result["segments"], result["sold"], result["left"], result["ports"]),
           (4, 100, 0, {str(shop.port): 100}), "result")


@case
def what_a_shop_without_a_lock_has_sold_twice(stage):
    redis = stage.redis()
    shops = [stage.serve(redis, "--strategy", "none", "--work", "20ms") for _ in range(2)]
    shops[0].put("10001", stock=50)
    stage.run("load", "--at-once", "--requests", "10", *(shop.url for shop in shops))
    result, _ = audit(stage, redis, status=WRONG)
    expect(result["sold"], 10, "sold")
    expect(result["oversold"], 10 + result["left"] - 50, "oversold")
    ports = sorted(shop.port for shop in shops)
    expect_true(any(row["ports"] and sorted(row["ports"]) == ports
                    for row in result["duplicates"]), f"both did it: {result['duplicates']}")


@case
def what_cannot_be_audited(stage):
    redis = stage.redis()
    for arguments, status, words in (
            (["--redis", redis.url()], UNAVAILABLE, "no item 10001"),
            (["--redis", "redis://:secret@127.0.0.1:1"], UNAVAILABLE,
             "server of --redis at 127.0.0.1 port 1: Connection refused"),
            (["--redis", redis.url(), "--segments-on", "redis://127.0.0.1:1"], UNAVAILABLE,
             "server of --segments-on"),
            (["--redis", "soup"], USAGE, "redis://host"),
            (["--item", ""], USAGE, "--item"),
            (["10001"], USAGE, "one word too many"),
            (["--jsno"], USAGE, "no option --jsno")):
        code, out, said = stage.run("audit", *arguments)
        expect((code, out), (status, ""), f"{arguments}: {said}")
        expect_true(words in said and "secret" not in said, f"{words!r} in {said!r}")


@case
def a_stock_that_is_no_number(stage):
    redis = stage.redis()
    redis.cli("set", "initial:10001", 5)
    redis.cli("set", "10001", "plenty")
    code, _, said = stage.run("audit", "--redis", redis.url())
    expect(code, UNAVAILABLE, "exit status")
    expect_true("stock 10001 is not there, or no number" in said, said)


if __name__ == "__main__":
    sys.exit(stages.run_all(CASES, __doc__))
