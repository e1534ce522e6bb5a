"""Hooks by the command line and by the API, on a real broker."""

import asyncio
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from clients.kafka.create_topics import ensure_topics
from desk import app
from desk.app import create_app
from desk.hooks.service import HookDesk
from desk.letters.store import open_book
from gateway.auth.authenticate import unauthenticated
from gateway.auth.caller import Caller
from gateway.http.message import ByName
from local_stack import cli
from local_stack.run.stack import Stack
from local_stack.terminal.errors import StackError
from shared.events.envelope import event_headers, event_value
from shared.flow import load_flow
from shared.folding import snapshot
from shared.folding.snapshot import Snapshot
from shared.ids import NO_TENANT
from shared.kafka_access import KafkaAwayError
from shared.settings import GatewaySettings
from shared.settings.secret_box import box_of_hooks
from tests.builders import event_record
from tests.desk import dom
from tests.kafka_log import Record, eventually, read_topic

pytestmark = pytest.mark.stack
URL = "https://example.org/in"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One for all: a topic that was deleted and made anew has no leader for a while."""
    folder = tmp_path_factory.mktemp("hooks")
    with Stack(folder, random_ports=True, services=("kafka",)) as stack:
        settings = GatewaySettings(kafka_bootstrap=stack.kafka_bootstrap, state_dir=folder)
        ensure_topics(load_flow(), settings)
        eventually(lambda: _answers(settings))
        yield stack.kafka_bootstrap


@pytest.fixture
def settings(broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatewaySettings:
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", broker)
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path))
    return GatewaySettings(kafka_bootstrap=broker, state_dir=tmp_path)


def desk_of(settings: GatewaySettings) -> HookDesk:
    return HookDesk(settings, partial(open_book, settings))


def _answers(settings: GatewaySettings) -> bool:
    try:
        desk_of(settings).all()
    except KafkaAwayError:
        return False
    return True


def run(*arguments: str) -> Any:
    """`./headrace hooks …`"""
    done = CliRunner().invoke(cli.app, ["hooks", *arguments])
    if isinstance(done.exception, StackError):
        return done.exception.what
    assert done.exit_code == 0, done.exception
    return orjson.loads(done.stdout) if "json" in arguments else done.stdout


def ask(settings: GatewaySettings, steps: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
    async def asks() -> None:
        transport = httpx.ASGITransport(create_app(settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            await steps(http)

    asyncio.run(asks())


def test_a_hook_is_added_changed_and_deleted_by_the_command_line(
    settings: GatewaySettings,
) -> None:
    assert "There is no hook" in run("list")
    made = run("add", "alarms", URL, "--type", "reading", "--where", "value > 30", "-o", "json")
    assert made["secret"].startswith("whsec_")
    (listed,) = run("list", "-o", "json")
    assert listed["state"] == "active"
    shown = run("show", "alarms", "-o", "json")
    assert shown["types"] == ["reading"]
    assert made["secret"] not in orjson.dumps(shown).decode()
    run("pause", "alarms")
    assert run("show", "alarms", "-o", "json")["state"] == "paused"
    assert "resume it first" in run("test", "alarms")
    run("resume", "alarms")
    other = run("rotate", "alarms", "-o", "json")["secret"]
    assert run("show", "alarms", "-o", "json")["secrets"] == 2
    # nobody who reads the topic has a secret, and who has the key has both
    last = read_topic(settings.kafka_bootstrap, "hooks.v1")[-1].value or b""
    assert made["secret"].encode() not in last
    box = box_of_hooks(settings.hooks_key_path)
    sealed = [b64decode(one["sealed"]) for one in orjson.loads(last)["secrets"]]
    assert [box.open(b"alarms", one) for one in sealed] == [other.encode(), made["secret"].encode()]
    assert all(box.open(b"another", one) is None for one in sealed)
    assert settings.hooks_key_path.stat().st_mode & 0o077 == 0
    run("delete", "alarms")
    assert run("list", "-o", "json") == []


def test_a_hook_that_is_added_anew_is_never_taken_for_the_one_before(
    settings: GatewaySettings,
) -> None:
    revisions = []
    for _ in range(2):
        run("add", "again", URL)
        revisions.append(desk_of(settings)._read()[0].all()[0].revision)
        run("rotate", "again")
        revisions.append(desk_of(settings)._read()[0].all()[0].revision)
        run("delete", "again")
    assert revisions == sorted({*revisions})
    hooks = read_topic(settings.kafka_bootstrap, "hooks.v1")
    deleted = {one.key for one in hooks if one.value is None}
    assert {b"again", b"again/status"} <= deleted


def test_events_of_a_window_are_replayed_to_one_hook(settings: GatewaySettings) -> None:
    run("add", "replayed", URL, "--type", "reading", "--where", "value > 20")
    producer = Producer({"bootstrap.servers": settings.kafka_bootstrap})
    for number in range(6):
        entity = f"device-{number % 2:04}"
        one = event_record(number, entity_id=entity, id=f"replay-{number}", value=18.0 + number)
        value, headers = event_value(one), event_headers(one)
        producer.produce("event.reading.v1", value, entity, headers=headers)
    producer.flush(60)
    window = ("replay", "replayed", "-o", "json", "--since", "1h")
    assert run(*window) == {"events": 3}
    assert run(*window, "--entity", "device-0001") == {"events": 2}
    assert run(*window, "--until", "30m") == {"events": 0}
    assert "is empty" in run("replay", "replayed", "--since", "1h", "--until", "2h")
    assert run("replay", "nobody", "--since", "1h") == "there is no hook nobody"
    its = [r for r in read_topic(settings.kafka_bootstrap, "again.forward.v1")
           if r.headers.get("ce_hook") == b"replayed"]  # fmt: skip
    assert sorted(r.headers["ce_id"] for r in its) == sorted(
        f"replay-{number}".encode() for number in (3, 4, 5, 3, 5)
    )
    assert {r.headers["ce_replay"] for r in its} == {b"1"}
    assert its[0].headers["ce_origin"].startswith(b"event.reading.v1/")
    run("delete", "replayed")


def test_the_states_of_a_window_are_replayed_as_the_events_that_they_were(
    settings: GatewaySettings,
) -> None:
    run("add", "mirror", URL, "--of", "states", "--type", "device", "--where", "value > 1")
    producer = Producer({"bootstrap.servers": settings.kafka_bootstrap})
    for version in range(1, 4):
        value = snapshot.encode(Snapshot({"value": version}, version, 5), "f")
        producer.produce("state.device.v1", value, "mirrored")
    producer.produce("state.device.v1", b"{}", "mirrored")  # no snapshot
    producer.produce("state.device.v1", None, "mirrored")
    one = event_record(0, entity_id="mirrored", id="no-state", value=99.0)
    producer.produce("event.reading.v1", event_value(one), "mirrored", headers=event_headers(one))
    producer.flush(60)
    window = ("replay", "mirror", "-o", "json", "--since", "1h")
    assert run(*window) == {"events": 2}
    assert run(*window, "--entity", "another") == {"events": 0}
    its = [r for r in read_topic(settings.kafka_bootstrap, "again.forward.v1")
           if r.headers.get("ce_hook") == b"mirror"]  # fmt: skip
    assert [orjson.loads(one.value or b"")["data"]["version"] for one in its] == [2, 3]
    assert {one.headers["ce_type"] for one in its} == {b"state.device"}
    assert len({one.headers["ce_id"] for one in its}) == 2
    run("delete", "mirror")


WRONG = (
    (("add", "x", "http://example.org"), "must begin with https://"),
    (("add", "x", "https://169.254.169.254/latest"), "no address of the open internet"),
    (("add", "x", URL, "--type", "nothing"), "the flow has no event type nothing"),
    (("add", "x", URL, "--of", "states", "--type", "reading"), "no entity or aggregate reading"),
    (("add", "x", URL, "--where", "value >"), "is no condition"),
    (("add", "x", URL, "--secret", "whsec_AA"), "a secret is whsec_"),
    (("add", "X", URL), "a hook's name has"),
    (("show", "x"), "there is no hook x"),
    (("delete", "x"), "there is no hook x"),
    (("resume", "x"), "there is no hook x"),
)


def test_what_is_wrong_is_a_sentence_and_changes_nothing(settings: GatewaySettings) -> None:
    before = sorted(read_topic(settings.kafka_bootstrap, "hooks.v1"), key=_place)
    for arguments, said in WRONG:
        assert said in run(*arguments)
    assert sorted(read_topic(settings.kafka_bootstrap, "hooks.v1"), key=_place) == before


def _place(record: Record) -> tuple[int, int]:
    return record.partition, record.offset


def test_mails_need_a_mail_server_and_have_no_secret(
    settings: GatewaySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    mails = ("add", "mails", "mailto:ops@example.org", "--batch", "9", "--every-s", "900")
    assert "HEADRACE_MAIL_SERVER names no mail server" in run(*mails)
    monkeypatch.setenv("HEADRACE_MAIL_SERVER", "smtps://mail.example.org")
    monkeypatch.setenv("HEADRACE_MAIL_FROM", "headrace@example.org")
    assert "one address" in run("add", "mails", "mailto:ops")
    assert "say the same" in run(*mails, "--per-s", "1")
    assert run(*mails, "-o", "json") == {"name": "mails"}
    told = run("show", "mails", "-o", "json")
    assert (told["url"], told["secrets"]) == ("mailto:ops@example.org", 0)
    assert 1 / told["per_s"] == pytest.approx(900)
    assert "not signed" in run("rotate", "mails")

    async def steps(http: httpx.AsyncClient) -> None:
        made = await http.put("/api/hooks/others", json={"url": "mailto:b@example.org"})
        assert made.status_code == 201
        assert "secret" not in made.json()

    ask(GatewaySettings(kafka_bootstrap=settings.kafka_bootstrap), steps)
    run("delete", "mails")
    run("delete", "others")


def test_a_program_does_the_same_by_the_api(settings: GatewaySettings) -> None:
    async def steps(http: httpx.AsyncClient) -> None:
        made = await http.put("/api/hooks/alarms", json={"url": URL, "types": ["reading"]})
        assert made.status_code == 201
        assert made.json()["secret"].startswith("whsec_")
        assert (await http.put("/api/hooks/alarms", json={"url": URL})).status_code == 422
        ours = await http.put("/api/hooks/b", json={"url": URL, "secrets": []})
        assert ours.json()["detail"] == "secrets is not for its owner to say"
        number = await http.put("/api/hooks/b", json={"url": URL, "secret": 5})
        assert (number.status_code, number.json()["detail"]) == (422, "secret: it is no text")
        inside = await http.put("/api/hooks/b", json={"url": "https://127.0.0.1/"})
        assert inside.json()["code"] == "bad_hook"
        (listed,) = (await http.get("/api/hooks")).json()["hooks"]
        assert listed["name"] == "alarms" and "secret" not in listed
        paused = await http.post("/api/hooks/alarms/pause")
        assert paused.json()["state"] == "paused"
        assert (await http.post("/api/hooks/alarms/test")).status_code == 422
        assert (await http.post("/api/hooks/alarms/resume")).json()["state"] == "active"
        assert (await http.post("/api/hooks/alarms/test")).status_code == 202
        past = {"since": "2020-01-01T00:00:00Z", "until": "2020-01-02T00:00:00Z"}
        replay = await http.post("/api/hooks/alarms/replay", json=past)
        assert (replay.status_code, replay.json()) == (200, {"events": 0})
        wrong = await http.post("/api/hooks/alarms/replay", json={"since": "soon"})
        assert (wrong.status_code, wrong.json()["code"]) == (400, "bad_time")
        assert (await http.get("/api/hooks/alarms/log")).json() == {"tries": []}
        assert (await http.get("/api/hooks/alarms/log?since=soon")).status_code == 400
        assert (await http.post("/api/hooks/alarms/rotate")).json()["secret"]
        assert (await http.delete("/api/hooks/alarms")).status_code == 204
        assert (await http.get("/api/hooks/alarms")).json()["code"] == "no_hook"

    ask(settings, steps)


class _Operators:
    """Whose token names their tenant; `all` that of the installation."""

    def is_asking(self, method: str, _target: bytes, headers: ByName, *_: object) -> Caller:
        who = headers.get(b"authorization", b"").removeprefix(b"Bearer ").decode()
        if not who:
            raise unauthenticated(method, "Bearer")
        role = "device" if who == "device" else "operator"
        return Caller(role, NO_TENANT if who == "all" else "acme" if who == "device" else who)


def test_a_tenants_operators_have_their_own_webhooks_and_see_no_others(
    settings: GatewaySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "known_callers", lambda _: (_Operators(), None))
    asked = settings.model_copy(
        update={
            "auth": "token",
            "hooks_per_tenant_max": 2,
            "hooks_hosts_allowed": "127.0.0.1",
        }
    )
    assert asked.ways_to_ask
    run("add", "alarms", URL, "--tenant", "acme")
    run("add", "acme:by-hand", URL)

    async def steps(http: httpx.AsyncClient) -> None:
        async def by(who: str, method: str, path: str, **body: Any) -> httpx.Response:
            headers = {"authorization": f"Bearer {who}"}
            return await http.request(method, path, headers=headers, json=body or None)

        async def names(who: str) -> list[str]:
            found = (await by(who, "GET", "/api/hooks")).json()["hooks"]
            return [one["name"] for one in found]

        made = await by("acme", "PUT", "/api/hooks/acme:mine", url=URL)
        assert (made.status_code, made.json()["tenant"]) == (201, "acme")
        assert await names("acme") == ["acme:by-hand", "acme:mine"]
        assert await names("beta") == []
        assert await names("all") == ["acme:by-hand", "acme:mine", "alarms"]
        for verb in ("pause", "resume", "rotate", "test"):
            assert (await by("acme", "POST", f"/api/hooks/acme:mine/{verb}")).is_success, verb
            for who, name in (("beta", "acme:mine"), ("acme", "alarms"), ("acme", "mine")):
                refused = await by(who, "POST", f"/api/hooks/{name}/{verb}")
                assert (refused.status_code, refused.json()["code"]) == (404, "no_hook")
        others = (
            ("GET", "", {}),
            ("PUT", "", {"url": URL}),
            ("DELETE", "", {}),
            ("GET", "/log", {}),
            ("POST", "/replay", {"since": "2026-01-01T00:00:00Z"}),
            ("POST", "/replay", {"failed": True}),
        )
        for method, rest, body in others:
            refused = await by("beta", method, f"/api/hooks/acme:mine{rest}", **body)
            assert (refused.status_code, refused.json()["code"]) == (404, "no_hook")
        full = await by("acme", "PUT", "/api/hooks/acme:third", url=URL)
        assert "acme has 2 webhooks, no more may be" in full.json()["detail"]
        for fields, said in (
            ({"url": "https://127.0.0.1/in"}, "url: "),
            ({"url": URL, "tenant": "acme"}, "a webhook of beta gets what is of beta alone"),
            ({"url": "mailto:a@example.org"}, "no tenant may have"),
        ):
            refused = await by("beta", "PUT", "/api/hooks/beta:one", **fields)
            assert refused.status_code == 422
            assert said in refused.json()["detail"]
        for path in ("/api/letters", "/webhooks", "/", "/metrics", "/api/hooksX"):
            assert (await by("acme", "GET", path)).status_code == 403, path
        assert (await by("device", "GET", "/api/hooks")).status_code == 403
        assert (await http.get("/api/hooks")).status_code == 401
        assert (await by("acme", "DELETE", "/api/hooks/acme:mine")).status_code == 204

    ask(asked, steps)
    run("delete", "alarms")
    run("delete", "acme:by-hand")


def test_an_operator_sees_and_stops_a_webhook_in_a_browser(settings: GatewaySettings) -> None:
    run("add", "seen", URL, "--type", "reading")

    async def steps(http: httpx.AsyncClient) -> None:
        listed = dom.read((await http.get("/webhooks")).text)
        (link,) = [one for one in listed.all("td") for one in one.all("a") if one.text == "seen"]
        page = await http.get(str(link.attributes["href"]))

        async def press(text: str) -> httpx.Response:
            (form,) = [
                one
                for one in dom.read(page.text).all("form")
                if [button.text for button in one.all("button")] == [text]
            ]
            fields = {**form.fields(), "since": "2020-01-01T00:00:00Z"}
            action = str(form.attributes["action"])
            assert (await http.post(action, data={**fields, "csrf": "x"})).status_code == 403
            return await http.post(action, data=fields, follow_redirects=True)

        assert "events go to seen once more" in (await press("Replay")).text
        page = await press("Pause")
        assert "paused" in dom.read(page.text).text
        assert desk_of(settings).show("seen")["state"] == "paused"
        page = await press("Resume")
        page = await press("Send a test event")
        assert page.status_code == 200
        assert (await http.get("/webhooks/nobody")).status_code == 404

    ask(settings, steps)
    run("delete", "seen")
