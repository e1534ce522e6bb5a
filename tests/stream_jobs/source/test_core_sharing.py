import struct
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from stream_jobs.source import core_sharing
from stream_jobs.source.core_sharing import Turn

_ENDLESS_S = 3600.0


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(core_sharing, "_TURN_S_MAX", _ENDLESS_S)
    return tmp_path / "made" / "turns"


def _waits(pool: ThreadPoolExecutor, turn: Turn) -> "Future[None]":
    waiting = pool.submit(turn.wait)
    with pytest.raises(TimeoutError):
        waiting.result(0.1)
    return waiting


def test_a_job_waits_until_the_others_turn_ends(file: Path) -> None:
    one, other = Turn(file), Turn(file)
    one.wait()
    with ThreadPoolExecutor() as pool:
        waiting = _waits(pool, other)
        one.end()
        waiting.result(20)
        again = _waits(pool, one)
        other.end()
        again.result(20)


@pytest.mark.slow
def test_whoever_has_waited_is_before_whoever_had_the_last_turn(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_sharing, "_LOOK_EVERY_S", 0.1)  # a busy machine must not decide it
    one, other = Turn(file), Turn(file)
    had: list[str] = []

    def has_some(turn: Turn, name: str) -> None:
        for _ in range(3):
            turn.wait()
            had.append(name)
            time.sleep(0.3)  # the other one waits by now
            turn.end()

    with ThreadPoolExecutor() as pool:
        list(pool.map(has_some, (one, other), ("one", "other")))
    assert had in (["one", "other"] * 3, ["other", "one"] * 3)


def test_a_turn_that_takes_too_long_is_waited_for_no_more(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Turn(file), Turn(file)
    one.wait()
    time.sleep(0.2)
    monkeypatch.setattr(core_sharing, "_TURN_S_MAX", 0.2)
    other.wait()
    other.end()  # what it has not got
    monkeypatch.setattr(core_sharing, "_TURN_S_MAX", _ENDLESS_S)
    with ThreadPoolExecutor() as pool:
        waiting = _waits(pool, other)
        one.end()
        waiting.result(20)


@pytest.mark.slow
def test_a_process_that_ends_has_no_turn_any_more(file: Path) -> None:
    turn = (
        "import sys, time; from pathlib import Path\n"
        "from stream_jobs.source.core_sharing import Turn\n"
        "turn = Turn(Path(sys.argv[1])); turn.wait(); print('has it', flush=True); time.sleep(3600)"
    )
    with subprocess.Popen([sys.executable, "-c", turn, file], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"has it\n"
        with ThreadPoolExecutor() as pool:
            waiting = _waits(pool, Turn(file))
            process.kill()
            waiting.result(20)


def test_a_turn_of_before_the_machines_start_has_not_just_ended(file: Path) -> None:
    one, other = Turn(file), Turn(file)
    since_s = time.monotonic()
    one.wait()
    one.end()
    assert other.another_has_ended_since(since_s)
    assert not one.another_has_ended_since(since_s)
    file.write_bytes(struct.pack("dd", since_s, since_s + _ENDLESS_S))
    assert not other.another_has_ended_since(since_s)
