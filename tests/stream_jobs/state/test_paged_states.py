"""Over a state of its own; Spark's part is in test_race."""

import random
from collections import Counter
from typing import Any

import orjson
import pytest

from stream_jobs.state import paged_states
from stream_jobs.state.bulk_map_state import ManyStates
from stream_jobs.state.paged_states import PagedStates

Key = tuple[str, str]

COUNTS = ("", "pages")
TYPES = ("device", "flight", "parcel")


class MapState:
    """As the map state of Spark answers: of the bucket that is at work."""

    def __init__(self) -> None:
        self.by_bucket: dict[int, dict[Key, bytes]] = {}
        self.read: list[Key] = []
        self.put: list[Key] = []

    def at(self, bucket: int) -> None:
        self.own = self.by_bucket.setdefault(bucket, {})

    def getValue(self, key: Key) -> tuple[bytes] | None:  # noqa: N802
        self.read.append(key)
        return (self.own[key],) if key in self.own else None

    def updateValue(self, key: Key, value: tuple[bytes]) -> None:  # noqa: N802
        self.put.append(key)
        (self.own[key],) = value

    def removeKey(self, key: Key) -> None:  # noqa: N802
        self.own.pop(key, None)

    def rows(self) -> dict[Key, bytes]:
        return {key: value for key, value in self.own.items() if key[0]}

    def pages(self) -> dict[int, dict[Key, bytes]]:
        raw = {key[1]: value for key, value in self.own.items() if not key[0] and key != COUNTS}
        return {
            int(name.removeprefix("page ")): paged_states._unpacked(its)
            for name, its in raw.items()
        }


@pytest.fixture
def few_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "_PAGES": 5,
        "_PAGES_AT_ONCE": 2,
        "_ASKED_MIN": 4,
        "_CARRIED_MAX": 2,
        "_LARGE_BYTES": 3,
        "AT_ONCE": 3,
    }.items():
        monkeypatch.setattr(paged_states, name, value)


class Run:
    """Random batches, beside what a plain dict says."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.state = MapState()
        self.expected: dict[int, dict[Key, bytes]] = {bucket: {} for bucket in range(2)}
        self.keys = [(entity, f"id-{n}") for n in range(20) for entity in TYPES]
        self.dice.shuffle(self.keys)
        self.number = 0
        self.modes: Counter[bool] = Counter()
        self.start()

    def start(self) -> None:
        self.paged = PagedStates(ManyStates(self.state, None))  # type: ignore[arg-type]

    def batch(self) -> None:
        if self.dice.random() < 0.2:
            self.start()
        bucket = self.dice.choice(list(self.expected))
        self.state.at(bucket)
        expected = self.expected[bucket]
        self.paged.begin()
        for key in self.dice.sample(self.keys, self.dice.choice((0, 0, 2))):
            assert self.paged.get([key]) == [expected.get(key)]
            self._change({key: self._new()}, expected)
        for _ in range(self.dice.choice((1, 1, 2))):
            asked = self.dice.sample(self.keys, self.dice.choice((0, 1, 4, 12, 40, 60)))
            seen = []
            for part in self.paged.parts(asked):
                self.modes[self.paged._is_by_page] += 1
                assert dict(part) == {key: expected.get(key) for key, _ in part}
                seen += [key for key, _ in part]
                changed = [key for key, _ in part if self.dice.random() < 0.8]
                self._change({key: self._new() for key in changed}, expected)
            assert sorted(seen) == sorted(asked)
        self.paged.write()
        self.assert_each_is_where_it_is_looked_for(expected)

    def _new(self) -> bytes | None:
        self.number += 1
        return b"%d" % self.number if self.dice.random() < 0.8 else None

    def _change(self, values: dict[Key, bytes | None], expected: dict[Key, bytes]) -> None:
        self.paged.put(values)
        for key, value in values.items():
            if value is None:
                expected.pop(key, None)
            else:
                expected[key] = value

    def assert_each_is_where_it_is_looked_for(self, expected: dict[Key, bytes]) -> None:
        rows, pages = self.state.rows(), self.state.pages()
        paged = {key: value for page in pages.values() for key, value in page.items()}
        assert len(paged) == sum(map(len, pages.values()))
        assert paged | rows == expected
        for page, its in pages.items():
            assert {paged_states._page_of(key) for key in its} == {page}
        of_rows = Counter(map(paged_states._page_of, rows))
        counts: Any = orjson.loads(self.state.own.get(COUNTS, b"[[0,0,0,0,0],[0,0,0,0,0]]"))
        assert counts == [
            [of_rows[page] for page in range(5)],
            [len(pages.get(page, ())) for page in range(5)],
        ]


@pytest.mark.parametrize("seed", range(120))
def test_what_was_put_is_found_however_many_are_asked_for_at_once(
    few_pages: None,  # noqa: ARG001
    seed: int,
) -> None:
    run = Run(seed)
    for _ in range(40):
        run.batch()
    assert run.modes.keys() == {True, False}


def _batch(state: MapState, keys: list[Key], value: bytes | None) -> list[bytes | None]:
    """What was found before."""
    paged = PagedStates(ManyStates(state, None))  # type: ignore[arg-type]
    paged.begin()
    before = []
    for part in paged.parts(keys):
        before += [stored for _, stored in part]
        paged.put({key: value for key, _ in part})
    paged.write()
    return before


def _entities(count: int) -> list[Key]:
    return [("device", f"device-{n}") for n in range(count)]


def test_many_are_read_and_put_by_the_page_and_new_ones_not_asked_for() -> None:
    state, keys = MapState(), _entities(5_000)
    state.at(0)
    assert set(_batch(state, keys, b"1")) == {None}
    assert state.read == [COUNTS]
    assert set(_batch(state, keys, b"2")) == {b"1"}
    assert len(state.read) <= 2 + 256
    assert len(state.put) <= 2 * (1 + 256)
    assert state.rows() == {}


def test_few_of_many_get_rows_of_their_own_and_leave_the_pages_alone() -> None:
    state, keys = MapState(), _entities(5_000)
    state.at(0)
    _batch(state, keys, b"1")
    state.put.clear()
    for before, value in ((b"1", b"2"), (b"2", b"3")):
        state.read.clear()
        assert _batch(state, keys[:3], value) == [before] * 3
    assert state.put == [*keys[:3], COUNTS, *keys[:3]]
    assert state.read == [COUNTS, *keys[:3]]
    assert set(_batch(state, keys, b"4")) == {b"1", b"3"}
    assert state.rows() == {}


def test_few_of_large_pages_are_not_worth_them() -> None:
    state, keys = MapState(), _entities(120_000)
    state.at(0)
    _batch(state, keys, b"1")
    _batch(state, keys[:2_200], b"2")
    assert len(state.rows()) == 2_200


def test_a_large_one_has_a_row_of_its_own_and_no_page_grows_by_it() -> None:
    state, keys = MapState(), _entities(5_000)
    state.at(0)
    _batch(state, keys, b"1")
    large = bytes(paged_states._LARGE_BYTES + 1)
    assert set(_batch(state, keys, large)) == {b"1"}
    assert len(state.rows()) == 5_000
    assert set(_batch(state, keys, b"2")) == {large}
    assert state.rows() == {}


def test_one_that_is_no_more_is_nowhere() -> None:
    state, keys = MapState(), _entities(5_000)
    state.at(0)
    _batch(state, keys, b"1")
    _batch(state, keys[:3], b"2")
    assert _batch(state, keys[:1], None) == [b"2"]
    assert _batch(state, keys[:1], None) == [None]
    _batch(state, [("device", "new")], b"3")
    state.put.clear()
    _batch(state, [("device", "new")], None)
    assert state.put == [COUNTS]
    _batch(state, keys, None)
    assert state.own == {}
