"""What an enrichment looks up, as plain values: for a domain's own tests.

to_passage({"badge": "b-1"}, arrival, GivenData(services={"directory": {"b-1": {...}}}))
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from shared.model import Fields

_V = TypeVar("_V")
# by name, then by key
_Fields = Mapping[str, Mapping[str, Fields | Exception]]
_Json = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class GivenData:
    """What is not given is not there: None. An exception is raised: NotYet("it is away") plays a
    service that does not answer."""

    rows: _Fields = field(default_factory=dict)  # of master data
    states: _Fields = field(default_factory=dict)
    services: _Json = field(default_factory=dict)  # what they answer

    def find(self, table: str, key: str) -> Fields | None:
        return _given(self.rows, table, key)

    def state(self, name: str, key: str) -> Fields | None:
        return _given(self.states, name, key)

    def version(self, name: str, key: str) -> int:
        return 0 if self.state(name, key) is None else 1

    def answer(self, name: str, key: str) -> Any:
        return _given(self.services, name, key)

    def answers(self, name: str, keys: Iterable[str]) -> dict[str, Any]:
        return {key: self.answer(name, key) for key in keys}


def _given(by_name: Mapping[str, Mapping[str, _V | Exception]], name: str, key: str) -> _V | None:
    found = by_name.get(name, {}).get(key)
    if isinstance(found, Exception):
        raise found
    return found
