"""Takes money from a wallet, once per key, however often it is asked to."""
import json
import os

import psycopg
from psycopg.rows import namedtuple_row


def pay(db, key, wallet, amount):
    request = json.dumps([wallet, amount])
    with db.transaction():
        claim = db.execute("select * from semel.claim('acme/payments', %s, semel.fingerprint(%s::text))",
                           (key, request)).fetchone()
        if claim.answer != "claimed":
            return claim.answer, json.loads(claim.outcome) if claim.outcome else None
        paid = db.execute("update wallet set balance = balance - %s where id = %s returning balance",
                          (amount, wallet)).fetchone()
        outcome = {"balance": paid.balance}
        db.execute("select semel.settle_or_fail('acme/payments', %s, %s, 200, %s)",
                   (key, claim.token, json.dumps(outcome).encode()))
    return "paid", outcome


def main():
    # prepare_threshold=None: behind PgBouncer before 1.21 a prepared statement may be another connection's.
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True, prepare_threshold=None,
                         row_factory=namedtuple_row) as db:
        for key, amount in [("payment-1", 30), ("payment-1", 30), ("payment-1", 31), ("payment-2", 30),
                            ("payment-3", 50), ("payment-3", 40)]:
            try:
                answer, outcome = pay(db, key, "bob", amount)
            except psycopg.errors.CheckViolation:
                answer, outcome = "failed, nothing of it remains", None
            print(f"{key}, {amount}: {answer}" + (f", balance {outcome['balance']}" if outcome else ""))


if __name__ == "__main__":
    main()
