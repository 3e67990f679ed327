"""Redis with an append-only file that is synced before every answer."""

import socket

from .broker import Broker
from .machine import free_port, program, write


class Redis(Broker):
    name = "redis"
    title = "Redis"
    process = "redis-server"

    def find_programs(self):
        self.server = program("redis-server")

    def settle(self):
        self.state = {"port": free_port()}
        # Without a process title of its own it keeps the mark in its environment.
        write(self.folder / "redis.conf", f"""
bind 127.0.0.1
port {self.state["port"]}
dir {self.folder}
appendonly yes
appendfsync always
save ""
set-proc-title no
""", self.user)

    def command(self):
        return [self.server, self.folder / "redis.conf"]

    def answers(self):
        with socket.create_connection(("127.0.0.1", self.state["port"]), timeout=2) as connection:
            connection.sendall(b"CONFIG GET dir\r\nPING\r\n")
            reply = b""
            while not reply.endswith(b"+PONG\r\n"):
                part = connection.recv(4096)
                reply += part
                if not part or b"-LOADING" in reply:
                    return False
            return str(self.folder).encode() in reply

    def environment(self):
        return {"SEMEL_TEST_REDIS": f"redis://127.0.0.1:{self.state['port']}"}

    def tool(self, arguments):
        return [program("redis-cli"), "-h", "127.0.0.1", "-p", str(self.state["port"]), *arguments]
