"""Which letters are meant: whatever is given must hold."""

from typing import Any, NamedTuple, Self

STATUSES = ("parked", "redriven", "done", "discarded")
GROUPED_BY = (
    "cause",
    "stage",
    "endpoint",
    "entity_id",
    "tenant",
    "hook",
    "software",
    "status",
    "hour",
)
_HOUR = "date_trunc('hour', parked_at)"

# what was parked in a later transaction than there can be was restored from another server
_IN_MARK = (
    "(pg_visible_in_snapshot(parked_in, %s::pg_snapshot)"
    " OR parked_in >= pg_snapshot_xmax(pg_current_snapshot()))"
)


class Selection(NamedTuple):
    """None, or no ids: any."""

    ids: tuple[str, ...] = ()
    status: str | None = None
    cause: str | None = None
    stage: str | None = None
    endpoint: str | None = None
    entity_id: str | None = None
    tenant: str | None = None
    hook: str | None = None
    software: str | None = None
    hour: str | None = None
    since: str | None = None  # RFC 3339, of its last parking
    until: str | None = None
    up_to: str | None = None  # a mark: nothing that was parked after it was made

    def where(self) -> tuple[str, list[Any]]:
        """A condition for PostgreSQL."""
        given = {
            "id = ANY(%s)": list(self.ids) or None,
            "status = %s": self.status,
            "cause = %s": self.cause,
            "stage = %s": self.stage,
            "endpoint = %s": self.endpoint,
            "entity_id = %s": self.entity_id,
            "tenant = %s": self.tenant,
            "hook = %s": self.hook,
            "software = %s": self.software,
            f"{_HOUR} = %s::timestamptz": self.hour,
            "parked_at >= %s::timestamptz": self.since,
            "parked_at < %s::timestamptz": self.until,
            _IN_MARK: self.up_to,
        }
        asked = {condition: value for condition, value in given.items() if value is not None}
        return " AND ".join(asked) or "true", [*asked.values()]

    @property
    def is_all(self) -> bool:
        """It narrows nothing: not a word of which letters."""
        return self._replace(up_to=None) == Selection()

    def told(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if value not in (None, ())}

    @classmethod
    def of(cls, told: dict[str, Any]) -> Self:
        return cls(**{**told, "ids": tuple(told.get("ids", ()))})


def grouped_by(name: str) -> str:
    """The column, or what stands for one."""
    return _HOUR if name == "hour" else name
