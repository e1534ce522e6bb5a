"""What is wrong with a setting, in a line that names its variable."""

import re

from pydantic import ValidationError
from pydantic_settings import SettingsError

from shared.mistakes import words_of

PREFIX = "HEADRACE_"

# what reading the settings and the flow that they name may raise
WRONG_SETTINGS = (SettingsError, ValueError)


class WrongSetting(ValueError):  # noqa: N818 - it is what is wrong
    """What only its user can see, such as a file that it names. It names its variable itself."""


def explain(error: Exception) -> str:
    """A wrong setting in a line of its own: the variable, and what is wrong with it."""
    if isinstance(error, WrongSetting):
        return str(error)
    if isinstance(error, ValidationError):
        return "\n".join(
            f"{variable(*wrong['loc'])}={wrong['input']!r}: {words_of(wrong)}"
            if wrong["loc"]
            else str(wrong["ctx"]["error"])  # of several settings, which it names itself
            for wrong in error.errors(include_url=False)
        )
    if isinstance(error, SettingsError):
        field = re.search(r'field "(\w+)"', str(error))
        return f"{variable(*field.groups() if field else ())}: it is not valid JSON"
    return f"{PREFIX}FLOW: {error}"


def variable(*place: int | str) -> str:
    return PREFIX + "_".join(map(str, place)).upper()
