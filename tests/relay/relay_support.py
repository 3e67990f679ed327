"""What the relay's tests share: the relay as a process, brokers to publish to, and an endpoint that counts what it executes
and misbehaves when it is told to.

Every topic is a program: TOPIC SEMEL PUBLISH_EVENTS [unittest argument…], run by `run_tests()`. The servers are those of
tests/servers/with-servers.
"""

import collections
import json
import os
import secrets
import subprocess
import sys
import threading
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "gateway"))

# pylint: disable=wrong-import-position,unused-import  # the gateway's tests have all that is not about gateways
from support import (PATIENCE, PROGRAMS, ROOT, Answer, Gate, GatewayTest, Process, Upstream, call, environment,
                     make_certificate, wait_until)

BROKERS = ("kafka", "rabbitmq", "nats", "redis")
STORES = ("sqlite", "postgres")


# ---- events --------------------------------------------------------------------------------------------------------


def event(number, account=0, **more):
    """A CloudEvent, and the ordering key it is sent with."""
    return f"account-{account}", {"specversion": "1.0", "id": f"e{number}", "source": "/shop", "type": "paid",
                                  "subject": f"account-{account}", "data": {"number": number, "amount": number}, **more}


def events(count, accounts=20):
    return [event(number, number % accounts) for number in range(count)]


def with_duplicates(sent):
    """As at-least-once producers do: every third event again, some of them twice, at once or much later."""
    out = []
    for at, each in enumerate(sent):
        out.append(each)
        if at % 3 == 0:
            out.append(each)
        if at % 15 == 0:
            out.append(each)
        if at % 9 == 0 and at >= 45:
            out.append(sent[at - 45])
    return out


# ---- the endpoint --------------------------------------------------------------------------------------------------


class Endpoint(Upstream):
    """A service that executes what it is sent. `deduplicates`: a key that was executed is answered 201 and
    Idempotent-Replayed. `plan(request, nth)` may say otherwise, for the nth delivery of that event: an Answer and whether
    the event is executed before it; or None."""

    def __init__(self, plan=None, deduplicates=False):
        self.plan = plan or (lambda request, nth: None)
        self.deduplicates = deduplicates
        self.deliveries = collections.Counter()  # by the event's id
        self.executed = collections.Counter()
        self.keys = collections.defaultdict(set)
        self.order = collections.defaultdict(list)  # numbers as they were executed, by account
        self.lock = threading.Lock()
        super().__init__(self.take)

    def take(self, request):
        name = request.value("ce-id")
        key = request.value("Idempotency-Key")
        with self.lock:
            self.deliveries[name] += 1
            done_before = key in self.keys[name] and self.executed[name] > 0
            self.keys[name].add(key)
            planned = self.plan(request, self.deliveries[name])
            answer, execute = planned if planned else (Answer(), True)
            if self.deduplicates and done_before:
                if planned and answer.how != "whole":
                    return answer
                return Answer(fields=[("Idempotent-Replayed", "true")])
            if execute:
                self.executed[name] += 1
                number = json.loads(request.body)["number"] if request.body else None
                self.order[request.value("ce-subject")].append(number)
            return answer


# ---- the relay -----------------------------------------------------------------------------------------------------


class RelayProcess(Process):
    command = "relay"
    ready = "started"

    def messages(self, result):
        return self.metric("semel_relay_messages_total", result=result)


class RelayTest(GatewayTest):
    """A folder, a topic and a relay's name of its own, and things that are ended with the test."""

    def setUp(self):
        super().setUp()
        self.topic = "relay-" + secrets.token_hex(4)
        self.name = "relay-" + secrets.token_hex(4)
        self.broker = None

    def tearDown(self):
        super().tearDown()
        if self.broker:
            subprocess.run([PROGRAMS["dying"], self.broker, "remove", self.topic], check=False, timeout=PATIENCE)

    def endpoint(self, plan=None, deduplicates=False):
        made = Endpoint(plan, deduplicates)
        self.addCleanup(made.end)
        return made

    def make_topic(self, broker, partitions=4):
        self.broker = broker
        subprocess.run([PROGRAMS["dying"], broker, "create", self.topic, str(partitions)], check=True,
                       timeout=PATIENCE)

    def publish(self, sent):
        lines = "".join(f"{key}\t{body if isinstance(body, str) else json.dumps(body)}\n" for key, body in sent)
        subprocess.run([PROGRAMS["dying"], self.broker, "publish", self.topic], input=lines.encode(), check=True,
                       timeout=PATIENCE)

    def source(self, broker, **more):
        address = os.environ[f"SEMEL_TEST_{broker.upper()}"]
        return {broker: {**{
            "kafka": {"brokers": address, "topics": [self.topic], "settings": {"session.timeout.ms": "6000"}},
            "rabbitmq": {"url": address, "queue": self.topic, "ordering_header": "ordering-key"},
            "nats": {"url": address, "stream": self.topic, "ordering_header": "ordering-key", "ack_wait": "2s"},
            "redis": {"url": address, "stream": self.topic, "ordering_field": "key", "idle_max": "2s"},
        }[broker], **more}}

    def relay_settings(self, broker, store, endpoint, to=None, **more):
        url = endpoint.url() + "/paid" if isinstance(endpoint, Upstream) else endpoint
        return {"store": store, "admin": "127.0.0.1:0", "relays": [
            {"name": self.name, "from": self.source(broker), "to": {"url": url, "timeout": "5s", **(to or {})},
             "retries": {"first": "50ms", "max": "500ms"}, "lease": "2s", **more}]}

    def relay(self, settings, start=True, **variables):
        made = RelayProcess(settings, self.folder, name=f"relay{len(self.gateways)}", **variables)
        self.gateways.append(made)  # whose log is shown if the test fails
        self.addCleanup(made.kill)
        return made.start() if start else made

    def tell(self, *arguments):
        """What `semel … --json` writes."""
        done = subprocess.run([PROGRAMS["semel"], *arguments, "--json"], stdout=subprocess.PIPE, env=environment(),
                              check=True, timeout=PATIENCE)
        return json.loads(done.stdout)

    def letters(self, store):
        return self.tell("dead", "list", "--store", store, "--limit", "1000", "--consumer", self.name)["letters"]

    def dead(self, store):
        """The reasons of this test's dead letters, by the event's id."""
        reasons = {}
        for letter in self.letters(store):
            shown = self.tell("dead", "show", str(letter["number"]), "--body", "--store", store)
            body = json.loads(shown["body_text"])
            self.assertNotIn(body["id"], reasons, "one letter for a message")
            reasons[body["id"]] = letter["reason"]
        return reasons

    def states(self, store):
        """How many of this test's operations are in which state."""
        page = self.tell("ops", "list", "--store", store, "--limit", "10000", "--scope", self.name)
        return dict(collections.Counter(each["state"] for each in page["operations"]))


def on_each(*axes):
    """A test method for every combination: test_x of `def x(self, broker, store)`."""
    def decorate(method):
        method.axes = axes
        return method
    return decorate


def expand(cls):
    """Makes the methods that `on_each` asked for, named after their values."""
    for name, method in list(vars(cls).items()):
        if not hasattr(method, "axes"):
            continue
        combinations = [()]
        for axis in method.axes:
            combinations = [(*known, value) for known in combinations for value in axis]
        for values in combinations:
            def test(self, method=method, values=values):
                method(self, *values)
            setattr(cls, f"test_{name}_{'_'.join(values)}", test)
    return cls


def run_tests():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    PROGRAMS["semel"], PROGRAMS["dying"] = (os.path.abspath(path) for path in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main(module="__main__")
