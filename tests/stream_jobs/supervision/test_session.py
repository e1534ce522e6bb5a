import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from stream_jobs.supervision.session import _sockets_in, _talks_by, tidy_up

# as Spark waits for a file that never comes, or comes
_OPENS = """
import subprocess, sys, time
from pyspark.core import context
from shared.settings import JobSettings
from stream_jobs.supervision import session

session._STILL_S = 0.5
seconds, jvm = float(sys.argv[1]), sys.argv[2]

def launch(*_):
    subprocess.Popen([sys.executable, "-c", jvm])
    time.sleep(seconds)
    sys.exit("it is up")

context.launch_gateway = launch
session.open_session(JobSettings(), "starts")
"""
_WAITS, _WORKS = "import time; time.sleep(20)", "while True: pass"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seconds", "jvm", "told"),
    [(20, _WAITS, b"has done nothing for 0.5 s"), (3, _WORKS, b"it is up")],
)
def test_a_jvm_that_has_stopped_on_its_way_up_ends_the_process(
    tmp_path: Path, seconds: float, jvm: str, told: bytes
) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", _OPENS, str(seconds), jvm],
        env={**os.environ, "HEADRACE_STATE_DIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        process_group=0,
    )
    try:
        assert run.stderr is not None
        said = b""
        while told not in said:
            line = run.stderr.readline()
            assert line, said
            said += line
        assert run.wait(20) == 1
    finally:
        os.killpg(run.pid, 9)
        run.stderr.close()
        run.wait()


def test_sockets_lie_where_their_path_is_short_enough_and_nobody_else_gets_at_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as temporary:
        monkeypatch.setattr(tempfile, "tempdir", temporary)
        scratch = Path(temporary)
        near, far = scratch, scratch / ("x" * 80)
        far.mkdir()
        found = [_folder(where) for where in (near, far)]
        assert found[0] == scratch / "sockets"
        assert found[1].parent == scratch
        for folder in found:
            assert folder.stat().st_mode & 0o777 == 0o700
            # with a slash, a dot, a UUID and .sock
            assert len(str(folder)) + 43 < 108
        (found[1] / "left.sock").touch()  # by one that was killed
        assert _folder(far) == found[1]
        assert not list(found[1].iterdir())
        tidy_up()
        assert not any(folder.exists() for folder in found)


def test_where_there_is_no_folder_for_sockets_the_jobs_talk_by_tcp(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/tmp/" + "x" * 80)
    assert _sockets_in(Path("/tmp/" + "y" * 80)) is None
    assert _sockets_in(Path("/missing")) is None
    assert _talks_by(None) == {}


def _folder(scratch: Path) -> Path:
    found = _sockets_in(scratch)
    assert found is not None
    assert _talks_by(found)["spark.python.unix.domain.socket.dir"] == str(found)
    return found
