"""Whose payloads or rows wait, as the lane of each stage knows it, and how that is told to it that
they are tried at once or given up."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from clients.kafka.connect import answering
from clients.kafka.follow import whole_log
from clients.kafka.records import Outgoing, Record
from clients.postgres import outbox
from clients.postgres.outbox import header_pairs
from clients.postgres.store import Connection, judged_errors, save
from desk.letters.service import Desk
from desk.letters.topics import LetterLog
from shared.consumer_groups import DESK
from shared.events.envelope import Position
from shared.flow import load_flow
from shared.settings import Settings
from shared.timestamps import to_rfc3339
from shared.topic_names import gate_topic, wake_topic
from stream_jobs.persist.waiting_rows import CHANNEL
from stream_jobs.waiting.codec import Order, Ordered, gate_told, wake_value
from stream_jobs.waiting.line_key import entity_of, payload_alone, said
from stream_jobs.waiting.protocol import ENRICH

Stage = Literal["enrich", "persist"]
_ORDERS_IN_A_WAKE = 500
_LINES = b"""
    SELECT DISTINCT ON (topic, line) topic, line, partition, "offset", count(*) OVER own,
           (extract(epoch FROM min(since) OVER own) * 1000)::bigint, reason, detail, tries,
           (extract(epoch FROM due_at) * 1000)::bigint
    FROM headrace.waiting_row WINDOW own AS (PARTITION BY topic, line)
    ORDER BY topic, line, partition, "offset"
"""
_RECORD = b"""
    SELECT key, value, headers FROM headrace.waiting_row
    WHERE (topic, partition, "offset") = (%s, %s, %s)
"""
_TRY = """
    UPDATE headrace.waiting_row AS one SET due_at = now()
    FROM unnest(%b::text[], %b::int[], %b::bigint[]) AS given (topic, partition, "offset")
    WHERE (one.topic, one.partition, one."offset")
        = (given.topic, given.partition, given."offset")
"""
_GIVE_UP = """
    UPDATE headrace.waiting_row AS one SET given_up = true, due_at = now()
    FROM unnest(%b::text[], %b::text[]) AS given (topic, line)
    WHERE (one.topic, one.line) = (given.topic, given.line)
"""


class WaitingLine(NamedTuple):
    stage: Stage
    key: str
    place: Position  # of the first of them
    payloads: int
    since_ms: int
    reason: str  # why that one waits
    detail: str
    tries: int
    due_ms: int | None

    @property
    def name(self) -> str:
        return said(self.key)

    def row(self) -> dict[str, Any]:
        return {
            "entity_id": entity_of(self.key),
            "alone": payload_alone(self.key),
            "stage": self.stage,
            "payloads": self.payloads,
            "since": to_rfc3339(self.since_ms),
            "reason": self.reason,
            "detail": self.detail,
            "tries": self.tries,
            "next_try": None if self.due_ms is None else to_rfc3339(self.due_ms),
        }


class Lane(Protocol):
    def lines(self) -> list[WaitingLine]: ...

    def record(self, line: WaitingLine) -> Record | None:
        """The first of it; None where it has gone meanwhile."""

    def order(self, what: Ordered, lines: Sequence[WaitingLine]) -> None:
        """In the caller's transaction."""


class EnrichLane:
    """As its gates tell; an order goes to retry as a wake."""

    def __init__(self, settings: Settings, log: LetterLog, connection: Connection) -> None:
        self._settings = settings
        self._log = log
        self._connection = connection

    def lines(self) -> list[WaitingLine]:
        if not load_flow(self._settings.flow).waits:
            return []
        latest: dict[str, bytes | None] = {}
        kafka = self._settings.kafka
        with answering(kafka):
            for message in whole_log(kafka, DESK, [gate_topic(ENRICH)]):
                latest[(message.key() or b"").decode(errors="replace")] = message.value()
        return [
            WaitingLine(
                "enrich",
                key,
                Position.parse(told.origin),
                told.payloads,
                told.since_ms,
                told.reason,
                told.detail,
                told.tries,
                told.due_ms,
            )
            for key, value in latest.items()
            if (told := gate_told(value)) is not None
        ]

    def record(self, line: WaitingLine) -> Record | None:
        return self._log.at([line.place]).get(line.place)

    def order(self, what: Ordered, lines: Sequence[WaitingLine]) -> None:
        rows = [Order(what, line.key).row for line in lines]
        wakes = (wake_value(some, None) for some in _parts(rows))
        messages = (Outgoing(wake_topic(ENRICH), None, wake, []) for wake in wakes)
        outbox.put(self._connection, messages)


class PersistLane:
    """As PostgreSQL has it, and is told."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lines(self) -> list[WaitingLine]:
        with judged_errors():
            return [
                WaitingLine("persist", line, Position(topic, partition, offset), *known)
                for topic, line, partition, offset, *known in self._connection.execute(_LINES)
            ]

    def record(self, line: WaitingLine) -> Record | None:
        with judged_errors():
            found = self._connection.execute(_RECORD, line.place).fetchone()
        if found is None:
            return None
        key, value, headers = found
        return Record(line.place, key, value, header_pairs(headers))

    def order(self, what: Ordered, lines: Sequence[WaitingLine]) -> None:
        if what == "try":
            save(self._connection, _TRY, [line.place for line in lines])
        else:
            save(self._connection, _GIVE_UP, [(line.place.topic, line.key) for line in lines])
        self._connection.execute(f"NOTIFY {CHANNEL}".encode())


def lanes_of(desk: Desk) -> Mapping[Stage, Lane]:
    connection = desk.book.connection
    return {
        "enrich": EnrichLane(desk.settings, desk.log, connection),
        "persist": PersistLane(connection),
    }


def _parts(rows: Sequence[str]) -> Iterator[Sequence[str]]:
    for begin in range(0, len(rows), _ORDERS_IN_A_WAKE):
        yield rows[begin : begin + _ORDERS_IN_A_WAKE]
