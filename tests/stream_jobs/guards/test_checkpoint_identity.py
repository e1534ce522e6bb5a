from pathlib import Path
from typing import Any

import pytest

from shared.settings import JobSettings
from stream_jobs.guards import checkpoint_identity

CODE = {"device": "abc", "door": "def"}


def _identity(code: dict[str, str] | None = None, **changes: Any) -> checkpoint_identity.Identity:
    return checkpoint_identity.identity(JobSettings(**changes), code or CODE)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoints" / "fold"
    checkpoint_identity.begin_anew(path, _identity())
    (path / "commits").mkdir(parents=True)
    (path / "commits" / "0").touch()
    return path


def test_a_checkpoint_that_fits_is_gone_on_from(checkpoint: Path) -> None:
    assert checkpoint_identity.why_not(checkpoint, _identity()) is None
    assert checkpoint_identity.why_not(checkpoint, _identity({"device": "abc"})) is None


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (_identity(state_partitions=5), "STATE_PARTITIONS_CHANGED from 2 to 5"),
        (_identity({**CODE, "door": "new"}), "FOLD_CHANGED of door"),
        (_identity({**CODE, "hall": "new"}), "FOLD_CHANGED of hall"),
        ({**_identity(), "format": 99}, "CHECKPOINT_OF_ANOTHER_VERSION"),
    ],
)
def test_one_that_does_not_is_told_by_name(
    checkpoint: Path, wanted: checkpoint_identity.Identity, says: str
) -> None:
    assert checkpoint_identity.why_not(checkpoint, wanted) == says


def test_one_without_a_finished_batch_is_as_good_as_lost(checkpoint: Path) -> None:
    (checkpoint / "commits" / "0").rename(checkpoint / "commits" / ".0.tmp")
    assert checkpoint_identity.why_not(checkpoint, _identity()) == "CHECKPOINT_LOST"
    checkpoint_identity.begin_anew(checkpoint, _identity())
    assert not checkpoint.exists()


@pytest.mark.parametrize("told", [None, b"", b"[]", b"{}"])
def test_one_that_does_not_say_what_it_was_made_for_is_not_trusted(
    checkpoint: Path, told: bytes | None
) -> None:
    file = checkpoint.with_name("fold.made-for.json")
    file.write_bytes(told) if told is not None else file.unlink()
    assert checkpoint_identity.why_not(checkpoint, _identity()) == "CHECKPOINT_OF_ANOTHER_VERSION"
