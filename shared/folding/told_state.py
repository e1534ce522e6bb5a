"""A state as consumers are told it: as GET /state shows it, and a deleted one as such."""

from shared.folding.snapshot import Facts
from shared.ids import tenant_of
from shared.model import Fields
from shared.timestamps import to_rfc3339

# how often the device's clock made a difference: only where it did
_CLOCKS = ("late", "clock_off")


def told_state(entity: str, full_id: str, at_ms: int, facts: Facts | None, meta: Fields) -> Fields:
    """`at_ms`: when it was written. Without facts it is one that was forgotten."""
    told = {
        "entity": entity,
        "id": full_id.removeprefix(f"{tenant_of(full_id)}/"),
        "updated_at": to_rfc3339(at_ms),
    }
    if facts is None:
        return {**told, "version": None, "event_time": None, "deleted": True}
    time_ms = facts.event_time_ms
    return {
        **told,
        "version": facts.version,
        "event_time": None if time_ms is None else to_rfc3339(time_ms),
        **{name: meta[name] for name in _CLOCKS if name in meta},
        **({"deleted": True} if facts.deleted else {"state": facts.state}),
    }
