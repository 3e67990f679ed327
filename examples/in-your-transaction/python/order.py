"""Places orders. The events that tell others of an order commit with it, or not at all."""
import json
import os

import psycopg


def place(db, order, article):
    data = json.dumps({"order": order, "article": article})
    with db.transaction():
        db.execute("insert into orders values (%s, %s)", (order, article))
        for kind in ("placed", "charge"):
            db.execute("select semel.stage_json(topic => 'orders', ordering_key => %s, id => %s, source => '/shop', "
                       "type => %s, data => %s)", (order, f"{order}-{kind}", f"order.{kind}", data))


def main():
    # prepare_threshold=None: behind PgBouncer before 1.21 a prepared statement may be another connection's.
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True, prepare_threshold=None) as db:
        for order, article in [("order-1", "book"), ("order-1", "book"), ("order-2", "pen"), ("order-3", "unicorn")]:
            try:
                place(db, order, article)
                answer = "placed"
            except psycopg.errors.UniqueViolation:
                answer = "placed before"
            except psycopg.errors.ForeignKeyViolation:
                answer = "failed, nothing of it remains"
            print(f"{order}, {article}: {answer}")
        # What `semel outbox` finds and publishes.
        for row in db.execute("select id, type, ordering_key, convert_from(data, 'UTF8')::json ->> 'article' "
                              "from semel.outbox order by sequence"):
            print("staged: {}, {} for {}, {}".format(*row))


if __name__ == "__main__":
    main()
