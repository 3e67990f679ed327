"""What the gateway's tests share: the gateway as a process, an upstream that does as it is told, clients that see bytes,
a TCP gate, and a store of one's own.

Every topic is a program: TOPIC SEMEL DYING_GATEWAY [unittest argument…], run by `run_tests()`. SEMEL_TEST_POSTGRES names a
PostgreSQL on which databases may be made (tests/servers/with-servers).
"""

import asyncio
import collections
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

PROGRAMS = {"semel": None, "dying": None}
DATABASES = {}
ROOT = Path(__file__).resolve().parent.parent.parent

# Nothing here takes long; a sanitizer's build on a busy machine may.
PATIENCE = 60.0


def environment(**more):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SEMEL_", "PG"))}
    return {**clean, **more}


def wait_until(what, condition, seconds=PATIENCE):
    """The first true answer of `condition`. Looks often: there is nothing to be told by in another process."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.01)


def make_certificate(folder, name):
    """A certificate for this machine that vouches for itself, and its key."""
    key, certificate = os.path.join(folder, name + ".key"), os.path.join(folder, name + ".pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", certificate, "-days", "2", "-subj", f"/CN={name}", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, stderr=subprocess.DEVNULL)
    return certificate, key


# ---- messages ------------------------------------------------------------------------------------------------------


@dataclass
class Message:
    """A request or a response as it was on the wire; `start` is its first line."""
    start: str
    fields: list
    body: bytes = b""
    head: bytes = b""

    def values(self, name):
        return [value for known, value in self.fields if known.lower() == name.lower()]

    def value(self, name):
        return next(iter(self.values(name)), None)

    @property
    def method(self):
        return self.start.split(" ")[0]

    @property
    def target(self):
        return self.start.split(" ")[1]

    @property
    def status(self):
        return int(self.start.split(" ")[1])

    @property
    def problem(self):
        """`outcome-unknown` of a problem document, else nothing."""
        if self.value("Content-Type") != "application/problem+json":
            return None
        return json.loads(self.body)["type"].rsplit("/", 1)[-1].rsplit(":", 1)[-1]

    @property
    def replayed(self):
        return self.value("Idempotent-Replayed") == "true"

    def told(self):
        """What has to be the same in a first answer and in every replay of it."""
        own = ("idempotent-replayed", "semel-key-expires", "connection")
        return (self.start, [pair for pair in self.fields if pair[0].lower() not in own], self.body)


class Cut(Exception):
    """The connection ended before the message did."""


def parse_head(head):
    start, *lines = head.decode("latin-1").split("\r\n")
    fields = []
    for line in lines:
        name, _, value = line.partition(":")
        fields.append((name, value.strip(" \t")))
    return Message(start, fields, head=head)


class Reader:
    """Messages from a socket."""

    def __init__(self, connection):
        self.connection = connection
        self.buffer = b""

    def more(self):
        try:
            data = self.connection.recv(65536)
        except ConnectionResetError:  # an answer that was cut short
            data = b""
        if not data:
            return False
        self.buffer += data
        return True

    def until(self, mark):
        while mark not in self.buffer:
            if not self.more():
                raise Cut(f"{len(self.buffer)} bytes, then the end")
        found, _, self.buffer = self.buffer.partition(mark)
        return found

    def exactly(self, size):
        while len(self.buffer) < size:
            if not self.more():
                raise Cut(f"{len(self.buffer)} of {size} bytes, then the end")
        found, self.buffer = self.buffer[:size], self.buffer[size:]
        return found

    def chunks(self):
        body = b""
        while True:
            size = int(self.until(b"\r\n").split(b";")[0], 16)
            data = self.exactly(size + 2)
            if size == 0:
                return body
            body += data[:-2]

    def response(self, method="GET"):
        while True:
            message = parse_head(self.until(b"\r\n\r\n"))
            if message.status >= 200:
                break
        if method == "HEAD" or message.status in (204, 304):
            return message
        length = message.value("Content-Length")
        if message.value("Transfer-Encoding"):
            message.body = self.chunks()
        elif length is not None:
            message.body = self.exactly(int(length))
        else:
            while self.more():
                pass
            message.body, self.buffer = self.buffer, b""
        return message

    def to_end(self):
        with contextlib.suppress(ConnectionError):
            while self.more():
                pass
        return self.buffer


def request_bytes(method, target, fields=(), body=b"", host="gateway"):
    head = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n"
    for name, value in fields.items() if isinstance(fields, dict) else fields:
        head += f"{name}: {value}\r\n"
    if body or method in ("POST", "PUT", "PATCH"):
        head += f"Content-Length: {len(body)}\r\n"
    return head.encode("latin-1") + b"\r\n" + body


def connect(port, timeout=PATIENCE, tls=None, server_name="localhost"):
    connection = socket.create_connection(("127.0.0.1", port), timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return tls.wrap_socket(connection, server_hostname=server_name) if tls else connection


def call(port, method, target, fields=(), body=b"", timeout=PATIENCE, tls=None):
    """One request on a connection of its own. OSError or Cut if there is no whole answer."""
    with contextlib.closing(connect(port, timeout, tls)) as connection:
        connection.sendall(request_bytes(method, target, fields, body))
        return Reader(connection).response(method)


def pay(port, key, body=b'{"amount":1}', path="/v1/payments", fields=(), timeout=PATIENCE, tls=None):
    all_fields = [("Idempotency-Key", f'"{key}"'), ("Content-Type", "application/json"), *dict(fields).items()]
    return call(port, "POST", path, all_fields, body, timeout, tls)


def together(calls):
    """All of these at once; their results, or what they raised, in order."""
    results = [None] * len(calls)

    def run(i):
        try:
            results[i] = calls[i]()
        except (OSError, Cut) as error:
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


# ---- the upstream --------------------------------------------------------------------------------------------------


@dataclass
class Answer:
    """What the upstream does with a request. `how`: whole, half (of the body), close (nothing), hang (until it is closed),
    drip (a byte of the body every `drip` seconds), raw (`body` is all of it), raw_close (and then the end)."""
    status: int = 201
    fields: list = field(default_factory=lambda: [("Content-Type", "application/json")])
    body: bytes = None
    delay: float = 0.0
    after: threading.Event = None
    how: str = "whole"
    drip: float = 0.1


class Loop:
    """An asyncio loop in a thread of its own."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE)

    def end(self):
        async def cancel():
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self.do(cancel())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class Upstream:
    """A service whose every performed request is seen. An effect happens when a request that carries the ledger's key has
    arrived whole; `behave(request)` says what is answered, by default 201 with a body nobody could guess."""

    def __init__(self, behave=None, tls=None):
        self.behave = behave or (lambda request: Answer())
        self.tls = tls
        self.requests = []
        self.effects = collections.Counter()
        self.faults = []  # what could not be read as a request
        self.connections = 0
        self.most_connections = 0
        self.writers = set()
        self.server = None
        self.port = 0
        self.loop = Loop()
        self.start()

    def start(self):
        self.loop.do(self._start())

    def stop(self):
        """Nobody listens, and nothing is open any more."""
        self.loop.do(self._stop())

    def end(self):
        self.stop()
        self.loop.end()

    def url(self, scheme="http"):
        return f"{scheme}://127.0.0.1:{self.port}"

    def of_key(self, key):
        return [request for request in self.requests if request.value("Semel-Key") == key]

    async def _start(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls, backlog=1024,
                                                 limit=1 << 24)
        self.port = self.server.sockets[0].getsockname()[1]

    async def _stop(self):
        self.server.close()
        for writer in list(self.writers):
            writer.transport.abort()
        self.writers.clear()

    async def _read(self, reader):
        head = await reader.readuntil(b"\r\n\r\n")
        message = parse_head(head[:-4])
        if message.value("Transfer-Encoding"):
            while True:
                size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
                data = await reader.readexactly(size + 2)
                if size == 0:
                    break
                message.body += data[:-2]
        else:
            message.body = await reader.readexactly(int(message.value("Content-Length") or 0))
        return message

    async def _serve(self, reader, writer):
        self.writers.add(writer)
        self.connections += 1
        self.most_connections = max(self.most_connections, self.connections)
        try:
            while True:
                try:
                    request = await self._read(reader)
                except asyncio.IncompleteReadError as error:
                    if error.partial:
                        self.faults.append(error.partial)
                    break
                request.peer = writer.get_extra_info("peercert")
                self.requests.append(request)
                if request.value("Semel-Key") is not None:
                    self.effects[request.value("Semel-Key")] += 1
                if not await self._answer(self.behave(request), request, writer):
                    break
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self.connections -= 1
            self.writers.discard(writer)
            writer.close()

    async def _answer(self, answer, request, writer):
        if answer.delay:
            await asyncio.sleep(answer.delay)
        if answer.after:
            await asyncio.get_running_loop().run_in_executor(None, answer.after.wait, PATIENCE)
        if answer.how == "close":
            return False
        if answer.how == "hang":
            await asyncio.sleep(3600)
        if answer.how in ("raw", "raw_close"):
            writer.write(answer.body)
            await writer.drain()
            return answer.how == "raw"
        body = answer.body if answer.body is not None else json.dumps({"id": secrets.token_hex(8)}).encode()
        head = f"HTTP/1.1 {answer.status} Said\r\nContent-Length: {len(body)}\r\n"
        for name, value in answer.fields:
            head += f"{name}: {value}\r\n"
        if request.method == "HEAD":
            body = b""
        if answer.how == "drip":
            writer.write(head.encode("latin-1") + b"\r\n")
            for at in range(len(body)):
                writer.write(body[at:at + 1])
                await writer.drain()
                await asyncio.sleep(answer.drip)
            return True
        writer.write(head.encode("latin-1") + b"\r\n" + (body[:len(body) // 2] if answer.how == "half" else body))
        await writer.drain()
        return answer.how != "half"


# ---- the program ---------------------------------------------------------------------------------------------------


class Process:
    """A subcommand of semel that serves until it is told to end. Its settings are a dict: JSON is YAML."""

    command = ""  # the subcommand
    ready = ""  # the event in its log that says that it serves

    def __init__(self, settings, folder, program="semel", name=None, **variables):
        self.settings = settings
        self.program = PROGRAMS[program]
        self.file = Path(folder) / f"{name or self.command}.yaml"
        self.log = Path(folder) / f"{name or self.command}.log"
        self.variables = variables
        self.process = None
        self.port = self.admin = self.seen = 0

    def launch(self, preexec=None, **variables):
        """Starts it and does not wait."""
        self.file.write_text(json.dumps(self.settings, indent=1))
        self.seen = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([self.program, self.command, "--config", self.file],
                                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                                            cwd=self.file.parent, preexec_fn=preexec,
                                            env=environment(**{**self.variables, **variables}))
        return self

    def start(self, preexec=None, **variables):
        self.launch(preexec, **variables)
        line = wait_until(f"{self.file} is served", self._ready)
        self.port = int(line["address"].rsplit(":", 1)[1]) if "address" in line else 0
        self.admin = int(line["admin"].rsplit(":", 1)[1]) if "admin" in line else 0
        return self

    def _ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"{self.command} ended with {self.process.returncode}:\n{self.log.read_text()}")
        return next(iter(self.events(self.ready)), None)

    def text(self):
        """The log since the last start."""
        with open(self.log, "rb") as log:
            log.seek(self.seen)
            text = log.read()
        return text[:text.rfind(b"\n") + 1].decode()

    def lines(self):
        return [json.loads(line) for line in self.text().splitlines() if line.startswith("{")]

    def events(self, event):
        return [line for line in self.lines() if line["event"] == event]

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def died(self):
        """Waits for its end by itself; the signal or the exit code."""
        return self.process.wait(PATIENCE)

    def kill(self):
        if self.alive():
            self.process.kill()
        if self.process:
            self.process.wait()

    def stop(self):
        """As an operator does; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def ask(self, path, fields=(), tls=None):
        return call(self.admin, "GET", path, fields, tls=tls)

    def metric(self, name, **labels):
        """The sum of the samples that have these labels."""
        total = 0.0
        for line in self.ask("/metrics").body.decode().splitlines():
            sample, _, value = line.rpartition(" ")
            known, _, rest = sample.partition("{")
            if known == name and all(f'{key}="{text}"' in rest for key, text in labels.items()):
                total += float(value)
        return total


class Gateway(Process):
    command = "gateway"
    ready = "listening"


# ---- a gate --------------------------------------------------------------------------------------------------------


class Gate:
    """A TCP relay to `host:port` that can be cut (connections reset, new ones refused), paused (nothing is forwarded, all
    stays open) or slowed (every piece is late)."""

    def __init__(self, host, port):
        self.target = (host, port)
        self.loop = Loop()
        self.writers = set()
        self.delay = 0.0
        self.port = 0
        self.open = None
        self.loop.do(self._start())

    async def _start(self):
        self.open = self.open or asyncio.Event()
        self.open.set()
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    def cut(self):
        async def do():
            self.server.close()
            for writer in list(self.writers):
                writer.transport.abort()

        self.loop.do(do())

    def mend(self):
        self.loop.do(self._start())

    def pause(self):
        self.loop.do(self._set(False))

    def resume(self):
        self.loop.do(self._set(True))

    async def _set(self, on):
        if on:
            self.open.set()
        else:
            self.open.clear()

    def end(self):
        self.cut()
        self.loop.end()

    async def _serve(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        self.writers |= {writer, far_writer}
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self.writers -= {writer, far_writer}
            writer.transport.abort()
            far_writer.transport.abort()

    async def _pump(self, reader, writer):
        while data := await reader.read(65536):
            if self.delay:
                await asyncio.sleep(self.delay)
            await self.open.wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError


# ---- the tests -----------------------------------------------------------------------------------------------------

ROUTE = {"match": "POST /v1/payments", "key": "required", "lease": "30s"}


class GatewayTest(unittest.TestCase):
    """A folder of its own, and things that are ended with the test."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="semel-gateway-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.gateways = []
        self.stores = 0
        # Tests may share a database: each has its own route, which is part of every operation's identity.
        self.route = "payments-" + secrets.token_hex(4)

    def run(self, result=None):
        began = time.monotonic()
        super().run(result)
        print(f"    {time.monotonic() - began:6.1f} s  {self.id().split('.', 1)[1]}", file=sys.stderr, flush=True)

    def tearDown(self):
        outcome = self._outcome.result
        if any(test is self for test, _ in outcome.failures + outcome.errors):
            for gateway in self.gateways:
                text = gateway.log.read_text(errors="replace") if gateway.log.exists() else ""
                print(f"---- {gateway.log}\n{text[-3000:]}", file=sys.stderr)

    def path(self, name):
        return os.path.join(self.folder, name)

    def upstream(self, behave=None, tls=None):
        made = Upstream(behave, tls)
        self.addCleanup(made.end)
        return made

    def sqlite(self):
        """A new file, which the gateway makes."""
        self.stores += 1
        return "sqlite:" + self.path(f"semel{self.stores}.db")

    def postgres(self, own=False):
        """A database with Semel's tables: one for all tests of this process, or a new one. It goes with the server."""
        if not own and "shared" in DATABASES:
            return DATABASES["shared"]
        uri = os.environ.get("SEMEL_TEST_POSTGRES")
        if not uri:
            self.fail("SEMEL_TEST_POSTGRES is not set: run inside tests/servers/with-servers")
        import psycopg  # pylint: disable=import-outside-toplevel  # only here, so that the rest needs nothing
        name = "gateway_" + secrets.token_hex(6)
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute(f"create database {name}")
        made = urlunsplit(urlsplit(uri)._replace(path="/" + name))
        subprocess.run([PROGRAMS["semel"], "migrate", "--store", made], check=True, stdout=subprocess.DEVNULL,
                       env=environment())
        return made if own else DATABASES.setdefault("shared", made)

    def store(self, kind):
        return self.sqlite() if kind == "sqlite" else self.postgres()

    def settings(self, store, upstream, route=None, limits=None, **more):
        settings = {"store": store, "listen": "127.0.0.1:0", "admin": "127.0.0.1:0",
                    "upstream": upstream.url() if isinstance(upstream, Upstream) else upstream, "tenant": "none",
                    "drain": "1s", "routes": [{"name": self.route, **ROUTE, **(route or {})}]}
        if limits:
            settings["limits"] = limits
        return {**settings, **more}

    def gateway(self, settings, program="semel", start=True, **variables):
        made = Gateway(settings, self.folder, program, f"gateway{len(self.gateways)}", **variables)
        self.gateways.append(made)
        self.addCleanup(made.kill)
        return made.start() if start else made

    def states(self, store):
        """The ledger's own word on this test's operations, by key."""
        done = subprocess.run([PROGRAMS["semel"], "ops", "list", "--store", store, "--json", "--limit", "10000",
                               "--scope", self.route], stdout=subprocess.PIPE, env=environment(), check=True)
        page = json.loads(done.stdout)
        self.assertEqual((page["next"], page["corrupt"]), (None, 0))
        return {each["key"]: each["state"] for each in page["operations"]}

    def assert_problem(self, response, status, problem):
        self.assertEqual((response.status, response.problem), (status, problem), response)


def run_tests():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    PROGRAMS["semel"], PROGRAMS["dying"] = (os.path.abspath(path) for path in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main(module="__main__")
