"""The lines that a demo prints: one that counts while it runs, and the books at its end."""

from local_stack.demo.alarm_times import AlarmTimes, ReachedAlarm, spread
from local_stack.demo.balance import Balance, SentPayloads
from local_stack.demo.fleet import MessageKind
from local_stack.demo.gateway_client import DeviceState

DeviceStates = dict[str, DeviceState]


def counting(sent: SentPayloads, now: Balance) -> str:
    refused = sum(now.refused.values())
    return " | ".join(
        [
            f"sent {now.sent} accepted {now.accepted}" + (f" refused {refused}" if refused else ""),
            f"events {now.events} rows {now.completed} "
            f"parked {_sum(now.parked)} waiting {_sum(now.waiting)}",
            f"late {sent.kinds[MessageKind.LATE]} doubled {now.doubled} broken {sent.broken}",
        ]
    )


def changes(before: DeviceStates, now: DeviceStates) -> list[str]:
    """The changes of what a device is, not of its every value."""
    return [
        f"  {device}: {brief(before[device])} -> {brief(snapshot)}"
        for device, snapshot in now.items()
        if any(
            before[device].state.get(name) != snapshot.state.get(name)
            for name in ("status", "connection")
        )
    ]


def brief(snapshot: DeviceState) -> str:
    state = snapshot.state
    if not state:
        return "no state"
    value = state.get("value")
    words = [state.get("status"), None if value is None else f"{value:.1f}"]
    return " ".join(str(word) for word in [*words, state.get("connection")] if word)


def books(sent: SentPayloads, end: Balance) -> list[str]:
    rows = [
        ("sent", end.sent, _kinds(sent)),
        ("refused", sum(end.refused.values()), _counted(end.refused)),
        ("accepted", end.accepted, f"= {end.distinct} distinct + {end.doubled} doubled"),
        (
            "distinct",
            end.distinct,
            f"= {end.events} events + {_sum(end.parked)} parked + {_sum(end.waiting)} waiting",
        ),
        ("rows", end.completed, "events that PostgreSQL has: each told by its completion"),
    ]
    lines = [f"  {name:<10}{number:>7}  {note}".rstrip() for name, number, note in rows]
    if end.parked_as_events:
        lines.append(
            f"  {end.parked_as_events} events were refused by a later job, and parked there"
        )
    return [*lines, "", *_verdict(end)]


def folded(before: DeviceStates, after: DeviceStates, all_folded: bool) -> list[str]:
    lines = [
        f"  {device}: {now.version - before[device].version} events folded, "
        f"{brief(before[device])} -> {brief(now)}"
        for device, now in after.items()
    ]
    behind = "The states are behind the events: see why with ./headrace status"
    return lines if all_folded else [*lines, behind]


def alarm(reached: ReachedAlarm) -> str:
    value = "" if reached.value is None else f" at {reached.value:.1f}"
    return (
        f"  {reached.device}: alarm{value}, at the webhook after {reached.webhook_ms} ms, "
        f"in the event stream after {reached.stream_ms} ms"
    )


def alarm_books(times: AlarmTimes) -> list[str]:
    if not times.reached:
        lines = ["No alarm has come: run it for longer, or see what is behind: ./headrace status"]
    else:
        lines = [f"{len(times.reached)} alarms, from when Kafka had the payload:"]
        for reader, found in (
            ("to the webhook", [one.webhook_ms for one in times.reached]),
            ("to the event stream", [one.stream_ms for one in times.reached]),
        ):
            said = "  ".join(f"{name} {ms} ms" for name, ms in spread(found).items())
            lines.append(f"  {reader:<20} {said}")
    if missing := times.undelivered:
        lines.append(
            f"{missing} more have not reached the webhook: ./headrace hooks log demo-alarms"
        )
    return lines


def more(end: Balance, device: str, gateway_url: str) -> list[str]:
    rows = []
    if end.parked:
        rows.append((f"parked: {_counted(end.parked)}", "./headrace tail dlq.enrich.v1 -n 3"))
    if end.waiting:
        rows.append((f"waiting: {_counted(end.waiting)}", "./headrace tail retry.enrich.v1 -n 3"))
    count = "SELECT type, count(*) FROM headrace.event GROUP BY type"
    rows.append(("rows by type", f'./headrace sql "{count}"'))
    rows.append((f"the state of {device}", f"curl {gateway_url}/state/{device}"))
    return ["To see more:", "", *(f"  {what}\n    {command}" for what, command in rows)]


def _verdict(end: Balance) -> list[str]:
    if end.all_through:
        return ["It adds up: every accepted payload is an event with a row, parked or waiting."]
    if end.adds_up:
        missing = end.events - end.completed - end.parked_as_events
        return [
            f"It adds up, but {missing} events have no row yet: nothing is lost, see why with",
            "./headrace status",
        ]
    if end.accepted != end.distinct + end.doubled:
        return ["It does not add up: a repeat was answered with another id than its first time."]
    missing = end.distinct - end.events - _sum(end.parked) - _sum(end.waiting)
    return [
        f"It does not add up yet: {missing} accepted payloads are in Kafka and have not come out;",
        "see which job is behind with ./headrace status",
    ]


def _kinds(sent: SentPayloads) -> str:
    names = {MessageKind.LATE: "late", MessageKind.STATUS: "status"}
    parts = [f"{sent.kinds[kind]} {name}" for kind, name in names.items()]
    parts += [f"{sent.repeats} doubled", f"{sent.broken} broken"]
    parts.append(f"{sent.kinds[MessageKind.UNKNOWN]} of unknown devices")
    return ", ".join(part for part in parts if not part.startswith("0 "))


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def _sum(counts: dict[str, int]) -> int:
    return sum(counts.values())
