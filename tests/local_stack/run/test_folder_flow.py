import json
from pathlib import Path

import pytest

from local_stack.run.folder_flow import refuse_another_flow
from local_stack.terminal.errors import StackError
from stream_jobs.guards import checkpoint_folder


def of_another_flow(checkpoints: Path) -> None:
    offsets = checkpoints / "enrich" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("v1\n{}\n" + json.dumps({"ingest.door.v1": {"0": 1}}))


def test_checkpoints_of_another_flow_are_removed_with_the_folder(tmp_path: Path) -> None:
    of_another_flow(tmp_path / "checkpoints")
    with pytest.raises(StackError, match="belong to another flow") as error:
        refuse_another_flow(tmp_path, {})
    assert error.value.fix.endswith(f"./headrace reset --yes --state-dir {tmp_path}")


def test_checkpoints_elsewhere_are_named_because_a_reset_leaves_them(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    of_another_flow(elsewhere)
    with pytest.raises(StackError, match="belong to another flow") as error:
        refuse_another_flow(tmp_path / "state", {"HEADRACE_CHECKPOINT_DIR": str(elsewhere)})
    assert "HEADRACE_CHECKPOINT_DIR" in error.value.fix
    assert f"rm -r {elsewhere}" in error.value.fix


@pytest.mark.slow
def test_a_store_of_checkpoints_that_is_away_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    checkpoint_folder._store.cache_clear()
    with pytest.raises(StackError, match=r"s3a://bucket/prefix/.* cannot be reached") as error:
        refuse_another_flow(tmp_path, {"HEADRACE_CHECKPOINT_STORE": "s3a://bucket/prefix"})
    checkpoint_folder._store.cache_clear()
    assert "AWS_ENDPOINT_URL" in error.value.fix
