"""What a POST is told that has waited. Pure."""

from typing import Any, NamedTuple

import orjson

from gateway.auth.caller import Caller
from gateway.effects.effect import Effect
from gateway.effects.record_effects import Made
from gateway.effects.wait_request import ACCEPTED, ENRICHED, Asked
from gateway.http.message import Answer
from shared.flow_table import Flow
from shared.ids import tenant_of

SPOOLED = "spooled"
_JSON = b"content-type: application/json\r\n"
Receipt = dict[str, Any]


class Posted(NamedTuple):
    """Who has posted, and where the state is that answers point to."""

    caller: Caller
    entity_id: str


def answer_of(
    flow: Flow, asked: Asked, posted: Posted, receipt: Receipt, effect: Effect, why: str
) -> Answer:
    """200 where it has what was asked for; else 202: it is safe, and has come so far."""
    is_spooled = "spooled" in receipt
    reached = SPOOLED if is_spooled else effect.reached
    has_it = not is_spooled and effect.has(asked.level)
    told: Receipt = {**receipt, "reached": reached}
    if reached not in (SPOOLED, ACCEPTED):
        told["events"] = [_event(made, posted.caller) for made in effect.events]
    if reached not in (SPOOLED, ACCEPTED, ENRICHED):
        told["states"] = [*_states(flow, effect, posted.caller)]
    if effect.ended is not None and not has_it:
        told[effect.ended.how] = {
            "by": effect.ended.by,
            "reason": effect.ended.reason,
            "detail": effect.ended.detail,
        }
    elif effect.waits is not None:
        told["waits"] = effect.waits._asdict()
    if why and not has_it:
        told["why"] = why
    applied = f"preference-applied: {asked.applied}\r\n" if asked.applied else ""
    place = f"location: /state/{posted.entity_id}\r\n"
    lines = b"%b%b%b" % (_JSON, place.encode(), applied.encode())
    return Answer(200 if has_it and asked.level != ACCEPTED else 202, lines, orjson.dumps(told))


def _event(made: Made, caller: Caller) -> Receipt:
    own_id = _own(made.entity_id)
    known = {"entity_id": own_id} if caller.is_own(own_id) else {}
    return {"id": made.id, "type": made.type, **known}


def _states(flow: Flow, effect: Effect, caller: Caller) -> Any:
    """Those that this caller may read."""
    for (name, entity_id), seen in sorted(effect.states.items()):
        entity, own_id = flow.find_with_state(name), _own(entity_id)
        if entity is not None and caller.full_id_to_read(entity, own_id, None) is not None:
            deleted = {"deleted": True} if seen.deleted else {}
            yield {"entity": name, "id": own_id, "version": seen.version, **deleted}


def _own(full: str) -> str:
    tenant = tenant_of(full)
    return full.removeprefix(f"{tenant}/") if tenant else full
