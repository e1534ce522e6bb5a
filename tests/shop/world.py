"""A shop without servers: topics are lists, the clock is ours, and each part dies now and then in
the middle of its writing, and then does that work again. What decides is the product's own code."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import orjson
import shop

from clients.kafka.records import Outgoing, Payload
from shared.events import envelope
from shared.events.envelope import Position
from shared.events.event_reader import EventReader
from shared.folding import snapshot
from shared.folding.applier import Applier
from stream_jobs.enrich.enrich_payload import LANE, enricher
from stream_jobs.fold.emission_rows import EmissionRows
from stream_jobs.fold.rebuild import _events
from tests.builders import Master

FLOW = shop.FLOW
TYPES = {row.name: row for row in FLOW.event_types}
APPLIERS = {row.name: Applier(row, 64, TYPES, FLOW.actions_of(row.name)) for row in FLOW.entities}
BEGIN_MS = 1_700_000_000_000


class Waiting(NamedTuple):
    payload: Payload
    due_ms: int


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now_ms = BEGIN_MS
        self.topics: dict[str, list[Outgoing]] = defaultdict(list)
        self.times: dict[str, list[int]] = defaultdict(list)
        self.next: dict[tuple[str, str], int] = defaultdict(int)
        self.states: dict[tuple[str, str], bytes] = {}
        self.folded: dict[tuple[str, str], bytes] = {}
        self.waiting: list[Waiting] = []
        self.parked: list[tuple[str, str]] = []
        self.dropped = 0
        self.enrich = enricher(FLOW, lambda name, key: self.states.get((name, key)))
        self.reader, self.rows = EventReader.of(FLOW), EmissionRows(FLOW)
        self.posts = 0
        self.deaths = 0.0

    # what comes in

    def post(self, endpoint: str, entity: str, said: dict[str, Any], key: str = "") -> None:
        self.posts += 1
        row = FLOW.endpoint(endpoint)
        assert row is not None
        headers = [
            (envelope.ID, (key or f"p-{self.posts}").encode()),
            (envelope.TYPE, row.payload_type.encode()),
        ]
        self._write([Outgoing(row.topic, entity.encode(), orjson.dumps(said), headers)])

    def _write(self, records: Iterable[Outgoing]) -> None:
        for record in records:
            self.topics[record.topic].append(record)
            self.times[record.topic].append(self.now_ms)

    def unread(self, who: str, topics: Iterable[str]) -> bool:
        return any(self.next[who, topic] < len(self.topics[topic]) for topic in topics)

    def take(self, who: str, topic: str, most: int) -> list[tuple[Position, Outgoing]]:
        begin = self.next[who, topic]
        found = self.topics[topic][begin : begin + most]
        return [(Position(topic, 0, begin + n), record) for n, record in enumerate(found)]

    def _dies(self) -> bool:
        return self.chance.random() < self.deaths

    # the jobs

    def step_enrich(self) -> None:
        topic = self.chance.choice(FLOW.ingest_topics)
        taken = self.take("enrich", topic, self.chance.randint(1, 8))
        made: list[Outgoing] = []
        waiting: list[Waiting] = []
        for place, record in taken:
            arrived_ms = self.times[topic][place.offset]
            payload = Payload(place, record.key, record.value, record.headers, arrived_ms)
            self._note(payload, made, waiting)
        if self._dies():
            self._write(made[: self.chance.randint(0, len(made))])
            return
        self._write(made)
        self.waiting += waiting
        self.next["enrich", topic] += len(taken)

    def _note(self, payload: Payload, made: list[Outgoing], waiting: list[Waiting]) -> None:
        for out in self.enrich(payload, Master()):
            headers = dict(out.headers)
            if out.topic == LANE:
                pause_ms = int(headers.get(envelope.AFTER, b"1000"))
                waiting.append(Waiting(payload, self.now_ms + pause_ms))
            elif out.topic.startswith("dlq."):
                self.parked.append((headers[envelope.REASON].decode(), str(payload.position)))
            elif out.topic.startswith("dropped."):
                self.dropped += 1
            else:
                made.append(out)

    def step_retry(self) -> None:
        due = [one for one in self.waiting if one.due_ms <= self.now_ms]
        self.chance.shuffle(due)
        for one in due[: self.chance.randint(1, 8)]:
            made: list[Outgoing] = []
            again: list[Waiting] = []
            self._note(one.payload._replace(attempt=1), made, again)
            self._write(made)
            if self._dies():
                continue
            self.waiting.remove(one)
            self.waiting += again

    def step_fold(self) -> None:
        topic = self.chance.choice(FLOW.folded_topics)
        taken = self.take("fold", topic, self.chance.randint(1, 12))
        by_entity: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for place, out in taken:
            record = self.reader.read(place, out.key, out.value or b"")
            for entity in FLOW.entities:
                if record.type in entity.reads:
                    by_entity[entity.name, record.entity_id].append(record)
        writes: list[Callable[[], None]] = []
        folded: dict[tuple[str, str], bytes] = {}
        for key, records in by_entity.items():
            before = self.folded.get(key)
            known = snapshot.decode(before) if before else None
            applied = APPLIERS[key[0]].apply(key[1], known, records)
            assert not applied.asks, "what is late is no older than what was folded"
            self.parked += [(parked.reason, parked.detail) for parked in applied.parked]
            if applied.snapshot is None:
                continue
            folded[key] = snapshot.encode(applied.snapshot, "f")
            writes.append(lambda key=key: self.states.update({key: folded[key]}))  # type: ignore[misc]
            rows = [row for record in applied.emitted for row in self.rows.of(record)]
            writes += [lambda row=row: self._write([row]) for row in rows]  # type: ignore[misc]
        dies = self._dies()
        self.chance.shuffle(writes)  # topics have no order among each other
        for write in writes[: self.chance.randint(0, len(writes)) if dies else None]:
            write()
        if not dies:
            self.folded |= folded
            self.next["fold", topic] += len(taken)

    def lose_checkpoint(self) -> None:
        """fold begins with what it has published, and writes again what that has emitted last: the
        batch may have been cut short between the two."""
        self.folded = dict(self.states)
        for raw in self.states.values():
            self._write(_events(FLOW, snapshot.decode(raw).emissions))
        for topic in FLOW.folded_topics:
            self.next["fold", topic] = 0  # what the snapshots contain is passed over

    # what has come of it

    def state(self, entity: str, its_id: str) -> dict[str, Any]:
        raw = self.folded.get((entity, its_id))
        row = next(one for one in FLOW.entities if one.name == entity)
        return snapshot.decode(raw).state if raw else row.initial(its_id)

    def log_of(self, topic: str, entity: str) -> list[tuple[str, dict[str, Any]]]:
        """Each event once, where it first stands."""
        once: dict[str, tuple[str, dict[str, Any]]] = {}
        for out in self.topics[topic]:
            if out.key == entity.encode():
                event = orjson.loads(out.value or b"")
                once.setdefault(event["id"], (event["type"], event["data"]))
        return list(once.values())

    @property
    def rests(self) -> bool:
        enrich = self.unread("enrich", FLOW.ingest_topics)
        return not (enrich or self.unread("fold", FLOW.folded_topics) or self.waiting)
