# SPDX-License-Identifier: Apache-2.0
"""A whole shop for the demonstration: `flashsale up`, and what can be asked of it."""

import http.client
import json
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse

PATIENCE_S = 10
COMMAND_S = 120
END_S = 30  # the shops have 10 s to finish their orders, the servers less


class ShopError(Exception):
    """The shop did not do what it was asked; the text says what."""


def until(condition, what, seconds=PATIENCE_S):
    """Wait for a condition; its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise ShopError(f"this did not happen within {seconds} s: {what}")
        time.sleep(0.005)


class Shop:
    """Servers, two instances and what the command printed about them."""

    def __init__(self, program, options):
        self.program = program
        # What it says while things break is for those who look into it.
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8")
        self.process = subprocess.Popen([program, "up", "--json", *options],
                                        stdout=subprocess.PIPE, stderr=self.log,
                                        stdin=subprocess.DEVNULL, text=True)
        try:
            line = self.process.stdout.readline()
            if not line:
                raise ShopError(f"flashsale up did not start: {self.said()}")
        except BaseException:  # also if it is interrupted meanwhile
            self.close()
            raise
        self.places = json.loads(line)
        self.urls = [instance["url"] for instance in self.places["instances"]]
        self.stock_url = self.places["stock"]["url"]

    def said(self):
        """The end of what it said on stderr."""
        self.log.seek(0)
        return "".join(self.log.readlines()[-8:])

    def close(self):
        """End it, with all that it started."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()  # what it started ends with it
            self.process.wait()

    # ===== By HTTP =====

    def ask(self, method, address, body=None, url=None, seconds=PATIENCE_S):
        """(status, answer); status 0 if the connection broke."""
        place = urllib.parse.urlsplit(url or self.urls[0])
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=seconds)
        try:
            connection.request(method, address, body=json.dumps(body) if body else None)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException):
            return 0, {}
        finally:
            connection.close()

    def is_well(self, url):
        return self.ask("GET", "/healthz", url=url, seconds=1)[0] == 200

    def put(self, item, stock, **more):
        status, answer = self.ask("PUT", f"/items/{item}", {"stock": stock, **more})
        if status != 200:
            raise ShopError(f"PUT of {item}: {status} {answer}")

    def order(self, url, item, strategy):
        return self.ask("POST", f"/items/{item}/orders?strategy={strategy}", url=url)

    def arm(self, url, fault, lasts_ms=1, in_gap=False):
        """Let a fault strike: at the instance's next order inside the lock, or a server at once."""
        where = "&in=gap" if in_gap else ""
        status, answer = self.ask("POST", f"/faults/{fault}?for={lasts_ms}ms{where}", url=url)
        if status != 200:
            raise ShopError(f"the fault {fault}: {status} {answer}")

    def has_struck(self, url):
        """Whether a fault that was armed has struck; an instance that is stopped or dead cannot
        answer."""
        status, answer = self.ask("GET", "/faults", url=url, seconds=0.2)
        return status == 0 or answer["armed"] == 0

    # ===== By its own commands =====

    def command(self, *words):
        try:
            done = subprocess.run([self.program, *words], capture_output=True, text=True,
                                  timeout=COMMAND_S, stdin=subprocess.DEVNULL, check=False)
            return json.loads(done.stdout)
        except subprocess.TimeoutExpired as error:
            raise ShopError(f"flashsale {words[0]} takes longer than {COMMAND_S} s; "
                            "try a smaller --stock") from error
        except json.JSONDecodeError as error:
            raise ShopError(f"flashsale {words[0]}: {done.stderr or done.stdout}") from error

    def load(self, strategy, clients, requests, urls=None, item="10001"):
        return self.command("load", "--json", "--clients", str(clients), "--requests",
                            str(requests), "--strategy", strategy, "--item", item,
                            *(urls or self.urls))

    def audit(self, item="10001"):
        return self.command("audit", "--json", "--redis", self.stock_url, "--item", item)

    # ===== Between two scenes =====

    def forget_locks(self):
        """Take away what the last strategy left: some leave a key for ever."""
        ask_redis(self.places["stock"]["port"], "SELECT 1", "FLUSHDB")
        if "lock" in self.places:
            ask_redis(urllib.parse.urlsplit(self.places["lock"]).port, "FLUSHALL")
        for server in self.places["quorum"]:
            ask_redis(server["port"], "EVAL \"for _,k in ipairs(redis.call('keys','Redis*')) do "
                      "redis.call('del',k) end\" 0")


def ask_redis(port, *commands):
    """Send inline commands to a private server and read an answer to each."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
            connection.sendall("".join(f"{command}\r\n" for command in commands).encode())
            with connection.makefile("rb") as answers:
                for _ in commands:
                    answers.readline()
    except OSError:
        pass  # a server that a fault has stopped has nothing to forget
