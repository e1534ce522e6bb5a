"""`./headrace credentials`: who may ask the gateway."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from local_stack.remote.asking import remote_desk
from local_stack.run.desks import credentials_desk
from local_stack.run.health import asks_who
from local_stack.run.options import StateDir, folder_of
from local_stack.run.stack_file import read_status
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, say_json, say_rows
from local_stack.terminal.progress import say
from local_stack.terminal.user import user_name

if TYPE_CHECKING:
    from gateway.auth.caller import Caller


class OperatorMay(StrEnum):
    LOOK = "look"
    OPERATE = "operate"
    ADMINISTER = "administer"


class SecretKind(StrEnum):
    TOKEN = "token"
    HMAC = "hmac"


app = typer.Typer(
    no_args_is_help=True,
    help="""Credentials: who may ask the gateway. HEADRACE_AUTH says whether it wants to know.

    Example: ./headrace credentials add --device device-0001
    """,
)

Tenant = Annotated[str, typer.Option(help="Whose it is; without it, of no tenant.")]


@app.command()
def add(
    device: Annotated[str | None, typer.Option(help="It writes and reads this id alone.")] = None,
    gateway: Annotated[
        bool, typer.Option("--gateway", help="Writes for all devices of its tenant.")
    ] = False,
    operator: Annotated[
        bool, typer.Option("--operator", help="Reads states and, without a tenant, /health.")
    ] = False,
    tenant: Tenant = "",
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="An operator that reads every tenant's states.")
    ] = False,
    may: Annotated[
        OperatorMay,
        typer.Option(help="What an operator may at the desk: see all; also order; also all else."),
    ] = OperatorMay.ADMINISTER,
    kind: Annotated[
        SecretKind, typer.Option(help="A secret to send, or one to sign requests with.")
    ] = SecretKind.TOKEN,
    days: Annotated[int | None, typer.Option(min=1, help="How long it holds.")] = None,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Add one, and print its secret: it is shown once and kept nowhere. Two of one device hold at
    the same time, so a key is changed by adding one, using it, and revoking the other.

    Example: ./headrace credentials add --device device-0001
    """
    caller = _caller(device, gateway, operator, tenant, all_tenants, may.value)
    with credentials_desk(state_dir) as desk:
        added = desk.add(caller, kind.value, days, by=user_name())
    if remote_desk() is None:
        _warn_where_nobody_asks(folder_of(state_dir))
    if output is Output.JSON:
        say_json(added.told())
        return
    say(f"key id  {added.key_id}\n{added.name:<7} {added.text}\n\n{added.use}")
    say("It is not shown again.")


@app.command("list")
def list_(output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """Those that hold, and those that have expired; the revoked are gone.

    Example: ./headrace credentials list
    """
    with credentials_desk(state_dir) as desk:
        rows = desk.all()
    say_rows(rows, output, "There is no credential; `./headrace credentials add` adds one.")


@app.command()
def revoke(key_id: str, state_dir: StateDir = None) -> None:
    """Each gateway that reaches Kafka refuses it within seconds.

    Example: ./headrace credentials revoke 3f9a0c41d27e
    """
    with credentials_desk(state_dir) as desk:
        desk.revoke(key_id, by=user_name())
    say(f"{key_id} is revoked")


def _caller(
    device: str | None,
    gateway: bool,
    operator: bool,
    tenant: str,
    all_tenants: bool,
    may: str,
) -> "Caller":
    from desk.credentials.service import BadCredentialError, caller_of

    if [device is not None, gateway, operator].count(True) != 1:
        raise StackError("whose is it?", "give one of --device ID, --gateway and --operator")
    owner = "device" if device is not None else "gateway" if gateway else "operator"
    try:
        return caller_of(owner, device, tenant, all_tenants=all_tenants, may=may)
    except BadCredentialError as error:
        raise StackError(str(error), "see: ./headrace credentials add --help") from error


def _warn_where_nobody_asks(folder: Path) -> None:
    url = read_status(folder)["gateway_url"]
    if url and asks_who(url) is False:
        typer.echo(
            "headrace: the gateway asks nobody for a credential\n"
            "          start it with HEADRACE_AUTH=token",
            err=True,
        )
