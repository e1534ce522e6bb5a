import os
from pathlib import Path

import pytest

from local_stack.machine.java import Java
from local_stack.machine.preflight import preflight
from local_stack.machine.without_root import without_root
from local_stack.terminal.errors import StackError


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Root, with a PATH on which there is only what the test puts there."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_an_ordinary_user_needs_no_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert without_root() == []


def test_a_missing_tool_is_not_called_a_forbidden_namespace(as_root: Path) -> None:
    assert as_root.is_dir()
    with pytest.raises(StackError, match="`unshare` is not on PATH"):
        without_root()


@pytest.mark.slow
def test_the_reason_is_the_tool_s_own(as_root: Path) -> None:
    _unshare(as_root, "echo 'unshare failed: Operation not permitted' >&2; exit 1")
    with pytest.raises(StackError, match="cannot be had: unshare failed: Operation not permitted"):
        without_root()


@pytest.mark.slow
def test_nothing_else_on_path_is_asked_for(as_root: Path) -> None:
    _unshare(as_root, 'shift; exec "$@"')
    assert without_root() == ["unshare", "-U"]


def test_a_server_of_ones_own_needs_no_namespace(
    as_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (as_root / "setpriv").touch(mode=0o755)
    java = Java(tmp_path, "17.0.15")
    monkeypatch.setattr("local_stack.machine.preflight.find_java", lambda: java)
    monkeypatch.setenv("HEADRACE_POSTGRES_URL", "postgresql://elsewhere/headrace")
    preflight(tmp_path, lambda _line: None)
    monkeypatch.delenv("HEADRACE_POSTGRES_URL")
    with pytest.raises(StackError, match="`unshare` is not on PATH"):
        preflight(tmp_path, lambda _line: None)


def _unshare(folder: Path, body: str) -> None:
    tool = folder / "unshare"
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)
