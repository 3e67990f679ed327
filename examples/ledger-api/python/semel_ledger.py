"""Semel's Ledger API from Python: standard library only, made to be copied.

    ledger = Ledger("http://127.0.0.1:8081", token)
    with ledger.claim("charges", order_id, request=order) as operation:
        if operation.outcome is None:                        # ours to do
            operation.begin()                                # still safely inside the lease?
            receipt = provider.charge(order, idempotency_key=order_id)
            operation.settle(201, json.dumps(receipt))
    print(operation.outcome["body"])                         # the same on every retry

While the block runs, the lease is renewed. Leaving it without settle() or release() abandons the operation: the effect may
have begun, so nobody repeats it unless its policy says that this is safe. If begin() has refused, it is released.
"""

import http.client
import json
import re
import threading
import time
import urllib.error
import urllib.request
import uuid

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Conflict(Exception):
    """What the ledger said instead of yes: `answer` is busy, mismatch, unknown, expired, fenced or settled."""

    def __init__(self, problem):
        super().__init__(f'{problem["title"]}: {problem.get("detail", "")}')
        self.answer = problem.get("answer", problem["type"].rpartition(":")[2])
        self.problem = problem


class NotBegun(TimeoutError):
    """What begin() says when it is too late to begin."""


class Ledger:
    def __init__(self, url, token, tries=5, timeout=10.0):
        self.url, self.token, self.tries, self.timeout = url, token, tries, timeout

    def claim(self, scope, key, request, correlation="", **policy):
        """An Operation: with an outcome if it was done before, else ours. Conflict otherwise."""
        # A claim whose reply is lost is repeated with the same attempt and gets the same grant.
        attempt, sent = uuid.uuid4().hex, time.monotonic()
        name = {"scope": scope, "key": key}
        answer = self.command("claim", {**name, "request": request, "attempt": attempt, "correlation": correlation,
                                        "policy": policy})
        return Operation(self, name, answer, sent)

    def command(self, command, body):
        """Every command is safe to repeat, so it is, as long as nobody answers."""
        request = urllib.request.Request(f"{self.url}/v1/{command}", json.dumps(body).encode(),
                                         {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"})
        for left in reversed(range(self.tries)):
            try:
                with urllib.request.urlopen(request, timeout=self.timeout) as response:
                    return json.load(response)
            except urllib.error.HTTPError as error:
                if error.code != 503 or left == 0:
                    raise Conflict(json.load(error)) from None
            except (OSError, http.client.HTTPException):
                if left == 0:
                    raise
            time.sleep(0.1 * 2 ** (self.tries - left))


class Operation:
    def __init__(self, ledger, name, answer, sent):
        self.ledger = ledger
        self.outcome = answer.get("outcome")
        self.doubt = answer.get("doubt", False)  # an earlier holder may have begun
        self.checkpoints = {each["name"]: each.get("value") for each in answer.get("checkpoints", [])}
        self.holder = {**name, "token": answer.get("token"), "attempt": answer.get("attempt")}
        self.begun = False
        self.over = threading.Event()
        if self.outcome is not None:
            return
        number, unit = re.fullmatch(r"(\d+)(\w+)", answer["lease"]).groups()
        self.lease = int(number) * UNITS[unit]
        self.held_until = sent + self.lease  # by our own clock, counted from before we asked
        threading.Thread(target=self._renew, daemon=True).start()

    def begin(self):
        """Call it right before the effect: a process that was paused must not start what it may have lost."""
        if time.monotonic() > self.held_until - self.lease / 3:
            raise NotBegun("the lease may have run out; nothing was begun")
        self.begun = True

    def checkpoint(self, name, value):
        """What is stored under the name: the first value stays."""
        return self._tell("checkpoint", name=name, value=value)["checkpoint"].get("value")

    def settle(self, status, body="", conclusive=True):
        """True: this is its outcome. False, of one that is not conclusive under doubt: it is unknown again."""
        outcome = {"status": status, "body": body}
        settled = self._tell("settle", outcome=outcome, conclusive=conclusive)["state"] == "settled"
        if settled:
            self.outcome = outcome
        self.over.set()
        return settled

    def release(self):
        """Only if the effect surely never began."""
        self._tell("release")
        self.over.set()

    def __enter__(self):
        return self

    def __exit__(self, _, error, __):
        if self.outcome is None and not self.over.is_set():
            self.over.set()
            surely_not = isinstance(error, NotBegun) and not self.begun
            try:
                self._tell("release" if surely_not else "abandon")
            except (Conflict, OSError, http.client.HTTPException):
                if error is None:  # else that one says what happened; without this the lease runs out
                    raise
        self.over.set()

    def _tell(self, command, **more):
        return self.ledger.command(command, {**self.holder, **more})

    def _renew(self):
        while not self.over.wait(self.lease / 3):
            sent = time.monotonic()
            try:
                if self._tell("renew")["state"] != "running":
                    return  # somebody was told "unknown", which no renewal takes back; settle is still ours
                self.held_until = sent + self.lease
            except Conflict as conflict:
                if conflict.answer in ("fenced", "settled"):
                    return  # settle() will say so
            except (OSError, http.client.HTTPException):
                pass  # tried again in a third of the lease, as after a 503
