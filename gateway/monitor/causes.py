"""Which of the checks that are not well tell a cause, and which only what follows from another one.
Pure.

A check that is not well for want of something names, as "because", the checks that would explain
it: what is heard through Kafka cannot be known while Kafka is away. If one of these is not well
either, the check follows from it. What is not well for a reason of its own names none.
"""

from collections.abc import Mapping
from typing import Any

KAFKA, POSTGRES = "kafka:connection", "postgres:connection"
VIEW = "state_view:lag"
BECAUSE, FOLLOWS = "because", "followsFrom"


def name_causes(checks: Mapping[str, dict[str, Any]]) -> list[str]:
    """Of all that are not well. Each other one is told which of them it follows from."""
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
