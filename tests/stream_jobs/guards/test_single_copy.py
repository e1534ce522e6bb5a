"""Who of several copies of a job works: the claims alone, then real processes on a real broker."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from clients.kafka.create_topics import ensure_topics
from clients.kafka.offsets import Committed, LogOffsets
from clients.kafka.records import Offsets
from local_stack.run.stack import Stack
from shared.consumer_groups import of_job
from shared.errors import AnotherCopyError, LeaseEndedError, StoreAwayError
from shared.settings import JobSettings
from stream_jobs.guards import lease, single_copy
from stream_jobs.guards.checkpoint_folder import StoredFolder
from stream_jobs.guards.claim import Claim, claim_from
from stream_jobs.guards.single_copy import OneCopy
from stream_jobs.guards.standby import wait_for_turn
from stream_jobs.persist.advisory_lock import PersistLock
from tests.kafka_log import eventually, read_topic
from tests.races import DEVICES


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


class Broker:
    """What it keeps of a group."""

    def __init__(self) -> None:
        self.offsets: Offsets = {}
        self.notes: dict[tuple[str, int], str] = {}

    def committed(self) -> Committed:
        offsets = self.offsets or {"event.reading.v1": {0: 0, 1: 5}}
        return Committed(deepcopy(offsets), set(self.notes.values()))

    def commit(self, offsets: Offsets, note: str) -> None:
        for topic, partitions in offsets.items():
            self.offsets.setdefault(topic, {}).update(partitions)
            self.notes.update({(topic, partition): note for partition in partitions})

    def claim(self) -> Claim:
        (note,) = set(self.notes.values())
        claim = claim_from(note)
        assert claim is not None
        return claim


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(single_copy, "now_s", clock)
    monkeypatch.setattr(lease, "now_s", clock)
    monkeypatch.setenv("HEADRACE_LEASES", "")  # whatever a copy sets is gone after the test
    return clock


@pytest.fixture
def broker() -> Broker:
    return Broker()


def _copy(broker: Broker, folder: Path, query_id: str = "") -> OneCopy:
    if query_id:
        (folder / "fold").mkdir(parents=True)
        (folder / "fold" / "metadata").write_text(json.dumps({"id": query_id}))
    return OneCopy("fold", broker, folder)


def test_a_claim_is_taken_at_once_where_there_is_none_and_is_found_beside_the_offsets(
    broker: Broker, tmp_path: Path
) -> None:
    copy = _copy(broker, tmp_path)
    assert copy.hold()
    assert broker.offsets == {"event.reading.v1": {0: 0, 1: 5}}
    copy.publish({"event.reading.v1": {1: 9}})
    assert broker.offsets == {"event.reading.v1": {0: 0, 1: 9}}
    assert broker.claim().run == copy._run


def test_a_second_copy_of_a_checkpoint_does_not_start(broker: Broker, tmp_path: Path) -> None:
    first = _copy(broker, tmp_path)
    with pytest.raises(AnotherCopyError, match=rf"ANOTHER_COPY: .*process {os.getpid()} on "):
        _copy(broker, tmp_path)
    os.close(first._lock)
    assert _copy(broker, tmp_path)


def test_a_copy_with_another_checkpoint_sees_that_the_first_is_alive(
    broker: Broker, tmp_path: Path
) -> None:
    first, second = _copy(broker, tmp_path / "1"), _copy(broker, tmp_path / "2")
    assert first.hold()
    second.watch()
    assert first.hold()
    with pytest.raises(AnotherCopyError, match="already runs on"):
        second.hold()


class Patience(threading.Event):
    """Whoever waits for it lets the clock go on, and lets the others do something meanwhile."""

    def __init__(self, clock: Clock, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._clock, self._meanwhile = clock, meanwhile

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.now_s += timeout or 0.0
        self._meanwhile()
        return self.is_set()


def test_who_stands_by_on_another_machine_waits_for_as_long_as_the_first_is_alive(
    broker: Broker, clock: Clock, tmp_path: Path
) -> None:
    first = _copy(broker, tmp_path / "1")
    assert first.hold()
    beats = 100

    def beat() -> None:
        nonlocal beats
        if beats:
            beats -= 1
            assert first.hold()

    settings = JobSettings(state_dir=tmp_path / "2")
    copies = wait_for_turn({"fold": broker}, settings, "second", Patience(clock, beat))
    assert not beats  # it has waited for as long as there were any
    assert clock.now_s - 1_000.0 > single_copy.TAKE_OVER_AFTER_S
    assert copies["fold"].hold()
    assert broker.claim().run == "second"


def test_who_stands_by_on_another_machine_begins_at_once_after_an_orderly_end(
    broker: Broker, clock: Clock, tmp_path: Path
) -> None:
    first = _copy(broker, tmp_path / "1")
    assert first.hold()
    settings = JobSettings(state_dir=tmp_path / "2")
    patience = Patience(clock, first.release)
    assert wait_for_turn({"fold": broker}, settings, "second", patience)["fold"].hold()
    assert clock.now_s - 1_000.0 < single_copy.TAKE_OVER_AFTER_S / 2


def test_who_stands_by_waits_while_kafka_is_away(
    broker: Broker, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> Committed:
        raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))

    monkeypatch.setattr(broker, "committed", away)
    patience = Patience(clock, lambda: clock.now_s > 2_000.0 and patience.set())
    settings = JobSettings(state_dir=tmp_path)
    assert wait_for_turn({"fold": broker}, settings, "second", patience) == {}
    assert clock.now_s > 2_000.0


def test_a_silent_copy_is_replaced_after_a_while_and_has_to_go_when_it_wakes(
    broker: Broker, clock: Clock, tmp_path: Path
) -> None:
    first, second = _copy(broker, tmp_path / "1"), _copy(broker, tmp_path / "2")
    assert first.hold()
    assert not second.hold()
    clock.now_s += single_copy.TAKE_OVER_AFTER_S - 1
    assert not second.hold()
    clock.now_s += 2
    assert second.hold()
    with pytest.raises(AnotherCopyError):
        first.hold()


def test_whoever_stands_by_on_another_machine_sees_that_the_first_is_alive_and_when_not(
    broker: Broker, clock: Clock, tmp_path: Path
) -> None:
    first, second = _copy(broker, tmp_path / "1"), _copy(broker, tmp_path / "2")
    assert second.watch()
    assert first.hold()
    assert not second.watch()
    assert first.hold()
    with pytest.raises(AnotherCopyError):
        second.watch()
    assert not second.watch()  # anew
    clock.now_s += single_copy.TAKE_OVER_AFTER_S - 1
    assert not second.watch()
    clock.now_s += 2
    assert second.watch()
    assert second.hold()


def test_with_checkpoints_in_a_store_a_claim_counts_when_it_is_found_again(
    broker: Broker, tmp_path: Path
) -> None:
    """No lock is between two machines that have read the same claim."""
    stored = StoredFolder("bucket/fold")
    one, other = (OneCopy("fold", broker, tmp_path / it, checkpoint=stored) for it in "12")
    seen = broker.committed()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker, "committed", lambda: seen)  # before either has written
        assert not one.hold()
        assert not other.hold()
    held = []
    for copy in (one, other, one, other):
        try:
            if copy.hold():
                held.append(copy)
        except AnotherCopyError:
            assert copy not in held
    assert len(set(held)) == 1


def test_a_late_word_of_an_earlier_copy_is_put_right(broker: Broker, tmp_path: Path) -> None:
    first, second = _copy(broker, tmp_path / "1"), _copy(broker, tmp_path / "2")
    assert first.hold()
    first.release()
    assert second.hold()
    second.publish({"event.reading.v1": {0: 100}})
    first.publish({"event.reading.v1": {0: 3}})  # it was on its way when its process was frozen
    assert second.hold()
    assert broker.offsets["event.reading.v1"][0] == 100
    with pytest.raises(AnotherCopyError):
        first.hold()


def test_of_two_that_take_the_claim_at_once_one_stays(broker: Broker, tmp_path: Path) -> None:
    copies = [_copy(broker, tmp_path / str(number)) for number in range(2)]
    for copy in copies:  # each before it has seen the other's
        copy._mine = Claim(1, copy._run)
        copy._offsets = {"event.reading.v1": {0: 0}}
    survivors = []
    for copy in [*copies, *copies]:
        try:
            survivors.append(copy.hold() and copy)
        except AnotherCopyError:
            survivors = [one for one in survivors if one is not copy]
    assert len(set(survivors)) == 1


def test_whoever_has_the_same_checkpoint_goes_on_at_once(broker: Broker, tmp_path: Path) -> None:
    first = _copy(broker, tmp_path, "query-1")
    assert first.hold()
    os.close(first._lock)  # as its process does when it is killed
    assert _copy(broker, tmp_path).hold()


def test_a_checkpoint_that_is_lost_makes_a_restart_wait_and_see(
    broker: Broker, tmp_path: Path
) -> None:
    assert _copy(broker, tmp_path / "1", "query-1").hold()
    assert not _copy(broker, tmp_path / "2", "query-2").hold()


def test_what_another_tool_wrote_beside_the_offsets_is_no_claim(
    broker: Broker, tmp_path: Path
) -> None:
    broker.commit({"event.reading.v1": {0: 3}}, "set by hand")
    copy = _copy(broker, tmp_path)
    assert copy.hold()
    assert broker.claim().epoch == 1


def test_work_ends_with_the_lease_and_goes_on_with_a_new_one(
    broker: Broker, clock: Clock, tmp_path: Path
) -> None:
    copy = _copy(broker, tmp_path)
    lease.check_lease("fold")  # nothing is held yet: it only warms up
    copy.hold()
    clock.now_s += lease.LEASE_S - 0.1
    lease.check_lease("fold")
    clock.now_s += 0.2
    with pytest.raises(LeaseEndedError, match="not confirmed for 15 s"):
        lease.check_lease("fold")
    copy.hold()
    lease.check_lease("fold")


def test_what_a_driver_before_has_left_at_work_ends_when_the_next_one_begins(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _copy(broker, tmp_path)
    first.hold()
    os.close(first._lock)  # as its process does when it is killed
    of_first = os.environ["HEADRACE_LEASES"]
    monkeypatch.setattr(lease, "_DRIVER", "f" * 32)
    second = _copy(broker, tmp_path)
    for hold in (lambda: None, second.hold):  # it warms up, and works
        hold()
        lease.check_lease("fold")
        with monkeypatch.context() as worker_of_first:
            worker_of_first.setenv("HEADRACE_LEASES", of_first)
            with pytest.raises(LeaseEndedError, match="another process has begun"):
                lease.check_lease("fold")


def test_nothing_is_done_any_more_when_the_lease_is_ended(broker: Broker, tmp_path: Path) -> None:
    copy = _copy(broker, tmp_path)
    copy.end_lease()
    lease.check_lease("fold")  # it never held it
    copy.hold()
    copy.end_lease()
    with pytest.raises(LeaseEndedError):
        lease.check_lease("fold")


def test_a_lease_ends_before_anyone_takes_over() -> None:
    assert lease.LEASE_S < single_copy.TAKE_OVER_AFTER_S


@pytest.mark.stack
def test_one_persist_has_the_database_until_its_connection_ends(postgres_url: str) -> None:
    clock = Clock()
    first, second = PersistLock(postgres_url), PersistLock(postgres_url, clock)
    first.hold()
    first.hold()
    with pytest.raises(StoreAwayError, match="another persist"):
        second.hold()
    first.close()
    second.hold()
    with pytest.raises(StoreAwayError):
        first.hold()
    clock.now_s += 60
    third = PersistLock(postgres_url, clock)
    with pytest.raises(StoreAwayError):
        third.hold()
    clock.now_s += 16
    with pytest.raises(AnotherCopyError, match="advisory lock"):
        third.hold()
    second.close()


class Fold:
    """A process of its own group, which can be frozen whole."""

    def __init__(self, settings: JobSettings, log: Path, environment: dict[str, str]) -> None:
        self.log = log
        variables = {
            "HEADRACE_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
            "HEADRACE_STATE_DIR": str(settings.state_dir),
        }
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "stream_jobs", "fold"],
                env={**os.environ, **environment, **variables},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)

    def end(self) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
            self.process.wait()


def _versions(settings: JobSettings) -> list[int]:
    records = read_topic(settings.kafka_bootstrap, "state.device.v1")
    return [json.loads(record.value or b"")["_meta"]["version"] for record in records]


@pytest.mark.stack
def test_a_frozen_copy_that_wakes_while_another_works_stops_before_it_writes(
    empty_kafka: Stack, tmp_path: Path, spark_environment: dict[str, str]
) -> None:
    settings = [
        JobSettings(kafka_bootstrap=empty_kafka.kafka_bootstrap, state_dir=tmp_path / name)
        for name in ("first", "second")
    ]
    ensure_topics(DEVICES.flow, settings[0])
    events = [DEVICES.event(number, second=False) for number in range(3_000)]
    folds: list[Any] = []
    try:
        folds.append(Fold(settings[0], tmp_path / "first.log", spark_environment))
        DEVICES.write(empty_kafka.kafka_bootstrap, events[:1_000])
        eventually(lambda: len(_versions(settings[0])) == 1_000, within_s=240)
        held = subprocess.run(
            [sys.executable, "-m", "stream_jobs", "fold"],
            env={**os.environ, "HEADRACE_KAFKA_BOOTSTRAP": empty_kafka.kafka_bootstrap,
                 "HEADRACE_STATE_DIR": str(tmp_path / "first")},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert held.returncode == 2
        assert held.stderr.startswith("ANOTHER_COPY: fold already runs on this checkpoint")
        # its driver stands still; Spark and its workers do not, and work no longer than the lease
        os.kill(folds[0].process.pid, signal.SIGSTOP)
        folds.append(Fold(settings[1], tmp_path / "second.log", spark_environment))
        # it begins with what the first one has published
        eventually(lambda: "fold is running" in folds[1].log.read_text(), within_s=240)
        DEVICES.write(empty_kafka.kafka_bootstrap, events[1_000:2_000])
        eventually(lambda: len(_versions(settings[0])) >= 2_000, within_s=240)
        folds[0].signal(signal.SIGSTOP)  # now all of it
        DEVICES.write(empty_kafka.kafka_bootstrap, events[2_000:])
        folds[0].signal(signal.SIGCONT)
        assert folds[0].process.wait(120) == 2
        assert "ANOTHER_COPY: fold already runs on" in folds[0].log.read_text()
        eventually(lambda: len(_versions(settings[0])) >= 3_000, within_s=240)
        assert len(_versions(settings[0])) == 3_000  # each of the second's, none of the first's
        kafka, topics = settings[0].kafka, DEVICES.flow.folded_topics
        claim = claim_from(*LogOffsets(kafka, of_job("fold"), topics).committed().notes)
        assert claim is not None and claim.epoch == 2
    finally:
        for fold in folds:
            fold.end()
