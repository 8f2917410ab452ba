#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Before the door opens: what can never work ends the shop at once, with a sentence; what is only
not there now is said, and waited for: opening.py --flashsale FILE"""

import os
import socketserver
import sys
import threading

import stage as stages
from stage import expect, expect_true, until

CASES, case = stages.cases()
USAGE = 64
DENIED = 77
AWAY = "redis://127.0.0.1:1/0"  # nobody listens at port 1


def expect_end(stage, redis, arguments, status, *words):
    """It ends at once and says why in one line, with these words and without any password."""
    code, out, err = stage.run("serve", "--port", "0", "--redis", redis.url(), *arguments,
                               seconds=10)
    expect((code, out), (status, ""), f"{arguments}: {err}")
    expect_true(err.startswith("flashsale serve: ") and err.count("\n") == 1, err)
    expect_true("secret" not in err, f"the password is not shown: {err}")
    for word in words:
        expect_true(word in err, f"{arguments}: no '{word}' in {err}")


def closed_redis(stage):
    """A server that wants a password."""
    closed = stage.redis()
    closed.cli("config", "set", "requirepass", "open-sesame")
    return closed


class Stranger(socketserver.BaseRequestHandler):
    """Somebody who speaks, but not as Redis does."""

    def handle(self):
        self.request.recv(1000)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


# ===== What can never work =====

@case
def a_lock_that_cannot_be_ends_it_at_once(stage):
    redis, closed = stage.redis(), closed_redis(stage)
    stranger = socketserver.TCPServer(("127.0.0.1", 0), Stranger)
    threading.Thread(target=stranger.serve_forever, daemon=True).start()
    with open(os.path.join(stage.directory, "file"), "w", encoding="utf-8"):
        pass
    where = f"127.0.0.1:{closed.port}/1"
    for url, status, word in (
            ("nosuch://x", USAGE, "nosuch"),
            ("nonsense", USAGE, "scheme"),
            ("redis://127.0.0.1:x/1", USAGE, "port"),
            ("redis://127.0.0.1:99999/1", USAGE, "port"),
            (redis.url(99), USAGE, "database 99"),
            (f"redis://127.0.0.1:{stranger.server_address[1]}/1", USAGE, "does not speak"),
            (f"file://{stage.directory}/file/locks", USAGE, "directory"),
            (f"file://{stage.directory}/no/such/place", USAGE, "directory"),
            (f"redis://{where}", DENIED, "password"),
            (f"redis://:secret@{where}", DENIED, "password")):
        expect_end(stage, redis, ["--lock", url], status, "--lock", word)
    stranger.shutdown()
    stranger.server_close()
    # Orders may ask for pawl's lock, whatever this process's own strategy is.
    expect_end(stage, redis, ["--lock", "nosuch://x", "--strategy", "none"], USAGE, "--lock")


@case
def a_strategy_that_cannot_be_ends_it_at_once(stage):
    redis, closed = stage.redis(), closed_redis(stage)
    three = ",".join(redis.url(db) for db in (3, 4, 5))
    for strategy in ("redlock", "pawl-multi"):
        expect_end(stage, redis, ["--strategy", strategy], USAGE, strategy, "3", "--quorum")
    expect_end(stage, redis, ["--strategy", "redlock5", "--quorum", three], USAGE, "5", "--quorum")
    expect_end(stage, redis, ["--strategy", "redlock", "--quorum", f"{three},nosuch://x"], USAGE,
               "--quorum", "nosuch")
    expect_end(stage, redis, ["--quorum", f"nonsense,{AWAY}"], USAGE, "--quorum", "scheme")
    expect_end(stage, redis, ["--quorum", f"{three},redis://:secret@127.0.0.1:{closed.port}"],
               DENIED, "--quorum", "password")
    expect_end(stage, redis, ["--strategy", "pawl-fair", "--lock", f"file://{stage.directory}/f"],
               USAGE, "pawl-fair", "fair lock")


@case
def the_database_of_the_locks_must_be_there(stage):
    """Without --lock they are in database 1 of the stock's server; --lock is the remedy."""
    redis = stage.redis("--databases", "1")
    for strategy in ("pawl", "split", "lua-release"):
        expect_end(stage, redis, ["--strategy", strategy], USAGE, "database 1", "--lock")
    for arguments in (["--strategy", "none"], ["--strategy", "atomic"], ["--lock", redis.url(0)]):
        expect(stage.serve(redis, *arguments).said(), "", f"{arguments}")


@case
def a_stock_that_does_not_let_us_in_ends_it_at_once(stage):
    redis, closed = stage.redis(), closed_redis(stage)
    place = f"127.0.0.1:{closed.port}"
    for option in ("--redis", "--segments-on"):
        for url, status in ((f"redis://{place}/0", DENIED), (f"redis://:secret@{place}/0", DENIED),
                            (f"redis://:open-sesame@{place}/99", USAGE), ("redis://", USAGE),
                            ("http://x", USAGE)):
            expect_end(stage, redis, [option, url], status, option, "redis://")


# ===== What may come =====

@case
def a_lock_server_that_is_away_is_waited_for(stage):
    redis, other = stage.redis(), stage.redis()
    other.stop()
    shop = stage.serve(redis, "--lock", other.url(), "--wait", "300ms")
    expect_true("--lock" in shop.said() and "refused" in shop.said(), f"it says so: {shop.said()}")
    shop.put("10001", stock=5)
    expect(shop.order("10001").status, 503, "an order, before")
    other.start()
    until(lambda: shop.order("10001").status == 201, "an order, afterwards")


@case
def a_lock_server_that_is_not_fit_is_waited_for(stage):
    """A replica may become the master any moment."""
    redis, other = stage.redis(), stage.redis()
    other.cli("replicaof", "127.0.0.1", redis.port)
    shop = stage.serve(redis, "--lock", other.url(), "--wait", "300ms")
    expect_true("--lock" in shop.said() and "replica" in shop.said(), f"it says so: {shop.said()}")
    shop.put("10001", stock=5)
    other.cli("replicaof", "no", "one")
    until(lambda: shop.order("10001").status == 201, "an order")


@case
def servers_of_a_quorum_may_be_away(stage):
    """Their URLs vouch for them (durable=1), so that they may vote as soon as they are there."""
    redis = stage.redis()
    servers = [stage.redis("--appendonly", "yes") for _ in range(3)]
    for server in servers:
        server.cli("set", "pawl_seen:durable", 1000)
        server.stop()
    urls = ",".join(f"{server.url()}?durable=1" for server in servers)
    for strategy in ("redlock", "pawl-multi"):
        shop = stage.serve(redis, "--strategy", strategy, "--quorum", urls, "--wait", "300ms",
                           "--lease", "1s")
        expect(shop.said().count("--quorum"), 3, f"{strategy} names all three: {shop.said()}")
        shop.put("10001", stock=5)
        expect(shop.order("10001").status, 503, f"{strategy}, before")
        for server in servers:
            server.start()
        until(lambda: shop.order("10001").status == 201, f"{strategy}, afterwards")
        expect(shop.terminate(), 0, "exit status")
        for server in servers:
            server.stop()


@case
def servers_that_are_there_are_no_news(stage):
    redis = stage.redis()
    shop = stage.serve(redis, "--lock", redis.url(2), "--quorum",
                       ",".join(redis.url(db) for db in (3, 4, 5)))
    expect(shop.said(), "", "nothing to say")
    shop = stage.serve(redis, "--lock", f"file://{stage.directory}/locks")
    expect(shop.said(), "", "nothing to say of files")


@case
def a_long_name_of_a_lock_is_taken_as_it_is(stage):
    """More than a thousand letters, of which none may be lost."""
    redis = stage.redis()
    parts = [stage.directory] + [letter * 200 for letter in "abcdef"]
    os.makedirs(os.path.join(*parts[:-1]))
    shop = stage.serve(redis, "--lock", "file://" + os.path.join(*parts))
    shop.put("10001", stock=5)
    expect(shop.order("10001").status, 201, "an order")
    expect_true(os.path.isdir(os.path.join(*parts)), "the directory that was named is used")


if __name__ == "__main__":
    sys.exit(stages.run_all(CASES, __doc__, at_once=4))
