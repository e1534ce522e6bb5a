import orjson
import pytest

from clients.kafka.records import Record
from local_stack.terminal.errors import StackError
from local_stack.verbs.breaches import breaches, counted
from shared.events import envelope
from shared.events.envelope import Position


def _record(number: int, device: str, **changes: str) -> Record:
    told = {
        **{"endpoint": "draw", "mode": "observe", "code": "wrong_type", "place": "litres.1.unit"},
        "detail": "",
        **changes,
    }
    headers = [(envelope.ID, b"p-%d" % number)]
    place = Position("breach.enrich.v1", 0, number)
    return Record(place, device.encode(), orjson.dumps(told), headers, 1_700_000_000_000 + number)


RECORDS = [
    _record(1, "tank-1"),
    _record(1, "tank-1"),  # written twice
    _record(2, "tank-2", place="litres.7.unit"),
    _record(3, "tank-2", firmware="4.1"),
    _record(4, "tank-2", endpoint="fill", place=""),
]


def test_breaches_are_counted_by_place_and_firmware_each_payload_once() -> None:
    rows = counted(RECORDS)
    assert [(row["endpoint"], row["place"], row["firmware"], row["payloads"]) for row in rows] == [
        ("draw", "litres.*.unit", None, 2),
        ("draw", "litres.*.unit", "4.1", 1),
        ("fill", "the whole", None, 1),
    ]
    assert [row["devices"] for row in rows] == [2, 1, 1]
    assert rows[0]["last"] == "2023-11-14T22:13:20.002Z"


def test_they_are_counted_by_device_and_of_one_endpoint() -> None:
    rows = counted(RECORDS, "draw", by_device=True)
    assert [(row["device"], row["firmware"], row["payloads"]) for row in rows] == [
        ("tank-1", None, 1),
        ("tank-2", None, 1),
        ("tank-2", "4.1", 1),
    ]


def test_where_every_endpoint_enforces_it_is_told_where_to_look() -> None:
    with pytest.raises(StackError, match="no endpoint lets") as refusal:
        breaches()
    assert "letters" in refusal.value.fix
