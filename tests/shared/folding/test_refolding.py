"""The refold of one entity while fold goes on: what it makes, and the protocol under every order of
batches, answers, crashes and lost checkpoints."""

import random
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from shared.events.envelope import EventRecord, Position, event_value
from shared.flow import FLOW
from shared.folding import refolding, snapshot
from shared.folding.applier import Applier
from shared.folding.refolding import (
    RefoldAnswer,
    Request,
    answer_value,
    read_answer,
    read_request,
    request_value,
)
from shared.folding.snapshot import Snapshot
from tests.builders import event_record
from tests.oracle import expected_states

DEVICE = FLOW.entities[0]
APPLIER = Applier(DEVICE, 64, {row.name: row for row in FLOW.event_types})
ID = "device-0001"
LOG = "event.reading.v1/0"


def _refolded(log: Sequence[EventRecord], **asked: int) -> Snapshot:
    return _answer(log, **asked).snapshot


def _answer(log: Sequence[EventRecord], **asked: int) -> RefoldAnswer:
    positions = {LOG: max(record.position.offset for record in log)}
    request = Request("device", ID, positions, asked or {"x": 1})
    return refolding.refold(APPLIER, request, log)


def _again(record: EventRecord, offset: int, value: float, **changes: Any) -> EventRecord:
    place = Position("event.reading.v1", 0, offset)
    data = {**record.data, "value": value}
    return record._replace(position=place, data=data, attempt=1, **changes)


def _plain(events: Sequence[EventRecord]) -> dict[str, Any]:
    return expected_states([orjson.loads(event_value(record)) for record in events])[ID]


def _values(log: Sequence[EventRecord]) -> list[float]:
    return [candidates[0].data["value"] for candidates in refolding.in_effect(log)]


def test_each_event_stands_once_in_its_highest_revision_where_it_first_stood() -> None:
    log = [
        event_record(0, value=1.0),
        event_record(1, value=2.0),
        event_record(2, id="event-0", value=3.0, revision=2, attempt=1, origin=0),
        event_record(3, value=4.0),
        event_record(4, id="event-0", value=5.0, revision=1, attempt=1, origin=0),
        event_record(5, id="event-1", value=6.0, origin=1),  # a second writing
    ]
    assert _values(log) == [3.0, 2.0, 4.0]
    assert _values(log[::-1]) == [3.0, 2.0, 4.0]


def test_what_was_sent_on_again_stands_before_what_it_was_older_than() -> None:
    log = [
        event_record(0, value=0.0, origin=0),
        event_record(1, value=3.0, origin=3),
        event_record(2, value=2.0, origin=2, attempt=1),
        event_record(3, value=4.0, origin=4),
        event_record(4, value=1.0, origin=1, attempt=1),
        event_record(5, value=5.0, origin=5, attempt=1),
        event_record(6, value=9.0, origin=9, attempt=1, id="other")._replace(
            origin=Position("ingest.telemetry.v1", 1, 0)
        ),
    ]
    assert _values(log) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 9.0]


def test_a_refold_is_what_the_fold_of_the_corrected_log_is() -> None:
    log = [event_record(i, value=float(i * 10)) for i in range(10)]
    correction = _again(log[9], 10, 5.0, revision=1)
    now = _refolded([*log, correction])
    right = [*log[:9], log[9]._replace(data=correction.data)]
    assert now.state == _plain(right)
    direct = APPLIER.apply(ID, None, right).snapshot
    assert direct is not None
    assert (now.marks, now.rings, now.newest) == (direct.marks, direct.rings, direct.newest)
    assert now.corrections == {"event-9": 1}


def test_what_follows_from_a_correction_is_emitted_under_its_revision_and_nothing_else() -> None:
    log = [event_record(0, value=90.0), event_record(1, value=10.0)]
    correction = _again(log[1], 2, 20.0, revision=1)
    answer = _answer([*log, correction], **{"event-1": 1})
    cleared = APPLIER.apply(ID, None, log).emitted[-1]
    (emitted,) = answer.follows
    assert (emitted.id, emitted.type, emitted.revision) == (cleared.id, "alarm_cleared", 1)


@pytest.mark.parametrize("loss", ["another is asked for", "too much is held", "the checkpoint"])
def test_what_follows_from_what_came_during_a_refold_is_emitted_whatever_becomes_of_it(
    loss: str,
) -> None:
    log = [event_record(n, value=10.0) for n in range(200)]
    log += [_again(log[0], 200, 10.0), event_record(201, value=95.0)]
    now = APPLIER.apply(ID, None, log[:200]).snapshot
    now = APPLIER.apply(ID, now, log[200:201]).snapshot  # it asks
    assert now is not None
    held = APPLIER.apply(ID, now, log[201:]).held
    assert held == log[201:]
    match loss:
        case "another is asked for":
            log.append(_again(log[1], 202, 10.0))
            now = APPLIER.apply(ID, now, [*held, log[-1]]).snapshot or now
        case "too much is held":
            refolding.give_up(now, held)
        case _:
            refolding.start_from(now, {LOG: 202})
    now = snapshot.decode(snapshot.encode(now, "fold"))
    request = read_request(request_value(refolding.request_of("device", ID, now)))
    answer, _ = read_answer(answer_value(refolding.refold(APPLIER, request, log), "fold"))
    applied = refolding.taken(APPLIER, now, [], answer)
    assert applied is not None
    assert [(record.type, record.cause) for record in applied.emitted] == [
        ("alarm_raised", "event-201")
    ]


def test_a_request_of_an_earlier_version_emits_what_it_was_asked_for_alone() -> None:
    log = [event_record(0, value=90.0), event_record(1, value=10.0)]
    asks = Snapshot({}, positions={LOG: 2}, asked={"event-1": 1})
    value = snapshot.encode(asks, "fold")
    request = refolding.request_of("device", ID, snapshot.decode(value))
    answer = refolding.refold(APPLIER, request, [*log, _again(log[1], 2, 20.0, revision=1)])
    assert [record.cause for record in answer.follows] == ["event-1"]


def test_a_correction_that_the_fold_does_not_take_is_told_and_the_next_attempt_is_tried() -> None:
    broken = event_record(0, id="a", revision=1, attempt=1)._replace(data={})
    mended = event_record(3, id="a", revision=1, attempt=2, value=7.0)
    request = Request("device", ID, {LOG: 3}, {"a": 1})
    answer = refolding.refold(APPLIER, request, [broken])
    assert [parked.reason for parked in answer.parked] == ["fold_failed"]
    assert read_answer(answer_value(answer, "fold"))[0].parked == answer.parked
    whole = refolding.refold(APPLIER, request, [broken, mended])
    assert (whole.parked, whole.snapshot.state["value"]) == ([], 7.0)


def test_an_answer_to_what_is_no_longer_asked_is_passed_over() -> None:
    asks = Snapshot({}, positions={LOG: 5}, asked={"a": 1})
    old = refolding.refold(APPLIER, Request("device", ID, {LOG: 4}, {"a": 1}), [event_record(1)])
    assert refolding.taken(APPLIER, asks, [], old) is None
    right = refolding.refold(APPLIER, Request("device", ID, {LOG: 5}, {"a": 1}), [event_record(1)])
    assert refolding.taken(APPLIER, Snapshot({}, positions={LOG: 5}), [], right) is None
    applied = refolding.taken(APPLIER, asks, [event_record(6)], right)
    assert applied is not None
    assert applied.snapshot is not None
    assert (applied.snapshot.version, applied.snapshot.state["count"]) == (2, 2)


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"entity": 1}', b"null"])
def test_what_is_no_request_or_answer_is_told(value: bytes) -> None:
    for read in (read_request, read_answer):
        with pytest.raises(ValueError, match=r"."):
            read(value)


class Job:
    """fold for one entity: what it keeps in its checkpoint, what it has published."""

    def __init__(self, log: Sequence[EventRecord], dice: random.Random) -> None:
        self._log, self._dice = log, dice
        self.read = 0  # of the log, by its checkpoint
        self._now: bytes | None = None
        self._held: list[EventRecord] = []
        self.committed = 0
        self.published: bytes | None = None
        self.request: bytes | None = None
        self.answers: list[bytes] = []
        self._answers_read = 0

    def batch(self) -> None:
        count = self._dice.randrange(5)
        records = list(self._log[self.read : self.read + count])
        answers = self.answers[self._answers_read :]
        kept = self._run(records, answers)
        if self._dice.random() < 0.15:
            return  # killed: what it has written is there, and it does not know
        self._now, self._held = kept
        self.read += len(records)
        self._answers_read = len(self.answers)
        if self._dice.random() < 0.8:
            self.committed = self.read

    def _run(
        self, records: Sequence[EventRecord], answers: Sequence[bytes]
    ) -> tuple[bytes | None, list[EventRecord]]:
        now = snapshot.decode(self._now) if self._now else None
        held = list(self._held)
        for value in answers:
            answer, _ = read_answer(value)
            applied = refolding.taken(APPLIER, now, held, answer) if now else None
            if applied is not None:
                now, held = applied.snapshot, list(applied.held)
                self._publish(now, asks=applied.asks)
        applied = APPLIER.apply(ID, now, [*held, *records])
        now, held = applied.snapshot or now, list(applied.held)
        asks = applied.asks
        if now is not None and len(held) > 6:
            refolding.give_up(now, held)
            held, asks = [], True
        if applied.snapshot is not None or asks:
            self._publish(now, asks=asks)
        return snapshot.encode(now, "fold") if now else None, held

    def _publish(self, now: Snapshot | None, *, asks: bool) -> None:
        assert now is not None
        before = snapshot.decode(self.published) if self.published else None
        assert before is None or now.version >= before.version or self._redone(before)
        self.published = snapshot.encode(now, "fold")
        if asks:
            self.request = request_value(refolding.request_of("device", ID, now))
        elif not now.asked:
            self.request = None

    def _redone(self, before: Snapshot) -> bool:
        """After a kill it does again what it had published already."""
        return self._now is not None or before.version > 0

    def answer(self) -> None:
        """By a refolder that may be late, and may answer twice."""
        if self.request is not None:
            request = read_request(self.request)
            log = [r for r in self._log if r.position.offset <= request.positions.get(LOG, -1)]
            answer = refolding.refold(APPLIER, request, log)
            self.answers += [answer_value(answer, "fold")] * self._dice.choice((1, 1, 2))

    def lose_checkpoint(self) -> None:
        self.read, self._held = self.committed, []
        now = snapshot.decode(self.published) if self.published else None
        if now is not None:
            refolding.start_from(now, {LOG: self.read})
            if now.asked:
                self.request = request_value(refolding.request_of("device", ID, now))
        self._now = snapshot.encode(now, "fold") if now else None

    @property
    def is_done(self) -> bool:
        now = snapshot.decode(self._now) if self._now else None
        return self.read == len(self._log) and now is not None and not now.asked

    @property
    def state(self) -> dict[str, Any]:
        assert self.published is not None
        return snapshot.decode(self.published).state


def _schedule(dice: random.Random) -> tuple[list[EventRecord], list[EventRecord]]:
    """What is right in the end, and a log in which some of it came later and some was wrong."""
    right = [
        event_record(i, value=dice.choice((5.0, 30.0, 70.0, 90.0)))
        for i in range(dice.randint(1, 30))
    ]
    writings: list[tuple[float, EventRecord]] = []
    for number, record in enumerate(right):
        place = float(number)
        revision = dice.choice((0, 0, 0, 0, 1, 2))
        if dice.random() < 0.15:
            place += dice.random() * 20  # sent on again
            record = record._replace(attempt=1)
        for its in range(revision + 1):
            data = record.data if its == revision else {**record.data, "value": 50.0 + its}
            attempt = max(record.attempt, int(its > 0))
            writing = record._replace(data=data, revision=its, attempt=attempt)
            writings += [(place + its * dice.random() * 10, writing)] * dice.choice((1, 1, 1, 2))
    writings.sort(key=lambda one: one[0])
    return right, [
        record._replace(position=Position("event.reading.v1", 0, offset))
        for offset, (_, record) in enumerate(writings)
    ]


@pytest.mark.slow
def test_whatever_happens_in_whatever_order_the_state_is_the_right_one_in_the_end() -> None:
    for seed in range(400):
        dice = random.Random(seed)
        right, log = _schedule(dice)
        job = Job(log, dice)
        for _ in range(400):
            step = dice.random()
            if step < 0.6:
                job.batch()
            elif step < 0.95:
                job.answer()
            else:
                job.lose_checkpoint()
        while not job.is_done:
            job.batch()
            job.answer()
        assert job.state == _plain(right), seed
