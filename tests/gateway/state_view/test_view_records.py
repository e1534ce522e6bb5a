"""What anyone may have written to a topic of the view, and what its writer makes of it."""

from typing import Any

import orjson
import pytest

from gateway.state_view.store import ViewStore
from gateway.state_view.writer import to_changes
from shared.topic_names import JOB_STATUS_TOPIC

TOPIC = "state.device.v1"


class Message:
    """As the client hands one over."""

    def __init__(self, key: bytes | None, value: bytes | None, topic: str = TOPIC) -> None:
        self._fields = {"key": key, "value": value, "topic": topic, "partition": 0, "offset": 7}

    def error(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 2, 1_700_000_000_000

    def __getattr__(self, name: str) -> Any:
        return lambda: self._fields[name]


def _snapshot(**meta: Any) -> bytes:
    return orjson.dumps({"count": 1, "_meta": {"version": 1, "event_time_ms": None, **meta}})


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff",
        b"null",
        b"[1]",
        b"{}",
        b'{"_meta": "version"}',
        b'{"_meta": ["version"]}',
        _snapshot(version="1"),
        _snapshot(version=1.5),
        _snapshot(version=True),
        _snapshot(version=None),
        _snapshot(version=(1 << 64) - 1),  # SQLite holds 63 bits
        _snapshot(event_time_ms="noon"),
        _snapshot(event_time_ms=(1 << 64) - 1),  # no text can say it
        b'{"_meta": {"version": 1e300}}',
    ],
)
def test_what_is_no_snapshot_is_skipped_and_counted(value: bytes, store: ViewStore) -> None:
    changes = to_changes([Message(b"a", value), Message(b"b", _snapshot())])  # type: ignore[list-item]
    assert changes.skipped == {TOPIC: 1}
    assert [row.key for row in changes.rows.values()] == [b"b"]
    store.apply(changes)


def test_a_record_without_a_key_is_skipped_and_counted() -> None:
    message: Any = Message(None, _snapshot())
    assert to_changes([message]).skipped == {TOPIC: 1}


@pytest.mark.parametrize("key", [b"\xff\xfe", b"", b"fold"])
def test_a_sign_of_life_is_kept_whatever_it_says(key: bytes, store: ViewStore) -> None:
    message: Any = Message(key, b"\xff no json", JOB_STATUS_TOPIC)
    changes = to_changes([message])
    store.apply(changes)
    assert not changes.skipped
