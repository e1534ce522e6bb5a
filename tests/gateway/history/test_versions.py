"""Which version was to be seen when, and what each one changed."""

from typing import Any

import orjson
import pytest

from gateway.history.versions import (
    Around,
    Known,
    Version,
    at_time,
    changes,
    of_version,
    read_place,
    told,
)
from gateway.http.problems import Problem
from shared.flow import FLOW

DEVICE = FLOW.entities[0]
NOW_MS = 10_000


def _version(
    version: int,
    at_ms: int | None = None,
    life: int = 0,
    *,
    deleted: bool = False,
    forgotten_ms: int | None = None,
    **state: Any,
) -> Version:
    value = orjson.dumps(state).decode()
    at_ms = version * 100 if at_ms is None else at_ms
    return Version(life, version, at_ms, None, 0, 0, deleted, value, forgotten_ms)


FIRST, FOURTH = _version(1), _version(4)


def _code(problem: pytest.ExceptionInfo[Problem]) -> tuple[int, str]:
    return problem.value.status, problem.value.code


def test_a_version_is_the_one_that_was_published_under_that_number() -> None:
    around = Around(FIRST, FOURTH, FOURTH)
    assert of_version(DEVICE, 1, around, Known(4, NOW_MS)) == FIRST


@pytest.mark.parametrize(
    ("wanted", "around", "known", "answer", "words"),
    [
        (2, Around(FIRST, FOURTH, FOURTH), 4, (404, "unknown_version"), "from version 1 to 4"),
        (5, Around(FOURTH, None, FOURTH), 4, (404, "unknown_version"), "the newest is 4"),
        (5, Around(FOURTH, None, FOURTH), 5, (503, "not_stored_yet"), "persist"),
        (5, Around(None, None, None), 5, (503, "not_stored_yet"), "persist"),
        (1, Around(None, FOURTH, FOURTH), 4, (404, "unknown_version"), "begins with version 4"),
        (1, Around(None, None, None), None, (404, "unknown_version"), "it has none now"),
    ],
)
def test_who_asks_for_a_version_that_cannot_be_told_hears_why(
    wanted: int, around: Around, known: int | None, answer: tuple[int, str], words: str
) -> None:
    with pytest.raises(Problem) as problem:
        of_version(DEVICE, wanted, around, Known(known, NOW_MS))
    assert _code(problem) == answer
    assert words in problem.value.detail


def test_a_version_of_the_life_before_is_not_taken_for_one_of_the_new_life() -> None:
    over = _version(3, forgotten_ms=900)
    with pytest.raises(Problem) as problem:
        of_version(DEVICE, 3, Around(over, None, over), Known(3, NOW_MS))
    assert _code(problem) == (503, "not_stored_yet")


@pytest.mark.parametrize(
    ("around", "known"),
    [
        (Around(FIRST, FOURTH, FOURTH), 7),  # what comes after is stored, so all before it is
        (Around(FIRST, None, FIRST), 1),
    ],
)
def test_at_a_time_it_was_the_last_that_had_been_published(around: Around, known: int) -> None:
    assert at_time(DEVICE, 250, around, Known(known, NOW_MS)) == FIRST


GONE = _version(4, deleted=True, forgotten_ms=900)


@pytest.mark.parametrize(
    ("at_ms", "around", "known", "answer"),
    [
        (450, Around(FOURTH, None, FOURTH), 5, (503, "not_stored_yet")),
        (NOW_MS + 1, Around(FOURTH, None, FOURTH), 4, (503, "not_yet")),
        (50, Around(None, FIRST, FOURTH), 4, (404, "unknown_id")),
        (50, Around(None, None, None), None, (404, "unknown_id")),
        (950, Around(GONE, None, GONE), None, (404, "unknown_id")),
        (950, Around(FOURTH, None, FOURTH), None, (503, "not_stored_yet")),
    ],
)
def test_who_asks_for_a_time_that_cannot_be_told_hears_why(
    at_ms: int, around: Around, known: int | None, answer: tuple[int, str]
) -> None:
    with pytest.raises(Problem) as problem:
        at_time(DEVICE, at_ms, around, Known(known, NOW_MS))
    assert _code(problem) == answer


def test_a_version_is_told_as_the_state_was_told_and_until_when() -> None:
    version = Version(0, 3, 1_000, 500, 2, 0, False, '{"count": 2}', None)
    assert told(DEVICE, "acme/device-0001", version, _version(4, 2_000)) == {
        "entity": "device",
        "id": "device-0001",
        "version": 3,
        "event_time": "1970-01-01T00:00:00.500Z",
        "updated_at": "1970-01-01T00:00:01.000Z",
        "late": 2,
        "state": {"count": 2},
        "until": "1970-01-01T00:00:02.000Z",
    }


def test_a_deleted_state_is_not_told() -> None:
    with pytest.raises(Problem) as problem:
        told(DEVICE, "device-0001", _version(4, deleted=True), None)
    assert _code(problem) == (404, "deleted")


def test_a_version_says_what_it_changed_and_a_life_begins_with_all() -> None:
    newest_first = [
        _version(1, life=1, count=0),
        _version(4, deleted=True, forgotten_ms=900, count=0),
        _version(3, count=2, on=True),
        _version(2, count=2, on=1, value=7),
    ]
    found = [entry for _, entry in changes(newest_first, True, None)]
    said = [
        {k: v for k, v in e.items() if k in ("changed", "removed", "deleted")} for e in found if e
    ]
    assert said == [
        {"changed": {"count": 0}},  # all there is begins anew
        {"deleted": True},
        {"changed": {"on": True}, "removed": ["value"]},  # true is not 1
        {"changed": {"count": 2, "on": 1, "value": 7}},
    ]
    assert found[1] and found[1]["forgotten_at"] == "1970-01-01T00:00:00.900Z"


def test_of_a_field_those_are_told_that_changed_it() -> None:
    newest_first = [_version(3, a=1, b=3), _version(2, a=1, b=2), _version(1, a=0, b=2)]
    told_of_a = [entry and entry["version"] for _, entry in changes(newest_first, False, "a")]
    assert told_of_a == [None, 2]


@pytest.mark.parametrize(
    "text", ["", "1", "1.", ".1", "1.2.3", "a.1", "1.-2", "٣.1", "1." + "9" * 40]
)
def test_a_place_that_no_page_gave_is_refused(text: str) -> None:
    with pytest.raises(Problem):
        read_place(text)
