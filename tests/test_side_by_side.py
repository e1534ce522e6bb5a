import sys
from pathlib import Path

import pytest

from tests import side_by_side
from tests.side_by_side import failed, run_side_by_side, total

PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
PASSES, FAILS = "def test_it(): pass\n", "def test_it(): assert False\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("beside", "others", "code", "last_line"),
    [
        (PASSES, PASSES, 0, "2 passed in "),
        (PASSES, FAILS, 1, "1 failed, 1 passed in "),
        (FAILS, PASSES, 1, "1 failed, 1 passed in "),
        ("", PASSES, 5, "1 passed, 1 run broken off in "),
    ],
)
def test_both_runs_count(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    beside: str,
    others: str,
    code: int,
    last_line: str,
) -> None:
    for name, content in (("beside", beside), ("others", others)):
        (tmp_path / f"test_{name}.py").write_text(content)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(side_by_side, "CHECKOUT", tmp_path)
    monkeypatch.setattr(side_by_side, "PATIENT", ("test_beside.py",))
    monkeypatch.setattr(side_by_side, "OTHERS", (".", "--ignore=test_beside.py"))
    assert run_side_by_side(PYTEST) == code
    assert capfd.readouterr().out.splitlines()[-1].startswith(last_line)


def test_who_failed_is_said_again_at_the_end() -> None:
    outputs = [
        "..\nFAILED a.py::b[FAILED] - c\nERROR d.py::e\n1 failed",
        "FAILED f.py::g\n",
    ]
    assert failed(outputs) == ["FAILED a.py::b[FAILED] - c", "ERROR d.py::e", "FAILED f.py::g"]


def test_the_sum_is_of_every_kind_that_pytest_counts() -> None:
    outputs = [
        "1 passed in 1.00s\n..\n2 failed, 20 passed, 1 skipped, 1 error in 62.29s (0:01:02)\n",
        "FAILED a - 9 passed\n3 failed, 4 passed, 2 errors in 5.00s\n%3|FAIL|30007/bootstrap",
    ]
    assert total(outputs, 63.5) == "3 error, 5 failed, 24 passed, 1 skipped in 63.50s"


def test_a_run_without_a_last_line_is_told() -> None:
    assert total(["1 passed in 0.10s", "Killed"], 2) == "1 passed, 1 run broken off in 2.00s"
