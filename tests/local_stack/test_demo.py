import asyncio
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from local_stack import cli
from local_stack.demo.balance import Balance, SentPayloads, balance
from local_stack.demo.fleet import DeviceMessage, Fleet, MessageKind
from local_stack.demo.follower import PayloadFates
from local_stack.demo.gateway_client import DeviceState, PostAnswer
from local_stack.demo.run import Demo, DemoOptions
from local_stack.demo.show import books, changes, counting, folded, more
from local_stack.terminal.errors import StackError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def messages(count: int, *, seed: int = 7, with_status: bool = True) -> list[DeviceMessage]:
    fleet = Fleet(20, seed, "run", with_status=with_status)
    return [fleet.next(NOW) for _ in range(count)]


def test_the_seed_decides_what_is_sent() -> None:
    assert messages(200) == messages(200)
    assert messages(200) != messages(200, seed=8)


def test_fifty_messages_hold_one_of_every_kind() -> None:
    assert {message.kind for message in messages(50)} == set(MessageKind)
    kinds = Counter(message.kind for message in messages(50, with_status=False))
    assert MessageKind.STATUS not in kinds
    assert kinds.total() == 50


def test_each_kind_is_what_its_name_says() -> None:
    by_kind = {message.kind: message for message in messages(300)}
    late = json.loads(by_kind[MessageKind.LATE].body)
    assert late["at"] < "2025-12-31T23:59:01Z"
    assert json.loads(by_kind[MessageKind.STATUS].body)["status"] in ("online", "offline")
    assert by_kind[MessageKind.STATUS].endpoint == "status"
    assert "warm" in json.loads(by_kind[MessageKind.WRONG_TYPE].body).values()
    with pytest.raises(json.JSONDecodeError):
        json.loads(by_kind[MessageKind.NOT_JSON].body)
    with pytest.raises(UnicodeDecodeError):
        by_kind[MessageKind.BAD_UTF8].body.decode()
    assert int(by_kind[MessageKind.UNKNOWN].device.removeprefix("device-")) > 1000


def test_every_tenth_device_sends_fahrenheit() -> None:
    plain = [message for message in messages(500) if message.kind is MessageKind.PLAIN]
    for message in plain:
        fahrenheit = int(message.device.removeprefix("device-")) % 10 == 0
        assert ("temp_f" in json.loads(message.body)) is fahrenheit
    assert {message.device for message in plain} > {"device-0010", "device-0020"}


def test_a_key_is_used_for_one_message_only() -> None:
    assert len({message.key for message in messages(500)}) == 500


def sent(*answers: tuple[str, PostAnswer]) -> SentPayloads:
    said = SentPayloads()
    for key, answer in answers:
        said.note(DeviceMessage(MessageKind.PLAIN, "telemetry", "device-0001", b"{}", key), answer)
    return said


def accepted(payload_id: str) -> PostAnswer:
    return PostAnswer(202, payload_id)


def test_the_books_add_up_when_all_has_come_out() -> None:
    said = sent(
        ("1", accepted("a")),
        ("1", accepted("a")),
        ("2", accepted("b")),
        ("3", accepted("c")),
        ("4", PostAnswer(503, said="503 not_ready")),
    )
    seen = PayloadFates(
        events={"a", "of others"},
        completed={"a", "of others"},
        parked={"b": "not_json", "of others too": "not_json"},
        waiting={"c": "missing_device"},
    )
    end = balance(said, seen)
    assert (end.sent, end.accepted, end.distinct, end.doubled, end.events) == (5, 4, 3, 1, 1)
    assert (end.parked, end.waiting) == ({"not_json": 1}, {"missing_device": 1})
    assert end.refused == {"503 not_ready": 1}
    assert end.adds_up
    assert end.all_through
    assert json.loads(json.dumps(end.as_document()))["adds_up"] is True


def test_what_has_not_come_out_is_missed() -> None:
    end = balance(sent(("1", accepted("a")), ("2", accepted("b"))), PayloadFates(events={"a"}))
    assert not end.adds_up
    assert "1 accepted payloads are in Kafka" in said_of(end)


def test_an_event_without_a_row_is_no_loss_but_not_through() -> None:
    end = balance(sent(("1", accepted("a"))), PayloadFates(events={"a"}))
    assert (end.adds_up, end.all_through) == (True, False)
    assert "1 events have no row yet" in said_of(end)


def test_a_repeat_with_another_id_does_not_add_up() -> None:
    said = sent(("1", accepted("a")), ("1", accepted("b")))
    end = balance(said, PayloadFates(events={"a", "b"}, completed={"a", "b"}))
    assert not end.adds_up
    assert "a repeat was answered with another id" in said_of(end)


def test_a_payload_counts_once_wherever_it_was_on_its_way() -> None:
    said = sent(("1", accepted("a")), ("2", accepted("b")), ("3", accepted("c")))
    waited = {"a": "missing_device", "b": "missing_device"}
    seen = PayloadFates(
        events={"a", "c"}, completed={"a"}, parked={"b": "gone", "c": "x"}, waiting=waited
    )
    end = balance(said, seen)
    assert (end.events, end.parked, end.waiting) == (2, {"gone": 1}, {})
    assert end.parked_as_events == 1
    assert end.all_through


def said_of(end: Balance) -> str:
    return "\n".join(books(SentPayloads(), end))


def test_the_lines_tell_what_was_counted() -> None:
    said = sent(("1", accepted("a")), ("2", PostAnswer(0, said="no answer (ConnectError)")))
    end = balance(said, PayloadFates(parked={"a": "not_json"}))
    assert counting(said, end).startswith("sent 2 accepted 1 refused 1 | events 0 rows 0 parked 1")
    assert "no answer (ConnectError) 1" in "\n".join(books(said, end))
    commands = "\n".join(more(end, "device-0001", "http://gateway"))
    assert "./headrace tail dlq.enrich.v1" in commands
    assert "retry.enrich.v1" not in commands


def test_a_change_is_of_what_a_device_is_not_of_its_every_value() -> None:
    def snapshot(version: int, status: str, value: float) -> dict[str, DeviceState]:
        return {"device-0001": DeviceState(version, {"status": status, "value": value})}

    active = snapshot(3, "ACTIVE", 30.0)
    assert changes(active, snapshot(4, "ACTIVE", 31.0)) == []
    alarm = snapshot(9, "ALARM", 85.0)
    assert changes(active, alarm) == ["  device-0001: ACTIVE 30.0 -> ALARM 85.0"]
    assert "6 events folded" in folded(active, alarm, all_folded=True)[0]
    assert "behind" in folded(active, alarm, all_folded=False)[-1]


def test_without_a_stack_it_says_how_to_start_one(tmp_path: Path) -> None:
    error = CliRunner().invoke(cli.app, ["demo", "--state-dir", str(tmp_path)]).exception
    assert isinstance(error, StackError)
    assert (error.what, error.fix[-12:]) == (f"no stack runs on {tmp_path}", "/headrace up")


@pytest.mark.parametrize(
    ("telemetry", "what"),
    [(False, "the running flow has no endpoint `telemetry`"), (None, "does not answer")],
)
def test_what_is_no_sample_flow_is_a_sentence(telemetry: bool | None, what: str) -> None:
    async def has_endpoint(_name: str) -> bool | None:
        return telemetry

    gateway: Any = SimpleNamespace(has_endpoint=has_endpoint)
    nobody: Any = None
    with pytest.raises(StackError, match=what):
        asyncio.run(Demo(gateway, nobody, None).run(DemoOptions(1, 1, 1, 1, None)))
