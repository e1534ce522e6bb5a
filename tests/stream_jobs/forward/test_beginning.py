"""Which checkpoint forward goes on from."""

from pathlib import Path

import pytest

from shared.settings import JobSettings
from stream_jobs.forward import bucket_state
from stream_jobs.forward.beginning import wanted_of
from stream_jobs.forward.delivery import STAGE
from stream_jobs.guards import checkpoint_identity
from stream_jobs.guards.checkpoint_folder import checkpoint_of


def test_one_whose_state_is_laid_out_otherwise_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = JobSettings(kafka_bootstrap="127.0.0.1:9", state_dir=tmp_path)
    settings.checkpoints.mkdir()
    checkpoint = checkpoint_of(settings, STAGE)

    def why_not() -> str | None:
        commits = tmp_path / "checkpoints" / STAGE / "commits"
        commits.mkdir(parents=True, exist_ok=True)
        (commits / "0").touch()
        return checkpoint_identity.why_not(checkpoint, wanted_of(settings))

    # as versions wrote it that had a state for each kind
    checkpoint_identity.begin_anew(checkpoint, checkpoint_identity.identity(settings, {}))
    assert why_not()
    checkpoint_identity.begin_anew(checkpoint, wanted_of(settings))
    assert why_not() is None
    monkeypatch.setattr(bucket_state, "FORMAT", "another")
    assert why_not()
