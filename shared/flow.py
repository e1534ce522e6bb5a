"""The flow: which event ignites what next. Read this first.

A row here is all that a new endpoint, event type or entity needs beside its own file. The table
makes the topics, tells each job what to read and write, and prints the picture.
"""

import importlib
from functools import cache
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from shared.flow_table import Flow
from shared.model import Aggregate, Endpoint, Entity, EventType, Example
from shared.sample_domain import area, device, status, telemetry

FLOW = Flow(
    endpoints=(
        Endpoint(
            "telemetry",
            enrich=telemetry.to_reading,
            emits=("reading",),
            master=("device", "device_model"),
            payload=telemetry.TelemetryPayload,
            example=Example("device-0001", {"value": 21.5}),
        ),
        Endpoint(
            "status",
            enrich=status.to_status_changed,
            emits=("status_changed", "retired"),
            payload=status.StatusPayload,
        ),
    ),
    event_types=(
        EventType("reading", data=telemetry.Reading),
        EventType("status_changed", data=status.StatusChanged),
        EventType("retired", data=status.Retired),
        EventType("alarm_raised", data=device.Alarm),
        EventType("alarm_cleared", data=device.Alarm),
    ),
    entities=(
        Entity(
            "device",
            folds=("reading", "status_changed"),
            initial=device.initial,
            fold=device.fold,
            state=device.Device,
            derive=device.alarms,
            emits=("alarm_raised", "alarm_cleared"),
            deleted_by=("retired",),
            history=True,
            indexed=("area", "status", "connection", "value"),
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
            indexed=("alarms_now", "devices", "highest"),
        ),
    ),
)


@cache
def load_flow(reference: str = "shared.flow:FLOW") -> Flow:
    """The flow that `module:attribute` names (setting HEADRACE_FLOW); ValueError says what is wrong
    with it, whatever that is."""
    module_name, _, attribute = reference.partition(":")
    module = _import(module_name)
    flow = getattr(module, attribute or "FLOW", None)
    if isinstance(flow, Flow):
        return flow
    flows = [name for name, value in vars(module).items() if isinstance(value, Flow)]
    hint = f"there is {module_name}:{flows[0]}" if flows else "end the module with FLOW = Flow(…)"
    raise ValueError(f"{reference!r} is no Flow; {hint}")


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # a module of the user's own may fail in any way
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if not name or (missing and f"{name}.".startswith(f"{missing}.")):
            hint = "write module:attribute, such as flights:FLOW"
            if name.endswith(".py"):
                hint = f"name the module, not the file: {Path(name).stem}:FLOW"
            raise ValueError(
                f"there is no module {name!r}; {hint}, and put the module's folder on PYTHONPATH"
            ) from error
        raise ValueError(_where_and_what(error)) from error


def _where_and_what(error: Exception) -> str:
    """At the last line outside of this package and Python's own."""
    if isinstance(error, SyntaxError):
        file, line, said = error.filename or "", error.lineno, error.msg
    else:
        ours = (str(Path(__file__).parent), "<")
        frames = [f for f in extract_tb(error.__traceback__) if not f.filename.startswith(ours)]
        file, line, said = frames[-1].filename, frames[-1].lineno, str(error).partition("\n")[0]
    return f"{Path(file).name}, line {line}: {type(error).__name__}: {said}"
