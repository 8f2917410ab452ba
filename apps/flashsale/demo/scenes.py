# SPDX-License-Identifier: Apache-2.0
"""The scenes of the demonstration: each strategy, the fault it is shown under, and what its flaw
predicts. A scene that ends otherwise is a failure of the demonstration, whichever way.
"""

import dataclasses
import threading
import time

from shop import until

ITEM = "10001"


@dataclasses.dataclass
class Scale:
    """How much is sold, and how long things last."""
    stock: int
    clients: int
    lease_ms: int
    wait_ms: int


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
    return result.victim[0] == 500 and "stack" in str(result.victim[1])


def late_write_refused(result):
    """The order that came too late was told so, and the stock is exact."""
    return result.exact and result.victim[0] not in (0, 201)


# ===== How a scene goes =====

def under_load(shop, strategy, scale, urls=None):
    """Everybody comes at once; a few more than there are pieces."""
    return shop.load(strategy, scale.clients, scale.stock * 5 // 4, urls), None


def with_victim(fault, leases):
    """A fault strikes one order inside the lock at the first instance; the others come to the
    second one meanwhile."""
    def play(shop, strategy, scale):
        victim_url, other_url = shop.urls
        shop.arm(victim_url, fault, f"{scale.lease_ms * leases}ms")
        answers = []
        victim = threading.Thread(
            target=lambda: answers.append(shop.order(victim_url, ITEM, strategy)))
        victim.start()
        until(lambda: answers or has_struck(shop, victim_url, fault), f"{fault} strikes")
        load, _ = under_load(shop, strategy, scale, [other_url])
        victim.join()
        until(lambda: shop.is_well(victim_url), "the first instance is back")
        return load, answers[0]
    return play


def has_struck(shop, url, fault):
    """Whether the fault has struck: the instance is gone, does not answer, or says so."""
    status, answer = shop.ask("GET", "/faults", url=url, seconds=0.2)
    return status == 0 or fault in answer.get("struck", "")


def with_server_fault(fault, undo=None):
    """A server fails, and then everybody comes."""
    def play(shop, strategy, scale):
        shop.arm(shop.urls[0], fault)
        try:
            return under_load(shop, strategy, scale)
        finally:
            if undo:
                shop.arm(shop.urls[0], undo)
    return play


def with_failover(shop, strategy, scale):
    """One order is inside when the lock's master dies before it has replicated; the others come
    to the server that was promoted."""
    victim_url, other_url = shop.urls
    shop.arm(victim_url, "slow", f"{scale.lease_ms * 2}ms")
    answers = []
    victim = threading.Thread(target=lambda: answers.append(shop.order(victim_url, ITEM, strategy)))
    victim.start()
    until(lambda: answers or has_struck(shop, victim_url, "slow"), "one is inside")
    shop.arm(other_url, "failover")
    load, _ = under_load(shop, strategy, scale, [other_url])
    victim.join()
    return load, answers[0]


@dataclasses.dataclass
class Scene:
    strategy: str
    fault: str
    play: object
    prediction: object
    shows: str
    segments: int = 0


LOAD = ("load", under_load)
DIES = ("a seller dies inside", with_victim("die", 0))
SLOW = ("an order of 3 leases", with_victim("slow", 3))
STOPPED = ("stopped for 3 leases", with_victim("stop", 3))
ONE_DOWN = ("a lock server down", with_server_fault("lock-server-down", "lock-server-up"))
RESTART = ("Redis restarts", with_server_fault("redis-restart"))
FAILOVER = ("master lost", with_failover)

SCENES = [
    Scene("none", *LOAD, oversold, "everybody reads the same stock"),
    Scene("process-mutex", *LOAD, oversold, "one mutex in each process: two mutexes"),
    Scene("setnx-once", *LOAD, turned_away, "customers sent away, with pieces left"),
    Scene("setnx-recursive", *DIES, stuck, "each retry a frame, until the stack is full"),
    Scene("setnx-sleep", *LOAD, sold_exactly, "exact, but wakes late"),
    Scene("setnx-sleep", *DIES, stuck, "a dead seller's key stays for ever"),
    Scene("setnx-spin", *LOAD, sold_exactly, "exact, at the price of asking without a pause"),
    Scene("setnx-expire", *DIES, stuck, "dead between SETNX and EXPIRE"),
    Scene("set-nx-ex", *DIES, sold_exactly, "a dead seller costs one lease"),
    Scene("set-nx-ex", *SLOW, oversold, "deletes the next one's lock"),
    Scene("owner-check", *SLOW, oversold, "the lease ends before the order does"),
    Scene("owner-shared", *LOAD, turned_away, "nobody recognizes the own lock"),
    Scene("lua-release", *SLOW, oversold, "released rightly, held too briefly"),
    Scene("reentry-flag", *LOAD, oversold, "the inner release frees the outer lock"),
    Scene("reentrant", *LOAD, sold_exactly, "taken again, counted"),
    Scene("reentrant", *SLOW, oversold, "still a lease that ends too early"),
    Scene("renew-inline", *LOAD, stuck, "renews, and never sells"),
    Scene("renew-ownerless", *DIES, stuck, "the living renew the dead one's lock"),
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
    load, victim = scene.play(shop, scene.strategy, scale)
    audit = settled(shop)
    return Result(scene.strategy, scene.fault, audit["sold"], audit["oversold"], load["stuck_ms"],
                  load["rate"], load["p99_ms"], load, audit, victim)


def settled(shop):
    """The audit, after orders that nobody waits for any more have ended."""
    audit = shop.audit()
    while True:
        time.sleep(0.02)
        again = shop.audit()
        if again == audit:
            return audit
        audit = again
