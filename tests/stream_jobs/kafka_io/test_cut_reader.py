"""What the planner of a view's batches does with a log that changes, by a clock set here."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from clients.kafka.records import Partition
from shared.kafka_access import KafkaAccess
from stream_jobs.kafka_io import cut_reader, log_reader
from stream_jobs.kafka_io.cut_reader import CutReader, cut_of_batch
from stream_jobs.kafka_io.cuts import CUT, cut_of
from stream_jobs.kafka_io.log_reader import Source

AT_MS = 1_800_000_000_000


class Log:
    """Of one topic: by partition, when each record was appended."""

    def __init__(self) -> None:
        self.times: dict[int, list[int]] = {0: [], 1: []}

    def begins(self) -> dict[Partition, int]:
        return {("t", p): 0 for p in self.times}

    def ends(self) -> dict[Partition, int]:
        return {("t", p): len(times) for p, times in self.times.items()}

    def since(self, times_ms: dict[Partition, int]) -> dict[Partition, int | None]:
        found: dict[Partition, int | None] = {}
        for (topic, p), ms in times_ms.items():
            later = [offset for offset, at in enumerate(self.times[p]) if at >= ms]
            found[topic, p] = later[0] if later else None
        return found


class Planner:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log = Log()
        self.now_ms = AT_MS
        source = Source("view_x", KafkaAccess("none"), ("t",), None, folder, 10, 2, b"")
        self._reader = CutReader(source)
        monkeypatch.setattr(self._reader, "offsets", lambda: self.log)
        monkeypatch.setattr(cut_reader.time, "time_ns", lambda: self.now_ms * 1_000_000)
        monkeypatch.setattr(log_reader.time, "sleep", lambda _: None)
        self.at = self._reader.initialOffset()

    def goes_on(self, after_s: float = 1) -> dict[str, Any]:
        """To where the next batch ends."""
        self.now_ms += int(after_s * 1000)
        self.at = self._reader._next(self.at)
        return self.at

    @property
    def offsets(self) -> dict[str, int]:
        found: dict[str, int] = self.at["t"]
        return found


@pytest.fixture
def planner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planner:
    return Planner(tmp_path, monkeypatch)


def test_a_batch_has_what_was_appended_before_its_cut(planner: Planner) -> None:
    assert planner.at == {"t": {"0": 0, "1": 0}, CUT: {"0": 0}}
    planner.log.times = {0: [AT_MS, AT_MS + 600, AT_MS + 900], 1: [AT_MS + 700]}
    planner.goes_on()
    # the last one is too young to be sure of all that stands before it
    assert (planner.offsets, cut_of(planner.at)) == ({"0": 2, "1": 1}, AT_MS + 750)
    planner.goes_on()
    assert planner.offsets == {"0": 3, "1": 1}


def test_a_backlog_is_cut_into_parts_of_one_time(planner: Planner) -> None:
    planner.log.times = {0: [*range(1_000, 9_000, 100)], 1: [*range(1_000, 5_000, 400)]}
    done = 0
    while (reached := sum(map(int, planner.goes_on()["t"].values()))) < 90:
        cut_ms = cut_of(planner.at)
        assert 0 < reached - done <= 10
        for p, times in planner.log.times.items():
            assert planner.offsets[str(p)] == sum(at <= cut_ms for at in times)
        done = reached


def test_without_records_the_cut_goes_on_ever_seldomer(planner: Planner) -> None:
    planner.log.times[0] = [AT_MS]
    cuts = {cut_of(planner.goes_on()) for _ in range(600)}
    assert 20 < len(cuts) < 60
    assert max(cuts) > AT_MS + 530_000
    assert planner.offsets == {"0": 1, "1": 0}


def test_a_clock_that_goes_back_is_waited_for(planner: Planner) -> None:
    planner.goes_on(5)
    before = planner.at
    planner.log.times[0] = [planner.now_ms - 60_000]
    assert planner.goes_on(-60) == before
    assert planner.goes_on(61)["t"] == {"0": 1, "1": 0}


def test_time_does_not_go_on_over_what_cannot_be_seen(planner: Planner) -> None:
    planner.goes_on(5)
    before = planner.at
    for times in ({}, {0: []}):
        planner.log.times = times
        with pytest.raises(KafkaException):
            planner.goes_on(60)
    planner.log.times = {0: [], 1: [], 2: [planner.now_ms]}
    assert planner.goes_on(60)["t"] == {**before["t"], "2": 1}


def test_records_that_are_older_than_the_cut_before_are_not_lost(planner: Planner) -> None:
    planner.goes_on(60)
    planner.log.times[0] = [AT_MS]
    assert planner.goes_on(5)["t"] == {"0": 1, "1": 0}


def test_the_cut_stands_in_sparks_note_of_the_batch(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "7").write_text('v1\n{}\n{"t": {"0": 5}, "@cut": {"0": 99}}')
    assert cut_of_batch(tmp_path, 7) == 99
