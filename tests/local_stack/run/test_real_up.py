"""`./headrace up` itself: up again after Ctrl-C, all of it on one state folder.

HEADRACE_TEST_STARTS=10 makes it long. How it is killed under load is in tests/faults/whole.
"""

import os
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.end_to_end.launcher import Launcher, state_of
from tests.kafka_log import eventually

pytestmark = pytest.mark.stack

STARTS = int(os.environ.get("HEADRACE_TEST_STARTS", "2"))
INTERRUPTED_AT_S = (0.4, 1.0, 2.0, 5.0)
WITNESS = "device-0999"
WITHIN_S = 600.0  # many times what it takes where nothing else runs


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    launcher = Launcher(tmp_path_factory.mktemp("up") / "state")
    yield launcher
    launcher.end()


def test_up_again_and_again_after_ctrl_c(launcher: Launcher) -> None:
    for number in range(1, STARTS + 1):
        print(f"start {number}: {launcher.start():.1f} s")
        _post_reading(launcher)
        eventually(lambda count=number: _count(launcher) == count, WITHIN_S)
        if number == STARTS:
            launcher.close_terminal()
        else:
            launcher.press_ctrl_c()
            assert "Headrace has stopped" in launcher.said, launcher.said
        launcher.assert_nothing_is_left()
    assert "Traceback" not in launcher.said


def test_ctrl_c_at_any_moment_of_a_start_leaves_nothing(launcher: Launcher) -> None:
    for moment_s in INTERRUPTED_AT_S:
        launcher.begin()
        time.sleep(moment_s)
        launcher.press_ctrl_c()
        assert "Traceback" not in launcher.said, launcher.said
        launcher.assert_nothing_is_left()


def test_ctrl_c_twice_stops_at_once_and_leaves_nothing(launcher: Launcher) -> None:
    launcher.begin()
    eventually(lambda: "Kafka is up" in launcher.said, WITHIN_S)
    launcher.press_ctrl_c(times=2)
    assert "Traceback" not in launcher.said, launcher.said
    eventually(lambda: not launcher.processes())


def _post_reading(launcher: Launcher) -> None:
    answer = httpx.post(
        f"{launcher.gateway_url}/v1/telemetry/{WITNESS}", content=b'{"value": 1}', timeout=20
    )
    assert answer.status_code == 202, answer.text


def _count(launcher: Launcher) -> int | None:
    state = state_of(launcher.gateway_url, WITNESS)
    return state["count"] if state else None
