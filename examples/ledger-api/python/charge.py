#!/usr/bin/python3
"""Charges an order once, however often it is run:

    SEMEL_TOKEN=… charge.py LEDGER_URL PROVIDER_URL ORDER AMOUNT [on_unknown=retry dedup_window=24h lease=5s …]

Prints what came of it as one line of JSON. Exit codes: 0 charged, now or before; 3 not ours to do, and why.
"""

import json
import os
import sys
import urllib.request

from semel_ledger import Conflict, Ledger


def charge(provider, order, amount):
    """The effect. A provider that knows idempotency keys gets one that is the same on every try."""
    request = urllib.request.Request(provider, json.dumps({"order": order, "amount": amount}).encode(),
                                     {"Idempotency-Key": f"charge-{order}", "Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read().decode()


def main():
    ledger_url, provider, order, amount = sys.argv[1:5]
    policy = dict(word.split("=", 1) for word in sys.argv[5:])
    ledger = Ledger(ledger_url, os.environ["SEMEL_TOKEN"])
    request = {"order": order, "amount": int(amount)}
    try:
        with ledger.claim("charges", order, request, correlation=f"order-{order}", **policy) as operation:
            replayed = operation.outcome is not None
            if not replayed:
                operation.begin()
                operation.settle(201, charge(provider, order, int(amount)))
    except Conflict as conflict:
        print(json.dumps({"answer": conflict.answer, "why": str(conflict)}), flush=True)
        return 3
    print(json.dumps({"answer": "replay" if replayed else "charged", "receipt": operation.outcome["body"]}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
