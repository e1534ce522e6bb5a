"""A number of the newest events as a line. Pure; no script, and no style but the page's own."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from desk.web.components import text
from desk.web.html import Html, tag

_WIDTH, _HEIGHT, _EDGE = 640, 120, 4


class Point(NamedTuple):
    at: datetime
    value: float


def numbers_in(events: Sequence[Mapping[str, Any]]) -> dict[str, list[Point]]:
    """The numbers of each field, by its name, the oldest first; two points at least make a line."""
    found: dict[str, list[Point]] = {}
    for event in sorted(events, key=lambda one: one["event_time"]):
        for name, value in event["data"].items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                found.setdefault(name, []).append(Point(event["event_time"], float(value)))
    return {name: points for name, points in sorted(found.items()) if len(points) > 1}


def chart(name: str, points: Sequence[Point]) -> Html:
    values = [one.value for one in points]
    least, most = min(values), max(values)
    said = f"{name}: {_number(least)} to {_number(most)}, {_number(values[-1])} at the end"
    first, last = points[0].at, points[-1].at
    return tag(
        "figure",
        tag("figcaption", said),
        tag(
            "svg",
            tag("polyline", points=" ".join(_places(points, least, most))),
            viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
            role="img",
            aria_label=f"{said}, from {text(first)} to {text(last)}",
        ),
        tag("p", f"{text(first)} to {text(last)}", class_="quiet"),
    )


def _places(points: Sequence[Point], least: float, most: float) -> list[str]:
    begin, whole = points[0].at, (points[-1].at - points[0].at).total_seconds()
    across, up = _WIDTH - 2 * _EDGE, _HEIGHT - 2 * _EDGE
    places = []
    for at, value in points:
        x = _EDGE + across * ((at - begin).total_seconds() / whole if whole else 0.5)
        y = _EDGE + up * ((most - value) / (most - least) if most > least else 0.5)
        places.append(f"{x:.1f},{y:.1f}")
    return places


def _number(value: float) -> str:
    return f"{value:g}"
