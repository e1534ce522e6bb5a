"""What an enrichment may look up: master data and states, of its payload's tenant alone, and what
services say. Pure."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

from shared.folding.snapshot import Facts, read_facts
from shared.ids import full_id_within, tenant_of
from shared.model import Endpoint, Fields, MasterRows, NotYet, Rejected

# entity or aggregate, full id -> its snapshot as it was published last
SnapshotOf = Callable[[str, str], bytes | None]


def no_snapshot(_name: str, _key: str) -> None:
    return None


class Answer(NamedTuple):
    """What a service has answered."""

    at_ms: int  # when it came
    body: bytes | None  # JSON; None: nothing is known of the key


# look-up, key -> its answer; NotYet where there is none now
Ask = Callable[[str, str], Answer]


def ask_nobody(name: str, _key: str) -> Answer:
    raise NotYet(f"{name} is not asked here")


class Known(NamedTuple):
    """For one payload, whatever key it may bring."""

    tenant: str
    master: MasterRows
    endpoint: Endpoint
    snapshot_of: SnapshotOf
    ask: Ask
    saw: dict[str, int]  # what it has looked at, as its events tell it

    def find(self, table: str, key: str) -> Fields | None:
        if "/" in key and tenant_of(key) != self.tenant:
            return None
        return self.master.find(table, key)

    def find_at(self, table: str, key: str, time_ms: int) -> Fields | None:
        if "/" in key and tenant_of(key) != self.tenant:
            return None
        return self.master.find_at(table, key, time_ms)

    def state(self, name: str, key: str) -> Fields | None:
        facts = self._facts(name, key)
        return None if facts is None or facts.deleted else facts.state

    def version(self, name: str, key: str) -> int:
        facts = self._facts(name, key)
        return 0 if facts is None else facts.version

    def answer(self, name: str, key: str) -> Any:
        if all(lookup.name != name for lookup in self.endpoint.lookups):
            why = f"{self.endpoint.name} does not name {name!r} in `lookups`"
            raise Rejected("undeclared_look", why)
        if not isinstance(key, str):
            raise TypeError(f"{name} is asked by a text, not by {type(key).__name__}")
        at_ms, body = self.ask(name, key)
        self.saw[f"{name}/{key}"] = at_ms
        return None if body is None else orjson.loads(body)

    def answers(self, name: str, keys: Iterable[str]) -> dict[str, Any]:
        found, not_yet = {}, None
        for key in keys:  # also where one is missing: what is called ahead learns of each key
            try:
                found[key] = self.answer(name, key)
            except NotYet as error:
                not_yet = not_yet or error
        if not_yet is not None:
            raise not_yet
        return found

    def _facts(self, name: str, key: str) -> Facts | None:
        if name not in self.endpoint.states:
            why = f"{self.endpoint.name} does not name {name!r} in `states`"
            raise Rejected("undeclared_look", why)
        facts, full = None, full_id_within(self.tenant, key)
        if tenant_of(full) == self.tenant and (raw := self.snapshot_of(name, full)) is not None:
            with suppress(ValueError):  # what is no snapshot is as good as none
                facts = read_facts(raw)
        self.saw[f"{name}/{full}"] = 0 if facts is None else facts.version
        return facts
