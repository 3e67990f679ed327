"""Expressions in angle brackets, and patterns with `*`: how scenarios write what differs from run to run."""

import base64
import hashlib
import hmac
import json
import re
import secrets
import time
import uuid

EXPRESSION = re.compile(r"<([a-z0-9][^<>]*)>")
NAME = re.compile(r"^[a-z][a-z0-9_]*$")
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def encode(text):
    return text.encode("utf-8", "surrogateescape")


def decode(data):
    return data.decode("utf-8", "surrogateescape")


def offset(text):
    """`-40d` in seconds; nothing: 0."""
    if not text:
        return 0
    found = re.fullmatch(r"([+-])(\d+)([a-z]+)", text)
    if not found or found[3] not in UNITS:
        raise ValueError(f"`{text}` is no distance in time: write -40d or +1h")
    return (-1 if found[1] == "-" else 1) * int(found[2]) * UNITS[found[3]]


def uuid7(when):
    number = int(when * 1000) << 80 | secrets.randbits(80)
    number = number & ~(0xF << 76) | 0x7 << 76
    number = number & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=number))


def sign(secret, data):
    return hmac.new(encode(secret), encode(data), hashlib.sha256).digest()


def token(secret, claims):
    """A JWT signed with HS256."""
    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    signed = part(b'{"alg":"HS256","typ":"JWT"}') + "." + part(json.dumps(json.loads(claims)).encode())
    return signed + "." + part(sign(secret, signed))


class Names:
    """What `let`, captures and the stage have given names to."""

    def __init__(self):
        self.values = {}

    def value(self, expression, body):
        word, _, rest = expression.partition(" ")
        if word in self.values and not rest:
            return self.values[word]
        if word == "now":
            return str(int(time.time() + offset(rest)))
        if word == "uuid":
            return str(uuid.uuid4())
        if word == "uuid7":
            return uuid7(time.time() + offset(rest))
        if word.isdigit() and rest.startswith("of "):
            return rest[3:] * int(word)
        if word == "byte":
            return decode(bytes.fromhex(rest))
        if word == "jwt":
            return token(*rest.split(" ", 1))
        if word == "stripe_signature":
            secret, _, when = rest.partition(" ")
            seconds = int(time.time() + offset(when))
            return f"t={seconds},v1={sign(secret, f'{seconds}.{body}').hex()}"
        if word == "github_signature":
            return "sha256=" + sign(rest, body).hex()
        if word in ("hmac_hex", "hmac_base64"):
            secret, template = rest.split(" ", 1)
            made = sign(secret, template.replace("{body}", body))
            return made.hex() if word == "hmac_hex" else base64.b64encode(made).decode()
        return None

    def expand(self, text, body=""):
        """Every expression replaced by its value, innermost first; one that has none is a mistake."""
        while found := EXPRESSION.search(text):
            value = self.value(found[1], body)
            if value is None:
                raise ValueError(f"<{found[1]}> has no value")
            text = text[:found.start()] + value + text[found.end():]
        return text

    def matches(self, pattern, actual):
        """Whether the text is as the pattern says: `*` is anything, a name that has no value yet gets one."""
        if "*" not in pattern and all(self.value(found, "") is not None for found in EXPRESSION.findall(pattern)):
            return self.expand(pattern) == actual
        parts = []
        new = []
        at = 0
        while at < len(pattern):
            found = EXPRESSION.match(pattern, at)
            if found:
                value = self.value(found[1], "")
                if value is None and not NAME.match(found[1]):
                    raise ValueError(f"<{found[1]}> has no value")
                if value is not None:
                    parts.append(re.escape(value))
                else:
                    parts.append(f"(?P<{found[1]}>.+?)")
                    new.append(found[1])
                at = found.end()
            elif pattern.startswith(r"\*", at):
                parts.append(re.escape("*"))
                at += 2
            elif pattern[at] == "*":
                parts.append(".*")
                at += 1
            else:
                parts.append(re.escape(pattern[at]))
                at += 1
        found = re.fullmatch("".join(parts), actual, re.DOTALL)
        if found:
            for name in new:
                self.values[name] = found[name]
        return bool(found)
