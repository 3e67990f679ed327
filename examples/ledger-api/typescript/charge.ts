// Charges an order once, however often it is run:
//
//     SEMEL_TOKEN=… node charge.js LEDGER_URL PROVIDER_URL ORDER AMOUNT [on_unknown=retry dedup_window=24h lease=5s …]
//
// Prints what came of it as one line of JSON. Exit codes: 0 charged, now or before; 3 not ours to do, and why.
import { Conflict, Ledger, type Policy } from "./ledger.js";

const [ledgerUrl, provider, order, amount, ...words] = process.argv.slice(2) as [string, string, string, string];
const policy = Object.fromEntries((words as string[]).map((word) => word.split("=", 2))) as Policy;

/** The effect. A provider that knows idempotency keys gets one that is the same on every try. */
async function charge(): Promise<string> {
  const response = await fetch(provider, {
    method: "POST",
    headers: { "Idempotency-Key": `charge-${order}`, "Content-Type": "application/json" },
    body: JSON.stringify({ order, amount: Number(amount) }),
  });
  if (!response.ok) throw new Error(`the provider answered ${response.status}`);
  return response.text();
}

const ledger = new Ledger(ledgerUrl, process.env.SEMEL_TOKEN ?? "");
try {
  const done = await ledger.once("charges", order, { order, amount: Number(amount) },
                                 async () => ({ status: 201, body: await charge() }), policy);
  console.log(JSON.stringify({ answer: done.replayed ? "replay" : "charged", receipt: done.outcome.body }));
} catch (error) {
  if (!(error instanceof Conflict)) throw error;
  console.log(JSON.stringify({ answer: error.answer, why: error.message }));
  process.exitCode = 3;
}
