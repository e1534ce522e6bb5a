"""Which part of a folder is whose, where several processes of the same jobs work in it."""

import subprocess
import sys
from pathlib import Path

import pytest

from stream_jobs.guards.standby import application_of_its_own

_TAKES_ONE = """
import sys
from pathlib import Path
from stream_jobs.guards.standby import application_of_its_own
print(application_of_its_own("all", Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_part_is_removed_when_its_process_has_ended_and_not_before(tmp_path: Path) -> None:
    """Whatever number the process has: another container may not see it, or have the same one."""
    with subprocess.Popen(
        [sys.executable, "-c", _TAKES_ONE, str(tmp_path)],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        its = other.stdout.readline().strip()
        (tmp_path / its / "sockets").mkdir(parents=True)
        wakes = tmp_path / f"headrace-{its}.wakes"
        wakes.touch()
        own = application_of_its_own("all", tmp_path)
        assert own != its
        assert (tmp_path / its).exists()
        other.kill()
    (tmp_path / own).mkdir()
    third = application_of_its_own("all", tmp_path)
    assert not (tmp_path / its).exists()
    assert not wakes.exists()
    assert (tmp_path / own).exists()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {own, f"{own}.lock", f"{third}.lock"}
