import json

import pytest

from clients.postgres import master_data, store
from clients.postgres.master_data import MasterDataError
from clients.postgres.outbox import Outbox

pytestmark = pytest.mark.stack


def _sent(connection: store.Connection) -> list[tuple[str, str, dict[str, object] | None]]:
    rows = Outbox(connection).pending(5_000)
    return [
        (row.topic, (row.key or b"").decode(), json.loads(row.value) if row.value else None)
        for row in rows
    ]


def test_the_sample_is_seeded_once_and_deletions_stay(connection: store.Connection) -> None:
    assert master_data.seed(connection) == 1002
    connection.execute("DELETE FROM headrace.device WHERE id = 'device-0007'")
    assert master_data.seed(connection) == 0
    devices = {device.id: device for device in master_data.list_devices(connection, 2_000)}
    assert len(devices) == 999 and "device-0007" not in devices
    assert devices["device-0010"].model == "thermo-f"
    assert sum(device.model == "thermo-f" for device in devices.values()) == 100
    assert {d.area for d in devices.values()} == {f"area-{n:02}" for n in range(1, 21)}


def test_models_are_sent_before_the_devices_that_name_them(connection: store.Connection) -> None:
    master_data.seed(connection)
    sent = _sent(connection)
    assert len(sent) == 1002
    assert [topic for topic, _, _ in sent[:2]] == ["master.device_model.v1"] * 2
    assert sent[1][2] == {
        "name": "thermo-f",
        "value_field": "temp_f",
        "unit": "celsius",
        "scale": pytest.approx(5 / 9),
        "offset": pytest.approx(-160 / 9),
    }


def test_each_change_is_sent_with_the_row_and_a_deletion_as_null(
    connection: store.Connection,
) -> None:
    master_data.seed(connection)
    connection.execute("DELETE FROM headrace.outbox")
    master_data.add_device(connection, "d", "area-01", "thermo-c", {"floor": 3})
    master_data.set_device(connection, "d", area="area-02")
    master_data.set_device(connection, "d", area="area-02")  # changes nothing: sends nothing
    connection.execute("UPDATE headrace.device SET id = 'e' WHERE id = 'd'")
    connection.execute("DELETE FROM headrace.device WHERE id = 'e'")
    sent = _sent(connection)
    assert [(key, value and value["revision"]) for _, key, value in sent] == [
        ("d", 1),
        ("d", 2),
        ("d", None),
        ("e", 3),
        ("e", None),
    ]
    changed = sent[1][2]
    assert changed is not None
    assert isinstance(changed.pop("updated_at_ms"), int)
    assert changed == {
        "id": "d",
        "area": "area-02",
        "model": "thermo-c",
        "attributes": {"floor": 3},
        "revision": 2,
    }


def test_a_model_is_added_listed_and_sent(connection: store.Connection) -> None:
    master_data.seed(connection)
    connection.execute("DELETE FROM headrace.outbox")
    added = master_data.add_model(connection, "thermo-k", "kelvin", "celsius", 1, -273.15)
    assert added == ("thermo-k", "kelvin", "celsius", 1.0, -273.15)
    listed = master_data.list_models(connection)
    assert [model.name for model in listed] == ["thermo-c", "thermo-f", "thermo-k"]
    assert listed[-1] == added
    assert _sent(connection) == [("master.device_model.v1", "thermo-k", added._asdict())]
    with pytest.raises(MasterDataError, match="model 'thermo-k' exists already"):
        master_data.add_model(connection, "thermo-k", "kelvin", "celsius", 1, 0)
    with pytest.raises(MasterDataError, match="must be finite"):
        master_data.add_model(connection, "thermo-n", "kelvin", "celsius", float("nan"), 0)
    with pytest.raises(MasterDataError, match="model '' is not valid"):
        master_data.add_model(connection, "", "kelvin", "celsius", 1, 0)


def test_a_change_that_is_rolled_back_is_not_sent(connection: store.Connection) -> None:
    master_data.seed(connection)
    connection.execute("DELETE FROM headrace.outbox")
    with pytest.raises(ZeroDivisionError), connection.transaction():
        master_data.set_device(connection, "device-0001", area="x")
        raise ZeroDivisionError
    assert _sent(connection) == []


def test_a_table_of_ones_own_is_published_by_one_call(connection: store.Connection) -> None:
    connection.execute("CREATE TABLE gate (code text PRIMARY KEY, opened timestamptz)")
    connection.execute("SELECT headrace.publish_table('gate', 'master.gate.v1', 'code', 'opened')")
    connection.execute("INSERT INTO gate VALUES ('A1', '1970-01-01 00:00:01.5Z'), ('A2', NULL)")
    assert _sent(connection) == [
        ("master.gate.v1", "A1", {"code": "A1", "opened_ms": 1500}),
        ("master.gate.v1", "A2", {"code": "A2", "opened_ms": None}),
    ]


def test_a_published_table_cannot_be_truncated(connection: store.Connection) -> None:
    with pytest.raises(Exception, match="use DELETE"):
        connection.execute("TRUNCATE headrace.device")


def test_mistakes_are_told_in_one_sentence(connection: store.Connection) -> None:
    master_data.seed(connection)
    with pytest.raises(MasterDataError, match="no model 'x'; known models: thermo-c, thermo-f"):
        master_data.add_device(connection, "d", "area-01", "x")
    with pytest.raises(MasterDataError, match="'device-0001' exists already"):
        master_data.add_device(connection, "device-0001", "area-01", "thermo-c")
    with pytest.raises(MasterDataError, match="no device 'nobody'"):
        master_data.set_device(connection, "nobody", area="area-01")
    with pytest.raises(MasterDataError, match="NUL"):
        master_data.add_device(connection, "d\0", "area-01", "thermo-c")
