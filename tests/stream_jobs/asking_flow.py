"""A flow whose badges ask a service at `PORT`, where a test may have one played, and whose contacts
ask nobody."""

from shared.flow_table import Flow
from shared.lookups import HttpLookup
from shared.model import Arrival, Draft, Endpoint, Entity, Event, EventType, Fields, MasterData
from shared.retry_policy import RetryPolicy
from tests.played_service import free_port

PORT = free_port()
OWNER = HttpLookup("owner", f"http://127.0.0.1:{PORT}/badges/{{key}}", within_s=1)


def to_passed(payload: Fields, arrival: Arrival, master: MasterData) -> Draft:
    return Draft("passed", arrival.at_ms, {"owner": master.answer("owner", payload["badge"])})


def to_moved(payload: Fields, arrival: Arrival, _master: MasterData) -> Draft:
    return Draft("moved", arrival.at_ms, payload)


def fold(state: Fields, event: Event) -> Fields:
    return {"events": [*state["events"], event.data]}


FLOW = Flow(
    endpoints=(
        Endpoint(
            "badge",
            to_passed,
            ("passed",),
            lookups=(OWNER,),
            retry=RetryPolicy(first_pause_s=10, factor=1, jitter=0, attempts_max=3, age_max_s=600),
        ),
        Endpoint("contact", to_moved, ("moved",)),
    ),
    event_types=(EventType("passed"), EventType("moved")),
    entities=(Entity("door", ("passed", "moved"), lambda _: {"events": []}, fold),),
)
