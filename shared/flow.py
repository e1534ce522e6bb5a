"""The flow: which event ignites what next. Read this first.

A row here is all that a new endpoint, event type or entity needs beside its own file. The table
makes the topics, tells each job what to read and write, and prints the picture.
"""

import importlib
from functools import cache

from shared.domain import area, device, status, telemetry
from shared.model import Aggregate, Endpoint, Entity, EventType
from shared.topology import Flow

FLOW = Flow(
    endpoints=(
        Endpoint(
            "telemetry",
            enrich=telemetry.to_reading,
            emits=("reading",),
            master=("device", "device_model"),
            payload=telemetry.TelemetryPayload,
        ),
        Endpoint(
            "status",
            enrich=status.to_status_changed,
            emits=("status_changed",),
            payload=status.StatusPayload,
        ),
    ),
    event_types=(
        EventType("reading", data=telemetry.Reading),
        EventType("status_changed", data=status.StatusChanged),
    ),
    entities=(
        Entity(
            "device",
            folds=("reading", "status_changed"),
            initial=device.initial,
            fold=device.fold,
            state=device.Device,
        ),
    ),
    aggregates=(
        Aggregate(
            "area",
            members="device",
            share=area.share,
            add=area.add,
            total=area.total,
            state=area.Area,
        ),
    ),
)


@cache
def load_flow(reference: str = "shared.flow:FLOW") -> Flow:
    """The flow that `module:attribute` names (setting HEADRACE_FLOW)."""
    module_name, _, attribute = reference.partition(":")
    flow = getattr(importlib.import_module(module_name), attribute or "FLOW")
    if not isinstance(flow, Flow):
        raise TypeError(f"{reference!r} names {type(flow).__name__}, not a Flow")
    return flow
