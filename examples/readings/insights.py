"""What the sample's readings come to, as views in SQL.

PYTHONPATH=examples/readings HEADRACE_FLOW=insights:FLOW ./headrace up
./headrace views show by_minute --where area=north
./headrace views show by_device --sort -highest --limit 10
"""

from dataclasses import replace

from shared.flow import FLOW as SAMPLE
from shared.flow_table import Flow
from shared.model import View

BY_MINUTE = """
    SELECT area, window, count(*) AS readings, avg(value) AS mean, max(value) AS highest
    FROM reading
    GROUP BY area, window(time, '1 minute')
"""
# online until it has been silent for five minutes
ONLINE = """
    SELECT tenant, entity_id AS device, session_window AS window, count(*) AS readings,
        (unix_millis(session_window.end) - unix_millis(session_window.start)) / 1000 - 300
            AS seconds,
        max(value) AS highest
    FROM reading
    GROUP BY tenant, entity_id, session_window(time, '5 minutes')
"""
BY_DEVICE = """
    SELECT tenant, entity_id AS device, count(*) AS readings, max(value) AS highest,
        max_by(value, struct(time, event_id)) AS latest
    FROM reading
    GROUP BY tenant, entity_id
"""
ALARM_WITH_STATUS = """
    SELECT a.tenant, a.event_id AS alarm, a.time, a.entity_id AS device,
        max_by(s.status, struct(s.time, s.event_id)) AS last_status
    FROM alarm_raised a LEFT JOIN status_changed s
        ON s.entity_id = a.entity_id AND s.time BETWEEN a.time - INTERVAL 1 HOUR AND a.time
    GROUP BY a.tenant, a.event_id, a.time, a.entity_id
"""
_A_MINUTE = 60.0

FLOW: Flow = replace(
    SAMPLE,
    views=(
        View("by_minute", ("reading",), BY_MINUTE, ("area",)),
        View("online", ("reading",), ONLINE, ("tenant", "device"), "final", _A_MINUTE),
        View("by_device", ("reading",), BY_DEVICE, ("tenant", "device")),
        View(
            "alarm_with_status",
            ("alarm_raised", "status_changed"),
            ALARM_WITH_STATUS,
            ("tenant", "alarm", "time", "device"),
            "final",
            _A_MINUTE,
        ),
    ),
)
