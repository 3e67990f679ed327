"""RabbitMQ: one Erlang node with a port mapper (epmd) of its own, so that it meets no other node of this machine.

The port mapper is no part of the server: it stays while the server is stopped or killed.
"""

import secrets
import socket
import struct
import subprocess
import time

from .broker import START_SECONDS, Broker
from .machine import MARK, NoServer, PortTaken, as_user, free_port, processes_of, program, write

LIB = "/usr/lib/rabbitmq/bin"  # the programs in PATH are wrappers that insist on root or the system's own user
NODE = "semel@localhost"
LOOPBACK_ONLY = "-kernel inet_dist_use_interface {127,0,0,1}"


class RabbitMQ(Broker):
    name = "rabbitmq"
    title = "RabbitMQ"
    process = "beam.smp"

    def find_programs(self):
        self.server = program("rabbitmq-server", [LIB])
        self.epmd = program("epmd")
        self.erl_call = program("erl_call")

    def settle(self):
        self.state = {"port": free_port(), "node_port": free_port(), "epmd_port": free_port(),
                      "password": secrets.token_hex(16)}
        write(self.folder / ".erlang.cookie", secrets.token_hex(20), self.user)
        (self.folder / ".erlang.cookie").chmod(0o400)
        write(self.folder / "environment.conf", "", self.user)
        write(self.folder / "plugins", "[].\n", self.user)
        write(self.folder / "rabbitmq.conf", f"""
listeners.tcp.1 = 127.0.0.1:{self.state["port"]}
default_user = semel
default_pass = {self.state["password"]}
vm_memory_high_watermark.absolute = 1GB
disk_free_limit.absolute = 50MB
raft.wal_max_size_bytes = 67108864
max_message_size = 16777216
log.console.level = info
""", self.user)

    def own_environment(self):
        return {
            **super().own_environment(),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self.state["epmd_port"]),
            "RABBITMQ_NODENAME": NODE,
            "RABBITMQ_DIST_PORT": str(self.state["node_port"]),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "environment.conf"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
            "RABBITMQ_LOGS": "-",
            # One scheduler that sleeps instead of spinning: it idles beside tests that want the processors.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none {LOOPBACK_ONLY}",
            "RABBITMQ_CTL_ERL_ARGS": f"+S 1:1 {LOOPBACK_ONLY}",
        }

    def command(self):
        return [self.server]

    def start(self):
        if not processes_of(self.epmd_mark()):
            self.start_epmd()
        super().start()

    def sync(self):
        """RabbitMQ 3.10 writes down the name of a new quorum queue about a second after it has confirmed the queue. If it is
        killed before, the queue comes back without its messages, and never elects a leader."""
        super().sync()
        done = subprocess.run([self.erl_call, "-sname", NODE, "-e"], input="[ok = dets:sync(Table) || Table <- dets:all()].\n",
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, cwd=self.folder,
                              env=self.own_environment(), **as_user(self.user))
        if done.returncode != 0 or not done.stdout.startswith("{ok,"):
            raise NoServer(f"RabbitMQ did not write its tables: {done.stdout}")

    def epmd_mark(self):
        return self.folder / "epmd"

    def start_epmd(self):
        port = self.state["epmd_port"]
        process = subprocess.Popen([self.epmd, "-address", "127.0.0.1", "-port", str(port)], cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True, **as_user(self.user),
                                   env={**self.own_environment(), MARK: str(self.epmd_mark())})
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise PortTaken(f"epmd ended with code {process.returncode}: port {port} is taken by somebody else")
            try:
                socket.create_connection(("127.0.0.1", port), timeout=2).close()
                return
            except OSError:
                time.sleep(0.02)
        raise NoServer(f"epmd was not ready within {START_SECONDS} s")

    def answers(self):
        """It logs in: the password is this server's own."""
        with socket.create_connection(("127.0.0.1", self.state["port"]), timeout=5) as connection:
            stream = connection.makefile("rb")
            connection.sendall(b"AMQP\0\0\x09\x01")
            if method(stream) != (10, 10):  # start
                return False
            login = f"\0semel\0{self.state['password']}".encode()
            start_ok = struct.pack(">HHI", 10, 11, 0) + b"\x05PLAIN" + struct.pack(">I", len(login)) + login + b"\x05en_US"
            connection.sendall(struct.pack(">BHI", 1, 0, len(start_ok)) + start_ok + b"\xce")
            return method(stream) == (10, 30)  # tune

    def environment(self):
        return {"SEMEL_TEST_RABBITMQ": f"amqp://semel:{self.state['password']}@127.0.0.1:{self.state['port']}/"}

    def tool(self, arguments):
        return [program("rabbitmqctl", [LIB]), *arguments]


def method(stream):
    """Class and number of the method in the next frame."""
    header = stream.read(7)
    if len(header) < 7:
        raise ValueError("the connection ended")
    payload = stream.read(struct.unpack(">BHI", header)[2] + 1)
    return struct.unpack(">HH", payload[:4])
