// Places orders. The events that tell others of an order commit with it, or not at all.
const { Client } = require("pg");

async function place(db, order, article) {
  const data = JSON.stringify({ order, article });
  await db.query("begin");
  try {
    await db.query("insert into orders values ($1, $2)", [order, article]);
    for (const kind of ["placed", "charge"]) {
      await db.query("select semel.stage_json(topic => 'orders', ordering_key => $1, id => $2, source => '/shop', "
        + "type => $3, data => $4)", [order, `${order}-${kind}`, `order.${kind}`, data]);
    }
    await db.query("commit");
  } catch (error) {
    await db.query("rollback");
    throw error;
  }
}

async function main() {
  const db = new Client({ connectionString: process.env.DATABASE_URL });
  await db.connect();
  for (const [order, article] of [["order-1", "book"], ["order-1", "book"], ["order-2", "pen"], ["order-3", "unicorn"]]) {
    const answer = await place(db, order, article).then(() => "placed", (error) => {
      if (error.code === "23505") return "placed before"; // unique_violation
      if (error.code === "23503") return "failed, nothing of it remains"; // foreign_key_violation
      throw error;
    });
    console.log(`${order}, ${article}: ${answer}`);
  }
  // What `semel outbox` finds and publishes.
  const { rows } = await db.query("select id, type, ordering_key, convert_from(data, 'UTF8')::json ->> 'article' as article "
    + "from semel.outbox order by sequence");
  for (const row of rows) console.log(`staged: ${row.id}, ${row.type} for ${row.ordering_key}, ${row.article}`);
  await db.end();
}

main();
