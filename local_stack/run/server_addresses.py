"""Where another terminal reaches the servers: the user's own, else those of the stack."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clients.postgres.grants import DESK, OWNER, READER
from local_stack.run.options import folder_of
from local_stack.run.stack_file import read_status
from local_stack.servers.postgres_address import as_role
from local_stack.terminal.errors import LOOK, StackError
from shared.errors import StoreAwayError
from shared.kafka_access import KafkaAwayError

if TYPE_CHECKING:
    from clients.postgres.store import Connection
    from desk.credentials.service import CredentialDesk
    from desk.hooks.service import HookDesk
    from desk.jobs.service import JobDesk
    from desk.letters.audit import OpenBook
    from desk.letters.service import Desk
    from shared.settings import Settings

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
        with connect(_postgres_url(state_dir, role), application) as connection:
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


@contextmanager
def letters_desk(state_dir: Path | None) -> Iterator["Desk"]:
    from pydantic import SecretStr

    from desk.letters.service import NoLetterError, desk
    from shared.settings import GatewaySettings

    settings = GatewaySettings(
        kafka_bootstrap=kafka_bootstrap(state_dir),
        postgres_url=SecretStr(_postgres_url(state_dir, DESK)),
        state_dir=folder_of(state_dir),
    )
    try:
        with desk(settings) as found:
            yield found
    except StoreAwayError as error:
        raise StackError(f"PostgreSQL cannot do it now: {error}", LOOK) from error
    except KafkaAwayError as error:
        raise StackError(str(error), LOOK) from error
    except NoLetterError as error:
        raise StackError(
            str(error), "list those that are there: ./headrace letters list"
        ) from error


def _book_of(state_dir: Path | None, settings: "Settings") -> "OpenBook":
    """Opened when something is noted: what stands in Kafka is to be had without a database."""
    from pydantic import SecretStr

    from desk.letters.store import LetterBook, open_book

    @contextmanager
    def opened() -> Iterator[LetterBook]:
        try:
            url = SecretStr(_postgres_url(state_dir, DESK))
        except StackError as error:
            raise StoreAwayError(error.what) from error
        with open_book(settings.model_copy(update={"postgres_url": url})) as book:
            yield book

    return opened


@contextmanager
def credentials_desk(state_dir: Path | None) -> Iterator["CredentialDesk"]:
    from desk.credentials.service import BadCredentialError, CredentialDesk, NoCredentialError
    from local_stack.machine.settings_check import gateway_settings

    its = {"kafka_bootstrap": kafka_bootstrap(state_dir), "state_dir": folder_of(state_dir)}
    settings = gateway_settings().model_copy(update=its)
    try:
        yield CredentialDesk(settings, _book_of(state_dir, settings))
    except NoCredentialError as error:
        raise StackError(str(error), "see: ./headrace credentials list") from error
    except BadCredentialError as error:
        raise StackError(str(error), "nothing was changed") from error
    except KafkaAwayError as error:
        raise StackError(str(error), LOOK) from error


@contextmanager
def jobs_desk(state_dir: Path | None) -> Iterator["JobDesk"]:
    from desk.jobs.service import BadOrderError, JobDesk, NoJobError
    from local_stack.machine.settings_check import settings_of

    settings = settings_of(kafka_bootstrap(state_dir), folder_of(state_dir))
    try:
        yield JobDesk(settings, _book_of(state_dir, settings))
    except NoJobError as error:
        raise StackError(str(error), "see: ./headrace jobs list") from error
    except BadOrderError as error:
        raise StackError(str(error), "nothing was changed") from error
    except KafkaAwayError as error:
        raise StackError(str(error), LOOK) from error


@contextmanager
def hooks_desk(state_dir: Path | None, hosts_allowed: str | None = None) -> Iterator["HookDesk"]:
    """`hosts_allowed`: in place of the setting, which the jobs obey all the same."""
    from desk.hooks.service import BadHookError, HookDesk, NoHookError
    from local_stack.machine.settings_check import settings_of
    from shared.settings import WrongSetting

    settings = settings_of(kafka_bootstrap(state_dir), folder_of(state_dir))
    if hosts_allowed is not None:
        settings = settings.model_copy(update={"hooks_hosts_allowed": hosts_allowed})
    try:
        yield HookDesk(settings, _book_of(state_dir, settings))
    except NoHookError as error:
        raise StackError(str(error), "see: ./headrace hooks list") from error
    except (BadHookError, WrongSetting) as error:
        raise StackError(str(error), "nothing was changed") from error
    except StoreAwayError as error:
        raise StackError(f"PostgreSQL cannot do it now: {error}", LOOK) from error
    except KafkaAwayError as error:
        raise StackError(str(error), LOOK) from error


def _postgres_url(state_dir: Path | None, role: str) -> str:
    url = _address("HEADRACE_POSTGRES_URL", "postgres_url", state_dir, "no database yet")
    return as_role(url, role)


def _address(variable: str, key: str, state_dir: Path | None, missing: str) -> str:
    address = os.environ.get(variable) or running_stack(folder_of(state_dir))[key]
    if not address:
        raise StackError(f"there is {missing}", START)
    return str(address)
