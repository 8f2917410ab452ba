#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""flashsale load, against a shop that answers as the case wants: what it counts, what it sends, and
what it says when it stumbles over its own limits."""

import ctypes
import json
import os
import pty
import resource
import signal
import subprocess
import sys

import stage as stages
from fake_shop import BUSY, CUT, REFUSED, SILENCE, SOLD_OUT, FakeShop
from stage import expect, expect_true, until

CASES, case = stages.cases()

USAGE, UNAVAILABLE, SYSTEM = 64, 69, 71


def load(stage, *arguments, status=0, **how):
    """Run it to its end; the result with --json, and what it said."""
    command = [stage.flashsale, "load", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, **how)
    expect(done.returncode, status, f"exit status of {arguments}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout) if done.stdout else None, done.stderr


# ===== Counting =====

@case
def counts_every_kind_of_answer(stage):
    answers = [SOLD_OUT, BUSY, REFUSED, (201, {"port": 3786}), (201, {"port": 3787})]
    with FakeShop(lambda number: answers[number % 5]) as shop:
        result, said = load(stage, "--clients", "10", "--requests", "500", shop.url)
    for kind, count in {"sold": 200, "sold_out": 100, "busy": 100, "refused": 100, "errors": 0,
                        "answered": 500, "unanswered": 0}.items():
        expect(result[kind], count, kind)
    expect(result["ports"], {"3786": 100, "3787": 100}, "by port")
    expect(result["statuses"], {"201": 200, "409": 200, "503": 100}, "by status")
    expect(said, "", "said")
    expect(shop.orders, 500, "orders that came")


@case
def answers_that_are_errors_count_as_such(stage):
    with FakeShop(lambda number: (500, {"error": "failed"}) if number < 3 else SOLD_OUT) as shop:
        result, said = load(stage, "--clients", "1", "--requests", "10", shop.url, status=1)
    expect((result["errors"], result["sold_out"], result["statuses"]), (3, 7, {"409": 7, "500": 3}),
           "counts")
    expect_true("3 orders were answered with the status 500" in said, f"said {said}")


@case
def a_busy_shop_is_no_error_but_an_absent_redis_is(stage):
    away = (503, {"error": "unavailable", "detail": "Redis does not answer"})
    with FakeShop(lambda number: BUSY if number else away) as shop:
        result, _ = load(stage, "--clients", "1", "--requests", "5", shop.url, status=1)
    expect((result["busy"], result["errors"]), (4, 1), "busy and errors")


@case
def reads_chunked_answers_byte_by_byte(stage):
    with FakeShop(chunked=True, pieces=True) as shop:
        result, _ = load(stage, "--stock", "30", "--clients", "5", "--requests", "40", shop.url)
    expect((result["sold"], result["sold_out"]), (30, 10), "sold and sold out")


@case
def latency_and_rate_are_plausible(stage):
    with FakeShop() as shop:
        result, _ = load(stage, "--stock", "200", "--clients", "4", "--requests", "200", shop.url)
    ms = result["sold_ms"]
    expect_true(0 < ms["p50"] <= ms["p90"] <= ms["p99"] <= ms["p99_9"] <= ms["max"], f"order {ms}")
    expect(result["p99_ms"], ms["p99"], "p99_ms")
    expect_true(ms["max"] <= result["seconds"] * 1000, "longer than the whole")
    expect_true(abs(result["rate"] * result["seconds"] - 200) < 1, f"rate {result['rate']}")


@case
def a_tenth_that_takes_long_shows_in_p99_and_not_in_p50(stage):
    with FakeShop(delay=lambda number: 0.15 if number % 10 == 9 else 0) as shop:
        result, _ = load(stage, "--stock", "40", "--clients", "1", "--requests", "40", shop.url)
    ms = result["sold_ms"]
    expect_true(ms["p50"] < 150 <= ms["p99"] <= ms["max"], f"the percentiles {ms}")
    expect_true(15 <= ms["mean"] < 150, f"the mean {ms}")
    expect_true(result["stuck_ms"] >= 150, f"nothing sold for {result['stuck_ms']} ms")


@case
def a_shop_that_is_stuck_at_the_end_is_stuck(stage):
    with FakeShop(lambda number: (201, {}) if number < 5 else BUSY,
                  delay=lambda number: 0.1 if number > 4 else 0) as shop:
        result, _ = load(stage, "--clients", "1", "--requests", "8", shop.url)
    expect((result["sold"], result["busy"]), (5, 3), "sold and busy")
    expect_true(result["stuck_ms"] >= 300, f"stuck for {result['stuck_ms']} ms")
    expect_true(result["rate"] <= 5 / 0.3, f"rate {result['rate']}")


# ===== Connections =====

@case
def connections_are_kept(stage):
    with FakeShop() as shop:
        load(stage, "--clients", "8", "--requests", "400", shop.url)
    expect(shop.connections, 8 + 1, "connections, with the one that looks whether somebody listens")


@case
def connections_that_the_shop_ends_are_made_again(stage):
    with FakeShop(closes=True) as shop:
        result, _ = load(stage, "--stock", "90", "--clients", "8", "--requests", "90", shop.url)
    expect(result["sold"], 90, "sold")


def allow_files(count):
    """For this process, which has the other ends of the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, max(hard, count)))


@case
def at_once_sends_three_thousand_before_any_is_answered(stage):
    allow_files(8000)
    with FakeShop(together=3000) as shop:
        result, _ = load(stage, "--stock", "3000", "--requests", "3000", "--at-once", shop.url)
    expect(result["sold"], 3000, "sold")
    expect(shop.connections, 3000 + 3, "one for every order; one to look, one to PUT, one to GET")


@case
def several_shops_take_turns(stage):
    with FakeShop() as one, FakeShop() as two:
        load(stage, "--clients", "10", "--requests", "10", "--at-once", one.url, two.url + "/")
    expect((one.orders, two.orders), (5, 5), "orders")


# ===== What is asked for =====

@case
def stock_strategy_and_record(stage):
    with FakeShop() as shop:
        result, _ = load(stage, "--stock", "20", "--segments", "4", "--strategy", "split",
                         "--record", "--clients", "2", "--requests", "25", "--item", "x1", shop.url)
    expect(shop.bodies["/items/x1"], {"stock": 20, "segments": 4}, "PUT")
    expect(set(shop.paths), {"/items/x1/orders?strategy=split"}, "orders")
    row = shop.bodies["/results/split"]
    expect((row["strategy"], row["sold"], row["oversold"], row["shows"]),
           ("split", 20, 0, "sold exactly"), "row")
    expect(set(row), {"strategy", "sold", "oversold", "stuck_ms", "rate", "p99_ms", "shows"}, "row")
    expect(result["audit"], {"initial": 20, "left": 0, "sold": 20, "oversold": 0}, "audit")


@case
def record_names_the_shops_own_strategy_and_what_was_oversold(stage):
    with FakeShop() as shop:
        shop.item.update(initial=50, stock=49, sold=2)
        load(stage, "--record", "--clients", "1", "--requests", "1", shop.url)
    row = shop.bodies["/results/own"]
    expect((row["oversold"], row["shows"]), (1, "oversold by 1"), "row")


@case
def for_ends_it_in_time(stage):
    with FakeShop() as shop:
        result, _ = load(stage, "--for", "300ms", "--clients", "2", "--requests", "100000000",
                         shop.url)
    expect_true(0.25 < result["seconds"] < 5, f"took {result['seconds']}")
    expect(result["unanswered"], 0, "unanswered")


@case
def what_is_sold_after_the_time_is_no_part_of_the_rate(stage):
    with FakeShop(lambda number: (201, {}), delay=lambda number: 0 if number < 20 else 4) as shop:
        result, _ = load(stage, "--for", "3s", "--clients", "10", "--requests", "99999",
                         shop.url)
    expect(result["sold"], 30, "twenty at once, and ten that were under way")
    expect(round(result["rate"], 1), 6.7, "rate, 20 in 3 s")
    expect_true(result["seconds"] >= 4, f"waited for the rest, {result['seconds']} s")


@case
def text_for_people_without_a_terminal_has_no_bar(stage):
    with FakeShop() as shop:
        done = subprocess.run([stage.flashsale, "load", "--stock", "5", "--requests", "9",
                               shop.url], capture_output=True, text=True, timeout=60)
    expect(done.returncode, 0, "exit status")
    expect(done.stderr, "", "stderr")
    for words in ("9 of 9 orders", "sold        5", "sold out    4", "p99.9",
                  "item 10001: 5 of 5 sold, 0 left: exact"):
        expect_true(words in done.stdout, f"{words!r} in {done.stdout!r}")


@case
def a_terminal_gets_a_bar_that_is_gone_afterwards(stage):
    master, slave = pty.openpty()
    with FakeShop() as shop:
        process = subprocess.Popen([stage.flashsale, "load", "--for", "400ms", "--requests",
                                    "10000000", shop.url], stdout=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        seen = b""
        try:
            while True:
                part = os.read(master, 4096)
                if not part:
                    break
                seen += part
        except OSError:  # that is how a terminal ends
            pass
        os.close(master)
        expect(process.wait(30), 0, "exit status")
    expect_true(b"of 10000000" in seen and b"[" in seen, f"a bar in {seen[:200]!r}")
    expect_true(seen.endswith(b"\r\x1b[K"), f"it is gone: {seen[-40:]!r}")


# ===== At a real shop =====

@case
def two_instances_sell_exactly_and_the_result_is_kept(stage):
    redis = stage.redis()
    shops = [stage.serve(redis, "--allow-faults"), stage.serve(redis)]
    result, said = load(stage, "--stock", "150", "--strategy", "pawl", "--record", "--clients",
                        "40", "--requests", "200", *(shop.url for shop in shops))
    expect((result["sold"], result["sold_out"], said), (150, 50, ""), "sold and sold out")
    expect(sum(result["ports"].values()), 150, "by port")
    expect_true(set(result["ports"]) <= {str(shop.port) for shop in shops}, "ports")
    code, out, _ = stage.run("audit", "--redis", redis.url(), "--json")
    expect((code, json.loads(out)["ports"]), (0, result["ports"]), "the audit agrees")
    row = shops[1].ask("/results").json["pawl"]
    expect((row["sold"], row["oversold"], row["shows"]), (150, 0, "sold exactly"), "the row")


@case
def a_result_that_is_not_taken_is_told_with_the_remedy(stage):
    shop = stage.serve(stage.redis())
    code, out, err = stage.run("load", "--stock", "5", "--record", "--clients", "2", "--requests",
                               "5", shop.url)
    expect(code, 1, f"exit status: {err}")
    expect_true("sold" in out, f"the report is there: {out}")
    expect_true("nothing recorded" in err and "--allow-faults" in err, f"the remedy: {err}")


# ===== Bad days =====

@case
def interrupted_it_says_what_it_has(stage):
    with FakeShop(lambda number: (201, {"port": 1}) if number < 10 else SILENCE) as shop:
        process = subprocess.Popen([stage.flashsale, "load", "--json", "--clients", "4",
                                    "--requests", "100", shop.url],
                                   stdout=subprocess.PIPE, text=True)
        until(lambda: shop.orders >= 14, "ten sold, four waiting")
        process.send_signal(signal.SIGINT)
        out = process.communicate(timeout=10)[0]
    expect(process.returncode, 128 + signal.SIGINT, "exit status")
    result = json.loads(out)
    expect((result["sold"], result["errors"], result["unanswered"]), (10, 0, 4), "what it has")


@case
def cut_connections_are_errors_with_a_hint_at_the_proxy(stage):
    with FakeShop(lambda number: CUT if number % 10 == 9 else (201, {})) as shop:
        result, said = load(stage, "--clients", "2", "--requests", "100", shop.url, status=1)
    expect((result["sold"], result["errors"], result["troubles"]),
           (90, 10, {"connection_closed": 10}), "counts")
    expect_true("worker_connections" in said, f"said {said}")


@case
def silence_is_a_timeout(stage):
    with FakeShop(lambda number: SILENCE) as shop:
        result, said = load(stage, "--clients", "3", "--requests", "3", "--timeout", "200ms",
                            shop.url, status=1)
    expect((result["errors"], result["troubles"]), (3, {"timeout": 3}), "counts")
    expect_true("no answer in time" in said, f"said {said}")


@case
def a_shop_that_ends_meanwhile_does_not_eat_all_orders(stage):
    with FakeShop() as shop:
        process = subprocess.Popen(
            [stage.flashsale, "load", "--json", "--clients", "4", "--for", "4s", "--requests",
             "1000000", shop.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until(lambda: shop.orders >= 50, "fifty orders")
    out, said = process.communicate(timeout=30)
    expect(process.returncode, 1, "exit status")
    result = json.loads(out)
    expect_true(result["sold_out"] >= 50, f"answers before: {result}")
    expect_true(0 < result["troubles"]["connection_refused"] <= 4 * 41, f"a pause: {result}")
    expect_true("nobody listening" in said, said)


@case
def nobody_listens(stage):
    with FakeShop() as shop:
        url = shop.url
    result, said = load(stage, url, status=UNAVAILABLE)
    expect(result, None, "printed")
    expect_true(f"nobody listens at {url}" in said and "flashsale serve" in said, f"said {said}")


def limited(soft, hard):
    """For a child: so many files, and, even for root, no more."""
    def limit():
        ctypes.CDLL(None).prctl(24, 24, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_RESOURCE
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return limit


@case
def too_few_files_are_said_before_anything_is_sent(stage):
    with FakeShop() as shop:
        _, said = load(stage, "--clients", "200", "--requests", "200", "--stock", "5", shop.url,
                       status=SYSTEM, preexec_fn=limited(64, 64))
    expect_true("200 connections need 232 open files" in said and "ulimit -n 232" in said, said)
    expect(shop.bodies, {}, "the stock")


@case
def a_low_soft_limit_is_raised(stage):
    with FakeShop() as shop:
        result, _ = load(stage, "--clients", "200", "--requests", "200", shop.url,
                         preexec_fn=limited(64, 1024))
    expect(result["sold_out"], 200, "answers")


@case
def wrong_command_lines(stage):
    for arguments, words in (
            ([], "which URL?"),
            (["--clients", "0", "http://127.0.0.1"], "--clients takes a number"),
            (["--frobnicate", "http://127.0.0.1"], "--frobnicate"),
            (["https://127.0.0.1"], "no URL of a shop"),
            (["http://127.0.0.1:99999999"], "no URL of a shop"),
            (["http://127.0.0.1/items?x"], "more than a base"),
            (["--item", "a b", "http://127.0.0.1"], "--item takes"),
            (["--strategy", "a&b", "http://127.0.0.1"], "--strategy takes"),
            (["--segments", "2", "http://127.0.0.1"], "give --stock too"),
            (["http://192.0.2.1:80"], "--anywhere")):
        _, said = load(stage, *arguments, status=USAGE)
        expect_true(words in said, f"{words!r} in {said!r}")


if __name__ == "__main__":
    sys.exit(stages.run_all(CASES, __doc__))
