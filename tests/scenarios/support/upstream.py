"""The service behind the gateway, which does as the scenario says."""

import socket
import struct
import threading
from dataclasses import dataclass, field

from .messages import Cut, Message, Reader


@dataclass
class Piece:
    """A part of an answer. `end`: what becomes of the connection afterwards."""
    data: object = None  # bytes; or a function of the request and its number, which makes them; or nothing
    after: str = ""  # a signal to wait for
    end: str = "keep"  # or close, reset


@dataclass
class Answer:
    pieces: list = field(default_factory=list)


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class Upstream:
    """Takes requests on a port of its own. Every request is remembered, and answered by the next answer of the script, or
    by the usual one when the script is at its end."""

    def __init__(self, usual):
        self.usual = usual
        self.changed = threading.Condition()
        self.received = []  # complete requests, in their order
        self.script = []
        self.signals = set()
        self.connections = 0
        self.open = set()
        self.ended = False
        self.listener = None
        self.port = 0
        self.start()

    def start(self):
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=512)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, args=[self.listener], daemon=True).start()

    def stop(self):
        """Nobody is at home any more: connections are refused."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.changed:
            for connection in self.open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def end(self):
        with self.changed:
            self.ended = True
            self.changed.notify_all()
        try:
            self.stop()
        except OSError:
            pass

    def signal(self, name):
        with self.changed:
            self.signals.add(name)
            self.changed.notify_all()

    def wait(self, condition, seconds):
        with self.changed:
            return self.changed.wait_for(condition, seconds)

    def accept(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self.changed:
                self.connections += 1
                self.open.add(connection)
            threading.Thread(target=self.serve, args=[connection], daemon=True).start()

    def serve(self, connection):
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reader = Reader(connection)
            while True:
                request = Message()
                reader.read(request)
                if not self.answer(connection, request):
                    return
        except (Cut, OSError):
            pass
        finally:
            with self.changed:
                self.open.discard(connection)
            connection.close()

    def answer(self, connection, request):
        """False: the connection is over."""
        with self.changed:
            self.received.append(request)
            number = len(self.received)
            answer = self.script.pop(0) if self.script else self.usual
            self.changed.notify_all()
        for piece in answer.pieces:
            if piece.after:
                with self.changed:
                    self.changed.wait_for(lambda name=piece.after: self.ended or name in self.signals)
                if self.ended:
                    return False
            data = piece.data(request, number) if callable(piece.data) else piece.data
            if data:
                connection.sendall(data)
            if piece.end == "reset":
                reset(connection)
            if piece.end != "keep":
                return False
        return True
