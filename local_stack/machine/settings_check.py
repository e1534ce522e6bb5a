"""Wrong settings are told before anything is started or fetched, in a sentence each."""

import os
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic_settings import SettingsError

from local_stack.terminal.errors import StackError
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.kafka_access import KafkaAccess
from shared.settings import GatewaySettings, JobSettings, Settings, explain

AnySettings = TypeVar("AnySettings", bound=Settings)
PREFIX = "HEADRACE_"
LAUNCHER_ONLY = {"CACHE_DIR", "PYTHON", "DEBUG", "REMOTE_URL", "REMOTE_TOKEN", "REMOTE_TOKEN_FILE"}


class Unknown(NamedTuple):
    name: str
    nearest: str | None

    def __str__(self) -> str:
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f"{self.name} is set, and nothing reads it{hint}"


def check_settings() -> None:
    """What the gateway and the jobs are about to read from the same environment."""
    for wrong in wrong_settings():
        raise wrong
    flow, settings = chosen_flow(), _read(Settings)
    if flow.asks_registry and settings.registry is None:
        raise StackError(
            "the flow reads Avro with a schema registry, and none is set",
            "name yours in HEADRACE_SCHEMA_REGISTRY_URL",
        )
    if flow.search_indexes and _read(JobSettings).search is None:
        raise StackError(
            "the flow has a search index, and no server for it is set",
            "name yours in HEADRACE_SEARCH_URL",
        )
    if settings.kafka_security != "plaintext" and not os.environ.get("HEADRACE_KAFKA_BOOTSTRAP"):
        raise StackError(
            f"HEADRACE_KAFKA_SECURITY={settings.kafka_security} is for a Kafka of your own: the "
            "one that `up` starts has neither TLS nor login",
            "name yours in HEADRACE_KAFKA_BOOTSTRAP, or unset HEADRACE_KAFKA_SECURITY",
        )


def wrong_settings() -> list[StackError]:
    wrong: dict[str, StackError] = {}
    for kind in (GatewaySettings, JobSettings):  # they share some
        try:
            _read(kind)
        except StackError as error:
            wrong[error.what] = error
    return list(wrong.values())


def unknown_settings(environment: Mapping[str, str] = os.environ) -> list[Unknown]:
    """A mistyped name changes nothing, in silence: so it is told."""
    fields = GatewaySettings.model_fields.keys() | JobSettings.model_fields.keys()
    known = {field.upper() for field in fields} | LAUNCHER_ONLY
    names = {name.removeprefix(PREFIX) for name in environment if name.startswith(PREFIX)}
    return [Unknown(PREFIX + name, _nearest(name, known)) for name in sorted(names - known)]


def _nearest(name: str, known: set[str]) -> str | None:
    return next((PREFIX + near for near in get_close_matches(name, sorted(known), 1)), None)


def settings() -> Settings:
    return _read(Settings)


def gateway_settings() -> GatewaySettings:
    return _read(GatewaySettings)


def settings_of(bootstrap: str, state_dir: Path) -> Settings:
    """The settings of a stack that runs."""
    return _read(lambda: Settings(kafka_bootstrap=bootstrap, state_dir=state_dir))


def chosen_flow() -> Flow:
    try:
        return load_flow(_read(Settings).flow)
    except ValueError as error:
        raise StackError(explain(error), "docs/your-own-domain.md shows how one is made") from error


def kafka_at(bootstrap: str) -> KafkaAccess:
    """With the login that the settings give."""
    return _read(lambda: Settings(kafka_bootstrap=bootstrap)).kafka


def _read(kind: Callable[[], AnySettings]) -> AnySettings:
    try:
        return kind()
    except (ValueError, SettingsError) as error:  # pydantic's ValidationError is a ValueError
        raise StackError(explain(error), "docs/configuration.md lists the settings") from error
