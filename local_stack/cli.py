"""`./headrace`: its verbs, and how an error of theirs is told."""

import os
import signal
import sys
from typing import Annotated

import typer
from typer.exceptions import TyperException

from local_stack.remote import asking
from local_stack.terminal.errors import StackError
from local_stack.verbs import (
    credentials,
    devices,
    hooks,
    jobs,
    letters,
    master,
    spool,
    topics,
    views,
    waiting,
)
from local_stack.verbs.acls import acls
from local_stack.verbs.breaches import breaches
from local_stack.verbs.chaos import chaos
from local_stack.verbs.contracts import contracts
from local_stack.verbs.demo import demo
from local_stack.verbs.doctor import doctor
from local_stack.verbs.flow import flow
from local_stack.verbs.ledger import ledger
from local_stack.verbs.logs import logs
from local_stack.verbs.plan import plan
from local_stack.verbs.reenrich import reenrich
from local_stack.verbs.refold import refold
from local_stack.verbs.reset import reset
from local_stack.verbs.site import site
from local_stack.verbs.skew import skew
from local_stack.verbs.sql import sql
from local_stack.verbs.status import status
from local_stack.verbs.stop import stop
from local_stack.verbs.tail import tail
from local_stack.verbs.test import test
from local_stack.verbs.torture import torture
from local_stack.verbs.try_ import try_
from local_stack.verbs.up import up
from local_stack.verbs.version import version
from local_stack.verbs.where import where

VERBS = (
    *(up, status, stop, demo, doctor, tail, sql, ledger, flow, acls, contracts, chaos, logs, reset),
    version,
    refold,
    reenrich,
    breaches,
    where,
    skew,
    plan,
    site,
)
ELSEWHERE = {"jobs", "hooks", "credentials", "letters", "waiting", "where", "try"}
ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="""Headrace on this machine: Kafka, PostgreSQL, the gateway and the Spark jobs.

    Example: ./headrace up
    """,
)
for verb in VERBS:
    app.command()(verb)
app.command("try")(try_)
app.command(context_settings=ANY_ARGUMENTS)(test)
app.command(context_settings=ANY_ARGUMENTS)(torture)
app.add_typer(devices.app, name="devices")
app.add_typer(master.app, name="master")
app.add_typer(credentials.app, name="credentials")
app.add_typer(letters.app, name="letters")
app.add_typer(waiting.app, name="waiting")
app.add_typer(jobs.app, name="jobs")
app.add_typer(spool.app, name="spool")
app.add_typer(topics.app, name="topics")
app.add_typer(hooks.app, name="hooks")
app.add_typer(views.app, name="views")


@app.callback()
def begin(
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Option(
            help="Ask the desk at this address, not this machine: "
            f"{', '.join(sorted(ELSEWHERE))}. HEADRACE_REMOTE_TOKEN has an operator's token."
        ),
    ] = None,
) -> None:
    if url is None:
        return
    if not url.strip():
        raise StackError("--url is empty", "leave it out where this machine is meant")
    if context.invoked_subcommand not in ELSEWHERE:
        raise StackError(
            f"{context.invoked_subcommand} is about this machine: it asks no desk elsewhere",
            f"leave out --url; these ask one: {', '.join(sorted(ELSEWHERE))}",
        )
    os.environ[asking.URL] = url


def main() -> None:
    """Errors as one sentence and what to do; HEADRACE_DEBUG=1 shows where they come from."""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # __main__ had it end the imports
        sys.exit(app(prog_name="headrace", standalone_mode=False))
    except KeyboardInterrupt:  # before the verb began, or a verb that has nothing to undo
        sys.exit(128 + signal.SIGINT)
    except StackError as error:
        _end(error, 1, error.what, error.fix)
    except TyperException as error:  # a wrong verb, option or value
        _end(error, error.exit_code, *_usage(error))
    except Exception as error:
        what = f"{type(error).__name__}: {error}".strip()
        _end(error, 1, what, "set HEADRACE_DEBUG=1 to see where it comes from")


def _end(error: Exception, code: int, what: str, fix: str) -> None:
    if os.environ.get("HEADRACE_DEBUG"):
        raise error
    if what:
        print(f"headrace: {what}", file=sys.stderr)
    if fix:
        print(f"          {fix}", file=sys.stderr)
    sys.exit(code)


def _usage(error: TyperException) -> tuple[str, str]:
    """Typer names the nearest verb or option itself."""
    context = getattr(error, "ctx", None)
    verb = context.command_path if context else "headrace"
    said = error.format_message().replace("Value error, ", "")
    return said, f"see: ./{verb} --help" if said else ""
