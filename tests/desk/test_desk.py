"""The desk for dead letters on a real broker and PostgreSQL."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from prometheus_client.exposition import generate_latest
from typer.testing import CliRunner

from desk.api.metrics import DeskMetrics
from desk.letters import indexer, redrive
from desk.letters.redrive_store import RedriveBook
from desk.letters.redrive_target import always
from desk.letters.selection import Selection
from local_stack import cli
from local_stack.terminal.errors import StackError
from shared.events import envelope, redelivery
from shared.events.envelope import EventRecord, Header, Position, event_value, failure_headers
from shared.flow import FLOW
from shared.folding import snapshot
from shared.folding.applier import Applier
from shared.published.ledger import Verdict
from tests.builders import event_record
from tests.desk import dom
from tests.desk.desk_room import Room

pytestmark = pytest.mark.stack
ANY = Selection()
TYPES = {row.name: row for row in FLOW.event_types}
INGEST = {endpoint.topic for endpoint in FLOW.endpoints}


def test_letters_are_listed_grouped_and_paged(room: Room) -> None:
    for offset in range(5):
        room.park(offset, cause="not_json" if offset else "empty")
    room.index()
    rows, following = room.book.page(Selection(status="parked"), 3)
    more, end = room.book.page(Selection(status="parked"), 3, following)
    assert len({row["id"] for row in (*rows, *more)}) == 5
    assert end is None
    assert {"id", "cause", "stage", "endpoint", "entity_id", "payload_sha256"} <= rows[0].keys()
    groups = room.book.groups("cause", Selection())
    assert [(row["cause"], row["letters"]) for row in groups] == [("not_json", 4), ("empty", 1)]
    for by in ("stage", "endpoint", "entity_id", "hour", "software"):
        assert sum(row["letters"] for row in room.book.groups(by, Selection())) == 5


def test_what_is_read_again_is_known_and_what_comes_back_says_how_often(room: Room) -> None:
    room.park(1)
    room.park(1)  # a stage that began again from its checkpoint
    room.index()
    assert (room.only()["times"], room.only()["status"]) == (1, "parked")
    room.ann.send_now([str(room.only()["id"])], "ann")
    room.park(1)  # and once more, late
    room.index()
    assert room.only()["status"] == "redriven"
    room.park(1, b"[", attempt=1, cause="not_an_object")
    room.index()
    assert (room.only()["times"], room.only()["status"]) == (2, "parked")
    known = room.book.find(str(room.only()["id"]))
    assert known
    assert [(a.number, a.cause) for a in known.attempts] == [(0, "not_json"), (1, "not_an_object")]


def test_a_letter_of_any_kind_is_indexed_and_shown(room: Room) -> None:
    strange: tuple[Header, ...] = (("raw", b"\xff\x00"), ("nul", b"\0"))
    newer = ((envelope.SOFTWARE, b"99.9"), (envelope.ATTEMPTS, b"\xff"))
    room.park(1, b"\xff\x00\xfe", key=b"\xff\0key")
    room.park(2, b"x" * 1_048_576)
    room.park(3, None, own=strange)
    room.park(4, own=newer)
    room.park(5, topic="ingest.gone.v1")
    room.index()
    shown = {str(row["origin"]): room.desk.show(row["id"]) for row in room.book.page(ANY, 10)[0]}
    assert len(shown) == 5
    assert orjson.dumps([*shown.values()], default=str)
    no_text, large = shown["ingest.telemetry.v1/0/1"], shown["ingest.telemetry.v1/0/2"]
    assert no_text["payload_bytes"]["text"] is None
    assert no_text["payload_bytes"]["hex"] == [f"00000000  {'ff 00 fe':<48} ..."]
    assert large["payload_bytes"]["text"] == "x" * 1_048_576
    assert shown["ingest.gone.v1/0/5"]["endpoint"] == "gone"
    for letter in shown.values():
        assert room.desk.try_again(letter["id"]).outcome in ("parked", "refused")


def test_a_letter_goes_back_as_it_came_to_the_stage_that_could_not_do_it(room: Room) -> None:
    room.park(7, b"\xff\xfe", own=((envelope.ID, b"event-7"), ("x-own", b"\xff")))
    room.index()
    sent = room.ann.send_now(room.ids(), "ann")
    assert sent.refusals == {}
    ((topic, value, headers),) = room.sent()
    assert (topic, value) == ("again.enrich.v1", b"\xff\xfe")
    first = redelivery.FirstArrival(Position("ingest.telemetry.v1", 0, 7), 1_700_000_000_000, 1)
    assert redelivery.first_of(headers, INGEST) == first
    told = dict(headers)
    assert (told["x-own"], told[envelope.ID]) == (b"\xff", b"event-7")
    assert [one["cause"] for one in orjson.loads(told[envelope.ATTEMPTS])] == ["not_json"]
    assert envelope.REASON not in told


def test_changed_bytes_go_with_the_sha256_of_both(room: Room) -> None:
    room.park(8, b"{", own=((envelope.PAYLOAD_SHA256, b"0" * 64),))
    room.index()
    posted = str(room.only()["payload_sha256"])
    room.ann.send_now(room.ids(), "ann", always(b'{"value": 1}'))
    ((_, value, headers),) = room.sent()
    told = dict(headers)
    assert value == b'{"value": 1}'
    assert told[envelope.REWRITTEN].decode() == posted
    assert told[envelope.PAYLOAD_SHA256] not in (b"0" * 64, posted.encode())
    assert room.book.audit(1)[0]["what"] == "redrive changed"


def test_a_whole_cause_goes_with_what_a_command_makes_of_each(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _run(room, monkeypatch)
    for offset, value in enumerate((b'{"value": 20,5}', b'{"value": 21,5}', b"odd", b"\xff")):
        room.park(offset, value)
    room.park(9, cause="empty")
    room.index()
    command = r"sed -E 's/([0-9]),([0-9])/\1.\2/' | grep -a value"
    told = run("redrive", "--cause", "not_json", "--through", command)
    assert (told["sent"], told["refused"]) == (2, 2)
    assert {*told["refusals"].values()} == {"the command ends with 1"}
    assert {value for _, value, _ in room.sent()} == {b'{"value": 20.5}\n', b'{"value": 21.5}\n'}
    assert len(room.ids(status="parked")) == 3
    (noted,) = run("audit")
    assert (noted["what"], noted["letters"], noted["reason"]) == ("redrive changed", 4, command)


def test_two_operators_have_one_effect(room: Room) -> None:
    for offset in range(3):
        room.park(offset)
    room.index()
    rows = room.book.parked(Selection(), 10)
    assert [len(room.ann.send(rows).ids), len(room.bob.send(rows).ids)] == [3, 0]
    assert len(room.sent()) == 3
    late = room.bob.send_now([rows[0]["id"]], "bob")
    assert "not parked" in late.refusals[rows[0]["id"]]
    assert len(room.book.audit(10)) == 0


def test_a_redrive_of_many_is_stopped_and_goes_on_and_meets_each_letter_once(room: Room) -> None:
    for offset in range(9):
        room.park(offset, cause="not_json" if offset < 7 else "empty")
    room.index()
    redrives = RedriveBook(room.book)
    begun = redrives.begin(Selection(cause="not_json"), 500, "ann")
    assert begun.letters == 7
    assert redrive.step(room.ann, redrives, begun.id, 3) == 3
    redrives.change(begun.id, "stopped", "bob")
    assert redrive.step(room.ann, redrives, begun.id, 3) == 0
    room.park(0, attempt=1)  # one of them fails again
    room.index()
    redrives.change(begun.id, "running", "ann")
    looked_at = [redrive.step(room.ann, redrives, begun.id, 3) for _ in range(4)]
    found = redrives.find(begun.id)
    assert found
    assert (found.status, found.sent, found.refused) == ("done", 7, 0)
    assert sum(looked_at) == 4
    assert len(room.sent()) == 7
    assert len(room.ids(status="parked")) == 3
    whats = [row["what"] for row in room.book.audit(10)]
    assert whats == ["resume redrive", "stop redrive", "redrive"]


def test_what_has_become_a_row_is_done(room: Room) -> None:
    room.park(1, own=((envelope.ID, b"event-1"),))
    room.index()
    room.ann.send_now(room.ids(), "ann")
    assert room.book.note_stored() == 0
    room.admin.execute(
        """INSERT INTO headrace.event (event_id, type, entity_id, event_time, arrived_at, origin,
               position, data) VALUES ('event-1', 'reading', 'd', now(), now(),
                   'ingest.telemetry.v1/0/1', 'event.reading.v1/0/1', '{}')"""
    )
    assert room.book.note_stored() == 1
    assert room.only()["status"] == "done"


def test_what_goes_to_a_hook_again_is_not_done_because_it_has_a_row(room: Room) -> None:
    room.park(1, own=((envelope.ID, b"event-1"),))
    room.index()
    room.ann.send_now(room.ids(), "ann")
    room.admin.execute("UPDATE headrace.letter SET stage = 'forward'")
    room.admin.execute(
        """INSERT INTO headrace.event (event_id, type, entity_id, event_time, arrived_at, origin,
               position, data) VALUES ('event-1', 'reading', 'd', now(), now(),
                   'ingest.telemetry.v1/0/1', 'event.reading.v1/0/1', '{}')"""
    )
    assert room.book.note_stored() == 0


def test_what_is_undecided_is_told(room: Room) -> None:
    for offset in range(3):
        room.park(offset)
    room.index()
    room.ann.send_now(room.ids(), "ann")
    room.park(0, attempt=1)
    room.park(1, attempt=1)
    room.index()
    told = room.book.undecided()
    assert told.pop("oldest_s") >= 0
    assert told == {"parked": 2, "redriven": 1, "came_back": 2}
    metrics = generate_latest(DeskMetrics(room.book)).decode()
    assert 'headrace_letters_redriven_total{stage="enrich"} 3.0' in metrics
    assert 'headrace_letters_failed_again_total{stage="enrich"} 2.0' in metrics


def test_a_discarded_letter_is_counted_as_such_by_the_ledger(room: Room) -> None:
    room.park(5)
    room.park(6, topic="ingest.status.v1")
    room.index()
    assert room.book.discard(Selection(endpoint="telemetry"), "ann", "a test device") == 1
    assert room.book.discard(Selection(endpoint="telemetry"), "ann", "again") == 0
    journal = room.admin.execute(
        "SELECT topic, partition, first, verdicts FROM headrace.ledger_journal"
    ).fetchall()
    assert journal == [("ingest.telemetry.v1", 0, 5, bytes([Verdict.DISCARDED]))]
    # whoever keeps others back behind it hears of it
    (told,) = room.sent()
    assert told[:2] == ("again.enrich.v1", b"")
    assert (envelope.ORIGIN, b"ingest.telemetry.v1/0/5") in told[2]
    assert (envelope.DISCARDED, b"1") in told[2]
    (noted,) = room.book.audit(10)
    assert (noted["by"], noted["what"], noted["letters"]) == ("ann", "discard", 1)
    assert noted["reason"] == "a test device"
    assert room.ann.send_now(room.ids(status="discarded"), "bob").ids == []


def test_what_persist_could_not_store_is_stored_here(room: Room) -> None:
    fit, unfit = event_record(1), event_record(2, id="x" * 3000)
    for record in (fit, unfit):
        headers = failure_headers(
            envelope.event_headers(record), "persist", record.position, "refused_by_store", "full"
        )
        room.write("dlq.persist.v1", record.entity_id.encode(), event_value(record), headers)
    room.index()
    sent = room.ann.send_now(room.ids(), "ann")
    assert len(sent.ids) == 1
    (refusal,) = sent.refusals.values()
    assert refusal.startswith("id_too_long")
    assert room.book.stored([fit.id]) == {fit.id}
    assert room.ids(status="done") == sent.ids
    (failed,), _ = room.book.page(Selection(status="parked"), 10)
    assert (failed["cause"], failed["times"], failed["attempt"]) == ("id_too_long", 2, 1)


def test_a_row_is_not_stored_before_those_that_it_waited_behind(room: Room) -> None:
    for offset in (3, 5):
        record = event_record(offset)
        headers = failure_headers(
            envelope.event_headers(record), "persist", record.position, "line_full", "full"
        )
        room.write("dlq.persist.v1", record.entity_id.encode(), event_value(record), headers)
    room.index()
    room.admin.execute(
        """INSERT INTO headrace.waiting_row
               (topic, partition, "offset", line, headers, due_at, reason, detail)
           VALUES ('event.reading.v1', 0, 4, 'device-0001', '[]', now(), '23503', ''),
                  ('event.reading.v1', 0, 1, 'device-0002', '[]', now(), '23503', ''),
                  ('state.device.v1', 0, 1, 'device-0001', '[]', now(), '23503', '')"""
    )
    try:
        sent = room.ann.send_now(room.ids(), "ann")
    finally:
        room.admin.execute("DELETE FROM headrace.waiting_row")
    assert room.book.stored(["event-3", "event-5"]) == {"event-3"}
    assert len(sent.ids) == 1
    ((refused, why),) = sent.refusals.items()
    assert "came before it wait" in why
    assert room.ids(status="parked") == [refused]
    assert room.ann.send_now([refused], "ann").ids == [refused]
    assert room.book.stored(["event-5"]) == {"event-5"}


def test_what_fold_could_not_take_goes_back_to_fold_as_the_same_event(room: Room) -> None:
    record = event_record(4)
    headers = failure_headers((), "fold", record.position, "fold_failed", "KeyError")
    room.write("dlq.fold.v1", record.entity_id.encode(), event_value(record), headers)
    room.index()
    room.ann.send_now(room.ids(), "ann")
    ((topic, value, _),) = room.sent()
    assert topic == "event.reading.v1"
    sent = envelope.read_event(record.position, value)
    assert sent == record._replace(attempt=1)

    def note_folded(*records: EventRecord, parked: list[str]) -> str:
        entity = FLOW.entities[0]
        now = Applier(entity, 64, TYPES).apply(record.entity_id, None, records).snapshot
        assert now
        now.parked = parked
        indexer.note_folded(FLOW, room.book, lambda *_: snapshot.encode(now, "fold"))
        return str(room.only()["status"])

    room.book.note_stored()
    assert note_folded(record, parked=[record.id]) == "redriven"
    assert note_folded(event_record(5), parked=[]) == "redriven"
    assert note_folded(sent, parked=[]) == "done"


def test_what_cannot_go_back_is_refused_with_what_can_be_done(room: Room) -> None:
    place = Position("state.device.v1", 0, 0)
    headers = failure_headers((), "aggregate", place, "share_failed", "")
    room.write("dlq.aggregate.v1", b"device-0001", b"{}", headers)
    reused = event_record(6)
    headers = failure_headers((), "persist", reused.position, "key_reuse", "")
    room.write("dlq.persist.v1", b"device-0001", event_value(reused), headers)
    room.park(1, topic="ingest.gone.v1")
    room.index()
    refusals = room.ann.send_now(room.ids(), "ann").refusals
    assert len(refusals) == 3
    assert all("discard" in refusal for refusal in refusals.values())
    assert room.sent() == []
    assert len(room.ids(status="parked")) == 3


def _run(room: Room, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`./headrace letters …`"""
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", room.settings.kafka_bootstrap)
    monkeypatch.setenv("HEADRACE_POSTGRES_URL", room.settings.postgres_url.get_secret_value())

    def run(*arguments: str) -> Any:
        done = CliRunner().invoke(cli.app, ["letters", *arguments, "-o", "json"])
        assert done.exit_code == 0, done.exception
        return orjson.loads(done.stdout)

    return run


def test_the_command_line_does_what_the_desk_does(
    room: Room, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = _run(room, monkeypatch)
    for offset in range(3):
        room.park(offset, cause="empty" if offset == 2 else "not_json")
    room.index()
    listed = run("list", "--cause", "not_json")
    assert len(listed) == 2
    names = {"id", "cause", "stage", "endpoint", "entity_id", "payload_sha256"}
    assert names <= listed[0].keys()
    first = listed[0]["id"]
    assert run("list", "--by", "cause")[0]["letters"] == 2
    assert run("show", first)["payload_bytes"]["text"] == "{"
    mended = tmp_path / "mended.json"
    mended.write_bytes(b'["no object"]')
    assert run("try", first, "--file", str(mended))["cause"] == "not_an_object"
    assert run("redrive", first, "--file", str(mended))["sent"] == 1
    assert "not parked" in run("redrive", first)["refusals"][first]
    assert run("try", listed[1]["id"], "--through", "sed 's/{/[]/'")["cause"] == "not_an_object"
    assert "leaves" in run("try", listed[1]["id"], "--through", "cat")["detail"]
    assert run("discard", "--cause", "not_json", "--reason", "why")["discarded"] == 1
    assert run("redrive", "--all", "--no-wait")["letters"] == 1
    assert [row["what"] for row in run("audit")] == ["redrive", "discard", "redrive changed"]
    nobody = CliRunner().invoke(cli.app, ["letters", "show", "nobody"]).exception
    assert isinstance(nobody, StackError)
    assert "list" in nobody.fix


def test_a_browser_finds_tries_and_redrives_a_letter_and_the_audit_tells_it(room: Room) -> None:
    room.park(1, b'{"value": "<script>"}', cause="<b>")
    room.index()

    async def steps(http: httpx.AsyncClient) -> None:
        found = dom.read((await http.get("/")).text)
        (link,) = [one for one in found.all("a") if "/letters/" in str(one.attributes["href"])]
        letter = dom.read((await http.get(str(link.attributes["href"]))).text)
        assert '{"value": "<script>"}' in [one.text for one in letter.all("pre")]
        (form,) = [f for f in letter.all("form") if "/try" in str(f.attributes["action"])]
        sent = {**form.fields(), "bytes": "[]"}
        tried = dom.read((await http.post(str(form.attributes["action"]), data=sent)).text)
        assert "It would be parked again not_an_object" in tried.text
        (button,) = [one for one in form.all("button") if "formaction" in one.attributes]
        action = str(button.attributes["formaction"])
        refused = await http.post(action, data={**sent, "csrf": "x"})
        assert refused.status_code == 403
        assert room.sent() == []
        done = dom.read((await http.post(action, data=sent)).text)
        assert "It is on its way." in done.text
        assert "redrive changed" in dom.read((await http.get("/audit")).text).text

    room.ask(steps)
    ((topic, value, _),) = room.sent()
    assert (topic, value) == ("again.enrich.v1", b"[]")


def test_a_browser_sends_unchanged_bytes_on_as_they_are(room: Room) -> None:
    for value in (b"a\r\nb\nc\r", b"\xff\x00"):
        room.park(len(value), value)
    room.index()

    async def steps(http: httpx.AsyncClient) -> None:
        for letter in room.ids():
            page = dom.read((await http.get(f"/letters/{letter}")).text)
            (form,) = [f for f in page.all("form") if "/try" in str(f.attributes["action"])]
            # as browsers do
            lines = re.split("\r\n|\r|\n", form.fields()["bytes"])
            sent = {**form.fields(), "bytes": "\r\n".join(lines)}
            assert "on its way" in (await http.post(f"/letters/{letter}/redrive", data=sent)).text

    room.ask(steps)
    assert {value for _, value, _ in room.sent()} == {b"a\r\nb\nc\r", b"\xff\x00"}


def test_a_browser_redrives_and_discards_what_its_filters_show(room: Room) -> None:
    for offset in range(4):
        room.park(offset, cause="empty" if offset == 3 else "not_json")
    room.index()

    async def steps(http: httpx.AsyncClient) -> None:
        page = dom.read((await http.get("/", params={"status": "parked", "cause": "empty"})).text)
        (form,) = [f for f in page.all("form") if f.attributes["action"] == "/discard"]
        answer = await http.post(
            "/discard", data={**form.fields(), "reason": "a test", "all": "yes"}
        )
        assert "1 discarded" in answer.text
        page = dom.read((await http.get("/")).text)
        *_, form = [f for f in page.all("form") if f.attributes["action"] == "/redrive"]
        begun = await http.post("/redrive", data={**form.fields(), "all": "yes"})
        assert begun.headers["location"] == "/redrives"
        page = dom.read((await http.get("/redrives")).text)
        (form,) = [f for f in page.all("form") if "stop" in str(f.attributes["action"])]
        await http.post(str(form.attributes["action"]), data=form.fields())
        assert "Resume" in dom.read((await http.get("/redrives")).text).text
        nothing = await http.post("/redrive", data={"csrf": form.fields()["csrf"]})
        assert nothing.status_code == 400

    room.ask(steps)


def test_a_program_does_the_same_by_the_api(room: Room) -> None:
    for offset in range(3):
        room.park(offset)
    room.index()

    async def steps(http: httpx.AsyncClient) -> None:
        first = (await http.get("/api/letters", params={"limit": 2})).json()
        rest = (await http.get("/api/letters", params={"after": first["next"]})).json()
        ids = [row["id"] for row in (*first["letters"], *rest["letters"])]
        assert len(set(ids)) == 3
        assert (await http.get("/api/groups")).json()["groups"][0]["letters"] == 3
        assert (await http.get(f"/api/letters/{ids[0]}")).json()["id"] == ids[0]
        tried = await http.post(f"/api/letters/{ids[0]}/try", json={"base64": "W10="})
        assert tried.json()["cause"] == "not_an_object"
        sent = await http.post("/api/redrives", json={"ids": ids[:1], "base64": "W10="})
        assert sent.json() == {"ids": ids[:1], "refusals": {}}
        gone = await http.post("/api/discards", json={"ids": ids[1:2], "reason": "why"})
        assert gone.json() == {"discarded": 1}
        begun = await http.post("/api/redrives", json={"cause": "not_json", "per_second": 10})
        assert (begun.status_code, begun.json()["letters"]) == (202, 1)
        stopped = await http.post(f"/api/redrives/{begun.json()['id']}/stop")
        assert stopped.json()["status"] == "stopped"
        assert len((await http.get("/api/audit")).json()["audit"]) == 4
        metrics = (await http.get("/metrics")).text
        told = 'headrace_letters{cause="not_json",stage="enrich",status="discarded"} 1.0'
        assert told in metrics
        for path, body in (
            ("/api/redrives", {}),
            ("/api/discards", {"everything": True, "reason": " "}),
            ("/api/redrives", {"cause": "a\0b"}),
            ("/api/redrives", {"nonsense": 1}),
        ):
            assert (await http.post(path, json=body)).status_code in (400, 422), body
        for path in (
            "/api/letters?since=never",
            "/api/groups?by=detail",
            "/?status=odd",
            "/?after=x",
        ):
            assert (await http.get(path)).status_code == 400, path
        missing = await http.get("/letters/nobody")
        assert missing.status_code == 404
        assert "there is no letter 'nobody'" in dom.read(missing.text).text

    room.ask(steps)


def _forms_of(page: dom.Element, action: str) -> list[dict[str, str]]:
    return [form.fields() for form in page.all("form") if form.attributes["action"] == action]


def test_discard_all_means_what_the_page_showed(room: Room) -> None:
    """A letter that comes between the page and the click, and one that came back, stay parked."""
    for offset in range(3):
        room.park(offset)
    room.index()
    back = room.ids()[0]

    async def steps(http: httpx.AsyncClient) -> None:
        page = dom.read((await http.get("/")).text)
        assert "Discard all 3" in page.text
        (fields,) = _forms_of(page, "/discard")
        (offset,) = [n for n in range(3) if n == int(str(room.desk.show(back)["origin"])[-1])]
        room.ann.send_now([back], "ann")
        room.park(offset, attempt=1)
        room.park(7)
        room.index()
        answer = await http.post("/discard", data={**fields, "reason": "why", "all": "yes"})
        assert "2 discarded" in answer.text

    room.ask(steps)
    assert back in room.ids(status="parked")
    assert len(room.ids(status="parked")) == 2


def test_redrive_all_means_what_the_page_showed(room: Room) -> None:
    room.park(1)
    room.index()

    async def steps(http: httpx.AsyncClient) -> None:
        page = dom.read((await http.get("/")).text)
        *_, fields = _forms_of(page, "/redrive")
        room.park(2)
        room.index()
        await http.post("/redrive", data={**fields, "all": "yes"})

    room.ask(steps)
    redrives = RedriveBook(room.book)
    (begun,) = redrives.running()
    room.park(3)
    room.index()
    assert begun.letters == 1
    assert [redrive.step(room.ann, redrives, begun.id, 5) for _ in range(2)] == [1, 0]
    assert len(room.ids(status="parked")) == 2


def test_a_letter_that_changed_since_its_page_was_shown_is_not_discarded(room: Room) -> None:
    room.park(1)
    room.index()
    (letter,) = room.ids()

    async def steps(http: httpx.AsyncClient) -> None:
        (fields,) = _forms_of(dom.read((await http.get(f"/letters/{letter}")).text), "/discard")
        room.ann.send_now([letter], "ann")
        room.park(1, attempt=1, cause="other")
        room.index()
        answer = await http.post("/discard", data={**fields, "reason": "why", "all": "yes"})
        assert "0 discarded" in answer.text

    room.ask(steps)


def test_a_program_and_the_command_line_bind_what_they_do_to_what_they_were_told(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _run(room, monkeypatch)
    room.park(1)
    room.index()
    up_to = room.book.mark()

    async def steps(http: httpx.AsyncClient) -> None:
        told = (await http.get("/api/letters")).json()["up_to"]
        room.park(2)
        room.index()
        for body in ({}, {"up_to": told}):  # a mark alone says not which
            refused = await http.post("/api/discards", json={**body, "reason": "why"})
            assert refused.status_code == 400
        odd = {"up_to": "x", "everything": True, "reason": "why"}
        assert (await http.post("/api/discards", json=odd)).status_code == 400
        meant = {"up_to": told, "everything": True}
        begun = await http.post("/api/redrives", json={**meant, "per_second": 1})
        assert begun.json()["letters"] == 1
        gone = await http.post("/api/discards", json={**meant, "reason": "why"})
        assert gone.json() == {"discarded": 1}

    room.ask(steps)
    assert run("discard", "--all", "--up-to", up_to, "--reason", "why")["discarded"] == 0
    assert len(run("list")) == 1
    listed = CliRunner().invoke(cli.app, ["letters", "list"]).stdout
    up_to = listed.rpartition("--up-to ")[2].strip()
    room.park(3)
    room.index()
    assert run("redrive", "--all", "--no-wait", "--up-to", up_to)["letters"] == 1
    assert run("discard", "--all", "--up-to", up_to, "--reason", "why")["discarded"] == 1
    wrong = CliRunner().invoke(cli.app, ["letters", "list", "--up-to", "yesterday"]).exception
    assert isinstance(wrong, StackError)


def test_the_counts_are_kept_by_whatever_is_done_to_letters(room: Room) -> None:
    def counted() -> set[tuple[object, ...]]:
        query = """SELECT status, stage, cause, count(*), count(*) FILTER (WHERE times > 1),
                          sum(times - 1) FROM headrace.letter GROUP BY 1, 2, 3"""
        return {*room.admin.execute(query)}

    def kept() -> set[tuple[object, ...]]:
        query = """SELECT status, stage, cause, sum(letters), sum(came_back), sum(again)
                   FROM headrace.letter_count GROUP BY 1, 2, 3 HAVING sum(letters) <> 0"""
        return {*room.admin.execute(query)}

    for offset in range(5):
        room.park(offset, cause="empty" if offset == 4 else "not_json")
    room.index()
    room.ann.send_now(room.ids()[:3], "ann")
    room.park(0, attempt=1, cause="other")
    room.index()
    room.book.note_failed_again(room.ids()[1], "worse", "why")
    room.book.discard(Selection(cause="empty"), "ann", "why")
    assert kept() == counted() != set()
    rows = room.admin.execute("SELECT count(*) FROM headrace.letter_count").fetchone()
    room.admin.execute("INSERT INTO headrace.letter_count SELECT 'x', 'x', 'x', 1, 0, 0"
                       " FROM generate_series(1, 2000)")  # fmt: skip
    room.book.sum_counts_up()
    assert rows is not None
    assert kept() - {("x", "x", "x", 2000, 0, 0)} == counted()
    left = room.admin.execute("SELECT count(*) FROM headrace.letter_count").fetchone()
    assert left is not None
    assert left[0] <= rows[0] + 1
    room.admin.execute("DELETE FROM headrace.letter")
    room.admin.execute("DELETE FROM headrace.letter_count WHERE status = 'x'")
    assert kept() == counted() == set()
    assert room.book.undecided() == {"parked": 0, "redriven": 0, "came_back": 0, "oldest_s": None}
