"""A plan, and a ladder, as text."""

from collections.abc import Mapping, Sequence
from typing import Any

from local_stack.terminal.output import rows_table


def plan_lines(found: Mapping[str, Any]) -> list[str]:
    totals, first = found["totals"], found["gives_way_first"]
    lines = [
        found["costs"],
        "",
        *rows_table(found["parts"]),
        "",
        *rows_table(found["machines"]),
        "",
        f"In all {totals['nodes']} nodes, {totals['cores']} cores, "
        f"{totals['memory_gib']:,.0f} GiB of memory, {totals['disk_gib']:,.0f} GiB of disk; "
        f"{totals['partitions']} partitions a topic, as many state partitions.",
        "",
        *(f"{what}: {duration(seconds)}" for what, seconds in found["times_s"].items()),
        "",
        *_first(first),
    ]
    if "one_machine" in found:
        lines += ["", _alone(found["one_machine"])]
    lines += ["", *(f"- {note}" for note in found["notes"])]
    return [*lines, "", "Assumed:", *(f"- {said}" for said in found["assumptions"])]


def ladder_lines(costs: str, steps: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [
        {
            "entities": f"{step['entities']:,}",
            "events/s": f"{step['events_per_s']:,}",
            "partitions": step["partitions"],
            "nodes": step["nodes"],
            "cores": step["cores"],
            "gives way first": _at(step["first"]["part"], step["first"]["events_per_s"]),
            "holds": "no" if step["give_way"] else "yes",
            "installations": step["first"]["installations"],
            "then": ", ".join(_parts_of(step)[1:]),
        }
        for step in steps
    ]
    told = {(one["part"], one["why"]): one["remedy"] for step in steps for one in step["give_way"]}
    words = [f"{part}: {why}. What to do: {do}." for (part, why), do in sorted(told.items())]
    return [costs, "", *rows_table(rows), "", *words]


def _parts_of(step: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(one["part"] for one in step["give_way"]))


def _at(part: str, events_per_s: float | None) -> str:
    return part if events_per_s is None else f"{part}, at {events_per_s:,.0f}/s"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "never"
    for unit, of in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * of:
            return f"{seconds / of:.1f} {unit}"
    return f"{seconds:.0f} s"


def _first(first: Mapping[str, Any]) -> list[str]:
    rate = first["events_per_s"]
    if rate is None:
        return ["Nothing gives way: more nodes carry more."]
    if first["holds"]:
        return [f"First to give way: {first['part']}, at {rate:,.0f} events/s ({first['why']})."]
    at = f"it holds {rate:,.0f} events/s" if rate else "at any rate"
    return [
        f"DOES NOT HOLD: {first['part']} gives way, {at} ({first['why']}).",
        f"What to do: {first['do']}." + _between(first["installations"]),
    ]


def _between(installations: int | None) -> str:
    return f" {installations:,} installations would hold it between them." if installations else ""


def _alone(alone: Mapping[str, Any]) -> str:
    most = alone["events_per_s_max"]
    return (
        f"Everything on one machine: {alone['cores_used']:.1f} cores busy, "
        f"{alone['memory_mib']:,.0f} MiB, at most {most:,.0f} events/s, "
        f"caught up after {duration(alone['catch_up_s'])}."
    )
