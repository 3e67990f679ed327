// Libraries that keep idempotency keys in Redis or PostgreSQL, in services as somebody would deploy them: two workers, no
// log.
#pragma once

#include "gateway/servers.hpp"

namespace semel::bench {

/// Debian's redis-server, durable as Semel's stores are: every write is synced before it is answered.
Server start_redis(const TemporaryFolder& folder);
std::string url_of(const Server& redis);
/// bench/peers/node: node-idempotency on Fastify, with its keys in that Redis or PostgreSQL. Relative to the root of the
/// repository, where ./dev runs us.
Server start_node_peer(const std::string& url);
/// bench/peers/python: asgi-idempotency-header on FastAPI and uvicorn.
Server start_python_peer(const Server& redis);

}  // namespace semel::bench
