"""Notes beside a checkpoint in a real object store: Spark goes through Hadoop, we go past it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from shared.errors import CheckpointsAwayError
from shared.settings import JobSettings
from stream_jobs.guards import checkpoint_folder, checkpoint_identity
from stream_jobs.guards.checkpoint_folder import (
    CheckpointFolder,
    StoredFolder,
    checkpoint_of,
    names_in,
    remove,
    replace,
)
from stream_jobs.guards.checkpoint_offsets import (
    Ahead,
    ahead_at,
    begins_at,
    offsets_of,
    remember_ahead,
    remember_begin,
)
from tests.object_store import BUCKET, ObjectStore

BATCH = b'v1\n{"batchWatermarkMs":0}\n{"ingest.telemetry.v1":{"0":%d}}'


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with (
        ObjectStore(tmp_path_factory.mktemp("store")) as running,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in running.access.items():
            patch.setenv(name, value)
        checkpoint_folder._store.cache_clear()
        yield running
        checkpoint_folder._store.cache_clear()


@pytest.fixture(params=["stored", "folder"])
def fold(
    request: pytest.FixtureRequest, store: ObjectStore, tmp_path: Path
) -> Iterator[CheckpointFolder]:
    assert store.answers()
    place = f"s3a://{BUCKET}/one/prefix" if request.param == "stored" else None
    settings = JobSettings(checkpoint_store=place, checkpoint_dir=tmp_path)
    checkpoint = checkpoint_of(settings, "fold")
    yield checkpoint
    remove(checkpoint)


@pytest.mark.stack
def test_notes_are_what_was_written_last(fold: CheckpointFolder) -> None:
    assert begins_at(fold) is None
    remember_begin(fold, {"a": {0: 7}})
    remember_ahead(fold, {"a": {0: 9}})
    remember_ahead(fold, {"a": {0: 8, 1: 3}})
    assert begins_at(fold) == {"a": {0: 7}}
    assert ahead_at(fold) == Ahead(fold).now() == {"a": {0: 9, 1: 3}}


@pytest.mark.stack
def test_what_spark_has_planned_and_done_is_read(fold: CheckpointFolder) -> None:
    assert offsets_of(fold) == ({}, {})
    for batch in (9, 10):
        replace(fold / "offsets" / str(batch), BATCH % batch)
    replace(fold / "offsets" / ".11.crc", b"")
    replace(fold / "commits" / "9", b"v1\n{}")
    assert offsets_of(fold).done == {"ingest.telemetry.v1": {0: 9}}
    assert offsets_of(fold).planned == {"ingest.telemetry.v1": {0: 10}}


@pytest.mark.stack
def test_a_checkpoint_is_made_room_for_and_known_by_what_it_is_for(fold: CheckpointFolder) -> None:
    wanted = checkpoint_identity.identity(JobSettings(), {"device": "abc"})
    assert checkpoint_identity.why_not(fold, wanted) == "CHECKPOINT_LOST"
    replace(fold / "commits" / "3", b"v1\n{}")
    replace(fold / "state" / "0" / "1.delta", b"of other code")
    checkpoint_identity.begin_anew(fold, wanted)
    assert names_in(fold) == []
    replace(fold / "commits" / "0", b"v1\n{}")
    assert checkpoint_identity.why_not(fold, wanted) is None


@pytest.mark.stack
def test_a_store_that_is_away_is_not_taken_for_a_lost_checkpoint(store: ObjectStore) -> None:
    fold = StoredFolder(f"{BUCKET}/away/fold")
    wanted = checkpoint_identity.identity(JobSettings(), {})
    checkpoint_identity.begin_anew(fold, wanted)
    replace(fold / "commits" / "0", b"v1\n{}")
    store.kill()
    try:
        for ask in (
            lambda: checkpoint_identity.why_not(fold, wanted),
            lambda: offsets_of(fold),
            lambda: begins_at(fold),
            lambda: ahead_at(fold),
            lambda: remember_begin(fold, {}),
            lambda: remove(fold),
        ):
            with pytest.raises(CheckpointsAwayError, match=r"s3a://headrace-checkpoints/away/fold"):
                ask()
    finally:
        store.start()
    assert checkpoint_identity.why_not(fold, wanted) is None


@pytest.mark.parametrize(
    "place",
    [
        "/mnt/checkpoints",
        "s3://bucket/prefix",
        "s3a://",
        "s3a://UPPER/x",
        "s3a://b ucket/x",
        "hdfs://n/x",
    ],
)
def test_what_is_no_place_in_a_bucket_is_refused(place: str) -> None:
    with pytest.raises(ValidationError, match=r"s3a://BUCKET/PREFIX.*HEADRACE_CHECKPOINT_DIR"):
        JobSettings(checkpoint_store=place)


def test_a_place_in_a_bucket_has_a_folder_for_each_job() -> None:
    settings = JobSettings(checkpoint_store="s3a://bucket/a/b/")
    assert str(checkpoint_of(settings, "fold")) == "s3a://bucket/a/b/fold"
    beside = checkpoint_of(settings, "fold").with_name("fold.made-for.json")
    assert str(beside) == "s3a://bucket/a/b/fold.made-for.json"


@pytest.mark.stack
def test_a_bucket_that_is_not_there_is_no_lost_checkpoint(store: ObjectStore) -> None:
    assert store.answers()
    with pytest.raises(CheckpointsAwayError, match="there is no bucket elsewhere"):
        names_in(StoredFolder("elsewhere/fold"))
    assert names_in(StoredFolder(f"{BUCKET}/nothing/yet")) == []
