"""All that is known of an entity: its states, its newest events, what waits, what is parked, and
who may post as it."""

from collections.abc import Callable, Sequence
from typing import Any

from desk.credentials.service import CredentialDesk
from desk.letters.selection import Selection
from desk.letters.service import Desk
from desk.waiting.service import Waiting
from gateway.peers.lookup import Lookup
from shared.errors import StaleMasterDataError
from shared.flow import load_flow
from shared.folding import snapshot
from shared.ids import tenant_of
from shared.kafka_access import KafkaAwayError
from shared.timestamps import to_rfc3339

EVENTS_MAX = 50
_LETTERS_MAX = 20
_EVENTS = """
    SELECT event_id, type, event_time, arrived_at, data FROM headrace.event
    WHERE entity_id = %s ORDER BY arrived_at DESC LIMIT %s
"""
_STATES = """
    SELECT entity, version, event_time, state, deleted FROM headrace.entity_state
    WHERE entity = ANY(%s) AND id = %s
"""
Rows = Sequence[dict[str, Any]]


class NoEntityError(Exception):
    """Nothing is known of it."""


class Entities:
    """StoreAwayError where PostgreSQL does not answer. What Kafka alone knows is left out while it
    is away, and `unknown` says so."""

    def __init__(self, desk: Desk, credentials: CredentialDesk) -> None:
        self._desk = desk
        self._book = desk.book
        self._credentials = credentials
        self._flow = load_flow(desk.settings.flow)

    def find(self, entity_id: str) -> dict[str, Any]:
        """What is known of the entity with this id, which has its tenant's before it."""
        unknown: dict[str, str] = {}

        def known(name: str, part: Callable[[], Rows]) -> Rows:
            try:
                return part()
            except KafkaAwayError as away:
                unknown[name] = str(away)
                return []

        found: dict[str, Rows] = {
            "states": self._states(entity_id),
            "events": self._book.rows(_EVENTS, entity_id, EVENTS_MAX),
            "waiting": known("waiting", lambda: Waiting(self._desk).all_of(entity_id)),
            "letters": self._book.page(Selection(entity_id=entity_id), _LETTERS_MAX)[0],
            "credentials": known("credentials", lambda: self._its_credentials(entity_id)),
        }
        if not any(found.values()) and not unknown:
            raise NoEntityError(f"nothing is known of {entity_id!r}")
        return {"id": entity_id, **found, "unknown": unknown}

    def _states(self, entity_id: str) -> Rows:
        """As gateways have them; where this desk is beside none, or those that hold them do not
        answer, as they are stored."""
        rows, states = self._flow.with_state, Lookup(self._desk.settings)
        found = dict.fromkeys((row.name for row in rows), b"")
        try:
            for row in rows:
                found[row.name] = states.find(row.topic, entity_id.encode()) or b""
        except StaleMasterDataError:
            pass
        finally:
            states.close()
        told = {name: _told(name, value) for name, value in found.items() if value}
        viewed = [one for one in told.values() if one is not None]
        others = [name for name in found if told.get(name) is None]
        return [*viewed, *self._book.rows(_STATES, others, entity_id)]

    def _its_credentials(self, entity_id: str) -> Rows:
        tenant = tenant_of(entity_id)
        device = entity_id.removeprefix(f"{tenant}/") if tenant else entity_id
        return [one for one in self._credentials.all(device) if one["tenant"] == (tenant or None)]


def _told(entity: str, value: bytes) -> dict[str, Any] | None:
    """None where it is no snapshot."""
    try:
        its = snapshot.read_facts(value)
    except ValueError:
        return None
    at_ms = its.event_time_ms
    return {
        "entity": entity,
        "version": its.version,
        "event_time": None if at_ms is None else to_rfc3339(at_ms),
        "state": its.state,
        "deleted": its.deleted,
    }
