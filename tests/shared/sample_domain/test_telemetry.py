from typing import Any

import pytest

from shared.model import Arrival, Fields, MissingMasterData, Rejected
from shared.sample_domain.device import next_status
from shared.sample_domain.telemetry import to_reading

ARRIVAL = Arrival("device-0001", 1_700_000_000_000)


class Rows(dict[tuple[str, str], Fields]):
    def find(self, table: str, key: str) -> Fields | None:
        return self.get((table, key))


MASTER = Rows(
    {
        ("device", "device-0001"): {"area": "area-01", "model": "thermo-c", "attributes": {"a": 1}},
        ("device", "device-0002"): {"area": "area-02", "model": "thermo-f"},
        ("device", "device-0003"): {"area": "area-02", "model": "unheard-of"},
        ("device_model", "thermo-c"): {"value_field": "value", "unit": "celsius"},
        ("device_model", "thermo-f"): {
            "value_field": "temp_f",
            "unit": "celsius",
            "scale": 5 / 9,
            "offset": -160 / 9,
        },
    }
)


def test_a_reading_keeps_what_it_does_not_know() -> None:
    draft = to_reading({"value": 21.5, "firmware": "1.2"}, ARRIVAL, MASTER)
    assert draft.type == "reading"
    assert draft.time_ms == ARRIVAL.arrived_ms
    assert draft.data == {
        "value": 21.5,
        "unit": "celsius",
        "area": "area-01",
        "model": "thermo-c",
        "attributes": {"a": 1},
        "rest": {"firmware": "1.2"},
    }


def test_another_model_is_one_row_away() -> None:
    draft = to_reading({"temp_f": 212}, Arrival("device-0002", 0), MASTER)
    assert draft.data["value"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("at", "time_ms"),
    [
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20.250+01:00", 1_700_000_000_250),
    ],
)
def test_the_payloads_own_time_counts(at: str, time_ms: int) -> None:
    assert to_reading({"value": 1, "at": at}, ARRIVAL, MASTER).time_ms == time_ms


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ({}, "field_missing"),
        ({"value": "21.5"}, "wrong_type"),
        ({"value": True}, "wrong_type"),
        ({"value": None}, "wrong_type"),
        ({"value": [1]}, "wrong_type"),
        ({"value": 1, "at": 17}, "wrong_type"),
        ({"value": 1, "at": "yesterday"}, "bad_time"),
        ({"value": 1, "at": "2023-11-14T22:13:20"}, "bad_time"),
        ({"value": 1, "at": "0001-01-01T00:00:00+01:00"}, "bad_time"),
        ({"value": 1, "at": "9999-12-31T23:59:59-01:00"}, "bad_time"),
    ],
)
def test_what_cannot_be_a_reading_says_why(payload: dict[str, Any], code: str) -> None:
    with pytest.raises(Rejected) as rejected:
        to_reading(payload, ARRIVAL, MASTER)
    assert rejected.value.code == code


@pytest.mark.parametrize(
    ("device", "table"), [("device-9999", "device"), ("device-0003", "device_model")]
)
def test_missing_master_data_is_named(device: str, table: str) -> None:
    with pytest.raises(MissingMasterData) as missing:
        to_reading({"value": 1}, Arrival(device, 0), MASTER)
    assert missing.value.table == table


@pytest.mark.parametrize(
    ("status", "value", "then"),
    [
        ("IDLE", 19.99, "IDLE"),
        ("IDLE", 20, "ACTIVE"),
        ("ACTIVE", 15, "ACTIVE"),
        ("ACTIVE", 14.99, "IDLE"),
        ("ACTIVE", 79.99, "ACTIVE"),
        ("IDLE", 80, "ALARM"),
        ("ALARM", 60, "ALARM"),
        ("ALARM", 59.99, "ACTIVE"),
        ("ALARM", 14.99, "IDLE"),
    ],
)
def test_the_machine_has_hysteresis(status: str, value: float, then: str) -> None:
    assert next_status(status, value) == then
