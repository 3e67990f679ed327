"""The servers that tests talk to, each in a private folder and on free ports of 127.0.0.1. One file, one class per server."""

from .kafka import Kafka
from .machine import NoServer
from .nats import Nats
from .postgres import Postgres
from .rabbitmq import RabbitMQ
from .redis import Redis

BROKERS = {server.name: server for server in (Redis, Nats, RabbitMQ, Kafka)}
SERVERS = {Postgres.name: Postgres, **BROKERS}

__all__ = ["BROKERS", "SERVERS", "NoServer"]
