"""A service on FastAPI that keeps its idempotency keys in Redis with asgi-idempotency-header, for uvicorn."""

import os

from fastapi import FastAPI
from idempotency_header_middleware import IdempotencyHeaderMiddleware
from idempotency_header_middleware.backends.redis import RedisBackend
from redis.asyncio import Redis

app = FastAPI()
app.add_middleware(IdempotencyHeaderMiddleware, backend=RedisBackend(Redis.from_url(os.environ["REDIS_URL"])))


@app.post("/v1/payments", status_code=201)
async def pay(payment: dict):
    return {"id": "ch_1234567890", "amount": 1999, "currency": "eur", "status": "succeeded"}
