"""What the ledger's keeper last said: a check of /health, and gauges. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from prometheus_client.core import GaugeMetricFamily, Metric

from gateway.monitor.causes import BECAUSE, POSTGRES
from gateway.monitor.metric_family import metric
from shared.published.ledger import TERMS
from shared.timestamps import is_time_ms, to_rfc3339

KEEPER = b"ledger"  # its key on the status topic
OLD_MS = 10_000  # it speaks every three seconds at least
_KEPT_BY = POSTGRES, "job:relay"  # its keeper is of relay's process


class LedgerSeen(NamedTuple):
    as_of_ms: int
    endpoints: Mapping[str, Mapping[str, int]]
    derived: Mapping[str, int]
    missing: tuple[str, ...]
    recounting: int  # entities that have counted a repeat twice, and are not folded anew yet
    detail: str  # why the numbers are old, if it knows

    @property
    def difference(self) -> int:
        return sum(terms["difference"] for terms in self.endpoints.values())


def read(said: bytes | None) -> LedgerSeen | None:
    """None where nothing was said, or nothing that can be read."""
    try:
        status = orjson.loads(said or b"")
    except ValueError:
        return None
    return seen_in(status)


def seen_in(status: Any) -> LedgerSeen | None:
    """The same of what is parsed."""
    try:
        ledger = status["ledger"]
        seen = LedgerSeen(
            ledger["as_of_ms"],
            {name: {term: int(terms[term]) for term in TERMS}
             for name, terms in ledger["endpoints"].items()},
            ledger["derived"],
            tuple(map(str, ledger["missing"])),
            int(ledger.get("recounting", 0)),
            str(status["detail"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return seen if is_time_ms(seen.as_of_ms) else None


def check(
    said: bytes | None, now_ms: int, set_aside: int = 0, heard_by: Sequence[str] = ()
) -> dict[str, Any]:
    """`set_aside`: what this node has accepted and no ingest topic holds, so no sum here counts.
    `heard_by`: checks that would explain that nothing is heard."""
    kept_by = (*heard_by, *_KEPT_BY)
    seen = read(said)
    if seen is None:
        unknown = {"status": "warn", "output": "nothing is known of it yet"}
        return {**unknown, "setAside": set_aside, BECAUSE: kept_by}
    age_s = round(max(0, now_ms - seen.as_of_ms) / 1000, 1)
    told = []
    if seen.difference:
        places = f", the first at {seen.missing[0]}" if seen.missing else ""
        told.append(f"{seen.difference} payloads have no end{places}: ./headrace ledger")
    if seen.recounting:
        told.append(
            f"{seen.recounting} entities have counted a late_duplicate twice; they are folded anew"
        )
    if set_aside:
        told.append(f"{set_aside} more were set aside by this node's spool: ./headrace spool list")
    is_right = not told
    if age_s * 1000 > OLD_MS:
        told.append(f"as of {age_s:.0f} s ago" + (f": {seen.detail}" if seen.detail else ""))
    return {
        "status": "warn" if told else "pass",
        "observedValue": seen.difference,
        "observedUnit": "payloads",
        "asOf": to_rfc3339(seen.as_of_ms),
        "ageSeconds": age_s,
        "endpoints": seen.endpoints,
        "derived": seen.derived,
        "recounting": seen.recounting,
        "setAside": set_aside,
        **({"output": "; ".join(told)} if told else {}),
        BECAUSE: kept_by if is_right else (),
    }


def metrics(said: bytes | None, now_ms: int) -> Iterator[Metric]:
    seen = read(said)
    if seen is not None:
        yield GaugeMetricFamily(
            "headrace_ledger_age_seconds",
            "How old these numbers are",
            max(0, now_ms - seen.as_of_ms) / 1000,
        )
        yield GaugeMetricFamily(
            "headrace_ledger_recounting",
            "Entities that have counted a repeat twice, until they are folded anew",
            seen.recounting,
        )
    endpoints = seen.endpoints if seen else {}
    yield metric(
        GaugeMetricFamily,
        "headrace_ledger_payloads",
        "Payloads by what became of them; received is all of them",
        ("endpoint", "term"),
        [((name, term), its[term]) for name, its in endpoints.items() for term in TERMS[:-1]],
    )
    yield metric(
        GaugeMetricFamily,
        "headrace_ledger_difference",
        "Payloads that should have an end by now and have none",
        ("endpoint",),
        [((name,), its["difference"]) for name, its in endpoints.items()],
    )
