import json

from gateway.event_streams.shown_event import shown
from gateway.streams import frames
from shared.events.envelope import EventRecord, event_value
from shared.events.event_reader import EventReader
from shared.flow import FLOW
from tests.builders import event_record

READER = EventReader.of(FLOW)


def sent(record: EventRecord, key: bytes | None = None) -> dict | None:
    key = record.entity_id.encode() if key is None else key
    found = shown(READER, record.position, key, event_value(record))
    return None if found is None else json.loads(found.data)


def test_an_event_is_sent_as_its_topic_has_it() -> None:
    record = event_record(3, revision=2)
    assert sent(record) == json.loads(event_value(record))


def test_a_tenant_reads_its_own_ids_without_its_name() -> None:
    told = sent(event_record(3, entity_id="acme/device-0001"))
    assert told is not None
    assert told["entity_id"] == "device-0001"


def test_what_is_no_event_is_not_sent() -> None:
    assert sent(event_record(3), key=b"acme/other") is None
    assert sent(event_record(3, type="retired")) is None  # on the topic of readings
    assert shown(READER, event_record(3).position, b"device-0001", b"{\n") is None


def test_an_event_is_one_line_whatever_it_holds() -> None:
    record = event_record(3, data={"value": 1.0, "note": "a\r\n\ndata: b\u2028c"})
    found = shown(READER, record.position, b"device-0001", event_value(record))
    assert found is not None
    raw = frames.event(b"abc", found.data)
    assert raw.startswith(b"id: abc\ndata: {")
    assert raw.count(b"\n") == 3
    assert b"\r" not in raw
    assert raw.endswith(b"\n\n")


def test_a_sign_of_life_moves_the_id_on_and_shows_nothing() -> None:
    assert frames.heartbeat(b"abc") == b": still here\nid: abc\n\n"


def test_the_last_word_says_why_and_from_where_to_go_on() -> None:
    raw = frames.last_word("slow", b"abc")
    kind, id_, data, *_ = raw.split(b"\n")
    assert (kind, id_) == (b"event: end", b"id: abc")
    told = json.loads(data.removeprefix(b"data: "))
    assert (told["reason"], told["last_event_id"]) == ("slow", "abc")
    assert "too slowly" in told["detail"]


def test_the_head_has_no_length_and_ends_the_connection_once() -> None:
    raw = frames.head(
        [(b"date", b"now"), (b"connection", b"close")], b"vary: Origin\r\n", b"abc", 1500
    )
    head, _, begin = raw.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\ndate: now\r\n")
    assert head.count(b"connection: close") == head.count(b"\r\nvary: Origin\r\n") == 1
    assert b"content-type: text/event-stream" in head
    assert b"content-length" not in head
    assert begin == b"retry: 1500\nid: abc\n\n"
