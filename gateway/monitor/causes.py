"""Which of the checks that are not well tell a cause, and which only what follows from another one;
and since when. Pure.

A check that is not well for want of something names, as "because", the checks that would explain
it: what is heard through Kafka cannot be known while Kafka is away. If one of these is not well
either, the check follows from it. What is not well for a reason of its own names none.
"""

from collections.abc import Mapping
from typing import Any

from shared.timestamps import to_rfc3339

KAFKA, POSTGRES = "kafka:connection", "postgres:connection"
VIEW = "state_view:lag"
BECAUSE, FOLLOWS = "because", "followsFrom"


def name_causes(checks: Mapping[str, dict[str, Any]]) -> list[str]:
    """The causes among the checks that are not well. Each other one is told which of them it
    follows from."""
    because = {name: check.pop(BECAUSE, ()) for name, check in checks.items()}
    unwell = [name for name, check in checks.items() if check["status"] != "pass"]
    causes = []
    for name in unwell:
        cause = name
        while explained := [other for other in because[cause] if other in unwell]:
            cause = explained[0]
        if cause == name:
            causes.append(name)
        else:
            checks[name][FOLLOWS] = cause
    return causes


class Since:
    """When each check was first seen not to be well, by whoever looks often."""

    def __init__(self) -> None:
        self._first_ms: dict[str, int] = {}

    def tell(self, checks: Mapping[str, dict[str, Any]], at_ms: int) -> None:
        unwell = {name for name, check in checks.items() if check["status"] != "pass"}
        self._first_ms = {name: self._first_ms.get(name, at_ms) for name in unwell}
        for name, first_ms in self._first_ms.items():
            checks[name]["since"] = to_rfc3339(first_ms)
