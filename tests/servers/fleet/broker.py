"""What the brokers have in common: one process, started, stopped, killed and asked whether it answers.

A subclass says what to write before the first start (`settle`), what to run (`command`), and how to recognise an answer of
this very server (`answers`). What a broker must remember to be started again by another program is in its `state`.
"""

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import time

from .machine import (MARK, NoServer, PortTaken, as_user, end_all, make_folder, processes_of, send, status_of, tail, write)

START_TRIES = 10
START_SECONDS = 120
STOP_SECONDS = 60
PORT_TAKEN = re.compile(r"address already in use|eaddrinuse", re.IGNORECASE)


class NotRunning(Exception):
    """Nothing there to stop, kill or pause."""


class Broker:
    name = ""  # of the folder, and in brokerctl
    title = ""
    process = ""  # what the kernel calls the server's main process

    def __init__(self, home, user):
        self.folder = home / self.name
        self.log = self.folder / f"{self.name}.log"
        self.user = user
        self.state = {}
        self.find_programs()

    @classmethod
    def at(cls, home):
        """The broker that another program has created in `home`."""
        broker = cls(home, pwd.getpwuid((home / cls.name).stat().st_uid))
        broker.state = json.loads((broker.folder / "state.json").read_text())
        return broker

    def find_programs(self):
        raise NotImplementedError

    def settle(self):
        """Chooses ports and secrets, writes the configuration and makes whatever the first start needs."""
        raise NotImplementedError

    def command(self):
        raise NotImplementedError

    def answers(self):
        """Whether this server, and not another on its port, takes requests. May throw OSError or ValueError instead."""
        raise NotImplementedError

    def environment(self):
        """For those who want to talk to it."""
        raise NotImplementedError

    def tool(self, arguments):
        """The command line of its own administration program."""
        raise NoServer(f"{self.title} brings no such program")

    def own_environment(self):
        """For the server itself: nothing of ours but what is named here."""
        return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.folder), "LANG": "C.UTF-8"}

    def addresses(self):
        return {self.title: f"127.0.0.1:{self.state['port']}"}

    def create(self):
        for _ in range(START_TRIES):
            make_folder(self.folder, self.user)
            self.settle()
            write(self.folder / "state.json", json.dumps(self.state), self.user)
            try:
                self.start()
                return
            except PortTaken:
                shutil.rmtree(self.folder)
        raise NoServer(f"{self.title}: {START_TRIES} ports tried, each of them taken by somebody else in the meantime")

    def pid(self):
        """The main process, or None. A child it forked for a while has the same name but is not at the top."""
        ours = processes_of(self.folder)
        for pid in ours:
            name, parent, _ = status_of(pid)
            if name == self.process and status_of(parent)[0] != self.process:
                return pid
        return None

    def running_pid(self):
        pid = self.pid()
        if pid is None:
            raise NotRunning(f"{self.title} does not run")
        return pid

    def start(self):
        """Returns when it answers on its port with its data."""
        if self.pid() is not None:
            raise NoServer(f"{self.title} runs already")
        began = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as log:
            process = subprocess.Popen([str(a) for a in self.command()], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT, start_new_session=True, **as_user(self.user),
                                       env={**self.own_environment(), MARK: str(self.folder)})
        try:
            self.wait_until_it_answers(process, began)
        except BaseException:
            end_all(lambda: processes_of(self.folder))
            process.wait()
            raise

    def wait_until_it_answers(self, process, log_began):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                if PORT_TAKEN.search(self.log.read_bytes()[log_began:].decode(errors="replace")):
                    raise PortTaken(f"{self.title}: its port is taken by somebody else:\n{tail(self.log)}")
                raise NoServer(f"{self.title} ended with code {process.returncode} at its start:\n{tail(self.log)}")
            try:
                if self.answers():
                    return
            except (OSError, ValueError):
                pass
            time.sleep(0.05)
        raise NoServer(f"{self.title} was not ready within {START_SECONDS} s:\n{tail(self.log)}")

    def stop(self):
        """A planned shutdown."""
        pid = self.running_pid()
        send(signal.SIGTERM, [pid])
        send(signal.SIGCONT, [pid])
        deadline = time.monotonic() + STOP_SECONDS
        while processes_of(self.folder):
            if time.monotonic() > deadline:
                raise NoServer(f"{self.title} did not stop within {STOP_SECONDS} s:\n{tail(self.log)}")
            time.sleep(0.02)

    def kill(self):
        send(signal.SIGKILL, [self.running_pid()])
        if not end_all(lambda: processes_of(self.folder)):  # and those that only served it
            raise NoServer(f"{self.title} is still there after kill -9")

    def restart(self):
        self.stop()
        self.start()

    def pause(self):
        """Connections stay open and nothing answers."""
        send(signal.SIGSTOP, [self.running_pid()])

    def sync(self):
        """What it has confirmed until now survives a kill. So it should without this."""
        self.running_pid()

    def resume(self):
        send(signal.SIGCONT, [self.running_pid()])
