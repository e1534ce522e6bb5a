"""What an enrichment may look up: master data and states, of its payload's tenant alone. Pure."""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from shared.folding.snapshot import Facts, read_facts
from shared.ids import full_id_within, tenant_of
from shared.model import Endpoint, Fields, MasterRows, Rejected

# entity or aggregate, full id -> its snapshot as it was published last
SnapshotOf = Callable[[str, str], bytes | None]


def no_snapshot(_name: str, _key: str) -> None:
    return None


class Known(NamedTuple):
    """For one payload, whatever key it may bring."""

    tenant: str
    master: MasterRows
    endpoint: Endpoint
    snapshot_of: SnapshotOf
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
