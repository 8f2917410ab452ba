# SPDX-License-Identifier: Apache-2.0
"""The scenes of the demonstration: each strategy, the fault it is shown under, and what its flaw
predicts. A scene that ends otherwise is a failure of the demonstration, whichever way.
"""

import dataclasses
import threading
import time

from shop import ShopError, until

ITEM = "10001"
SETTLE_S = 10  # for what was begun to end, after the last answer


@dataclasses.dataclass
class Scale:
    """How much is sold, and how long things last."""
    stock: int
    clients: int
    lease_ms: int
    wait_ms: int
    orders: int = 0


@dataclasses.dataclass
class Result:
    """What came of a scene; also a row of the table and of the page."""
    strategy: str
    fault: str
    sold: int
    oversold: int
    stuck_ms: float
    rate: float
    p99_ms: float
    load: dict
    audit: dict
    victim: tuple  # (status, answer) of the order that the fault struck, or None

    @property
    def exact(self):
        return self.audit["exact"]


# ===== What can be predicted =====

def sold_exactly(result):
    return result.exact and result.audit["left"] == 0


def oversold(result):
    """Pieces were sold twice: more than there were, or the same one to two customers."""
    return result.oversold > 0 or bool(result.audit["duplicates"])


def turned_away(result):
    return result.exact and result.load["busy"] > 0


def stuck(result):
    """Nobody sells any more, though pieces are left."""
    return result.load["sold"] == 0 and result.audit["left"] > 0


def overflowed(result):
    """Who waits too long does not get an answer but a crash: 500."""
    return result.load["statuses"].get("500", 0) > 0


def waits_for_the_lease(result):
    """Exact, but the whole shop stands still until a lease has ended."""
    return result.exact and result.stuck_ms > 300


def late_write_refused(result):
    """The order that came too late was told so, and the stock is exact."""
    return result.exact and result.victim[0] not in (0, 201)


# ===== How a scene goes =====

def under_load(shop, strategy, scale, urls=None):
    """Everybody comes at once."""
    return shop.load(strategy, scale.clients, scale.orders, urls), None


def with_victim(fault, leases, in_gap=False, before=None, server_fault=None):
    """A fault strikes one order inside the lock at the first instance, and perhaps a server fails
    then; the others come to the second instance meanwhile."""
    def play(shop, strategy, scale):
        victim_url, other_url = shop.urls
        if before:
            before(shop, other_url, strategy, scale)
        shop.arm(victim_url, fault, int(scale.lease_ms * leases), in_gap)
        answers = []
        victim = threading.Thread(
            target=lambda: answers.append(shop.order(victim_url, ITEM, strategy)))
        victim.start()
        until(lambda: answers or shop.has_struck(victim_url), f"{fault} strikes")
        if server_fault:
            shop.arm(other_url, server_fault)
        load, _ = under_load(shop, strategy, scale, [other_url])
        victim.join()
        until(lambda: shop.is_well(victim_url), "the first instance is back")
        return load, answers[0]
    return play


def sells_a_few(shop, url, strategy, _scale):
    """The other instance has sold something before, and its renewals go on."""
    for _ in range(3):
        shop.order(url, ITEM, strategy)


def is_slow_too(shop, url, _strategy, scale):
    """The next holder takes its time as well, though less than its lease."""
    shop.arm(url, "slow", int(scale.lease_ms * 0.8))


def with_a_lock_server_down(shop, strategy, scale):
    """One of the lock servers fails, and then everybody comes."""
    shop.arm(shop.urls[0], "lock-server-down")
    try:
        return under_load(shop, strategy, scale)
    finally:
        shop.arm(shop.urls[0], "lock-server-up")


@dataclasses.dataclass
class Scene:
    strategy: str
    fault: str
    play: object
    prediction: object
    shows: str
    segments: int = 0


LOAD = ("load", under_load)
DIES = ("a seller dies inside", with_victim("die", 1))
DIES_AFTER_SALE = ("a seller dies inside", with_victim("die", 1, before=sells_a_few))
DIES_IN_GAP = ("dies between the two", with_victim("die", 1, in_gap=True))
SHORT = ("an order of half a lease", with_victim("slow", 0.5))
SLOW = ("an order of 2 leases", with_victim("slow", 2))
SLOW_IN_GAP = ("a pause in the gap", with_victim("slow", 1.4, in_gap=True, before=is_slow_too))
STOPPED = ("stopped for 3 leases", with_victim("stop", 3))
ONE_DOWN = ("a lock server down", with_a_lock_server_down)
RESTART = ("Redis restarts", with_victim("slow", 1, server_fault="redis-restart"))
# The replica needs one lease to forget what it has heard of the lock.
FAILOVER = ("master lost", with_victim("slow", 4, server_fault="failover"))

SCENES = [
    Scene("none", *LOAD, oversold, "everybody reads the same stock"),
    Scene("process-mutex", *LOAD, oversold, "one mutex in each process: two mutexes"),
    Scene("setnx-once", *LOAD, turned_away, "customers sent away, with pieces left"),
    Scene("setnx-recursive", *DIES, overflowed, "each retry a frame, until the stack is full"),
    Scene("setnx-sleep", *LOAD, sold_exactly, "exact, but wakes late"),
    Scene("setnx-sleep", *DIES, stuck, "a dead seller's key stays for ever"),
    Scene("setnx-spin", *LOAD, sold_exactly, "exact, at the price of asking without a pause"),
    Scene("setnx-expire", *DIES_IN_GAP, stuck, "dead between SETNX and EXPIRE"),
    Scene("set-nx-ex", *DIES, sold_exactly, "a dead seller costs one lease"),
    Scene("set-nx-ex", *SLOW, oversold, "deletes the next one's lock"),
    Scene("owner-check", *SLOW_IN_GAP, oversold, "checks its lock, deletes the next one's"),
    Scene("owner-shared", *LOAD, waits_for_the_lease, "nobody recognizes the own lock"),
    Scene("lua-release", *SLOW, oversold, "released rightly, held too briefly"),
    Scene("reentry-flag", *SHORT, oversold, "the inner release frees the outer lock"),
    Scene("reentrant", *LOAD, sold_exactly, "taken again, counted"),
    Scene("reentrant", *SLOW, oversold, "still a lease that ends too early"),
    Scene("renew-inline", *LOAD, stuck, "renews, and never sells"),
    Scene("renew-ownerless", *DIES_AFTER_SALE, stuck, "the living renew the dead one's lock"),
    Scene("renewed", *LOAD, sold_exactly, "the best by hand; sleeps 50 ms between tries"),
    Scene("renewed", *SLOW, sold_exactly, "held to the end of a long order"),
    Scene("renewed", *STOPPED, oversold, "who is stopped cannot renew"),
    Scene("pawl", *LOAD, sold_exactly, "woken by message"),
    Scene("pawl", *DIES, sold_exactly, "a dead seller costs one lease"),
    Scene("pawl", *SLOW, sold_exactly, "renewed"),
    Scene("pawl", *RESTART, sold_exactly, "waits, and sells on"),
    Scene("pawl", *FAILOVER, oversold, "the new master has never heard of the lock"),
    Scene("pawl-handoff", *LOAD, sold_exactly, "passed on inside the process"),
    Scene("pawl-fair", *LOAD, sold_exactly, "in the order of arrival"),
    Scene("pawl-fenced", *STOPPED, late_write_refused, "the late write is refused by its token"),
    Scene("pawl-fenced", *FAILOVER, late_write_refused, "the new master's token is greater"),
    Scene("pawl-multi", *LOAD, sold_exactly, "all of three servers"),
    Scene("pawl-multi", *ONE_DOWN, stuck, "one server down stops the sale"),
    Scene("redlock", *LOAD, sold_exactly, "two of three servers"),
    Scene("redlock", *ONE_DOWN, sold_exactly, "sells on with one server down"),
    Scene("redlock5", *LOAD, sold_exactly, "three of five servers"),
    Scene("split", *LOAD, sold_exactly, "four locks, exact to the last piece", segments=4),
    Scene("atomic", *LOAD, sold_exactly, "a mere counter needs no lock"),
]


def play(shop, scene, scale):
    """Play a scene on an empty stage; its result."""
    shop.forget_locks()
    for url in shop.urls:
        until(lambda url=url: shop.is_well(url), f"{url} is well")
    more = {"segments": scene.segments} if scene.segments else {}
    shop.put(ITEM, scale.stock, **more)
    # A few more orders than pieces; but where nobody is served, each waits for --wait.
    waits = scene.prediction in (stuck, overflowed)
    scale = dataclasses.replace(scale, orders=scale.clients if waits else scale.stock * 5 // 4)
    load, victim = scene.play(shop, scene.strategy, scale)
    audit = settled(shop)
    return Result(scene.strategy, scene.fault, audit["sold"], audit["oversold"], load["stuck_ms"],
                  load["rate"], load["p99_ms"], load, audit, victim)


def settled(shop):
    """The audit, after orders that nobody waits for any more have ended."""
    end = time.monotonic() + SETTLE_S
    audit = shop.audit()
    while time.monotonic() < end:
        time.sleep(0.02)
        again = shop.audit()
        if again == audit:
            return audit
        audit = again
    raise ShopError(f"the shop still sells {SETTLE_S} s after its last customer was answered "
                    f"({audit['sold']} sold by now); is somebody else ordering item {ITEM}?")
