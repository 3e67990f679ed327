// A service on Fastify that keeps its idempotency keys in Redis or PostgreSQL with node-idempotency, a worker per core:
//     node server.js PORT URL
// The package's README shows onRequest and onResponse; the hooks here are those two calls.
"use strict";

const cluster = require("node:cluster");
const fastify = require("fastify");
const { Idempotency, IdempotencyErrorCodes } = require("@node-idempotency/core");
const { RedisStorageAdapter } = require("@node-idempotency/storage-adapter-redis");
const { PostgresStorage } = require("./postgres_storage");

const [port, url] = process.argv.slice(2);
const workers = 2;

async function run_workers() {
  await storage_at(url).prepare?.();
  for (let i = 0; i < workers; ++i) cluster.fork();
  process.on("SIGTERM", () => {
    for (const worker of Object.values(cluster.workers)) worker.process.kill("SIGKILL");
    process.exit(0);
  });
  cluster.on("exit", (worker, code, signal) => {
    console.error(`a worker ended: ${signal ?? code}`);
    process.exit(1);
  });
}

const storage_at = (url) => (url.startsWith("redis:") ? new RedisStorageAdapter({ url }) : new PostgresStorage(url));
const parts_of = ({ method, url, headers, body }) => ({ method, path: url, headers, body });

async function serve() {
  const storage = storage_at(url);
  await storage.connect();
  const idempotency = new Idempotency(storage);
  const app = fastify();

  app.decorateRequest("replayed", false);
  app.addHook("preHandler", async (request, reply) => {
    try {
      const known = await idempotency.onRequest(parts_of(request));
      if (!known) return;
      request.replayed = true;
      reply.code(known.additional.status).send(known.body);
    } catch (error) {
      request.replayed = true;
      const conflict = error.code === IdempotencyErrorCodes.REQUEST_IN_PROGRESS;
      reply.code(conflict ? 409 : 422).send({ error: error.message });
    }
    return reply;
  });
  app.addHook("preSerialization", async (request, reply, body) => {
    if (!request.replayed)
      await idempotency.onResponse(parts_of(request), { body, additional: { status: reply.statusCode } });
    return body;
  });

  app.post("/v1/payments", async (request, reply) => {
    reply.code(201);
    return { id: "ch_1234567890", amount: 1999, currency: "eur", status: "succeeded" };
  });
  await app.listen({ host: "127.0.0.1", port: Number(port) });
}

if (cluster.isPrimary) run_workers();
else serve();
