"""What the servers need of the machine: a user, programs, folders, ports, and a way to know their processes again.

Every process that belongs to a server carries its folder in the environment variable SEMEL_TEST_SERVER. That mark is how a
server is found again after the program that started it is gone: unlike a number in a file it cannot mean somebody else.
"""

import os
import pwd
import random
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

END_SECONDS = 10
SOCKET_PATH_MAX = 90  # the kernel's limit is 107, less the name of the socket in the folder
MARK = "SEMEL_TEST_SERVER"


class NoServer(Exception):
    """A server did not start; the text says why, with the end of its log."""


class PortTaken(Exception):
    """Somebody else was faster: try another port."""


def unprivileged():
    """The user the servers run as: ourselves, or for root one whom initdb and PgBouncer accept."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise NoServer("run by root, and there is no user `postgres` or `nobody` to run the servers as")


def as_user(user):
    """Arguments for subprocess that drop root."""
    if os.geteuid() != 0:
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def program(name, folders=()):
    """The path of a program, in `folders` or else where programs usually are."""
    usual = os.environ.get("PATH", "").split(os.pathsep) + ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"]
    where = [Path(folder) for folder in folders or usual if folder]
    for folder in where:
        if os.access(folder / name, os.X_OK):
            return folder / name
    raise NoServer(f"{name} not found in {', '.join(map(str, dict.fromkeys(where)))}: `./dev setup test` installs it")


def traversable(folder, user):
    """Whether `user` can reach `folder`."""
    for part in [folder, *folder.parents]:
        info = part.stat()
        if not info.st_mode & 0o001 and info.st_uid != user.pw_uid:
            return False
    return True


def make_home(user):
    for parent in (os.environ.get("TMPDIR"), "/tmp"):
        if parent and len(parent) < SOCKET_PATH_MAX - 30 and os.access(parent, os.W_OK):
            if traversable(Path(parent).resolve(), user):
                home = Path(tempfile.mkdtemp(prefix="semel-servers-", dir=Path(parent).resolve()))
                os.chown(home, user.pw_uid, user.pw_gid)
                return home
    raise NoServer("no temporary folder to be had: neither TMPDIR nor /tmp can be used")


def make_folder(path, user):
    path.mkdir(mode=0o700)
    os.chown(path, user.pw_uid, user.pw_gid)


def write(path, text, user):
    path.write_text(text)
    path.chmod(0o600)
    os.chown(path, user.pw_uid, user.pw_gid)


class Ports:
    """Gives every port once, since servers start side by side."""

    def __init__(self):
        self.given = set()
        self.lock = threading.Lock()

    def free(self):
        """A port nobody listens on, below those the kernel gives to outgoing connections: a server that is stopped and
        started again must find it free."""
        try:
            first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            first_ephemeral = 32768
        last = first_ephemeral - 1 if first_ephemeral > 15000 else 65535
        with self.lock:
            for _ in range(200):
                port = random.SystemRandom().randint(10000, last)
                if port not in self.given and self.bindable(port):
                    self.given.add(port)
                    return port
        raise NoServer("no free port found on 127.0.0.1")

    @staticmethod
    def bindable(port):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return True
            except OSError:
                return False


free_port = Ports().free


def tail(log, lines=40):
    try:
        text = log.read_text(errors="replace").splitlines()[-lines:]
    except OSError as error:
        text = [f"(no log: {error})"]
    return "\n".join("    " + line for line in text)


def run(arguments, user, what, folder, environment=None):
    """Runs a server's own program in the server's folder, with its mark."""
    environment = os.environ if environment is None else environment
    done = subprocess.run([str(a) for a in arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", cwd=folder, check=False,
                          env={**environment, MARK: str(folder)}, **as_user(user))
    if done.returncode != 0:
        raise NoServer(f"{what} failed with exit code {done.returncode}:\n{done.stdout}")
    return done.stdout


def marked(belongs):
    """The ids of the processes whose mark satisfies `belongs`. One that has ended has no environment any more."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            variables = Path("/proc", name, "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for variable in variables:
            key, _, value = variable.partition(b"=")
            if key == MARK.encode() and belongs(os.fsdecode(value)):
                found.append(int(name))
                break
    return found


def processes_of(folder):
    return marked(lambda mark: mark == str(folder))


def processes_below(home):
    return marked(lambda mark: mark == str(home) or mark.startswith(f"{home}/"))


def status_of(pid):
    """What the kernel calls a process, its parent, and its state: Z if it has ended, T if it is stopped."""
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
        return name, int(rest.split()[1]), rest.split()[0]
    except (OSError, IndexError, ValueError):
        return None, None, "Z"


def send(signum, pids):
    for pid in pids:
        try:
            os.kill(pid, signum)
        except ProcessLookupError:
            pass


def end_all(look):
    """Kills all that `look` finds, until it finds nothing any more. Whether it came to that in time."""
    deadline = time.monotonic() + END_SECONDS
    while pids := look():
        send(signal.SIGKILL, pids)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
