"""What keeps the house easy to find one's way in."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("gateway", "stream_jobs", "shared", "desk", "local_stack")
ROOMS = sorted(
    folder.relative_to(ROOT)
    for package in PACKAGES
    for folder in (ROOT / package, *(ROOT / package).rglob("*"))
    if (folder / "__init__.py").exists()
)
MODULES_MAX = 15
# one small module for each command
EXEMPT = {Path("local_stack/verbs")}


@pytest.mark.parametrize("room", ROOMS, ids=str)
def test_a_room_shows_few_modules_and_says_what_it_is_for(room: Path) -> None:
    modules = [path for path in (ROOT / room).glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MODULES_MAX or room in EXEMPT
    assert ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text())) or not modules
