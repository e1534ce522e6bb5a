"""A dead letter's whole way: parked, found, tried, mended, sent on again, done."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from local_stack import cli
from tests.end_to_end.conftest import Running

pytestmark = pytest.mark.stack

DEVICE, OTHER = "device-0081", "device-0082"


def test_letters_are_found_mended_sent_on_again_and_done(running: Running, tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        state_dir = ("--state-dir", str(running.stack.state_dir))
        done = CliRunner().invoke(cli.app, ["letters", *arguments, *state_dir, "-o", "json"])
        assert done.exit_code == 0, done.exception
        return json.loads(done.stdout)

    def letters(device: str, status: str = "parked") -> list[dict[str, Any]]:
        return list(run("list", "--entity", device, "--status", status))

    receipt = running.post(DEVICE, b'{"value": "warm"}').json()
    for _ in range(2):
        running.post(OTHER, b"\xff\xfe")
    running.eventually(lambda: len(letters(DEVICE)) == 1 and len(letters(OTHER)) == 2)
    (letter,) = letters(DEVICE)
    assert (letter["endpoint"], letter["stage"]) == ("telemetry", "enrich")
    assert letter["event_id"] == receipt["id"]

    mended = tmp_path / "mended.json"
    mended.write_text('{"value": 21}')
    trial = run("try", letter["id"], "--file", str(mended))
    assert trial["outcome"] == "event"
    (state,) = trial["states"]
    assert (state["outcome"], state["after"]["value"]) == ("changes", 21)
    assert running.completions_of({receipt["id"]}) == []
    for _ in range(2):  # two operators
        run("redrive", letter["id"], "--file", str(mended))
    running.eventually(lambda: bool(letters(DEVICE, "done")))
    running.eventually(lambda: running.completions_of({receipt["id"]}) == [receipt["id"]])
    running.eventually(lambda: running.snapshots().get(DEVICE, {}).get("value") == 21)

    # the others come back as they went, and say how often
    assert run("redrive", "--entity", OTHER, "--rate", "1000")["sent"] == 2
    running.eventually(lambda: [one["times"] for one in letters(OTHER)] == [2, 2])
    (first, _) = letters(OTHER)
    attempts = run("show", first["id"])["attempts"]
    assert [one["number"] for one in attempts] == [0, 1]
    assert run("discard", "--entity", OTHER, "--reason", "no device of ours")["discarded"] == 2
    assert letters(OTHER) == []

    assert running.stack.desk_url
    page = httpx.get(f"{running.stack.desk_url}/audit")
    assert page.status_code == 200
    assert "no device of ours" in page.text
