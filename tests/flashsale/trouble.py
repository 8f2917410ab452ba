#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad days: slow clients, a Redis that goes away, SIGTERM in the middle, faults on demand:
trouble.py --flashsale FILE"""

import http.client
import os
import signal
import socket
import sys
import threading
import time

import stage as stages
from stage import expect, expect_true, until

CASES, case = stages.cases()
LOCK = "RedisDistributedLock"


def lock_is_held(redis):
    return redis.cli("exists", LOCK, db=1) == "1"


# ===== Slow clients =====

def state_of(pid):
    """As ps shows it: T is stopped, Z a process that nobody has asked for its end yet."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "gone"


def seconds_until_closed(stream):
    begin = time.monotonic()
    stream.settimeout(15)
    try:
        while stream.recv(1000):
            pass
    except ConnectionResetError:
        pass
    return time.monotonic() - begin


@case
def a_client_that_says_nothing_is_shown_out(stage):
    shop = stage.serve(stage.redis(), "--patience", "1s")
    with socket.create_connection(("127.0.0.1", shop.port)) as silent, \
            socket.create_connection(("127.0.0.1", shop.port)) as half:
        half.sendall(b"POST /items/10001/orders HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{")
        for stream in (silent, half):
            expect_true(seconds_until_closed(stream) < 6, "it is closed after its patience")
    expect(shop.ask("/healthz").status, 200, "others are served")


@case
def a_client_that_drips_is_shown_out(stage):
    shop = stage.serve(stage.redis(), "--patience", "1s")
    with socket.create_connection(("127.0.0.1", shop.port)) as stream:
        begin = time.monotonic()

        def dripped():
            try:
                stream.sendall(b"x")
            except OSError:
                return True
            return False

        stream.sendall(b"GET /")
        until(dripped, "it is shown out, however busily it drips", 10)
        expect_true(time.monotonic() - begin > 1, "but not at once")


@case
def whoever_waits_for_an_answer_is_not_slow(stage):
    """The wait is ours, not the client's: it may be much longer than the patience."""
    shop = stage.serve(stage.redis(), "--patience", "1s", "--wait", "20s", "--slow-at", "1:4s")
    shop.put("10001", stock=10)
    orders = [stages.in_background(shop.order, "10001") for _ in range(3)]
    expect([order.result(20).status for order in orders], [201] * 3, "orders")


@case
def whoever_has_bought_does_not_wait_for_the_next(stage):
    """A seller that has the next order inside already answers the one before meanwhile, and not
    after the sale, however long that takes."""
    redis = stage.redis()
    for strategy in ("pawl", "pawl-handoff", "pawl-fenced"):
        shop = stage.serve(redis, "--strategy", strategy, "--wait", "20s", "--slow-at", "3:5s")
        shop.put("10001", stock=10)
        redis.cli("hset", LOCK, "somebody:1", "1", db=1)
        orders = [stages.in_background(shop.order, "10001") for _ in range(3)]
        until(lambda: shop.metrics()["flashsale_waiting"] == 3, "all three wait")
        redis.cli("del", LOCK, db=1)
        redis.cli("publish", f"redisson_lock__channel:{{{LOCK}}}", "0", db=1)
        until(lambda: "is inside" in shop.said(), "the slow one is inside")
        begin = time.monotonic()
        until(lambda: sum(order.done() for order in orders) == 2, "the two before are answered")
        expect_true(time.monotonic() - begin < 4, f"{strategy}: they are answered at once")
        expect([order.result(20).status for order in orders], [201] * 3, "orders")
        shop.terminate()


@case
def clients_that_went_away_cost_nothing(stage):
    shop = stage.serve(stage.redis(), "--strategy", "pawl", "--slow-at", "1:1s")
    shop.put("10001", stock=50)
    head = b"POST /items/10001/orders HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", shop.port)) as stream:
            stream.sendall(head)
    until(lambda: shop.item("10001")["sold"] == 20, "their orders are carried out")
    expect(shop.order("10001").json["remaining"], 29, "the next one")
    connection = http.client.HTTPConnection("127.0.0.1", shop.port, timeout=10)
    connection.request("GET", "/events")
    connection.sock.close()
    connection.close()
    expect(shop.terminate(), 0, "exit status")


# ===== Redis =====

@case
def redis_goes_away_and_comes_back(stage):
    redis = stage.redis("--appendonly", "yes", "--appendfsync", "always")
    shop = stage.serve(redis, "--wait", "1s", "--allow-faults")
    shop.put("10001", stock=50)
    strategies = ("pawl", "pawl-handoff", "process-mutex", "atomic", "none")
    for strategy in strategies:
        expect(shop.order("10001", strategy=strategy).status, 201, f"{strategy}, before")
    redis.kill()
    for strategy in strategies:
        answer = shop.order("10001", strategy=strategy)
        expect((answer.status, answer.json["error"]), (503, "unavailable"), strategy)
        expect(answer.headers["Retry-After"], "1", f"{strategy}: Retry-After")
    for method, path, body in (("GET", "/items/10001", None), ("PUT", "/items/10001", {"stock": 1}),
                               ("GET", "/results", None), ("PUT", "/results/pawl", {})):
        answer = shop.ask(path, method, body)
        expect((answer.status, answer.headers["Retry-After"]), (503, "1"), f"{method} {path}")
    expect(shop.ask("/healthz").status, 503, "health")
    expect_true("flashsale_orders_total" in shop.ask("/metrics").text, "metrics")
    redis.start()
    expect(shop.ask("/healthz").status, 200, "health, afterwards")
    for strategy in strategies:
        until(lambda: shop.order("10001", strategy=strategy).status == 201, f"{strategy}, again")
    left = [record["remaining"] for record in stages.records(redis, "10001")]
    expect(left, list(range(49, 49 - len(left), -1)), "no piece is lost, none sold twice")
    expect(int(redis.cli("get", "10001")), 50 - len(left), "the stock")


@case
def redis_may_come_later_than_the_shop(stage):
    redis = stage.redis()
    redis.stop()
    shop = stage.serve(redis, "--strategy", "pawl", "--wait", "500ms")
    expect(shop.ask("/healthz").status, 503, "before")
    expect_true("does not answer" in shop.said(), f"it says so: {shop.said()}")
    redis.start()
    expect(shop.put("10001", stock=5)["stock"], 5, "PUT")
    until(lambda: shop.order("10001").status == 201, "an order")


@case
def redis_dies_between_read_and_write(stage):
    """Nothing was written, and the shop knows it."""
    redis = stage.redis("--appendonly", "yes", "--appendfsync", "always")
    shop = stage.serve(redis, "--strategy", "none", "--work", "2500ms")
    shop.put("10001", stock=5)
    order = stages.in_background(shop.order, "10001")
    until(lambda: shop.metrics()["flashsale_lock_wait_seconds_count"] == 1, "it is inside")
    redis.kill()
    answer = order.result(20)
    expect((answer.status, answer.json["error"]), (503, "unavailable"), "the answer")
    redis.start()
    expect(shop.item("10001"), {"item": "10001", "stock": 5, "initial": 5, "sold": 0}, "the item")


@case
def redis_freezes_over_the_answer(stage):
    """The write was sent; nobody can know, and the answer says so and does not ask to repeat it."""
    redis = stage.redis()
    shop = stage.serve(redis, "--strategy", "none", "--work", "1500ms")
    shop.put("10001", stock=5)
    expect(shop.order("10001").status, 201, "an order before, after which Redis knows the script")
    order = stages.in_background(shop.order, "10001")
    until(lambda: shop.metrics()["flashsale_lock_wait_seconds_count"] == 2, "it is inside")
    redis.process.signal(signal.SIGSTOP)
    answer = order.result(20)
    redis.process.signal(signal.SIGCONT)
    expect((answer.status, answer.json["error"]), (503, "unknown"), "the answer")
    expect(answer.headers["Retry-After"], None, "Retry-After")
    until(lambda: shop.item("10001")["sold"] == 2, "it was recorded nevertheless")


@case
def a_frozen_redis_does_not_make_the_queue_endless(stage):
    """Each question takes a second or two now; who stands behind many others is told soon."""
    redis = stage.redis()
    shop = stage.serve(redis, "--strategy", "none")
    shop.put("10001", stock=5)
    redis.process.signal(signal.SIGSTOP)
    begin = time.monotonic()
    questions = [stages.in_background(shop.ask, "/items/10001", "GET", None, None, 60)
                 for _ in range(40)]
    answers = [question.result(60) for question in questions]
    took = time.monotonic() - begin
    redis.process.signal(signal.SIGCONT)
    expect({(answer.status, answer.headers["Retry-After"]) for answer in answers}, {(503, "1")},
           "the answers")
    expect_true(took < 12, f"it took {took:.1f} s")
    expect(shop.item("10001")["stock"], 5, "afterwards all is well")


# ===== SIGTERM =====

@case
def sigterm_finishes_what_was_begun(stage):
    redis = stage.redis()
    for strategy in ("pawl", "pawl-handoff", "process-mutex"):
        finish_what_was_begun(redis, stage.serve(redis, "--strategy", strategy, "--work", "200ms"))


def finish_what_was_begun(redis, shop):
    shop.put("10001", stock=10)
    orders = [stages.in_background(shop.order, "10001") for _ in range(4)]
    until(lambda: (lambda m: m["flashsale_lock_wait_seconds_count"] + m["flashsale_waiting"] == 4)(
        shop.metrics()), "one is inside, others wait")
    shop.signal(signal.SIGTERM)
    until(lambda: "closing" in shop.said(), "it closes")
    try:
        shop.ask("/healthz", seconds=2)
        raise AssertionError("it still listens")
    except (ConnectionRefusedError, ConnectionResetError):
        pass
    expect([order.result(20).status for order in orders], [201] * 4, "orders that were begun")
    expect(shop.wait(), 0, "exit status")
    expect(lock_is_held(redis), False, "the lock")
    expect(redis.cli("get", "10001"), "6", "the stock")


@case
def sigterm_sends_away_who_would_wait_too_long(stage):
    redis = stage.redis()
    for strategy in ("pawl", "pawl-handoff"):
        send_away(redis, stage.serve(redis, "--strategy", strategy, "--wait", "60s",
                                     "--slow-at", "1:5s", "--grace", "300ms"))


def send_away(redis, shop):
    shop.put("10001", stock=10)
    first = stages.in_background(shop.order, "10001")
    until(lambda: "is inside" in shop.said(), "the first is inside")
    others = [stages.in_background(shop.order, "10001") for _ in range(5)]
    until(lambda: shop.metrics()["flashsale_waiting"] == 5, "the others wait")
    begin = time.monotonic()
    shop.signal(signal.SIGTERM)
    for order in others:
        answer = order.result(20)
        expect((answer.status, answer.headers["Retry-After"]), (503, "1"), "whoever waits")
    expect_true(time.monotonic() - begin < 4, "they are told soon")
    expect(first.result(20).status, 201, "whoever is inside")
    expect(shop.wait(), 0, "exit status")
    expect(lock_is_held(redis), False, "the lock")
    expect(redis.cli("get", "10001"), "9", "the stock")


@case
def sigterm_sends_away_whatever_they_wait_for(stage):
    """Also those who wait inside a lock's own call, and those who stand behind them in line."""
    strategies = ("process-mutex", "setnx-sleep", "setnx-recursive", "renewed", "split", "redlock",
                  "pawl-multi", "pawl-fair")

    def run(number):
        redis, arguments = stage.redis(), ["--sellers", "3"]
        if strategies[number] in ("redlock", "pawl-multi"):
            # With a short lease, servers that are new vote soon.
            servers = ",".join(stage.redis().url() for _ in range(3))
            arguments += ["--quorum", servers, "--lease", "2s"]
        shop = stage.serve(redis, "--strategy", strategies[number], "--wait", "60s", "--slow-at",
                           "1:5s", "--grace", "300ms", *arguments)
        try:
            send_away(redis, shop)
        except Exception as error:
            raise AssertionError(f"{strategies[number]}: {error} {shop.said()}") from error

    stages.together(len(strategies), run)


@case
def sigterm_interrupts_a_renewal_that_never_sells(stage):
    redis = stage.redis()
    shop = stage.serve(redis, "--strategy", "renew-inline", "--wait", "60s", "--grace", "100ms")
    shop.put("10001", stock=10)
    order = stages.in_background(shop.order, "10001")
    until(lambda: lock_is_held(redis), "it renews")
    begin = time.monotonic()
    shop.signal(signal.SIGTERM)
    expect(order.result(20).status, 503, "the order")
    expect(shop.wait(), 0, f"exit status: {shop.said()}")
    expect_true(time.monotonic() - begin < 8, "it ends soon")


@case
def sigterm_does_not_wait_for_a_redis_that_is_frozen(stage):
    redis = stage.redis()
    shop = stage.serve(redis, "--strategy", "none")
    shop.put("10001", stock=5)
    streams = []
    for number in range(10):
        stream = http.client.HTTPConnection("127.0.0.1", shop.port, timeout=60)
        stream.request("GET", f"/events?item=item{number}")
        streams.append((stream, stream.getresponse()))
    redis.process.signal(signal.SIGSTOP)
    questions = [stages.in_background(shop.ask, "/items/10001", "GET", None, None, 60)
                 for _ in range(40)]
    until(lambda: any(question.done() for question in questions), "they are being answered")
    begin = time.monotonic()
    shop.signal(signal.SIGTERM)
    expect(shop.wait(60), 0, f"exit status: {shop.said()}")
    expect_true(time.monotonic() - begin < 12, f"it took {time.monotonic() - begin:.1f} s")
    redis.process.signal(signal.SIGCONT)
    answers = [question.result(20) for question in questions]
    expect({answer.status for answer in answers}, {503}, "the answers")
    for stream, _ in streams:
        stream.close()


@case
def sigterm_ends_streams_and_kept_connections(stage):
    shop = stage.serve(stage.redis())
    stream = http.client.HTTPConnection("127.0.0.1", shop.port, timeout=10)
    stream.request("GET", "/events")
    reply = stream.getresponse()
    reply.readline()
    kept = http.client.HTTPConnection("127.0.0.1", shop.port, timeout=10)
    kept.request("GET", "/healthz")
    kept.getresponse().read()
    begin = time.monotonic()
    expect(shop.terminate(), 0, "exit status")
    expect_true(time.monotonic() - begin < 5, "it ends soon")
    while reply.readline():
        pass
    stream.close()
    kept.close()


# ===== Faults on demand =====

@case
def faults_are_for_those_who_allow_them(stage):
    redis = stage.redis()
    shop = stage.serve(redis)
    for name in ("die", "stop", "slow", "failover"):
        expect(shop.ask(f"/faults/{name}", "POST").status, 403, name)
    shop = stage.serve(redis, "--allow-faults")
    expect(shop.ask("/faults/magic", "POST").status, 404, "no such fault")
    expect(shop.ask("/faults/slow", "GET").status, 405, "GET")
    expect(shop.ask("/faults/slow?for=x", "POST").status, 400, "no duration")
    expect(shop.ask("/faults/failover", "POST").status, 501, "without a supervisor")
    shop.put("10001", stock=5)
    answer = shop.ask("/faults/slow?for=2s", "POST")
    expect((answer.status, answer.json["fault"]), (200, "slow"), "slow")
    begin = time.monotonic()
    expect(shop.order("10001").status, 201, "the slow order")
    expect_true(time.monotonic() - begin >= 2, "it took its time")
    begin = time.monotonic()
    shop.order("10001")
    expect_true(time.monotonic() - begin < 2, "only one order does")


@case
def a_seller_that_dies_keeps_the_lock_for_a_lease(stage):
    redis = stage.redis()
    one = stage.serve(redis, "--strategy", "pawl", "--lease", "1500ms", "--die-at", "2")
    two = stage.serve(redis, "--strategy", "pawl", "--lease", "1500ms", "--wait", "10s")
    one.put("10001", stock=5)
    expect(one.order("10001").status, 201, "the first")
    try:
        one.order("10001")
        raise AssertionError("the second order was answered")
    except (ConnectionError, http.client.HTTPException):
        pass
    expect(one.wait(), -signal.SIGKILL, "how it ended")
    expect(lock_is_held(redis), True, "the lock is left behind")
    begin = time.monotonic()
    expect(two.order("10001").json["remaining"], 3, "the other sells the next piece")
    expect_true(time.monotonic() - begin < 9, "after the lease")


@case
def a_seller_that_is_stopped_goes_on(stage):
    redis = stage.redis()
    shop = stage.serve(redis, "--strategy", "none", "--stop-at", "1:1s")
    shop.put("10001", stock=5)
    begin = time.monotonic()
    order = stages.in_background(shop.order, "10001")

    until(lambda: state_of(shop.pid) == "T", "the whole process is stopped")
    expect(order.result(20).status, 201, "the order")
    expect_true(time.monotonic() - begin > 0.9, "it took a second")
    expect(shop.order("10001").status, 201, "the next")
    expect(shop.terminate(), 0, "exit status")


@case
def a_seller_that_is_killed_while_it_is_stopped_leaves_nobody(stage):
    """Who would have let it go on ends with it, and not when the stop would have."""
    redis = stage.redis()
    shop = stage.serve(redis, "--strategy", "none", "--stop-at", "1:1h")
    shop.put("10001", stock=5)
    order = stages.in_background(shop.order, "10001")

    def helpers():
        own = []
        for thread in os.listdir(f"/proc/{shop.pid}/task"):
            with open(f"/proc/{shop.pid}/task/{thread}/children", encoding="utf-8") as file:
                own += file.read().split()
        return own

    helper = until(helpers, "it is being stopped")[0]
    shop.kill()
    expect(isinstance(order.exception(20), (ConnectionError, http.client.HTTPException)), True,
           "the order")
    until(lambda: state_of(helper) in ("gone", "Z"), "the helper is gone")


@case
def faults_of_servers_are_asked_for_at_the_supervisor(stage):
    redis = stage.redis()
    path = os.path.join(stage.directory, "control.sock")
    asked = []

    def supervise(listener):
        for answer in (b"ok the master is dead\n", b"error no replica\n"):
            stream, _ = listener.accept()
            with stream:
                asked.append(stream.recv(100))
                stream.sendall(answer)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        thread = threading.Thread(target=supervise, args=(listener,), daemon=True)
        thread.start()
        shop = stage.serve(redis, "--allow-faults", "--control", path)
        expect(shop.ask("/faults").json["allowed"], ["die", "stop", "slow", "redis-restart"],
               "no server to fail over, none of a quorum")
        answer = shop.ask("/faults/failover", "POST")
        expect((answer.status, answer.json["note"]), (200, "the master is dead"), "failover")
        answer = shop.ask("/faults/redis-restart", "POST")
        expect((answer.status, answer.json["detail"]), (502, "no replica"), "restart")
        thread.join(5)
    expect(asked, [b"failover\n", b"redis-restart\n"], "what the supervisor was asked")
    expect(shop.ask("/faults/failover", "POST").status, 502, "a supervisor that is gone")


if __name__ == "__main__":
    sys.exit(stages.run_all(CASES, __doc__))
