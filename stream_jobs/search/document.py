"""What is done with the document of a state: as one of `_bulk`'s pairs of lines. Pure.

A document's version is the place of its record in the log, not the state's: a state that was
forgotten counts from 1 again, and the latest record of an entity is the one that counts.
"""

from typing import NamedTuple, Self

import orjson

from shared.folding.snapshot import read_facts_with_meta
from shared.folding.told_state import told_state
from shared.ids import FULL_ID, tenant_of
from shared.model import Fields

_JSON_OF_STATE = "state_json"


class Change(NamedTuple):
    """A change of the document with this id. Without a document it is to go."""

    alias: str
    id: str
    version: int
    document: Fields | None

    def lines(self) -> bytes:
        action = "index" if self.document is not None else "delete"
        at = {
            "_index": self.alias,
            "_id": self.id,
            "version": self.version,
            "version_type": "external_gte",
            # or an index that somebody has deleted would be made anew, without what it had
            "require_alias": True,
        }
        lines = [orjson.dumps({action: at})]
        if self.document is not None:
            lines.append(orjson.dumps(self.document))
        return b"".join(line + b"\n" for line in lines)

    def without_its_state(self, why: str) -> Self:
        """The index does not take it: a field is of another kind there, say. So it is found all the
        same, and seen to be incomplete."""
        document = dict(self.document or {})
        state = orjson.dumps(document.pop("state", None)).decode()
        return self._replace(document={**document, _JSON_OF_STATE: state, "refused": why})


def change_of(
    alias: str, entity: str, key: bytes | None, value: bytes | None, offset: int, at_ms: int
) -> Change | None:
    """None where it is no snapshot: persist parks that."""
    full_id = (key or b"").decode(errors="replace")
    if not FULL_ID.fullmatch(full_id):
        return None
    version = offset + 1  # from 1, as of any document
    if value is None:
        return Change(alias, full_id, version, None)
    try:
        facts, meta = read_facts_with_meta(value)
    except ValueError:
        return None
    if facts.deleted:
        return Change(alias, full_id, version, None)
    tenant = tenant_of(full_id)
    told = told_state(entity, full_id, at_ms, facts, meta)
    return Change(alias, full_id, version, {**told, **({"tenant": tenant} if tenant else {})})
