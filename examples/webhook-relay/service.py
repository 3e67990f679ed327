#!/usr/bin/python3
"""A service that is idempotent by Idempotency-Key, with nothing but Python: the key, the payment and the answer are one
transaction in SQLite, so that no crash can leave one without the others.

    service.py PORT [FILE]
"""

import json
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FILE = sys.argv[2] if len(sys.argv) > 2 else "payments.db"

SCHEMA = """
create table if not exists payment (number integer primary key, id text not null, amount integer not null);
create table if not exists answered (key text primary key, status integer not null, body text not null);
"""


def execute(database, payment):
    """The effect. Runs inside the transaction that also keeps its answer."""
    if payment["amount"] <= 0:
        return 422, {"error": "an amount is positive"}
    number = database.execute("insert into payment (id, amount) values (?, ?)",
                              (payment["id"], payment["amount"])).lastrowid
    return 201, {"number": number}


def answer(key, payment):
    """Status, body and whether this was answered before."""
    database = sqlite3.connect(FILE, isolation_level=None, timeout=10)
    try:
        database.execute("begin immediate")
        before = database.execute("select status, body from answered where key = ?", (key,)).fetchone()
        if before:
            database.execute("rollback")
            return *before, True
        status, body = execute(database, payment)
        text = json.dumps(body)
        database.execute("insert into answered (key, status, body) values (?, ?, ?)", (key, status, text))
        database.execute("commit")
        return status, text, False
    finally:
        database.close()


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key = self.headers.get("Idempotency-Key")
        if not key:
            return self.reply(400, json.dumps({"error": "Idempotency-Key is missing"}))
        return self.reply(*answer(key, json.loads(body)))

    def do_GET(self):
        database = sqlite3.connect(FILE)
        count, total = database.execute("select count(*), coalesce(sum(amount), 0) from payment").fetchone()
        database.close()
        self.reply(200, json.dumps({"payments": count, "total": total}))

    def reply(self, status, text, replayed=False):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        if replayed:
            self.send_header("Idempotent-Replayed", "true")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    sqlite3.connect(FILE).executescript(SCHEMA)
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Service).serve_forever()
