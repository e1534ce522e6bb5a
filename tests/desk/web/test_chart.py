"""A number of events as a line."""

from datetime import UTC, datetime, timedelta
from typing import Any

from desk.web.chart import chart, numbers_in
from tests.desk import dom

BEGAN = datetime(2026, 11, 28, 12, tzinfo=UTC)


def event(minute: int, **data: Any) -> dict[str, Any]:
    return {"event_time": BEGAN + timedelta(minutes=minute), "data": data}


def test_each_number_of_two_events_or_more_makes_a_line_the_oldest_first() -> None:
    newest_first = [
        event(3, value=7, label="x", is_on=True, nested={"a": 1}),
        event(2, value=None),
        event(1, value=5.5, once=1),
        event(0, value=6),
    ]
    found = numbers_in(newest_first)
    assert {name: [one.value for one in points] for name, points in found.items()} == {
        "value": [6.0, 5.5, 7.0]
    }


def test_the_line_has_its_place_and_its_meaning_in_words() -> None:
    points = numbers_in([event(0, value=10), event(1, value=30), event(4, value=20)])["value"]
    (figure,) = dom.read(chart("value", points).encode()).all("figure")
    (line,) = figure.all("polyline")
    assert line.attributes["points"] == "4.0,116.0 162.0,4.0 636.0,60.0"
    (drawing,) = figure.all("svg")
    assert drawing.attributes["role"] == "img"
    said = drawing.attributes["aria-label"] or ""
    assert said.startswith("value: 10 to 30, 20 at the end, from 2026-11-28 12:00:00Z")
    assert "value: 10 to 30" in figure.text


def test_what_does_not_change_and_what_came_at_once_is_drawn_in_the_middle() -> None:
    points = numbers_in([event(0, value=10), event(0, value=10)])["value"]
    (line,) = dom.read(chart("<b>", points).encode()).all("polyline")
    assert line.attributes["points"] == "320.0,60.0 320.0,60.0"
