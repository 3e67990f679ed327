// node-idempotency has no storage for PostgreSQL of its own, and takes any that has these calls: this is what its user would
// write. A statement by itself is a durable commit.
"use strict";

const { Pool } = require("pg");

class PostgresStorage {
  constructor(url) {
    this.pool = new Pool({ connectionString: url, max: 10 }); // for each worker
  }
  async connect() {}
  async prepare() {
    await this.pool.query(
      "create table if not exists node_idempotency (key text primary key, value text not null, expires timestamptz)"
    );
    await this.pool.end();
  }
  async setIfNotExists(key, value, { ttl } = {}) {
    const { rowCount } = await this.pool.query({
      name: "claim",
      text:
        "insert into node_idempotency as o values ($1, $2, now() + $3 * interval '1 ms') on conflict (key) do update " +
        "set value = excluded.value, expires = excluded.expires where o.expires < now()",
      values: [key, value, ttl ?? null],
    });
    return rowCount === 1;
  }
  async set(key, value, { ttl } = {}) {
    await this.pool.query({
      name: "set",
      text: "update node_idempotency set value = $2, expires = now() + $3 * interval '1 ms' where key = $1",
      values: [key, value, ttl ?? null],
    });
  }
  async get(key) {
    const { rows } = await this.pool.query({
      name: "get",
      text: "select value from node_idempotency where key = $1 and (expires is null or expires >= now())",
      values: [key],
    });
    return rows[0]?.value;
  }
}

module.exports = { PostgresStorage };
