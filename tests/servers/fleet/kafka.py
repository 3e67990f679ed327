"""Apache Kafka as a single node that is its own controller (KRaft).

Its jars come from Maven by kafka/pom.xml and are kept in a folder whose name contains the pom's digest: a folder that exists
is complete and never changes. Topics have to be created: one that nobody made is an error, not a surprise.
"""

import base64
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import socket
import struct
import subprocess
import tempfile
from pathlib import Path

from .broker import Broker
from .machine import NoServer, free_port, program, run, traversable, write

POM = Path(__file__).resolve().parent.parent / "kafka" / "pom.xml"
SHARED_CACHE = Path("/var/cache/semel")
JVM = ["-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
       "-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true"]


def jars_folder_name():
    text = POM.read_text()
    version = re.search(r"<kafka.version>([\w.-]+)</kafka.version>", text).group(1)
    return f"kafka-{version}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def own_cache():
    """Where this user keeps the jars. Root shares them: the servers it starts run as somebody else, who cannot look into
    root's home."""
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]).resolve() / "semel"
    return SHARED_CACHE if os.geteuid() == 0 else Path.home() / ".cache" / "semel"


def find_jars(user):
    """The folder with Kafka's jars, or None."""
    for cache in (own_cache(), SHARED_CACHE):
        folder = cache / jars_folder_name()
        try:
            if folder.is_dir() and traversable(folder, user):
                return folder
        except OSError:  # inside a folder that we may not read ourselves
            continue
    return None


def fetch_jars(user, say):
    """Has Maven fetch the jars unless they are there. Any number of these may run at once."""
    if folder := find_jars(user):
        return folder
    cache = own_cache()
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        target = cache / jars_folder_name()
        if not target.is_dir():
            say(f"fetching {target.name} into {cache}")
            fetch_into(target)
    if not traversable(target, user):
        raise NoServer(f"user `{user.pw_name}`, who runs the servers, cannot read {target}: set XDG_CACHE_HOME to a folder "
                       "that others may enter")
    return target


def fetch_into(target):
    part = Path(tempfile.mkdtemp(prefix=".part-", dir=target.parent))
    try:
        done = subprocess.run([program("mvn"), "--batch-mode", "--quiet", "--file", POM, "dependency:copy-dependencies",
                               f"-DoutputDirectory={part}", "-DincludeScope=runtime"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        if done.returncode != 0 or not any(part.glob("kafka_*.jar")):
            raise NoServer(f"mvn could not fetch the jars of {POM.name}:\n{done.stdout}")
        for jar in part.iterdir():
            jar.chmod(0o644)
        part.chmod(0o755)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


class Kafka(Broker):
    name = "kafka"
    title = "Kafka"
    process = "java"

    def find_programs(self):
        java_home = os.environ.get("JAVA_HOME")
        self.java = program("java", [Path(java_home) / "bin"] if java_home else ())
        self.jars = find_jars(self.user)
        if not self.jars:
            raise NoServer(f"{jars_folder_name()} is not in {own_cache()}: `./dev setup test` fetches it")

    def settle(self):
        # Kafka's ids are 16 bytes in base64; one that begins with a dash would be taken for an option.
        cluster = base64.urlsafe_b64encode(b"\0" + secrets.token_bytes(15)).decode().rstrip("=")
        self.state = {"port": free_port(), "controller_port": free_port(), "cluster": cluster}
        client, controller = (f"127.0.0.1:{self.state[port]}" for port in ("port", "controller_port"))
        write(self.folder / "server.properties", f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{controller}
listeners=PLAINTEXT://{client},CONTROLLER://{controller}
advertised.listeners=PLAINTEXT://{client}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={self.folder / "data"}

auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=500

# After kill -9 the node waits for its own former session to expire before it serves again.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500

# Small, and quiet when idle.
metadata.max.idle.interval.ms=0
num.network.threads=2
num.io.threads=2
background.threads=2
log.cleaner.dedupe.buffer.size=4194304
log.index.size.max.bytes=1048576
""", self.user)
        for name, level in (("server", "INFO"), ("tool", "WARN")):
            write(self.folder / f"{name}.log4j", f"""
log4j.rootLogger={level}, out
log4j.logger.kafka.server.KafkaConfig=WARN
log4j.logger.org.apache.kafka.common.config=WARN
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.target=System.err
log4j.appender.out.layout.ConversionPattern=%d{{ISO8601}} %p %c{{1}}: %m%n
""", self.user)
        run(self.java_command("tool", "kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config",
                              self.folder / "server.properties"),
            self.user, "formatting Kafka's storage", self.folder, self.own_environment())

    def java_command(self, logging, main_class, *arguments):
        return [self.java, *JVM, f"-Djava.io.tmpdir={self.folder}", f"-Dlog4j.configuration=file:{self.folder}/{logging}.log4j",
                "-cp", f"{self.jars}/*", main_class, *arguments]

    def command(self):
        return self.java_command("server", "kafka.Kafka", self.folder / "server.properties")

    def answers(self):
        """Asks for the cluster's metadata. The node is in its own list of brokers as soon as clients may use it."""
        request = struct.pack(">hhih", 3, 2, 1, -1) + struct.pack(">i", 0)  # Metadata, version 2, no client id, no topics
        with socket.create_connection(("127.0.0.1", self.state["port"]), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            stream = connection.makefile("rb")
            reply = stream.read(int.from_bytes(stream.read(4), "big"))
        brokers = int.from_bytes(reply[4:8], "big")
        return brokers == 1 and self.state["cluster"].encode() in reply

    def environment(self):
        return {"SEMEL_TEST_KAFKA": f"127.0.0.1:{self.state['port']}"}

    def tool(self, arguments):
        return self.java_command("tool", *arguments)
