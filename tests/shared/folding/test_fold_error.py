"""A fold that raises parks its event; what it cannot ask for is said with what to do instead."""

from collections.abc import Callable

import pytest

from shared.events.envelope import EventRecord
from shared.folding.applier import Applied, Applier
from shared.model import Entity, Event, Fields, MissingMasterData, NotYet
from tests.builders import event_record


def _applied(
    fold: Callable[[Fields, Event], Fields],
    records: list[EventRecord],
    initial: Callable[[str], Fields] = lambda _: {"seen": []},
) -> Applied:
    entity = Entity("device", ("reading",), initial, fold)
    return Applier(entity, ring_size=8).apply("device-0001", None, records)


@pytest.mark.parametrize("error", [NotYet("the door is open"), MissingMasterData("door", "d-1")])
def test_a_fold_that_wants_to_wait_parks_its_event_and_is_told_what_to_do(
    error: Exception,
) -> None:
    def fold(state: Fields, event: Event) -> Fields:
        if event.data["value"] == 13:
            raise error
        return {"seen": [*state["seen"], event.data["value"]]}

    records = [event_record(n, value=value) for n, value in enumerate((1, 13, 2))]
    applied = _applied(fold, records)
    assert applied.snapshot is not None
    assert applied.snapshot.state == {"seen": [1, 2]}
    ((record, reason, detail),) = applied.parked
    assert (record, reason) == (records[1], "fold_failed")
    assert detail.startswith(f"{type(error).__name__}: {error} (test_fold_error.py, line ")
    assert "a fold cannot wait" in detail
    assert "Action" in detail


def test_another_error_is_told_as_it_is() -> None:
    def fold(state: Fields, _event: Event) -> Fields:
        return {"seen": state["unseen"]}

    ((_, _, detail),) = _applied(fold, [event_record(0)]).parked
    assert detail.startswith("KeyError: 'unseen' (test_fold_error.py, line ")
    assert detail.endswith(")")


def test_where_there_can_be_no_first_state_the_events_are_parked_and_the_job_goes_on() -> None:
    """Or one such entity would end the batch of all others, again and again."""

    def initial(entity_id: str) -> Fields:
        return {"floor": int(entity_id.split(":")[1])}

    records = [event_record(n) for n in range(3)]
    applied = _applied(lambda state, _: state, records, initial)
    assert applied.snapshot is None
    assert [parked.record for parked in applied.parked] == records
    assert {parked.reason for parked in applied.parked} == {"initial_failed"}
    assert "IndexError: list index out of range (test_fold_error.py" in applied.parked[0].detail
