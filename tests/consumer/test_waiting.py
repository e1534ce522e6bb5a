"""What a consumer remembers, and how it waits: without Kafka."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from headrace_consumer import Consumer, Event, Position, RepeatFilter, Retry
from headrace_consumer.events import Record
from headrace_consumer.lines import Lines


def _event(number: int, revision: int = 0, kind: str = "reading") -> Event[Any]:
    name = f"event-{number}"
    place = Position("event.reading.v1", 0, number)
    return Event(name, kind, "device-0001", {}, 0, revision, place, {"ce_id": name.encode()})


def test_a_repeat_is_known_wherever_it_stands() -> None:
    seen = RepeatFilter()
    seen.add("billing", _event(1))
    elsewhere = Position("events.all.v1", 3, 99)
    again = Event("event-1", "reading", "device-0001", {}, 0, 0, elsewhere, {"ce_id": b"event-1"})
    assert seen.knows("billing", again)
    assert not seen.knows("billing", _event(2))
    assert not seen.knows("search", _event(1))


def test_a_correction_is_no_repeat() -> None:
    seen = RepeatFilter()
    seen.add("billing", _event(1))
    assert not seen.knows("billing", _event(1, revision=1))
    assert not seen.knows("billing", _event(1, kind="completion.reading"))


def test_what_has_no_id_is_never_a_repeat() -> None:
    seen = RepeatFilter()
    state = Event(
        "state.device.v1/0/1", "state.device.v1", "d", {}, None, 0, Position("s", 0, 1), {}
    )
    seen.add("billing", state)
    assert not seen.knows("billing", state)


def test_it_survives_its_process(tmp_path: Path) -> None:
    first = RepeatFilter(tmp_path / "seen.sqlite")
    first.add("billing", _event(1))  # it is not closed, as after a kill
    second = RepeatFilter(tmp_path / "seen.sqlite")
    assert second.knows("billing", _event(1))
    first.close()
    second.close()


@pytest.mark.parametrize("ids_max", [1, 10, 2500])
def test_it_knows_the_newest_ones_and_forgets_the_oldest(ids_max: int) -> None:
    seen = RepeatFilter(ids_max=ids_max)
    count = 2 * ids_max + 3000
    for number in range(count):
        seen.add("billing", _event(number))
    assert all(seen.knows("billing", _event(n)) for n in range(count - ids_max, count))
    (kept,) = seen._db.execute("SELECT count(*) FROM seen").fetchone()
    assert ids_max <= kept <= ids_max + 1000


def test_of_none_it_hides_nothing() -> None:
    seen = RepeatFilter(ids_max=0)
    seen.add("billing", _event(1))
    assert not seen.knows("billing", _event(1))


def test_pauses_grow_to_their_most_and_end_with_the_attempts() -> None:
    retry = Retry(attempts_max=5, first_pause_s=1, factor=3, pause_max_s=10)
    assert [retry.pause_s(n) for n in range(1, 7)] == [1, 3, 9, 10, None, None]
    assert Retry(attempts_max=10_000).pause_s(9_999) == 60


@pytest.mark.parametrize(
    "wrong", [{"attempts_max": 0}, {"first_pause_s": -1}, {"pause_max_s": -1}, {"factor": 0.5}]
)
def test_pauses_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"attempts_max is 0|pauses are not"):
        Retry(**wrong)


def _record(partition: int, offset: int) -> Record:
    return Record(Position("t", partition, offset), b"k", b"{}", [])


def test_a_line_waits_for_its_first_and_others_do_not() -> None:
    lines = Lines()
    for partition, offset in ((0, 5), (1, 8), (0, 6)):
        lines.add(_record(partition, offset))
    waiting = dict(lines.unfinished())
    waiting["t", 0].due_s = 107.0
    assert lines.wait_s(100.0, 5.0) == 0.0
    waiting["t", 1].done()
    assert [partition for partition, _ in lines.unfinished()] == [("t", 0)]
    assert lines.wait_s(100.0, 5.0) == 5.0
    assert lines.wait_s(105.0, 5.0) == 2.0
    assert (lines.firsts(), lines.ends()) == ({("t", 0): 5}, {("t", 0): 7})


def test_with_the_next_of_a_line_all_begins_anew() -> None:
    lines = Lines()
    lines.add(_record(0, 5))
    lines.add(_record(0, 6))
    ((_, line),) = lines.unfinished()
    line.attempts, line.due_s = 3, 99.0
    line.done()
    assert (line.records[0].position.offset, line.attempts, line.due_s) == (6, 0, 0.0)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"deliver": "exactly_once"}, "deliver is 'exactly_once': say 'at_least_once' or"),
        ({"topics": "event.reading.v1"}, "topics is 'event.reading.v1': name one or more"),
        ({"topics": []}, "name one or more, in a list"),
        ({"deliver": "at_most_once", "retry": Retry()}, "at_most_once tries nothing again"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(wrong: dict[str, Any], says: str) -> None:
    asked = {"topics": ["event.reading.v1"], "group": "g", "bootstrap": "127.0.0.1:1", **wrong}
    with pytest.raises(ValueError, match=says):
        Consumer(print, **asked)


def test_it_waits_for_a_kafka_that_is_away_and_ends_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quiet = {"log_level": 0}
    consumer = Consumer(print, topics=["t"], group="g", bootstrap="127.0.0.1:1", kafka=quiet)
    threading.Timer(0.3, consumer.stop).start()
    began_s = time.monotonic()
    consumer.run()
    assert time.monotonic() - began_s < 5
    assert "Kafka does not answer yet" in caplog.text
