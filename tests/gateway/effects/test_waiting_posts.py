"""POSTs that wait, on a log and a reader that are played."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import orjson
import pytest

from gateway.auth.caller import Caller
from gateway.effects import waiting_posts
from gateway.effects.answer import Posted, answer_of
from gateway.effects.effect import Effect
from gateway.effects.effect_reader import Begun
from gateway.effects.record_effects import Ended, Fact, Listener, Made, Told, Waits
from gateway.effects.wait_request import Asked
from gateway.kafka_writer.outcome import NotWritten, Spooled
from gateway.state_view.records import Row
from gateway.state_view.store import ViewStore
from shared.events.envelope import Position
from shared.flow import FLOW
from shared.timestamps import now_ms
from tests.gateway.support import Gateway, serving

STATES = "state.device.v1"
READING = Position("event.reading.v1", 0, 3)
Put = Callable[[Row], None]


class PlayedReader:
    """Tells of each payload, as soon as it is waited for, what `becomes` says."""

    becomes: tuple[Fact, ...] = ()
    fails: Exception | None = None
    begins = True
    made = 0

    def __init__(self, _: object, listener: Listener, tell: Callable[..., None]) -> None:
        type(self).made += 1
        self._listener, self._tell = listener, tell
        self._ends = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        self._ends.set()

    def _run(self) -> None:
        if self.begins:
            self._tell(Begun())
        told: set[bytes] = set()
        while not self._ends.wait(0.01):
            if self.fails is not None:
                self._tell(self.fails)
                return
            for one in {*self._listener.ids} - told:
                told.add(one)
                origin = "ingest.telemetry.v1/0/0"
                facts = [Told(one.decode(), origin, fact) for fact in self.becomes]
                self._tell(facts)


@pytest.fixture(autouse=True)
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[PlayedReader]]:
    class Played(PlayedReader):
        pass

    monkeypatch.setattr(waiting_posts, "EffectReader", Played)
    return Played


@pytest.fixture
def warm(store: ViewStore) -> None:
    store.begin_topic(STATES, "an id")
    store.caught_up([STATES], now_ms())


def _made(entity_id: str = "device-0001") -> Made:
    return Made(READING, "p", "reading", entity_id)


def _row(offset: int, version: int = 4, **meta: Any) -> Row:
    positions = {"event.reading.v1/0": offset}
    known = {"version": version, "event_time_ms": 1, "positions": positions, "rings": {}, **meta}
    value = orjson.dumps({"count": version, "_meta": known})
    return Row(STATES, b"device-0001", value, version, 1, 0, version)


def _post(gateway: Gateway, query: str, **options: Any) -> httpx.Response:
    return gateway.post(f"/v1/telemetry/device-0001?{query}", **options)


def test_who_does_not_wait_begins_no_reader(gateway: Gateway, reader: type[PlayedReader]) -> None:
    for query in ("", "timeout=x", "wait=accepted"):
        answer = _post(gateway, query)
        assert answer.status_code == 202
        assert ("reached" in answer.json()) == (query == "wait=accepted")
    assert reader.made == 0


def test_enriched_is_told_with_the_events(gateway: Gateway, reader: type[PlayedReader]) -> None:
    reader.becomes = (_made(),)
    answer = _post(gateway, "wait=enriched")
    told = answer.json()
    assert (answer.status_code, told["reached"]) == (200, "enriched")
    assert told["events"] == [{"id": "p", "type": "reading", "entity_id": "device-0001"}]
    assert (told["topic"], told["partition"], told["offset"]) == ("ingest.telemetry.v1", 0, 0)
    assert answer.headers["location"] == "/state/device-0001"


@pytest.mark.usefixtures("warm")
def test_folded_is_told_when_the_view_has_it(
    gateway: Gateway, reader: type[PlayedReader], put: Put, put_soon: Put
) -> None:
    reader.becomes = (_made(),)
    put(_row(2, 3))
    early = _post(gateway, "wait=folded&timeout=200ms")
    assert (early.status_code, early.json()["reached"]) == (202, "enriched")
    assert "timeout" in early.json()["why"]
    gateway.log.records.clear()

    put_soon(_row(3))
    answer = _post(gateway.rebuilt(), "wait=folded&timeout=20s")
    told = answer.json()
    assert (answer.status_code, told["reached"]) == (200, "folded")
    assert told["states"] == [{"entity": "device", "id": "device-0001", "version": 4}]
    assert gateway.ask("GET", "/state/device-0001").json()["version"] == 4


def test_a_view_that_is_warming_says_nothing(
    gateway: Gateway, reader: type[PlayedReader], store: ViewStore, put: Put
) -> None:
    store.begin_topic(STATES, "an id")
    reader.becomes = (_made(),)
    put(_row(3))
    assert _post(gateway, "wait=folded&timeout=200ms").json()["reached"] == "enriched"


def test_a_preference_is_applied_and_said(gateway: Gateway, reader: type[PlayedReader]) -> None:
    answer = _post(gateway, "wait=enriched", headers={"prefer": "wait=0"})
    assert answer.status_code == 202
    assert answer.headers["preference-applied"] == "wait=0"
    answer = _post(gateway.rebuilt(), "wait=enriched", headers={"prefer": "respond-async"})
    assert answer.headers["preference-applied"] == "respond-async"
    assert reader.made == 1


def test_parked_is_told_at_once(gateway: Gateway, reader: type[PlayedReader]) -> None:
    reader.becomes = (Ended("parked", "enrich", "bad_json", "it is no JSON"),)
    answer = _post(gateway, "wait=stored&timeout=30s")
    told = answer.json()
    assert (answer.status_code, told["reached"]) == (202, "accepted")
    assert told["parked"] == {"by": "enrich", "reason": "bad_json", "detail": "it is no JSON"}
    assert "why" not in told


def test_who_waits_for_what_waits_is_told_why(gateway: Gateway, reader: type[PlayedReader]) -> None:
    reader.becomes = (Waits("missing_device", "device-0001"),)
    told = _post(gateway, "wait=enriched&timeout=200ms").json()
    assert told["reached"] == "accepted"
    assert told["waits"] == {"reason": "missing_device", "detail": "device-0001"}


def test_what_is_spooled_waits_for_nothing(gateway: Gateway) -> None:
    gateway.log.failure = Spooled("ingest.telemetry.v1")
    answer = _post(gateway, "wait=folded&timeout=30s")
    told = answer.json()
    assert (answer.status_code, told["reached"], told["spooled"]) == (202, "spooled", True)


def test_what_is_refused_waits_for_nothing(gateway: Gateway) -> None:
    gateway.log.failure = NotWritten("kafka_unreachable", "Kafka is away")
    answer = _post(gateway, "wait=folded&timeout=30s")
    assert (answer.status_code, answer.json()["outcome"]) == (503, "definite")


def test_a_fault_in_writing_is_answered_though_others_wait(gateway: Gateway) -> None:
    gateway.log.failure = RuntimeError("a fault")
    assert _post(gateway, "wait=folded&timeout=30s").status_code == 500


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_log_that_cannot_be_read_holds_up_no_payload(
    gateway: Gateway,
    reader: type[PlayedReader],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_silent: bool,
) -> None:
    monkeypatch.setattr(waiting_posts, "_BEGINS_WITHIN_S", 0.2)
    reader.begins = False
    reader.fails = None if is_silent else RuntimeError("gone")
    began_s = time.monotonic()
    answer = _post(gateway, "wait=folded&timeout=30s")
    assert time.monotonic() - began_s < 20
    assert (answer.status_code, answer.json()["reached"]) == (202, "accepted")
    assert "Kafka does not say" in answer.json()["why"]
    assert len(gateway.log.records) == 1


def test_no_more_wait_than_may(gateway: Gateway, reader: type[PlayedReader]) -> None:
    few = gateway.settings.model_copy(update={"waiting_posts_max": 3})
    path = "/v1/telemetry/device-0001?wait=enriched&timeout=500ms"
    requests = [("POST", path, {"content": b"{}"})] * 5
    answers = [one.json() for one in gateway.rebuilt(few).ask_all(requests)]
    told = [one["why"] for one in answers]
    assert sum("HEADRACE_WAITING_POSTS_MAX" in why for why in told) == 2
    assert len(gateway.log.records) == 5
    assert reader.made == 1


def test_a_batch_does_not_wait(gateway: Gateway) -> None:
    lines = {"content-type": "application/x-ndjson"}
    answer = _post(gateway, "wait=folded", content=b"{}\n{}\n", headers=lines)
    assert (answer.status_code, answer.json()["code"]) == (400, "batch_waits")
    answer = _post(gateway, "", content=b"{}\n", headers={**lines, "prefer": "wait=5"})
    assert answer.status_code == 207
    assert _post(gateway, "wait=soon").json()["code"] == "bad_wait"


def test_a_waiting_payload_takes_no_room_of_others(gateway: Gateway) -> None:
    """There is room for four bodies, and the ten that wait have come one after the other."""
    settings = gateway.settings.model_copy(
        update={"in_flight_bytes_max": 4_000, "in_flight_share_max": 1}
    )
    gateway = gateway.rebuilt(settings)
    answers: list[httpx.Response] = []

    def post(url: str) -> None:
        answers.append(httpx.post(url, content=b"x" * 900, timeout=30))

    with serving(gateway, settings) as served:
        path = f"{served.url}/v1/telemetry/device-0001?wait=enriched&timeout=1s"
        threads = [threading.Thread(target=post, args=(path,)) for _ in range(10)]
        for number, thread in enumerate(threads):
            thread.start()
            until_s = time.monotonic() + 20
            while len(gateway.log.records) <= number and not answers and time.monotonic() < until_s:
                time.sleep(0.005)
        for thread in threads:
            thread.join()
    assert [one.status_code for one in answers] == [202] * 10


def test_a_gateway_that_ends_answers_who_waits(gateway: Gateway) -> None:
    answers: list[httpx.Response] = []
    with serving(gateway, gateway.settings) as served:
        path = f"{served.url}/v1/telemetry/device-0001?wait=enriched&timeout=30s"
        thread = threading.Thread(target=lambda: answers.append(httpx.post(path, content=b"{}")))
        began_s = time.monotonic()
        thread.start()
        while not gateway.log.records:
            time.sleep(0.01)
    thread.join()
    assert time.monotonic() - began_s < 20
    assert (answers[0].status_code, answers[0].json()["reached"]) == (202, "accepted")
    assert "about to end" in answers[0].json()["why"]


def test_who_has_gone_is_not_waited_for(gateway: Gateway) -> None:
    with serving(gateway, gateway.settings) as served:
        with served.connect() as client:
            client.sendall(
                b"POST /v1/telemetry/a?wait=folded&timeout=30s HTTP/1.1\r\nhost: a\r\n"
                b"content-length: 2\r\n\r\n{}"
            )
            waiting = gateway.ingest._waiting
            until = time.monotonic() + 20
            while not waiting.count and time.monotonic() < until:
                time.sleep(0.01)
            assert waiting.count == 1
            # cut off: one that merely sends no more may still listen
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        while waiting.count and time.monotonic() < until:
            time.sleep(0.01)
        assert waiting.count == 0


def test_a_device_is_told_of_its_own_states_alone() -> None:
    effect = Effect("sha", FLOW.readers)
    effect.accepted("t/0/0")
    for part, entity_id in enumerate(("acme/a", "acme/b")):
        made = _made(entity_id)._replace(part=part, parts=2)
        effect.hear(Told("p", "t/0/0", made))
    for entity, entity_id in effect.unfolded():
        effect.look(entity, entity_id, _row(3, 1).value)
    posted = Posted(Caller("device", "acme", "a"), "a")
    told = orjson.loads(answer_of(FLOW, Asked("folded", 1), posted, {"id": "p"}, effect, "").body)
    assert told["states"] == [{"entity": "device", "id": "a", "version": 1}]
    assert [event.get("entity_id") for event in told["events"]] == ["a", None]
