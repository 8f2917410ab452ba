# SPDX-License-Identifier: Apache-2.0
"""The oracle for tests of strategies: what was sold, against what there was; and the shop with two
instances in which the faults of flaws.py happen.

Everything is read from Redis directly, not through the shop: whatever the shop believes, the orders
that it recorded and the stock that is left must add up. `flashsale audit` reads the same books, and
each of the two is the check of the other.
"""

import collections
import json
import socket
import time

import stage as stages
from stage import expect, expect_true, until

ITEM = "10001"
LOCK = "RedisDistributedLock"

Books = collections.namedtuple("Books", "initial left sold duplicates ports exact")


# ===== Redis, asked without starting a program each time: a busy machine takes long over that =====

def read_reply(file):
    line = file.readline()
    kind, rest = line[:1], line[1:].strip()
    if kind == b"$":
        return None if rest == b"-1" else file.read(int(rest) + 2)[:-2].decode()
    if kind == b"*":
        return [read_reply(file) for _ in range(int(rest))]
    expect_true(kind in (b":", b"+"), f"Redis says {line!r}")
    return int(rest) if kind == b":" else rest.decode()


def ask(redis, *words, db=0):
    """A command; its reply."""
    def encode(*parts):
        parts = [str(part).encode() for part in parts]
        return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part)
                                                 for part in parts)
    with socket.create_connection(("127.0.0.1", redis.port), stages.SECONDS_MAX) as connection:
        connection.sendall(encode("SELECT", db) + encode(*words))
        with connection.makefile("rb") as file:
            read_reply(file)
            return read_reply(file)


# ===== The books =====

def segments_of(servers, item):
    """[(server, key)] of an item; servers[0] has the item's own key."""
    if ask(servers[0], "TYPE", item) != "list":
        return [(servers[0], item)]
    entries = [entry.partition("@") for entry in ask(servers[0], "LRANGE", item, 0, -1)]
    return [(servers[int(number or 0)], key) for key, _, number in entries]


def audit(stage, *servers, item=ITEM):
    """What the books say, and `flashsale audit` says the same. A piece that was sold twice is a
    duplicate: (key, remaining) -> the ports that sold it. Only for shops at rest."""
    books = read(*servers, item=item)
    further = ("--segments-on", ",".join(server.url() for server in servers[1:]))
    status, printed, said = stage.run("audit", "--redis", servers[0].url(), "--item", item,
                                      "--json", *(further if servers[1:] else ()))
    found = json.loads(printed) if printed else said
    expect_true(printed, f"the audit says nothing but {said!r}")
    expect((found["initial"], found["left"], found["sold"], found["exact"], status),
           (books.initial, books.left, books.sold, books.exact, 0 if books.exact else 1),
           f"the audit ({found}) against the books ({books})")
    expect(sorted((row["remaining"], sorted(row["ports"])) for row in found["duplicates"]),
           sorted((piece[1], sorted(set(ports))) for piece, ports in books.duplicates.items()),
           "the audit's duplicates")
    return books


def read(*servers, item=ITEM):
    """What the books say, at any time."""
    initial = int(ask(servers[0], "GET", f"initial:{item}"))
    left = sold = 0
    seen = collections.defaultdict(list)
    ports = collections.Counter()
    negative = False
    for server, key in segments_of(servers, item):
        rest = int(ask(server, "GET", key))
        left += rest
        negative = negative or rest < 0
        for record in map(json.loads, ask(server, "LRANGE", f"orders:{key}", 0, -1)):
            sold += record["quantity"]
            ports[record["port"]] += record["quantity"]
            seen[key, record["remaining"]].append(record["port"])
    duplicates = {piece: sellers for piece, sellers in seen.items() if len(sellers) > 1}
    exact = not duplicates and not negative and sold + left == initial
    return Books(initial, left, sold, duplicates, ports, exact)


def expect_exact(books, what, sold=None):
    expect_true(books.exact, f"{what} should have sold exactly: {books}")
    if sold is not None:
        expect(books.sold, sold, f"{what}: pieces sold")


def expect_twice(books, remaining, ports, what):
    """That piece was sold twice, by these ports."""
    sellers = books.duplicates.get((ITEM, remaining), [])
    expect(sorted(sellers), sorted(ports), f"{what}: who sold the piece after which {remaining} "
                                           f"were left ({books})")
    expect_true(books.sold > books.initial - books.left, f"{what}: oversold ({books})")


# ===== Two instances =====

def order_later(shop, **query):
    """An order in the background; its answer, or None if the shop died over it."""
    def order():
        try:
            return shop.order(ITEM, **query)
        except OSError:
            return None
    return stages.in_background(order)


def inside(shop):
    """Wait until the fault of this instance has struck: its order is inside the lock."""
    until(lambda: "is inside" in shop.said(), "an order is inside")


OWNER = """
if redis.call('type', KEYS[1]).ok == 'hash' then
    return redis.call('hkeys', KEYS[1])[1]
end
return redis.call('get', KEYS[1])
"""


def owner(redis):
    """Who holds the lock, or "" if nobody does."""
    return ask(redis, "EVAL", OWNER, 1, LOCK, db=1) or ""


def lease_left(redis):
    """Milliseconds; -1: it has no end, -2: there is no lock."""
    return ask(redis, "PTTL", LOCK, db=1)


def wait_for_other_owner(redis, first):
    """Wait until another one holds the lock; who."""
    def other():
        now = owner(redis)
        return now if now not in ("", first) else None
    return until(other, "another holder")


def seconds_of(function):
    begin = time.monotonic()
    result = function()
    return time.monotonic() - begin, result


# ===== Many at once =====

def for_each(stage, strategies, function):
    """function(stage, strategy) for all of them at once, for they mostly wait, each on a stage of
    its own; their results."""
    results = [None] * len(strategies)

    def run(i):
        def one(own_stage):
            results[i] = function(own_stage, strategies[i])
        one.__name__ = strategies[i]
        return stages.run_case(one, stage)
    good = stages.together(len(strategies), run)
    expect([name for name, fine in zip(strategies, good) if not fine], [], "these failed")
    return results
