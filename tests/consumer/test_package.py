"""The package stands alone: what it imports is what its pyproject names, and nothing of ours."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.consumer.conftest import FOLDER

PACKAGE = FOLDER / "headrace_consumer"
PROJECT = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]


def _imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module).partition(".")[0])
    return found - sys.stdlib_module_names


def _names(requirements: list[str]) -> set[str]:
    return {one.partition(">=")[0].replace("-", "_") for one in requirements}


def test_it_imports_what_its_pyproject_names_and_no_more() -> None:
    modules = {path for path in PACKAGE.glob("*.py") if path.stem != "answer"}
    assert set().union(*map(_imported, modules)) == _names(PROJECT["dependencies"])
    extra = _names(PROJECT["optional-dependencies"]["answer"])
    assert _imported(PACKAGE / "answer.py") == extra


@pytest.mark.slow
def test_what_is_built_of_it_is_whole(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    build = "from setuptools import setup; setup()"
    command = [sys.executable, "-c", build, "-q", "egg_info", "-e", tmp_path, "build_py", "-d"]
    subprocess.run([*command, tmp_path / "built"], cwd=FOLDER, check=True, capture_output=True)
    built = {path.name for path in (tmp_path / "built" / "headrace_consumer").iterdir()}
    assert {path.name for path in PACKAGE.iterdir() if path.is_file()} == built
    code = "import headrace_consumer; print(headrace_consumer.__file__)"
    options = {"cwd": tmp_path / "built", "check": True, "capture_output": True, "text": True}
    ran = subprocess.run([sys.executable, "-c", code], **options)  # type: ignore[call-overload]
    assert str(tmp_path) in ran.stdout
