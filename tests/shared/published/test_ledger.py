from itertools import pairwise

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.events.envelope import Position
from shared.published import ledger
from shared.published.ledger import PAGE_PLACES, Entry, Mark, Reached, Verdict

TOPIC = "ingest.a.v1"
EMPTY = bytes(PAGE_PLACES)
TOLD = [Verdict(n) for n in range(Verdict.WAITING, Verdict.STORED + 1)] + [Verdict.DROPPED]

offsets = st.integers(0, 3 * PAGE_PLACES) | st.integers(PAGE_PLACES - 3, PAGE_PLACES + 3)
facts = st.lists(st.tuples(offsets, st.sampled_from(TOLD)), max_size=60)


def _position(offset: int) -> Position:
    return Position(TOPIC, 0, offset)


def _posted(batches: list[list[tuple[int, Verdict]]], reached: Reached) -> dict[int, bytes]:
    pages: dict[int, bytes] = {}
    for batch in batches:
        for entry in ledger.entries((_position(offset), verdict) for offset, verdict in batch):
            number = entry.first // PAGE_PLACES
            pages[number] = ledger.post(pages.get(number, EMPTY), number, [entry], Reached())
    for number in {*pages, *range(reached.by_all // PAGE_PLACES + 1)}:
        pages[number] = ledger.post(pages.get(number, EMPTY), number, [], reached)
    return pages


@given(facts, st.data())
def test_whatever_is_told_again_and_however_it_is_cut_the_pages_are_the_same(
    told: list[tuple[int, Verdict]], data: st.DataObject
) -> None:
    replayed = data.draw(st.permutations([*told, *data.draw(st.lists(st.sampled_from(told)))]
                                         if told else []))  # fmt: skip
    cuts = sorted(data.draw(st.lists(st.integers(0, len(replayed)), max_size=5)))
    batches = [replayed[a:b] for a, b in pairwise([0, *cuts, len(replayed)])]
    reached = Reached(0, data.draw(offsets), data.draw(offsets))
    assert _posted(batches, reached) == _posted([told], reached)


@given(facts, offsets, offsets | st.just(0))
def test_every_place_that_was_heard_of_has_its_highest_verdict_and_no_other_has_one(
    told: list[tuple[int, Verdict]], by_all: int, begins: int
) -> None:
    highest = {
        offset: _highest({verdict for place, verdict in told if place == offset})
        for offset, _ in told
    }
    pages = _posted([told], Reached(begins, by_all))
    for number, page in pages.items():
        for at, verdict in enumerate(page):
            place = number * PAGE_PLACES + at
            nothing = Verdict.MISSING if place < by_all else Verdict.IN_FLIGHT
            expected = highest.get(place, nothing) if place >= begins else Verdict.IN_FLIGHT
            assert verdict == expected, place


def _highest(told: set[Verdict]) -> Verdict:
    for end in (Verdict.STORED, Verdict.DISCARDED):
        if end in told:
            return end
    if {Verdict.REUSED_KEY, Verdict.KNOWN_REPEAT} <= told:
        return Verdict.KNOWN_REUSED_KEY
    of_events = {verdict for verdict in told if verdict not in (Verdict.WAITING, Verdict.PARKED)}
    return max(of_events - {Verdict.DROPPED}, default=max(told))


def test_a_repeat_is_late_where_fold_has_gone_by_without_knowing_it() -> None:
    told = [(n, Verdict.REPEAT) for n in range(3)] + [(1, Verdict.KNOWN_REPEAT)]
    page = _posted([told], Reached(by_fold=2))[0]
    assert list(page[:3]) == [
        Verdict.LATE_REPEAT,
        Verdict.KNOWN_REPEAT,
        Verdict.REPEAT,
    ]
    told_after = Entry(TOPIC, 0, 0, bytes([Verdict.KNOWN_REPEAT]))
    assert ledger.post(page, 0, [told_after], Reached(by_fold=2))[0] == Verdict.KNOWN_REPEAT


def test_a_row_that_was_removed_leaves_its_payload_without_an_end_until_it_is_there_again() -> None:
    stored, gone = (
        Entry(TOPIC, 0, 5, bytes([verdict])) for verdict in (Verdict.STORED, Verdict.ROW_GONE)
    )
    reached = Reached(by_all=10)
    assert ledger.post(EMPTY, 0, [stored, gone], reached)[5] == Verdict.MISSING
    assert ledger.post(EMPTY, 0, [stored, gone, stored], reached)[5] == Verdict.STORED


@given(facts)
def test_entries_stay_within_a_page_and_name_only_what_was_told(
    told: list[tuple[int, Verdict]],
) -> None:
    places = {}
    for entry in ledger.entries((_position(offset), verdict) for offset, verdict in told):
        end = entry.first + len(entry.verdicts)
        assert entry.first // PAGE_PLACES == (end - 1) // PAGE_PLACES
        places |= {entry.first + at: v for at, v in enumerate(entry.verdicts) if v}
    assert places.keys() == {offset for offset, _ in told}


@given(facts, offsets, st.lists(st.integers(1, 2 * PAGE_PLACES), unique=True, max_size=8))
@settings(max_examples=50)
def test_counts_that_follow_each_change_are_those_of_the_pages(
    told: list[tuple[int, Verdict]], by_all: int, firsts: list[int]
) -> None:
    marks = [Mark(minute, first) for minute, first in enumerate(sorted([0, *firsts]))]
    by_minute = {mark: ledger.count(b"") for mark in marks}
    pages: dict[int, bytes] = {}
    steps = [(number, [entry]) for entry in ledger.entries(
        (_position(offset), verdict) for offset, verdict in told
    ) for number in [entry.first // PAGE_PLACES]]  # fmt: skip
    for number, entries in [*steps, *((n, []) for n in range(4))]:
        before = pages.get(number, EMPTY)
        after = ledger.post(before, number, entries, Reached(by_all=by_all))
        for mark, change in ledger.changes(before, after, number, marks):
            for term, more in change.items():
                by_minute[mark][term] += more
        pages[number] = after
    whole = b"".join(pages.get(number, EMPTY) for number in range(4))
    expected = {mark: ledger.count(whole[a:b]) for mark, a, b in ledger.spans(marks, 0, len(whole))}
    assert by_minute == expected


class Log:
    """A partition, as far as a broker tells of its times."""

    def __init__(self, minutes: list[int]) -> None:
        self._minutes = minutes
        self.asked = 0

    def first_at(self, minute: int) -> int | None:
        self.asked += 1
        return next((at for at, when in enumerate(self._minutes) if when >= minute), None)


@given(st.lists(st.integers(0, 30_000_000), min_size=1, max_size=20).map(sorted))
def test_marks_are_the_minutes_in_which_anything_came(minutes: list[int]) -> None:
    log = Log(minutes)
    first = ledger.mark_of(0, 0, log.first_at)
    marks = [first, *ledger.marks_after(first, log.first_at)]
    assert marks == [Mark(minute, minutes.index(minute)) for minute in sorted(set(minutes))]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.integers(1, 29))
def test_marks_do_not_change_as_the_log_grows_whatever_its_clock_did(
    minutes: list[int], cut: int
) -> None:
    def marks(minutes: list[int]) -> list[Mark]:
        log = Log(minutes)
        first = ledger.mark_of(0, 0, log.first_at)
        return [first, *ledger.marks_after(first, log.first_at)]

    early, late = marks(minutes[:cut]), marks(minutes)
    assert late[: len(early)] == early


def test_a_minute_after_the_other_costs_the_broker_few_questions() -> None:
    log = Log(list(range(1_000_000, 1_000_010)))
    first = Mark(1_000_000, 0)
    list(ledger.marks_after(first, log.first_at))
    assert log.asked <= 20


def test_the_terms_balance() -> None:
    counts = {**ledger.count(b""), "stored": 5, "parked": 1, "difference": 1}
    balanced = ledger.balance(10, counts)
    assert tuple(balanced) == ledger.TERMS
    assert (balanced["in_flight"], balanced["difference"]) == (3, 1)
    more_ends_than_payloads = ledger.balance(5, counts)
    assert (more_ends_than_payloads["in_flight"], more_ends_than_payloads["difference"]) == (0, -1)


def test_repeats_are_told_as_offsets_by_partition_and_read_again() -> None:
    places = [Position("ingest.a.v1", 1, 7), Position("ingest.a.v1", 0, 3)]
    known = [*((place, None) for place in places), (Position("ingest.a.v1", 1, 9), "event#3")]
    told = ledger.repeats_value(known)
    assert orjson.loads(told) == {
        "ingest.a.v1/1": [7],
        "ingest.a.v1/0": [3],
        "several": [["ingest.a.v1/1/9", "event#3"]],
    }
    assert {*ledger.known_repeats(told)} == {*known}
    for wrong in (b"", b"[1]", b'{"a/b": [1]}', b'{"a/1": 3}'):
        with pytest.raises(ValueError):
            list(ledger.known_repeats(wrong))


@pytest.mark.parametrize("other", TOLD)
def test_what_was_dropped_once_counts_as_what_became_of_it_at_another_time(
    other: Verdict,
) -> None:
    """A domain that dropped it may be changed, and the payload sent on again."""
    entries = [Entry(TOPIC, 0, 5, bytes([verdict])) for verdict in (Verdict.DROPPED, other)]
    for told in (entries, entries[::-1]):
        page = ledger.post(EMPTY, 0, told, Reached())
        assert page[5] == (Verdict.DROPPED if other <= Verdict.PARKED else other)
