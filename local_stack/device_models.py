"""`./headrace devices models` and `add-model`: how a model's payload becomes a value."""

import json
from typing import Annotated

import typer

from local_stack.options import StateDir
from local_stack.progress import say

Number = Annotated[float, typer.Option(help="value = payload field * scale + offset")]


def models(state_dir: StateDir = None) -> None:
    """One line of JSON per device model.

    Example: ./headrace devices models
    """
    from local_stack.devices import master_data
    from stream_jobs.master_data import list_models

    with master_data(state_dir) as connection:
        for model in list_models(connection):
            say(json.dumps(model._asdict()))


def add_model(
    name: str,
    value_field: Annotated[str, typer.Option(help="The payload's field that has the value.")],
    unit: Annotated[str, typer.Option(help="The unit after scale and offset.")],
    scale: Number = 1.0,
    offset: Number = 0.0,
    state_dir: StateDir = None,
) -> None:
    """Add a device model.

    Example: ./headrace devices add-model thermo-x --value-field x --unit celsius --scale 0.1
    """
    from local_stack.devices import master_data
    from stream_jobs import master_data as rows

    with master_data(state_dir) as connection:
        added = rows.add_model(connection, name, value_field, unit, scale, offset)
    say(json.dumps(added._asdict()))
