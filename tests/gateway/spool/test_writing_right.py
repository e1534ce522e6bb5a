"""Who may write to a topic, and who wants it for himself."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.spool.writing_right import SoleRight, WritingRight


@pytest.fixture
def writers(tmp_path: Path) -> Iterator[tuple[WritingRight, WritingRight]]:
    both = WritingRight(tmp_path), WritingRight(tmp_path)
    yield both
    for one in both:
        one.close()


def _at_once() -> bool:
    return False


def test_many_write_until_one_wants_it_and_again_when_that_has_ended(
    tmp_path: Path, writers: tuple[WritingRight, WritingRight]
) -> None:
    one, other = writers
    assert one.take()
    assert other.take()
    with SoleRight(tmp_path) as sole:
        assert sole.somebody_writes()
        assert not one.is_wanted()
        sole.ask()
        assert one.is_wanted()
        one.give_back()
        assert not sole.take(_at_once)
        other.give_back()
        assert sole.take(_at_once)
        assert not one.take()
        assert not one.is_mine
    assert one.take()


def test_who_comes_while_it_is_wanted_does_not_begin(
    tmp_path: Path, writers: tuple[WritingRight, WritingRight]
) -> None:
    with SoleRight(tmp_path) as sole:
        assert not sole.somebody_writes()
        sole.ask()
        assert not writers[0].take()


def test_it_waits_for_who_gives_it_back_later(
    tmp_path: Path, writers: tuple[WritingRight, WritingRight]
) -> None:
    writers[0].take()
    with SoleRight(tmp_path) as sole:
        sole.ask()
        later = threading.Timer(0.2, writers[0].give_back)
        later.start()
        assert sole.take(lambda: True)
        later.join()


HOLDER = """
import sys, time
from pathlib import Path
from gateway.spool.writing_right import SoleRight, WritingRight
if sys.argv[2] == "sole":
    right = SoleRight(Path(sys.argv[1]))
    right.ask()
    assert right.take(lambda: False)
else:
    right = WritingRight(Path(sys.argv[1]))
    assert right.take()
print("has it", flush=True)
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("side", ["sole", "writer"])
def test_a_process_that_is_killed_has_it_no_more(tmp_path: Path, side: str) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path), side]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "has it\n"
        mine = WritingRight(tmp_path)
        with SoleRight(tmp_path) as sole:
            assert mine.is_wanted() if side == "sole" else sole.somebody_writes()
            os.kill(process.pid, signal.SIGKILL)
            process.wait(10)
            until_s = time.monotonic() + 5
            while mine.is_wanted() or sole.somebody_writes():
                assert time.monotonic() < until_s
        assert mine.take()
        mine.close()
