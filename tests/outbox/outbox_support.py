"""What the outbox's tests share: `semel outbox` as a process, and databases of the user's own to stage in.

Every topic is a program: TOPIC SEMEL OTHER_PROGRAM [unittest argument…], run by `run_tests()`. The servers are those of
tests/servers/with-servers.
"""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "relay"))

# pylint: disable=wrong-import-position,unused-import  # the relay's tests have all that is not about outboxes
from relay_support import (PATIENCE, PROGRAMS, ROOT, STORES, Answer, Process, RelayTest, environment, expand, on_each,
                           run_tests, wait_until)


class OutboxProcess(Process):
    command = "outbox"
    ready = "started"


class OutboxTest(RelayTest):
    def run_semel(self, *arguments):
        return subprocess.run([PROGRAMS["semel"], *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=environment(), check=False, timeout=PATIENCE, text=True)

    def outbox(self, settings, program="semel", start=True):
        made = OutboxProcess(settings, self.folder, program, name=f"outbox{len(self.gateways)}")
        self.gateways.append(made)
        self.addCleanup(made.kill)
        return made.start() if start else made

    def database(self):
        """A SQLite database with Semel's tables: where, and a connection of the user's own."""
        path = self.path("shop.db")
        done = self.run_semel("migrate", "--store", "sqlite:" + path)
        self.assertEqual(done.returncode, 0, done.stderr)
        connection = sqlite3.connect(path, isolation_level=None, timeout=PATIENCE)
        self.addCleanup(connection.close)
        return "sqlite:" + path, connection

    def postgres_database(self):
        """As database(), on PostgreSQL."""
        import psycopg  # pylint: disable=import-outside-toplevel  # only here, so that the rest needs nothing
        store = self.postgres(own=True)
        connection = psycopg.connect(store, autocommit=True)
        self.addCleanup(connection.close)
        return store, connection

    @staticmethod
    def stage(connection, number, key="k", topic="paid", name=None):
        """Stages event e`number` of that key, which is its subject, too."""
        name, data = name or f"e{number}", json.dumps({"number": number})
        if isinstance(connection, sqlite3.Connection):
            connection.execute("insert into semel_outbox (topic, ordering_key, id, source, type, subject, data) "
                               "values (?, ?, ?, '/shop', 'paid', ?, ?)", (topic, key, name, key, data.encode()))
        else:
            connection.execute("select semel.stage_json(topic => %s, ordering_key => %s, id => %s, source => '/shop', "
                               "type => 'paid', subject => %s, data => %s)", (topic, key, name, key, data))

    @staticmethod
    def left(connection):
        """How many events are in the table."""
        table = "semel_outbox" if isinstance(connection, sqlite3.Connection) else "semel.outbox"
        return connection.execute(f"select count(*) from {table}").fetchone()[0]

    def settings(self, store, **to):
        return {"store": store, "admin": "127.0.0.1:0", "outboxes": [
            {"to": to, "lease": "2s", "retries": {"first": "100ms", "max": "200ms"}}]}
