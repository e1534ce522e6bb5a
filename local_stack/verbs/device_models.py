"""`./headrace devices models` and `add-model`: how a model's payload becomes a value."""

from typing import Annotated

import typer

from local_stack.run.options import StateDir
from local_stack.run.reach import master_data
from local_stack.terminal.output import Output, OutputOption, say_rows

Number = Annotated[float, typer.Option(help="value = payload field * scale + offset")]


def models(output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """The device models.

    Example: ./headrace devices models
    """
    from clients.postgres.master_data import list_models

    with master_data(state_dir) as connection:
        found = [model._asdict() for model in list_models(connection)]
    say_rows(found, output, "There is no model; `./headrace devices add-model` adds one.")


def add_model(
    name: str,
    value_field: Annotated[str, typer.Option(help="The payload's field that has the value.")],
    unit: Annotated[str, typer.Option(help="The unit after scale and offset.")],
    scale: Number = 1.0,
    offset: Number = 0.0,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Add a device model.

    Example: ./headrace devices add-model thermo-x --value-field x --unit celsius --scale 0.1
    """
    from clients.postgres import master_data as rows

    with master_data(state_dir) as connection:
        added = rows.add_model(connection, name, value_field, unit, scale, offset)
    say_rows([added._asdict()], output, "")
