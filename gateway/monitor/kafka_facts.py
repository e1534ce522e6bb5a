"""What Kafka's topics are set to, and how large their logs are. Blocks, for a bounded time.

By aiokafka: librdkafka's admin requests can abort the process (see `connect.admin`), and know of no
sizes. aiokafka does not know of them either, so their request is written down here: of its classes
for that, which are not public, a test names the version.
"""

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Int64, Schema, String

from clients.kafka.records import Partition
from shared.kafka_access import KafkaAccess

_ANSWER_S = 3.0  # the gateway's end waits for it
_GOODBYE_S = 1.0


class KafkaFacts(NamedTuple):
    configs: Mapping[str, Mapping[str, str]] = {}  # of topics whose configuration it may know
    log_bytes: Mapping[Partition, int] = {}  # none where it may not know them


def look_at_facts(kafka: KafkaAccess, topics: Collection[str]) -> KafkaFacts:
    """Without what Kafka does not tell in time."""
    return asyncio.run(_look(kafka, topics))


async def _look(kafka: KafkaAccess, topics: Collection[str]) -> KafkaFacts:
    client = AIOKafkaAdminClient(
        **kafka.for_aiokafka(),
        client_id="headrace-gateway",
        request_timeout_ms=int(_ANSWER_S * 1000),
    )
    configs: dict[str, Mapping[str, str]] = {}
    sizes: dict[Partition, int] = {}
    with contextlib.suppress(Exception):  # aiokafka lets more through than its own errors
        async with asyncio.timeout(_ANSWER_S):
            await client.start()
            configs |= await _configs(client, topics)
            sizes |= await _log_bytes(client)
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_GOODBYE_S):
            await client.close()
    return KafkaFacts(configs, sizes)


async def _configs(client: Any, topics: Collection[str]) -> dict[str, dict[str, str]]:
    asked = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
    found = {}
    for answer in await client.describe_configs(asked):
        for code, _, _, topic, entries in answer.resources:
            if code == 0:
                found[topic] = {name: value for name, value, *_ in entries}
    return found


async def _log_bytes(client: Any) -> dict[Partition, int]:
    """The bytes of each partition, by its largest replica."""
    found: dict[Partition, int] = {}
    for broker in client._client.cluster.brokers():
        answer = await client._send_request_to_node(broker.nodeId, _LogDirs())
        for _, _, topics in answer.results:
            for topic, partitions in topics:
                for partition, size, _, _ in partitions:
                    found[topic, partition] = max(size, found.get((topic, partition), 0))
    return found


_PARTITIONS = Array(
    ("partition", Int32), ("size", Int64), ("offset_lag", Int64), ("is_future", Boolean)
)
_TOPICS = Array(("name", String("utf-8")), ("partitions", _PARTITIONS))
_DIRS = Array(("error_code", Int16), ("log_dir", String("utf-8")), ("topics", _TOPICS))


class _LogDirsAnswer(Response):  # type: ignore[misc]
    API_KEY = 35
    API_VERSION = 1
    SCHEMA = Schema(("throttle_time_ms", Int32), ("results", _DIRS))


class _LogDirsAsked(RequestStruct):  # type: ignore[misc]
    API_KEY = 35
    API_VERSION = 1
    RESPONSE_TYPE = _LogDirsAnswer
    SCHEMA = Schema(
        ("topics", Array(("name", String("utf-8")), ("partitions", Array(Int32)))),
    )


class _LogDirs(Request[_LogDirsAsked]):  # type: ignore[misc]
    API_KEY = 35

    def build(self, request_struct_class: type[_LogDirsAsked]) -> _LogDirsAsked:
        return request_struct_class(None)  # of all topics
