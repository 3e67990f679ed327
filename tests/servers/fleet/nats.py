"""NATS with JetStream."""

import json
import secrets
import socket

from .broker import Broker
from .machine import free_port, program, write


class Nats(Broker):
    name = "nats"
    title = "NATS"
    process = "nats-server"

    def find_programs(self):
        self.server = program("nats-server")

    def settle(self):
        self.state = {"port": free_port(), "server_name": f"semel-{secrets.token_hex(8)}"}
        write(self.folder / "nats.conf", f"""
listen: "127.0.0.1:{self.state["port"]}"
server_name: "{self.state["server_name"]}"
jetstream {{
    store_dir: "{self.folder / "data"}"
    max_memory_store: 256MB
    max_file_store: 4GB
}}
""", self.user)

    def command(self):
        return [self.server, "--config", self.folder / "nats.conf"]

    def answers(self):
        with socket.create_connection(("127.0.0.1", self.state["port"]), timeout=2) as connection:
            lines = connection.makefile("rb")
            info = json.loads(lines.readline().removeprefix(b"INFO "))
            if info.get("server_name") != self.state["server_name"] or not info.get("jetstream"):
                return False
            connection.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
            return lines.readline() == b"PONG\r\n"

    def environment(self):
        return {"SEMEL_TEST_NATS": f"nats://127.0.0.1:{self.state['port']}"}
