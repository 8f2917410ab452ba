#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shop's HTTP interface, as a customer sees it: service.py --flashsale FILE"""

import http.client
import json
import socket
import sys

import stage as stages
from stage import expect, expect_true, until

CASES, case = stages.cases()
OWN = ("none", "process-mutex", "pawl", "atomic")


def expect_error(answer, status, error, what):
    """Every error is JSON with a word and a sentence."""
    expect(answer.status, status, f"{what}: {answer.text}")
    expect(answer.json["error"], error, what)
    expect_true(len(answer.json["detail"]) > 10, f"{what}: no sentence in {answer.text}")


# ===== Orders and items =====

@case
def an_order_has_a_number_and_what_is_left(stage):
    redis = stage.redis()
    shop = stage.serve(redis, "--strategy", "pawl")
    expect(shop.put("10001", stock=50), {"item": "10001", "stock": 50, "initial": 50, "sold": 0},
           "PUT")
    answer = shop.order("10001")
    expect(answer.status, 201, "status")
    expect(answer.json, {"order": "10001-1", "item": "10001", "quantity": 1, "remaining": 49,
                         "port": shop.port, "strategy": "pawl"}, "the order")
    expect(shop.item("10001")["sold"], 1, "sold")
    expect(redis.cli("get", "10001"), "49", "the stock in Redis")
    record, = stages.records(redis, "10001")
    expect_true(record.pop("at_ms") > 0 and record.pop("token") > 0, "date and token")
    expect(record, {"item": "10001", "segment": "10001", "quantity": 1, "remaining": 49,
                    "port": shop.port, "strategy": "pawl", "user": "", "activity": ""}, "record")


@case
def sold_out_is_409(stage):
    shop = stage.serve(stage.redis())
    for strategy in OWN:
        shop.put("10001", stock=3)
        expect(shop.order("10001", strategy=strategy, quantity=2).status, 201, strategy)
        answer = shop.order("10001", strategy=strategy, quantity=2)
        expect_error(answer, 409, "sold out", f"{strategy}, with one left of two")
        expect(answer.json["remaining"], 1, strategy)
        expect(shop.order("10001", strategy=strategy).json["remaining"], 0, f"{strategy}: the last")
        expect_error(shop.order("10001", strategy=strategy), 409, "sold out", strategy)


@case
def an_order_may_have_a_body(stage):
    redis = stage.redis()
    shop = stage.serve(redis)
    shop.put("10001", stock=10)
    body = {"quantity": 3, "user": "u-1", "activity": "spring.2026"}
    answer = shop.ask("/items/10001/orders", "POST", body)
    expect((answer.status, answer.json["quantity"], answer.json["remaining"]), (201, 3, 7), "order")
    record, = stages.records(redis, "10001")
    expect((record["user"], record["activity"]), ("u-1", "spring.2026"), "record")
    expect(redis.cli("hget", "buyers:spring.2026:10001", "u-1"), "3", "what the user has")
    expect(shop.item("10001")["sold"], 3, "pieces that were sold")
    answer = shop.ask("/items/10001/orders", "POST", {"strategy": "none"})
    expect((answer.status, answer.json["strategy"]), (201, "none"), "its strategy in the body")
    answer = shop.ask("/items/10001/orders", "POST", {"strategy": "magic"})
    expect_error(answer, 400, "bad request", "no such strategy in the body")


@case
def put_begins_a_new_sale(stage):
    redis = stage.redis()
    shop = stage.serve(redis)
    shop.put("10001", stock=10, per_user=5)
    shop.order("10001", user="u1", activity="a1", quantity=4)
    redis.cli("set", "fence:10001", 7)
    shop.put("10001", stock=8)
    expect(shop.item("10001"), {"item": "10001", "stock": 8, "initial": 8, "sold": 0}, "item")
    left = set(redis.cli("keys", "*10001*").split())
    expect(left, {"10001", "initial:10001", "sale:10001"}, "keys of the item")


@case
def a_limit_for_each_user_is_kept(stage):
    shop = stage.serve(stage.redis())
    for strategy in OWN:
        expect(shop.put("10001", stock=10, per_user=2)["per_user"], 2, "PUT")
        ask = {"strategy": strategy, "activity": "a1"}
        expect(shop.order("10001", user="u1", quantity=2, **ask).status, 201, strategy)
        answer = shop.order("10001", user="u1", **ask)
        expect_error(answer, 409, "refused", f"{strategy}: a third")
        expect(answer.json.get("remaining", 8), 8, f"{strategy}: what is left, if it is said")
        expect_error(shop.order("10001", **ask), 409, "refused", f"{strategy}: from nobody")
        expect(shop.order("10001", user="u2", **ask).status, 201, f"{strategy}: another user")
        expect(shop.item("10001")["stock"], 7, f"{strategy}: the stock")


@case
def a_split_item_shows_its_segments(stage):
    redis = stage.redis()
    shop = stage.serve(redis)
    item = shop.put("10001", stock=1000, segments=5)
    expect(item["segments"], [{"key": f"10001_{i}", "stock": 200} for i in range(5)], "even")
    item = shop.put("10001", stock=11, segments=4)
    expect([row["stock"] for row in item["segments"]], [3, 3, 3, 2], "the remainder comes first")
    expect(item["stock"], 11, "in all")
    expect(redis.cli("exists", "10001_4"), "0", "the fifth segment of the sale before")
    for strategy in OWN:
        answer = shop.order("10001", strategy=strategy)
        expect_error(answer, 409, "refused", f"{strategy}, split")
        expect("remaining" in answer.json, False, f"{strategy}: a number that nobody has counted")
    shop.put("10001", stock=5)
    expect(redis.cli("keys", "10001_*"), "", "segments of the sale before")


@case
def strategies_and_results(stage):
    shop = stage.serve(stage.redis(), "--allow-faults")
    rows = shop.ask("/strategies").json
    expect_true(set(OWN) <= {row["name"] for row in rows}, f"strategies: {rows}")
    for row in rows:
        expect(set(row), {"name", "title", "flaw", "sound", "needs"}, "a row")
    expect(shop.ask("/results").json, {}, "no results")
    row = {"strategy": "pawl", "sold": 200, "oversold": 0, "rate": 900.5, "shows": "sold exactly"}
    expect(shop.ask("/results/pawl", "PUT", row).status, 200, "PUT")
    expect(shop.ask("/results").json, {"pawl": row}, "results")
    expect(shop.ask("/results/pawl?under=a%20stop", "PUT", row).status, 200, "PUT, under a fault")
    expect(shop.ask("/results").json, {"pawl": row, "pawl, a stop": row}, "both results")
    expect_error(shop.ask("/results/magic", "PUT", row), 404, "unknown strategy", "no such row")
    expect_error(shop.ask("/results/pawl", "PUT", "[]"), 400, "bad request", "no object")
    for under in ("x" * 65, "%ff"):
        answer = shop.ask(f"/results/pawl?under={under}", "PUT", row)
        expect_error(answer, 400, "bad request", f"under {under}")
    expect(set(shop.ask("/results").json), {"pawl", "pawl, a stop"}, "nothing of these")


@case
def results_are_for_those_who_allow_them(stage):
    """What stands side by side on the page is the demonstration's, not for anybody to change."""
    redis = stage.redis()
    shop = stage.serve(redis)
    for name in ("pawl", "magic"):
        answer = shop.ask(f"/results/{name}", "PUT", {"sold": 1})
        expect_error(answer, 403, "forbidden", name)
        expect_true("--allow-faults" in answer.json["detail"], f"the remedy: {answer}")
    expect(shop.ask("/results").json, {}, "GET is for everybody")
    expect(redis.cli("exists", "shop:results"), "0", "nothing was stored")


@case
def the_aliases_answer_as_tutorials_do(stage):
    shop = stage.serve(stage.redis(), "--strategy", "process-mutex")
    sale = "/redis/distributed/lock/inventory/sale"
    answer = shop.ask(sale)
    expect((answer.status, answer.text), (
        404, 'no item inventory001; PUT /items/inventory001 {"stock":1000} makes it, '
        f"by port {shop.port}\n"), "before any PUT")
    shop.put("inventory001", stock=2)
    answer = shop.ask(sale)
    expect(answer.text, f"sold one, 1 left, by port {shop.port}\n", "this process's strategy")
    expect_true(answer.headers["Content-Type"].startswith("text/plain"), "plain text")
    answer = shop.ask("/inventory/saleByRedisson")
    expect(answer.text, f"sold one, 0 left, by port {shop.port}\n", "pawl")
    expect(shop.ask(sale).text, f"sold out, by port {shop.port}\n", "nothing left")
    metrics = shop.metrics()
    for strategy in ("process-mutex", "pawl"):
        name = f'flashsale_orders_total{{strategy="{strategy}",end="sold"}}'
        expect(metrics[name], 1, name)


# ===== Where the lock lives =====

@case
def the_lock_may_live_elsewhere(stage):
    redis, other = stage.redis(), stage.redis("--unixsocket", f"{stage.directory}/s.sock")
    places = {
        "the same server": (),
        "another server": ("--lock", other.url(3)),
        "a socket": ("--lock", f"redis+unix://{stage.directory}/s.sock?db=4"),
        "files": ("--lock", f"file://{stage.directory}/locks"),
        "this process": ("--lock", "memory:shop"),
    }
    for what, arguments in places.items():
        shop = stage.serve(redis, "--strategy", "pawl", "--wait", "20s", *arguments)
        shop.put("10001", stock=40)
        expect(shop.order_at_once(40, "10001"), {201: 40}, what)
        expect(shop.item("10001")["stock"], 0, f"{what}: left")
        expect(shop.terminate(), 0, f"{what}: exit status")
    expect(redis.cli("exists", "RedisDistributedLock", db=1), "0", "the lock is released")
    expect_true(int(redis.cli("dbsize", db=1)) > 0, "nothing was locked in database 1")
    expect_true(int(other.cli("dbsize", db=3)) > 0, "nothing was locked on the other server")


@case
def redis_may_want_a_password(stage):
    redis = stage.redis()
    redis.cli("config", "set", "requirepass", "p@ss:word")
    secret = f"redis://:p%40ss%3aword@127.0.0.1:{redis.port}/0"
    for strategy in ("pawl", "atomic"):
        shop = stage.serve(redis, "--strategy", strategy, "--redis", secret)
        shop.put("10001", stock=5)
        expect(shop.order("10001").status, 201, strategy)
        expect_true("word" not in shop.printed() + shop.said(), "the password is not shown")


# ===== Bad input =====

@case
def unknown_things(stage):
    shop = stage.serve(stage.redis())
    shop.put("10001", stock=5)
    for strategy in OWN:
        expect_error(shop.order("nobody", strategy=strategy), 404, "unknown item", strategy)
    expect_error(shop.ask("/items/nobody"), 404, "unknown item", "GET")
    expect_error(shop.order("10001", strategy="magic"), 400, "bad request", "no such strategy")
    for path in ("/nowhere", "/items", "/items/", "/items/10001/orders/1", "/page.js/x", "//"):
        answer = shop.ask(path)
        expect_true(answer.status in (400, 404), f"{path}: {answer}")
    answer = shop.ask("/items/10001", "DELETE")
    expect_error(answer, 405, "method not allowed", "DELETE")
    expect(answer.headers["Allow"], "GET, PUT", "Allow")
    answer = shop.ask("/items/10001/orders")
    expect_error(answer, 405, "method not allowed", "GET of orders")
    expect(answer.headers["Allow"], "POST", "Allow")
    expect_error(shop.ask("/", "POST"), 405, "method not allowed", "POST to the page")
    for path, status in (("/", 200), ("/healthz", 200), ("/items/10001", 200), ("/metrics", 200),
                         ("/items/nobody", 404), ("/submitOrder", 405), ("/events", 405)):
        answer = shop.ask(path, "HEAD")
        expect((answer.status, answer.text), (status, ""), f"HEAD {path}")
    expect(shop.item("10001")["stock"], 5, "the stock")


@case
def numbers_that_make_no_sense(stage):
    shop = stage.serve(stage.redis())
    shop.put("10001", stock=5)
    for quantity in ("0", "-1", "1000001", "99999999999999999999", "1.5", "x", "", " 1", "0x10"):
        expect_error(shop.order("10001", quantity=quantity), 400, "bad request", quantity)
    for query in ("quantity", "quantity&user=u", "quantty=3", "Quantity=3", "user", "strategy"):
        answer = shop.ask(f"/items/10001/orders?{query}", "POST")
        expect_error(answer, 400, "bad request", f"?{query}")
    expect(shop.item("10001")["stock"], 5, "nothing was sold by mistake")
    for quantity in (0, -1, 1000001, 1e30, 1.5, "1", None, True, [1]):
        answer = shop.ask("/items/10001/orders", "POST", {"quantity": quantity})
        expect_error(answer, 400, "bad request", f"{quantity!r}")
    for field in ({"stock": -1}, {"stock": 1000000001}, {"stock": 1.5}, {"stock": "5"}, {},
                  {"stock": 5, "segments": 0}, {"stock": 5, "segments": 65},
                  {"stock": 5, "per_user": -1}, {"stock": 5, "segment": 5}):
        expect_error(shop.ask("/items/10001", "PUT", field), 400, "bad request", f"{field}")
    expect(shop.put("10001", stock=1000000000)["stock"], 1000000000, "the greatest stock")
    expect(shop.order("10001", quantity=1000000).json["remaining"], 999000000, "the greatest order")


@case
def ids_and_bodies_that_make_no_sense(stage):
    redis = stage.redis()
    shop = stage.serve(redis)
    for item in ("a" * 65, "a" * 3000, "a%20b", "a%0Ab", "%00", "%C3%A4", "a*", "a:b", "a%22b"):
        for method, path in (("GET", ""), ("PUT", ""), ("POST", "/orders")):
            answer = shop.ask(f"/items/{item}{path}", method, {"stock": 1} if path == "" else None)
            expect_true(answer.status in (400, 404, 405), f"{method} {item}: {answer}")
    expect(redis.cli("dbsize"), "0", "nothing was set")
    shop.put("10001", stock=5)
    for name in ("user", "activity"):
        for value in ("x" * 65, "a b", "a\"b", "\u00e4"):
            expect_error(shop.order("10001", **{name: value}), 400, "bad request", value)
    for body in ("{", "[]", "1", '{"quantity":1}x', '{"quantity":1,"quantity":2}', '{"qty":1}',
                 '{"user":5}', "\xff\xfe", "{\"user\":\"\\u0000\"}"):
        answer = shop.ask("/items/10001/orders", "POST", body.encode("latin-1"))
        expect_error(answer, 400, "bad request", body)
    expect(shop.put("a" * 64, stock=1)["item"], "a" * 64, "the longest id")
    expect(shop.item("10001")["stock"], 5, "the stock")


@case
def an_item_is_never_a_segment_of_another(stage):
    """Whoever could sell 10001_3 as an item would pass the segment's lock by."""
    shop = stage.serve(stage.redis())
    shop.put("10001", stock=100, segments=5)
    for item in ("10001_0", "10001_4", "10001_63", "x_7"):
        for method, path, body in (("GET", "", None), ("PUT", "", {"stock": 9}),
                                   ("POST", "/orders", None)):
            answer = shop.ask(f"/items/{item}{path}", method, body)
            expect_error(answer, 400, "bad request", f"{method} {item}")
            expect_true("segment" in answer.json["detail"], f"{answer}")
    expect(shop.item("10001")["stock"], 100, "the stock")
    for item in ("10001_64", "10001_", "10001_00", "10001_3x", "_", "3"):
        expect(shop.put(item, stock=9)["stock"], 9, item)


@case
def no_item_is_in_the_way_of_the_results(stage):
    shop = stage.serve(stage.redis(), "--allow-faults")
    expect(shop.ask("/results/pawl", "PUT", {"sold": 1}).status, 200, "PUT of a result")
    expect(shop.put("results", stock=5)["stock"], 5, "an item of that name")
    expect(shop.ask("/results").json, {"pawl": {"sold": 1}}, "the results")


@case
def large_requests(stage):
    shop = stage.serve(stage.redis())
    shop.put("10001", stock=5)
    padded = json.dumps({"quantity": 1}) + " " * 4096
    expect(shop.ask("/items/10001/orders", "POST", padded[:4096]).status, 201, "4096 bytes")
    expect_error(shop.ask("/items/10001/orders", "POST", padded[:4097]), 413, "too large", "4097")
    # The same without saying beforehand how long it is.
    connection = http.client.HTTPConnection("127.0.0.1", shop.port, timeout=10)
    chunks = (b" " * 1000 for _ in range(10))
    connection.request("POST", "/items/10001/orders", body=chunks, encode_chunked=True,
                       headers={"Transfer-Encoding": "chunked"})
    reply = connection.getresponse()
    expect((reply.status, json.loads(reply.read())["error"]), (413, "too large"), "in chunks")
    connection.close()
    # A head that never ends.
    with socket.create_connection(("127.0.0.1", shop.port), 10) as stream:
        stream.sendall(b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n")
        answer = stream.recv(100)
        expect_true(answer == b"" or 400 <= int(answer.split()[1]) < 500, f"a long head: {answer}")
    expect(shop.item("10001")["sold"], 1, "sold")


@case
def many_requests_on_one_connection(stage):
    shop = stage.serve(stage.redis())
    shop.put("10001", stock=5)
    connection = http.client.HTTPConnection("127.0.0.1", shop.port, timeout=10)
    statuses = []
    for method, path in (("GET", "/healthz"), ("POST", "/items/10001/orders"), ("GET", "/nowhere"),
                         ("POST", "/items/10001/orders?quantity=0"), ("GET", "/items/10001"),
                         ("DELETE", "/items/10001"), ("GET", "/style.css")):
        connection.request(method, path)
        port = connection.sock.getsockname()[1]
        reply = connection.getresponse()
        reply.read()
        statuses.append((reply.status, connection.sock is not None and
                         connection.sock.getsockname()[1] == port))
    connection.close()
    expect([status for status, _ in statuses], [200, 201, 404, 400, 200, 405, 200], "statuses")
    expect_true(all(same for _, same in statuses), "the connection is kept")


@case
def the_command_line(stage):
    redis = stage.redis()
    code, out, err = stage.run("serve", "--help")
    expect((code, err), (0, ""), "--help")
    expect_true("--strategy" in out and "curl -X PUT" in out, "--help teaches")
    code, out, err = stage.run("--help")
    expect_true(code == 0 and "serve" in out, f"flashsale --help: {out}")
    for arguments in (["--strategy", "magic"], ["--port", "x"], ["--port", "65536"], ["--odd"],
                      ["--lease", "1ms"], ["--lease", "5x"], ["--wait"], ["--redis", "http://x"],
                      ["--stop-at", "3"], ["--slow-at", "0:3s"], ["--die-at", "0"], ["more"],
                      ["--quorum", "redis://a,,redis://b"], ["--allow-faults=yes"]):
        code, out, err = stage.run("serve", "--port", "0", "--redis", redis.url(), *arguments)
        expect((code, out), (64, ""), f"{arguments}: {err}")
        expect_true(err.startswith("flashsale serve: ") and err.count("\n") == 1, err)
    expect(stage.run("magic")[0], 64, "no such command")
    expect(stage.run()[0], 64, "no command")
    shop = stage.serve(redis)
    code, out, err = stage.run("serve", "--port", str(shop.port), "--redis", redis.url())
    expect(code, 69, "a port that is in use")
    expect_true(f"port {shop.port}" in err and "in use" in err and "--port" in err, err)
    code, out, err = stage.run("serve", "--port", "0", "--bind", "here", "--redis", redis.url())
    expect_true(code == 64 and "--bind" in err, err)


@case
def only_this_machine_comes_in(stage):
    redis = stage.redis()
    shop = stage.serve(redis)
    try:
        socket.create_connection(("127.0.0.2", shop.port), 5).close()
        raise AssertionError("it listens on more than 127.0.0.1")
    except ConnectionRefusedError:
        pass
    expect(shop.said(), "", "nothing to say")
    wide = stage.serve(redis, "--bind", "0.0.0.0", "--allow-faults")
    socket.create_connection(("127.0.0.2", wide.port), 5).close()
    expect_true("--allow-faults" in wide.said(), "it warns of what it allows to everybody")


@case
def the_page_is_there(stage):
    shop = stage.serve(stage.redis())
    for path, kind in (("/", "text/html"), ("/style.css", "text/css"),
                       ("/page.js", "text/javascript")):
        answer = shop.ask(path)
        expect(answer.status, 200, path)
        expect_true(answer.headers["Content-Type"].startswith(kind), path)
        expect_true(len(answer.text) > 100, f"{path} is empty")
        expect(shop.ask(path, "HEAD").text, "", f"HEAD {path}")


@case
def metrics_count_what_happened(stage):
    shop = stage.serve(stage.redis())
    shop.put("10001", stock=2)
    for _ in range(3):
        shop.order("10001", strategy="pawl")
    shop.order("nobody", strategy="none")
    metrics = shop.metrics()
    for name, value in {
            'flashsale_orders_total{strategy="pawl",end="sold"}': 2,
            'flashsale_orders_total{strategy="pawl",end="sold_out"}': 1,
            'flashsale_orders_total{strategy="none",end="unknown_item"}': 1,
            "flashsale_order_seconds_count": 4,
            'flashsale_order_seconds_bucket{le="+Inf"}': 4,
            "flashsale_lock_wait_seconds_count": 4,
            "flashsale_waiting": 0,
            'flashsale_stock{item="10001"}': 0}.items():
        expect(metrics.get(name), value, name)
    buckets = [value for name, value in metrics.items() if "order_seconds_bucket" in name]
    expect(buckets, sorted(buckets), "buckets grow")
    expect_true(0 < metrics["flashsale_order_seconds_sum"] < 10, "the sum of all durations")


# ===== Events =====

def read_event(stream):
    """The next event of a stream, as a dictionary."""
    for line in stream:
        if line.startswith(b"data: "):
            return json.loads(line[6:])
    raise AssertionError("the stream has ended")


def event_where(stream, condition, what):
    """The next event of which this is true."""
    found = []

    def look():
        found[:] = [read_event(stream)]
        return condition(found[0])

    until(look, what)
    return found[0]


@case
def events_tell_how_it_goes(stage):
    redis = stage.redis()
    shop = stage.serve(redis, "--strategy", "pawl")
    shop.put("10001", stock=50)
    shop.put("20002", stock=7)
    connection = http.client.HTTPConnection("127.0.0.1", shop.port, timeout=10)
    connection.request("GET", "/events")
    stream = connection.getresponse()
    expect(stream.getheader("Content-Type"), "text/event-stream", "type")
    event = read_event(stream)
    for name, value in {"item": "10001", "strategy": "pawl", "initial": 50, "stock": 50, "sold": 0,
                        "oversold": 0, "rate": 0, "holder": None, "waiting": 0, "ports": {},
                        "results": {}, "faults": [], "note": ""}.items():
        expect(event[name], value, name)
    for _ in range(5):
        shop.order("10001")
    event = event_where(stream, lambda e: e["sold"] == 5, "five are sold")
    expect((event["stock"], event["ports"]), (45, {str(shop.port): 5}), "after five orders")
    expect_true(event["rate"] > 0 and event["p99_ms"] > 0, f"pace of {event}")
    # Somebody wrote back what was read two orders ago, and two pieces are on offer again.
    redis.cli("set", "10001", 47)
    event_where(stream, lambda e: e["oversold"] == 2, "oversold by two")
    # A new sale.
    shop.put("10001", stock=9)
    event = event_where(stream, lambda e: e["initial"] == 9, "the new sale is seen")
    expect((event["sold"], event["oversold"], event["ports"]), (0, 0, {}), "the new sale")
    # Split, sold from the second segment alone, and in one piece again.
    shop.put("10001", stock=4, segments=2)
    event_where(stream, lambda e: e["initial"] == 4, "it is split")
    for _ in range(4):
        expect(shop.order("10001", strategy="split").status, 201, "from a segment")
    redis.cli("del", "orders:10001_0")
    event_where(stream, lambda e: e["sold"] == 2, "the records of the second segment")
    shop.put("10001", stock=8)
    event = event_where(stream, lambda e: e["initial"] == 8, "in one piece")
    expect((event["sold"], event["oversold"]), (0, 0), "nothing is left of the segments")
    connection.close()
    other = http.client.HTTPConnection("127.0.0.1", shop.port, timeout=10)
    other.request("GET", "/events?item=20002")
    expect(read_event(other.getresponse())["stock"], 7, "another item")
    other.close()
    expect(shop.ask("/events?item=a%20b").status, 400, "an item that cannot be")


def listen(shop):
    """A stream of events, and the connection that it comes by."""
    connection = http.client.HTTPConnection("127.0.0.1", shop.port, timeout=10)
    connection.request("GET", "/events")
    return connection.getresponse(), connection


@case
def events_show_who_holds_and_who_waits(stage):
    redis = stage.redis()
    shop = stage.serve(redis, "--strategy", "pawl", "--work", "1s")
    other = stage.serve(redis)
    shop.put("10001", stock=50)
    (stream, connection), (stream_of_other, connection_of_other) = listen(shop), listen(other)
    for strategy in ("pawl", "renewed", "set-nx-ex", "process-mutex"):
        orders = [stages.in_background(lambda s=strategy: shop.order("10001", strategy=s))
                  for _ in range(2)]
        event_where(stream, lambda e: e["holder"] == f"port {shop.port}" and e["waiting"] > 0,
                    f"{strategy}: one holds, others wait")
        if strategy != "process-mutex":  # which nobody else can see
            event_where(stream_of_other, lambda e: e["holder"], f"{strategy}, from outside")
        expect([order.result().status for order in orders], [201] * 2, strategy)
        event_where(stream, lambda e: e["holder"] is None, "nobody holds it")
    connection.close()
    connection_of_other.close()


if __name__ == "__main__":
    sys.exit(stages.run_all(CASES, __doc__))
