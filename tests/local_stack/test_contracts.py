"""The files in contracts/, and the verb that writes them."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from local_stack import cli
from local_stack.contracts import folder, settings
from local_stack.contracts.breaking import GONE, NO_LONGER_SURE, NOW_REQUIRED, RETYPED, breaks
from local_stack.contracts.documents import ASYNCAPI, OPENAPI, documents
from local_stack.contracts.flow_picture import PICTURE, picture
from local_stack.terminal.errors import StackError
from local_stack.verbs.contracts import FOLDER
from shared.flow import FLOW

REFERENCE = "shared.flow:FLOW"
WRITTEN_BY_OTHERS = {endpoint.topic for endpoint in FLOW.endpoints}
READING = "event.reading.v1.schema.json"


@pytest.fixture(autouse=True)
def sample_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_FLOW", raising=False)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    folder.write(tmp_path, documents(REFERENCE))
    return tmp_path


def ask(*options: str) -> Any:
    return CliRunner().invoke(cli.app, ["contracts", *options])


def refused(*options: str) -> StackError:
    error = ask(*options).exception
    assert isinstance(error, StackError)
    return error


def edit(path: Path, change: dict[str, Any], *place: str) -> None:
    """Changes the object at that place in the file."""
    document = json.loads(path.read_text())
    part = document
    for name in place:
        part = part[name]
    part |= change
    path.write_text(json.dumps(document))


def test_the_committed_files_are_those_of_the_flow() -> None:
    wanted = documents(REFERENCE)
    broken = folder.broken(FOLDER, wanted, WRITTEN_BY_OTHERS)
    assert not broken, f"a breaking change is a new topic, see ./headrace contracts: {broken}"
    assert not folder.stale(FOLDER, wanted), "run ./headrace contracts and commit what it writes"


def test_the_committed_picture_is_that_of_the_flow() -> None:
    drawn = (FOLDER.parent / PICTURE).read_text()
    assert drawn == picture(FLOW), "run ./headrace contracts and commit what it writes"


def test_check_tells_what_is_stale_and_what_mends_it(written: Path) -> None:
    to = ["--out", str(written)]
    assert ask(*to, "--check").exit_code == 0
    edit(written / OPENAPI, {"openapi": "3.0.0"})
    (written / ASYNCAPI).unlink()
    error = refused(*to, "--check")
    assert f"{ASYNCAPI}, {OPENAPI}" in error.what
    assert "./headrace contracts" in error.fix
    assert "2 of them changed" in ask(*to).output
    assert ask(*to, "--check").exit_code == 0


def test_the_table_of_settings_and_the_picture_are_written_beside_the_files_of_the_checkout(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local_stack.verbs.contracts.FOLDER", written)
    monkeypatch.setattr("local_stack.verbs.contracts.CHECKOUT", tmp_path)
    (tmp_path / "docs").mkdir()
    page, drawing = tmp_path / settings.PAGE, tmp_path / PICTURE
    assert f"{settings.PAGE}, {PICTURE}" in refused("--check").what
    assert "2 of them changed" in ask().output
    assert page.read_text() == settings.page()
    assert drawing.read_text() == picture(FLOW)
    assert ask("--check").exit_code == 0
    page.write_text("| `HEADRACE_PARTITIONS` | `5` |")
    assert settings.PAGE in refused("--check").what
    assert ask("--out", str(written), "--check").exit_code == 0  # a folder of its own has no page


def test_what_would_break_readers_is_refused_by_name_unless_it_is_meant(written: Path) -> None:
    more = {"humidity": {"type": "number"}}
    edit(written / READING, more, "properties", "data", "properties")
    error = refused("--out", str(written))
    assert f"event.reading.v1: data.humidity {GONE}" in error.what
    assert "a breaking change is a new topic" in error.fix
    assert "humidity" in (written / READING).read_text()
    assert ask("--out", str(written), "--breaking").exit_code == 0
    assert "humidity" not in (written / READING).read_text()


def test_a_payload_may_lose_what_an_event_may_not(written: Path) -> None:
    more = {"humidity": {"type": "number"}}
    edit(written / "ingest.status.v1.schema.json", more, "properties")
    assert ask("--out", str(written)).exit_code == 0
    edit(written / "ingest.status.v1.schema.json", {"required": []})
    assert f"ingest.status.v1: status {NOW_REQUIRED}" in refused("--out", str(written)).what


def test_a_topic_that_is_gone_is_told_and_only_files_of_ours_go(written: Path) -> None:
    others = written / "theirs.schema.json"
    others.write_text("{}")
    gone = written / "event.old.v1.schema.json"
    gone.write_text((written / READING).read_text())
    assert "event.old.v1 is gone" in refused("--out", str(written)).what
    assert ask("--out", str(written), "--breaking").exit_code == 0
    assert not gone.exists()
    assert others.exists()


def test_a_flow_of_ones_own_never_lands_in_the_sample_s_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "orchard.py"
    module.write_text(
        "from typing_extensions import TypedDict\n"
        "from shared.model import *\nfrom shared.flow_table import Flow\n"
        "class Grown(TypedDict):\n    apples: int\n"
        "FLOW = Flow((Endpoint('tree', None, ('grown',)),), (EventType('grown', Grown),), ())\n"
        "class Odd(TypedDict):\n    pump: object.__class__\n"
        "ODD = Flow((Endpoint('tree', None, ('grown',)),), (EventType('grown', Odd),), ())\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HEADRACE_FLOW", "orchard:FLOW")
    assert "--out FOLDER" in refused().fix
    out = tmp_path / "out"
    assert ask("--out", str(out)).exit_code == 0
    data = json.loads((out / "event.grown.v1.schema.json").read_text())["properties"]["data"]
    assert data["properties"]["apples"]["type"] == "integer"
    assert "/v1/tree/{entity_id}" in json.loads((out / OPENAPI).read_text())["paths"]
    monkeypatch.setenv("HEADRACE_FLOW", "orchard:ODD")
    assert "cannot be published" in refused("--out", str(out)).what


def test_each_topic_is_a_channel_and_each_job_s_topics_are_its_operations() -> None:
    document = documents(REFERENCE)[ASYNCAPI]
    channels, operations = document["channels"], document["operations"]
    assert list(channels) == [topic.name for topic in FLOW.topics()]
    assert all(channel["address"] == name for name, channel in channels.items())
    for job in FLOW.jobs():
        its_own = {
            (operation["action"], operation["channel"]["$ref"].removeprefix("#/channels/"))
            for operation in operations.values()
            if operation["tags"] == [{"name": job.name}]
        }
        read = (*job.ignited_by, *job.looks_up, "job.order.v1")
        received = {("receive", topic) for topic in read}
        sent = {("send", t) for t in (*job.emits, *job.waits_in, *job.parks_in, "job.status.v1")}
        assert its_own == received | sent
    sent_to = {o["channel"]["$ref"] for o in operations.values() if o["action"] == "send"}
    assert sent_to == {f"#/channels/{name}" for name in channels}


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        part = list(part.values())
    if isinstance(part, list):
        for one in part:
            yield from references(one)


@pytest.mark.parametrize("name", documents(REFERENCE))
def test_every_reference_leads_somewhere(name: str) -> None:
    wanted = documents(REFERENCE)
    for reference in references(wanted[name]):
        file, _, pointer = reference.partition("#")
        target: Any = wanted[file.removeprefix("./") if file else name]
        for step in pointer.split("/")[1:]:
            target = target[step]
        assert target, reference


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "title": "Id"},
        "data": {"$ref": "#/$defs/Data"},
        "more": {"type": "array", "items": {"$ref": "#/$defs/Data"}},
    },
    "required": ["id", "data"],
    "$defs": {
        "Data": {
            "type": "object",
            "properties": {
                "unit": {"type": ["string", "null"]},
                "state": {"enum": ["on", "off"]},
                "inner": {"$ref": "#/$defs/Data"},
            },
            "required": ["unit"],
        }
    },
}


@pytest.mark.parametrize(
    ("where", "change", "found"),
    [
        (("properties", "id"), {"title": "Name", "description": "x"}, []),
        (("properties",), {"new": {"type": "string"}}, []),
        ((), {"description": "x"}, []),
        (("properties", "id"), {"type": "integer"}, [f"id {RETYPED}"]),
        (("properties", "id"), {"pattern": "^x"}, [f"id {RETYPED}"]),
        ((), {"required": ["id"]}, [f"data {NO_LONGER_SURE}"]),
        ((), {"required": ["id", "data", "more"]}, [f"more {NOW_REQUIRED}"]),
        ((), {"type": "array"}, [f"the value {RETYPED}"]),
        (("$defs", "Data", "properties"), {"new": {}}, []),
        (
            ("$defs", "Data", "properties"),
            {"unit": {"type": "string"}},
            [f"data.unit {RETYPED}", f"more.unit {RETYPED}"],
        ),
        (
            ("$defs", "Data", "properties", "state"),
            {"enum": ["on", "off", "dim"]},
            [f"data.state {RETYPED}", f"more.state {RETYPED}"],
        ),
    ],
)
def test_which_changes_break(
    where: tuple[str, ...], change: dict[str, Any], found: list[str]
) -> None:
    new = deepcopy(SCHEMA)
    part = new
    for step in where:
        part = part[step]
    part |= change
    assert [str(one) for one in breaks(SCHEMA, new)] == found


def test_a_field_that_goes_breaks() -> None:
    new = deepcopy(SCHEMA)
    del new["properties"]["more"]
    assert list(map(str, breaks(SCHEMA, new))) == [f"more {GONE}"]


def test_a_definition_that_is_written_out_breaks_nobody() -> None:
    old = deepcopy(SCHEMA)
    del old["$defs"]["Data"]["properties"]["inner"]  # what holds itself cannot be written out
    flat = deepcopy(old)
    flat["properties"]["more"]["items"] = flat["$defs"]["Data"]
    assert breaks(old, flat) == []
