"""Rows into their tables and the messages about them into the outbox, within a transaction."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from clients.postgres.outbox import header_rows
from clients.postgres.store import Connection
from shared.events import oversize_stub
from shared.events.envelope import ID, Position, failure_headers
from shared.model import Fields
from shared.published import ledger
from shared.published.ledger import Verdict
from shared.tables.view_tables import ViewTable
from shared.topic_names import dead_letter_topic
from stream_jobs.persist import statements
from stream_jobs.persist.payload_parts import stored_in_part
from stream_jobs.persist.rows import DeadLetter, EventRow, GoneRow, Row, StateRow, key_reuse
from stream_jobs.persist.state_versions import Versioned, by_lives
from stream_jobs.persist.view_rows import ViewRow, upsert_into

_Key = TypeVar("_Key")
_Versioned = TypeVar("_Versioned", StateRow, ViewRow)


class Written(NamedTuple):
    """What was new. A row that was there already counts nowhere."""

    events: int = 0
    states: int = 0
    parked: int = 0
    waiting: int = 0
    of_views: int = 0

    def __add__(self, other: object) -> "Written":
        assert isinstance(other, Written)
        return Written(*(mine + its for mine, its in zip(self, other, strict=True)))


class TableWriter:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def write(self, rows: Iterable[Row]) -> Written:
        """In the caller's transaction."""
        given: list[EventRow] = []
        events: dict[str, EventRow] = {}
        corrections: dict[str, EventRow] = {}
        states: dict[tuple[str, str], StateRow] = {}
        gone: dict[tuple[str, str], GoneRow] = {}
        of_views: dict[ViewTable, dict[tuple[Any, ...], ViewRow]] = defaultdict(dict)
        versions: list[Versioned] = []
        letters: dict[str, DeadLetter] = {}
        for row in rows:
            if isinstance(row, StateRow | GoneRow) and row.has_history:
                versions.append(row)
            match row:
                case EventRow():
                    given.append(row)
                    events.setdefault(row.event_id, row)
                    if row.revision:
                        _keep_highest(corrections, row)
                case StateRow():
                    _keep_newest(states, (row.entity, row.id), row)
                case GoneRow():
                    states.pop((row.entity, row.id), None)
                    gone[row.entity, row.id] = row
                case ViewRow():
                    _keep_newest(of_views[row.table], row.key, row)
                case DeadLetter():
                    letters.setdefault(row.id, row)
        inserted = self._write_events(statements.INSERT_EVENTS, events.values())
        corrected = self._write_events(statements.CORRECT_EVENTS, corrections.values())
        verdicts: list[int] = [Verdict.STORED] * len(given)
        if inserted < len(given):
            repeats = []
            for number, letter in self._repeats(given):
                verdicts[number] = Verdict.REUSED_KEY if letter else Verdict.REPEAT
                repeats.append(given[number])
                if letter is not None:
                    letters.setdefault(letter.id, letter)
            self._remember_repeats(repeats)
        self._journal(given, verdicts, letters.values())
        self._forget_states(gone.values())
        self._keep_versions(versions)
        return Written(
            events=inserted + corrected,
            states=self._upsert_states(states.values()),
            parked=self._park(letters.values()),
            of_views=sum(
                self._upsert_into(table, rows.values()) for table, rows in of_views.items()
            ),
        )

    def journal(self, told: Iterable[tuple[Position, int]]) -> None:
        self._execute(statements.JOURNAL, list(ledger.entries(told)))

    def _write_events(self, statement: str, rows: Iterable[EventRow]) -> int:
        columns = [
            (
                row.event_id,
                row.type,
                row.entity_id,
                row.time_ms,
                row.arrived_ms,
                row.origin,
                str(row.record.position),
                row.payload_sha256,
                row.data,
                row.completion_topic,
                _told(row),
                json.dumps(header_rows(row.completion_headers)),
                row.revision,
                row.shape,
                row.saw,
            )
            for row in rows
        ]
        return self._execute(statement, columns)

    def _repeats(self, rows: Sequence[EventRow]) -> Iterator[tuple[int, DeadLetter | None]]:
        """Those whose id a row from elsewhere has, stored just now or at any time before; with a
        letter where that one's payload was another."""
        columns = [
            [row.event_id for row in rows],
            [str(row.ledger_place) for row in rows],
            [row.payload_sha256 for row in rows],
        ]
        found = self._connection.execute(statements.FROM_ELSEWHERE.encode(), columns)
        for number, is_other, origin, digest in found:
            yield number - 1, key_reuse(rows[number - 1], origin, digest) if is_other else None

    def _remember_repeats(self, rows: Iterable[EventRow]) -> None:
        """Remembers repeats of payloads alone: what folds derive is not in the ledger's pages for
        fold."""
        own = [row for row in rows if str(row.ledger_place) == row.origin]
        self._execute(
            statements.REMEMBER_REPEATS,
            [(*row.ledger_place, row.event_id, False if row.parts > 1 else None) for row in own],
        )

    def _journal(
        self, rows: Sequence[EventRow], verdicts: Sequence[int], letters: Iterable[DeadLetter]
    ) -> None:
        in_part = stored_in_part(self._connection, rows)
        told = [
            (row.ledger_place, verdict)
            for row, verdict in zip(rows, verdicts, strict=True)
            if not in_part or verdict != Verdict.STORED or row.payload_id not in in_part
        ]
        told += [(at, Verdict.PARKED) for letter in letters if (at := letter.ledger_place)]
        self.journal(told)

    def _upsert_states(self, rows: Iterable[StateRow]) -> int:
        silent: list[tuple[object, ...]] = []
        told: list[tuple[object, ...]] = []
        for row in rows:
            place = str(row.record.position)
            own = row.entity, row.id, row.version, row.event_time_ms, row.state, row.deleted, place
            if row.completion_topic is None:
                silent.append(own)
            else:
                headers = json.dumps(header_rows(row.completion_headers))
                told.append((*own, row.completion_topic, _told_of_state(row), headers))
        completed = self._execute(statements.UPSERT_AND_COMPLETE_STATES, told)
        return completed + self._execute(statements.UPSERT_STATES, silent)

    def _upsert_into(self, table: ViewTable, rows: Iterable[ViewRow]) -> int:
        return self._execute(upsert_into(table), [(*row.values, row.version) for row in rows])

    def _forget_states(self, rows: Iterable[GoneRow]) -> None:
        places = [(row, row.record.position) for row in rows]
        columns = [(row.entity, row.id, f"{p.topic}/{p.partition}/", p.offset) for row, p in places]
        self._execute(statements.FORGET_STATES, columns)

    def _keep_versions(self, rows: Iterable[Versioned]) -> None:
        for versions, ends in by_lives(rows):
            self._execute(statements.KEEP_VERSIONS, [_kept(row) for row in versions])
            self._execute(
                statements.END_LIVES,
                [
                    (row.entity, row.id, row.record.time_ms or None, row.record.position.offset)
                    for row in ends
                ],
            )

    def _park(self, letters: Iterable[DeadLetter]) -> int:
        columns = [
            (
                letter.id,
                str(letter.record.position),
                letter.reason,
                letter.detail.replace("\0", "\\0"),
                key,
                value,
                json.dumps(header_rows(headers)),
            )
            for letter in letters
            for key, value, headers in [_as_parked(letter)]
        ]
        return self._execute(statements.PARK, columns, dead_letter_topic("persist"))

    def _execute(self, statement: str, rows: list[tuple[Any, ...]], *more: Any) -> int:
        if not rows:
            return 0
        columns = [list(column) for column in zip(*rows, strict=True)]
        return self._connection.execute(statement.encode(), [*columns, *more]).rowcount


def _kept(row: StateRow) -> tuple[object, ...]:
    return (
        *(row.entity, row.id, row.version),
        *(row.record.time_ms or None, row.event_time_ms, row.late, row.clock_off, row.deleted),
        *(row.state, row.record.position.offset, row.positions),
    )


def _told(row: EventRow) -> str:
    """A completion's value but for what only the store knows: building JSON there takes a third of
    the statement's time."""
    known: Fields = {"event_id": row.event_id, "type": row.type, "entity_id": row.entity_id}
    if row.revision:
        known["revision"] = row.revision
    return f', {json.dumps(known, separators=(", ", " : "))[1:-1]}, "stored_at" : "'


def _told_of_state(row: StateRow) -> str:
    known: Fields = {"entity": row.entity, "entity_id": row.id, "version": row.version}
    if row.deleted:
        known["deleted"] = True
    return f'{json.dumps(known, separators=(", ", " : "))[:-1]}, "stored_at" : "'


def _keep_highest(corrections: dict[str, EventRow], row: EventRow) -> None:
    known = corrections.get(row.event_id)
    if known is None or row.revision > known.revision:
        corrections[row.event_id] = row


def _keep_newest(rows: dict[_Key, _Versioned], key: _Key, row: _Versioned) -> None:
    """One statement must not touch a row twice."""
    known = rows.get(key)
    if known is None or row.version > known.version:
        rows[key] = row


def _as_parked(letter: DeadLetter) -> oversize_stub.Fields:
    """Key, value and headers."""
    record = letter.record
    headers = failure_headers(
        record.headers, "persist", record.position, letter.reason, letter.detail
    )
    if not any(name == ID for name, _ in headers):
        headers.append((ID, letter.id.encode()))
    return oversize_stub.fitted(record.position, record.key, record.value, headers)
