"""What the Ledger API's tests share: a gateway that serves it, and a client that holds every answer against the OpenAPI
document that the gateway serves.

Every topic is a program: TOPIC SEMEL DYING_GATEWAY [unittest argument…], run by `run_tests()`. SEMEL_TEST_POSTGRES names a
PostgreSQL (tests/servers/with-servers).
"""

import collections
import json
import secrets
import sys
from pathlib import Path
from urllib.parse import urlencode

import jsonschema
import yaml

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "gateway"))

# pylint: disable=wrong-import-position,unused-import
from support import (PATIENCE, PROGRAMS, ROOT, Answer, Cut, Gate, GatewayTest, Reader, Upstream, call, connect, environment,
                     request_bytes, run_tests, together, wait_until)

STORES = ("sqlite", "postgres")
DOCUMENT = yaml.safe_load((ROOT / "packaging/ledger-api.openapi.yaml").read_text(encoding="utf-8"))
HOLD, OTHER, READ, RESOLVE = "hold-token-of-acme-1", "hold-token-of-other-1", "read-token-of-acme-1", "resolve-token-of-acme"
TOKENS = [{"name": "orders", "token": HOLD, "tenant": "acme", "roles": ["hold"]},
          {"name": "others", "token": OTHER, "tenant": "other", "roles": ["hold"]},
          {"name": "dashboard", "token": READ, "tenant": "acme", "roles": ["read"]},
          {"name": "support", "token": RESOLVE, "tenant": "acme", "roles": ["resolve"]}]


def attempt():
    return secrets.token_hex(16)


class Seen:
    """Which answers of the document have been seen, and a check of each against it."""

    def __init__(self):
        self.answers = collections.Counter()

    @staticmethod
    def deref(node):
        while "$ref" in node and len(node) == 1:
            target = DOCUMENT
            for step in node["$ref"].split("/")[1:]:
                target = target[step]
            node = target
        return node

    @staticmethod
    def validator(schema):
        return jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]})

    def problems_of_request(self, path, body):
        operation = DOCUMENT["paths"][path]["post"]
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        return [error.message for error in self.validator(schema).iter_errors(body)]

    def check(self, method, path, response):
        operation = DOCUMENT["paths"].get(path, {}).get(method.lower())
        if operation is None:
            return
        documented = operation["responses"].get(str(response.status))
        assert documented, f"{method} {path} answered {response.status}, which is not documented: {response.body}"
        documented = self.deref(documented)
        kind = response.value("Content-Type")
        assert kind in documented["content"], f"{method} {path} {response.status}: {kind} is not documented"
        for name, header in documented.get("headers", {}).items():
            value = response.value(name)
            assert value is not None or not header.get("required"), f"{method} {path} {response.status}: no {name}"
            if value is not None:
                self.validator(header["schema"]).validate(value)
        if kind.endswith("json"):
            body = json.loads(response.body)
            self.validator(documented["content"][kind]["schema"]).validate(body)
            if kind == "application/problem+json":
                assert body["status"] == response.status, body
        self.answers[(method.lower(), path, str(response.status))] += 1


SEEN = Seen()


class Api:
    """A client with one token. Everything it hears is checked."""

    def __init__(self, port, token=HOLD):
        self.port, self.token = port, token

    def headers(self):
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def raw(self, method, target, body=b"", headers=None):
        response = call(self.port, method, target, self.headers() if headers is None else headers, body)
        SEEN.check(method, target.split("?")[0], response)
        return response

    def post(self, command, body, good=True):
        """`good`: the document says, too, that this may be asked."""
        path = f"/v1/{command}"
        assert not good or not SEEN.problems_of_request(path, body), SEEN.problems_of_request(path, body)
        return self.raw("POST", path, json.dumps(body).encode())

    def tell(self, command, body, status=200):
        response = self.post(command, body)
        assert response.status == status, response
        return json.loads(response.body)

    def claim(self, scope, key, status=201, request=None, **more):
        return self.tell("claim", {"scope": scope, "key": key, "request": request, **more}, status)

    def find(self, scope, key, status=200, **more):
        response = self.raw("GET", "/v1/operations?" + urlencode({"scope": scope, "key": key, **more}))
        assert response.status == status, response
        return json.loads(response.body)


def holder_of(scope, key, claimed):
    return {"scope": scope, "key": key, "token": claimed["token"], "attempt": claimed["attempt"]}


class ApiTest(GatewayTest):
    def api_gateway(self, store, program="semel", api=None, **settings):
        return self.gateway(self.settings(store, "http://127.0.0.1:9", api={"tokens": TOKENS, **(api or {})}, **settings),
                            program)

    def api(self, store, **settings):
        gateway = self.api_gateway(store, **settings)
        return Api(self.api_port(gateway))

    @staticmethod
    def api_port(gateway):
        return int(gateway.events("listening")[0]["api"].rsplit(":", 1)[1])

    def each_store(self):
        for kind in STORES:
            with self.subTest(store=kind):
                yield self.store(kind)
