from dataclasses import replace
from pathlib import Path

import pytest

from shared.flow import FLOW
from stream_jobs.guards.checkpoint_offsets import (
    ahead_at,
    begins_at,
    remember_ahead,
    remember_begin,
    why_not,
)


def _checkpoint(folder: Path, job: str, batch: str, *lines: str) -> None:
    offsets = folder / job / "offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    (offsets / batch).write_text("\n".join(["v1", "{}", *lines]))


def test_a_flow_goes_on_from_its_own_checkpoints_and_may_have_grown(tmp_path: Path) -> None:
    assert why_not(tmp_path, FLOW) is None
    _checkpoint(tmp_path, "fold", "3", '{"event.reading.v1": {"0": 7}}')
    assert why_not(tmp_path, FLOW) is None


def test_what_the_newest_batch_has_read_must_still_be_read(tmp_path: Path) -> None:
    _checkpoint(tmp_path, "fold", "9", '{"event.reading.v1": {"0": 7}}')
    _checkpoint(tmp_path, "fold", "10", '{"event.arrived.v1": {"0": 7}, "event.left.v1": {"0": 7}}')
    _checkpoint(tmp_path, "fold", ".11.tmp", '{"event.reading.v1": {"0": 7}}')
    reason = why_not(tmp_path, FLOW)
    assert reason is not None
    assert "fold has read event.arrived.v1 and 1 more, which this flow" in reason


def test_a_view_may_go_or_have_another_version(tmp_path: Path) -> None:
    _checkpoint(tmp_path, "persist", "9", '{"event.reading.v1": {"0": 7}, "view.a.v1": {"0": 7}}')
    assert why_not(tmp_path, FLOW) is None


def test_a_job_that_the_flow_no_longer_has_holds_nothing_up(tmp_path: Path) -> None:
    _checkpoint(tmp_path, "aggregate", "0", '{"state.device.v1": {"0": 7}}')
    assert why_not(tmp_path, replace(FLOW, aggregates=())) is None


@pytest.mark.parametrize("line", ["", "{", "-"])
def test_what_cannot_be_told_is_left_to_spark(tmp_path: Path, line: str) -> None:
    _checkpoint(tmp_path, "enrich", "0", line)
    assert why_not(tmp_path, FLOW) is None


def test_a_changed_byte_of_how_far_a_job_is_is_not_believed(tmp_path: Path) -> None:
    """With another digit it would pass over payloads that nobody has read."""
    offsets = {"ingest.telemetry.v1": {0: 1234, 1: 77}}
    remember_ahead(tmp_path, offsets)
    remember_begin(tmp_path, offsets)
    assert (ahead_at(tmp_path), begins_at(tmp_path)) == (offsets, offsets)
    for name in ("ahead.json", "begins_at.json"):
        whole = (tmp_path / name).read_bytes()
        for at in range(len(whole)):
            for bit in range(8):
                changed = bytes([whole[at] ^ 1 << bit])
                (tmp_path / name).write_bytes(whole[:at] + changed + whole[at + 1 :])
                assert ahead_at(tmp_path) in (offsets, {})
                assert begins_at(tmp_path) in (offsets, None)
        (tmp_path / name).write_bytes(whole)
