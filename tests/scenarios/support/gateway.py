"""The real program, with a configuration and a store of its own."""

import json
import os
import re
import secrets
import signal
import subprocess
import threading
import time
from urllib.parse import urlsplit, urlunsplit

from .gate import Gate

BASE = {
    "store": "store: <store>",
    "listen": "listen: 127.0.0.1:0",
    "admin": "admin: 127.0.0.1:0",
    "upstream": "upstream: http://127.0.0.1:<upstream_port>",
    "tenant": "tenant: none",
    "drain": "drain: 5s",
}


def whole_config(lines):
    """The scenario's lines, and for every setting that it leaves out what all scenarios have."""
    given = {found[1] for line in lines if (found := re.match(r"([a-z_]+):", line))}
    return [*(line for name, line in BASE.items() if name not in given), *lines]


class Sqlite:
    def __init__(self, folder):
        self.folder = folder
        self.url = f"sqlite:{folder}/semel.db"
        self.gate = None

    def contains(self, data):
        return any(data in path.read_bytes() for path in self.folder.glob("semel.db*"))

    def end(self):
        pass


class Postgres:
    """A database of its own, behind a gate, prepared by `semel migrate`."""

    def __init__(self, semel):
        import psycopg  # only scenarios that ask for PostgreSQL need it
        server = os.environ.get("SEMEL_TEST_POSTGRES")
        if not server:
            raise RuntimeError("SEMEL_TEST_POSTGRES is not set: run this beside tests/servers/with-servers")
        self.psycopg = psycopg
        self.server = server
        self.name = "semel_scenario_" + secrets.token_hex(8)
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(f"create database {self.name}")
        self.gate = None
        try:
            parts = urlsplit(server)
            self.direct = urlunsplit(parts._replace(path="/" + self.name))
            subprocess.run([semel, "migrate", "--store", self.direct], check=True, stdout=subprocess.DEVNULL, timeout=60)
            self.gate = Gate((parts.hostname, parts.port))
            at = parts.netloc.rpartition("@")[0] + f"@127.0.0.1:{self.gate.port}"
            self.url = urlunsplit(parts._replace(netloc=at, path="/" + self.name))
        except BaseException:
            self.end()
            raise

    def connect(self):
        return self.psycopg.connect(self.direct)

    def end(self):
        if self.gate:
            self.gate.end()
        with self.psycopg.connect(self.server, autocommit=True) as admin:
            admin.execute(f"drop database {self.name} with (force)")


class Gateway:
    """A running `semel gateway`. Its log is read as it comes."""

    def __init__(self, semel, folder, seconds):
        self.semel = semel
        self.folder = folder
        self.seconds = seconds
        self.changed = threading.Condition()
        self.log = []
        self.process = None
        self.address = self.admin = None

    def write(self, text):
        (self.folder / "semel.yaml").write_text(text)

    def start(self):
        with self.changed:
            began = len(self.log)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("SEMEL_", "PG"))}
        self.process = subprocess.Popen([self.semel, "gateway", "--config", self.folder / "semel.yaml"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        cwd=self.folder, env=clean)
        threading.Thread(target=self.read_log, args=[self.process], daemon=True).start()
        line = self.wait_for_log("listening", began)
        if not line:
            raise RuntimeError("the gateway did not start:\n" + "\n".join(self.log[began:]))
        host, _, port = line["address"].rpartition(":")
        self.address = (host.strip("[]"), int(port))
        if "admin" in line:
            host, _, port = line["admin"].rpartition(":")
            self.admin = (host.strip("[]"), int(port))

    def read_log(self, process):
        for raw in process.stderr:
            with self.changed:
                self.log.append(raw.decode(errors="replace").rstrip("\n"))
                self.changed.notify_all()
        process.wait()
        with self.changed:
            self.changed.notify_all()

    def events(self, name, since=0):
        found = []
        for line in self.log[since:]:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event.get("event") == name:
                found.append(event)
        return found

    def wait_for_log(self, name, since=0):
        """The first line of that event, or nothing when there is none in time."""
        deadline = time.monotonic() + self.seconds
        with self.changed:
            while True:
                if found := self.events(name, since):
                    return found[0]
                left = deadline - time.monotonic()
                if left <= 0 or self.process.returncode is not None:
                    return None
                self.changed.wait(left)

    def signal(self, number):
        self.process.send_signal(number)

    def wait_exit(self):
        try:
            return self.process.wait(self.seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self):
        """What is still there is ended in order, so that a crash at the end is seen."""
        if not self.process:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            if self.wait_exit() is None:
                self.process.kill()
        return self.process.wait()
