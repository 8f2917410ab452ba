#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each flawed strategy fails as its flaw predicts, and the next one does not: flaws.py --flashsale
FILE

Two instances of the shop sell from one stock. One of them has a fault: it dies, is stopped, or
takes its time, at its first order inside the lock. The books tell what came of it.
"""

import signal
import sys
import time

import stage as stages
from books import (ITEM, LOCK, audit, expect_exact, expect_twice, for_each, inside, lease_left,
                   order_later, owner, read, seconds_of, wait_for_other_owner)
from stage import expect, expect_true, until

CASES, case = stages.cases()


def two(stage, strategy, first, second, stock=50, redis=None):
    """Two instances with arguments of their own."""
    redis = redis or stage.redis()
    one = stage.serve(redis, "--strategy", strategy, *first)
    other = stage.serve(redis, "--strategy", strategy, *second)
    one.put(ITEM, stock=stock)
    return redis, one, other


# ===== Dead sellers =====

@case
def without_an_end_the_lock_of_the_dead_stays_for_ever(stage):
    def dies(stage, strategy):
        redis, mortal, other = two(stage, strategy, ["--die-at", "1"], ["--wait", "300ms"])
        expect(order_later(mortal).result(), None, f"{strategy}: the order of the dead")
        expect(lease_left(redis), -1, f"{strategy}: the lock has no end")
        answer = other.order(ITEM)
        expect((answer.status, answer.json["error"]), (503, "busy"), f"{strategy}: the next order")
        expect_exact(audit(stage, redis), strategy, sold=0)
    for_each(stage, ["setnx-once", "setnx-recursive", "setnx-sleep", "setnx-spin"], dies)


@case
def with_an_end_the_lock_of_the_dead_stays_until_then(stage):
    def dies(stage, strategy):
        redis, mortal, other = two(stage, strategy, ["--die-at", "1", "--lease", "2s"],
                                   ["--lease", "2s"])
        order_later(mortal).result()
        seconds, answer = seconds_of(lambda: other.order(ITEM))
        expect(answer.status, 201, f"{strategy}: the next order")
        expect_true(seconds > 0.2, f"{strategy}: it waited for the lease, not {seconds:.3f} s")
        expect_exact(audit(stage, redis), strategy, sold=1)
    for_each(stage, ["setnx-expire", "set-nx-ex", "owner-check", "owner-shared", "lua-release",
              "reentrant", "renewed", "pawl", "pawl-handoff", "pawl-fair", "pawl-fenced", "split"],
             dies)


@case
def an_end_that_comes_by_a_second_command_may_never_come(stage):
    redis, mortal, other = two(stage, "setnx-expire", ["--die-at", "1", "--in-gap"],
                               ["--wait", "300ms", "--lease", "300ms"])
    expect(order_later(mortal).result(), None, "the order of the dead")
    expect(lease_left(redis), -1, "the lock has no end")
    expect(other.order(ITEM).status, 503, "the next order")


# ===== Ways to wait =====

@case
def who_does_not_wait_is_sent_away_though_pieces_are_left(stage):
    _, one, other = two(stage, "setnx-once", ["--slow-at", "1:2s"], [])
    first = order_later(one)
    inside(one)
    answer = other.order(ITEM)
    expect((answer.status, answer.headers["Retry-After"]), (503, "1"), "the second customer")
    expect(first.result().status, 201, "the first")


@case
def recursion_overflows_the_stack_and_the_shop_lives(stage):
    redis = stage.redis()
    shop = stage.serve(redis, "--strategy", "setnx-recursive", "--stack", "64k", "--wait", "30s")
    shop.put(ITEM, stock=50)
    redis.cli("set", LOCK, "somebody", db=1)
    answer = shop.order(ITEM, seconds=40)
    expect(answer.status, 500, f"the order ({answer})")
    expect_true("the stack overflowed (SIGSEGV)" in answer.text, answer.text)
    redis.cli("del", LOCK, db=1)
    expect(shop.order(ITEM).status, 201, "the shop goes on")
    expect_exact(audit(stage, redis), "setnx-recursive", sold=1)


@case
def a_spinning_waiter_asks_without_a_pause(stage):
    def tries(stage, strategy):
        redis, one, other = two(stage, strategy, ["--slow-at", "1:500ms"], [])
        first = order_later(one)
        inside(one)
        redis.cli("config", "resetstat")
        begin = time.monotonic()
        second = order_later(other)
        expect((first.result().status, second.result().status), (201, 201), strategy)
        rows = dict(row.split(":", 1) for row in redis.cli("info", "commandstats").split("\n")
                    if ":" in row)
        calls = int(rows["cmdstat_setnx"].split(",")[0].removeprefix("calls="))
        return calls, time.monotonic() - begin
    (spinning, _), (sleeping, seconds) = for_each(stage, ["setnx-spin", "setnx-sleep"], tries)
    most = 50 * seconds + 5
    expect_true(sleeping <= most, f"20 ms between tries make at most {most:.0f}, not {sleeping}")
    expect_true(spinning > 5 * sleeping, f"{spinning} tries spinning, {sleeping} sleeping")


# ===== Orders that take longer than the lease =====

def overtaken(stage, strategy, *slow_arguments):
    """The first order outlives its lease and the second one, with a long lease, gets in. When the
    first has left: whether the second one's lock is still there. And the books at the end."""
    redis, slow, other = two(
        stage, strategy, ["--lease", "400ms", "--slow-at", "1:3s", *slow_arguments],
        ["--lease", "20s", "--slow-at", "1:5s"])
    first = order_later(slow)
    inside(slow)
    own = owner(redis)
    second = order_later(other)
    successor = wait_for_other_owner(redis, own)
    inside(other)
    other.signal(signal.SIGSTOP)  # it stays inside until we have looked
    expect(first.result().status, 201, f"{strategy}: the slow order")
    kept = owner(redis) == successor
    other.signal(signal.SIGCONT)
    third = order_later(slow)
    expect((second.result().status, third.result().status), (201, 201), f"{strategy}: the others")
    return kept, audit(stage, redis), slow.port, other.port


@case
def an_order_longer_than_the_lease_sells_a_piece_twice(stage):
    expected = {"set-nx-ex": False, "owner-check": True, "lua-release": True, "reentrant": True}

    def oversells(stage, strategy):
        kept, books, slow, other = overtaken(stage, strategy)
        keeps = expected[strategy]
        expect(kept, keeps, f"{strategy}: the second one keeps its lock when the first one leaves")
        if keeps:
            expect_twice(books, 49, [slow, other], strategy)
        else:  # the first and the second sold one piece, and the third came in beside the second
            expect(sorted(books.duplicates[ITEM, 49]), sorted([slow, other]), strategy)
            expect((books.sold, books.left), (3, 49), f"{strategy}: sold, and left")
    for_each(stage, list(expected), oversells)


@case
def between_check_and_del_the_lease_can_end(stage):
    kept, books, _, _ = overtaken(stage, "owner-check", "--in-gap")
    expect(kept, False, "the second one keeps its lock")
    # The first was alone when it sold; the third came in beside the second.
    expect((books.sold, books.left), (3, 48), f"sold, and left: {books}")
    expect_true((ITEM, 48) in books.duplicates, f"one piece was sold twice: {books}")


@case
def an_owner_in_a_shared_field_cannot_release(stage):
    def leaves(stage, strategy):
        """Whether the first order's lock is still there when it has left, because a second one
        came meanwhile."""
        redis = stage.redis()
        shop = stage.serve(redis, "--strategy", strategy, "--lease", "3s", "--slow-at", "1:1500ms")
        shop.put(ITEM, stock=50)
        first = order_later(shop)
        inside(shop)
        own = owner(redis)
        second = order_later(shop)
        expect(first.result().status, 201, f"{strategy}: the first order")
        stuck = owner(redis) == own
        expect(second.result().status, 201, f"{strategy}: the second order")
        expect_exact(audit(stage, redis), strategy, sold=2)
        return stuck
    expect(for_each(stage, ["owner-shared", "lua-release"], leaves), [True, False],
           "still locked after the order has left")


@case
def an_owner_in_a_shared_field_releases_the_lock_of_another(stage):
    redis = stage.redis()
    shop = stage.serve(redis, "--strategy", "owner-shared", "--lease", "2700ms", "--work", "2400ms",
                       "--slow-at", "1:1500ms")
    shop.put(ITEM, stock=50)
    first = order_later(shop)
    until(lambda: owner(redis), "the first holder")
    own = owner(redis)
    second = order_later(shop)
    wait_for_other_owner(redis, own)
    expect(first.result().status, 201, "the first order")
    expect(owner(redis), "", "the second one's lock, while it is inside")
    expect(second.result().status, 201, "the second order")
    expect_twice(audit(stage, redis), 49, [shop.port, shop.port], "owner-shared")


# ===== Re-entry =====

@case
def re_entry_without_a_count_frees_the_outer_lock(stage):
    def nests(stage, strategy):
        """What was left of the lock when the order was in its middle, and the books."""
        redis, one, other = two(stage, strategy, ["--slow-at", "1:2s"], ["--work", "100ms"])
        first = order_later(one)
        inside(one)
        lock = owner(redis)
        expect(other.order(ITEM).status, 201, f"{strategy}: the second order")
        expect(first.result().status, 201, f"{strategy}: the first order")
        return lock, audit(stage, redis), [one.port, other.port]
    flagged, counted = for_each(stage, ["reentry-flag", "reentrant"], nests)
    expect(flagged[0], "", "reentry-flag: the lock after the inner release")
    expect_twice(flagged[1], 49, flagged[2], "reentry-flag")
    expect_true(counted[0], "reentrant: the lock after the inner release")
    expect_exact(counted[1], "reentrant", sold=2)


# ===== Renewal =====

@case
def renewal_in_the_callers_thread_sells_nothing(stage):
    redis, one, other = two(stage, "renew-inline", ["--lease", "1s", "--wait", "5s"],
                            ["--lease", "1s", "--wait", "300ms"])
    first = order_later(one)
    until(lambda: owner(redis), "the first holder")
    begin = time.monotonic()
    own = owner(redis)
    expect(other.order(ITEM).status, 503, "the second order")
    until(lambda: time.monotonic() > begin + 2.2, "two leases have passed")
    expect(owner(redis), own, "the holder after two leases")
    expect(first.result().status, 503, "the first order")
    expect_exact(audit(stage, redis), "renew-inline", sold=0)


@case
def ownerless_renewal_keeps_the_lock_of_the_dead_alive(stage):
    def dies(stage, strategy):
        """Whether the lock of the dead is still there one and a half leases later."""
        redis, living, mortal = two(stage, strategy, ["--lease", "1500ms"],
                                    ["--lease", "1500ms", "--die-at", "1"])
        expect(living.order(ITEM).status, 201, f"{strategy}: an order before")
        order_later(mortal).result()
        end = time.monotonic() + 2.2
        dead = owner(redis)
        expect_true(dead, f"{strategy}: the dead one has the lock")
        until(lambda: time.monotonic() > end, "more than a lease has passed")
        stuck = owner(redis) == dead
        if stuck:
            expect(living.terminate(), 0, "the living one ends")
            until(lambda: owner(redis) == "", "without it the lock ends", seconds=5)
        return stuck
    stuck = for_each(stage, ["renew-ownerless", "renewed"], dies)
    expect(stuck, [True, False], "the lock of the dead outlives its lease (ownerless, renewed)")


@case
def the_timer_renews_nobody_elses_lock(stage):
    redis = stage.redis()
    shop = stage.serve(redis, "--strategy", "renewed", "--lease", "1s", "--slow-at", "1:3s")
    shop.put(ITEM, stock=50)
    order = order_later(shop)
    inside(shop)
    redis.cli("eval", "redis.call('del', KEYS[1]) redis.call('hset', KEYS[1], 'another', 1)"
              " return redis.call('pexpire', KEYS[1], 60000)", 1, LOCK, db=1)
    expect(order.result().status, 201, "the order")
    expect(owner(redis), "another", "the holder")
    expect_true(lease_left(redis) > 50000, "its lease is its own")


# ===== Stopped for longer than the lease =====

def stopped(stage, strategy, *arguments):
    """The first seller is stopped inside, its lease ends, another sells; then the first goes on.
    Its answer, and the books."""
    redis, first, other = two(
        stage, strategy, ["--lease", "500ms", "--stop-at", "1:4s", *arguments],
        ["--lease", "500ms", *arguments])
    late = order_later(first)
    inside(first)
    expect(other.order(ITEM).status, 201, f"{strategy}: the order meanwhile")
    return late.result(), audit(stage, redis), first.port, other.port


@case
def who_was_stopped_writes_late(stage):
    def oversells(stage, strategy):
        late, books, first, other = stopped(stage, strategy)
        expect(late.status, 201, f"{strategy}: the late order")
        expect_twice(books, 49, [first, other], strategy)
    for_each(stage, ["lua-release", "renewed", "pawl", "pawl-handoff", "pawl-fair"], oversells)


@case
def the_fence_refuses_who_was_stopped(stage):
    late, books, _, _ = stopped(stage, "pawl-fenced")
    expect(late.status, 409, f"the late order ({late})")
    expect_true("the fence refused it" in late.text, late.text)
    expect_exact(books, "pawl-fenced", sold=1)


@case
def the_fence_is_raised_by_reading_already(stage):
    redis, first, other = two(stage, "pawl-fenced", ["--lease", "400ms", "--stop-at", "1:3s"],
                              ["--lease", "2s", "--slow-at", "1:6s"])
    late = order_later(first)
    inside(first)
    second = order_later(other)
    inside(other)  # it has read, and has not written yet, when the first one goes on
    expect(late.result().status, 409, "the late order")
    expect_true(not second.done(), "the second one is still inside")
    expect(second.result().status, 201, "the second order")
    expect_exact(audit(stage, redis), "pawl-fenced", sold=1)


@case
def split_and_atomic_stand_a_stop(stage):
    def sells(stage, strategy):
        late, books, _, _ = stopped(stage, strategy)
        expect(late.status, 201, f"{strategy}: the late order")
        expect_exact(books, strategy, sold=2)
    for_each(stage, ["split", "atomic"], sells)


# ===== PUT =====

@case
def an_order_of_an_earlier_sale_writes_nothing_into_the_next(stage):
    def put_between(stage, strategy):
        redis = stage.redis()
        shop = stage.serve(redis, "--strategy", strategy, "--slow-at", "1:2s")
        shop.put(ITEM, stock=50)
        order = order_later(shop)
        inside(shop)
        shop.put(ITEM, stock=50)
        answer = order.result()
        if strategy == "split":  # it looks again
            expect(answer.status, 201, strategy)
        else:
            expect((answer.status, answer.json["error"]), (409, "refused"), strategy)
            expect_true("was set anew while this order was inside" in answer.text, answer.text)
        expect_exact(audit(stage, redis), strategy, sold=int(strategy == "split"))
    for_each(stage, ["none", "renewed", "pawl", "pawl-fenced", "split"], put_between)


# ===== Servers that fail =====

@case
def a_lock_server_that_forgets_lets_two_in_and_the_fence_stops_one(stage):
    def forgets(stage, strategy):
        """The answer to the first order, whose lock is forgotten meanwhile, and the books."""
        redis, locks = stage.redis(), stage.redis()
        _, one, other = two(stage, strategy, ["--lock", locks.url(), "--slow-at", "1:5s"],
                            ["--lock", locks.url()], redis=redis)
        first = order_later(one)
        inside(one)
        locks.kill()
        locks.start()
        until(lambda: other.order(ITEM).status == 201, f"{strategy}: an order after the restart")
        return first.result(), audit(stage, redis)
    (first, books), (refused, fenced) = for_each(stage, ["pawl", "pawl-fenced"], forgets)
    expect((first.status, books.exact), (201, False), f"pawl: {first} {books}")
    expect((refused.status, fenced.exact), (409, True), f"pawl-fenced: {refused} {fenced}")


@case
def a_redis_that_restarts_costs_no_piece(stage):
    def restarts(stage, strategy):
        redis = stage.redis("--appendonly", "yes", "--appendfsync", "always")
        shop = stage.serve(redis, "--strategy", strategy, "--lease", "1s")
        shop.put(ITEM, stock=1000, **({"segments": 4} if strategy == "split" else {}))
        until(lambda: shop.order(ITEM).status == 201, f"{strategy}: the first order")
        orders = stages.in_background(
            lambda: stages.together(24, lambda _: [shop.order(ITEM).status for _ in range(12)]))
        until(lambda: read(redis).sold > 20, f"{strategy}: it sells")
        redis.kill()
        redis.start()
        statuses = sum(orders.result(), [])
        until(lambda: shop.order(ITEM).status == 201, f"{strategy}: it sells again")
        books = audit(stage, redis)
        expect_exact(books, strategy)
        expect_true(statuses.count(201) <= books.sold, f"{strategy}: every sale is in the books")
        expect(set(statuses) - {201, 503}, set(), f"{strategy}: other answers")
    for_each(stage, ["renewed", "pawl", "split", "atomic"], restarts)


@case
def a_lock_server_that_is_down_stops_the_multi_lock_and_not_redlock(stage):
    redis = stage.redis()
    servers = [stage.redis() for _ in range(5)]
    shop = stage.serve(redis, "--lease", "300ms", "--wait", "700ms",
                       "--quorum", ",".join(server.url() for server in servers))
    shop.put(ITEM, stock=50)

    def check(expected, what):
        for strategy, sells in expected.items():
            if sells:  # maybe not at once: a server that is slow to answer does not vote
                until(lambda s=strategy: shop.order(ITEM, strategy=s).status == 201,
                      f"{strategy} sells: {what}")
            else:
                expect(shop.order(ITEM, strategy=strategy).status, 503, f"{strategy}: {what}")
    check({"pawl-multi": True, "redlock": True, "redlock5": True}, "all are there")
    servers[0].kill()
    check({"pawl-multi": False, "redlock": True, "redlock5": True}, "one is down")
    servers[1].kill()
    check({"pawl-multi": False, "redlock": False, "redlock5": True}, "two are down")
    servers[2].kill()
    check({"redlock5": False}, "three are down")
    for server in servers[:3]:
        server.start()
    check({"pawl-multi": True, "redlock": True, "redlock5": True}, "all are there again")
    expect_exact(audit(stage, redis), "locks on several servers")


@case
def a_strategy_without_its_servers_says_what_it_needs(stage):
    shop = stage.serve(stage.redis())
    shop.put(ITEM, stock=50)
    for strategy, count in (("pawl-multi", 3), ("redlock", 3), ("redlock5", 5)):
        answer = shop.order(ITEM, strategy=strategy)
        expect(answer.status, 500, strategy)
        expect_true(f"{count} lock servers; name them with --quorum" in answer.text, answer.text)


if __name__ == "__main__":
    sys.exit(stages.run_all(CASES, __doc__, at_once=2))
