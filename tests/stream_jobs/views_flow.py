"""Views of the sample's readings, of each kind that there is."""

from dataclasses import replace

from typing_extensions import TypedDict

from shared.flow import FLOW as SAMPLE
from shared.flow_table import Flow
from shared.model import View
from shared.tables.column_types import Time, Window

LATE_AFTER_S = 20
BY_AREA = """
    SELECT area, window, count(*) AS readings, sum(value) AS total, max(value) AS highest
    FROM reading
    GROUP BY area, window(time, '10 seconds')
"""
BY_AREA_OVERLAPPING = """
    SELECT area, window, count(*) AS readings, sum(value) AS total, max(value) AS highest
    FROM reading
    GROUP BY area, window(time, '10 seconds', '5 seconds')
"""
SESSIONS = """
    SELECT entity_id AS device, session_window AS window, count(*) AS readings,
        max(value) AS highest
    FROM reading
    GROUP BY entity_id, session_window(time, '3 seconds')
"""
HOT = "SELECT event_id, entity_id, tenant, time, value FROM reading WHERE value > 90"
TOTALS = """
    SELECT tenant, entity_id, count(*) AS readings,
        max_by(value, struct(time, event_id)) AS latest
    FROM reading
    GROUP BY tenant, entity_id
"""
_IN_THE_5_S_BEFORE = """
    s.entity_id = r.entity_id AND s.time BETWEEN r.time - INTERVAL 5 SECONDS AND r.time
"""
CHANGED_BEFORE = f"""
    SELECT r.event_id AS reading, s.event_id AS change, r.value, s.status
    FROM reading r JOIN status_changed s ON {_IN_THE_5_S_BEFORE}
    WHERE r.value > 80
"""
LAST_STATUS = f"""
    SELECT r.event_id, r.time, count(s.event_id) AS changes,
        max_by(s.status, struct(s.time, s.event_id)) AS status
    FROM reading r LEFT JOIN status_changed s ON {_IN_THE_5_S_BEFORE}
    WHERE r.value > 80
    GROUP BY r.event_id, r.time
"""
_READING = ("reading",)
_BOTH = ("reading", "status_changed")
VIEWS = (
    View("by_area", _READING, BY_AREA, ("area",), late_after_s=LATE_AFTER_S),
    View("by_area_closed", _READING, BY_AREA_OVERLAPPING, ("area",), "final", LATE_AFTER_S),
    View("sessions", _READING, SESSIONS, ("device",), "final", LATE_AFTER_S),
    View("hot", _READING, HOT, ("event_id",), late_after_s=LATE_AFTER_S),
    View("totals", _READING, TOTALS, ("tenant", "entity_id"), late_after_s=LATE_AFTER_S),
)
JOINS = (
    View("changed_before", _BOTH, CHANGED_BEFORE, ("reading", "change"), late_after_s=LATE_AFTER_S),
    View("last_status", _BOTH, LAST_STATUS, ("event_id", "time"), "final", LATE_AFTER_S),
)
FLOW: Flow = replace(SAMPLE, views=VIEWS)
FLOW_OF_JOINS: Flow = replace(SAMPLE, views=JOINS)


class ByArea(TypedDict):
    area: str | None
    window: Window
    readings: int
    total: float | None
    highest: float | None


class Hot(TypedDict):
    event_id: str
    entity_id: str
    tenant: str | None
    time: Time
    value: float


class Totals(TypedDict):
    tenant: str | None
    entity_id: str
    readings: int
    latest: float | None


# the same, whose rows are in PostgreSQL, too
_CONTRACTS = {"by_area": ByArea, "hot": Hot, "totals": Totals}
STORED_VIEWS = tuple(
    replace(row, name=f"stored_{row.name}", row=_CONTRACTS[row.name])
    for row in VIEWS
    if row.name in _CONTRACTS
)
STORED_FLOW: Flow = replace(SAMPLE, views=STORED_VIEWS)
SECOND_VERSIONS = tuple(replace(row, version=2) for row in STORED_VIEWS)
SECOND_FLOW: Flow = replace(SAMPLE, views=SECOND_VERSIONS)
