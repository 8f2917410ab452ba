#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Split stock: one hot item in several segments, each with a lock of its own, sold exactly to the
last piece: split.py --flashsale FILE"""

import sys

import stage as stages
from books import ITEM, LOCK, audit, expect_exact, inside, order_later, read
from stage import expect, expect_true, free_port, until

CASES, case = stages.cases()


def shops_of(stage, redis, count, *arguments):
    return [stage.serve(redis, "--strategy", "split", *arguments) for _ in range(count)]


def order_from_all(shops, count, **query):
    answers = stages.together(len(shops), lambda i: shops[i].order_at_once(count, ITEM, **query))
    return {status: sum(answer.get(status, 0) for answer in answers)
            for status in set().union(*answers)}


def segments(shop):
    return [(row["key"], row["stock"]) for row in shop.item(ITEM)["segments"]]


# ===== Splitting =====

@case
def a_thousand_pieces_in_five_segments(stage):
    redis = stage.redis()
    shop, = shops_of(stage, redis, 1)
    shop.put(ITEM, stock=1000)
    item = shop.put(ITEM, stock=1000, segments=5)
    expect((item["stock"], item["initial"], item["sold"]), (1000, 1000, 0), "the item")
    keys = [f"{ITEM}_{i}" for i in range(5)]
    expect(redis.cli("lrange", ITEM, 0, -1).split(), keys, "the list that took the stock's place")
    expect(redis.cli("mget", *keys).split(), ["200"] * 5, "the segments")


@case
def the_remainder_goes_to_the_first_segments(stage):
    shop, = shops_of(stage, stage.redis(), 1)
    shop.put(ITEM, stock=1003, segments=5)
    expect([stock for _, stock in segments(shop)], [201, 201, 201, 200, 200], "1003 in 5")
    shop.put(ITEM, stock=2, segments=4)
    expect([stock for _, stock in segments(shop)], [1, 1, 0, 0], "2 in 4")
    expect([shop.order(ITEM).status for _ in range(3)], [201, 201, 409], "orders")


@case
def put_splits_anew_and_forgets_the_old_segments(stage):
    redis = stage.redis()
    shop, = shops_of(stage, redis, 1)
    shop.put(ITEM, stock=100, segments=8)
    expect(shop.order_at_once(40, ITEM), {201: 40}, "orders")
    shop.put(ITEM, stock=30, segments=3)
    expect(segments(shop), [(f"{ITEM}_{i}", 10) for i in range(3)], "three segments")
    expect(sorted(redis.cli("keys", "*").split()),
           sorted([ITEM, f"initial:{ITEM}", f"sale:{ITEM}", *(f"{ITEM}_{i}" for i in range(3))]),
           "keys")
    expect(shop.order_at_once(35, ITEM), {201: 30, 409: 5}, "orders after that")
    expect_exact(audit(stage, redis), "split anew", sold=30)
    shop.put(ITEM, stock=7)
    expect(redis.cli("get", ITEM), "7", "the stock, in one piece again")
    expect(shop.order_at_once(9, ITEM), {201: 7, 409: 2}, "orders on the whole stock")


@case
def wrong_segments_are_refused(stage):
    shop, = shops_of(stage, stage.redis(), 1)
    for fields in ({"segments": 0}, {"segments": 65}, {"segments": -1}, {"segments": "5"},
                   {"segments": 2.5}, {"segments": 5, "per_user": 1}):
        answer = shop.ask(f"/items/{ITEM}", "PUT", {"stock": 10, **fields})
        expect(answer.status, 400, f"PUT {fields} ({answer})")
    expect(shop.ask(f"/items/{ITEM}").status, 404, "nothing was set")


# ===== Selling =====

@case
def orders_take_turns_and_fall_over_to_the_last_piece(stage):
    redis = stage.redis()
    shops = shops_of(stage, redis, 2)
    shops[0].put(ITEM, stock=103, segments=5)
    expect([shops[0].order(ITEM).json["order"] for _ in range(6)],
           [f"{ITEM}_{i}-1" for i in range(5)] + [f"{ITEM}_0-2"], "the segments take turns")
    expect(order_from_all(shops, 60), {201: 97, 409: 23}, "answers")
    books = audit(stage, redis)
    expect_exact(books, "two instances", sold=103)
    expect(books.left, 0, "left")


@case
def the_last_piece_is_found_wherever_it_is(stage):
    redis = stage.redis()
    shop, = shops_of(stage, redis, 1)
    shop.put(ITEM, stock=8, segments=8)
    expect(shop.order_at_once(8, ITEM), {201: 8}, "orders")
    for at in (5, 2):  # somebody gives a piece back; the shop believes that all are empty
        redis.cli("set", f"{ITEM}_{at}", 1)
        answer = shop.order(ITEM)
        expect((answer.status, answer.json["order"]), (201, f"{ITEM}_{at}-2"), "the piece")
        expect(shop.order(ITEM).status, 409, "the next")


@case
def one_segment_that_is_held_does_not_stop_the_others(stage):
    redis = stage.redis()
    slow, other = shops_of(stage, redis, 1, "--slow-at", "1:3500ms") + shops_of(stage, redis, 1)
    slow.put(ITEM, stock=40, segments=4)
    first = order_later(slow)
    inside(slow)
    expect(redis.cli("keys", f"{LOCK}*", db=1), f"{LOCK}:{ITEM}_0", "the lock of its segment")
    others = stages.in_background(other.order_at_once, 4, ITEM)  # one for each segment
    until(lambda: read(redis).sold == 3, "three are sold meanwhile")
    expect_true(not first.done(), "the slow one is still inside")
    expect((first.result().status, others.result()), (201, {201: 4}), "answers in the end")
    expect_exact(audit(stage, redis), "a slow segment", sold=5)


@case
def an_order_for_several_takes_them_from_one_segment_or_none(stage):
    redis = stage.redis()
    shop, = shops_of(stage, redis, 1)
    shop.put(ITEM, stock=11, segments=3)  # 4, 4, 3
    expect(shop.order(ITEM, quantity=4).status, 201, "four from the first")
    expect(shop.order(ITEM, quantity=4).status, 201, "four from the second")
    answer = shop.order(ITEM, quantity=4)
    expect((answer.status, answer.json["remaining"]), (409, 3), "four, where three are left")
    expect(shop.order(ITEM, quantity=3).status, 201, "three from the third")
    expect_exact(audit(stage, redis), "several pieces", sold=11)


@case
def a_split_item_is_refused_to_other_strategies(stage):
    redis = stage.redis()
    shop, = shops_of(stage, redis, 1)
    shop.put(ITEM, stock=10, segments=2)
    for strategy in ("none", "process-mutex", "renewed", "pawl", "pawl-fenced", "atomic"):
        answer = shop.order(ITEM, strategy=strategy)
        expect(answer.status, 409, f"{strategy} ({answer})")
        expect_true(f"the stock of {ITEM} is split; order with ?strategy=split" in answer.text,
                    f"{strategy}: {answer}")
    expect_exact(audit(stage, redis), "nothing", sold=0)


@case
def an_item_in_one_piece_is_one_segment_under_the_ordinary_lock(stage):
    redis = stage.redis()
    slow, other = shops_of(stage, redis, 1, "--slow-at", "1:2s") + shops_of(stage, redis, 1)
    slow.put(ITEM, stock=20, per_user=2)
    first = order_later(slow, user="u1")
    inside(slow)
    expect(redis.cli("keys", f"{LOCK}*", db=1), LOCK, "the lock")
    expect(other.order(ITEM, user="u1").status, 201, "the second for one user")
    expect(first.result().status, 201, "the first")
    expect(other.order(ITEM, user="u1").status, 409, "the third")
    statuses = order_from_all([slow, other], 5, strategy="pawl", user="u2")
    expect(statuses, {201: 2, 409: 8}, "another user, under pawl")
    expect_exact(audit(stage, redis), "one segment", sold=4)


@case
def put_in_the_middle_of_the_sale_leaves_the_books_right(stage):
    redis, further = stage.redis(), stage.redis()
    shops = shops_of(stage, redis, 2, "--segments-on", further.url())
    shops[0].put(ITEM, stock=100000, segments=4)
    ends = []

    def customer(number):
        statuses = []
        while not ends:
            statuses.append(shops[number % 2].order(ITEM).status)
        return statuses
    customers = stages.in_background(lambda: stages.together(12, customer))
    for count in (6, 1, 3, 2, 4):
        before = read(redis, further).sold
        until(lambda b=before: read(redis, further).sold > b + 20, "it sells")
        shops[0].put(ITEM, stock=700, segments=count)
    until(lambda: read(redis, further).left == 0, "all are sold")
    ends.append(True)
    statuses = sum(customers.result(), [])
    expect_exact(audit(stage, redis, further), "split anew under load", sold=700)
    expect(set(statuses) - {201, 409}, set(), "other answers")


# ===== On several servers =====

@case
def segments_lie_on_several_servers(stage):
    servers = [stage.redis() for _ in range(3)]
    urls = ",".join(server.url() for server in servers[1:])
    shops = shops_of(stage, servers[0], 2, "--segments-on", urls)
    shops[0].put(ITEM, stock=101, segments=5)
    expect(servers[0].cli("lrange", ITEM, 0, -1).split(),
           [f"{ITEM}_0", f"{ITEM}_1@1", f"{ITEM}_2@2", f"{ITEM}_3", f"{ITEM}_4@1"], "the list")
    expect([server.cli("get", f"{ITEM}_{i}") for i, server in enumerate(servers)],
           ["21", "20", "20"], "the first segments, each on its server")
    expect(order_from_all(shops, 60), {201: 101, 409: 19}, "answers")
    expect_exact(audit(stage, *servers), "three servers", sold=101)
    item = shops[1].item(ITEM)
    expect((item["stock"], item["sold"]), (0, 101), "as the shop shows it")
    shops[0].put(ITEM, stock=4, segments=2)
    expect([server.cli("keys", f"{ITEM}_*") for server in servers], [f"{ITEM}_0", f"{ITEM}_1", ""],
           "split anew: what is left on each server")


@case
def a_segment_server_that_is_away_and_comes_back(stage):
    redis, further = stage.redis(), stage.redis("--appendonly", "yes", "--appendfsync", "always")
    shop, = shops_of(stage, redis, 1, "--segments-on", further.url())
    shop.put(ITEM, stock=20, segments=2)
    expect(shop.order_at_once(4, ITEM), {201: 4}, "orders")
    further.kill()
    statuses = [shop.order(ITEM).status for _ in range(4)]
    expect(set(statuses), {201, 503}, "one of two segments is away")
    further.start()
    until(lambda: [shop.order(ITEM).status for _ in range(2)] == [201, 201], "both sell again")
    until(lambda: shop.order(ITEM).status == 409, "sold out")
    expect_exact(audit(stage, redis, further), "a server that came back", sold=20)


@case
def segments_fall_into_different_slots_of_a_cluster(stage):
    # Without a bus port of its own it would want 10,000 more than a port that may be too high.
    cluster = stage.redis("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    slots = [int(cluster.cli("cluster", "keyslot", f"{ITEM}_{i}")) for i in range(8)]
    expect(len(set(slots)), 8, f"different slots among {slots}")
    locks = [int(cluster.cli("cluster", "keyslot", f"{LOCK}:{ITEM}_{i}")) for i in range(8)]
    expect(len(set(locks)), 8, f"different slots among those of the locks, {locks}")


if __name__ == "__main__":
    sys.exit(stages.run_all(CASES, __doc__))
