"""Playing a scenario: one method per statement that README.md lists."""

import re
import shutil
import signal
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from . import messages
from .clients import Call, Client
from .gateway import Gateway, Postgres, Sqlite, whole_config
from .messages import compare, framed, split
from .script import Failure
from .text import Names, decode, encode
from .upstream import Answer, Piece, Upstream

SECONDS = 20  # until something that has to happen has not
POLL = 0.01
NEVER_STORED = ("set-cookie", "www-authenticate")


def usual_body(number):
    return f'{{"effect":{number}}}'


def usual_answer(status, fields=(), body=None):
    """An answer that counts effects, unless the scenario gives a body."""
    def make(request, number):
        given = list(fields)
        text = usual_body(number) if body is None else body.replace("<effect>", str(number))
        if not messages.has(given, "Content-Type") and body is None:
            given.insert(0, "Content-Type: application/json")
        first = status if status.startswith("HTTP/") else "HTTP/1.1 " + status
        if status.split()[0] in ("204", "304"):
            return framed(first, fields, None, always=False)
        made = framed(first, given, text)
        return made[:made.index(b"\r\n\r\n") + 4] if request.line.startswith("HEAD ") else made
    return make


class Play:
    def __init__(self, statements, semel):
        self.statements = statements
        self.semel = semel
        self.folder = Path(tempfile.mkdtemp(prefix="semel-scenario-"))
        self.names = Names()
        self.upstream = Upstream(Answer([Piece(usual_answer("201 Created"))]))
        self.names.values["upstream_port"] = str(self.upstream.port)
        self.names.values["folder"] = str(self.folder)
        self.gateway = Gateway(semel, self.folder, SECONDS)
        self.store = None
        self.config = []
        self.calls = {}
        self.clients = {}
        self.all_clients = []
        self.last_request = None
        self.counted = None  # requests at the upstream, as last stated
        self.before_answer = []  # what the next scripted answer does first
        self.sql_errors = []
        self.line = 1

    # ---- the whole ------------------------------------------------------------------------------------------------

    def run(self):
        try:
            for statement in self.statements:
                self.line = statement.line
                self.perform(statement)
            self.finish()
        except ValueError as error:
            raise Failure(self.line, str(error)) from error
        except (OSError, RuntimeError) as error:
            raise Failure(self.line, f"{type(error).__name__}: {error}") from error
        finally:
            self.clean_up()

    def perform(self, statement):
        for pattern, method in STATEMENTS:
            if found := re.fullmatch(pattern, statement.text):
                method(self, statement.block, **{name: value for name, value in found.groupdict().items()})
                return
        self.fail(f"no such statement: {statement.text}")

    def finish(self):
        for name, call in self.calls.items():
            if not call.looked_at:
                raise Failure(call.line, f"the response to this request{name and ' ' + name} is never looked at")
        code = self.gateway.end()
        if code not in (0, -signal.SIGKILL):
            self.fail(f"the gateway ended with exit code {code}")
        if self.counted is not None and len(self.upstream.received) != self.counted:
            self.fail(f"in the end the upstream has received {len(self.upstream.received)} requests, not {self.counted}")
        if self.upstream.script:
            self.fail(f"{len(self.upstream.script)} answers of the upstream were never asked for")

    def clean_up(self):
        for client in self.all_clients:
            client.end()
        try:
            self.gateway.end()
        finally:
            self.upstream.end()
            if self.store:
                self.store.end()
            shutil.rmtree(self.folder, ignore_errors=True)

    def fail(self, message):
        raise Failure(self.line, message)

    def need_gateway(self):
        if self.gateway.process:
            return
        self.need_store()
        self.write_config()
        self.gateway.start()

    def need_store(self):
        if not self.store:
            self.store = Sqlite(self.folder)
            self.names.values["store"] = self.store.url

    def write_config(self):
        self.gateway.write(self.names.expand("\n".join(whole_config(self.config)) + "\n"))

    def until(self, condition, message):
        """Waits for something that tells nobody when it happens; `message` says what there was instead."""
        deadline = time.monotonic() + SECONDS
        while not condition():
            if time.monotonic() > deadline:
                self.fail(message())
            time.sleep(POLL)

    # ---- the gateway ----------------------------------------------------------------------------------------------

    def set_store(self, _block):
        self.store = Postgres(self.semel)
        self.names.values["store"] = self.store.url

    def set_config(self, block):
        if self.gateway.process and self.gateway.process.poll() is None:
            self.fail("the gateway is running: `reload`, or `stop` first")
        self.config = block

    def let(self, _block, name, value):
        self.names.values[name] = self.names.expand(value)

    def reload(self, block, refused):
        self.need_gateway()
        if block:
            self.config = block
        self.write_config()
        since = len(self.gateway.log)
        self.gateway.signal(signal.SIGHUP)
        wanted, other = ("reload_refused", "reloaded") if refused else ("reloaded", "reload_refused")
        if not self.gateway.wait_for_log(wanted, since):
            self.fail(f"expected `{wanted}` in the log, got {self.gateway.events(other, since)}")

    def stop(self, _block):
        self.gateway.signal(signal.SIGTERM)
        if not self.gateway.wait_for_log("draining"):
            self.fail("no `draining` in the log")

    def stopped(self, _block):
        code = self.gateway.wait_exit()
        if code != 0:
            self.fail(f"expected exit code 0, got {code if code is not None else 'a gateway that still runs'}")

    def kill(self, _block):
        self.gateway.process.kill()
        self.gateway.process.wait()

    def start(self, _block):
        if self.gateway.process and self.gateway.process.poll() is None:
            self.fail("the gateway is running")
        self.need_store()
        self.write_config()
        self.gateway.start()

    def store_does(self, _block, what):
        if not self.store or not self.store.gate:
            self.fail("only `store postgres` can be broken")
        {"breaks": self.store.gate.cut, "hangs": self.store.gate.hang, "heals": self.store.gate.mend}[what]()

    # ---- requests -------------------------------------------------------------------------------------------------

    def request(self, block, raw=None, again=None, name=None, connection=None, admin=None):
        self.need_gateway()
        name = name or ""
        if name in self.calls and not self.calls[name].looked_at:
            self.fail("the response to the request before is not looked at: give it a name")
        if again:
            if not self.last_request:
                self.fail("there is no request before this one")
            method, data, rest = self.last_request
        else:
            method, data, rest = self.last_request = self.written_request(block, raw)
        client = self.client(connection, admin)
        call = self.calls[name] = Call(client, self.line)
        client.send(call, method, data, rest)

    def request_until(self, _block, status, problem=None):
        """The same request, until it is answered so: for what only time brings about."""
        def answered():
            self.request([], again=True)
            response = self.ended(None)
            return response.complete and response.status == int(status) and encode(problem or "") in response.body

        self.until(answered, lambda: f"expected {status} in the end, got {self.calls[''].response.line}")

    def client(self, connection, admin):
        if connection and connection in self.clients:
            return self.clients[connection]
        client = Client(self.gateway.admin if admin else self.gateway.address, SECONDS)
        self.all_clients.append(client)
        if connection:
            self.clients[connection] = client
        return client

    def written_request(self, block, raw):
        """The method, the bytes, and those that wait for `100 Continue`."""
        head, body = split(block)
        if not head:
            self.fail("a request needs a block")
        body = None if body is None else self.names.expand(body)
        head = [self.names.expand(line, body or "") for line in head]
        method = head[0].split(" ", 1)[0]
        if raw:
            return method, messages.raw([*head, "", body] if body is not None else head), b""
        first = head[0] if re.search(r" HTTP/1\.[01]$", head[0]) else head[0] + " HTTP/1.1"
        fields = head[1:]
        if not messages.has(fields, "Host") and first.endswith("/1.1"):
            fields = ["Host: shop.example", *fields]
        data = framed(first, fields, body, always=False)
        if messages.has(fields, "Expect"):
            at = data.index(b"\r\n\r\n") + 4
            return method, data[:at], data[at:]
        return method, data, b""

    def called(self, name):
        call = self.calls.get(name or "")
        if not call:
            self.fail(f"there is no request {name or ''}")
        call.looked_at = True
        return call

    def ended(self, name):
        """The response, when it is complete or will never be."""
        response = self.called(name).response
        with response.changed:
            response.changed.wait_for(lambda: response.complete or response.error, SECONDS)
        return response

    def show_faults(self, faults, message):
        shown = "\n".join("    " + line for line in message.text().splitlines())
        self.fail("\n  ".join(faults) + "\n  of\n" + shown)

    def response(self, block, name=None):
        response = self.ended(name)
        if not response.complete:
            self.show_faults(["expected a whole response"], response)
        if faults := compare(self.names, block, response):
            self.show_faults(faults, response)

    def response_so_far(self, block, name=None):
        response = self.called(name).response
        faults = []

        def as_expected():
            faults[:] = compare(self.names, block, response) if response.line else ["nothing came"]
            return not faults

        with response.changed:
            if not response.changed.wait_for(as_expected, SECONDS):
                self.show_faults(faults, response)
        if response.complete:
            self.show_faults(["expected a response that is not complete yet"], response)

    def no_response(self, _block, name=None):
        response = self.ended(name)
        if response.line or not response.error:
            self.show_faults(["expected no response but the end of the connection"], response)

    def cut_response(self, block, name=None):
        response = self.ended(name)
        if response.complete or not response.line or not response.error:
            self.show_faults(["expected a response that is cut short"], response)
        if faults := compare(self.names, block, response):
            self.show_faults(faults, response)

    def replay(self, _block, name=None, of=None, without=None):
        """The same status, headers in their order and body, and that it is a replay."""
        first, second = self.ended(of), self.ended(name)
        left_out = {each.strip().lower() for each in (without or "").split(",") if each.strip()} | set(NEVER_STORED)
        wanted = [(key, value) for key, value in first.fields if key.lower() not in left_out]
        got = [(key, value) for key, value in second.fields if key.lower() != "idempotent-replayed"]
        faults = []
        if not second.complete:
            faults.append("expected a whole response")
        if first.line != second.line:
            faults.append(f"expected `{first.line}`, got `{second.line}`")
        if wanted != got:
            faults.append(f"expected the headers\n    {wanted}\n  got\n    {got}")
        if second.values("Idempotent-Replayed") != ["true"]:
            faults.append("expected `Idempotent-Replayed: true`")
        if first.body != second.body:
            faults.append(f"expected the body\n    {first.body[:1000]}\n  got\n    {second.body[:1000]}")
        if faults:
            self.show_faults(faults, second)

    def told_to_continue(self, _block, name=None):
        response = self.ended(name)
        if response.interim != ["HTTP/1.1 100 Continue"]:
            self.fail(f"expected `HTTP/1.1 100 Continue` once, got {response.interim}")

    def hang_up(self, _block, name=None, hard=None):
        self.called(name).connection.hang_up(bool(hard))

    def closed(self, _block, connection):
        if not self.clients[connection].wait_closed(SECONDS):
            self.fail(f"connection {connection} is not closed by the gateway")

    def open_connection(self, _block, connection):
        self.need_gateway()
        self.client(connection, None)

    # ---- the upstream ---------------------------------------------------------------------------------------------

    def answers(self, block, status=None, raw=None, after=None, end=None):
        if raw:
            data = messages.raw([self.names.expand(line) for line in block])
        else:
            head, body = split(block)
            if not status:
                if not head:
                    self.fail("an answer has a status")
                status, head = head[0], head[1:]
            head = [self.names.expand(line) for line in head]
            body = None if body is None else "<effect>".join(map(self.names.expand, body.split("<effect>")))
            data = usual_answer(status, head, body)
        self.script(Piece(data, after or "", end or "keep"))

    def script(self, piece):
        pieces = [*self.before_answer, piece]
        self.before_answer = []
        with self.upstream.changed:
            self.upstream.script.append(Answer(pieces))

    def goes_on(self, block, after=None, end=None):
        """More of the answer that was scripted last, exactly as written."""
        data = encode("\r\n".join(self.names.expand(line) for line in block).replace(r"\r", "\r").replace(r"\n", "\n"))
        self.upstream.script[-1].pieces.append(Piece(data, after or "", end or "keep"))

    def upstream_ends(self, _block, how, after=None, always=None):
        if always:
            self.upstream.usual = Answer([Piece(None, "", "close" if how == "closes" else "reset")])
            return
        self.script(Piece(None, "never" if how == "never answers" else after or "",
                          {"closes": "close", "resets": "reset", "never answers": "keep"}[how]))

    def upstream_runs(self, _block, how):
        self.upstream.stop() if how == "stops" else self.upstream.start()

    def settles(self, block, after=None):
        """SQL in a transaction of the application's own, which then may fail to commit."""
        sql = "\n".join(block)

        def settle(request, _number):
            values = {"scope": request.value("Semel-Scope"), "key": request.value("Semel-Key"),
                      "token": int(request.value("Semel-Token")), "body": decode(request.body)}
            try:
                with self.store.connect() as connection:
                    self.store.psycopg.ClientCursor(connection).execute(sql, values)
            except self.store.psycopg.Error as error:
                self.sql_errors.append((error.sqlstate, str(error)))
            with self.upstream.changed:
                self.upstream.changed.notify_all()

        self.before_answer.append(Piece(settle, after or ""))

    def sql_failed(self, _block, state):
        if not self.upstream.wait(lambda: self.sql_errors, SECONDS):
            self.fail("the upstream's SQL has not failed")
        found = self.sql_errors.pop(0)
        if found[0] != state:
            self.fail(f"expected SQLSTATE {state}, got {found}")

    def sql(self, block):
        with self.store.connect() as connection:
            connection.execute("\n".join(block))

    def sql_gives(self, _block, query, value):
        def ask():
            with self.store.connect() as connection:
                return str(connection.execute(query).fetchone()[0])

        self.until(lambda: ask() == value, lambda: f"expected {value}, got {ask()}")

    def received(self, _block, count, more=None):
        count = int(count) + (self.counted or 0 if more else 0)
        self.upstream.wait(lambda: len(self.upstream.received) >= count, SECONDS)
        if len(self.upstream.received) != count:
            self.fail(f"expected {count} requests at the upstream, got {len(self.upstream.received)}:\n    " +
                      "\n    ".join(each.line for each in self.upstream.received))
        self.counted = count

    def got(self, block, number=None):
        if not self.upstream.received:
            self.fail("the upstream has received nothing")
        request = self.upstream.received[int(number) - 1 if number else -1]
        if faults := compare(self.names, block, request):
            self.show_faults(faults, request)

    def upstream_connections(self, _block, count):
        if self.upstream.connections != int(count):
            self.fail(f"expected {count} connections to the upstream, got {self.upstream.connections}")

    def signal(self, _block, name):
        self.upstream.signal(name)

    # ---- what else can be seen ------------------------------------------------------------------------------------

    def ask_admin(self, path):
        try:
            with urllib.request.urlopen("http://%s:%d%s" % (*self.gateway.admin, path), timeout=SECONDS) as answer:
                return answer.read().decode()
        except (urllib.error.URLError, OSError):
            return ""

    def operation_is(self, _block, key, state):
        self.need_gateway()
        key = self.names.expand(key)

        def held():
            found = re.search(r'"key":"%s",.*?"state":"(\w+)"' % re.escape(key), self.ask_admin("/operations?limit=1000"))
            return found[1] if found else "absent"

        self.until(lambda: held() == state, lambda: f"expected {state}, got {held()}")

    def metric_is(self, _block, name, value, at_least=None):
        self.need_gateway()

        def current():
            for line in self.ask_admin("/metrics").splitlines():
                if line.rpartition(" ")[0] == name:
                    return line.rpartition(" ")[2]
            return "nothing"

        def reached():
            return current() == value or bool(at_least) and current() != "nothing" and float(current()) >= float(value)

        self.until(reached, lambda: f"expected {name} {value}, got {current()}")

    def stored(self, _block, text, negated=None):
        if self.store.contains(encode(self.names.expand(text))) == bool(negated):
            self.fail(f"the store's files {'do' if negated else 'do not'} contain {text}")

    def log_has(self, _block, text):
        text = self.names.expand(text)
        with self.gateway.changed:
            if not self.gateway.changed.wait_for(lambda: any(text in line for line in self.gateway.log), SECONDS):
                self.fail(f"the log does not contain {text}")

    def log_lacks(self, _block, text):
        text = self.names.expand(text)
        for line in self.gateway.log:
            if text in line:
                self.fail(f"the log contains {text}: {line}")


NAMED = r"(?: (?P<name>[a-z]\w*))?"
AFTER = r"(?: after (?P<after>\w+))?"
END = r"(?:,? then (?P<end>close|reset)s)?"
STATEMENTS = [
    (r"store postgres", Play.set_store),
    (r"store (?P<what>breaks|hangs|heals)", Play.store_does),
    (r"config", Play.set_config),
    (r"let (?P<name>\w+) = (?P<value>.*)", Play.let),
    (r"reload(?P<refused> refused)?", Play.reload),
    (r"stop", Play.stop),
    (r"stopped", Play.stopped),
    (r"kill", Play.kill),
    (r"start", Play.start),
    (r"request(?P<raw> raw)?(?P<again> again)?" + NAMED.replace("[a-z]", "(?!on |to )[a-z]", 1) +
     r"(?P<admin> to admin)?(?: on (?P<connection>\w+))?", Play.request),
    (r"request again until (?P<status>\d{3})(?: (?P<problem>[a-z-]+))?", Play.request_until),
    (r"response" + NAMED, Play.response),
    (r"response" + NAMED + r" so far", Play.response_so_far),
    (r"no response" + NAMED, Play.no_response),
    (r"cut response" + NAMED, Play.cut_response),
    (r"replay" + NAMED.replace("[a-z]", "(?!of )[a-z]", 1) + r" of (?P<of>\w+)(?: without (?P<without>.+))?", Play.replay),
    (r"continue" + NAMED, Play.told_to_continue),
    (r"hang up" + NAMED + r"(?P<hard> hard)?", Play.hang_up),
    (r"connect (?P<connection>\w+)", Play.open_connection),
    (r"closed (?P<connection>\w+)", Play.closed),
    (r"upstream answers(?: (?P<status>\d{3}(?: [A-Z][\w ]*?)?)| (?P<raw>raw))?" + AFTER + END, Play.answers),
    (r"upstream goes on" + AFTER + END, Play.goes_on),
    (r"upstream (?P<how>closes|resets|never answers)(?P<always> from now on)?" + AFTER, Play.upstream_ends),
    (r"upstream (?P<how>stops|starts)", Play.upstream_runs),
    (r"upstream settles" + AFTER, Play.settles),
    (r"upstream sql fails with (?P<state>\w+)", Play.sql_failed),
    (r"upstream received (?P<count>\d+)(?P<more> more)?", Play.received),
    (r"upstream got(?: #(?P<number>\d+))?", Play.got),
    (r"upstream connections (?P<count>\d+)", Play.upstream_connections),
    (r"signal (?P<name>\w+)", Play.signal),
    (r"sql", Play.sql),
    (r"sql (?P<query>.+) gives (?P<value>.*)", Play.sql_gives),
    (r"operation (?P<key>.+) is (?P<state>running|unknown|settled|absent)", Play.operation_is),
    (r"metric (?P<name>\S+)(?P<at_least> at least)? (?P<value>\S+)", Play.metric_is),
    (r"(?P<negated>not )?stored (?P<text>.+)", Play.stored),
    (r"log has (?P<text>.+)", Play.log_has),
    (r"log lacks (?P<text>.+)", Play.log_lacks),
]
