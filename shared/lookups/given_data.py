"""What an enrichment looks up, as plain values: for a domain's own tests.

to_passage({"badge": "b-1"}, arrival, GivenData(services={"directory": {"b-1": {...}}}))
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from shared.master_data.timed_key import Times, timed_key
from shared.model import Fields

_V = TypeVar("_V")
# by name, then by key
_Fields = Mapping[str, Mapping[str, Fields | Exception]]
_Json = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class GivenData:
    """What is not given is not there: None. An exception is raised: NotYet("it is away") plays a
    service that does not answer."""

    # of master data; of a table with `valid_from` under "north@0", by key and time
    rows: _Fields = field(default_factory=dict)
    states: _Fields = field(default_factory=dict)
    services: _Json = field(default_factory=dict)  # what they answer

    def find(self, table: str, key: str) -> Fields | None:
        return _given(self.rows, table, key)

    def find_at(self, table: str, key: str, time_ms: int) -> Fields | None:
        times = Times()
        for kept in self.rows.get(table, {}):
            if timed_key(kept) is None:
                raise LookupError(
                    f"a row of {table!r} is given as {kept!r}, which does not say from when on it "
                    f"counts: write {f'{kept}@0'!r}, with its time in epoch milliseconds"
                )
            times.note(kept, is_there=True)
        kept_at = times.kept_at(key, time_ms)
        return None if kept_at is None else self.find(table, kept_at)

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
