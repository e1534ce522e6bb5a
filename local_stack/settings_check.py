"""Wrong settings are told before anything is started or fetched, in a sentence each."""

from collections.abc import Callable
from typing import TypeVar

from pydantic_settings import SettingsError

from local_stack.errors import StackError
from shared.flow import load_flow
from shared.settings import GatewaySettings, JobSettings, Settings, explain
from shared.topology import Flow

Read = TypeVar("Read", bound=Settings)


def check_settings() -> None:
    """What the gateway and the jobs are about to read from the same environment."""
    _read(GatewaySettings)
    _read(JobSettings)
    chosen_flow()


def chosen_flow() -> Flow:
    reference = _read(Settings).flow
    try:
        return load_flow(reference)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise StackError(explain(error), _FLOW_FIX) from error
    except Exception as error:  # a module of the user's own may fail in any way
        what = f"HEADRACE_FLOW={reference}: {type(error).__name__}: {error}"
        raise StackError(what, _FLOW_FIX) from error


_FLOW_FIX = "write it as module:attribute; the module must be on PYTHONPATH"


def _read(kind: Callable[[], Read]) -> Read:
    try:
        return kind()
    except (ValueError, SettingsError) as error:  # pydantic's ValidationError is a ValueError
        raise StackError(explain(error), "README.md, Configuration, lists the settings") from error
