"""Where another terminal reaches the servers: the user's own, else those of the stack."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clients.postgres.grants import OWNER, READER
from local_stack.run.options import folder_of
from local_stack.run.stack_file import read_status
from local_stack.servers.postgres_address import as_role
from local_stack.terminal.errors import LOOK, StackError
from shared.errors import StoreAwayError

if TYPE_CHECKING:
    from clients.postgres.store import Connection

START = "start the stack with: ./headrace up"


def running_stack(folder: Path) -> dict[str, Any]:
    """Its status. What the last run listened on may by now be another stack's."""
    status = read_status(folder)
    if not status["running"]:
        raise StackError(f"no stack runs on {folder}", START)
    return status


def kafka_bootstrap(state_dir: Path | None) -> str:
    return _address("HEADRACE_KAFKA_BOOTSTRAP", "kafka_bootstrap", state_dir, "no Kafka yet")


@contextmanager
def database(
    state_dir: Path | None, application: str, role: str = READER
) -> Iterator["Connection"]:
    """A connection in autocommit mode; what the store cannot do now is a sentence."""
    from clients.postgres.store import connect

    try:
        with connect(postgres_url(state_dir, role), application) as connection:
            yield connection
    except StoreAwayError as error:
        raise StackError(f"PostgreSQL cannot do it now: {error}", LOOK) from error


@contextmanager
def master_data(state_dir: Path | None) -> Iterator["Connection"]:
    from clients.postgres.master_data import MasterDataError

    try:
        with database(state_dir, "devices", OWNER) as connection:
            yield connection
    except MasterDataError as error:
        raise StackError(str(error), "nothing was changed") from error


def postgres_url(state_dir: Path | None, role: str) -> str:
    url = _address("HEADRACE_POSTGRES_URL", "postgres_url", state_dir, "no database yet")
    return as_role(url, role)


def _address(variable: str, key: str, state_dir: Path | None, missing: str) -> str:
    address = os.environ.get(variable) or running_stack(folder_of(state_dir))[key]
    if not address:
        raise StackError(f"there is {missing}", START)
    return str(address)
