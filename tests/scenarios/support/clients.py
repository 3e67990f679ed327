"""Those who send requests to the gateway."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

from .messages import Cut, Message, Reader
from .upstream import reset


class Call:
    """A request that was sent, and its response as far as it came."""

    def __init__(self, connection, line):
        self.connection = connection
        self.line = line  # in the scenario
        self.response = Message()
        self.looked_at = False


class Client:
    """A connection. Requests are sent at once, one behind the other; responses are read in that order."""

    def __init__(self, address, seconds):
        self.socket = socket.create_connection(address, seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = Reader(self.socket)
        self.sending = ThreadPoolExecutor(1)
        self.reading = ThreadPoolExecutor(1)
        self.over = threading.Event()

    def send(self, call, method, data, body_after_continue):
        """`body_after_continue`: the part of the request that waits for `100 Continue`."""
        def write():
            try:
                self.socket.sendall(data)
                if body_after_continue:
                    with call.response.changed:
                        call.response.changed.wait_for(lambda: call.response.interim or call.response.complete or
                                                       call.response.error)
                    if call.response.interim:
                        self.socket.sendall(body_after_continue)
            except OSError:
                pass  # the response, or that there is none, tells

        def read():
            try:
                if self.over.is_set():
                    raise Cut(False)
                self.reader.read(call.response, method)
            except Cut as cut:
                self.over.set()
                call.response.step(error=str(cut))
            except Exception as error:  # what is no HTTP is told as the answer
                self.over.set()
                call.response.step(error=f"{type(error).__name__}: {error}")

        self.sending.submit(write)
        self.reading.submit(read)

    def wait_closed(self, seconds):
        """Whether the gateway closes the connection, without another byte."""
        def read():
            try:
                self.reader.fill(False)
            except Cut:
                return True
            return False

        if self.over.is_set():
            return True
        try:
            return self.reading.submit(read).result(seconds)
        except TimeoutError:
            return False

    def hang_up(self, hard=False):
        try:
            if hard:
                reset(self.socket)
            else:
                self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def end(self):
        self.hang_up()
        self.sending.shutdown(wait=False)
        self.reading.shutdown(wait=False)
        self.socket.close()
