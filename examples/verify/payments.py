#!/usr/bin/python3
"""A payments API to point `semel verify` at.

    payments.py PORT DATABASE [--broken]

POST /charges with Authorization and Idempotency-Key writes a row into the table `charges`. Key, charge and answer are one
transaction; with --broken the key is looked up first and written down later, as so many do. PORT 0: a free one.
"""

import json
import sqlite3
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BROKEN = "--broken" in sys.argv[1:]
PORT, DATABASE = [word for word in sys.argv[1:] if not word.startswith("--")]
SCHEMA = """
create table if not exists charges (id integer primary key, amount integer not null);
create table if not exists answers (tenant text, key text, request text, status integer, body text);
"""


def charge(tenant, key, request):
    database = sqlite3.connect(DATABASE, timeout=30, isolation_level=None)
    try:
        if not BROKEN:
            database.execute("begin immediate")
        known = database.execute("select request, status, body from answers where tenant = ? and key = ?",
                                 (tenant, key)).fetchone()
        if known:
            return (known[1], known[2]) if known[0] == request else (422, '{"error":"key used for another request"}')
        if BROKEN:
            time.sleep(0.05)  # asks the card network
        row = database.execute("insert into charges (amount) values (?)", (json.loads(request)["amount"],))
        status, body = 201, json.dumps({"id": row.lastrowid})
        database.execute("insert into answers values (?, ?, ?, ?, ?)", (tenant, key, request, status, body))
        if not BROKEN:
            database.execute("commit")
        return status, body
    finally:
        database.close()


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = self.rfile.read(int(self.headers["Content-Length"])).decode()
        tenant, key = self.headers["Authorization"], (self.headers["Idempotency-Key"] or "").strip('"')
        if not tenant:
            status, body = 401, '{"error":"who are you?"}'
        elif not key:
            status, body = 400, '{"error":"no Idempotency-Key"}'
        else:
            status, body = charge(tenant, key, request)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # clients hang up


if __name__ == "__main__":
    with sqlite3.connect(DATABASE) as created:
        created.execute("pragma journal_mode = wal")
        created.executescript(SCHEMA)
    created.close()
    server = Server(("127.0.0.1", int(PORT)), Api)
    print(f"http://127.0.0.1:{server.server_port}/charges", flush=True)
    server.serve_forever()
