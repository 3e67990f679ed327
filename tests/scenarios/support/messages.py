"""HTTP messages as bytes: written as a scenario says, read as they come. Deliberately not a library's: what is on the
wire is what the scenarios are about."""

import json
import threading

from .text import decode, encode

PROBLEM = "urn:semel:problem:"


class Cut(Exception):
    """The other side closed or reset in the middle of a message; `started`: after its first byte."""

    def __init__(self, started):
        super().__init__("the connection ended in the middle of a message" if started else "the connection ended")
        self.started = started


class Message:
    """A request or a response, complete or not yet. Written by the thread that reads it from a socket; `changed` tells of
    every step."""

    def __init__(self):
        self.changed = threading.Condition()
        self.line = ""
        self.fields = []  # (name, value), as received
        self.body = b""
        self.interim = []  # first lines of interim responses
        self.complete = False
        self.error = None

    def values(self, name):
        return [value for known, value in self.fields if known.lower() == name.lower()]

    def value(self, name):
        return (self.values(name) or [None])[0]

    @property
    def status(self):
        return int(self.line.split(" ", 2)[1])

    def text(self):
        """For people."""
        if not self.line:
            return f"(nothing: {self.error or 'not yet'})"
        body = decode(self.body)
        if len(body) > 2000:
            body = body[:2000] + f"… ({len(self.body)} bytes)"
        head = "\n".join([self.line, *(f"{name}: {value}" for name, value in self.fields)])
        end = "" if self.complete else f"\n({self.error or 'not complete'})"
        return f"{head}\n\n{body}{end}"

    def step(self, **values):
        with self.changed:
            for name, value in values.items():
                setattr(self, name, value)
            self.changed.notify_all()


class Reader:
    """Reads messages from a socket, one after the other."""

    def __init__(self, socket):
        self.socket = socket
        self.left = b""

    def fill(self, started):
        try:
            got = self.socket.recv(65536)
        except OSError:  # a reset, or closed by ourselves
            got = b""
        if not got:
            raise Cut(started)
        self.left += got

    def line(self, started=True):
        while b"\n" not in self.left:
            self.fill(started or bool(self.left))
        line, _, self.left = self.left.partition(b"\n")
        return decode(line.rstrip(b"\r"))

    def head(self, message):
        first = self.line(started=False)
        fields = []
        while line := self.line():
            name, _, value = line.partition(":")
            fields.append((name, value.strip()))
        message.step(line=first, fields=fields)

    def read(self, message, method=None):
        """A request, or with a method the response to it. Raises Cut, and leaves what came in the message."""
        try:
            self.head(message)
            while method and message.status // 100 == 1:
                message.step(interim=[*message.interim, message.line])
                self.head(message)
            self.body(message, method)
            message.step(complete=True)
        except Cut as cut:
            message.step(error=str(cut))
            raise

    def body(self, message, method):
        if method and (method == "HEAD" or message.status in (204, 304)):
            return
        length = message.value("Content-Length")
        if (message.value("Transfer-Encoding") or "").lower() == "chunked":
            while size := int(self.line().partition(";")[0], 16):
                self.take(message, size)
                self.line()
            while self.line():
                pass
        elif length is not None:
            self.take(message, int(length))
        elif method:
            try:
                while True:
                    self.take(message, len(self.left))
                    self.fill(True)
            except Cut:
                return

    def take(self, message, size):
        pieces = [message.body]
        while size > 0:
            if not self.left:
                self.fill(True)
            piece, self.left = self.left[:size], self.left[size:]
            size -= len(piece)
            pieces.append(piece)
            if len(pieces) > 100 or size == 0 or not self.left:
                pieces = [b"".join(pieces)]
                message.step(body=pieces[0])


def split(lines):
    """A block's head lines and its body, which is what follows the first empty line; no empty line: None."""
    if "" not in lines:
        return lines, None
    at = lines.index("")
    return lines[:at], "\n".join(lines[at + 1:])


def has(fields, name):
    return any(line.lower().startswith(name.lower() + ":") for line in fields)


def chunked(body):
    """In pieces, so that a reader has to put them together."""
    out = []
    for at in range(0, len(body), max(1, len(body) // 3)):
        piece = body[at:at + max(1, len(body) // 3)]
        out.append(b"%x\r\n%s\r\n" % (len(piece), piece))
    return b"".join(out) + b"0\r\n\r\n"


def framed(first, fields, body, always=True):
    """The bytes of a message, framed by its own fields, or else by Content-Length. Without a body, `always` says whether
    a length is announced all the same."""
    data = encode(body or "")
    if has(fields, "Transfer-Encoding"):
        data = chunked(data)
    elif not has(fields, "Content-Length") and (always or body is not None):
        fields = [*fields, f"Content-Length: {len(data)}"]
    return encode("".join(line + "\r\n" for line in [first, *fields]) + "\r\n") + data


def raw(lines):
    """The bytes of a block as it is written: lines end in CRLF, what follows the empty line is the body."""
    head, body = split(lines)
    text = "".join(line + "\r\n" for line in head) + "\r\n" + (body or "")
    return encode(text.replace(r"\r", "\r").replace(r"\n", "\n"))


def compare(names, lines, message):
    """What of a message is not as the lines of a block say: a first line, header lines (`!Name`: must not be there), and
    after an empty line the body, or a problem document."""
    head, body = split(lines)
    faults = []
    first = message.line.removeprefix("HTTP/1.1 ")
    wanted = head[0] if head else "*"
    if not any(names.matches(pattern, actual)
               for actual in (message.line, first) for pattern in (wanted, wanted + " *")):
        faults.append(f"expected `{wanted}`, got `{message.line}`")
    seen = {}
    for line in head[1:]:
        if line.startswith("!"):
            if message.values(line[1:]):
                faults.append(f"expected no {line[1:]}, got `{line[1:]}: {', '.join(message.values(line[1:]))}`")
            continue
        name, _, pattern = line.partition(":")
        turn = seen[name.lower()] = seen.get(name.lower(), -1) + 1
        actual = message.values(name)[turn:turn + 1]
        if not actual:
            faults.append(f"expected `{line}`, got no {'other ' if turn else ''}{name}")
        elif not names.matches(pattern.strip(), actual[0]):
            faults.append(f"expected `{line}`, got `{name}: {actual[0]}`")
    if body is not None and body.startswith("problem "):
        faults += compare_problem(names, body.splitlines(), message)
    elif body is not None and not names.matches(body, decode(message.body)):
        faults.append(f"expected the body\n{body[:2000]}\ngot\n{decode(message.body)[:2000]}")
    return faults


def compare_problem(names, lines, message):
    faults = []
    if message.value("Content-Type") != "application/problem+json":
        faults.append(f"expected a problem document, got Content-Type: {message.value('Content-Type')}")
    try:
        document = json.loads(message.body)
    except ValueError:
        return [*faults, "expected a problem document, got a body that is no JSON"]
    wanted = {"type": PROBLEM + lines[0].split(" ", 1)[1], "status": str(message.status), "title": "*", "retryable": "*"}
    wanted.update(line.split(": ", 1) for line in lines[1:] if not line.startswith("!"))
    for name, pattern in wanted.items():
        actual = document.get(name)
        if actual is None or not names.matches(pattern, actual if isinstance(actual, str) else json.dumps(actual)):
            faults.append(f"expected {name}: {pattern}, got {json.dumps(actual)}")
    for name in lines[1:]:
        if name.startswith("!") and name[1:] in document:
            faults.append(f"expected no {name[1:]}, got {json.dumps(document[name[1:]])}")
    return faults
