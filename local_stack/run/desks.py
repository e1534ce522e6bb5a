"""The desk's services for the verbs: those of this machine, or a desk elsewhere that is asked."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from clients.postgres.grants import DESK
from local_stack.remote.asking import FIXES, remote_desk
from local_stack.run.options import folder_of
from local_stack.run.server_addresses import kafka_bootstrap, postgres_url
from local_stack.terminal.errors import LOOK, StackError
from shared.errors import StaleMasterDataError, StoreAwayError
from shared.kafka_access import KafkaAwayError

if TYPE_CHECKING:
    from desk.credentials.service import CredentialDesk
    from desk.hooks.service import HookDesk
    from desk.jobs.service import JobDesk
    from desk.letters.audit import OpenBook
    from desk.letters.service import Desk
    from desk.waiting.lines import Stage
    from desk.waiting.service import Waiting
    from desk.whereabouts.service import Whereabouts
    from local_stack.remote.credentials import RemoteCredentials
    from local_stack.remote.hooks import RemoteHooks
    from local_stack.remote.jobs import RemoteJobs
    from local_stack.remote.letters import RemoteLetters, RemoteWaiting, RemoteWhereabouts
    from shared.model import Fields
    from shared.settings import Settings

    Trial = Callable[[str, str, Mapping[bytes, bytes], bytes], Fields]


@contextmanager
def letters_desk(state_dir: Path | None) -> Iterator["Desk | RemoteLetters"]:
    if (elsewhere := remote_desk()) is not None:
        from local_stack.remote.letters import RemoteLetters

        yield RemoteLetters(elsewhere)
        return
    with _letters_here(state_dir) as desk:
        yield desk


@contextmanager
def waiting_desk(
    state_dir: Path | None, stage: "Stage | None"
) -> Iterator["Waiting | RemoteWaiting"]:
    if (elsewhere := remote_desk()) is not None:
        from local_stack.remote.letters import RemoteWaiting

        yield RemoteWaiting(elsewhere, stage)
        return
    from desk.waiting.service import NobodyWaitsError, Waiting

    try:
        with _letters_here(state_dir) as desk:
            yield Waiting(desk, stage)
    except NobodyWaitsError as error:
        raise StackError(str(error), FIXES["nobody_waits"]) from error


@contextmanager
def whereabouts(state_dir: Path | None) -> Iterator["Whereabouts | RemoteWhereabouts"]:
    if (elsewhere := remote_desk()) is not None:
        from local_stack.remote.letters import RemoteWhereabouts

        yield RemoteWhereabouts(elsewhere)
        return
    from desk.whereabouts.service import Whereabouts
    from gateway.whereabouts.finder import BadPlaceError

    try:
        with _letters_here(state_dir) as desk:
            yield Whereabouts(desk)
    except BadPlaceError as error:
        raise StackError(str(error), FIXES["no_payload_there"]) from error


@contextmanager
def trials(state_dir: Path | None) -> Iterator["Trial"]:
    """What would become of a payload: of an endpoint, an entity's, with its headers and bytes."""
    if (elsewhere := remote_desk()) is not None:
        yield elsewhere.try_payload
        return
    from desk.trial.payload import try_payload
    from gateway.http.problems import Problem

    try:
        with _letters_here(state_dir) as desk:
            yield partial(try_payload, desk)
    except Problem as problem:
        raise StackError(problem.detail, "see: ./headrace try --help") from problem


@contextmanager
def _letters_here(state_dir: Path | None) -> Iterator["Desk"]:
    from pydantic import SecretStr

    from desk.letters.service import NoLetterError, desk
    from shared.settings import GatewaySettings

    settings = GatewaySettings(
        kafka_bootstrap=kafka_bootstrap(state_dir),
        postgres_url=SecretStr(postgres_url(state_dir, DESK)),
        state_dir=folder_of(state_dir),
    )
    try:
        with desk(settings) as found:
            yield found
    except StoreAwayError as error:
        raise StackError(f"PostgreSQL cannot do it now: {error}", LOOK) from error
    except (KafkaAwayError, StaleMasterDataError) as error:
        raise StackError(str(error), LOOK) from error
    except NoLetterError as error:
        raise StackError(str(error), FIXES["no_letter"]) from error


def _book_of(state_dir: Path | None, settings: "Settings") -> "OpenBook":
    """Opened when something is noted: what stands in Kafka is to be had without a database."""
    from pydantic import SecretStr

    from desk.letters.store import LetterBook, open_book

    @contextmanager
    def opened() -> Iterator[LetterBook]:
        try:
            url = SecretStr(postgres_url(state_dir, DESK))
        except StackError as error:
            raise StoreAwayError(error.what) from error
        with open_book(settings.model_copy(update={"postgres_url": url})) as book:
            yield book

    return opened


@contextmanager
def credentials_desk(state_dir: Path | None) -> Iterator["CredentialDesk | RemoteCredentials"]:
    if (elsewhere := remote_desk()) is not None:
        from local_stack.remote.credentials import RemoteCredentials

        yield RemoteCredentials(elsewhere)
        return
    from desk.credentials.service import BadCredentialError, CredentialDesk, NoCredentialError
    from local_stack.machine.settings_check import gateway_settings

    its = {"kafka_bootstrap": kafka_bootstrap(state_dir), "state_dir": folder_of(state_dir)}
    settings = gateway_settings().model_copy(update=its)
    try:
        yield CredentialDesk(settings, _book_of(state_dir, settings))
    except NoCredentialError as error:
        raise StackError(str(error), FIXES["no_credential"]) from error
    except BadCredentialError as error:
        raise StackError(str(error), "nothing was changed") from error
    except KafkaAwayError as error:
        raise StackError(str(error), LOOK) from error


@contextmanager
def jobs_desk(state_dir: Path | None) -> Iterator["JobDesk | RemoteJobs"]:
    if (elsewhere := remote_desk()) is not None:
        from local_stack.remote.jobs import RemoteJobs

        yield RemoteJobs(elsewhere)
        return
    from desk.jobs.service import BadOrderError, JobDesk, NoJobError
    from local_stack.machine.settings_check import settings_of

    settings = settings_of(kafka_bootstrap(state_dir), folder_of(state_dir))
    try:
        yield JobDesk(settings, _book_of(state_dir, settings))
    except NoJobError as error:
        raise StackError(str(error), FIXES["no_job"]) from error
    except BadOrderError as error:
        raise StackError(str(error), "nothing was changed") from error
    except KafkaAwayError as error:
        raise StackError(str(error), LOOK) from error


@contextmanager
def hooks_desk(state_dir: Path | None) -> Iterator["HookDesk | RemoteHooks"]:
    if (elsewhere := remote_desk()) is not None:
        from local_stack.remote.hooks import RemoteHooks

        yield RemoteHooks(elsewhere)
        return
    with hooks_here(state_dir) as hooks:
        yield hooks


@contextmanager
def hooks_here(state_dir: Path | None, hosts_allowed: str | None = None) -> Iterator["HookDesk"]:
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
        raise StackError(str(error), FIXES["no_hook"]) from error
    except (BadHookError, WrongSetting) as error:
        raise StackError(str(error), "nothing was changed") from error
    except StoreAwayError as error:
        raise StackError(f"PostgreSQL cannot do it now: {error}", LOOK) from error
    except KafkaAwayError as error:
        raise StackError(str(error), LOOK) from error
