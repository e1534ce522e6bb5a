"""`./headrace credentials`: who may ask the gateway."""

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from local_stack.run.options import StateDir, folder_of
from local_stack.run.reach import kafka_bootstrap
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, say_json, say_rows
from local_stack.terminal.progress import say

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.auth.caller import Caller

DAY_MS = 86_400_000


class Kind(StrEnum):
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
    kind: Annotated[
        Kind, typer.Option(help="A secret to send, or one to sign requests with.")
    ] = Kind.TOKEN,
    days: Annotated[int | None, typer.Option(min=1, help="How long it holds.")] = None,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Add one, and print its secret: it is shown once and kept nowhere. Two of one device hold at
    the same time, so a key is changed by adding one, using it, and revoking the other.

    Example: ./headrace credentials add --device device-0001
    """
    from gateway.auth.credentials import Credential
    from local_stack.operate.new_secret import new_secret
    from local_stack.run import credential_topic
    from shared.timestamps import to_rfc3339

    caller = _caller(device, gateway, operator, tenant, all_tenants)
    made_ms = time.time_ns() // 1_000_000
    not_after_ms = None if days is None else made_ms + days * DAY_MS
    secret = new_secret(kind.value)
    credential = Credential(caller, kind.value, secret.proof, not_after_ms, made_ms)
    credential_topic.write(kafka_bootstrap(state_dir), secret.key_id, credential)
    _warn_where_nobody_asks(folder_of(state_dir))
    until = None if not_after_ms is None else to_rfc3339(not_after_ms)
    if output is Output.JSON:
        say_json({"key_id": secret.key_id, secret.name: secret.text, "not_after": until})
        return
    say(f"key id  {secret.key_id}\n{secret.name:<7} {secret.text}\n\n{secret.use}")
    say("It is not shown again.")


@app.command("list")
def list_(output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """Those that hold, and those that have expired; the revoked are gone.

    Example: ./headrace credentials list
    """
    from local_stack.run import credential_topic

    known = credential_topic.read(kafka_bootstrap(state_dir))
    rows = [
        credential_topic.as_row(key_id, credential)
        for key_id, credential in sorted(known.items(), key=lambda row: row[0])
    ]
    say_rows(rows, output, "There is no credential; `./headrace credentials add` adds one.")


@app.command()
def revoke(key_id: str, state_dir: StateDir = None) -> None:
    """Each gateway that reaches Kafka refuses it within seconds.

    Example: ./headrace credentials revoke 3f9a0c41d27e
    """
    from local_stack.run import credential_topic

    bootstrap = kafka_bootstrap(state_dir)
    if key_id not in credential_topic.read(bootstrap):
        raise StackError(f"there is no credential {key_id}", "see: ./headrace credentials list")
    credential_topic.write(bootstrap, key_id, None)
    say(f"{key_id} is revoked")


def _caller(
    device: str | None, gateway: bool, operator: bool, tenant: str, all_tenants: bool
) -> "Caller":
    from gateway.auth.caller import Caller, Role
    from gateway.auth.credentials import refuse_unfit

    if [device is not None, gateway, operator].count(True) != 1:
        raise StackError("whose is it?", "give one of --device ID, --gateway and --operator")
    role: Role = "device" if device is not None else "gateway" if gateway else "operator"
    caller = Caller(role, tenant, device, all_tenants)
    try:
        refuse_unfit(caller)
    except ValueError as error:
        raise StackError(str(error), "see: ./headrace credentials add --help") from error
    return caller


def _warn_where_nobody_asks(folder: "Path") -> None:
    from local_stack.run.health import asks_who
    from local_stack.run.status import read_status

    url = read_status(folder)["gateway_url"]
    if url and asks_who(url) is False:
        typer.echo(
            "headrace: the gateway asks nobody for a credential\n"
            "          start it with HEADRACE_AUTH=token",
            err=True,
        )
