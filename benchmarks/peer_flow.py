"""The work that all peers do, as a flow: a telemetry payload gets its area, a device is folded.

The topics are those of the environment, where it names them (RAW, EVENTS, STATE).
"""

import os

from shared.flow_table import Flow
from shared.model import (
    Arrival,
    Draft,
    Endpoint,
    Entity,
    Event,
    EventType,
    Fields,
    MasterData,
    MissingMasterData,
)


def to_event(payload: Fields, arrival: Arrival, master: MasterData) -> Draft:
    row = master.find("device", arrival.entity_id)
    if row is None:
        raise MissingMasterData("device", arrival.entity_id)
    data = {
        "deviceId": arrival.entity_id,
        "area": row["area"],
        "seq": payload["seq"],
        "ts": payload["ts"],
        "v": payload["v"],
    }
    return Draft("telemetry", payload["ts"], data)


def initial(entity_id: str) -> Fields:
    return {
        "deviceId": entity_id,
        "area": None,
        "count": 0,
        "last": None,
        "min": None,
        "max": None,
        "state": "IDLE",
        "changes": 0,
        "ts": None,
    }


def fold(state: Fields, event: Event) -> Fields:
    """In log order, whatever the times say: so do the peers."""
    value, lowest, highest = event.data["v"], state["min"], state["max"]
    now = next_state(state["state"], value)
    return {
        "deviceId": state["deviceId"],
        "area": event.data["area"],
        "count": state["count"] + 1,
        "last": value,
        "min": value if lowest is None or value < lowest else lowest,
        "max": value if highest is None or value > highest else highest,
        "state": now,
        "changes": state["changes"] + (now != state["state"]),
        "ts": event.data["ts"],
    }


def next_state(state: str, value: float) -> str:
    if value >= 80:
        return "ALARM"
    if value < 15:
        return "IDLE"
    if state == "ALARM" and value >= 60:
        return "ALARM"
    return "IDLE" if state == "IDLE" and value < 20 else "ACTIVE"


FLOW = Flow(
    endpoints=(
        Endpoint(
            "telemetry",
            enrich=to_event,
            emits=("telemetry",),
            master=("device",),
            topic_name=os.environ.get("RAW"),
        ),
    ),
    event_types=(EventType("telemetry", topic_name=os.environ.get("EVENTS")),),
    entities=(
        Entity(
            "device",
            folds=("telemetry",),
            initial=initial,
            fold=fold,
            topic_name=os.environ.get("STATE"),
        ),
    ),
)
