"""The options that say which letters a verb means."""

import re
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer

from desk.letters.selection import Selection
from local_stack.terminal.errors import StackError
from shared.timestamps import from_rfc3339

_FILTERS = {
    "cause": typer.Option(help="Of this cause alone."),
    "stage": typer.Option(help="Of this stage: enrich, fold, persist …"),
    "endpoint": typer.Option(help="That came by this endpoint."),
    "entity_id": typer.Option("--entity", help="Of this device, say."),
    "hook": typer.Option(help="That this webhook could not be given."),
    "since": typer.Option(help="Parked since: 2026-11-21T12:00:00Z."),
    "until": typer.Option(help="Parked before: 2026-11-21T13:00:00Z."),
    "up_to": typer.Option("--up-to", help="None that was parked after `list` gave this mark."),
}
_MARK = re.compile(r"\d{1,19}:\d{1,19}:[\d,]{0,100000}")
_IDS = Annotated[list[str] | None, typer.Argument(help="Ids of letters.")]
_ALL = Annotated[bool, typer.Option("--all", help="Whatever is parked.")]
_Verb = Callable[..., None]


def _parameter(name: str, annotation: Any, default: bool | None = None) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_OPTIONS = [_parameter(name, Annotated[str | None, option]) for name, option in _FILTERS.items()]
_WITH_IDS = [_parameter("ids", _IDS), *_OPTIONS, _parameter("all_", _ALL, False)]


def filtered(verb: _Verb) -> _Verb:
    """It gets as `meant` what the options filter; none: all letters."""
    return _given(_OPTIONS, verb)


def chosen(verb: _Verb) -> _Verb:
    """It gets as `meant` letters that are named or filtered; all of them have to be asked for."""
    return _given(_WITH_IDS, verb)


def _given(options: list[Parameter], verb: _Verb) -> _Verb:
    @wraps(verb)
    def run(**given: Any) -> None:
        verb(meant=_meant(**{one.name: given.pop(one.name) for one in options}), **given)

    own = [one for one in signature(verb).parameters.values() if one.name != "meant"]
    shown = [*options, *(one.replace(kind=Parameter.KEYWORD_ONLY) for one in own)]
    run.__signature__ = Signature(shown)  # type: ignore[attr-defined]  # where Typer looks
    return run


def _meant(all_: bool = True, ids: list[str] | None = None, **filters: str | None) -> Selection:
    for name in ("since", "until"):
        try:
            from_rfc3339(filters[name] or "1970-01-01T00:00:00Z")
        except (ValueError, OverflowError) as error:
            said = f"--{name} {filters[name]}: {error}"
            raise StackError(said, "write 2026-11-21T12:00:00Z") from error
    if not _MARK.fullmatch(filters["up_to"] or "1:1:"):
        raise StackError(f"--up-to {filters['up_to']} is no mark", "./headrace letters list has it")
    meant = Selection(ids=tuple(ids or ()), **filters)
    if meant.is_all and not all_:
        raise StackError("which letters?", "give ids, --cause and so on, or --all")
    return meant
