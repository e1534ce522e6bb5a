"""Whether a payload is tried now, or waits behind an earlier one of its entity. Pure."""

from collections.abc import Sequence

from clients.kafka.records import Outgoing, Payload
from shared.events import envelope
from shared.events.envelope import Position
from shared.model import MasterRows
from shared.retry_policy import WhenParked
from stream_jobs.enrich.enrich_payload import DEAD_LETTERS, LANE, Enrich, failure
from stream_jobs.waiting.limits import WaitLimits
from stream_jobs.waiting.line_key import KeyOf, entity_key, is_alone, said
from stream_jobs.waiting.protocol import NOT_YET, Gates

# why a payload waits that has not been tried
BEHIND = "behind"


class EntityGate:
    """enrich for a task of one micro-batch: a payload goes to the lane untried while another one of
    its entity waits (see `protocol`)."""

    def __init__(
        self,
        enrich: Enrich,
        gates: Gates,
        when_parked: WhenParked,
        newcomers: WaitLimits | None = None,
        key_of: KeyOf = entity_key,
    ) -> None:
        self._enrich = enrich
        self._gates = gates
        self._limits = newcomers
        self._key_of = key_of
        self._holds_what_is_parked = when_parked == "wait"

    def __call__(
        self, payload: Payload, read_at: Position, master: MasterRows
    ) -> Sequence[Outgoing]:
        """Nothing: it was discarded, and nobody keeps it."""
        key = self._key_of(payload)
        discarded = envelope.find(payload.headers, envelope.DISCARDED) is not None
        if discarded and (key is None or not self._gates.hold(key)):
            return ()
        if key is None:
            return self._enrich(payload, master)
        if self._gates.hold(key):
            if not discarded and (why_not := self._why_no_more(key)):
                return [failure(DEAD_LETTERS, payload, *why_not)]
            detail = f"an earlier payload of {said(key)} waits"
            return [_waits(failure(LANE, payload, BEHIND, detail), key, payload, read_at)]
        if (reason := self._gates.refused_for(key)) is not None:
            detail = f"it is behind an earlier payload of {said(key)}, which was parked for that"
            return [failure(DEAD_LETTERS, payload, reason, detail)]
        made = self._enrich(payload, master)
        stays = self._holds_what_is_parked and not is_alone(key)
        is_parked = made[0].topic == DEAD_LETTERS and stays
        if made[0].topic != LANE and not is_parked:
            return made
        if self._limits and (why_not := self._why_not(key, made[0])):
            self._gates.refuse(key, why_not[0])
            return made if is_parked else [failure(DEAD_LETTERS, payload, *why_not)]
        self._gates.sent_to_lane(key)
        return [_waits(made[0], key, payload, read_at)]

    def _why_not(self, key: str, outgoing: Outgoing) -> tuple[str, str] | None:
        assert self._limits is not None
        is_unknown = envelope.text(outgoing.headers, envelope.REASON) != NOT_YET
        return self._limits.why_not(key, self._gates, is_unknown=is_unknown)

    def _why_no_more(self, key: str) -> tuple[str, str] | None:
        """Where those behind a parked one wait, its line is what holds them."""
        if self._limits is None or self._holds_what_is_parked:
            return None
        return self._limits.why_no_more(key, self._gates)


def _waits(outgoing: Outgoing, key: str, payload: Payload, read_at: Position) -> Outgoing:
    waits = outgoing._replace(topic=LANE, key=key.encode())
    if read_at == payload.position:
        return waits
    place = (envelope.READ_AT, str(read_at).encode())
    return waits._replace(headers=[*outgoing.headers, place])
