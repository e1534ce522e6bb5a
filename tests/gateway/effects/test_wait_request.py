import time

import pytest

from gateway.effects.wait_request import (
    NOTHING,
    Asked,
    asked_by_query,
    seconds_of,
    with_preferences,
)
from gateway.http.problems import Problem


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5), ("500ms", 0.5), ("0s", 0), ("1.5s", 1.5), ("5", None), ("-1s", None), ("5m", None)],
)
def test_a_time_has_its_unit(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        (b"", None),
        (b"timeout=nonsense&x=1", None),
        (b"wait=folded", Asked("folded", 5)),
        (b"wait=stored&timeout=1500ms", Asked("stored", 1.5)),
        (b"a=b&wait=accepted&timeout=10s", Asked("accepted", 10)),
    ],
)
def test_the_query_says_what_is_waited_for_and_how_long(query: bytes, asked: Asked | None) -> None:
    assert asked_by_query(query, 10) == asked


@pytest.mark.parametrize("query", [b"wait=folded", b"wait=folded&timeout=11s"])
def test_nobody_waits_longer_than_may_be(query: bytes) -> None:
    assert asked_by_query(query, 2) == Asked("folded", 2)


@pytest.mark.parametrize(
    ("query", "code", "says"),
    [
        (b"wait=", "bad_wait", "accepted, enriched, folded or stored"),
        (b"wait=done", "bad_wait", "?wait=folded"),
        (b"wait=folded&timeout=5", "bad_timeout", "5s or 500ms"),
        (b"wait=folded&wait=stored", "repeated_parameter", "once"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_says_what_to_write(
    query: bytes, code: str, says: str
) -> None:
    with pytest.raises(Problem) as refused:
        asked_by_query(query, 10)
    assert (refused.value.status, refused.value.code) == (400, code)
    assert refused.value.outcome == "definite"
    assert says in refused.value.detail


@pytest.mark.parametrize(
    ("prefer", "asked"),
    [
        (b"wait=3", Asked("folded", 3, "wait=3")),
        (b'respond-async, wait="3"', Asked("folded", 3, "wait=3")),
        (b"WAIT=99; foo=bar", Asked("folded", 10, "wait=10")),
        (b"respond-async", NOTHING._replace(applied="respond-async")),
        (b"return=minimal", None),
        (b"wait=soon", None),
        (b",,;=\xff", None),
    ],
)
def test_preferences_are_taken_as_far_as_they_can_be(prefer: bytes, asked: Asked | None) -> None:
    assert with_preferences(None, prefer, 10) == asked


def test_a_preference_says_how_long_and_the_query_what() -> None:
    stored = Asked("stored", 5)
    assert with_preferences(stored, b"wait=2", 10) == Asked("stored", 2, "wait=2")
    assert with_preferences(stored, b"handling=strict", 10) == stored
    assert with_preferences(stored, b"respond-async", 10) == NOTHING._replace(
        applied="respond-async"
    )


def test_a_header_of_nothing_but_spaces_takes_no_time() -> None:
    """It is read of every POST."""
    prefer = b"a=" + b" " * 30_000 + b'"x"y, wait=3'
    began_s = time.process_time()
    assert with_preferences(None, prefer, 10) == Asked("folded", 3, "wait=3")
    assert time.process_time() - began_s < 1
