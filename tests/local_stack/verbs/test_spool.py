"""What a spool has set aside: listed, and sent again once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from clients.kafka.records import Outgoing
from gateway.kafka_writer.outcome import Record
from gateway.spool.frame import Frame, pack
from gateway.spool.set_aside import DAMAGED, MISSING, TORN, SetAside
from local_stack import cli
from local_stack.terminal.errors import StackError
from local_stack.verbs import spool
from local_stack.verbs.ledger import set_aside
from shared.events.envelope import RECEIVED

TOPIC = "ingest.telemetry.v1"
AT_MS = 1_795_514_400_000


def _frame(number: int) -> Frame:
    headers = [("ce_id", b"id-%d" % number)]
    return Frame(TOPIC, Record(b"device-%d" % number, b"value %d" % number, headers), AT_MS)


class FakeWriter:
    def __init__(self) -> None:
        self.refuses: dict[bytes, str] = {}
        self.taken: list[bytes | None] = []
        self.headers: list[Any] = []

    def send(self, records: list[Outgoing], _: Callable[[], bool]) -> dict[int, str]:
        refusals = {}
        for number, record in enumerate(records):
            assert record.topic == TOPIC
            if why := self.refuses.get(record.key or b""):
                refusals[number] = why
            else:
                self.taken.append(record.value)
                self.headers.append(record.headers)
        return refusals


@pytest.fixture
def aside(tmp_path: Path) -> SetAside:
    return SetAside(tmp_path / "spool" / "set-aside")


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeWriter:
    writer = FakeWriter()
    monkeypatch.setattr(spool, "_writer", lambda _: writer)
    return writer


def _run(folder: Path, *arguments: str) -> Result:
    environment = {"HEADRACE_KAFKA_BOOTSTRAP": "127.0.0.1:1"}
    command = ["spool", *arguments, "-o", "json", "--state-dir", str(folder)]
    return CliRunner().invoke(cli.app, command, env=environment)


def test_the_list_says_of_each_payload_what_it_is_and_of_the_rest_that_it_is_damaged(
    tmp_path: Path, aside: SetAside
) -> None:
    aside.keep("record_too_large", TOPIC, pack(_frame(1)))
    aside.keep(DAMAGED, TOPIC, b"x" + pack(_frame(2)))
    aside.keep(MISSING, TOPIC, b"bytes 0 to 9 are missing\n")
    rows = json.loads(_run(tmp_path, "list").output)
    assert [(row["why"], row["topic"], row["entity"], row["event_id"]) for row in rows] == [
        (DAMAGED, TOPIC, None, None),
        (MISSING, TOPIC, None, None),
        ("record_too_large", TOPIC, "device-1", "id-1"),
    ]
    assert rows[2]["bytes"] == len(pack(_frame(1)))
    assert rows[2]["spooled_at"] == "2026-11-24T10:00:00.000Z"
    assert set_aside(tmp_path) == 3


def test_of_no_spool_nothing_is_set_aside(tmp_path: Path) -> None:
    assert json.loads(_run(tmp_path, "list").output) == []
    assert set_aside(tmp_path) == 0
    refusal = _run(tmp_path, "replay").exception
    assert isinstance(refusal, StackError)


def test_what_is_whole_is_sent_once_and_what_is_damaged_stays(
    tmp_path: Path, aside: SetAside, kafka: FakeWriter
) -> None:
    """Damaged bytes may be a client's, and look like a frame of another device."""
    for number in range(3):
        aside.keep("record_too_large", TOPIC, pack(_frame(number)))
    for why in (DAMAGED, TORN):
        aside.keep(why, TOPIC, pack(_frame(66)))
    done = json.loads(_run(tmp_path, "replay").output)
    assert (done["sent"], done["refused"], len(done["unreadable"])) == (3, [], 2)
    assert sorted(kafka.taken) == [b"value 0", b"value 1", b"value 2"]
    assert all(headers[-1] == (RECEIVED, b"%d" % AT_MS) for headers in kafka.headers)
    assert json.loads(_run(tmp_path, "replay").output)["sent"] == 0
    assert len(kafka.taken) == 3
    assert set_aside(tmp_path) == 2


def test_what_is_refused_stays_and_is_told_by_name(
    tmp_path: Path, aside: SetAside, kafka: FakeWriter
) -> None:
    for number in range(3):
        aside.keep("record_too_large", TOPIC, pack(_frame(number)))
    kafka.refuses = {b"device-1": "Broker: Message size too large"}
    run = _run(tmp_path, "replay")
    assert isinstance(run.exception, StackError)
    (refused,) = json.loads(run.output)["refused"]
    assert (refused["entity"], refused["event_id"]) == ("device-1", "id-1")
    assert "too large" in refused["why"].lower()
    assert [row["event_id"] for row in json.loads(_run(tmp_path, "list").output)] == ["id-1"]
    kafka.refuses = {}
    assert json.loads(_run(tmp_path, "replay").output)["sent"] == 1
    assert set_aside(tmp_path) == 0


def test_one_file_can_be_chosen_and_another_name_is_refused(
    tmp_path: Path, aside: SetAside, kafka: FakeWriter
) -> None:
    for number in range(2):
        aside.keep("record_too_large", TOPIC, pack(_frame(number)))
    rows = json.loads(_run(tmp_path, "list").output)
    wanted = next(row["file"] for row in rows if row["event_id"] == "id-1")
    assert json.loads(_run(tmp_path, "replay", "--file", wanted).output)["sent"] == 1
    assert kafka.taken == [b"value 1"]
    refusal = _run(tmp_path, "replay", "--file", wanted).exception
    assert isinstance(refusal, StackError)
    assert "./headrace spool list" in refusal.fix


@pytest.mark.parametrize("by_name", [False, True])
def test_a_file_with_many_and_a_torn_end_is_taken_apart(
    tmp_path: Path, aside: SetAside, kafka: FakeWriter, by_name: bool
) -> None:
    """As they were, once."""
    old = tmp_path / "spool" / "set-aside" / "refused.frames"
    old.write_bytes(b"".join(pack(_frame(number)) for number in range(3)) + pack(_frame(9))[:-1])
    aside.keep("record_too_large", TOPIC, pack(_frame(5)))
    kafka.refuses = {b"device-1": "Broker: Message size too large"}
    run = _run(tmp_path, "replay", *(["--file", "refused.frames"] if by_name else []))
    assert isinstance(run.exception, StackError)
    other = [] if by_name else [b"value 5"]
    assert sorted(kafka.taken) == [b"value 0", b"value 2", *other]
    rows = json.loads(_run(tmp_path, "list").output)
    left = {(row["why"], row["event_id"]) for row in rows if row["event_id"] != "id-5"}
    assert left == {(DAMAGED, None), ("refused", "id-1")}
    assert not old.exists()


def test_without_kafka_nothing_is_touched(
    tmp_path: Path, aside: SetAside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "_CONNECT_DEADLINE_S", 0.2)
    aside.keep("record_too_large", TOPIC, pack(_frame(1)))
    run = _run(tmp_path, "replay")
    assert isinstance(run.exception, StackError)
    assert "nothing was sent" in run.exception.what
    assert set_aside(tmp_path) == 1


def test_the_spools_of_all_gateways_are_listed_and_sent(
    tmp_path: Path, aside: SetAside, kafka: FakeWriter
) -> None:
    aside.keep("record_too_large", TOPIC, pack(_frame(1)))
    other = SetAside(tmp_path / "gateway-2" / "spool" / "set-aside")
    other.keep("record_too_large", TOPIC, pack(_frame(2)))
    rows = json.loads(_run(tmp_path, "list").output)
    assert [(row["gateway"], row["event_id"]) for row in rows] == [
        ("gateway", "id-1"),
        ("gateway-2", "id-2"),
    ]
    assert set_aside(tmp_path) == 2
    assert json.loads(_run(tmp_path, "replay").output)["sent"] == 2
    assert sorted(kafka.taken) == [b"value 1", b"value 2"]
    assert set_aside(tmp_path) == 0
