"""PostgreSQL, and PgBouncer in front of it. `pgctl` stops and starts the former."""

import os
import re
import secrets
import signal
import subprocess
import time
from pathlib import Path

from .machine import (MARK, NoServer, PortTaken, as_user, free_port, make_folder, program, run, send, tail, write)

START_TRIES = 10
START_SECONDS = 60
PGCTL = Path(__file__).resolve().parent.parent / "pgctl"


def postgres_bin():
    def major(path):
        return int(path.parent.name) if path.parent.name.isdigit() else 0

    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=major, reverse=True)
    preferred = [f for f in folders if major(f) == 15] + folders
    path = os.environ.get("PATH", "").split(os.pathsep)
    return program("initdb", preferred + [Path(p) for p in path if p]).parent


class Postgres:
    name = "postgres"
    title = "PostgreSQL"

    def __init__(self, home, user):
        self.folder = home / self.name
        self.user = user
        self.bin = postgres_bin()
        self.pgbouncer = program("pgbouncer")
        self.password = secrets.token_hex(16)
        self.port = self.pool_port = None

    def environment(self):
        return {
            "SEMEL_TEST_POSTGRES": f"postgresql://semel:{self.password}@127.0.0.1:{self.port}/semel",
            "SEMEL_TEST_PGBOUNCER": f"postgresql://semel:{self.password}@127.0.0.1:{self.pool_port}/semel",
            "SEMEL_TEST_POSTGRES_ADMIN": f"postgresql://semel_admin:{self.password}@127.0.0.1:{self.port}/postgres",
            "SEMEL_TEST_POSTGRES_CTL": str(PGCTL),
            "SEMEL_TEST_POSTGRES_HOME": str(self.folder),
            "SEMEL_TEST_POSTGRES_BIN": str(self.bin),
        }

    def addresses(self):
        return {"PostgreSQL": f"127.0.0.1:{self.port}", "PgBouncer": f"127.0.0.1:{self.pool_port}"}

    def create(self):
        make_folder(self.folder, self.user)
        self.make_cluster()
        self.on_some_port(self.start_postgres)
        self.make_database()
        self.on_some_port(self.start_pgbouncer)

    def on_some_port(self, start):
        for _ in range(START_TRIES):
            try:
                start(free_port())
                return
            except PortTaken:
                continue
        raise NoServer(f"{START_TRIES} ports tried, each of them taken by somebody else in the meantime")

    def make_cluster(self):
        secret = self.folder / "password"
        write(secret, self.password, self.user)
        # --no-sync concerns initdb's own files only; the server itself runs with fsync on.
        run([self.bin / "initdb", "--pgdata", self.folder / "data", "--username", "semel_admin", "--pwfile", secret,
             "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"],
            self.user, "initdb", self.folder)

    def start_postgres(self, port):
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": port,
            "unix_socket_directories": self.folder,
            "dynamic_shared_memory_type": "mmap",  # in the data folder: a server that is killed leaves nothing elsewhere
            "max_connections": 200,
            "shared_buffers": "64MB",
            "fsync": "on",
            "synchronous_commit": "on",
            "client_connection_check_interval": "500ms",
            "log_min_messages": "warning",
            "log_line_prefix": "%m [%p] %q%u@%d ",
        }
        write(self.folder / "data" / "postgresql.auto.conf",
              "".join(f"{name} = '{value}'\n" for name, value in settings.items()), self.user)
        log = self.folder / "postgres.log"
        log.unlink(missing_ok=True)
        self.port = port
        done = subprocess.run([PGCTL, "start"], env={**os.environ, **self.environment(), MARK: str(self.folder)},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        if done.returncode != 0:
            if log.exists() and "Address already in use" in log.read_text(errors="replace"):
                raise PortTaken
            raise NoServer(f"PostgreSQL did not start:\n{done.stdout}{tail(log)}")

    def make_database(self):
        # pg_signal_backend: without it `drop database … with (force)` fails wherever autovacuum is in that database.
        script = (f"create role semel login createdb in role pg_signal_backend password '{self.password}';\n"
                  "create database semel owner semel;\n")
        self.psql(self.folder, self.port, "semel_admin", "postgres", script)

    def psql(self, host, port, role, database, script):
        done = subprocess.run([self.bin / "psql", "--no-psqlrc", "--quiet", "-v", "ON_ERROR_STOP=1", "--host", host,
                               "--port", str(port), "--username", role, "--dbname", database],
                              input=script, env={**os.environ, "PGPASSWORD": self.password, "PGCONNECT_TIMEOUT": "10"},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise NoServer(f"psql on {host}:{port} failed:\n{done.stdout}{tail(self.folder / 'postgres.log')}")

    def start_pgbouncer(self, port):
        write(self.folder / "users.txt",
              f'"semel" "{self.password}"\n"semel_admin" "{self.password}"\n', self.user)
        write(self.folder / "pgbouncer.ini", f"""
[databases]
* = host=127.0.0.1 port={self.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {self.folder / "users.txt"}
admin_users = semel_admin
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 20
logfile = {self.folder / "pgbouncer.log"}
pidfile = {self.folder / "pgbouncer.pid"}
""", self.user)
        log = self.folder / "pgbouncer.log"
        log.unlink(missing_ok=True)
        process = subprocess.Popen([self.pgbouncer, "--quiet", self.folder / "pgbouncer.ini"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder,
                                   start_new_session=True, env={**os.environ, MARK: str(self.folder)}, **as_user(self.user))
        self.pool_port = port
        try:
            self.wait_for_pgbouncer(process, port, log)
        except BaseException:
            send(signal.SIGKILL, [process.pid])
            process.wait()
            raise

    def wait_for_pgbouncer(self, process, port, log):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            text = log.read_text(errors="replace") if log.exists() else ""
            if "in use" in text:
                raise PortTaken
            if process.poll() is not None:
                raise NoServer(f"PgBouncer ended with code {process.returncode} at its start:\n{tail(log)}")
            if re.search(r"listening on 127\.0\.0\.1", text):
                # The password is this run's own: whoever takes it is ours.
                self.psql("127.0.0.1", port, "semel", "semel", "select 1 \\g /dev/null\n")
                return
            time.sleep(0.02)
        raise NoServer(f"PgBouncer was not ready within {START_SECONDS} s:\n{tail(log)}")


def end_postgres(home):
    """Ends what runs in `home`, in whatever state. PostgreSQL cleans up after itself if it is asked."""
    folder = home / Postgres.name
    if (folder / "data" / "postmaster.pid").exists():
        subprocess.run([PGCTL, "end"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False,
                       env={**os.environ, "SEMEL_TEST_POSTGRES_HOME": str(folder),
                            "SEMEL_TEST_POSTGRES_BIN": "not needed for that"})
