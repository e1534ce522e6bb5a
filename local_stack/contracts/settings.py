"""docs/configuration.md: a table of all settings, made from `shared/settings/`."""

import re
from collections.abc import Iterator

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from shared.settings import GatewaySettings, JobSettings, Settings, read_by

PAGE = "docs/configuration.md"
_SECTIONS: dict[str, type[Settings]] = {
    "All parts": Settings,
    "Gateway and desk": GatewaySettings,
    "Jobs": JobSettings,
}
_HEAD = """\
# Configuration

<!-- made by ./headrace contracts from shared/settings/: change it there -->

Settings are environment variables. Each process reads them once, at its start; an invalid value
stops the process with a one-line error that names the variable. `./headrace doctor` also finds
misspelled names.

"Read by" names the processes that use a setting: `topics` is what creates the topics
(`./headrace up` or `python -m stream_jobs topics`), `credentials` is `./headrace credentials`.
"""
_TAIL = """
## Launcher

Only `./headrace` reads these.

| variable | meaning |
|---|---|
| `HEADRACE_CACHE_DIR` | Folder for downloads of all checkouts. Default: `~/.cache/headrace` |
| `HEADRACE_PYTHON` | The Python that makes the environment |
| `HEADRACE_DEBUG` | `1` shows stack traces |
| `HEADRACE_REMOTE_URL` | [The desk elsewhere](security.md#from-another-machine) of `--url` |
| `HEADRACE_REMOTE_TOKEN` | An operator's token for it |
| `HEADRACE_REMOTE_TOKEN_FILE` | Or the file that has one |
| `JAVA_HOME` | The Java to use |
"""
_DOCUMENT = re.compile(r"\bdocs/([\w-]+\.md(?:#[\w-]+)?)")


def page() -> str:
    return "\n".join([_HEAD, *_sections(), _TAIL.lstrip("\n")])


def _sections() -> Iterator[str]:
    for title, kind in _SECTIONS.items():
        yield f"## {title}\n"
        yield "| variable | default | read by | meaning |"
        yield "|---|---|---|---|"
        for name, field in kind.model_fields.items():
            if kind is Settings or name not in Settings.model_fields:
                yield _row(name, _default(field), read_by(kind, name), field.description or "")
        yield ""


def _row(name: str, default: str, readers: str, meaning: str) -> str:
    # beside this page, not beside the code
    linked = _DOCUMENT.sub(r"[\1](\1)", meaning)
    return f"| `HEADRACE_{name.upper()}` | {default} | {readers} | {linked} |"


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if value is None:
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
