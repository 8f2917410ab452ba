# SPDX-License-Identifier: Apache-2.0
"""The demonstration: one shop, every strategy, load and faults, and a table. scripts/demo builds
what is needed and calls this; its --help is the help of the demonstration.
"""

import argparse
import dataclasses
import json
import os
import signal
import sys
import time
import urllib.parse

import scenes
from shop import Shop, ShopError

HEAD = f"{'strategy':<16} {'under':<24} {'sold':>5} {'over':>5} {'lost s':>7} {'orders/s':>9} " \
       f"{'p99 ms':>8}  what it shows"


def row_of(result, shows):
    lost = f"{result.stuck_ms / 1000:.2f}" if result.load["sold"] > 0 else "stuck"
    return f"{result.strategy:<16} {result.fault:<24} {result.sold:>5} {result.oversold:>5} " \
           f"{lost:>7} {result.rate:>9.0f} {result.p99_ms:>8.1f}  {shows}"


class Parser(argparse.ArgumentParser):
    """One that ends as the project's other commands do when a line is wrong."""

    def error(self, message):
        self.exit(64, f"{self.prog}: {message}; see --help\n")


def parse():
    parser = Parser(
        prog="scripts/demo", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Sells one hot item from two processes, with every way of locking from none to "
        "Redlock, under load and\nunder the fault that shows its flaw; audits each sale, and "
        "prints a table. Two minutes at most. Everything\nruns on private servers that are "
        "started and stopped here; nothing is left behind.",
        epilog="sold: pieces that customers were sold; over: how many more are sold or still on "
        "offer than there were;\nlost s: the longest time without a sale. A last column that "
        "begins with '!!' did not show what was\npredicted; the exit status is then 1. Missing "
        "packages are installed if that is possible without asking\nfor a password; the build is "
        "in build/demo.")
    parser.add_argument("--strategy", action="append", metavar="NAME",
                        help="only this one (may be given several times)")
    parser.add_argument("--stock", type=int, default=100, metavar="N",
                        help="pieces on sale in each scene (100)")
    parser.add_argument("--clients", type=int, default=32, metavar="N",
                        help="customers at once (32); with a few of them some flaws do not show")
    parser.add_argument("--keep", action="store_true",
                        help="leave the shop running, with the live page, until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each row")
    parser.add_argument("--program", default="flashsale", help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    known = {scene.strategy for scene in scenes.SCENES}
    for name in options.strategy or []:
        if name not in known:
            parser.error(f"no strategy '{name}'; there are {', '.join(sorted(known))}")
    if not 1 <= options.stock <= 100000 or not 1 <= options.clients <= 3000:
        parser.error("--stock takes 1 to 100000, --clients 1 to 3000")
    return options


def announce(text):
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def play_all(shop, options, scale):
    """All the scenes; whether each showed what it should."""
    chosen = [scene for scene in scenes.SCENES
              if not options.strategy or scene.strategy in options.strategy]
    good = True
    if not options.json:
        print(HEAD)
    for number, scene in enumerate(chosen, 1):
        announce(f"{number} of {len(chosen)}: {scene.strategy}, {scene.fault}")
        result = scenes.play(shop, scene, scale)
        as_predicted = scene.prediction(result)
        shows = scene.shows if as_predicted else f"!! not {scene.prediction.__name__}"
        good = good and as_predicted
        announce("")
        if options.json:
            row = dataclasses.asdict(result)
            print(json.dumps({**row, "shows": shows, "as_predicted": as_predicted}), flush=True)
        else:
            print(row_of(result, shows), flush=True)
        shop.ask("PUT", f"/results/{scene.strategy}?under={urllib.parse.quote(scene.fault)}", {
            "strategy": scene.strategy, "under": scene.fault, "sold": result.sold,
            "oversold": result.oversold, "stuck_ms": result.stuck_ms, "rate": result.rate,
            "p99_ms": result.p99_ms, "shows": shows})
    return good


def busy_note(load, cores):
    """A line for a machine that has other work to do, or nothing."""
    if load <= cores:
        return ""
    return f"The machine was busy (load average {load:.1f} on {cores} cores): rates and times " \
           "are worse than they could be.\n"


def keep_open(shop):
    print(f"\nThe shop is open: {shop.urls[0]}/ and {shop.urls[1]}/ (Ctrl-C closes it).", flush=True)
    try:
        shop.process.wait()
    except KeyboardInterrupt:
        pass


def stop(number, _frame):
    raise SystemExit(128 + number)


def main():
    options = parse()
    if options.check:
        return 0  # the line is fine
    signal.signal(signal.SIGTERM, stop)
    scale = scenes.Scale(options.stock, options.clients, lease_ms=500, wait_ms=2500)
    load = os.getloadavg()[0]  # before ours comes on top
    shop = None
    try:
        shop = Shop(options.program, [
            "--instances", "2", "--base-port", "0", "--quorum", "5", "--replica", "--allow-faults",
            "--lease", f"{scale.lease_ms}ms", "--wait", f"{scale.wait_ms}ms",
            "--", "--stack", "64k"])
        began = time.monotonic()
        good = play_all(shop, options, scale)
        if not options.json:
            print(f"\n{busy_note(load, len(os.sched_getaffinity(0)))}"
                  f"{time.monotonic() - began:.0f} s")
        if options.keep:
            keep_open(shop)
        return 0 if good else 1
    except ShopError as error:
        print(f"demo: {error}\n{shop.said() if shop else ''}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read the rows has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    finally:
        if shop:
            shop.close()


if __name__ == "__main__":
    sys.exit(main())
