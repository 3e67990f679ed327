"""What the tests of `semel call` share: the command as a process, and what it said.

Every topic is a program: TOPIC SEMEL DYING_CALL [unittest argument…], run by `run_tests()`.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "gateway"))

# pylint: disable=wrong-import-position,unused-import  # the gateway's tests have all that is not about gateways
from support import PATIENCE, PROGRAMS, ROOT, Answer, GatewayTest, environment, make_certificate, run_tests, wait_until

BODY = '{"amount":1}'


@dataclass
class Said:
    """How a command ended."""
    code: int
    out: bytes
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def problem(slug, status=409, retry_after=None, **more):
    """An answer as a gateway gives it."""
    fields = [("Content-Type", "application/problem+json")]
    if retry_after is not None:
        fields.append(("Retry-After", str(retry_after)))
    return Answer(status, fields, json.dumps({"type": "urn:semel:problem:" + slug, **more}).encode())


def keys(requests):
    return {request.value("Idempotency-Key") for request in requests}


class CallTest(GatewayTest):
    """Intents are remembered in the test's own folder."""

    def setUp(self):
        super().setUp()
        self.state = self.path("calls")

    def launch(self, *arguments, program="semel", **variables):
        """`semel call` with these arguments; does not wait."""
        made = subprocess.Popen([PROGRAMS[program], "call", *arguments], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
                                env=environment(**{"HOME": self.folder, "XDG_STATE_HOME": "", **variables}))
        self.addCleanup(self.end, made)
        return made

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    @staticmethod
    def ended(process):
        out, err = process.communicate(timeout=PATIENCE)
        return Said(process.returncode, out, err.decode())

    def call(self, *arguments, stdin=b"", program="semel", **variables):
        done = subprocess.run([PROGRAMS[program], "call", *arguments], input=stdin, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, cwd=self.folder, check=False, timeout=PATIENCE,
                              env=environment(**{"HOME": self.folder, "XDG_STATE_HOME": "", **variables}))
        return Said(done.returncode, done.stdout, done.stderr.decode())

    def pay(self, url, *arguments, intent="a", **more):
        return self.call("--intent", intent, "--state", self.state, "-d", BODY, *arguments, url, **more)

    def launch_pay(self, url, *arguments, intent="a", **more):
        return self.launch("--intent", intent, "--state", self.state, "-d", BODY, *arguments, url, **more)

    def file(self, intent="a"):
        return Path(self.state) / (intent + ".intent")

    def remembered(self, intent="a"):
        """The journal's second line."""
        return json.loads(self.file(intent).read_bytes().split(b"\n")[1])

    def scripted(self, *answers):
        """An upstream that answers one request after the other so, the last for ever."""
        left = list(answers)
        return self.upstream(lambda request: left.pop(0) if len(left) > 1 else left[0])
