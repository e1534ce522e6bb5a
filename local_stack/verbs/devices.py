"""`./headrace devices`: the master data of the running stack."""

import json
from typing import Annotated

import typer

from local_stack.run.options import StateDir
from local_stack.run.server_addresses import master_data
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, say_rows

app = typer.Typer(
    no_args_is_help=True,
    help="""Devices: which there are, where, of which model.

    Example: ./headrace devices list --limit 5
    """,
)

Attributes = Annotated[
    list[str] | None,
    typer.Option("--attribute", help="NAME=VALUE, as often as needed; VALUE may be JSON."),
]
Number = Annotated[float, typer.Option(help="value = payload field * scale + offset")]


@app.command()
def add(
    device: str,
    area: Annotated[str, typer.Option(help="The code of its area.")],
    model: Annotated[str, typer.Option(help="The name of its model.")],
    attribute: Attributes = None,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Add a device.

    Example: ./headrace devices add device-2001 --area area-01 --model thermo-c
    """
    from clients.postgres.master_data import add_device

    with master_data(state_dir) as connection:
        added = add_device(connection, device, area, model, parse_attributes(attribute) or {})
    say_rows([added._asdict()], output, "")


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 20,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """The devices in the order of their ids.

    Example: ./headrace devices list --limit 5
    """
    from clients.postgres.master_data import list_devices

    with master_data(state_dir) as connection:
        found = [device._asdict() for device in list_devices(connection, limit)]
    say_rows(found, output, "There is no device; `./headrace devices add` adds one.")


@app.command("set")
def set_(
    device: str,
    area: Annotated[str | None, typer.Option(help="The code of its new area.")] = None,
    model: Annotated[str | None, typer.Option(help="The name of its new model.")] = None,
    attribute: Attributes = None,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Change what is given; attributes replace those before.

    Example: ./headrace devices set device-0001 --area area-02
    """
    from clients.postgres.master_data import set_device

    if area is None and model is None and not attribute:
        typer.echo("headrace: nothing to change: give --area, --model or --attribute", err=True)
        raise typer.Exit(2)
    with master_data(state_dir) as connection:
        changed = set_device(connection, device, area, model, parse_attributes(attribute))
    say_rows([changed._asdict()], output, "")


@app.command()
def models(output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """The device models.

    Example: ./headrace devices models
    """
    from clients.postgres.master_data import list_models

    with master_data(state_dir) as connection:
        found = [model._asdict() for model in list_models(connection)]
    say_rows(found, output, "There is no model; `./headrace devices add-model` adds one.")


@app.command("add-model")
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


def parse_attributes(pairs: list[str] | None) -> dict[str, object] | None:
    """`floor=3` is a number, `room=lab` a text; nothing given is no change."""
    if not pairs:
        return None
    wrong = [pair for pair in pairs if "=" not in pair]
    if wrong:
        raise StackError(f"{wrong[0]!r} is no attribute", "write it as NAME=VALUE")
    return {name: _value(text) for name, text in (pair.split("=", 1) for pair in pairs)}


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
