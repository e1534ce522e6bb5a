"""`./headrace skew`: whether a job's records are spread evenly, and whose they are where not."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from local_stack.run.options import StateDir, since_ms
from local_stack.run.server_addresses import kafka_bootstrap
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, rows_table, say_found
from local_stack.terminal.printable import as_text

if TYPE_CHECKING:
    from clients.kafka.records import Partition, Range
    from shared.flow_table import Flow

_ENTITIES_SHOWN = 10
# of a partition's bytes; of a topic's, as a multiple of an even share
_HOT, _UNEVEN = 0.5, 2.0


@dataclass
class Share:
    """What was written to a partition in the time that is looked at."""

    unread: int
    seconds: float = 0.0
    records: int = 0
    size: int = 0
    by_entity: Counter[bytes] = field(default_factory=Counter)

    def add(self, key: bytes | None, size: int) -> None:
        self.records += 1
        self.size += size
        self.by_entity[key or b""] += size


def skew(
    job: Annotated[str, typer.Option(help="Of what this job reads.")] = "enrich",
    since: Annotated[str, typer.Option(help="15m, 2h, or a time.")] = "15m",
    records: Annotated[int, typer.Option(min=1, help="Of each partition at most.")] = 20_000,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Show how evenly a job's records spread over partitions and entities, and what to do.

    Example: ./headrace skew --job fold --since 1h
    """
    from local_stack.machine.settings_check import chosen_flow

    reads = _reads(chosen_flow(), job)
    now_ms = time.time_ns() // 1_000_000
    shares = _shares(kafka_bootstrap(state_dir), job, reads, since_ms(since, now_ms), records)
    found = told(shares)
    lines = [*rows_table(found["partitions"]), "", *rows_table(found["entities"])]
    text = "\n".join([*lines, "", *found["advice"]]) if shares else f"{job} reads nothing yet."
    say_found(found, text, output)


def told(shares: Mapping["Partition", Share]) -> dict[str, Any]:
    """Partitions, the entities with most bytes, and sentences."""
    of_topic: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for (topic, _), its in shares.items():
        of_topic[topic] += its.size
        counts[topic] += 1
    rows, advice = [], []
    entities: Counter[tuple[str, int, bytes]] = Counter()
    for (topic, partition), its in sorted(shares.items()):
        part = _of(its.size, of_topic[topic])
        hottest = its.by_entity.most_common(1)
        rows.append(
            {
                "topic": topic,
                "partition": partition,
                "records_per_s": _rate(its.records, its.seconds),
                "bytes_per_s": _rate(its.size, its.seconds),
                "of_topic": part,
                "unread": its.unread,
                "entities": len(its.by_entity),
                "hottest": as_text(hottest[0][0]) if hottest else None,
                "of_partition": _of(hottest[0][1], its.size) if hottest else None,
            }
        )
        for entity, size in its.by_entity.items():
            entities[topic, partition, entity] += size
        if part is not None and counts[topic] > 1 and part * counts[topic] >= _UNEVEN:
            advice.append(_advice(topic, partition, its, part))
    hot = [
        {
            "entity": as_text(entity),
            "topic": topic,
            "partition": partition,
            "of_topic": _of(size, of_topic[topic]),
        }
        for (topic, partition, entity), size in entities.most_common(_ENTITIES_SHOWN)
    ]
    even = "No partition has twice its even share of the bytes."
    return {"partitions": rows, "entities": hot, "advice": advice or [even]}


def _advice(topic: str, partition: int, its: Share, part: float) -> str:
    (entity, size), *_ = its.by_entity.most_common(1)
    place = f"{topic}/{partition} has {part:.0%} of the topic's bytes"
    if size >= its.size * _HOT:
        return (
            f"{place}, most of it of {as_text(entity)}: give it, and those like it, an endpoint "
            "with a topic of its own, or let it post under several ids, whose states an aggregate "
            "adds up"
        )
    return (
        f"{place}, of {len(its.by_entity)} entities, none with half of it: more partitions would "
        "spread them (of an ingest topic: ./headrace topics widen; of others: docs/operations.md, "
        "TOPIC_WIDENED)"
    )


def _reads(flow: "Flow", job: str) -> tuple[str, ...]:
    jobs = {one.name: one.ignited_by for one in flow.jobs() if one.ignited_by}
    if job not in jobs:
        raise StackError(f"no job {job!r} reads a topic", f"jobs: {', '.join(sorted(jobs))}")
    return jobs[job]


def _shares(
    bootstrap: str, job: str, topics: Iterable[str], begin_ms: int, records_max: int
) -> dict["Partition", Share]:
    from clients.kafka.offsets import LogOffsets
    from clients.kafka.read_range import RangeReader
    from clients.kafka.records import LogRange, or_end
    from local_stack.servers.kafka import asking_kafka
    from shared.consumer_groups import OPERATOR, of_job

    with asking_kafka(bootstrap) as kafka:
        with LogOffsets(kafka, of_job(job), topics) as log:
            ranges, read = log.ranges(), log.positions()
            begins = log.since(dict.fromkeys(ranges, begin_ms))
        shares = {at: Share(_unread(its, read.get(at, 0))) for at, its in ranges.items()}
        looked = [
            LogRange(*at, max(or_end(begins, at, end), start, end - records_max), end)
            for at, (start, end) in ranges.items()
        ]
        times: dict[Partition, tuple[int, int]] = {}
        reader = RangeReader(kafka, OPERATOR)
        try:
            for messages in reader.read([one for one in looked if one.records]):
                for message in messages:
                    at = str(message.topic()), int(message.partition() or 0)
                    key, value = message.key(), message.value()
                    shares[at].add(key, len(key or b"") + len(value or b""))
                    time_ms = int(message.timestamp()[1])
                    first, last = times.get(at, (time_ms, time_ms))
                    times[at] = min(first, time_ms), max(last, time_ms)
        finally:
            reader.close()
    for at, (first, last) in times.items():
        shares[at].seconds = (last - first) / 1000
    return shares


def _unread(its: "Range", read: int) -> int:
    return its.end - max(its.start, read)


def _rate(count: int, seconds: float) -> float | None:
    """None where all came at once."""
    return round(count / seconds, 1) if seconds else None


def _of(part: int, whole: int) -> float | None:
    return round(part / whole, 3) if whole else None
