"""The server of helpers and who asks it, as Spark's driver has them."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stream_jobs.spark_helpers import start
from tests.kafka_log import eventually
from tests.stream_jobs.supervision.test_worker_daemon import is_alive

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
PYTHON = str(ROOT / "stream_jobs" / "supervision" / "worker_python")
# only what is Spark's own is forked: so these are called as its modules are
MODULES = {
    "says": "import os, sys; print(sys.argv[1:], os.environ['OF'], os.getcwd(), os.getppid())",
    "ends": "import sys; print('its end', file=sys.stderr); sys.exit(7)",
    "breaks": "raise ValueError('a mistake')",
    "reads": "import sys; print(sys.stdin.read() + ' was read')",
    "waits": "import os, time; print(os.getpid(), flush=True); time.sleep(600)",
}
Ask = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    package = tmp_path / "modules"
    package.mkdir()
    for name, code in MODULES.items():
        (package / f"{name}.py").write_text(code)
    # Python looks for parts of a package wherever its path says
    extends = f"import pyspark.sql; pyspark.sql.__path__.append({str(package)!r})"
    (tmp_path / "sitecustomize.py").write_text(extends)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{tmp_path}")
    monkeypatch.setenv("HEADRACE_WORKERS_PATH", f"{ROOT}:{tmp_path}")
    monkeypatch.setenv("HEADRACE_WORKERS_PYTHON", sys.executable)
    asked = []

    def run(module: str, *words: str, **more: str) -> "subprocess.Popen[str]":
        asked.append(
            subprocess.Popen(
                [PYTHON, "-m", f"pyspark.sql.{module}", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, **more},
                cwd=tmp_path,
            )
        )
        return asked[-1]

    with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as sockets:
        start.start(Path(sockets))
        yield run
        start.end()
    for one in asked:
        one.kill()
        one.communicate()


def _server_pid() -> int:
    return start._servers[-1].pid


def test_a_helper_passes_for_the_process_that_was_started(ask: Ask, tmp_path: Path) -> None:
    said, _ = ask("says", "a word", "été", OF="mine").communicate(timeout=60)
    assert said == f"['a word', 'été'] mine {tmp_path} {_server_pid()}\n"
    said, _ = ask("says", OF="another").communicate(timeout=60)
    assert said.startswith("[] another ")
    assert len(list(Path(f"/proc/{_server_pid()}/task").iterdir())) == 1  # as it forks


def test_it_has_its_standard_input(ask: Ask) -> None:
    said, _ = ask("reads").communicate("all of it", timeout=60)
    assert said == "all of it was read\n"


def test_its_end_is_the_end_of_who_asked(ask: Ask) -> None:
    ends = ask("ends")
    assert (ends.communicate(timeout=60)[1], ends.returncode) == ("its end\n", 7)
    breaks = ask("breaks")
    said = breaks.communicate(timeout=60)[1]
    assert said.endswith("ValueError: a mistake\n")
    assert breaks.returncode == 1


def test_one_that_is_killed_is_told_as_a_shell_tells_it(ask: Ask) -> None:
    waits = ask("waits")
    os.kill(_pid_of(waits), signal.SIGKILL)
    assert waits.wait(30) == 128 + signal.SIGKILL


def test_where_the_server_ends_before_it_has_heard_so_does_who_asked(
    ask: Ask, tmp_path: Path
) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        asker = ask("says", OF="mine", HEADRACE_HELPERS=str(path))
        connection, _ = server.accept()
        connection.recv(1, socket.MSG_PEEK)
        time.sleep(0.2)  # all is told by then, and nothing of it was read
        connection.close()
    assert asker.communicate(timeout=60) == ("", "")
    assert asker.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_helper_ends_with_who_asked_for_it(ask: Ask, number: signal.Signals) -> None:
    waits, other = ask("waits"), ask("waits")
    helper, its = _pid_of(waits), _pid_of(other)
    waits.send_signal(number)
    eventually(lambda: not is_alive(helper), 10)
    assert is_alive(its)
    assert ask("says", OF="mine").wait(60) == 0


def test_all_end_with_the_driver_and_later_ones_are_python_itself(ask: Ask) -> None:
    waits = ask("waits")
    helper, server = _pid_of(waits), _server_pid()
    path = os.environ["HEADRACE_HELPERS"]
    start.end()
    assert not is_alive(server)
    eventually(lambda: not is_alive(helper), 10)
    waits.wait(10)
    for more in ({}, {"HEADRACE_HELPERS": path}):  # the latter: as the JVM still has it
        later = ask("says", OF="mine", **more)
        said, _ = later.communicate(timeout=60)
        assert said.split()[-1] == str(os.getpid())


def test_a_server_that_is_killed_leaves_no_helper(ask: Ask) -> None:
    waits = ask("waits")
    helper = _pid_of(waits)
    os.kill(_server_pid(), signal.SIGKILL)
    eventually(lambda: not is_alive(helper), 10)
    assert waits.wait(10) == 1


def test_whoever_says_nonsense_disturbs_nobody(ask: Ask) -> None:
    assert ask("says", OF="mine").wait(60) == 0
    for nonsense in (b"", b"\0", b"nonsense, and more of it"):
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(os.environ["HEADRACE_HELPERS"])
            other.sendall(nonsense)
    assert ask("says", OF="mine").wait(60) == 0


@pytest.mark.usefixtures("ask")
def test_other_modules_are_not_forked() -> None:
    other = subprocess.run(
        [PYTHON, "-c", "import os; print(os.getppid())"], capture_output=True, check=True
    )
    assert int(other.stdout) == os.getpid()


def _pid_of(waits: "subprocess.Popen[str]") -> int:
    assert waits.stdout is not None
    return int(waits.stdout.readline())
