"""What makes a row of a look-up one that does not add up, told with what to do. Pure."""

import re
from collections.abc import Iterable
from typing import Protocol

from shared.contract import contract_of
from shared.lookups.http_lookup import HttpLookup
from shared.lookups.registry import REGISTRY
from shared.model import Aggregate, Endpoint, Entity

_NAME = re.compile("[a-z0-9_]+")


class Table(Protocol):
    @property
    def endpoints(self) -> tuple[Endpoint, ...]: ...
    @property
    def with_state(self) -> Iterable[Entity | Aggregate]: ...


def refuse_bad_lookups(flow: Table) -> None:
    known: dict[str, HttpLookup] = {}
    with_state = {row.name for row in flow.with_state}
    for endpoint in flow.endpoints:
        for lookup in endpoint.lookups:
            if not isinstance(lookup, HttpLookup):
                raise ValueError(
                    f"endpoint {endpoint.name}: {lookup!r} is no look-up; write HttpLookup(…)"
                )
            who = f"look-up {lookup.name!r}"
            if not _NAME.fullmatch(lookup.name):
                raise ValueError(f"{who}: use lower-case letters, digits and _")
            if lookup.name == REGISTRY:
                raise ValueError(f"{who} has the name of the schema registry: choose another one")
            if lookup.name in with_state:
                raise ValueError(
                    f"{who} has the name of an entity or aggregate: an event could not tell what "
                    "it saw; choose another one"
                )
            if known.setdefault(lookup.name, lookup) != lookup:
                raise ValueError(f"{who} is declared twice, and differs: use one row for both")
            if why_not := lookup.why_not():
                raise ValueError(f"{who} cannot be: {why_not}")
            if lookup.answer is not None:
                _refuse_bad_contract(who, lookup.answer)
        if endpoint.asks and endpoint.retry is None:
            asked = endpoint.lookups[0].name if endpoint.lookups else REGISTRY
            raise ValueError(
                f"endpoint {endpoint.name} asks {asked!r}, which may be away: "
                "say how its payloads are tried again, retry=RetryPolicy(…)"
            )


def _refuse_bad_contract(who: str, shape: object) -> None:
    try:
        contract_of(shape)
    except Exception as error:  # a user's own class may fail in any way
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{who} has a contract that cannot be used: {reason}") from error
