"""What keeps the house easy to find one's way in."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("gateway", "stream_jobs", "shared", "clients", "desk", "local_stack")
FOR_CONSUMERS = "consumer/headrace_consumer"  # it stands alone
ROOMS = sorted(
    folder.relative_to(ROOT)
    for package in (*PACKAGES, FOR_CONSUMERS)
    for folder in (ROOT / package, *(ROOT / package).rglob("*"))
    if (folder / "__init__.py").exists()
)
MODULES_MAX = 15
# one small module for each command
EXEMPT = {Path("local_stack/verbs")}
LINES_MAX = 300
# what the docstring of a longer module begins its reason with
REASON = "In one file because"


@pytest.mark.parametrize("room", ROOMS, ids=str)
def test_a_room_shows_few_modules_and_says_what_it_is_for(room: Path) -> None:
    modules = [path for path in (ROOT / room).glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MODULES_MAX or room in EXEMPT
    assert ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text())) or not modules


def is_too_long(text: str) -> bool:
    docstring = ast.get_docstring(ast.parse(text)) or ""
    return len(text.splitlines()) > LINES_MAX and REASON not in " ".join(docstring.split())


def test_a_module_is_short_or_says_why_it_is_in_one_file() -> None:
    too_long = {
        str(path.relative_to(ROOT))
        for package in (*PACKAGES, FOR_CONSUMERS)
        for path in (ROOT / package).rglob("*.py")
        if is_too_long(path.read_text())
    }
    assert not too_long


def test_a_long_module_is_found_unless_it_gives_its_reason() -> None:
    body = "x = 1\n" * LINES_MAX
    assert is_too_long(f'"""What it is."""\n{body}')
    assert not is_too_long(body)
    assert not is_too_long(f'"""What it is. In one file because its parts are one rule."""\n{body}')


def imported(name: str, tree: ast.AST, known: Mapping[str, object]) -> Iterator[str]:
    """All of the product's modules that this one names: for types alone, and in functions, too."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            of_room = [f"{node.module}.{one.name}" for one in node.names]
            names = [full if full in known else node.module for full in of_room]
        yield from (one for one in names if one in known and one != name)


def circle(trees: Mapping[str, ast.AST]) -> list[str]:
    graph = {name: {*imported(name, tree, trees)} for name, tree in trees.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [*error.args[1]]
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    trees = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            path.read_text()
        )
        for path in paths
    }
    assert not (found := circle(trees)), f"a circle of imports: {' <- '.join(found)}"


def test_a_circle_is_found_in_types_and_in_functions() -> None:
    types = ast.parse("if TYPE_CHECKING:\n    from a.two import Two")
    function = ast.parse("def f():\n    from a import one")
    assert circle({"a.one": types, "a.two": ast.parse("import json")}) == []
    assert {*circle({"a.one": types, "a.two": function})} == {"a.one", "a.two"}


def test_clients_of_kafka_are_made_in_one_place() -> None:
    making = re.compile(r"\b(?:Consumer|Producer|AdminClient)\(")
    makers = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if making.search(path.read_text())
    }
    assert makers == {"clients/kafka/connect.py"}


def test_a_test_without_a_mark_starts_no_process() -> None:
    with pytest.raises(pytest.fail.Exception, match="needs the mark `slow`"):
        subprocess.run([sys.executable, "--version"], check=True)
