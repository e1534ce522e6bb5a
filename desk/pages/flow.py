"""The flow for people: what is wrong, and a picture of where records go and who is behind. Each
part is a column and each arrow a line, from who writes to who reads."""

from collections.abc import Container, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from desk.flow.health import GatewayHealth, Health, Trouble
from desk.flow.service import RATE_S, FlowDesk
from desk.parts import RELAY
from desk.web.access import gateway_token_of
from desk.web.components import table, text
from desk.web.html import Html, tag
from desk.web.shell import shown
from shared.kafka_access import KafkaAwayError

_TITLE = "Flow"
_TROUBLES = ("check", "status", "since", "says")
_FOLLOWING = (*_TROUBLES, "follows")
_WELL = (None, "running")
_PAGES = {"letters": "/", "lane": "/waiting", "ledger": "/ledger"}


def flow_pages(flow: FlowDesk, health: GatewayHealth, late_s: float) -> APIRouter:
    """`late_s`: who is further behind is late."""
    router = APIRouter(prefix="/flow")

    @router.get("")
    def now(request: Request) -> Response:
        content = troubles(health.ask(gateway_token_of(request)))
        try:
            content += picture(flow.now(), late_s)
        except KafkaAwayError as away:
            content.append(tag("p", f"Nobody can see the flow: {away}", class_="wrong"))
        return shown(request, _TITLE, [tag("div", *content, id="live")], script="/live.js")

    return router


def troubles(found: Health) -> list[Html]:
    heading = tag("h2", "What is wrong")
    if found.status is None:
        return [heading, tag("p", f"Nobody knows: {found.unknown}", class_="wrong")]
    refused = [tag("p", f"Refused by the gateway in the last minute: {found.refused}.")]
    shown = [heading, *(refused if found.refused else [])]
    if not found.troubles:
        return [*shown, tag("p", f"Nothing: all {found.checks} checks of /health pass.")]
    causes = [_row(one) for one in _together(found.troubles) if not one.follows]
    rest = [_row(one) for one in found.troubles if one.follows]
    shown.append(table("What is wrong", _TROUBLES, causes))
    if rest:
        summary = tag("summary", f"What follows from it: {len(rest)} more checks")
        shown.append(tag("details", summary, table("What follows from it", _FOLLOWING, rest)))
    return shown


def _together(troubles: Sequence[Trouble]) -> list[Trouble]:
    """Jobs that are silent are one line: most run in one process."""
    silent = [
        one
        for one in troubles
        if one.check.startswith("job:")
        and one.check != f"job:{RELAY}"
        and not one.follows
        and one.says.startswith("no sign of life for")
    ]
    if len(silent) < 2:
        return [*troubles]
    names = ", ".join(one.check for one in silent)
    says = f"{silent[0].says}: look at a process that they share, such as Spark's driver"
    first = min(one.since for one in silent)
    as_one = silent[0]._replace(check=names, says=says, since=first)
    return [as_one if one == silent[0] else one for one in troubles if one not in silent[1:]]


def _row(trouble: Trouble) -> dict[str, object]:
    """With a way to the page that has more."""
    name = trouble.check
    kind, _, what = name.partition(":")
    page = "/" if what.startswith("dlq.") else _PAGES.get(kind)
    if kind == "job" and "," not in what:
        page = f"/jobs/{quote(what)}"
    return {**trouble._asdict(), "check": tag("a", name, href=page) if page else name}


def picture(now: Mapping[str, Any], late_s: float) -> list[Html]:
    parts = now["parts"]
    names = [part["part"] for part in parts]
    heads = [tag("th", "topics, and how much came", scope="col"), *map(_head, parts)]
    at_work = {part["part"] for part in parts if part["state"] == "running"}
    lines = [_line(one, names, at_work, late_s) for one in now["arrows"]]
    return [
        tag("h2", _TITLE),
        tag(
            "div",
            tag(
                "table",
                tag("thead", tag("tr", *heads)),
                tag("tbody", *lines, *_kept(parts, now["parked"])),
                class_="flow",
            ),
            class_="wide",
            role="region",
            aria_label=_TITLE,
            tabindex=0,
        ),
        tag(
            "p",
            f"As of {now['at']}. ● writes, ▶ reads, and is behind by these seconds and records. "
            f"Rates of topics are of the last {RATE_S} seconds, of jobs of their last batch.",
            class_="quiet",
        ),
    ]


def _head(part: Mapping[str, Any]) -> Html:
    name, state, rate = part["part"], part["state"], part["rows_per_s"]
    return tag(
        "th",
        tag("a", name, href=f"/jobs/{quote(name)}") if state is not None else name,
        *([] if state is None else [tag("span", state, class_=None if state in _WELL else "off")]),
        *([] if rate is None else [tag("span", _rate(rate))]),
        scope="col",
        title=part["detail"] or part["does"],
    )


def _line(
    arrow: Mapping[str, Any], names: Sequence[str], at_work: Container[str], late_s: float
) -> Html:
    readers = {one["part"]: one for one in arrow["read_by"]}
    ends = [names.index(one) for one in (*arrow["written_by"], *readers)]
    first, last = min(ends), max(ends)

    def cell(at: int, name: str) -> Html:
        on_it = _on_line(at, first, last)
        if name in arrow["written_by"]:
            return tag("td", _mark("●", "writes"), class_=on_it)
        if name in readers:
            return tag("td", *_behind(readers[name], name in at_work, late_s), class_=on_it)
        return tag("td", class_=on_it)

    cells = [cell(at, name) for at, name in enumerate(names)]
    rate = None if arrow["per_s"] is None else tag("span", _rate(arrow["per_s"]))
    topics = [tag("span", topic, class_="topic") for topic in arrow["topics"]]
    return tag("tr", tag("th", *topics, rate, scope="row"), *cells)


def _on_line(at: int, first: int, last: int) -> str | None:
    ends = [name for name, end in (("first", first), ("last", last)) if at == end]
    return " ".join(("on", *ends)) if first <= at <= last else None


def _behind(reader: Mapping[str, Any], is_at_work: bool, late_s: float) -> list[Html]:
    records, behind_s = reader["behind_records"], reader["behind_s"]
    if records is None and is_at_work:  # such as forward without a webhook
        return [_mark("▶", "reads"), tag("span", "-", title="nothing here is for it now")]
    if records is None:
        return [_mark("▶", "reads"), tag("span", "?", title="it does not say how far it is")]
    if not records:
        return [_mark("▶", "reads, all of it")]
    age = "?" if behind_s is None else f"{behind_s:.0f} s"
    late = behind_s is None or behind_s > late_s
    said = tag("span", f"{age}, {text(records)}", class_="off" if late else None)
    return [_mark("▶", "reads, behind by"), said]


def _mark(sign: str, means: str) -> Html:
    return tag("b", sign, role="img", aria_label=means)


def _kept(parts: Sequence[Mapping[str, Any]], parked: Mapping[str, int] | None) -> list[Html]:
    """What is in none of the lines."""

    def row(name: str, cells: Sequence[Html | str | None]) -> Html:
        return tag("tr", tag("th", name, scope="row"), *(tag("td", cell) for cell in cells))

    waiting = [
        tag("a", text(part["waiting"]), href="/waiting", aria_label=f"{part['waiting']} wait")
        if part["waiting"]
        else None
        for part in parts
    ]
    if parked is None:
        return [row("waiting", waiting), row("parked: PostgreSQL is away", [None] * len(parts))]
    letters = [
        tag("a", text(count), href=f"/?stage={quote(part['part'])}", aria_label=f"{count} parked")
        if (count := parked.get(part["part"]))
        else None
        for part in parts
    ]
    return [row("waiting", waiting), row("parked", letters)]


def _rate(per_s: float) -> str:
    return f"{per_s:,.1f} a second" if per_s < 10 else f"{per_s:,.0f} a second"
