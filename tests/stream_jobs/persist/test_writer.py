import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import psycopg
import pytest

from clients.kafka.records import Record
from clients.postgres import store
from clients.postgres.outbox import Outbox, OutboxRow
from shared.errors import StoreAwayError, StoreSlowError
from shared.events.envelope import Header, Position
from shared.flow import FLOW
from shared.ids import derived_event_id
from stream_jobs.persist import writer as event_store
from stream_jobs.persist.rows import DeadLetter, EventRow, GoneRow, Row, RowMaker, StateRow
from stream_jobs.persist.table_writer import Written
from stream_jobs.persist.writer import CHUNK_BYTES_MAX, EventStore, chunks
from tests.stream_jobs.persist.postgres_proxy import Way, proxy_before


def _event(
    number: int,
    data: str = '{"value": 1}',
    event_id: str | None = None,
    payload_sha256: str | None = None,
) -> EventRow:
    record = Record(
        Position("event.reading.v1", 0, number), b"d", data.encode(), [("ce_id", b"e%d" % number)]
    )
    event_id = event_id or f"e{number}"
    headers: list[Header] = [("ce_id", derived_event_id("completion", event_id).encode())]
    return EventRow(
        record,
        event_id,
        "reading",
        f"device-{number % 7}",
        1_000,
        2_123,
        f"ingest.telemetry.v1/0/{number}",
        payload_sha256,
        data,
        "completion.reading.v1",
        headers,
        Position("ingest.telemetry.v1", 0, number),
    )


def _state(version: int, entity_id: str = "d", state: str = "{}") -> StateRow:
    record = Record(Position("state.device.v1", 0, version), b"d", state.encode(), [])
    return StateRow(record, "device", entity_id, version, None, state)


def test_a_chunk_is_bounded_in_rows_and_bytes() -> None:
    assert [len(c) for c in chunks(_event(n) for n in range(4_500))] == [2_000, 2_000, 500]
    large = "x" * (CHUNK_BYTES_MAX // 2)
    assert [len(c) for c in chunks([_event(n, large) for n in range(3)])] == [2, 1]


@pytest.fixture
def writer(postgres_url: str) -> Iterator[EventStore]:
    writer = EventStore(postgres_url)
    yield writer
    writer.close()


def _one(connection: store.Connection, query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    return row[0] if row and len(row) == 1 else row


@pytest.mark.stack
def test_a_row_and_its_completion_are_written_once(
    writer: EventStore, connection: store.Connection
) -> None:
    rows: Sequence[Row] = [_event(n) for n in range(10)]
    assert writer.write([*rows, *rows]) == Written(events=10)
    assert writer.write(rows) == Written()
    sent = Outbox(connection).pending(100)
    assert len(sent) == 10
    row_key, stored_at = connection.execute(
        "SELECT row_key, headrace.rfc3339(stored_at) FROM headrace.event WHERE event_id = 'e3'"
    ).fetchone() or (None, None)
    assert json.loads(sent[3].value or b"") == {
        "row_key": row_key,
        "event_id": "e3",
        "type": "reading",
        "entity_id": "device-3",
        "stored_at": stored_at,
    }
    assert (sent[3].topic, sent[3].key) == ("completion.reading.v1", b"device-3")
    assert dict(sent[3].headers) == {
        "ce_id": derived_event_id("completion", "e3").encode(),
        "ce_time": stored_at.encode(),
    }
    assert _one(connection, "SELECT headrace.rfc3339(min(arrived_at)) FROM headrace.event") == (
        "1970-01-01T00:00:02.123Z"
    )


def _correction(number: int, revision: int) -> EventRow:
    row = _event(number, f'{{"value": {100 + revision}}}')
    made = f"{row.event_id} {revision}"
    return row._replace(revision=revision, completion_headers=[("ce_id", made.encode())])


@pytest.mark.stack
@pytest.mark.parametrize("together", [True, False], ids=["one batch", "one by one"])
def test_a_correction_replaces_what_its_row_says_and_completes_anew(
    writer: EventStore, connection: store.Connection, together: bool
) -> None:
    rows: list[Row] = [_event(1), _correction(1, 2), _correction(1, 1), _event(1), _event(2)]
    written = [writer.write(rows)] if together else [writer.write([row]) for row in rows]
    assert sum((w.events for w in written), 0) == 3
    stored = "SELECT data->'value', revision FROM headrace.event ORDER BY event_id"
    assert connection.execute(stored.encode()).fetchall() == [(102, 2), (1, 0)]
    assert writer.write(rows) == Written()
    sent = [json.loads(row.value or b"") for row in Outbox(connection).pending(100)]
    said = [(told["event_id"], told.get("revision", 0)) for told in sent]
    assert sorted(said) == [("e1", 0), ("e1", 2), ("e2", 0)]
    assert len({told["row_key"] for told in sent}) == 2
    ids = [dict(row.headers)["ce_id"] for row in Outbox(connection).pending(100)]
    assert len(set(ids)) == 3


@pytest.mark.stack
def test_a_correction_that_comes_before_what_it_corrects_stays(
    writer: EventStore, connection: store.Connection
) -> None:
    assert writer.write([_correction(1, 1)]) == Written(events=1)
    assert writer.write([_event(1)]) == Written()
    assert _one(connection, "SELECT data->'value', revision FROM headrace.event") == (101, 1)


@pytest.mark.stack
def test_rows_that_the_store_refuses_are_parked_once_and_the_others_stay(
    writer: EventStore, connection: store.Connection
) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    bad = {
        3: _event(3, '{"value": 1e200000}'),
        500: _event(500, deep),
        777: _event(777, event_id="".join(map(str, range(50_000)))),
    }
    rows: list[Row] = [bad.get(n) or _event(n) for n in range(1_000)]
    assert writer.write(rows) == Written(events=997, parked=3)
    assert writer.write(rows) == Written()
    letters = [row for row in Outbox(connection).pending(2_000) if row.topic == "dlq.persist.v1"]
    assert [row.value for row in letters] == [row.record.value for row in bad.values()]
    headers = dict(letters[0].headers)
    assert headers["ce_id"] == b"e3"
    assert headers["ce_reason"] == b"refused_by_store"
    assert headers["ce_origin"] == b"event.reading.v1/0/3"


@pytest.mark.stack
def test_what_persist_lets_pass_the_store_takes(
    writer: EventStore, connection: store.Connection
) -> None:
    """The ends of what JSON, an id and a time may be."""
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    hard = [
        {"text": "\x01\x7f\u2028\ufffe\U0010ffff \\u0000 '); --"},
        {"": 1, " ": None, "ä" * 3_000: True},
        {"numbers": [1.7976931348623157e308, 5e-324, -0.0, 2**63 - 1, -(2**63), 2**64 - 1]},
        {"long": "x" * 1_000_000, "deep": deep},
    ]
    times = [-62_135_596_800_000, 253_402_300_799_999]
    maker, records = RowMaker.of(FLOW), []
    for number, (data, time_ms) in enumerate((data, at) for data in hard for at in times):
        event = {"id": f"{number}-".ljust(2_000, "i"), "type": "reading", "entity_id": "ä" * 1_000,
                 "time_ms": time_ms, "arrived_ms": time_ms, "data": data,
                 "origin": ["ingest.telemetry.v1", 2**31 - 1, 2**63 - 1]}  # fmt: skip
        place = Position("event.reading.v1", 0, number)
        headers = [("x", b"\xff\0"), ("ä", b""), ("traceparent", b"\xff")]
        key = "ä".encode() * 1_000
        records.append(Record(place, key, orjson.dumps(event), headers))
    rows = [maker.make(record) for record in records]
    assert writer.write(rows) == Written(events=len(records))
    assert {row[0]["deep"] is not None for row in connection.execute(
        "SELECT data FROM headrace.event WHERE data ? 'deep'")} == {True}  # fmt: skip
    assert _letters(connection) == []


@pytest.mark.stack
def test_a_dead_letter_keeps_the_bytes_it_came_with(
    writer: EventStore, connection: store.Connection
) -> None:
    record = Record(Position("event.reading.v1", 1, 2), None, b"\x00\xff", [("x", b"\xff\x00")])
    letter = DeadLetter(record, "no_json", "odd \0 detail")
    assert writer.write([letter]) == Written(parked=1)
    (row,) = Outbox(connection).pending(10)
    assert (row.key, row.value, dict(row.headers)["x"]) == (None, b"\x00\xff", b"\xff\x00")


def _letters(connection: store.Connection) -> list[OutboxRow]:
    return [row for row in Outbox(connection).pending(5_000) if row.topic == "dlq.persist.v1"]


_ONE, _OTHER, _THIRD = "1" * 64, "2" * 64, "3" * 64


@pytest.mark.stack
@pytest.mark.parametrize("together", [True, False], ids=["one chunk", "a later chunk"])
def test_another_payload_under_a_used_id_is_parked_once(
    writer: EventStore, connection: store.Connection, together: bool
) -> None:
    first, repeat = _event(1, payload_sha256=_ONE), _event(2, '{"value": 1.0}', "e1", _ONE)
    other, third = _event(3, '{"value": 2}', "e1", _OTHER), _event(4, "{}", "e1", _THIRD)
    rows = [first, repeat, other, _event(5, payload_sha256=_ONE), _event(5), third, repeat]
    batches = [rows] if together else [[row] for row in rows]

    def write() -> Written:
        return sum((writer.write(batch) for batch in batches), Written())

    assert write() == Written(events=2, parked=2)
    assert write() == Written()
    assert writer.write(rows) == Written()  # as other chunks than the first time
    assert _one(
        connection,
        "SELECT origin, payload_sha256, data FROM headrace.event WHERE event_id = 'e1'",
    ) == (first.origin, _ONE, {"value": 1})
    letters = _letters(connection)
    assert [letter.value for letter in letters] == [other.record.value, third.record.value]
    headers = dict(letters[0].headers)
    assert headers["ce_reason"] == b"key_reuse"
    assert headers["ce_origin"] == b"event.reading.v1/0/3"
    assert headers["ce_detail"].decode() == (
        f"event id e1 is stored for the payload at ingest.telemetry.v1/0/1 with sha256 {_ONE}; "
        f"this one, at ingest.telemetry.v1/0/3, has sha256 {_OTHER}. Two payloads came under one "
        "Idempotency-Key and the stored one is the event: if this one is to count, send it again "
        "under a key of its own"
    )


@pytest.mark.stack
def test_a_second_writing_of_a_parked_event_is_no_second_letter(writer: EventStore) -> None:
    other = _event(2, '{"value": 2}', "e1", _OTHER)
    elsewhere = Record(Position("event.reading.v1", 0, 9), b"d", b"{}", other.record.headers)
    assert writer.write([_event(1, payload_sha256=_ONE), other]) == Written(events=1, parked=1)
    assert writer.write([other._replace(record=elsewhere)]) == Written()


@pytest.mark.stack
@pytest.mark.parametrize(
    ("stored", "came"),
    [(_ONE, _ONE), (None, _ONE), (_ONE, None)],
    ids=["equal", "none stored", "none came"],
)
def test_repeats_of_one_payload_or_of_an_unknown_one_make_no_letter(
    writer: EventStore, connection: store.Connection, stored: str | None, came: str | None
) -> None:
    rows = [_event(n, payload_sha256=stored) for n in range(1_000)]
    repeats = [_event(1_000 + n, "{}", f"e{n}", came) for n in range(1_000)]
    assert writer.write([*rows, *repeats]) == Written(events=1_000)
    assert writer.write(repeats) == Written()
    assert _letters(connection) == []


@pytest.mark.stack
def test_another_payload_that_a_task_stores_at_the_same_time_is_seen(
    writer: EventStore, connection: store.Connection
) -> None:
    with ThreadPoolExecutor(1) as pool:
        with connection.transaction():
            connection.execute(
                """INSERT INTO headrace.event (event_id, type, entity_id, event_time, arrived_at,
                                               origin, position, payload_sha256, data)
                   VALUES ('e1', 'reading', 'd', now(), now(), 'o', 'p', %s, '{}')""",
                (_ONE,),
            )
            waits = pool.submit(writer.write, [_event(1, payload_sha256=_OTHER)])
            while not _one(connection, "SELECT count(*) FROM pg_locks WHERE NOT granted"):
                assert not waits.done()
                time.sleep(0.05)
        assert waits.result(30) == Written(parked=1)


@pytest.mark.stack
def test_only_rows_that_were_there_cost_a_statement_more(
    writer: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.write([_event(0, payload_sha256=_ONE)])
    connection, statements = writer._connection, []
    assert connection is not None
    execute = connection.execute

    def noted(statement: bytes, arguments: Any) -> Any:
        statements.append(statement)
        return execute(statement, arguments)

    monkeypatch.setattr(connection, "execute", noted)
    writer.write([_event(n, payload_sha256=_ONE) for n in range(1, 100)])
    assert len(statements) == 2  # the rows, and what the ledger is told
    writer.write([_event(n, payload_sha256=_ONE) for n in range(90, 200)])
    assert len(statements) == 2 + 3


def _told_state(version: int, entity_id: str = "d", *, deleted: bool = False) -> StateRow:
    row = _state(version, entity_id)
    return row._replace(completion_topic="completion.state.device.v1", deleted=deleted)


@pytest.mark.stack
def test_the_version_of_a_state_that_becomes_a_row_is_completed_once(
    writer: EventStore, connection: store.Connection
) -> None:
    rows: list[Row] = [_told_state(1), _told_state(3), _told_state(2), _told_state(1, "other")]
    silent = _state(9)._replace(entity="area")
    assert writer.write([*rows, silent]) == Written(states=3)
    assert writer.write([*rows, silent]) == Written()
    assert writer.write([_told_state(4, deleted=True)]) == Written(states=1)
    sent = Outbox(connection).pending(100)
    assert {row.topic for row in sent} == {"completion.state.device.v1"}
    told = [json.loads(row.value or b"") for row in sent]
    at = [one.pop("stored_at") for one in told]
    assert told == [
        {"entity": "device", "entity_id": "d", "version": 3},
        {"entity": "device", "entity_id": "other", "version": 1},
        {"entity": "device", "entity_id": "d", "version": 4, "deleted": True},
    ]
    assert [row.key for row in sent] == [b"d", b"other", b"d"]
    headers = [dict(row.headers) for row in sent]
    assert [one["ce_time"].decode() for one in headers] == at
    assert {one["ce_type"] for one in headers} == {b"completion.state.device"}
    assert len({one["ce_id"] for one in headers}) == 3
    stored = "SELECT headrace.rfc3339(updated_at) FROM headrace.entity_state WHERE version = 4"
    assert _one(connection, stored) == at[2]


@pytest.mark.stack
def test_a_state_that_is_not_stored_is_not_completed(
    writer: EventStore, connection: store.Connection
) -> None:
    refused = _told_state(1)._replace(state='{"n": 1e200000}')
    assert writer.write([refused, _told_state(1, "other")]) == Written(states=1, parked=1)
    topics = [row.topic for row in Outbox(connection).pending(100)]
    assert sorted(topics) == ["completion.state.device.v1", "dlq.persist.v1"]


@pytest.mark.stack
def test_an_older_state_never_takes_the_place_of_a_newer(
    writer: EventStore, connection: store.Connection
) -> None:
    writer.write([_state(1), _state(3, state='{"n": 3}'), _state(2), _state(1, "other")])
    assert writer.write([_state(2), _state(3)]) == Written()
    query = "SELECT version, state, position FROM headrace.entity_state WHERE id = 'd'"
    assert _one(connection, query) == (3, {"n": 3}, "state.device.v1/0/3")
    assert writer.write([_state(4)]) == Written(states=1)


@pytest.mark.stack
def test_a_connection_that_breaks_around_the_commit_leaves_one_row_each(
    writer: EventStore, connection: store.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.write([_event(0)])
    broken = writer._connection
    assert broken is not None
    monkeypatch.setattr(broken, "transaction", lambda: _BreaksAfterCommit(broken))
    assert writer.write([_event(1)]) == Written()  # its first try had committed
    assert _one(connection, "SELECT count(*) FROM headrace.event") == 2
    assert Outbox(connection).depth().records == 2


class _BreaksAfterCommit:
    def __init__(self, connection: store.Connection) -> None:
        self._transaction = psycopg.Transaction(connection)

    def __enter__(self) -> None:
        self._transaction.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._transaction.__exit__(*error)
        raise psycopg.OperationalError("the connection broke")


@pytest.mark.stack
@pytest.mark.parametrize("way", ["lose the request", "lose the answer"])
def test_a_connection_that_breaks_exactly_at_the_commit_leaves_one_row_each(
    postgres_url: str, connection: store.Connection, way: Way
) -> None:
    """Before the server has it nothing is stored, after it all is; the writer never knows which."""
    with proxy_before(postgres_url) as proxy:
        writer = EventStore(proxy.url)
        writer.write([_event(0), _state(1)])
        proxy.way = way
        poison = DeadLetter(_event(99).record, "no_json", "odd")
        written = writer.write([*(_event(n) for n in range(1, 500)), _state(2), poison])
        assert proxy.struck == 1
        new = (499, 1, 1) if way == "lose the request" else (0, 0, 0)
        assert written == Written(*new)
        writer.close()
    rows = Outbox(connection).pending(5_000)
    assert len(rows) == 501 == len({dict(row.headers)["ce_id"] for row in rows})
    assert _one(connection, "SELECT count(*) FROM headrace.event") == 500
    assert _one(connection, "SELECT version FROM headrace.entity_state") == 2
    assert _one(connection, "SELECT count(*) FROM headrace.parked") == 1


@pytest.mark.stack
def test_a_store_that_is_frozen_is_told_as_slow_and_does_its_work_when_it_thaws(
    postgres_url: str,
) -> None:
    with proxy_before(postgres_url) as proxy:
        writer = EventStore(proxy.url, slow_after_s=0.5)
        writer.write([_event(0)])
        proxy.freeze()
        with pytest.raises(StoreSlowError, match="did not answer within 1 s"):
            writer.write([_event(1)])
        proxy.thaw()
        assert writer.write([_event(1)]) == Written(events=1)
        writer.close()


@pytest.mark.stack
def test_a_slow_store_gets_fewer_rows_at_once_until_it_manages(
    postgres_url: str, connection: store.Connection
) -> None:
    connection.execute(
        """CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
           'BEGIN PERFORM pg_sleep(0.0025); RETURN NEW; END'"""
    )
    connection.execute(
        "CREATE TRIGGER slow BEFORE INSERT ON headrace.event FOR EACH ROW EXECUTE FUNCTION slow()"
    )
    writer = EventStore(postgres_url, slow_after_s=0.5)
    rows, refusals = [_event(n) for n in range(1_000)], 0
    while refusals < 10:
        try:
            writer.write(rows)
            break
        except StoreSlowError as slow:
            assert "statement timeout" in str(slow)
            refusals += 1
    assert 0 < refusals < 10
    assert _one(connection, "SELECT count(*) FROM headrace.event") == 1_000
    assert _letters(connection) == []
    writer.close()


@pytest.mark.stack
def test_an_absent_store_is_told_and_the_next_try_goes_through(
    writer: EventStore, connection: store.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_store, "_RETRY_AFTER_S", 0.01)
    away = EventStore("postgresql://headrace@127.0.0.1:1/headrace")
    with pytest.raises(StoreAwayError):
        away.write([_event(1)])
    connection.execute("ALTER TABLE headrace.event RENAME TO hidden")
    with pytest.raises(StoreAwayError, match="run migrate"):
        writer.write([_event(1)])
    connection.execute("ALTER TABLE headrace.hidden RENAME TO event")
    assert writer.write([_event(1)]) == Written(events=1)


@pytest.mark.stack
def test_a_null_forgets_what_stood_before_it_and_nothing_else(
    writer: EventStore, connection: store.Connection
) -> None:
    def gone(offset: int) -> GoneRow:
        record = Record(Position("state.device.v1", 0, offset), b"d", None, [])
        return GoneRow(record, "device", "d")

    query = "SELECT version, deleted FROM headrace.entity_state WHERE id = 'd'"
    writer.write([_state(5)._replace(deleted=True), _state(5, "other")])
    assert _one(connection, query) == (5, True)
    assert writer.write([gone(6), _state(7)._replace(version=1)]) == Written(states=1)
    assert _one(connection, query) == (1, False)
    writer.write([gone(6)])  # it comes again, when a batch does
    assert _one(connection, query) == (1, False)
    writer.write([gone(10)])
    assert _one(connection, query) is None
    assert _one(connection, "SELECT count(*) FROM headrace.entity_state") == 1
