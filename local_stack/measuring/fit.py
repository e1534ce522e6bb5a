"""From samples to costs: what each thing must have cost, so that all loads together come to what
was seen. No cost is below zero."""

from collections.abc import Mapping, Sequence

from local_stack.measuring.samples import Sample
from local_stack.plan.costs import PartCost, Sizes
from local_stack.plan.parts import PARTS

_ROUNDS, _STILL = 4_000, 1e-7
# what costs each part something, as far as a few loads can tell it apart
_COSTS_OF = {
    "gateway": ("post", "event", "state", "kib", "second"),
    "view": ("state", "second"),
    "kafka": ("post", "event", "state", "kib", "second"),
    "enrich": ("event", "state", "kib", "second"),
    "fold": ("event", "state", "kib", "batch"),
    "persist": ("event", "state", "kib", "batch"),
    "relay": ("event", "second"),
    "postgres": ("event", "state", "kib", "batch"),
}
_SEEN_AT_LEAST = 0.01  # the kernel counts CPU in hundredths of a second


def part_costs(
    samples: Sequence[Sample],
    rest: Mapping[str, float],
    start_s: Mapping[str, float],
    first: Sample,
) -> dict[str, PartCost]:
    """The last sample is of few events all the time: it has the batches a second. What the `first`
    load cost beyond what it would have later is a part of the start: JVMs were cold."""
    slow = samples[-1]
    found = {}
    for part in PARTS:
        names = _COSTS_OF[part]
        rows = [[sample.times(part)[name] for name in names] for sample in samples]
        all_of_it = [max(_SEEN_AT_LEAST, sample.cpu_s[part]) for sample in samples]
        seen = [
            max(0.0, used - rest[part] * sample.seconds)
            for used, sample in zip(all_of_it, samples, strict=True)
        ]
        cost = dict(zip(names, not_negative(rows, seen, all_of_it), strict=True))
        later_s = sum(cost[name] * first.times(part)[name] for name in names)
        cold_s = max(0.0, first.cpu_s[part] - rest[part] * first.seconds - later_s)
        found[part] = PartCost(
            event_us=_us(cost.get("event")),
            state_us=_us(cost.get("state")),
            kib_us=_us(cost.get("kib")),
            post_us=_us(cost.get("post")),
            batch_ms=round(cost.get("batch", 0.0) * 1e3, 2),
            batches_per_s=round(slow.times(part)["batch"] / slow.posted_s, 2)
            if "batch" in cost
            else 0.0,
            busy_cores=round(cost.get("second", 0.0), 3),
            rest_cores=round(rest[part], 3),
            start_s=round(start_s.get(part, 0.0) + cold_s, 1),
            memory_mib=round(max(sample.memory_mib[part] for sample in samples)),
        )
    return found


def sizes(samples: Sequence[Sample], totals: Mapping[str, int], entities: int) -> Sizes:
    """`totals`: of all that is there in the end, with so many entities."""
    sent = [sample for sample in samples if sample.disk_bytes]

    def per_event(what: str) -> tuple[float, float]:
        rows = [[float(s.load.events), float(s.load.events * s.load.body_bytes)] for s in sent]
        written = [float(s.disk_bytes[what]) for s in sent]
        # tables grow by many pages at a time: of few events that says nothing, so bytes count as
        # they are, and the long loads most
        fixed, per_byte = not_negative(rows, written, [max(1.0, *written)] * len(written))
        return round(fixed, 1), round(per_byte, 3)

    (ingest, of_ingest), (event, of_event) = per_event("ingest"), per_event("event")
    row, of_row = per_event("event_rows")
    states = sum(sample.states for sample in sent)
    return Sizes(
        ingest=ingest,
        ingest_per_byte=of_ingest,
        event=event,
        event_per_byte=of_event,
        completion=round(
            sum(s.disk_bytes["completion"] for s in sent) / sum(s.load.events for s in sent), 1
        ),
        row=row,
        row_per_byte=of_row,
        state_record=round(sum(s.disk_bytes["state"] for s in sent) / states, 1),
        state_row=round(totals["state_rows"] / entities, 1),
        state_in_view=round(totals["view"] / entities, 1),
        state_in_spark=round(totals["checkpoint"] / entities, 1),
    )


def not_negative(
    rows: Sequence[Sequence[float]], seen: Sequence[float], of: Sequence[float]
) -> list[float]:
    """Least squares of the errors as parts `of` what is given, one unknown after the other."""
    scaled = [[value / whole for value in row] for row, whole in zip(rows, of, strict=True)]
    wanted = [value / whole for value, whole in zip(seen, of, strict=True)]
    found = [0.0] * len(rows[0])
    weights = [sum(row[at] ** 2 for row in scaled) for at in range(len(found))]
    for _ in range(_ROUNDS):
        before = [*found]
        for at, weight in enumerate(weights):
            if weight:
                off = sum(
                    row[at] * (want - sum(v * f for v, f in zip(row, found, strict=True)))
                    for row, want in zip(scaled, wanted, strict=True)
                )
                found[at] = max(0.0, found[at] + off / weight)
        if all(abs(now - was) <= _STILL * now for now, was in zip(found, before, strict=True)):
            break
    return found


def _us(seconds: float | None) -> float:
    return round((seconds or 0.0) * 1e6, 2)
