"""Rows that a real PostgreSQL refuses with an error that may pass: who waits, and who does not."""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import orjson
import psycopg
import pytest

from clients.kafka.records import Record
from clients.postgres import store
from clients.postgres.outbox import Outbox
from shared.errors import StoreAwayError
from shared.events.envelope import Position, event_headers, event_value
from shared.flow import FLOW
from shared.folding import snapshot
from shared.folding.snapshot import Snapshot
from shared.published.ledger import Verdict
from shared.retry_policy import RetryPolicy
from stream_jobs.persist import line_server
from stream_jobs.persist.line_server import LineServer
from stream_jobs.persist.rows import Row, RowMaker
from stream_jobs.persist.table_writer import TableWriter, Written
from stream_jobs.persist.waiting_rows import RowRules
from stream_jobs.persist.writer import EventStore
from tests.builders import event_record

pytestmark = pytest.mark.stack
# so that a later state covers others
MAKER = replace(RowMaker.of(FLOW), with_history=frozenset())
PATIENT = RetryPolicy(first_pause_s=300, jitter=0)
RULES = RowRules(PATIENT, {}, {}, rows_of_line_max=1_000, rows_max=1_000)

# what a user adds to the tables of Headrace
_TRIGGER = """
    CREATE FUNCTION own() RETURNS trigger LANGUAGE plpgsql AS $own$
    BEGIN {body} RETURN NEW; END $own$;
    CREATE TRIGGER own BEFORE INSERT OR UPDATE ON headrace.{table}
        FOR EACH ROW EXECUTE FUNCTION own();
"""
_KNOWN = """IF NOT EXISTS (SELECT FROM site WHERE id = NEW.{column}) THEN
                RAISE EXCEPTION 'site % is not known', NEW.{column}; END IF;"""


def _event(number: int, device: str, value: float = 1.0) -> Row:
    record = event_record(number, value=value, entity_id=device)
    return MAKER.make(
        Record(record.position, device.encode(), event_value(record), event_headers(record))
    )


def _state(offset: int, version: int, entity_id: str = "a", **state: Any) -> Row:
    value = snapshot.encode(Snapshot(state, version=version), "f")
    return MAKER.make(Record(Position("state.device.v1", 0, offset), entity_id.encode(), value, []))


def _null(offset: int, entity_id: str = "a") -> Row:
    return MAKER.make(Record(Position("state.device.v1", 0, offset), entity_id.encode(), None, []))


class Store:
    """A writer with its lines, as persist has them."""

    def __init__(self, url: str, connection: store.Connection, rules: RowRules = RULES) -> None:
        self.connection = connection
        self.writer = EventStore(url, 2.0, rules)
        self._own = store.connect(url, "lines", 2.0)
        self.server = LineServer(self._own, MAKER, rules, 2.0)

    def close(self) -> None:
        self.writer.close()
        self._own.close()

    def refuses(self, table: str, body: str) -> None:
        self.connection.execute(_TRIGGER.format(table=table, body=body).encode())

    def serve(self) -> None:
        """As if the time of all that waits had come."""
        self.connection.execute("UPDATE headrace.waiting_row SET due_at = now()")
        self.server.serve()

    def rows(self, query: str) -> list[Any]:
        found = self.connection.execute(query.encode()).fetchall()
        return [row[0] if len(row) == 1 else row for row in found]

    def stored(self) -> list[str]:
        return self.rows("SELECT event_id FROM headrace.event ORDER BY row_key")

    def waiting(self) -> list[tuple[str, int]]:
        return self.rows('SELECT line, "offset" FROM headrace.waiting_row ORDER BY line, "offset"')

    def completed(self, key: str) -> list[str]:
        sent = Outbox(self.connection).pending(5_000)
        own = [row for row in sent if row.key == key.encode() and row.topic.startswith("compl")]
        return [orjson.loads(row.value or b"")["event_id"] for row in own]

    def letters(self) -> list[tuple[str, str]]:
        sent = [row for row in Outbox(self.connection).pending(5_000) if row.topic[:3] == "dlq"]
        headers = [dict(row.headers) for row in sent]
        return [(one["ce_origin"].decode(), one["ce_reason"].decode()) for one in headers]

    def verdicts(self) -> dict[int, int]:
        """Of the payloads, by their place: the highest that was told."""
        found: dict[int, int] = {}
        for first, verdicts in self.connection.execute(
            "SELECT first, verdicts FROM headrace.ledger_journal"
        ):
            for at, verdict in enumerate(verdicts):
                found[first + at] = max(verdict, found.get(first + at, 0))
        return {place: verdict for place, verdict in found.items() if verdict}


@pytest.fixture
def tables(postgres_url: str, connection: store.Connection) -> Iterator[Store]:
    opened = Store(postgres_url, connection)
    yield opened
    opened.close()


@contextmanager
def _by(tables: Store, url: str, rules: RowRules) -> Iterator[Store]:
    opened = Store(url, tables.connection, rules)
    yield opened
    opened.close()


def _ids(rows: Sequence[Row]) -> list[str]:
    return [row.event_id for row in rows]  # type: ignore[union-attr]


def test_one_entity_waits_for_its_foreign_key_and_all_others_go_on(tables: Store) -> None:
    tables.connection.execute(
        """CREATE TABLE site (id text PRIMARY KEY); INSERT INTO site VALUES ('a'), ('c');
           ALTER TABLE headrace.event ADD FOREIGN KEY (entity_id) REFERENCES site"""
    )
    rows = [_event(n, "abc"[n % 3]) for n in range(30)]
    assert tables.writer.write(rows) == Written(events=20, waiting=10)
    assert tables.waiting() == [("b", n) for n in range(1, 30, 3)]
    told = tables.verdicts()
    assert {told[n] for n in range(1, 30, 3)} == {Verdict.WAITING}
    assert {told[n] for n in range(0, 30, 3)} == {Verdict.STORED}
    tables.serve()
    assert len(tables.waiting()) == 10
    tables.connection.execute("INSERT INTO site VALUES ('b')")
    tables.serve()
    assert tables.waiting() == []
    assert tables.completed("b") == _ids(rows[1::3])
    assert {*tables.verdicts().values()} == {Verdict.STORED}
    assert tables.letters() == []
    assert tables.writer.write(rows) == Written()  # a batch runs again
    assert tables.waiting() == []


def test_what_comes_later_waits_behind_though_it_could_be_written(tables: Store) -> None:
    tables.refuses(
        "event",
        """IF NEW.data->>'value' = '13' AND NOT EXISTS (SELECT FROM pg_class
                    WHERE relname = 'ready') THEN RAISE EXCEPTION 'not yet'; END IF;""",
    )
    rows = [_event(0, "a"), _event(1, "a", 13), _event(2, "a"), _event(3, "b")]
    assert tables.writer.write(rows) == Written(events=2, waiting=2)
    assert tables.writer.write([_event(4, "a"), _event(5, "b")]) == Written(events=1, waiting=1)
    assert tables.waiting() == [("a", 1), ("a", 2), ("a", 4)]
    tables.connection.execute("CREATE TABLE ready ()")
    tables.serve()
    assert tables.completed("a") == _ids([rows[0], rows[1], rows[2], _event(4, "a")])


def test_what_waits_is_tried_after_its_pause_and_no_sooner(
    tables: Store, postgres_url: str
) -> None:
    tables.connection.execute("CREATE TABLE site (id text)")
    tables.refuses("event", _KNOWN.format(column="entity_id"))
    rules = RULES._replace(default=RetryPolicy(first_pause_s=100, pause_max_s=1_000, jitter=0))
    with _by(tables, postgres_url, rules) as patient:
        patient.writer.write([_event(0, "a"), _event(1, "a")])
        tries = (
            "SELECT tries, reason, round(extract(epoch FROM due_at - now())) "
            'FROM headrace.waiting_row ORDER BY "offset"'
        )
        assert patient.rows(tries)[0] == (1, "P0001", 100)
        next_s = patient.server.serve()
        assert next_s is not None and 0 < next_s <= 5  # it looks whether somebody is the first now
        patient.serve()
        assert patient.rows(tries)[0] == (2, "P0001", 200)
        next_s = patient.server.serve()
        assert next_s is not None and 190 < next_s <= 200
        assert patient.rows("SELECT detail FROM headrace.waiting_row WHERE tries > 0") == [
            "site a is not known"
        ]


def test_what_was_tried_long_enough_is_parked_and_those_behind_go_on(
    tables: Store, postgres_url: str
) -> None:
    tables.refuses("event", "IF NEW.data->>'value' = '13' THEN RAISE EXCEPTION 'never'; END IF;")
    rules = RULES._replace(of_events={"reading": RetryPolicy(attempts_max=3)})
    rows = [_event(0, "a", 13), _event(1, "a"), _event(2, "a", 13), _event(3, "a")]
    with _by(tables, postgres_url, rules) as brief:
        assert brief.writer.write(rows) == Written(waiting=4)
        brief.serve()
        assert (brief.letters(), brief.stored()) == ([], [])
        for _ in range(4):
            brief.serve()
        place = "event.reading.v1/0/{}".format
        assert brief.letters() == [(place(n), "refused_by_store") for n in (0, 2)]
        assert brief.stored() == _ids([rows[1], rows[3]])
        assert brief.verdicts() == {0: Verdict.PARKED, 1: 9, 2: Verdict.PARKED, 3: 9}
        assert brief.waiting() == []
        sent = [row for row in Outbox(brief.connection).pending(10) if row.topic[:3] == "dlq"]
        assert sent[0].value == rows[0].record.value
        detail = dict(sent[0].headers)["ce_detail"].decode()
        assert detail == "P0001: never; it was tried 3 times"


def test_time_in_which_nobody_could_try_makes_no_row_old(tables: Store, postgres_url: str) -> None:
    tables.refuses("event", "RAISE EXCEPTION 'not yet';")
    rules = RULES._replace(default=RetryPolicy(first_pause_s=10, age_max_s=3_600, jitter=0))
    ago = """UPDATE headrace.waiting_row SET tried_at = tried_at - interval '{0}',
             due_at = due_at - interval '{0}'"""
    with _by(tables, postgres_url, rules) as one:
        one.writer.write([_event(0, "a")])
        one.connection.execute(ago.format("9 days").encode())
        one.server.serve()
        assert one.letters() == []
        (waited_s,) = one.rows("SELECT waited_s FROM headrace.waiting_row")
        assert 69 < waited_s < 71  # its pause, and a minute
        one.connection.execute("UPDATE headrace.waiting_row SET waited_s = 3_600")
        one.serve()
        assert len(one.letters()) == 1


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("PERFORM 1 / (2 - (NEW.data->>'value')::int);", "parked"),  # 22012
        ("PERFORM (NEW.data->>'value')::int2 * 32000::int2;", "parked"),  # 22003
        ("PERFORM ('x' || (NEW.data->>'value'))::int;", "parked"),  # 22P02
        ("PERFORM convert_from('\\xff', 'UTF8');", "parked"),  # 22021
        ("RAISE EXCEPTION 'no' USING ERRCODE = '23505';", "parked"),
        ("RAISE EXCEPTION 'no' USING ERRCODE = '23503';", "waits"),
        ("RAISE EXCEPTION 'no';", "waits"),
        ("INSERT INTO nowhere VALUES (1);", "waits"),  # 42P01, of a trigger of the user's
        ("PERFORM * FROM secret;", "waits"),  # 42501, of one
        ("RAISE EXCEPTION 'no' USING ERRCODE = 'U0001';", "waits"),  # a code of one's own
        ("PERFORM (SELECT n FROM generate_series(1, 2) AS n);", "waits"),  # 21000
        ("RAISE EXCEPTION 'no' USING ERRCODE = '55000';", "waits"),
        ("RAISE EXCEPTION 'no' USING ERRCODE = '40001';", "waits"),
        ("RAISE EXCEPTION 'no' USING ERRCODE = '40P01';", "waits"),
        ("RAISE EXCEPTION 'no' USING ERRCODE = '55P03';", "waits"),
        ("PERFORM pg_sleep(60);", "waits"),  # 57014, of the statement's time limit
    ],
)
def test_of_a_hundred_rows_one_is_refused_and_no_other_suffers(
    tables: Store, postgres_url: str, body: str, outcome: str
) -> None:
    condition = "IF NEW.entity_id = 'bad' AND NEW.data->>'value' = '2' THEN"
    tables.refuses("event", f"{condition} {body} END IF;")
    tables.connection.execute(
        """CREATE TABLE secret (); CREATE ROLE own_jobs LOGIN SUPERUSER;
           ALTER ROLE own_jobs NOSUPERUSER; GRANT USAGE ON SCHEMA headrace TO own_jobs;
           GRANT ALL ON ALL TABLES IN SCHEMA headrace TO own_jobs;"""
    )
    try:
        writer = EventStore(postgres_url, 1.0, RULES)
        writer._connection = store.connect(postgres_url, "persist", 1.0)
        writer._connection.execute("SET ROLE own_jobs")
        rows = [_event(n, f"d{n}") for n in range(40)]
        rows[20] = _event(20, "bad", 2)
        rows[30] = _event(30, "bad")
        if outcome == "waits":
            written = writer.write(rows)
            assert written == Written(events=38, waiting=2)
            assert tables.waiting() == [("bad", 20), ("bad", 30)]
            assert tables.letters() == []
        else:
            assert writer.write(rows) == Written(events=39, parked=1)
            assert tables.letters() == [("event.reading.v1/0/20", "refused_by_store")]
        writer.close()
    finally:
        tables.connection.execute("DROP OWNED BY own_jobs; DROP ROLE own_jobs")


@pytest.mark.parametrize("place", [3, 150, 398])
def test_one_row_that_takes_too_long_is_found_in_a_large_chunk(
    tables: Store, postgres_url: str, place: int
) -> None:
    tables.refuses("event", "IF NEW.entity_id = 'bad' THEN PERFORM pg_sleep(60); END IF;")
    rows = [_event(n, f"d{n}") for n in range(400)]
    rows[place] = _event(place, "bad")
    rows[399] = _event(399, "bad")
    writer = EventStore(postgres_url, 0.7, RULES)
    assert writer.write(rows) == Written(events=398, waiting=2)
    assert tables.waiting() == [("bad", place), ("bad", 399)]
    writer.close()


def test_a_store_that_is_slow_with_all_rows_gets_fewer_and_lets_none_wait(
    tables: Store, postgres_url: str
) -> None:
    tables.refuses("event", "PERFORM pg_sleep(0.0025);")
    writer = EventStore(postgres_url, 0.5, RULES)
    assert writer.write([_event(n, f"d{n}") for n in range(600)]) == Written(events=600)
    assert tables.waiting() == []
    writer.close()


@pytest.mark.parametrize("sqlstate", ["53100", "53300", "57P01", "58030"])
def test_a_store_in_trouble_makes_the_batch_wait_as_a_whole(tables: Store, sqlstate: str) -> None:
    body = f"RAISE EXCEPTION 'no' USING ERRCODE = '{sqlstate}';"
    tables.refuses("event", body)
    with pytest.raises(StoreAwayError):
        tables.writer.write([_event(0, "a"), _event(1, "b")])
    assert (tables.waiting(), tables.letters(), tables.stored()) == ([], [], [])


def test_a_row_that_somebody_has_locked_waits_alone(tables: Store, postgres_url: str) -> None:
    tables.writer.write([_state(0, 1, "a"), _state(1, 1, "b")])
    with psycopg.connect(postgres_url) as other:
        other.execute("UPDATE headrace.entity_state SET deleted = true WHERE id = 'a'")
        written = tables.writer.write([_state(2, 2, "a"), _state(3, 2, "b")])
        assert written == Written(states=1, waiting=1)
        tables.serve()
        assert len(tables.waiting()) == 1
        other.rollback()
    tables.serve()
    assert tables.waiting() == []
    assert tables.rows("SELECT version FROM headrace.entity_state ORDER BY id") == [2, 2]


def test_where_a_whole_table_is_locked_the_batch_waits(tables: Store, postgres_url: str) -> None:
    rows = [_event(n, f"d{n}") for n in range(30)]
    with psycopg.connect(postgres_url) as other:
        other.execute("LOCK TABLE headrace.event")
        with pytest.raises(StoreAwayError):
            tables.writer.write(rows)
        other.rollback()
    assert len(tables.waiting()) <= 4
    tables.writer.write(rows)
    tables.serve()
    assert (len(tables.stored()), tables.waiting()) == (30, [])


def test_of_the_states_of_an_entity_only_what_counts_waits(tables: Store) -> None:
    tables.connection.execute("CREATE TABLE site (id text)")
    tables.refuses("entity_state", _KNOWN.format(column="id"))
    waiting = Written(waiting=1)
    for number in range(5):
        assert tables.writer.write([_state(number, number + 1, n=number)]) == waiting
    assert tables.waiting() == [("a", 0), ("a", 4)]
    tables.writer.write([_null(5), _state(6, 1), _state(7, 2), _state(8, 1, "b")])
    assert tables.waiting() == [("a", 0), ("a", 5), ("a", 7), ("b", 8)]
    tables.connection.execute("INSERT INTO site VALUES ('a')")
    tables.serve()
    assert tables.waiting() == [("b", 8)]
    assert tables.rows("SELECT id, version FROM headrace.entity_state") == [("a", 2)]


def test_a_state_that_can_never_be_a_row_leaves_the_one_that_is_there(
    tables: Store, postgres_url: str
) -> None:
    tables.writer.write([_state(0, 1)])
    tables.refuses("entity_state", "RAISE EXCEPTION 'never';")
    rules = RULES._replace(of_states={"device": RetryPolicy(attempts_max=2)})
    with _by(tables, postgres_url, rules) as brief:
        for number in (1, 2, 3):
            brief.writer.write([_state(number, number + 1)])
        brief.serve()
        assert brief.waiting() == []
        assert brief.letters() == [("state.device.v1/0/3", "refused_by_store")]
        assert brief.rows("SELECT version FROM headrace.entity_state") == [1]


def test_an_event_that_waits_without_order_holds_up_nobody(
    tables: Store, postgres_url: str
) -> None:
    tables.refuses("event", "IF NEW.data->>'value' = '13' THEN RAISE EXCEPTION 'never'; END IF;")
    rules = RULES._replace(of_events={"reading": RetryPolicy(in_order=False)})
    rows = [_event(0, "a", 13), _event(1, "a"), _event(2, "a", 13)]
    with _by(tables, postgres_url, rules) as alone:
        assert alone.writer.write(rows) == Written(events=1, waiting=2)
        assert alone.waiting() == [
            ("a\nevent.reading.v1/0/0", 0),
            ("a\nevent.reading.v1/0/2", 2),
        ]


def test_a_line_that_is_full_parks_what_comes_beyond(tables: Store, postgres_url: str) -> None:
    tables.refuses("event", "RAISE EXCEPTION 'no';")
    with _by(tables, postgres_url, RULES._replace(rows_of_line_max=3)) as few:
        rows = [_event(n, "a") for n in range(5)]
        assert few.writer.write(rows) == Written(waiting=3, parked=2)
        assert few.letters() == [(f"event.reading.v1/0/{n}", "line_full") for n in (3, 4)]
        assert few.writer.write(rows) == Written()


def test_where_too_many_wait_persist_takes_no_more_and_loses_nothing(
    tables: Store, postgres_url: str
) -> None:
    tables.connection.execute("CREATE TABLE site (id text)")
    tables.refuses("event", _KNOWN.format(column="entity_id"))
    rows = [_event(n, f"d{n}") for n in range(20)]
    with _by(tables, postgres_url, RULES._replace(rows_max=10)) as few:
        with pytest.raises(StoreAwayError, match="10 rows wait"):
            few.writer.write(rows)
        assert len(few.waiting()) == 10
        few.connection.execute("INSERT INTO site SELECT 'd' || n FROM generate_series(0, 19) AS n")
        few.serve()
        few.writer.write(rows)
        assert (len(few.stored()), few.waiting(), few.letters()) == (20, [], [])


def test_what_an_operator_gives_up_is_parked_with_all_that_waits_behind_it(tables: Store) -> None:
    tables.refuses("event", "RAISE EXCEPTION 'no';")
    tables.writer.write([_event(n, "ab"[n % 2]) for n in range(6)])
    tables.connection.execute(
        "UPDATE headrace.waiting_row SET given_up = true, due_at = now() WHERE line = 'a'"
    )
    tables.server.serve()
    assert tables.letters() == [(f"event.reading.v1/0/{n}", "given_up") for n in (0, 2, 4)]
    assert tables.waiting() == [("b", n) for n in (1, 3, 5)]


def test_a_topic_that_the_flow_has_no_more_is_no_row_for_ever(tables: Store) -> None:
    tables.refuses("event", "RAISE EXCEPTION 'no';")
    tables.writer.write([_event(0, "a")])
    tables.connection.execute("UPDATE headrace.waiting_row SET topic = 'event.gone.v1'")
    tables.serve()
    assert tables.letters() == [("event.gone.v1/0/0", "no_topic")]
    assert tables.waiting() == []


def test_who_removes_the_first_by_hand_stops_nobody_for_ever(tables: Store) -> None:
    tables.connection.execute("CREATE TABLE site (id text)")
    tables.refuses("event", _KNOWN.format(column="entity_id"))
    tables.writer.write([_event(0, "a"), _event(1, "a")])
    tables.connection.execute("UPDATE headrace.waiting_row SET due_at = now() WHERE tries = 0")
    tables.server.serve()
    tables.connection.execute("DELETE FROM headrace.waiting_row WHERE tries = 1")
    tables.connection.execute("INSERT INTO site VALUES ('a')")
    tables.server.serve()
    assert len(tables.waiting()) == 1
    tables.server.begin()
    tables.server.serve()
    assert tables.waiting() == []


def test_of_lines_that_are_served_together_each_is_served_to_its_end(tables: Store) -> None:
    tables.connection.execute("CREATE TABLE site (id text)")
    tables.refuses("event", _KNOWN.format(column="entity_id"))
    tables.writer.write([_event(n, "a" if n else "b") for n in range(70)])
    tables.serve()  # those behind the first have no time of their own now
    tables.connection.execute("INSERT INTO site VALUES ('a'), ('b')")
    tables.connection.execute("UPDATE headrace.waiting_row SET due_at = now() WHERE tries > 0")
    tables.server.serve()
    assert (tables.waiting(), len(tables.stored())) == ([], 70)


def test_together_lines_take_no_more_bytes_than_a_chunk_and_lose_no_turn(
    tables: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.refuses("event", "RAISE EXCEPTION 'no';")
    rows = [_event(n, "abcd"[n % 4]) for n in range(40)]
    tables.writer.write(rows)
    tables.serve()
    tables.connection.execute("DROP TRIGGER own ON headrace.event")
    tables.connection.execute("UPDATE headrace.waiting_row SET due_at = now() WHERE tries > 0")
    monkeypatch.setattr(line_server, "CHUNK_BYTES_MAX", 3 * len(rows[0].record.value or b""))
    written: list[int] = []
    write = TableWriter.write

    def counted(self: TableWriter, given: Iterable[Row]) -> Written:
        some = list(given)
        written.append(len(some))
        return write(self, some)

    monkeypatch.setattr(TableWriter, "write", counted)
    tables.server.serve()
    assert (tables.waiting(), len(tables.stored())) == ([], 40)
    assert max(written) <= 4


def test_a_line_keeps_what_it_has_locked_no_longer_than_for_a_try(
    tables: Store, postgres_url: str
) -> None:
    """Rows of its first tries are there for all while a later one takes long."""
    tables.refuses("event", "RAISE EXCEPTION 'no';")
    tables.writer.write([_event(n, "a") for n in range(3)])
    (last,) = _ids([_event(2, "a")])
    tables.connection.execute(
        f"""CREATE OR REPLACE FUNCTION own() RETURNS trigger LANGUAGE plpgsql AS $own$
            BEGIN IF NEW.event_id = '{last}' THEN PERFORM pg_sleep(1.5); END IF;
            RETURN NEW; END $own$""".encode()
    )
    serving = threading.Thread(target=tables.serve)
    with store.connect(postgres_url, "test") as other:
        serving.start()
        until_s = time.monotonic() + 10
        seen = 0
        while serving.is_alive() and time.monotonic() < until_s and not seen:
            (seen,) = other.execute(b"SELECT count(*) FROM headrace.event").fetchone() or (0,)
            time.sleep(0.02)
        is_still_at_work = serving.is_alive()
        serving.join()
    assert (seen, is_still_at_work) == (1, True)
    assert tables.waiting() == []


def test_a_check_that_is_deferred_to_the_end_makes_its_line_wait_and_no_other(
    tables: Store,
) -> None:
    tables.connection.execute(
        """CREATE TABLE site (id text PRIMARY KEY);
           ALTER TABLE headrace.event ADD FOREIGN KEY (entity_id) REFERENCES site
               DEFERRABLE INITIALLY DEFERRED"""
    )
    assert tables.writer.write([_event(n, "ab"[n % 2]) for n in range(4)]) == Written(waiting=4)
    tables.serve()
    tables.connection.execute("INSERT INTO site VALUES ('b')")
    tables.serve()
    assert tables.waiting() == [("a", 0), ("a", 2)]


def test_without_rules_what_may_pass_is_parked_and_can_be_sent_on_again(
    tables: Store, postgres_url: str
) -> None:
    """The desk writes so: whoever asks for it hears at once what came of it."""
    tables.refuses("event", "RAISE EXCEPTION 'no';")
    writer = EventStore(postgres_url)
    assert writer.write([_event(0, "a")]) == Written(parked=1)
    assert tables.waiting() == []
    writer.close()
