"""Makes the flow's topics, and mends their configuration; never takes anything away."""

import logging
import time
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
)

from clients.kafka import connect
from shared.flow_table import Flow
from shared.kafka_access import KafkaAwayError
from shared.settings import Settings
from shared.topic_names import JOB_STATUS_TOPIC

_log = logging.getLogger(__name__)
_REQUEST_TIMEOUT_S = 15.0


def ensure_topics(flow: Flow, settings: Settings, wait_s: float = 30.0) -> list[str]:
    """The names of the topics that were missing and are there now."""
    admin = connect.admin(settings.kafka)
    partitions_now = _partitions_by_topic(admin, settings.kafka_bootstrap, wait_s)
    wanted = [_new_topic(topic.name, dict(topic.config), settings) for topic in flow.topics()]
    created = _create(admin, [new for new in wanted if new.topic not in partitions_now])
    existing = [new for new in wanted if new.topic in partitions_now]
    for new in existing:
        count = partitions_now[new.topic]
        if count != new.num_partitions:
            # more partitions would send an entity's next events elsewhere than its last ones
            _log.warning(
                "topic %s has %d partitions, the settings say %d: it stays as it is",
                *(new.topic, count, new.num_partitions),
            )
    _add_missing_config(admin, existing)
    return created


def _new_topic(name: str, config: dict[str, str], settings: Settings) -> NewTopic:
    if settings.replication >= 3:
        config["min.insync.replicas"] = "2"  # an acknowledged record outlives one broker's disk
    return NewTopic(
        name,
        num_partitions=1 if name == JOB_STATUS_TOPIC else settings.partitions,
        replication_factor=settings.replication,
        config=config,
    )


def _partitions_by_topic(admin: AdminClient, bootstrap: str, wait_s: float) -> dict[str, int]:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            topics = admin.list_topics(timeout=2).topics
            return {name: len(topic.partitions) for name, topic in topics.items()}
        except KafkaException as error:
            if time.monotonic() >= deadline:
                detail = error.args[0].str()
                raise KafkaAwayError(
                    f"Kafka at {bootstrap} did not answer within {wait_s:.0f} s: {detail}"
                ) from error
        time.sleep(0.2)


def _create(admin: AdminClient, missing: list[NewTopic]) -> list[str]:
    if not missing:
        return []
    created = []
    futures = admin.create_topics(missing, request_timeout=_REQUEST_TIMEOUT_S)
    for name, future in futures.items():
        try:
            future.result()
            created.append(name)
        except KafkaException as error:
            # another process was quicker
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    return created


def other_configs(admin: AdminClient, flow: Flow) -> list[str]:
    """Where topics that are there are configured otherwise than the flow says."""
    topics = flow.topics()
    described = _configs(admin, [topic.name for topic in topics])
    return [
        f"{topic.name} has {key}={described[topic.name][key].value}, not {value}"
        for topic in topics
        for key, value in topic.config.items()
        if described[topic.name][key].value != value
    ]


def _configs(admin: AdminClient, names: list[str]) -> dict[str, dict[str, ConfigEntry]]:
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    described: dict[ConfigResource, Future[Any]] = admin.describe_configs(
        resources, request_timeout=_REQUEST_TIMEOUT_S
    )
    return {
        name: described[resource].result() for name, resource in zip(names, resources, strict=True)
    }


def _add_missing_config(admin: AdminClient, topics: list[NewTopic]) -> None:
    if not topics:
        return
    described = _configs(admin, [topic.topic for topic in topics])
    changes = []
    for topic in topics:
        missing = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in (topic.config or {}).items()
            if _is_missing(topic.topic, described[topic.topic][key], value)
        ]
        if missing:
            kind = ConfigResource.Type.TOPIC
            changes.append(ConfigResource(kind, topic.topic, incremental_configs=missing))
    if changes:
        for future in admin.incremental_alter_configs(changes).values():
            future.result()


def _is_missing(topic: str, entry: ConfigEntry, wanted: str) -> bool:
    if entry.value == wanted:
        return False
    if ConfigSource(entry.source) != ConfigSource.DYNAMIC_TOPIC_CONFIG:
        return True
    # somebody chose this value
    _log.warning("topic %s has %s=%s, not %s: it stays", topic, entry.name, entry.value, wanted)
    return False
