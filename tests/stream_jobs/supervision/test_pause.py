"""What a job does that is to end, without Kafka and Spark."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException

from clients.kafka.offsets import LogOffsets
from shared.errors import AnotherCopyError, OtherLogError
from shared.published.job_orders import JobOrder, Wanted
from shared.settings import JobSettings
from stream_jobs.guards.same_topics import SameTopics
from stream_jobs.guards.single_copy import OneCopy
from stream_jobs.job_orders.feed import OrderFeed
from stream_jobs.supervision.driver_task import DriverTask
from stream_jobs.supervision.job_run import JobRun
from tests.stream_jobs.supervision.test_work import Query

AWAY = KafkaException(KafkaError(KafkaError._TRANSPORT))


class Beside(DriverTask):
    def __init__(self) -> None:
        self.is_at_work = True

    def stop(self) -> bool:
        self.is_at_work = False
        return True


class Copy:
    """The claim of this process."""

    def __init__(self) -> None:
        self.is_away = self.is_taken = False
        self.is_released = False
        self.committed: dict[str, int] = {}

    def hold(self) -> bool:
        if self.is_away:
            raise AWAY
        if self.is_taken:
            raise AnotherCopyError("taken")
        return True

    def end_lease(self) -> None: ...

    def publish(self, _offsets: object) -> None: ...

    def release(self) -> None:
        self.is_released = True


class Orders:
    def __init__(self) -> None:
        self.stands: JobOrder | None = None

    def of(self, _job: str) -> JobOrder | None:
        return self.stands

    def resumes(self, _job: str) -> int:
        return 0


class Offsets:
    topics = ("event.reading.v1",)

    def ranges(self) -> Any:
        raise AWAY

    committed = partition_counts = ranges


class OtherTopics:
    """So that no other query begins."""

    def check(self, _committed: object) -> Any:
        raise OtherLogError("TOPIC_GONE", {})

    def check_counts(self, now_s: float) -> None: ...


class Job:
    def __init__(self, folder: Path, query: Query) -> None:
        self.beside, self.copy, self.orders = Beside(), Copy(), Orders()
        settings = JobSettings(kafka_bootstrap="127.0.0.1:9", state_dir=folder)
        self.checkpoint = settings.checkpoints / "fold"
        (self.checkpoint / "commits").mkdir(parents=True)
        self.run = JobRun(
            "fold",
            cast(Any, None),
            cast(Any, SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=print))),
            settings,
            cast(LogOffsets, Offsets()),
            cast(OneCopy, self.copy),
            self.beside,
            cast(OrderFeed, self.orders),
        )
        self.run._topics = cast(SameTopics, OtherTopics())
        self.run._work.begin(query)  # type: ignore[arg-type]

    def order(self, wanted: Wanted) -> None:
        self.orders.stands = JobOrder(order=wanted, by="ann", at_ms=1)

    @property
    def said(self) -> str:
        return self.run._state


def test_a_pause_ends_what_it_does_beside_its_query_too(tmp_path: Path) -> None:
    job = Job(tmp_path, Query(times_out=0))
    job.order(Wanted.PAUSE)
    job.run.tick()
    assert (job.said, job.beside.is_at_work) == ("paused", False)


def test_it_says_that_it_pauses_when_its_last_batch_has_ended(tmp_path: Path) -> None:
    query = Query(times_out=3)
    job = Job(tmp_path, query)
    job.order(Wanted.PAUSE)
    for _ in range(3):
        job.run.tick()
        assert job.said == "restarting"
    job.run.tick()
    job.run.tick()
    assert (job.said, query.stops) == ("paused", 4)


def test_no_checkpoint_is_removed_under_a_query_that_lives(tmp_path: Path) -> None:
    query = Query(times_out=2)
    job = Job(tmp_path, query)
    job.order(Wanted.REBUILD)
    for _ in range(2):
        job.run.tick()
        assert job.checkpoint.exists()
    job.copy.is_away = True
    job.run.tick()
    assert job.checkpoint.exists()  # by now another one may have it
    job.copy.is_away = False
    job.run.tick()
    assert not job.checkpoint.exists()


def test_its_claim_is_let_go_when_its_query_has_ended(tmp_path: Path) -> None:
    job = Job(tmp_path, Query(times_out=1))
    job.run.stop()
    assert job.copy.is_released


def test_its_claim_runs_out_where_its_query_goes_on(tmp_path: Path) -> None:
    job = Job(tmp_path, Query(times_out=5))
    job.run.stop()
    assert not job.copy.is_released


def test_one_that_has_given_way_begins_nothing(tmp_path: Path) -> None:
    """It finds that as it looks whether it may make its state anew."""
    job = Job(tmp_path, Query(times_out=0))
    job.run._hold()
    job.order(Wanted.REBUILD)
    job.copy.is_taken = True
    job.run._hold_at_s = float("inf")
    begun = []
    job.run._begin = begun.append  # type: ignore[method-assign]
    job.run.tick()
    assert (job.run.other_copy, job.checkpoint.exists(), begun) == ("taken", True, [])


def test_one_that_has_failed_stays_so_while_its_query_ends(tmp_path: Path) -> None:
    job = Job(tmp_path, Query(times_out=3))
    job.run.say("failed", "TOPIC_WIDENED")
    job.run._work.end_query()
    for _ in range(2):
        job.run.tick()
        assert job.said == "failed"
