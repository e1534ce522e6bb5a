from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
import pytest

from clients.kafka.records import Payload
from desk.letters.dry_run import Trial, try_again
from desk.letters.redrive_target import always
from shared.events import envelope, redelivery
from shared.events.envelope import Header, Position, event_value, failure_headers
from shared.flow import FLOW
from shared.folding import snapshot
from shared.folding.applier import Applier
from shared.folding.snapshot import Snapshot
from shared.model import AllEvents
from shared.published.dead_letters import Letter, read
from tests.builders import Master, enriches, event_record

ORIGIN = Position("ingest.telemetry.v1", 2, 17)
ARRIVED_MS = 1_700_000_000_000
FITS = b'{"value": 21.5}'


def _letter(value: bytes | None, origin: Position = ORIGIN, key: bytes = b"device-0001") -> Letter:
    own: list[Header] = [(envelope.ID, b"event-17")]
    headers = redelivery.headers_of(own, redelivery.FirstArrival(origin, ARRIVED_MS))
    headers = failure_headers(headers, "enrich", origin, "not_json", "why")
    return read(FLOW, Position("dlq.enrich.v1", 0, 3), ARRIVED_MS + 5, key, value, headers)


def _parked_by(stage: str, value: bytes, origin: Position, cause: str = "fold_failed") -> Letter:
    headers = failure_headers((), stage, origin, cause, "")
    place = Position(f"dlq.{stage}.v1", 0, 0)
    return read(FLOW, place, ARRIVED_MS, b"device-0001", value, headers)


def _try(
    letter: Letter, changed: bytes | None = None, known: Mapping[str, bytes] | None = None
) -> Trial:
    known = known or {}
    change = None if changed is None else always(changed)
    return try_again(FLOW, letter, 1, change, Master(), lambda topic, _: known.get(topic))


def _snapshot(*records: Any) -> bytes:
    entity = FLOW.entities[0]
    types = {row.name: row for row in FLOW.event_types}
    now: Snapshot | None = Applier(entity, 64, types).apply("device-0001", None, records).snapshot
    assert now
    return snapshot.encode(now, "fold")


def test_a_trial_says_which_event_it_would_become_and_which_state() -> None:
    known = {"state.device.v1": _snapshot(event_record(1, value=3.0))}
    trial = _try(_letter(b"{"), FITS, known)
    assert trial.outcome == "event"
    assert trial.event
    assert (trial.event["id"], trial.event["origin"]) == ("event-17", [*ORIGIN])
    (state,) = trial.states
    assert (state.entity, state.id, state.outcome) == ("device", "device-0001", "changes")
    assert state.before != state.after


def test_a_trial_says_that_what_comes_late_will_be_put_in_its_place() -> None:
    newer = event_record(18)._replace(origin=ORIGIN._replace(offset=18))
    older = event_record(20, attempt=1)._replace(origin=ORIGIN._replace(offset=3))
    for known in (_snapshot(newer), _snapshot(newer, older)):
        (state,) = _try(_letter(b"{"), FITS, {"state.device.v1": known}).states
        assert state.detail == "shown as if it came last; fold puts it where it belongs"
        assert (state.before or {})["count"] + 1 == (state.after or {})["count"]


def test_the_event_is_that_which_enrich_would_write() -> None:
    trial = _try(_letter(b"{"), FITS)
    payload = Payload(ORIGIN, b"device-0001", FITS, [(envelope.ID, b"event-17")], ARRIVED_MS, 1)
    written = enriches(FLOW)(payload, Master())
    assert trial.event == orjson.loads(written.value or b"")


def test_a_trial_counts_an_event_once_that_goes_to_the_topic_of_all_events_too() -> None:
    flow = replace(FLOW, all_events=(AllEvents(),))
    trial = try_again(flow, _letter(b"{"), 1, always(FITS), Master(), lambda *_: None)
    assert trial == _try(_letter(b"{"), FITS)


def test_a_trial_says_why_it_would_be_parked_again_or_wait() -> None:
    assert _try(_letter(b"{"))[:2] == ("parked", "not_json")
    unknown = _try(_letter(b"{", key=b"device-9999"), FITS)
    assert unknown[:3] == ("waits", "missing_device", "device-9999")


def test_a_trial_says_what_the_state_has_already() -> None:
    trial = _try(_letter(FITS), known={"state.device.v1": _snapshot(event_record(id="event-17"))})
    (state,) = trial.states
    assert (state.outcome, state.detail) == ("unchanged", "it is folded already")


def test_a_trial_of_what_fold_could_not_take_says_what_fold_would_do_now() -> None:
    record = event_record(4)
    trial = _try(_parked_by("fold", event_value(record), record.position))
    assert trial.outcome == "event"
    assert [state.outcome for state in trial.states] == ["changes"]


def test_a_trial_of_what_persist_could_not_store_says_what_is_wrong_still() -> None:
    fit, unfit = event_record(1), event_record(2, id="x" * 3000)
    assert _try(_parked_by("persist", event_value(fit), fit.position)).outcome == "row"
    assert _try(_parked_by("persist", event_value(unfit), unfit.position))[:2] == (
        "parked",
        "id_too_long",
    )


@pytest.mark.parametrize(
    ("letter", "changed"),
    [
        (_letter(b"{", Position("ingest.gone.v1", 0, 0)), None),
        (_parked_by("fold", b"no event", Position("event.reading.v1", 0, 0)), None),
        (_parked_by("aggregate", b"{}", Position("state.device.v1", 0, 0)), None),
        (_parked_by("nowhere", b"{}", Position("what.v1", 0, 0)), None),
        (_parked_by("persist", b"{}", Position("event.reading.v1", 0, 0), "key_reuse"), None),
        (_parked_by("fold", event_value(event_record()), event_record().position), FITS),
    ],
)
def test_what_has_no_way_back_is_refused_in_a_sentence(
    letter: Letter, changed: bytes | None
) -> None:
    trial = _try(letter, changed)
    assert trial.outcome == "refused"
    assert len(trial.detail) > 20
