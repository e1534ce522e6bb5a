import hashlib
from pathlib import Path

import pytest

from local_stack.machine.downloads import expected_hashes, verify
from local_stack.terminal.errors import StackError


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    for name in ("broker/a-1.jar", "spark/b-2.jar"):
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(name)
    return tmp_path


@pytest.fixture
def expected() -> dict[str, str]:
    names = ("broker/a-1.jar", "spark/b-2.jar")
    return {name: hashlib.sha256(name.encode()).hexdigest() for name in names}


def test_the_sealed_jars_pass(jars: Path, expected: dict[str, str]) -> None:
    verify(jars, expected)


def test_a_changed_jar_is_refused_by_name(jars: Path, expected: dict[str, str]) -> None:
    (jars / "spark" / "b-2.jar").write_text("something else")
    with pytest.raises(StackError, match=r"spark/b-2\.jar is not the one"):
        verify(jars, expected)


def test_a_jar_that_is_not_listed_is_refused_by_name(jars: Path, expected: dict[str, str]) -> None:
    (jars / "broker" / "stranger.jar").write_text("")
    with pytest.raises(StackError, match=r"broker/stranger\.jar is not listed"):
        verify(jars, expected)


def test_a_missing_jar_is_named(jars: Path, expected: dict[str, str]) -> None:
    (jars / "broker" / "a-1.jar").unlink()
    with pytest.raises(StackError, match=r"broker/a-1\.jar was not downloaded"):
        verify(jars, expected)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_both_machines_have_a_postgres(machine: str) -> None:
    (name,) = expected_hashes([f"postgres-{machine}"])
    assert "embedded-postgres-binaries-linux" in name
