"""What becomes of a record of a state topic."""

import orjson
import pytest

from shared.folding import snapshot
from shared.folding.snapshot import Snapshot
from stream_jobs.search.document import Change, change_of

AT_MS = 1_700_000_000_000


def change(key: bytes | None, value: bytes | None) -> Change | None:
    return change_of("devices", "device", key, value, 41, AT_MS)


def written(deleted: bool = False) -> bytes:
    state = Snapshot({"value": 21.5}, version=7, event_time_ms=AT_MS - 1_000, deleted=deleted)
    return snapshot.encode(state, "f")


def test_a_state_is_a_document_under_its_full_id() -> None:
    found = change(b"acme/device-1", written())
    assert found is not None
    at, document = map(orjson.loads, found.lines().splitlines())
    assert at["index"] == {
        "_index": "devices",
        "_id": "acme/device-1",
        "version": 42,
        "version_type": "external_gte",
        "require_alias": True,
    }
    assert document == {
        "entity": "device",
        "id": "device-1",
        "tenant": "acme",
        "updated_at": "2023-11-14T22:13:20.000Z",
        "version": 7,
        "event_time": "2023-11-14T22:13:19.000Z",
        "state": {"value": 21.5},
    }


@pytest.mark.parametrize("value", [None, written(deleted=True)])
def test_what_is_deleted_or_forgotten_goes(value: bytes | None) -> None:
    found = change(b"device-1", value)
    assert found is not None
    (line,) = found.lines().splitlines()
    assert orjson.loads(line)["delete"]["version"] == 42


@pytest.mark.parametrize(
    ("key", "value"), [(None, written()), (b"\xff", written()), (b"d", b"{}"), (b"d", b"\xff")]
)
def test_what_is_no_snapshot_changes_nothing(key: bytes | None, value: bytes) -> None:
    assert change(key, value) is None


def test_a_document_that_is_refused_stands_there_without_its_state() -> None:
    found = change(b"device-1", written())
    assert found is not None
    bare = found.without_its_state("too odd")
    assert bare.document is not None and found.document is not None
    assert "state" not in bare.document and "state" in found.document
    assert orjson.loads(bare.document["state_json"]) == {"value": 21.5}
    assert (bare.document["refused"], bare.version) == ("too odd", 42)
