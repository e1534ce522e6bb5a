import hashlib
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from local_stack.machine import downloads
from local_stack.machine.downloads import (
    IVY_FILE,
    expected_hashes,
    fetch_downloads,
    fetch_for_tests,
    verify,
)
from local_stack.machine.java import Java
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


CLASSIFIER = "{http://ant.apache.org/ivy/extra}classifier"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_both_machines_have_a_postgres(machine: str) -> None:
    (name,) = expected_hashes([f"postgres-{machine}"])
    assert "embedded-postgres-binaries-linux" in name


def test_every_jar_that_is_asked_for_is_sealed() -> None:
    """A folder's name tells of hashes alone: a new version needs new ones, or nobody fetches it."""
    asked = [*ElementTree.parse(IVY_FILE).iter("dependency")]
    assert asked
    for one in asked:
        configuration, _, _ = one.attrib["conf"].partition("->")
        artifact = one.find("artifact")
        kind = "" if artifact is None else f"-{artifact.attrib[CLASSIFIER]}"
        name = f"{configuration}/{one.attrib['name']}-{one.attrib['rev']}{kind}.jar"
        assert name in expected_hashes([configuration]), name


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The configurations that Ivy would have fetched."""
    configurations: list[str] = []

    def run_ivy(_java: Java, asked: Sequence[str], *_: object) -> None:
        configurations.extend(asked)
        raise StackError("nothing is fetched here", "expect it")

    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(downloads, "_run_ivy", run_ivy)
    return configurations


JAVA = Java(Path("java"), "17.0.15")
OF_TESTS = ["opensearch", "opensearch-netty"]


@pytest.mark.parametrize(
    ("fetch", "expected_configurations"),
    [
        (lambda: fetch_downloads(JAVA), ["broker", "spark", f"postgres-{platform.machine()}"]),
        (lambda: fetch_for_tests("OpenSearch", OF_TESTS, JAVA), OF_TESTS),
    ],
    ids=["the stack", "a test"],
)
def test_the_stack_fetches_nothing_that_only_tests_need(
    fetch: Callable[[], object], expected_configurations: list[str], asked_for: list[str]
) -> None:
    with pytest.raises(StackError, match="nothing is fetched"):
        fetch()
    assert asked_for == expected_configurations


def test_what_is_there_is_not_fetched_again(asked_for: list[str], tmp_path: Path) -> None:
    with pytest.raises(StackError, match="nothing is fetched"):
        fetch_for_tests("OpenSearch", OF_TESTS, JAVA)
    (half,) = tmp_path.glob("*.partial")
    whole = half.rename(half.with_suffix(""))
    assert fetch_for_tests("OpenSearch", OF_TESTS, JAVA) == whole
    assert asked_for == OF_TESTS
