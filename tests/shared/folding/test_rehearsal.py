from dataclasses import replace

from shared.flow import FLOW
from shared.folding import refolding, snapshot
from shared.folding.applier import Applier
from shared.folding.rehearsal import Change, Rehearsal
from shared.folding.snapshot import Snapshot
from shared.model import Event, Fields
from shared.sample_domain import device
from tests.builders import event_record

DEVICE = FLOW.entities[0]
TYPES = {row.name: row for row in FLOW.event_types}
READINGS = ["event.reading.v1"]


def _hotter(state: Fields, event: Event) -> Fields:
    if event.data["value"] == 13:
        raise ValueError("unlucky")
    return device.fold(state, replace_value(event, event.data["value"] + 1))


def replace_value(event: Event, value: float) -> Event:
    return event._replace(data={**event.data, "value": value})


NEW = replace(DEVICE, fold=_hotter)


def _live(*values: float) -> Snapshot:
    records = [event_record(i, value=value) for i, value in enumerate(values)]
    live = Applier(DEVICE, 64, TYPES).apply("device-0001", None, records).snapshot
    assert live is not None
    return snapshot.decode(snapshot.encode(live, "old"))


def _rehearsed(entity: object, live: Snapshot, *values: float) -> Rehearsal:
    assert isinstance(entity, type(DEVICE))
    rehearsal = Rehearsal(Applier(entity, 64, TYPES), READINGS)
    rehearsal.live("device-0001", live, "old")
    for i, value in enumerate(values):
        rehearsal.event(event_record(i, value=value))
    return rehearsal


def test_the_same_fold_changes_nothing_whatever_has_come_in_meanwhile() -> None:
    rehearsal = _rehearsed(DEVICE, _live(10.0, 20.0), 10.0, 20.0, 95.0)
    assert list(rehearsal.changes()) == []
    assert (rehearsal.entities, rehearsal.events, rehearsal.folds) == (1, 2, {"old": 1})


def test_another_fold_is_told_by_the_fields_that_differ() -> None:
    rehearsal = _rehearsed(NEW, _live(10.0, 20.0), 10.0, 20.0)
    fields = {"value": (20.0, 21.0), "min": (10.0, 11.0), "max": (20.0, 21.0)}
    assert list(rehearsal.changes()) == [Change("device-0001", fields)]


def test_what_the_new_fold_would_not_take_is_counted() -> None:
    rehearsal = _rehearsed(NEW, _live(13.0), 13.0)
    assert rehearsal.parked == 1
    (change,) = rehearsal.changes()
    assert change.fields["count"] == (1, 0)


def test_an_entity_that_is_gone_is_left_out() -> None:
    rehearsal = _rehearsed(NEW, _live(10.0))
    rehearsal.live("device-0001", None)
    assert (rehearsal.entities, list(rehearsal.changes())) == (0, [])


def test_an_entity_with_a_correction_is_folded_from_the_whole_of_its_log() -> None:
    log = [event_record(0, value=10.0), event_record(1, value=90.0)]
    place = event_record(2).position
    log.append(log[1]._replace(position=place, revision=1, attempt=1, data=log[0].data))
    request = refolding.Request("device", "device-0001", {"event.reading.v1/0": 2}, {})
    live = refolding.refold(Applier(DEVICE, 64, TYPES), request, log).snapshot
    rehearsal = Rehearsal(Applier(DEVICE, 64, TYPES), READINGS)
    rehearsal.live("device-0001", live, "old")
    for take in (rehearsal.event, rehearsal.once_more):
        for record in [*log, event_record(3, value=95.0)]:
            take(record)
    assert rehearsal.asks
    assert list(rehearsal.changes()) == []
