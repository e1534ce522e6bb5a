"""What a gateway can hardly be cheaper than: plain ASGI and `send` of aiokafka, idempotent.

No limits, no identity, no deadline, no receipt: BOOTSTRAP and RAW say where a body goes.
"""

import os
from typing import Any

from aiokafka import AIOKafkaProducer

_producer: Any = None


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await _live(receive, send)
        return
    message = await receive()
    body = message.get("body", b"")
    while message.get("more_body", False):
        message = await receive()
        body += message.get("body", b"")
    key = scope["path"].rpartition("/")[2].encode()
    await (await _producer.send(os.environ["RAW"], body, key))
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 202, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _live(receive: Any, send: Any) -> None:
    global _producer
    await receive()
    _producer = AIOKafkaProducer(
        bootstrap_servers=os.environ["BOOTSTRAP"], acks="all", enable_idempotence=True
    )
    await _producer.start()
    await _producer.partitions_for(os.environ["RAW"])
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await _producer.stop()
    await send({"type": "lifespan.shutdown.complete"})
