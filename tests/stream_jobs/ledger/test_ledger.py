"""The ledger over a real broker and PostgreSQL; what the jobs do is done by hand."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from clients.kafka.create_topics import ensure_topics
from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Record
from clients.postgres import store
from shared.consumer_groups import of_job
from shared.errors import StoreAwayError
from shared.events.envelope import Position
from shared.flow import load_flow
from shared.published import ledger
from shared.published.ledger import TERMS
from shared.settings import JobSettings
from shared.topic_names import REPEAT_TOPIC
from stream_jobs.ledger.keeper import LedgerKeeper
from stream_jobs.ledger.tables import LedgerBook
from stream_jobs.persist.rows import EventRow
from stream_jobs.persist.writer import EventStore
from tests.kafka_log import eventually
from tests.stream_jobs.ledger_flow import FLOWS

pytestmark = pytest.mark.stack

MINUTE_MS = 60_000
FIRST_MINUTE = int(time.time() // 60) - 60  # the broker removes what is older than a month
_unused_flows = iter(FLOWS)


class Pipeline:
    """One partition of payloads and one of events, and what each job does with them."""

    def __init__(self, settings: JobSettings, flow_name: str) -> None:
        self.settings = settings.model_copy(
            update={"flow": f"tests.stream_jobs.ledger_flow:{flow_name}", "partitions": 1}
        )
        flow = load_flow(self.settings.flow)
        self.payloads, self.readings = flow.endpoints[0].topic, flow.event_types[0].topic
        kafka = {"bootstrap.servers": settings.kafka_bootstrap}
        # with times that a test may choose
        chosen = NewTopic(self.payloads, 1, config={"message.timestamp.type": "CreateTime"})
        self.admin = AdminClient(kafka)
        self.admin.create_topics([chosen])[self.payloads].result(60)
        ensure_topics(flow, self.settings)
        self.url = settings.postgres_url.get_secret_value()
        self.connection = store.connect(self.url, "test")
        self.store = EventStore(self.url)
        self._producer = Producer(kafka)
        self._received = self._events = 0
        self._keepers: list[LedgerKeeper] = []
        self.start_keeper()

    def close(self) -> None:
        for keeper in self._keepers:
            keeper.close()
        self.store.close()
        self.connection.close()

    def start_keeper(self) -> None:
        self.book = LedgerBook(self.connection)
        self.keeper = LedgerKeeper(self.settings, threading.Event(), self)
        self._keepers.append(self.keeper)
        eventually(self._goes_on)

    def _goes_on(self) -> bool:
        try:
            self.keeper.go_on(self.book)
        except KafkaException:  # a topic that was made just now has no leader yet
            return False
        return True

    def report(self, _state: str, _detail: str = "", **_numbers: Any) -> None: ...

    def receive(self, number: int, minute: int = 0) -> range:
        time_ms = (FIRST_MINUTE + minute) * MINUTE_MS
        for _ in range(number):
            self._producer.produce(self.payloads, b"{}", b"d", 0, timestamp=time_ms)
        self._producer.flush(60)
        self._received += number
        return range(self._received - number, self._received)

    def enrich(self, events: int, waits: range = range(0), parks: range = range(0)) -> None:
        for _ in range(events):
            self._producer.produce(self.readings, b"{}", b"d", 0)
        for lane, places in (("retry.enrich.v1", waits), ("dlq.enrich.v1", parks)):
            for place in places:
                headers = [("ce_origin", f"{self.payloads}/0/{place}".encode())]
                self._producer.produce(lane, b"{}", b"d", headers=headers)
        self._producer.flush(60)
        self._events += events
        self._has_done("enrich", self.payloads, self._received)

    def fold(self, knows: range = range(0)) -> None:
        value = ledger.repeats_value((Position(self.payloads, 0, place), None) for place in knows)
        self._producer.produce(REPEAT_TOPIC, value, b"d")
        self._producer.flush(60)
        self._has_done("fold", self.readings, self._events)

    def persist(self, *rows: EventRow) -> None:
        self.store.write(rows)
        self._has_done("persist", self.readings, self._events)

    def _has_done(self, job: str, topic: str, end: int) -> None:
        offsets = LogOffsets(self.settings.kafka, of_job(job))
        offsets.commit({topic: {0: end}}, "")
        offsets.close()

    def row(self, place: int, event_id: str | None = None, payload: str = "1") -> EventRow:
        origin = Position(self.payloads, 0, place)
        return EventRow(
            Record(Position(self.readings, 0, 1_000 + place), b"d", b"{}", []),
            event_id or f"e{place}",
            "reading",
            "d",
            1_000,
            2_000,
            str(origin),
            payload * 64,
            "{}",
            "completion.reading.v1",
            [("ce_id", b"c")],
            origin,
        )

    def rows(self, places: range) -> list[EventRow]:
        return [self.row(place) for place in places]

    def keep(self) -> dict[str, int]:
        """A cut that was taken in one round is passed in the next."""
        for _ in range(3):
            eventually(lambda: not self.keeper.keep(self.book))
        return self.terms()

    def terms(self) -> dict[str, int]:
        return {
            term: number
            for term, number in ledger.balance(*self.book.totals()[self.payloads]).items()
            if number
        }

    def minutes(self) -> dict[int, dict[str, int]]:
        names = [term for term in TERMS if term != "in_flight"]
        query = f"SELECT minute, {', '.join(names)} FROM headrace.ledger_minute WHERE topic = %s"
        rows = self.connection.execute(query.encode(), (self.payloads,))
        return {
            minute - FIRST_MINUTE: {n: c for n, c in zip(names, counts, strict=True) if c}
            for minute, *counts in rows
        }


@pytest.fixture
def pipeline(job_settings: JobSettings) -> Iterator[Pipeline]:
    pipeline = Pipeline(job_settings, next(_unused_flows))
    yield pipeline
    pipeline.close()


def _go_through(pipeline: Pipeline) -> None:
    """What devices and jobs do; done twice, the jobs' part is a replay of it."""
    repeats = [pipeline.row(place, f"e{place - 90}") for place in range(90, 115)]
    reused = [pipeline.row(place, f"e{place - 90}", payload="2") for place in range(115, 120)]
    pipeline.enrich(events=90, waits=range(60, 70), parks=range(70, 90))
    pipeline.fold(knows=range(95, 120))
    pipeline.persist(*pipeline.rows(range(60)), *repeats, *reused)


def _receive(pipeline: Pipeline) -> None:
    pipeline.receive(60)
    pipeline.receive(50, minute=1)
    pipeline.receive(10, minute=30)


IN_THE_END = {
    "received": 120,
    "stored": 60,
    "duplicate": 20,
    "late_duplicate": 5,
    "waiting": 10,
    "parked": 25,
}
BY_MINUTE = {
    0: {"received": 60, "stored": 60},
    1: {"received": 50, "waiting": 10, "parked": 20, "late_duplicate": 5, "duplicate": 15},
    30: {"received": 10, "duplicate": 5, "parked": 5},
}


def test_every_payload_stands_in_the_one_term_and_minute_where_it_belongs(
    pipeline: Pipeline,
) -> None:
    _receive(pipeline)
    assert pipeline.keep() == {"received": 120, "in_flight": 120}
    _go_through(pipeline)
    assert pipeline.keep() == IN_THE_END
    assert pipeline.minutes() == BY_MINUTE
    assert pipeline.connection.execute("SELECT FROM headrace.ledger_journal").rowcount == 0


def test_a_payload_that_nobody_tells_of_is_a_difference_as_long_as_that_is_so(
    pipeline: Pipeline,
) -> None:
    pipeline.receive(20)
    pipeline.enrich(events=10)
    pipeline.fold()
    pipeline.store.write(pipeline.rows(range(10)))
    assert pipeline.keep() == {"received": 20, "stored": 10, "in_flight": 10}
    pipeline.enrich(events=10)
    pipeline.persist(*pipeline.rows(range(11, 20)))
    assert pipeline.keep() == {"received": 20, "stored": 19, "difference": 1}
    (lost,) = pipeline.book.missing(5)
    assert lost == Position(pipeline.payloads, 0, 10)
    pipeline.receive(5)  # under load, too
    assert pipeline.keep() == {"received": 25, "stored": 19, "difference": 1, "in_flight": 5}
    pipeline.persist(pipeline.row(10))
    assert pipeline.keep() == {"received": 25, "stored": 20, "in_flight": 5}


@pytest.mark.parametrize(
    "removal", ["DELETE FROM headrace.event WHERE event_id < 'e3'", "TRUNCATE headrace.event"]
)
def test_a_row_that_is_removed_is_a_difference_until_it_is_there_again(
    pipeline: Pipeline, removal: str
) -> None:
    pipeline.receive(5)
    pipeline.enrich(events=5)
    pipeline.persist(*pipeline.rows(range(5)))
    assert pipeline.keep() == {"received": 5, "stored": 5}
    pipeline.connection.execute(removal.encode())
    left = 0 if "TRUNCATE" in removal else 2
    gone = {"received": 5, "stored": left, "difference": 5 - left}
    assert pipeline.keep() == {term: number for term, number in gone.items() if number}
    pipeline.persist(*pipeline.rows(range(5)))
    assert pipeline.keep() == {"received": 5, "stored": 5}


def test_jobs_that_begin_anew_and_a_keeper_that_reads_all_again_change_no_number(
    pipeline: Pipeline,
) -> None:
    _receive(pipeline)
    _go_through(pipeline)
    assert pipeline.keep() == IN_THE_END
    _go_through(pipeline)  # each without its checkpoint
    pipeline.connection.execute("DELETE FROM headrace.ledger_lane")
    pipeline.start_keeper()
    assert pipeline.keep() == IN_THE_END
    assert pipeline.minutes() == BY_MINUTE


def test_a_posting_that_breaks_is_posted_again_and_counts_once(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    _receive(pipeline)
    _go_through(pipeline)
    save, saved = LedgerBook._save, []

    def breaks(book: LedgerBook, statement: str, rows: list[tuple[Any, ...]]) -> None:
        save(book, statement, rows)
        saved.append(statement)
        if len(saved) == 5:
            pipeline.connection.close()

    monkeypatch.setattr(LedgerBook, "_save", breaks)
    with pytest.raises(StoreAwayError):
        pipeline.keep()
    monkeypatch.undo()
    pipeline.connection = store.connect(pipeline.url, "test")
    pipeline.start_keeper()
    assert pipeline.keep() == IN_THE_END
    assert pipeline.minutes() == BY_MINUTE


def test_what_the_store_refuses_is_parked_as_the_payload_that_it_was(pipeline: Pipeline) -> None:
    pipeline.receive(3)
    pipeline.enrich(events=3)
    refused = pipeline.row(1)._replace(data='{"value": 1e200000}')
    pipeline.persist(pipeline.row(0), refused, pipeline.row(2))
    assert pipeline.keep() == {"received": 3, "stored": 2, "parked": 1}


def test_repeats_that_were_removed_because_they_are_old_hold_nobody_up(
    pipeline: Pipeline,
) -> None:
    pipeline.receive(1)
    pipeline.fold(knows=range(1))
    partitions = pipeline.admin.list_topics(REPEAT_TOPIC).topics[REPEAT_TOPIC].partitions
    ends = [TopicPartition(REPEAT_TOPIC, number, OFFSET_END) for number in partitions]
    for removed in pipeline.admin.delete_records(ends).values():
        removed.result(60)
    pipeline.start_keeper()
    pipeline.enrich(events=1)
    pipeline.persist(pipeline.row(0))
    assert pipeline.keep() == {"received": 1, "stored": 1}


def test_where_rows_were_there_before_it_the_ledger_begins_with_what_comes_next(
    pipeline: Pipeline,
) -> None:
    pipeline.receive(20)
    pipeline.enrich(events=20)
    pipeline.persist(*pipeline.rows(range(15)))
    pipeline.connection.execute("UPDATE headrace.ledger_state SET whole_log = false")
    assert pipeline.keep() == {}
    pipeline.receive(10, minute=1)
    pipeline.enrich(events=10)
    pipeline.persist(*pipeline.rows(range(10, 30)))
    assert pipeline.keep() == {"received": 10, "stored": 10}
    assert pipeline.minutes() == {1: {"received": 10, "stored": 10}}


def test_events_that_came_from_no_payload_are_counted_apart(pipeline: Pipeline) -> None:
    pipeline.receive(2)
    pipeline.enrich(events=2)
    raised = pipeline.row(0, "raised")
    raised = raised._replace(ledger_place=raised.record.position)
    again = raised._replace(
        record=raised.record._replace(position=Position(pipeline.readings, 0, 5)),
        ledger_place=Position(pipeline.readings, 0, 5),
    )
    pipeline.persist(raised, again, *pipeline.rows(range(2)))
    assert pipeline.keep() == {"received": 2, "stored": 2}
    derived = pipeline.book.derived()
    assert (derived["stored"], derived["duplicate"], derived["difference"]) == (1, 1, 0)
