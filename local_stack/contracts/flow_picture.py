"""docs/flow.svg: the flow as a picture. A line for each topic, a column for each part.

Sizes are in pixels. The text of a line stands left of all columns, so nothing overlaps, whatever
the flow.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import NamedTuple
from xml.sax.saxutils import escape

from local_stack.contracts.asyncapi import operations
from shared.flow_table import Flow

PICTURE = "docs/flow.svg"
_EDGE, _TOP, _LINE, _CAPTION = 16, 30, 20, 24
_LABEL, _WHY = 7.3, 6.6  # the widest that a character of a label, and of a caption, comes out
_PITCH, _BAND = 80, 50  # from column to column, and the width of one
_STYLE = """
  svg { --page: #fff; --ink: #1f2933; --quiet: #5f6c7b; --wire: #9aa5b1; --mark: #1769c2;
        --part: #eef1f5; --job: #dceafb }
  @media (prefers-color-scheme: dark) {
    svg { --page: #16191d; --ink: #e4e7eb; --quiet: #9aa5b1; --wire: #7b8794; --mark: #6cb2ff;
          --part: #23282e; --job: #1c3350 }
  }
  .topic, .name { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace }
  .topic, .name, .column { fill: var(--ink) }
  .why, .column { font: 12px system-ui, sans-serif }
  .why { fill: var(--quiet) }
  .name, .column { font-weight: bold }
  .column { font-size: 13px; text-anchor: middle }
  .page { fill: var(--page) }
  .part { fill: var(--part) }
  .job { fill: var(--job) }
  .wire { fill: none; stroke: var(--wire); stroke-width: 1.5 }
  .looked-up { stroke-dasharray: 4 3 }
  .mark { fill: var(--mark) }
  .ring { fill: var(--page); stroke: var(--mark); stroke-width: 1.5 }
"""

Centres = Mapping[str, int]


class Arrow(NamedTuple):
    label: str
    why: str
    writers: frozenset[str] = frozenset()
    started: frozenset[str] = frozenset()
    looking: frozenset[str] = frozenset()


def picture(flow: Flow) -> str:
    """As SVG, for light and dark pages."""
    jobs = {job.name: job.does for job in flow.jobs()}
    parts = ["gateway", *jobs, "relay"]
    lines = list(_lines(flow, parts))
    widest = max(max(len(line.label) * _LABEL, len(line.why) * _WHY) for line in lines)
    left = round(_EDGE + widest + 20)
    centres = {part: left + _BAND // 2 + number * _PITCH for number, part in enumerate(parts)}
    drawn: list[str] = []
    y = _TOP
    for why, group in groupby(lines, key=lambda line: line.why):
        y += _CAPTION
        drawn.append(_text(_EDGE, y, why, "why"))
        for line in group:
            y += _LINE
            drawn += [_text(_EDGE, y, line.label, "topic"), _wire(line, centres, left - 14, y - 4)]
            drawn += _marks(line, centres, y - 4)
    columns = [_column(part, x, y + 12, part in jobs) for part, x in centres.items()]
    y += 2 * _LINE
    drawn += _legend(y)
    y += 6
    for name, does in jobs.items():
        y += _LINE
        drawn += [_text(_EDGE, y, name, "name"), _text(_EDGE + 90, y, does, "why")]
    return _document(left + len(parts) * _PITCH, y + _EDGE, [*columns, *drawn])


def _lines(flow: Flow, parts: list[str]) -> Iterator[Arrow]:
    for endpoint in flow.open_endpoints:
        label = f"POST /v1/{endpoint.name}/{{id}}"
        yield Arrow(label, "what devices send", started=frozenset({"gateway"}))
    starting = {(job.name, topic) for job in flow.jobs() for topic in job.ignited_by}
    for topic in flow.topics():
        uses = [use for use in operations(flow) if use.topic == topic.name and use.who in parts]
        readers = {use.who for use in uses if use.action == "receive"}
        started = frozenset(who for who in readers if (who, topic.name) in starting)
        writers = frozenset(use.who for use in uses if use.action == "send")
        looking = frozenset(readers - started)
        yield Arrow(topic.name, topic.why, writers, started, looking)


def _wire(line: Arrow, centres: Centres, left: int, y: int) -> str:
    """From who writes to who reads; from or to the outside where nobody here does."""
    at = [x for part in centres for x in _places(line, part, centres)]
    if not line.writers:
        at.append(left)
    if not line.started and not line.looking:
        return _arrow(min(at), max(at) + _BAND // 2 + 16, y)
    kind = "wire" if line.started else "wire looked-up"
    return f'<path class="{kind}" d="M{min(at)} {y}H{max(at)}"/>'


def _marks(line: Arrow, centres: Centres, y: int) -> Iterator[str]:
    first = min((centres[part] for part in line.writers), default=0)
    for part, x in centres.items():
        places = _places(line, part, centres)
        if part in line.writers:
            yield _dot(places[0], y)
        if part in line.looking:
            yield _ring(places[-1], y)
        if part in line.started:
            yield _triangle(places[-1], y, -1 if first > x else 1)


def _places(line: Arrow, part: str, centres: Centres) -> list[int]:
    """Where the marks of a part are: beside each other where it reads what it writes."""
    x, reads = centres[part], part in line.started | line.looking
    if part in line.writers:
        return [x - 11, x + 11] if reads else [x]
    return [x] if reads else []


def _column(part: str, x: int, bottom: int, is_job: bool) -> str:
    size = f'x="{x - _BAND // 2}" y="{_TOP + 6}" width="{_BAND}" height="{bottom - _TOP - 6}"'
    shape = f'<rect class="{"job" if is_job else "part"}" {size} rx="5"/>'
    return _text(x, _TOP - 4, part, "column") + shape


def _legend(y: int) -> list[str]:
    x = _EDGE + 6
    marks = [
        *(_dot(x, y - 4), _triangle(x + 80, y - 4, 1)),
        *(_ring(x + 200, y - 4), _arrow(x + 290, x + 306, y - 4)),
    ]
    words = {12: "writes", 92: "is started by", 212: "looks up", 316: "is read elsewhere only"}
    return [*marks, *(_text(x + beside, y, says, "why") for beside, says in words.items())]


def _dot(x: int, y: int) -> str:
    return f'<circle class="mark" cx="{x}" cy="{y}" r="4.5"/>'


def _ring(x: int, y: int) -> str:
    return f'<circle class="ring" cx="{x}" cy="{y}" r="4"/>'


def _triangle(x: int, y: int, towards: int) -> str:
    return f'<path class="mark" d="M{x - 5 * towards} {y - 6}v12l{11 * towards} -6z"/>'


def _arrow(x: int, end: int, y: int) -> str:
    return f'<path class="wire" d="M{x} {y}H{end}m-5 -4l5 4l-5 4"/>'


def _text(x: int, y: int, says: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(says)}</text>'


def _document(width: int, height: int, inside: list[str]) -> str:
    size = f'width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}">',
            "<!-- made by ./headrace contracts from the flow: change it there -->",
            "<title>The flow: which topic starts which job, and what that job writes</title>",
            f"<style>{_STYLE}</style>",
            f'<rect class="page" {size} rx="8"/>',
            *inside,
            "</svg>\n",
        ]
    )
