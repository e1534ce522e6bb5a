"""Entities whose payloads wait, as their gates tell, and what an operator may order: that they are
tried at once, or given up. An order goes to retry as a wake, through the outbox."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from clients.kafka.connect import answering
from clients.kafka.follow import LogFollower
from clients.kafka.records import Outgoing, plain
from clients.postgres import outbox
from clients.postgres.store import judged_errors
from desk.letters import render
from desk.letters.selection import Selection
from desk.letters.service import Desk
from shared.consumer_groups import DESK
from shared.events.envelope import Position
from shared.flow import load_flow
from shared.timestamps import to_rfc3339
from shared.topic_names import gate_topic, wake_topic
from stream_jobs.waiting.codec import Order, Ordered, gate_told, wake_value
from stream_jobs.waiting.line import Told
from stream_jobs.waiting.line_key import entity_of, keys_meant, payload_alone, said
from stream_jobs.waiting.protocol import ENRICH

_ORDERS_IN_A_WAKE = 500
_AUDITED = {"try": "try what waits", "give_up": "give up what waits"}


class NobodyWaitsError(Exception):
    """Of what was asked for."""


class Page(NamedTuple):
    entities: list[dict[str, Any]]
    next: str | None  # to go on after


class Waiting:
    """KafkaAwayError or StoreAwayError where a server that the answer needs is not there."""

    def __init__(self, desk: Desk) -> None:
        self._settings = desk.settings
        self._book = desk.book
        self._log = desk.log

    def page(self, limit: int, after: str | None = None, reason: str | None = None) -> Page:
        """By their ids."""
        known = {said(key): (key, told) for key, told in self._known(reason).items()}
        names = sorted(name for name in known if after is None or name > after)
        shown = names[:limit]
        return Page([_row(*known[name]) for name in shown], shown[-1] if names[limit:] else None)

    def of(self, entity_id: str) -> dict[str, Any] | None:
        """None where none of it waits."""
        told = self._known().get(entity_id)
        return None if told is None else _row(entity_id, told)

    def show(self, name: str) -> dict[str, Any]:
        """With the payload that comes first, and holds up the others. `name` is that of an entity,
        or the id of a payload that waits alone behind it."""
        known = self._known()
        key = min(_meant(name, known))
        told = known[key]
        place = Position.parse(told.origin)
        record = self._log.at([place]).get(place)
        headers = [] if record is None else record.headers
        return {
            **_row(key, told),
            "place": told.origin,
            "headers": [[name, plain(value)] for name, value in headers],
            "payload_bytes": None if record is None else render.bytes_shown(record.value),
        }

    def order(self, what: Ordered, names: Sequence[str], reason: str | None, by: str) -> int:
        """To how many entities: those that are named, or all that wait for this reason."""
        known = self._known(reason)
        keys = [key for name in names for key in _meant(name, known)] if names else sorted(known)
        rows = [Order(what, key).row for key in dict.fromkeys(keys)]
        meant = [*dict.fromkeys(map(entity_of, keys))]
        with judged_errors(), self._book.connection.transaction():
            outbox.put(
                self._book.connection,
                (
                    Outgoing(wake_topic(ENRICH), None, wake_value(some, None), [])
                    for some in _parts(rows)
                ),
            )
            if meant:
                of_one = meant[0] if len(meant) == 1 else None
                self._book.note(
                    by, _AUDITED[what], len(meant), Selection(cause=reason, entity_id=of_one)
                )
        return len(meant)

    def _known(self, reason: str | None = None) -> dict[str, Told]:
        if not load_flow(self._settings.flow).waits:
            return {}
        found: dict[str, Told | None] = {}
        kafka = self._settings.kafka
        with (
            answering(kafka),
            closing(LogFollower(kafka, DESK, [gate_topic(ENRICH)])) as gates,
        ):
            gates.go_on_from({})
            for message in gates.to_the_end():
                name = (message.key() or b"").decode(errors="replace")
                found[name] = gate_told(message.value())
        return {
            name: told
            for name, told in found.items()
            if told is not None and reason in (None, told.reason)
        }


def _meant(name: str, known: Mapping[str, Told]) -> list[str]:
    keys = keys_meant(name, known)
    if not keys:
        raise NobodyWaitsError(f"no payload of {name!r} waits")
    return keys


def _parts(rows: Sequence[str]) -> Iterator[Sequence[str]]:
    for begin in range(0, len(rows), _ORDERS_IN_A_WAKE):
        yield rows[begin : begin + _ORDERS_IN_A_WAKE]


def _row(key: str, told: Told) -> dict[str, Any]:
    return {
        "entity_id": entity_of(key),
        "alone": payload_alone(key),
        "payloads": told.payloads,
        "since": to_rfc3339(told.since_ms),
        "reason": told.reason,
        "detail": told.detail,
        "tries": told.tries,
        "next_try": None if told.due_ms is None else to_rfc3339(told.due_ms),
    }
