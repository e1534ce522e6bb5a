"""What the desk last said of dead letters: a check of /health. Pure."""

from collections.abc import Sequence
from typing import Any

from gateway.monitor.causes import BECAUSE, POSTGRES
from gateway.monitor.job_status import JobStatus

DESK = b"desk"  # its key on the status topic


def check(desk: JobStatus | None, heard_by: Sequence[str] = ()) -> dict[str, Any]:
    """Well where nothing is parked: what is under way needs nobody. `heard_by`: checks that would
    explain that nothing is heard."""
    told_by = (*heard_by, POSTGRES)
    letters = desk.said.get("letters") if desk else None
    if desk is None or not isinstance(letters, dict):
        unknown = {"status": "warn", "output": "nothing is known of them: does the desk run?"}
        return {**unknown, BECAUSE: told_by}
    parked, came_back = _count(letters, "parked"), _count(letters, "came_back")
    told = []
    if parked:
        again = f", {came_back} of them came back" if came_back else ""
        oldest_s = _count(letters, "oldest_s")
        told.append(f"the oldest for {oldest_s} s{again}: ./headrace letters list --by cause")
    if desk.is_silent:
        told.append(f"as of {desk.silent_ms // 1000} s ago")
    return {
        "status": "warn" if told else "pass",
        "observedValue": parked,
        "observedUnit": "letters",
        "underWay": _count(letters, "redriven"),
        **({"output": "; ".join(told)} if told else {}),
        BECAUSE: () if parked else told_by,
    }


def counts_them(desk: JobStatus | None) -> bool:
    """Their topics keep what was done with long ago."""
    return desk is not None and not desk.is_silent and isinstance(desk.said.get("letters"), dict)


def _count(letters: dict[str, Any], name: str) -> int:
    value = letters.get(name)
    return int(value) if isinstance(value, int | float) else 0
