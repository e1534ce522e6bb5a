"""What a request for a list asks for: which states, in which order, from where on. Pure."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import orjson

from gateway.http.problems import Problem
from gateway.lists.conditions import Condition, conditions_of, not_indexed
from gateway.pages.parameters import bad_next, limit_of, next_of, token_of
from shared.ids import ENTITY_ID, TENANT, full_id
from shared.tables.indexed_fields import ID, IndexedStates

PARAMETERS = "where", "sort", "limit", "next", "tenant"
_WHOLE_END = 1 << 63


class Place(NamedTuple):
    """The place of a state in an order; the next page begins behind it."""

    value: Any  # of the field that is sorted by, as the index has it; of the id none
    key: bytes


class Asked(NamedTuple):
    states: IndexedStates
    tenant: str
    conditions: tuple[Condition, ...]
    sort: str  # a field
    descends: bool
    limit: int
    after: Place | None

    def token(self, place: Place) -> str:
        own_id = place.key.decode().rpartition("/")[2]
        return token_of(orjson.dumps([self._sum(), place.value, own_id]))

    def behind(self, token: bytes) -> "Asked":
        """Problem where it is not what `token` has made of a place."""
        try:
            known, value, own_id = orjson.loads(token)
        except (ValueError, TypeError):
            raise bad_next() from None
        if known != self._sum():
            raise Problem(
                400,
                "bad_parameter",
                "next is of another question: ask with the same where, sort and tenant as before, "
                "or begin anew without it",
            )
        is_id = isinstance(own_id, str) and ENTITY_ID.fullmatch(own_id)
        if not is_id or not self._may_be(value):
            raise bad_next()
        return self._replace(after=Place(value, full_id(self.tenant, own_id).encode()))

    def _sum(self) -> int:
        """A checksum of all that says which states there are, and in which order."""
        conditions = [[*one] for one in self.conditions]
        asked = self.states.entity, self.tenant, conditions, self.sort, self.descends
        return crc32(orjson.dumps(asked))

    def _may_be(self, value: Any) -> bool:
        if value is None or self.sort == ID:
            return value is None
        if self.states.kind(self.sort) == "string":
            return isinstance(value, str)
        if isinstance(value, float):
            return True
        return type(value) is int and abs(value) < _WHOLE_END


def asked_of(
    states: IndexedStates, tenant: str, own_id: str | None, parameters: Sequence[tuple[str, str]]
) -> Asked:
    """`own_id`: of who may see no other state. Problem says what is wrong with the request."""
    for name, _ in parameters:
        if name not in PARAMETERS:
            raise Problem(
                400,
                "unknown_parameter",
                f"{name} is no parameter here: a list is asked for by {', '.join(PARAMETERS)}",
            )
    if tenant and not TENANT.fullmatch(tenant):
        raise Problem(
            400, "bad_parameter", "tenant is a tenant's name: a-z 0-9 -, and 32 characters at most"
        )
    once = dict(parameters)
    told = once.get("sort", ID)
    sort = told.removeprefix("-")
    if sort != ID and states.kind(sort) is None:
        raise not_indexed(states, sort)
    conditions = conditions_of(states, (its for name, its in parameters if name == "where"))
    if own_id is not None:
        conditions = (*conditions, Condition(ID, "=", own_id))
    asked = Asked(states, tenant, conditions, sort, told != sort, limit_of(once), None)
    after = next_of(once)
    return asked.behind(after) if after else asked
