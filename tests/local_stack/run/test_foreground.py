"""How `up` ends, without a stack."""

from pathlib import Path
from typing import Self

import pytest

from local_stack.run import foreground


class Stack:
    """Its start fails, after a signal or without one."""

    is_asked = False

    def __init__(self, state_dir: Path, **_options: object) -> None:
        self.state_dir = state_dir
        self.is_to_stop = False

    def reserve(self) -> None: ...

    def __enter__(self) -> Self:
        self.is_to_stop = self.is_asked
        raise ImportError("half a module")

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(foreground, "Stack", Stack)
    monkeypatch.setattr(foreground, "say", said.append)
    for name in ("check_settings", "preflight", "_stop_on_signals"):
        monkeypatch.setattr(foreground, name, lambda *_: None)
    return said


def test_what_fails_once_it_is_to_stop_is_told_and_it_has_stopped(
    monkeypatch: pytest.MonkeyPatch, said: list[str], tmp_path: Path
) -> None:
    """Foreign code makes another error of a signal's exception."""
    monkeypatch.setattr(Stack, "is_asked", True)
    foreground.run_in_foreground(tmp_path, random_ports=False)
    assert "  while it stopped: half a module" in said
    assert said[-1].startswith("Headrace has stopped")


def test_what_fails_before_is_an_error(said: list[str], tmp_path: Path) -> None:
    with pytest.raises(ImportError, match="half a module"):
        foreground.run_in_foreground(tmp_path, random_ports=False)
    assert not [one for one in said if "has stopped" in one]
