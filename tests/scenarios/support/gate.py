"""A TCP gate between the gateway and its store, to be broken and mended."""

import socket
import threading


class Gate:
    def __init__(self, target):
        self.target = target
        self.lock = threading.Lock()
        self.pairs = set()
        self.flows = threading.Event()
        self.flows.set()
        self.listener = None
        self.port = 0
        self.mend()

    def mend(self):
        self.flows.set()
        if self.listener:
            return
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, args=[self.listener], daemon=True).start()

    def hang(self):
        """Connections stay, and nothing comes through."""
        self.flows.clear()

    def cut(self):
        """Connections end, and new ones are refused."""
        if self.listener:
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            self.listener = None
        with self.lock:
            for pair in self.pairs:
                for end in pair:
                    try:
                        end.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass

    def end(self):
        self.cut()
        self.flows.set()

    def accept(self, listener):
        while True:
            try:
                here, _ = listener.accept()
                there = socket.create_connection(self.target, 5)
            except OSError:
                return
            with self.lock:
                self.pairs.add((here, there))
            for pair in ((here, there), (there, here)):
                threading.Thread(target=self.carry, args=pair, daemon=True).start()

    def carry(self, source, sink):
        try:
            while data := source.recv(65536):
                self.flows.wait()
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
