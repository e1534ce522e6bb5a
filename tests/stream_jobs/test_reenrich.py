import re
from collections.abc import Collection
from hashlib import sha256

import orjson
import pytest

from clients.kafka.records import Record
from clients.postgres import store
from clients.postgres.outbox import Outbox, OutboxRow
from shared.events import envelope, redelivery
from shared.events.envelope import Position
from stream_jobs.reenrich import Found, Reenrich, Run, RunExistsError, send_all

pytestmark = pytest.mark.stack

TOPIC = "ingest.telemetry.v1"
RUN = Run("mended", "device-1", 1_000, 2_000)


def _payload(place: Position) -> Record:
    headers = [(envelope.ID, b"e%d" % place.offset), ("traceparent", b"00-x")]
    value = b'{"value": %d}' % place.offset
    return Record(place, b"device-1", value, headers, 5_000 + place.offset)


def _all(places: Collection[Position]) -> Found:
    return {place: _payload(place) for place in places}


@pytest.fixture
def work(connection: store.Connection) -> Reenrich:
    """Ten events in the time of the run, and some that are not for it."""
    _store(connection, [(f"e{n}", "device-1", 1_000 + n, f"{TOPIC}/0/{n}") for n in range(10)])
    others = [
        ("early", "device-1", 999, f"{TOPIC}/0/50"),
        ("late", "device-1", 2_000, f"{TOPIC}/0/51"),
        ("others", "device-2", 1_500, f"{TOPIC}/0/52"),
        ("derived", "device-1", 1_500, "event.reading.v1/0/53"),
    ]
    _store(connection, others)
    return Reenrich(connection, [TOPIC])


def _store(connection: store.Connection, rows: list[tuple[str, str, int, str]]) -> None:
    connection.cursor().executemany(
        """INSERT INTO headrace.event
               (event_id, type, entity_id, event_time, arrived_at, origin, position, data)
           VALUES (%s, 'reading', %s, 'epoch'::timestamptz + %s * interval '1 millisecond',
                   now(), %s, 'event.reading.v1/0/0', '{}')""",
        rows,
    )


def _sent(connection: store.Connection) -> list[OutboxRow]:
    return Outbox(connection).pending(1_000)


def test_a_run_sends_each_chosen_payload_once_as_it_came(
    work: Reenrich, connection: store.Connection
) -> None:
    told: list[Run] = []
    over, gone = send_all(work, work.begin(RUN), _all, told.append)
    assert (over.chosen, over.sent, over.gone, gone) == (10, 10, 0, [])
    assert told[-1].sent == 10
    sent = _sent(connection)
    assert [row.value for row in sent] == [b'{"value": %d}' % n for n in range(10)]
    assert {(row.topic, row.key) for row in sent} == {("again.enrich.v1", b"device-1")}
    place = Position(TOPIC, 0, 3)
    assert redelivery.first_of(sent[3].headers, {TOPIC}) == redelivery.FirstArrival(
        place, 5_003, 1, revision=1
    )
    headers = dict(sent[3].headers)
    assert (headers["traceparent"], headers[envelope.SUBJECT]) == (b"00-x", b"device-1")

    once_more = work.begin(RUN)
    assert once_more.is_over
    assert send_all(work, once_more, _all, told.append)[0] == once_more
    assert len(_sent(connection)) == 10

    send_all(work, work.begin(RUN._replace(name="again")), _all, told.append)
    revisions = [redelivery.first_of(row.headers, {TOPIC}).revision for row in _sent(connection)]
    assert revisions == [1] * 10 + [2] * 10


def test_a_run_that_was_killed_goes_on_where_it_was_and_two_at_once_send_once(
    work: Reenrich, connection: store.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_jobs.reenrich._ROWS_AT_ONCE", 4)
    begun = work.begin(RUN)
    rows = next(work.chosen(begun))
    found = _all([row.origin for row in rows])
    assert work.send(begun, rows, found).sent == 4
    assert work.send(begun, rows, found).sent == 4  # another one, who has read what this one has
    over, _ = send_all(work, work.begin(RUN), _all, lambda _run: None)
    assert over.sent == 10
    sent = [dict(row.headers)[envelope.ID] for row in _sent(connection)]
    assert sent == [b"e%d" % n for n in range(10)]


def test_events_that_come_while_it_runs_are_not_of_the_run(
    work: Reenrich, connection: store.Connection
) -> None:
    begun = work.begin(RUN)
    _store(connection, [("new", "device-1", 1_500, f"{TOPIC}/0/60")])
    over, _ = send_all(work, begun, _all, lambda _run: None)
    assert (over.chosen, over.sent) == (10, 10)


def test_payloads_that_are_gone_are_counted_and_the_others_sent(
    work: Reenrich, connection: store.Connection
) -> None:
    def some(places: Collection[Position]) -> Found:
        there = _all([place for place in places if place.offset > 2])
        other = Position(TOPIC, 0, 5)  # of a topic that was made anew
        return {**there, other: _payload(Position(TOPIC, 0, 99))}

    over, gone = send_all(work, work.begin(RUN), some, lambda _run: None)
    assert (over.sent, over.gone) == (6, 4)
    assert [row.event_id for row in gone] == ["e0", "e1", "e2", "e5"]
    assert len(_sent(connection)) == 6


def test_an_event_of_a_copy_that_was_mended_stays_as_it_is(
    work: Reenrich, connection: store.Connection
) -> None:
    digests = [("e1", sha256(b"mended").hexdigest()), ("e2", sha256(b'{"value": 2}').hexdigest())]
    for event_id, digest in digests:
        change = "UPDATE headrace.event SET payload_sha256 = %s WHERE event_id = %s"
        connection.execute(change.encode(), (digest, event_id))
    _, gone = send_all(work, work.begin(RUN), _all, lambda _run: None)
    assert [row.event_id for row in gone] == ["e1"]


def test_a_name_belongs_to_one_run(work: Reenrich) -> None:
    work.begin(RUN)
    with pytest.raises(RunExistsError, match=re.escape("'mended' is known, of device-1")):
        work.begin(RUN._replace(to_ms=3_000))


def test_a_payload_of_several_events_is_sent_once_for_all_of_them(
    work: Reenrich, connection: store.Connection
) -> None:
    """Whichever of them the run has chosen: here the second and the eleventh, and not the first."""
    place = f"{TOPIC}/0/60"
    rows = [(f"e60#{n}" if n else "e60", f"wheel-{n}", 5_000, place) for n in range(12)]
    rows[1], rows[10] = (("e60#1", "device-1", 1_500, place), ("e60#10", "device-1", 1_501, place))
    _store(connection, [*rows, ("e60#x", "device-9", 5_000, f"{TOPIC}/0/61")])
    over, gone = send_all(work, work.begin(RUN), _all, lambda _run: None)
    assert (over.chosen, over.sent, gone) == (12, 11, [])
    (sent,) = [row for row in _sent(connection) if dict(row.headers)[envelope.ID] == b"e60"]
    headers = dict(sent.headers)
    entities = ["wheel-0", "device-1", *(f"wheel-{n}" for n in range(2, 10))]
    entities += ["device-1", "wheel-11"]
    assert orjson.loads(headers[envelope.PARTS_OF]) == entities
    assert headers[envelope.REVISION] == b"1"
    raised = connection.execute(
        "SELECT DISTINCT asked_revision FROM headrace.event WHERE origin = %s", (place,)
    )
    assert raised.fetchall() == [(1,)]


def test_and_once_in_a_run_of_several_pieces(
    work: Reenrich, connection: store.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_jobs.reenrich._ROWS_AT_ONCE", 4)
    place = f"{TOPIC}/0/60"
    rows = [(f"e60#{n}" if n else "e60", "device-1", 1_500, place) for n in range(12)]
    _store(connection, rows)
    over, _ = send_all(work, work.begin(RUN), _all, lambda _run: None)
    assert (over.chosen, over.sent) == (22, 11)
