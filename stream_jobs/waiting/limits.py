"""What may wait: whoever sends much, or under random ids, must not stop the others.

One a process, so several of them let as many times the new ids of a minute pass. The totals are
those of the gates, which all of them hear.
"""

import time
from collections.abc import Callable
from typing import NamedTuple, Self

from shared.settings import JobSettings
from stream_jobs.waiting.line_key import entity_of, tenant_of_line
from stream_jobs.waiting.protocol import LINE_FULL, Gates

TOO_MANY_UNKNOWN, TOO_MANY_WAITING = "too_many_unknown", "too_many_waiting"
_MINUTE_S = 60.0


class Caps(NamedTuple):
    """How many of each tenant may wait."""

    new_a_minute: int
    entities: int
    payloads: int

    @classmethod
    def of(cls, settings: JobSettings) -> Self:
        return cls(
            settings.unknown_ids_per_minute_max,
            settings.waiting_entities_max,
            settings.waiting_per_tenant_max,
        )


class WaitLimits:
    def __init__(self, caps: Caps, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._caps = caps
        self._clock_s = clock_s
        self._since_s = clock_s()
        self._of_tenants: dict[str, set[str]] = {}  # who began in this minute

    def why_no_more(self, key: str, gates: Gates) -> tuple[str, str] | None:
        """For whom something waits already."""
        if gates.is_full(key):
            return LINE_FULL, "as many of its payloads wait as may"
        return self._why_not_of(tenant_of_line(key), gates, is_new=False)

    def why_not(self, key: str, gates: Gates, *, is_unknown: bool) -> tuple[str, str] | None:
        """For whom nothing waits yet. `is_unknown`: it waits for a row of master data, as anybody's
        random id does. Who was let in stays so for the minute: a batch may run again."""
        tenant, entity = tenant_of_line(key), entity_of(key)
        if why_not := self._why_not_of(tenant, gates, is_new=is_unknown):
            return why_not
        if not is_unknown:
            return None
        if self._clock_s() - self._since_s >= _MINUTE_S:
            self._since_s, self._of_tenants = self._clock_s(), {}
        new = self._of_tenants.setdefault(tenant, set())
        if entity not in new and len(new) >= self._caps.new_a_minute:
            return TOO_MANY_UNKNOWN, (
                f"of tenant {tenant!r} {len(new)} ids began to wait within a minute, no more may"
            )
        new.add(entity)
        return None

    def _why_not_of(self, tenant: str, gates: Gates, *, is_new: bool) -> tuple[str, str] | None:
        waiting, caps = gates.waiting(tenant), self._caps
        has_room = not is_new or waiting.unknown < caps.entities
        if has_room and waiting.payloads < caps.payloads:
            return None
        return TOO_MANY_WAITING, (
            f"of tenant {tenant!r} {waiting.payloads} payloads wait, and {waiting.unknown} "
            f"entities for master data; {caps.payloads} and {caps.entities} may"
        )
