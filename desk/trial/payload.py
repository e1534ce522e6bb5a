"""What would become of a payload, if a device sent it now. Nothing is written, but the domain's own
code is called: what it asks outside is really asked, and so are its look-ups."""

from desk.letters.service import Desk, KnownMaster
from desk.trial.answer import answer, payload_of
from desk.waiting.service import Waiting
from gateway.http.message import ByName
from gateway.http.problems import Problem, retry_after
from gateway.ingest.record import read_head
from gateway.peers.lookup import Lookup
from shared.errors import StaleMasterDataError
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.model import Endpoint, Fields
from shared.timestamps import to_rfc3339
from stream_jobs.enrich.answers import Answers


def try_payload(
    desk: Desk, endpoint_name: str, entity_id: str, headers: ByName, body: bytes
) -> Fields:
    """Problem where the gateway would not take it. `entity_id` has its tenant before it, if any."""
    flow = load_flow(desk.settings.flow)
    endpoint = _endpoint(flow, endpoint_name)
    payload = payload_of(endpoint, entity_id, read_head(headers), body)
    master, states = KnownMaster(desk.settings), Lookup(desk.settings)
    answers = Answers(flow, desk.settings.registry)
    try:
        states_at = _states_at(flow, states)
        snapshots = states.find if states_at else None
        found = answer(flow, endpoint, payload, master, snapshots, answers.find)
    except StaleMasterDataError as stale:
        raise Problem(503, "stale_master_data", str(stale), headers=retry_after(10)) from stale
    finally:
        states.close()
        answers.close()
    known = {table: to_rfc3339(at_ms) for table, at_ms in master.as_of_ms().items() if at_ms}
    return {
        "endpoint": endpoint.name,
        "entity_id": entity_id,
        **found,
        "waits_behind": Waiting(desk, "enrich").of(entity_id),
        "as_of": {"states": states_at, "master_data": known},
    }


def _endpoint(flow: Flow, name: str) -> Endpoint:
    endpoint = flow.endpoint(name)
    if endpoint is None:
        known = ", ".join(row.name for row in flow.endpoints)
        raise Problem(404, "unknown_endpoint", f"no such endpoint; there are: {known}")
    return endpoint


def _states_at(flow: Flow, states: Lookup) -> str | None:
    """Up to when the gateway beside knows its states; None where it does not know them all."""
    times = [states.caught_up_ms(entity.topic) for entity in flow.entities]
    known = [at_ms for at_ms in times if at_ms is not None]
    return to_rfc3339(min(known)) if known and len(known) == len(times) else None
