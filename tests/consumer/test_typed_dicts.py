"""Types made of the published contracts say what the contracts say."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NotRequired

import pytest
from headrace_consumer.__main__ import main
from headrace_consumer.events import Reader
from headrace_consumer.typed_dicts import module, schemas_in
from pydantic import BaseModel, TypeAdapter, ValidationError
from typing_extensions import TypedDict

CONTRACTS = Path(__file__).parents[2] / "contracts"


class Wheel(TypedDict):
    name: str
    bars: list[float]
    spare: NotRequired["Wheel"]


class Odd(TypedDict):
    wheel: Wheel
    kind: Literal["road", "workshop"] | None
    by_name: dict[str, list[int]]
    no_contract: Any


def _made(tmp_path: Path, schemas: dict[str, Any]) -> ModuleType:
    path = tmp_path / "made_events.py"
    path.write_text(module(schemas))
    spec = importlib.util.spec_from_file_location("made_events", path)
    assert spec
    assert spec.loader
    made = sys.modules["made_events"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def _schema(shape: Any) -> dict[str, Any]:
    data = TypeAdapter(shape).json_schema()
    definitions = data.pop("$defs", {})
    value = {"properties": {"type": {"const": "odd_one"}, "data": data}}
    return {**value, "$defs": definitions}


def _takes(shape: Any, data: Any) -> bool:
    try:
        TypeAdapter(shape).validate_python(data)
    except ValidationError:
        return False
    return True


def test_each_event_of_the_sample_has_its_type(tmp_path: Path) -> None:
    made = _made(tmp_path, schemas_in(CONTRACTS))
    assert set(made.TYPES) == {
        "reading", "status_changed", "retired", "alarm_raised", "alarm_cleared"
    }  # fmt: skip
    Reader(made.TYPES)
    reading = {"value": 1.5, "unit": None, "area": "a", "model": "m", "attributes": {}, "rest": {}}
    assert _takes(made.Reading, reading)
    assert not _takes(made.Reading, {**reading, "value": "much"})
    assert not _takes(made.Reading, {"value": 1.5})
    assert _takes(made.StatusChanged, {"status": "online"})
    assert not _takes(made.StatusChanged, {"status": "asleep"})


@pytest.mark.parametrize("model", [False, True])
def test_what_is_nested_and_recursive_is_as_its_contract(tmp_path: Path, model: bool) -> None:
    class OddModel(BaseModel):
        wheel: Wheel
        kind: Literal["road", "workshop"] | None
        by_name: dict[str, list[int]]
        no_contract: Any

    made = _made(tmp_path, {"odd_one": _schema(OddModel if model else Odd)})
    wheel = {"name": "fl", "bars": [2.5], "spare": {"name": "boot", "bars": []}}
    fits = {"wheel": wheel, "kind": "road", "by_name": {"a": [1]}, "no_contract": [None]}
    assert _takes(made.OddOne, fits)
    for wrong in (
        {**fits, "kind": "sea"},
        {**fits, "by_name": {"a": ["b"]}},
        {**fits, "wheel": {**wheel, "spare": {"name": "boot"}}},
        {**fits, "wheel": {**wheel, "bars": 2.5}},
        {key: fits[key] for key in ("wheel", "kind")},
    ):
        assert not _takes(made.OddOne, wrong), wrong


def test_a_field_may_have_any_name(tmp_path: Path) -> None:
    data = {"type": "object", "properties": {"a-b": {"type": "string"}}, "required": ["a-b"]}
    schema = {"properties": {"type": {"const": "odd"}, "data": data}}
    made = _made(tmp_path, {"odd": schema})
    assert _takes(made.Odd, {"a-b": "x"})
    assert not _takes(made.Odd, {"a_b": "x"})


def test_the_command_writes_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([str(CONTRACTS)]) == 0
    assert capsys.readouterr().out == module(schemas_in(CONTRACTS))
    (tmp_path / "other.schema.json").write_text(json.dumps({"type": "object"}))
    assert main([str(tmp_path)]) == 1
    assert "has no schema of an event" in capsys.readouterr().err
    assert main([]) == main([str(tmp_path / "nowhere")]) == 2
    assert "usage: " in capsys.readouterr().err
