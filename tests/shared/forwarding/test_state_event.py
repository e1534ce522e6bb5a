"""What a hook of states gets of a snapshot."""

from typing import Any

import orjson
import pytest

from gateway.state.pipeline_lag import Behind
from gateway.state.route import Freshness, _body
from gateway.state_view.reader import Found, Progress
from shared.events.envelope import EventRecord, Position
from shared.flow import FLOW
from shared.folding import snapshot
from shared.folding.applier import Applier
from shared.folding.snapshot import META, Snapshot
from shared.forwarding.cloud_event import CloudEvent, is_for, request
from shared.forwarding.hook import Hook, new_hook
from shared.forwarding.state_event import state_event
from tests.builders import event_record

DEVICE = FLOW.entities[0]
APPLIER = Applier(DEVICE, 64, {row.name: row for row in FLOW.event_types})
AT_MS = 1_700_000_009_000
RETIRED = event_record(
    9,
    id="retired-9",
    type="retired",
    position=Position("event.retired.v1", 0, 9),
    data={},
)


def a_hook(**fields: Any) -> Hook:
    url = "https://example.org/in"
    return new_hook(**{"name": "mirror", "url": url, "made_ms": 1, "of": "states", **fields})


def after(*records: EventRecord, before: bytes | None = None) -> bytes:
    known = snapshot.decode(before) if before else None
    now = APPLIER.apply("device-0001", known, records).snapshot
    assert now is not None
    return snapshot.encode(now, "f")


def made(
    value: bytes | None,
    *,
    entity: str = "device",
    key: str = "device-0001",
    offset: int = 3,
    at_ms: int = AT_MS,
) -> CloudEvent:
    place = Position(f"state.{entity}.v1", 0, offset)
    found = state_event(entity, place, key.encode(), value, at_ms)
    assert found is not None
    return CloudEvent(key.encode(), *found)


def test_a_state_is_told_as_a_reader_of_it_sees_it_and_nothing_of_what_is_within() -> None:
    raw = after(event_record(0), event_record(1, value=7.0))
    headers, body = request(a_hook(), [made(raw)])
    told = orjson.loads(body)
    event_id = told.pop("id")
    data = told.pop("data")
    assert told == {
        "specversion": "1.0",
        "type": "state.device",
        "source": "/state.device.v1",
        "subject": "device-0001",
        "time": "2023-11-14T22:13:20.001Z",
        "datacontenttype": "application/json",
    }
    assert headers["content-type"] == "application/cloudevents+json"
    assert event_id and META not in data and META not in data["state"]
    state = orjson.loads(raw)
    meta, progress = state.pop(META), Progress(True, AT_MS)
    behind = Freshness(Behind(0.0, 0.0, "", ""), 0.0, 60.0)
    found = Found(raw, AT_MS, 0, 3)
    shown = _body(DEVICE, "device-0001", state, meta, found, progress, behind, AT_MS)
    of_the_view = ("age_ms", "view", "pipeline_lag_s", "stale")
    assert data == {name: its for name, its in shown.items() if name not in of_the_view}
    assert (data["version"], data["state"]["value"]) == (2, 7.0)


def test_a_version_has_one_id_however_often_it_is_written_and_each_other_one_another() -> None:
    first = after(event_record(0))
    repeat = event_record(0)._replace(position=Position("event.reading.v1", 0, 5))
    again = after(repeat, before=first)
    assert again != first  # it has looked at a repeat
    later = after(event_record(6), before=again)
    ids = [made(raw, offset=n, at_ms=AT_MS + n).id for n, raw in enumerate((first, again, later))]
    assert ids[0] == ids[1] != ids[2]
    assert made(first, key="device-0002").id != ids[0]
    assert made(first, entity="area").id != ids[0]


def test_one_that_comes_back_after_it_was_forgotten_has_ids_of_its_own() -> None:
    """With the same fields, the same version and the same event time."""
    one, other = (
        snapshot.encode(Snapshot({"on": True}, 1, 5, arrived_ms=ms), "f") for ms in (10, 99)
    )
    assert made(one).id != made(other).id


def test_a_deletion_is_told_as_such_and_once_more_when_it_is_forgotten() -> None:
    deleted = made(after(event_record(0), RETIRED))
    assert deleted.data["deleted"] is True and "state" not in deleted.data
    assert deleted.data["version"] == 2
    forgotten = made(None)
    assert forgotten.data == {
        "entity": "device",
        "id": "device-0001",
        "updated_at": "2023-11-14T22:13:29.000Z",
        "version": None,
        "event_time": None,
        "deleted": True,
    }
    assert forgotten.attributes["time"] == "2023-11-14T22:13:29.000Z"
    assert made(None).id == forgotten.id != made(None, offset=4).id
    assert is_for(a_hook(), deleted) and is_for(a_hook(), forgotten)
    assert not is_for(a_hook(where=["count >= 0"]), deleted)


def test_an_aggregate_is_told_too() -> None:
    event = made(snapshot.encode_total({"devices": 2}, 4, None, "f"), entity="area", key="acme/a")
    assert event.data["state"] == {"devices": 2}
    assert (event.data["id"], event.attributes["subject"]) == ("a", "acme/a")
    assert event.attributes["tenant"] == "acme"
    assert event.attributes["time"] == event.data["updated_at"]


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"{}", b'{"_meta": 1}', b'{"_meta": {"version": "1"}}', b"\xff"]
)
def test_what_is_no_snapshot_becomes_nothing(value: bytes) -> None:
    assert state_event("device", Position("state.device.v1", 0, 0), b"d", value, 1) is None
    assert state_event("device", Position("state.device.v1", 0, 0), b"\xff", None, 1) is None


@pytest.mark.parametrize(
    ("fields", "is_its"),
    [
        ({}, True),
        ({"types": ["device"]}, True),
        ({"types": ["area"]}, False),
        ({"entities": ["device-0001"]}, True),
        ({"entities": ["device-0002"]}, False),
        ({"tenant": "acme"}, True),
        ({"tenant": ""}, False),
        ({"where": ["value > 20"]}, True),
        ({"where": ["version > 0"]}, False),
        ({"of": "events"}, False),
        ({"of": "completions"}, False),
    ],
)
def test_a_hook_gets_the_states_that_it_asks_for(fields: dict[str, Any], is_its: bool) -> None:
    event = made(after(event_record(0)), key="acme/device-0001")
    assert is_for(a_hook(**fields), event) is is_its


def test_a_hook_of_states_gets_no_event_and_no_completion_of_a_state() -> None:
    one = event_record()
    event = CloudEvent(b"d", b"{}", [("ce_id", b"e"), ("ce_type", one.type.encode())])
    done = CloudEvent(b"d", b"{}", [("ce_id", b"c"), ("ce_type", b"completion.state.device")])
    assert not is_for(a_hook(), event)
    assert not is_for(a_hook(), done)
    assert is_for(a_hook(of="completions"), done)


def test_fields_are_chosen_of_the_state_and_the_rest_stays() -> None:
    raw = after(event_record(0))
    _, body = request(a_hook(fields=["value", "no.such"], shape="binary"), [made(raw)])
    told = orjson.loads(body)
    assert told["state"] == {"value": 21.5}
    assert told["version"] == 1
    _, body = request(a_hook(fields=["value"]), [made(None)])
    assert "state" not in orjson.loads(body)["data"]
