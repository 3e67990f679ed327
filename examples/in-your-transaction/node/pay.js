// Takes money from a wallet, once per key, however often it is asked to.
const { Client } = require("pg");

async function pay(db, key, wallet, amount) {
  const request = JSON.stringify([wallet, amount]);
  await db.query("begin");
  try {
    const { rows: [claim] } = await db.query(
      "select * from semel.claim('acme/payments', $1, semel.fingerprint($2::text))", [key, request]);
    if (claim.answer !== "claimed") {
      await db.query("commit");
      return [claim.answer, claim.outcome && JSON.parse(claim.outcome)];
    }
    const { rows: [outcome] } = await db.query(
      "update wallet set balance = balance - $1 where id = $2 returning balance", [amount, wallet]);
    await db.query("select semel.settle_or_fail('acme/payments', $1, $2, 200, $3)",
      [key, claim.token, Buffer.from(JSON.stringify(outcome))]);
    await db.query("commit");
    return ["paid", outcome];
  } catch (error) {
    await db.query("rollback");
    throw error;
  }
}

async function main() {
  const db = new Client({ connectionString: process.env.DATABASE_URL });
  await db.connect();
  for (const [key, amount] of [["payment-1", 30], ["payment-1", 30], ["payment-1", 31], ["payment-2", 30],
    ["payment-3", 50], ["payment-3", 40]]) {
    const [answer, outcome] = await pay(db, key, "bob", amount).catch((error) => {
      if (error.code !== "23514") throw error; // check_violation: the wallet has too little
      return ["failed, nothing of it remains", null];
    });
    console.log(`${key}, ${amount}: ${answer}` + (outcome ? `, balance ${outcome.balance}` : ""));
  }
  await db.end();
}

main();
