"""`./headrace credentials`: who may ask the gateway."""

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from local_stack.run.health import asks_who
from local_stack.run.options import StateDir, folder_of
from local_stack.run.server_addresses import kafka_bootstrap
from local_stack.run.stack_file import read_status
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, say_json, say_rows
from local_stack.terminal.progress import say
from shared.timestamps import to_rfc3339

if TYPE_CHECKING:
    from gateway.auth.caller import Caller
    from shared.settings.secret_box import SecretBox

DAY_MS = 86_400_000


class SecretKind(StrEnum):
    TOKEN = "token"
    HMAC = "hmac"


class NewSecret(NamedTuple):
    """As its owner gets it, and as the topic does."""

    key_id: str
    name: str
    text: str
    proof: bytes
    use: str


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
    from gateway.auth.credentials import Credential
    from local_stack.run import credential_topic

    caller = _caller(device, gateway, operator, tenant, all_tenants)
    made_ms = time.time_ns() // 1_000_000
    not_after_ms = None if days is None else made_ms + days * DAY_MS
    secret = _new_secret(kind)
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


def _warn_where_nobody_asks(folder: Path) -> None:
    url = read_status(folder)["gateway_url"]
    if url and asks_who(url) is False:
        typer.echo(
            "headrace: the gateway asks nobody for a credential\n"
            "          start it with HEADRACE_AUTH=token",
            err=True,
        )


def _new_secret(kind: SecretKind) -> NewSecret:
    from gateway.auth.signature import make_signing_key
    from gateway.auth.token import make_token

    if kind is SecretKind.TOKEN:
        token = make_token()
        use = f"Send it as:  Authorization: Bearer {token.text}"
        return NewSecret(token.key_id, "token", token.text, token.proof, use)
    key = make_signing_key(_box())
    return NewSecret(
        key.key_id, "secret", key.secret, key.proof, "docs/security.md shows how to sign with it."
    )


def _box() -> "SecretBox":
    from local_stack.machine.settings_check import gateway_settings
    from shared.settings import WrongSetting
    from shared.settings.secret_box import SecretBox

    settings = gateway_settings()
    if not (settings.credentials_key or settings.credentials_key_file):
        raise StackError(
            "a signing secret is sealed before it is written, and there is no key for that",
            "set HEADRACE_CREDENTIALS_KEY or HEADRACE_CREDENTIALS_KEY_FILE as for the gateway",
        )
    try:
        return SecretBox.of(settings)
    except WrongSetting as error:
        raise StackError(str(error), "use the gateway's own key") from error
