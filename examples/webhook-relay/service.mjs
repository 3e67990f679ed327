// A service that is idempotent by Idempotency-Key, with nothing but Node: key, payment and answer are one line of a file,
// on disk before the answer is given, so that no crash can leave one without the others. One process has the file.
//
//     node service.mjs PORT [FILE]
import fs from "node:fs";
import http from "node:http";

const [port, file = "payments.jsonl"] = process.argv.slice(2);

const answered = new Map();  // by key
const payments = [];

function remember(line) {
  answered.set(line.key, line);
  if (line.payment) payments.push(line.payment);
}

if (fs.existsSync(file)) {
  // A last line without its end was never answered: it did not happen.
  const whole = fs.readFileSync(file, "utf8");
  const good = whole.slice(0, whole.lastIndexOf("\n") + 1);
  fs.truncateSync(file, Buffer.byteLength(good));
  for (const line of good.split("\n")) if (line) remember(JSON.parse(line));
}
const log = fs.openSync(file, "a");

// The effect, and what is answered.
function execute(key, payment) {
  if (!(payment.amount > 0)) return { key, status: 422, body: { error: "an amount is positive" } };
  return { key, payment, status: 201, body: { number: payments.length + 1 } };
}

// Without a pause inside: two deliveries of one key cannot meet here.
function answer(key, payment) {
  const before = answered.get(key);
  if (before) return { ...before, replayed: true };
  const line = execute(key, payment);
  fs.writeSync(log, JSON.stringify(line) + "\n");
  fs.fsyncSync(log);
  remember(line);
  return line;
}

function reply(response, { status, body, replayed }) {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(text),
    ...(replayed ? { "Idempotent-Replayed": "true" } : {}),
  });
  response.end(text);
}

http.createServer((request, response) => {
  if (request.method === "GET") {
    const total = payments.reduce((sum, payment) => sum + payment.amount, 0);
    reply(response, { status: 200, body: { payments: payments.length, total } });
    return;
  }
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    const key = request.headers["idempotency-key"];
    if (!key) reply(response, { status: 400, body: { error: "Idempotency-Key is missing" } });
    else reply(response, answer(key, JSON.parse(Buffer.concat(chunks).toString())));
  });
}).listen(Number(port), "127.0.0.1");
