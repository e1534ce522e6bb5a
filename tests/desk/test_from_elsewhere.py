"""A desk that is asked by a terminal of another machine, which reaches nothing else."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from local_stack import cli
from local_stack.remote import asking
from local_stack.terminal.errors import StackError
from shared.published.job_orders import Wanted
from stream_jobs.job_orders.feed import OrderFeed
from stream_jobs.waiting.codec import gate_value
from stream_jobs.waiting.line import Told
from tests.desk.desk_room import Room
from tests.gateway.support import serving

pytestmark = pytest.mark.stack
Elsewhere = Callable[..., Any]


@pytest.fixture
def elsewhere(room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    """What a verb prints there, as JSON where it can."""
    own = {"hooks_hosts_allowed": "127.0.0.1", "credentials_key": "07" * 32}
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path / "nothing-runs-here"))
    with serving(room.app(**own), room.gateway_settings(**own)) as served:

        def ask(*words: str, is_json: bool = True, given: bytes | None = None) -> Any:
            asked = ["--url", served.url, *words, *(("-o", "json") if is_json else ())]
            # what a verb sets there is gone with it
            done = CliRunner(env={asking.URL: None}).invoke(cli.app, asked, input=given)
            if isinstance(done.exception, StackError):
                raise done.exception
            assert done.exit_code == 0, done.output + str(done.exception)
            return json.loads(done.output) if is_json else done.output

        yield ask


def test_jobs(room: Room, elsewhere: Elsewhere) -> None:
    assert {"fold", "persist"} <= {one["job"] for one in elsewhere("jobs", "list")}
    elsewhere("jobs", "pause", "fold", "--why", "the disk is changed", is_json=False)
    order = OrderFeed(room.settings.kafka).of("fold")
    assert order is not None
    assert (order.order, order.why, order.by) == (Wanted.PAUSE, "the disk is changed", "anyone")
    elsewhere("jobs", "resume", "fold", is_json=False)
    assert OrderFeed(room.settings.kafka).of("fold") is None
    for words, said in (("nobody", "no job nobody"), ("persist", "persist keeps no state")):
        with pytest.raises(StackError, match=said):
            elsewhere("jobs", "rebuild", words, is_json=False)


def test_credentials(elsewhere: Elsewhere) -> None:
    added = elsewhere("credentials", "add", "--device", "d-elsewhere", "--days", "3")
    assert added["token"].startswith("hr_")
    signed = elsewhere(
        "credentials", "add", "--device", "d-elsewhere", "--kind", "hmac", is_json=False
    )
    assert "docs/security.md shows how to sign" in signed
    listed = [one for one in elsewhere("credentials", "list") if one["device"] == "d-elsewhere"]
    assert added["key_id"] in {one["key_id"] for one in listed}
    for one in listed:
        elsewhere("credentials", "revoke", one["key_id"], is_json=False)
    with pytest.raises(StackError, match="there is no credential"):
        elsewhere("credentials", "revoke", added["key_id"], is_json=False)


def test_hooks(elsewhere: Elsewhere) -> None:
    url = "https://example.org/in"
    own = f"whsec_{'a' * 32}"
    assert elsewhere("hooks", "add", "far", url, "--type", "reading")["secret"].startswith("whsec_")
    try:
        assert [one["name"] for one in elsewhere("hooks", "list") if one["url"] == url] == ["far"]
        assert elsewhere("hooks", "show", "far")["types"] == ["reading"]
        elsewhere("hooks", "pause", "far", is_json=False)
        assert elsewhere("hooks", "show", "far")["state"] == "paused"
        elsewhere("hooks", "resume", "far", is_json=False)
        assert elsewhere("hooks", "rotate", "far")["secret"] != own
        assert elsewhere("hooks", "rotate", "far", "--secret", own)["secret"] == own
        assert elsewhere("hooks", "log", "far") == []
        assert elsewhere("hooks", "replay", "far", "--since", "1s") == {"events": 0}
        assert elsewhere("hooks", "replay", "far", "--failed")["letters"] == 0
        with pytest.raises(StackError, match="there is a hook far already"):
            elsewhere("hooks", "add", "far", url)
    finally:
        elsewhere("hooks", "delete", "far", is_json=False)
    with pytest.raises(StackError, match="there is no hook far"):
        elsewhere("hooks", "show", "far")


def test_letters(room: Room, elsewhere: Elsewhere, tmp_path: Path) -> None:
    for offset in range(5):
        room.park(offset, value=b'{"value": 2%d,5}' % offset)
    room.index()
    assert [one["letters"] for one in elsewhere("letters", "list", "--by", "cause")] == [5]
    listed = elsewhere("letters", "list", "--cause", "not_json", "--limit", "2")
    assert len(listed) == 2
    assert elsewhere("letters", "list", "--cause", "wrong_type") == []
    first = elsewhere("letters", "list")[0]["id"]
    assert elsewhere("letters", "show", first)["cause"] == "not_json"
    mended = tmp_path / "mended.json"
    mended.write_text('{"value": 7}')
    assert elsewhere("letters", "try", first)["outcome"] == "parked"
    tried = elsewhere("letters", "try", first, "--file", str(mended))
    assert tried["outcome"] != "parked", tried
    assert elsewhere("letters", "redrive", first, "--file", str(mended))["sent"] == 1
    assert [value for _, value, _ in room.sent()] == [b'{"value": 7}']
    comma = "sed -E 's/([0-9]),([0-9])/\\1.\\2/'"
    sent = elsewhere("letters", "redrive", "--cause", "not_json", "--through", comma)
    assert (sent["sent"], sent["refused"]) == (4, 0)
    values = sorted(value for _, value, _ in room.sent())[:4]
    assert values == sorted(b'{"value": 2%d.5}' % n for n in range(5) if _is_left(n, values))
    with pytest.raises(StackError, match="there is no letter"):
        elsewhere("letters", "show", "nothing")
    room.park(9)
    room.index()
    begun = elsewhere("letters", "redrive", "--all", "--no-wait")
    assert (begun["letters"], begun["status"]) == (1, "running")
    assert "stopped" in elsewhere("letters", "stop", str(begun["id"]), is_json=False)
    assert elsewhere("letters", "redrives")[0]["status"] == "stopped"
    assert elsewhere("letters", "discard", "--all", "--reason", "a test") == {"discarded": 1}
    assert elsewhere("letters", "audit", "--limit", "1")[0]["what"] == "discard"


def _is_left(number: int, values: list[bytes]) -> bool:
    return b'{"value": 2%d.5}' % number in values


def test_what_waits(room: Room, elsewhere: Elsewhere) -> None:
    name = "w-elsewhere/1"
    told = Told(3, 1_700_000_000_000, "ingest.telemetry.v1/0/0", "not_yet", "away", {"0": 5})
    room.write("gate.enrich.v1", name.encode(), gate_value(told), [])
    try:
        listed = elsewhere("waiting", "list", "--reason", "not_yet", "--stage", "enrich")
        assert name in {one["entity_id"] for one in listed}
        assert elsewhere("waiting", "show", name)["reason"] == "not_yet"
        assert "1 entity" in elsewhere("waiting", "try", name, is_json=False)
    finally:
        room.write("gate.enrich.v1", name.encode(), None, [])
    with pytest.raises(StackError, match="waits"):
        elsewhere("waiting", "show", "nobody-at-all")


def test_where_and_try(elsewhere: Elsewhere) -> None:
    unknown = "01a1fe21-64e7-7df2-bd10-eeb3ebef5579"
    assert elsewhere("where", unknown)["now"]
    with pytest.raises(StackError):
        elsewhere("where", unknown, "--place", "nowhere/0/0")
    tried = elsewhere("try", "telemetry", "device-0001", given=b"{")
    assert (tried["outcome"], tried["cause"]) == ("parked", "not_json")
    with pytest.raises(StackError, match="no such endpoint"):
        elsewhere("try", "nothing", "device-0001", given=b"{}")
