from pathlib import Path

import pytest

from local_stack.machine.paths import CHECKOUT
from local_stack.verbs import test as checks


@pytest.mark.slow
def test_the_tests_of_a_domain_elsewhere_run_without_the_checks_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_passes", lambda *_: pytest.fail("a check about Headrace ran"))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    test = tmp_path / "test_doors.py"
    test.write_text("def test_it(): assert True\ndef test_that(): assert False")
    assert checks.run_checks_and_tests([f"{test}::test_it"]) == 0
    assert checks.run_checks_and_tests([str(test)]) == 1
    assert not (tmp_path / ".pytest_cache").exists()


@pytest.mark.slow
def test_a_check_that_fails_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(checks, "_pytest", lambda *arguments: asked.append(arguments) or 0)
    monkeypatch.setattr(checks, "_passes", lambda name, _command: name != "mypy")
    arguments = ["-m", "not stack", str(CHECKOUT / "tests")]
    assert checks.run_checks_and_tests(arguments) == 1
    assert asked == [tuple(arguments)]
