"""The indexes behind the aliases: made with what the contracts say, one for each log.

An index is called by its alias and by its topic's id. A topic that was made anew counts its places
from 0, so what is written of it would look older than what is there: it gets an index of its own.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256

from clients.search.server import SearchServer
from shared.errors import StoreAwayError
from shared.flow_table import Flow
from shared.model import Fields, SearchIndex
from shared.search.mapping import mapping_of


def prepare(
    server: SearchServer, flow: Flow, ids: Mapping[str, str], begin_anew: Callable[[], None]
) -> None:
    """`begin_anew`: with the first state, since an index that is new has none. It is called before
    the alias leads there: what is killed in between does so again."""
    rows = {row.name: row for row in flow.with_state}
    for row in flow.search_indexes:
        of = rows[row.of]
        if of.topic not in ids:
            raise StoreAwayError(f"Kafka has no topic {of.topic} yet")
        index = f"{row.alias}-{sha256(ids[of.topic].encode()).hexdigest()[:8]}"
        behind = _behind(server, row)
        if behind == [index]:
            continue
        if server.ask("GET", f"/{index}", may_be_missing=True) is None:
            server.ask("PUT", f"/{index}", {"mappings": mapping_of(of)})
        begin_anew()
        server.ask("POST", "/_aliases", {"actions": _leads_to(row, index, behind)})


def _behind(server: SearchServer, row: SearchIndex) -> list[str]:
    found = server.ask("GET", f"/_alias/{row.alias}", may_be_missing=True)
    return sorted(found or {})


def _leads_to(row: SearchIndex, index: str, behind: list[str]) -> list[Fields]:
    """All at once: who searches finds one of them at any time."""
    before: list[Fields] = [
        {"remove": {"index": one, "alias": row.alias}} for one in behind if one != index
    ]
    return [*before, {"add": {"index": index, "alias": row.alias}}]
