import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from local_stack.run.options import StateDir
from local_stack.run.server_addresses import kafka_bootstrap
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, say_rows
from shared.timestamps import to_rfc3339

if TYPE_CHECKING:
    from clients.kafka.records import Record

_COUNTED_BY = ("endpoint", "mode", "place", "code", "firmware")
_INDEX = re.compile(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.)")


def breaches(
    endpoint: Annotated[str | None, typer.Option(help="Of this endpoint alone.")] = None,
    by_device: Annotated[bool, typer.Option("--by-device", help="Each device apart.")] = False,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Payloads that broke their contract and became events: where `enforce` would park them.

    Example: ./headrace breaches --endpoint telemetry
    """
    from local_stack.machine.settings_check import chosen_flow
    from local_stack.run.tail_topic import each_record
    from shared.topic_names import breach_topic

    flow = chosen_flow()
    if not flow.lets_breaches_pass:
        raise StackError(
            "no endpoint lets a broken contract pass",
            'set contract_mode="observe" or "warn" in its row; the others: ./headrace letters',
        )
    records = each_record(kafka_bootstrap(state_dir), breach_topic("enrich"))
    say_rows(counted(records, endpoint, by_device), output, "No contract was broken.")


def counted(
    records: Iterable["Record"], endpoint: str | None = None, by_device: bool = False
) -> list[dict[str, Any]]:
    """The most frequent first. A payload that comes or is written twice counts once."""
    import orjson

    from shared.events import envelope

    known: set[bytes] = set()
    rows: dict[tuple[str | None, ...], dict[str, Any]] = {}
    devices: dict[tuple[str | None, ...], set[bytes]] = {}
    for record in records:
        told = orjson.loads(record.value or b"{}")
        payload_id, device = envelope.find(record.headers, envelope.ID), record.key or b""
        if payload_id is None or payload_id in known or endpoint not in (None, told["endpoint"]):
            continue
        known.add(payload_id)
        told["place"] = _INDEX.sub("*", told["place"]) or "the whole"
        of = {name: told.get(name) for name in _COUNTED_BY}
        if by_device:
            of["device"] = device.decode(errors="backslashreplace")
        row = rows.setdefault(tuple(of.values()), {**of, "payloads": 0, "devices": 0, "last": 0})
        row["payloads"] += 1
        row["last"] = max(row["last"], record.time_ms)
        devices.setdefault(tuple(of.values()), set()).add(device)
    for key, row in rows.items():
        row["devices"], row["last"] = len(devices[key]), to_rfc3339(row["last"])
        if by_device:
            del row["devices"]
    return sorted(rows.values(), key=lambda row: -row["payloads"])
