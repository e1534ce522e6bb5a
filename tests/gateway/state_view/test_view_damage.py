"""A disk that has changed a row of the view: it is noticed, and the view made anew."""

import sqlite3
from pathlib import Path

import pytest

from gateway.state_view.reader import Found, Progress, StateView
from gateway.state_view.records import Changes, DamagedError, Row
from gateway.state_view.store import ViewStore, view_path

TOPIC, KEY, VALUE = "state.device.v1", b"device-0001", b'{"count": 127}'


@pytest.fixture
def store(tmp_path: Path) -> ViewStore:
    store, changes = ViewStore(view_path(tmp_path)), Changes()
    store.begin_topic(TOPIC, "an-id")
    changes.put(Row(TOPIC, KEY, VALUE, 1, 1_700_000_000_000, 2, 7))
    changes.positions[TOPIC, 2] = 8
    store.apply(changes)
    store.caught_up([TOPIC], 5)
    return store


def _change(folder: Path, statement: str) -> None:
    with sqlite3.connect(view_path(folder)) as db:
        db.execute(statement)
    db.close()


def test_what_was_written_is_found(store: ViewStore, tmp_path: Path) -> None:
    view = StateView(tmp_path)
    found = Found(VALUE, 1_700_000_000_000, 2, 7)
    assert view.find(TOPIC, KEY) == (Progress(True, 5), found)
    assert view.values(TOPIC) == view.values_if_warm(TOPIC) == {KEY: VALUE}
    assert (store.positions(TOPIC), store.is_there()) == ({2: 8}, True)


@pytest.mark.parametrize(
    "field", ["value = x'7b22636f756e74223a203132367d'", "offset = 6", "version = 9"]
)
def test_a_changed_row_is_not_shown_and_the_view_goes(
    field: str, store: ViewStore, tmp_path: Path
) -> None:
    _change(tmp_path, f"UPDATE record SET {field}")
    view = StateView(tmp_path)
    assert view.find(TOPIC, KEY) == (Progress(False, None), None)
    assert not view_path(tmp_path).exists()
    assert not store.is_there()
    anew = ViewStore(view_path(tmp_path))
    assert view.find(TOPIC, KEY) == (Progress(False, None), None)
    assert anew.is_there()


def test_all_rows_are_looked_at_where_all_are_read(store: ViewStore, tmp_path: Path) -> None:
    _change(tmp_path, "UPDATE record SET value = x'00'")
    assert StateView(tmp_path).values_if_warm(TOPIC) is None
    store.close()


def test_a_changed_position_is_not_believed(store: ViewStore, tmp_path: Path) -> None:
    """Or what stands before it would never be read."""
    _change(tmp_path, "UPDATE position SET next_offset = 9")
    with pytest.raises(DamagedError):
        store.positions(TOPIC)


def test_a_view_of_another_version_is_made_anew(store: ViewStore, tmp_path: Path) -> None:
    store.close()
    _change(tmp_path, "PRAGMA user_version = 1")
    assert ViewStore(view_path(tmp_path)).topic_ids() == {}
