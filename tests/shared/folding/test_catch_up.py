"""An entity that is folded anew is seen when it contains what the published snapshot did."""

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.events.envelope import Position
from shared.flow import FLOW
from shared.folding import snapshot
from shared.folding.applier import Applier
from shared.folding.catch_up import folded_anew, has_caught_up, is_within
from tests.builders import event_record

DEVICE = FLOW.entities[0]
APPLIER = Applier(DEVICE, 64, {row.name: row for row in FLOW.event_types})
LOGS = {"event.reading.v1", "event.status_changed.v1"}


@given(st.integers(1, 20), st.integers(0, 20), st.data())
@settings(max_examples=60)
def test_it_is_shown_with_the_last_event_that_the_old_one_had(
    known: int, more: int, data: st.DataObject
) -> None:
    records = [event_record(i, value=float(i)) for i in range(known + more)]
    published = APPLIER.apply("device-0001", None, records[:known]).snapshot
    assert published is not None
    old = snapshot.decode(snapshot.encode(published, "old"))
    now = folded_anew(DEVICE, "device-0001", old, LOGS)
    cut = data.draw(st.integers(1, len(records)))
    first = APPLIER.apply("device-0001", now, records[:cut]).snapshot
    assert first is not None
    assert has_caught_up(first) == (cut >= known)
    stored = snapshot.decode(snapshot.encode(first, "new"))
    after = APPLIER.apply("device-0001", stored, records).snapshot or stored
    assert has_caught_up(after)
    assert after.state["count"] == known + more
    assert after.version > old.version


def test_a_topic_that_the_entity_no_longer_reads_is_not_waited_for() -> None:
    old = snapshot.Snapshot(
        {}, version=7, positions={"event.gone.v1/0": 5, "event.reading.v1/0": 3}
    )
    now = folded_anew(DEVICE, "device-0001", old, LOGS)
    assert now.behind == {"event.reading.v1/0": 3}
    assert has_caught_up(folded_anew(DEVICE, "device-0001", old, set()))


def test_what_the_old_one_had_seen_is_within() -> None:
    behind = {"event.reading.v1/0": 3}
    place = Position("event.reading.v1", 0, 3)
    assert is_within(place, behind)
    assert not is_within(place._replace(offset=4), behind)
    assert not is_within(place._replace(partition=1), behind)
    assert not is_within(place, {})
