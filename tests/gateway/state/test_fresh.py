"""A snapshot and the events after it, as `GET /state/{id}?fresh=true` shows them."""

import asyncio
import threading
from collections.abc import Iterable

import pytest

from gateway.state import fresh as fresh_state
from gateway.state.event_tail import Tail, TailRecord
from gateway.state.event_tail_reader import NotFresh
from gateway.state.fresh import FreshStates, Shown
from gateway.state_view.reader import Found
from shared.events.envelope import EventRecord, event_value
from shared.flow import FLOW
from shared.folding import snapshot
from shared.folding.applier import Applied, Applier
from shared.folding.code_fingerprint import entity_fingerprint
from shared.folding.snapshot import Snapshot
from tests.builders import event_record

DEVICE, AREA = FLOW.entities[0], FLOW.aggregates[0]
ID = "device-0001"
HELD_ELSEWHERE = "device-0002"
APPLIER = Applier(DEVICE, 64, {row.name: row for row in FLOW.event_types})


class Follower:
    """Of a tail that is known after so many questions."""

    def __init__(self, questions: int = 0) -> None:
        self.tail = Tail()
        self._questions = questions

    def ask(self) -> str | None:
        self._questions -= 1
        return "not yet" if self._questions >= 0 else None

    def covers(self, _topic: str, key: bytes) -> bool:
        return key != HELD_ELSEWHERE.encode()


def fresh(follower: Follower, events_max: int = 2000) -> FreshStates:
    return FreshStates(FLOW, follower, 64, events_max)  # type: ignore[arg-type]


def published(*records: EventRecord, fold: str = entity_fingerprint(DEVICE)) -> Found:
    now = APPLIER.apply(ID, None, records).snapshot
    assert now is not None
    return Found(snapshot.encode(now, fold), 5, 2, 17)


def written(record: EventRecord) -> TailRecord:
    return TailRecord(record.position, event_value(record), record.arrived_ms)


def shown(found: Found | None, *tail: TailRecord) -> Shown:
    return asyncio.run(fresh(Follower()).state(DEVICE, ID, found, tail))


def test_it_is_what_fold_will_publish_however_far_the_tail_reaches_back() -> None:
    events = [event_record(number, value=10.0 * number) for number in range(9)]
    all_of_them = published(*events).value
    for known in range(1, 9):
        for begin in range(known + 1):
            tail = [written(event) for event in events[begin:]]
            found, ahead, why_not = shown(published(*events[:known]), *reversed(tail))
            assert found is not None
            assert _state(found.value) == _state(all_of_them)
            assert (ahead, why_not) == (9 - known, None)
    first = shown(None, *map(written, events))
    assert first.found is not None
    assert _state(first.found.value) == _state(all_of_them)


def test_without_news_the_snapshot_is_the_newest() -> None:
    known = published(event_record(1))
    assert shown(known) == Shown(known, events=0)
    assert shown(known, written(event_record(1))) == Shown(known, events=0)
    assert shown(None) == Shown(None, events=0)


def test_what_is_none_of_its_events_is_passed_over() -> None:
    known = published(event_record(1))
    others = [
        TailRecord(event_record(2).position, b"no event", 1),
        written(event_record(3, entity_id="device-0002")),
        written(event_record(4, type="alarm_raised")),
    ]
    assert shown(known, *others) == Shown(known, events=0)


def test_an_event_that_the_fold_will_park_changes_nothing_but_is_known() -> None:
    bad = event_record(2)._replace(data={"no": "value"})
    found, ahead, _ = shown(published(event_record(1)), written(bad))
    assert found is not None
    assert _state(found.value) == _state(published(event_record(1), bad).value)
    assert ahead == 1


def test_a_snapshot_of_another_fold_is_shown_as_it_is() -> None:
    known = published(event_record(1), fold="another")
    assert shown(known, written(event_record(2))) == Shown(
        known, why_not="its snapshot is of another fold than the gateway's"
    )


def test_what_is_folded_anew_is_shown_as_it_was() -> None:
    known = published(event_record(1), event_record(2))
    correction = event_record(3, id="event-1", revision=1)
    of_it = "it is being folded anew, for an event came out of turn"
    assert shown(known, written(correction)) == Shown(known, why_not=of_it)
    asking = published(event_record(1), event_record(2), correction)
    assert shown(asking, written(event_record(4))) == Shown(asking, why_not=of_it)


def test_the_first_who_asks_waits_for_the_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower(questions=3)
    follower.tail.put(ID.encode(), written(event_record(1)))
    assert asyncio.run(fresh(follower).tail_of(DEVICE, ID)) == [written(event_record(1))]

    monkeypatch.setattr(fresh_state, "_WAITS_S", 0.05)
    with pytest.raises(NotFresh, match="not yet"):
        asyncio.run(fresh(Follower(questions=1000)).tail_of(DEVICE, ID))
    with pytest.raises(NotFresh, match="another gateway holds this state"):
        asyncio.run(fresh(Follower()).tail_of(DEVICE, HELD_ELSEWHERE))


def test_an_aggregate_has_no_tail() -> None:
    with pytest.raises(NotFresh, match="area is added up from snapshots"):
        asyncio.run(fresh(Follower()).tail_of(AREA, "area-01"))


class Watched(Applier):
    """Notes how many events each step has, and who folds them; may be held up."""

    def __init__(self) -> None:
        super().__init__(APPLIER.entity, APPLIER.ring_size, APPLIER.event_types)
        vars(self).update(steps=[], threads=set(), may_go_on=threading.Event())
        self.may_go_on.set()

    steps: list[int]
    threads: set[int]
    may_go_on: threading.Event

    def apply(
        self, entity_id: str, snapshot: Snapshot | None, records: Iterable[EventRecord]
    ) -> Applied:
        assert self.may_go_on.wait(10), "the loop stood still while it was folding"
        known = [*records]
        self.steps.append(len(known))
        self.threads.add(threading.get_ident())
        return super().apply(entity_id, snapshot, known)


def watched(events_max: int = 2000) -> tuple[FreshStates, Watched]:
    states, applier = fresh(Follower(), events_max), Watched()
    states._appliers[DEVICE.name] = applier
    return states, applier


def hot(first: int, last: int) -> list[TailRecord]:
    return [written(event_record(number, value=1.0)) for number in range(first, last + 1)]


def test_the_loop_goes_on_while_a_hot_entity_is_folded_a_few_events_at_a_time() -> None:
    states, applier = watched()

    async def asks() -> Shown:
        applier.may_go_on.clear()
        folding = asyncio.ensure_future(states.state(DEVICE, ID, None, hot(1, 2000)))
        for _ in range(100):  # others are answered
            await asyncio.sleep(0)
        assert not folding.done()
        applier.may_go_on.set()
        return await folding

    assert asyncio.run(asks()).events == 2000
    assert max(applier.steps) <= 25
    assert threading.get_ident() not in applier.threads


def test_what_is_too_far_ahead_is_not_folded_at_all() -> None:
    states, applier = watched(events_max=10)
    known = published(event_record(1))
    overlap = asyncio.run(states.state(DEVICE, ID, known, hot(1, 11)))
    assert overlap.events == 10
    applier.steps.clear()
    too_far = asyncio.run(states.state(DEVICE, ID, known, hot(1, 12)))
    why = "11 events wait to be folded, HEADRACE_FRESH_EVENTS_MAX allows 10"
    assert too_far == Shown(known, why_not=why)
    assert applier.steps == []


def test_the_next_question_folds_only_what_has_come_since() -> None:
    states, applier = watched()
    known = published(event_record(1))
    for last in (40, 40, 43):
        found, ahead, _ = asyncio.run(states.state(DEVICE, ID, known, hot(1, last)))
        assert found is not None
        assert ahead == last - 1
        whole = published(*(event_record(number, value=1.0) for number in range(2, last + 1)))
        assert snapshot.decode(found.value).state["value"] == 1.0
        assert snapshot.decode(found.value).version == snapshot.decode(whole.value).version + 1
    assert sum(applier.steps) == 42
    newer = known._replace(offset=18)  # fold has published another one
    assert asyncio.run(states.state(DEVICE, ID, newer, hot(1, 43))).events == 42
    assert sum(applier.steps) == 84


def test_of_too_many_at_once_some_get_the_snapshot_and_a_reason() -> None:
    states, applier = watched()
    known = published(event_record(1))

    async def ask_all() -> list[Shown]:
        applier.may_go_on.clear()
        asked = [
            asyncio.ensure_future(states.state(DEVICE, f"{ID}-{n}", None, hot(2, 3)))
            for n in range(16)
        ]
        await asyncio.sleep(0)
        one_more = await states.state(DEVICE, ID, known, hot(2, 3))
        asked[-1].cancel()  # its client has gone
        applier.may_go_on.set()
        await asyncio.wait(asked)
        return [one_more, await states.state(DEVICE, ID, known, hot(2, 3))]

    one_more, later = asyncio.run(ask_all())
    assert one_more == Shown(known, why_not="too many fresh states are asked for at once")
    assert later.events == 2


def _state(value: bytes) -> tuple[object, object]:
    known = snapshot.decode(value)
    known.emissions = []  # of one batch, which ends elsewhere here
    return known, snapshot.decode_with_fold(value)[1]
