import logging
from pathlib import Path

import pytest

from local_stack.machine.locks import InstanceLock
from shared.machine.private_folder import keep_private
from shared.settings import GatewaySettings, JobSettings, WrongSetting


def _mode(folder: Path) -> int:
    return folder.stat().st_mode & 0o7777


def test_a_new_folder_is_closed_and_a_wider_one_of_ours_is_tightened(tmp_path: Path) -> None:
    keep_private(tmp_path / "a" / "new")
    assert _mode(tmp_path / "a" / "new") == 0o700
    for mode in (0o755, 0o750, 0o701, 0o777):
        (tmp_path / "a").chmod(mode)
        keep_private(tmp_path / "a")
        assert _mode(tmp_path / "a") == 0o700


def test_a_folder_that_all_share_is_told_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o1777)
    with caplog.at_level(logging.WARNING):
        keep_private(tmp_path)
    assert _mode(tmp_path) == 0o1777
    assert "open to others" in caplog.text


def test_the_folders_of_launcher_gateway_and_jobs_are_closed(tmp_path: Path) -> None:
    state, checkpoints = tmp_path / "state", tmp_path / "elsewhere"
    for folder in (state, checkpoints):
        folder.mkdir(mode=0o755)
    lock = InstanceLock(state)
    assert lock.acquire() is None
    lock.release()
    assert _mode(state) == 0o700
    state.chmod(0o755)
    GatewaySettings(state_dir=state).make_folders()
    assert _mode(state) == 0o700
    JobSettings(state_dir=state, checkpoint_dir=checkpoints).make_folders()
    assert _mode(checkpoints) == 0o700


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        WrongSetting, match=r"HEADRACE_STATE_DIR='.+file/state' cannot be used: Not"
    ):
        GatewaySettings(state_dir=tmp_path / "file" / "state").make_folders()
