"""GET /events/{id} on a real broker and PostgreSQL, of callers with and without a tenant."""

from collections.abc import Iterator
from typing import Any

import orjson
import psycopg
import pytest
from confluent_kafka import Producer
from pydantic import SecretStr

from clients.kafka.create_topics import ensure_topics
from clients.kafka.offsets import LogOffsets
from clients.postgres.grants import GATEWAY
from gateway.auth.authenticate import CredentialAuthenticator
from gateway.auth.caller import Caller
from gateway.kafka_writer import outcome
from gateway.spool.frame import Frame
from gateway.spool.spool import Spool
from gateway.state_view.store import ViewStore
from gateway.whereabouts import log_search
from local_stack.run.stack import Stack
from shared.consumer_groups import of_job
from shared.events.envelope import (
    ID,
    Header,
    Position,
    event_headers,
    event_value,
    failure_headers,
)
from shared.flow import FLOW
from shared.ids import derived_event_id, fresh_event_id, line_alone
from shared.settings import GatewaySettings, JobSettings
from shared.timestamps import now_ms
from tests.builders import event_record
from tests.gateway.auth.support import given, table
from tests.gateway.history.world import BEGAN_MS, World
from tests.gateway.support import Gateway, gateway_of
from tests.servers import in_database_of

pytestmark = pytest.mark.stack
TOPIC = "ingest.telemetry.v1"


GATE = "gate.enrich.v1"


class Log:
    """What gateways and jobs write."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        options = {**settings.kafka.for_librdkafka(), "partitioner": "murmur2_random"}
        self._producer = Producer(options)
        self._gates: set[str] = set()

    def put(self, topic: str, key: str, value: bytes | None, headers: list[Header]) -> Position:
        found: list[Position] = []

        def written(error: object, message: Any) -> None:
            assert error is None
            found.append(Position(topic, message.partition(), message.offset()))

        self._producer.produce(topic, value, key.encode(), headers=headers, on_delivery=written)
        self._producer.flush(30)
        if topic == GATE and value is not None:
            self._gates.add(key)
        return found[0]

    def open_gates(self) -> None:
        """Others have the same broker, and nothing waits there for them."""
        for key in self._gates:
            self.put(GATE, key, None, [])

    def payload(self, event_id: str, key: str = "device-0001") -> Position:
        return self.put(TOPIC, key, b'{"value": 1}', [(ID, event_id.encode())])

    def enrich_has_done(self, place: Position) -> None:
        with LogOffsets(self._settings.kafka, of_job("enrich"), (TOPIC,)) as log:
            log.commit({TOPIC: {place.partition: place.offset + 1}}, "a test")

    def event(self, origin: Position, event_id: str, key: str = "device-0001", **told: Any) -> Any:
        """As enrich writes it, at the place where it then is."""
        made = event_record(0, id=event_id, entity_id=key, **told)._replace(
            origin=origin, time_ms=BEGAN_MS, arrived_ms=BEGAN_MS
        )
        place = self.put("event.reading.v1", key, event_value(made), event_headers(made))
        return made._replace(position=place)


@pytest.fixture
def settings(settings: GatewaySettings, parts: Stack, postgres_url: str) -> GatewaySettings:
    """As the gateway asks: under its own role."""
    jobs = JobSettings(kafka_bootstrap=parts.kafka_bootstrap, state_dir=settings.state_dir)
    ensure_topics(FLOW, jobs)
    url = in_database_of(postgres_url, parts.postgres_url_of(GATEWAY))
    own = {"postgres_url": SecretStr(url), "kafka_bootstrap": parts.kafka_bootstrap}
    return settings.model_copy(update=own)


@pytest.fixture
def gateway(settings: GatewaySettings) -> Iterator[Gateway]:
    with gateway_of(settings) as gateway:
        yield gateway


@pytest.fixture
def log(settings: GatewaySettings) -> Iterator[Log]:
    log = Log(settings)
    yield log
    log.open_gates()


@pytest.fixture
def world(postgres_url: str, store: ViewStore) -> Iterator[World]:
    world = World(postgres_url, store)
    yield world
    world.rows.close()


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        yield admin


def _asked(gateway: Gateway, event_id: str, status: int = 200, **options: Any) -> Any:
    answer = gateway.ask("GET", f"/events/{event_id}".replace("#", "%23"), **options)
    assert answer.status_code == status, answer.text
    return answer.json()


def _stages(told: Any) -> dict[str, Any]:
    return {one["stage"]: one for one in told["stages"]}


def test_a_payload_is_followed_from_the_log_to_a_webhook(
    gateway: Gateway, log: Log, world: World, admin: psycopg.Connection
) -> None:
    event_id = fresh_event_id()
    place = log.payload(event_id)
    told = _asked(gateway, event_id)
    assert (told["now"], _stages(told)["accepted"]["place"]) == ("accepted", str(place))
    log.enrich_has_done(place)
    assert _asked(gateway, event_id)["now"] == "under_way"

    event = log.event(place, event_id)
    told = _asked(gateway, event_id)
    assert (told["now"], [*_stages(told)]) == ("enriched", ["accepted", "enriched"])
    assert _stages(told)["enriched"]["place"] == str(event.position)

    world.fold(event)
    world.fold(log.event(log.payload(fresh_event_id()), fresh_event_id()))
    told = _asked(gateway, event_id)
    stages = _stages(told)
    assert told["now"] == "stored"
    assert "relay has still to send" in told["why"]
    folded = stages["folded"]
    assert (folded["entity"], folded["entity_id"]) == ("device", "device-0001")
    assert (folded["version"], "or_earlier" in folded) == (1, False)
    row = "SELECT row_key FROM headrace.event WHERE event_id = %s"
    assert admin.execute(row.encode(), (event_id,)).fetchone() == (stages["stored"]["row_key"],)

    of = [(ID, derived_event_id("completion", event_id).encode())]
    completed = log.put("completion.reading.v1", "device-0001", b"{}", of)
    admin.execute(b"DELETE FROM headrace.outbox")
    said = {"hook": "office", "event_id": event_id, "at_ms": now_ms(), "try": 1, "status": 204}
    log.put("delivery.v1", "device-0001", orjson.dumps(said), [])
    told = _asked(gateway, event_id)
    stages = _stages(told)
    assert (told["now"], told["why"]) == ("stored", "it is a row of headrace.event")
    assert [*stages] == [
        *("accepted", "enriched", "folded", "stored", "completed", "forwarded"),
    ]
    assert stages["completed"]["place"] == str(completed)
    assert (stages["forwarded"]["hook"], stages["forwarded"]["status"]) == ("office", 204)
    assert all(stages[name]["at"] for name in stages)


def test_of_several_events_it_is_told_how_many_are_rows(
    gateway: Gateway, log: Log, world: World
) -> None:
    event_id = fresh_event_id()
    place = log.payload(event_id)
    first = log.event(place, event_id, parts=2)
    second = log.event(place, f"{event_id}#1", part=1, parts=2)
    world.fold(first)
    told = _asked(gateway, event_id)
    assert (told["now"], "1 of its 2 events are rows" in told["why"]) == ("enriched", True)
    assert [one["event"] for one in told["stages"] if one["stage"] == "enriched"] == [
        *(event_id, f"{event_id}#1"),
    ]
    world.fold(second)
    assert "its 2 events are rows" in _asked(gateway, f"{event_id}#1")["why"]


def test_what_waits_and_what_is_parked_says_why(
    gateway: Gateway, log: Log, admin: psycopg.Connection
) -> None:
    event_id = fresh_event_id()
    place = log.payload(event_id, "device-0007")
    log.enrich_has_done(place)
    gate = {
        **{"payloads": 1, "since_ms": now_ms(), "origin": str(place), "reason": "missing_device"},
        **{"detail": "device-0007", "needs": {}, "full": False, "due_ms": None, "tries": 1},
    }
    log.put(GATE, "device-0007", orjson.dumps(gate), [])
    told = _asked(gateway, event_id)
    assert (told["now"], _stages(told)["waits"]["cause"]) == ("waits", "missing_device")

    alone = fresh_event_id()
    place = log.payload(alone, "device-0008")
    log.enrich_has_done(place)
    gate |= {"origin": str(place), "reason": "not_yet", "detail": "at noon"}
    log.put(GATE, line_alone("device-0008", alone), orjson.dumps(gate), [])
    told = _asked(gateway, alone)
    assert (told["now"], "it waits for enrich: not_yet, at noon" in told["why"]) == ("waits", True)

    parked = fresh_event_id()
    place = log.payload(parked, "device-0009")
    log.enrich_has_done(place)
    own = [(ID, parked.encode())]
    headers = failure_headers(own, "enrich", place, "not_json", "at byte 3")
    letter = log.put("dlq.enrich.v1", "device-0009", b"{", headers)
    told = _asked(gateway, parked)  # nobody has made a letter of it
    assert (told["now"], _stages(told)["parked"]["place"]) == ("parked", str(letter))
    admin.execute(
        b"INSERT INTO headrace.letter (id, status, stage, cause, detail, entity_id, tenant,"
        b" event_id, origin, payload, payload_sha256, bytes, software, attempt, times, arrived_at,"
        b' first_parked, parked_at, topic, partition, "offset")'
        b" VALUES ('letter-1', 'parked', 'enrich', 'not_json', 'at byte 3', 'device-0009', '', %s,"
        b" %s, %s, '', 1, '', 0, 1, now(), now(), now(), 'dlq.enrich.v1', 0, 0)",
        (parked, str(place), str(place)),
    )
    told = _asked(gateway, parked)
    assert (told["now"], _stages(told)["parked"]["letter"]) == ("parked", "letter-1")


def test_a_row_that_waits_is_told_with_its_reason(
    gateway: Gateway, log: Log, admin: psycopg.Connection
) -> None:
    for line_of in (lambda key, _: key, line_alone):
        event_id, key = fresh_event_id(), "device-0011"
        event = log.event(log.payload(event_id, key), event_id, key)
        admin.execute(
            b'INSERT INTO headrace.waiting_row (topic, partition, "offset", line, headers,'
            b" due_at, reason, detail) VALUES (%s, %s, %s, %s, %s, now(), '55P03', 'locked')",
            (
                *event.position,
                line_of(key, str(event.position)),
                orjson.dumps([["ce_id", event_id]]).decode(),
            ),
        )
        told = _asked(gateway, event_id)
        waits = _stages(told)["waits"]
        assert (told["now"], waits["by"], waits["cause"]) == ("waits", "persist", "55P03")
        assert "behind" not in waits
        admin.execute(b"DELETE FROM headrace.waiting_row")


def test_what_lies_in_the_spool_is_told_without_a_server(settings: GatewaySettings) -> None:
    nowhere = {"kafka_bootstrap": "127.0.0.1:1"}
    away = settings.model_copy(update=nowhere)
    spool = Spool(settings.state_dir / "spool", 1 << 20, [TOPIC])
    event_id = fresh_event_id()
    record = outcome.Record(b"acme/device-0001", b"{}", [(ID, event_id.encode())])
    for number in range(3):
        other = outcome.Record(b"device-0001", b"{}", [(ID, b"other-%d" % number)])
        spool.of(TOPIC).append([Frame(TOPIC, other, now_ms())])
    spool.of(TOPIC).append([Frame(TOPIC, record, now_ms())])
    with gateway_of(away) as gateway:
        gateway.health.spool = spool
        owner, other_one = given(Caller("gateway", "acme")), given(Caller("gateway", "beta"))
        asking = gateway.rebuilt(who=CredentialAuthenticator(table(owner, other_one)))
        told = _asked(asking, event_id, headers=owner.headers)
        assert (told["now"], told["stages"][0]["entity_id"]) == ("spooled", "device-0001")
        refused = _asked(asking, event_id, 503, headers=other_one.headers)
        assert refused["code"] == "store_away"
    spool.close()


def test_an_id_of_others_looks_like_one_that_never_came(
    gateway: Gateway, log: Log, world: World
) -> None:
    event_id, never = fresh_event_id(), fresh_event_id()
    key = "acme/device-0001"
    place = log.payload(event_id, key)
    everyone = {
        name: given(caller)
        for name, caller in {
            "own": Caller("device", "acme", "device-0001"),
            "other": Caller("device", "acme", "device-0002"),
            "of its tenant": Caller("gateway", "acme"),
            "of another": Caller("operator", "beta"),
            "of none": Caller("operator"),
            "of all": Caller("operator", all_tenants=True),
        }.items()
    }
    may = {"own": "device-0001", "of its tenant": "device-0001", "of all": key}
    asking = gateway.rebuilt(who=CredentialAuthenticator(table(*everyone.values())))
    assert _asked(asking, event_id, 401)["code"] == "unauthenticated"

    def look() -> None:
        for name, one in everyone.items():
            for query in ("", f"?place={place}"):
                if name in may:
                    told = _asked(asking, event_id + query, headers=one.headers)
                    assert {s.get("entity_id", may[name]) for s in told["stages"]} == {may[name]}
                    continue
                refused = _asked(asking, event_id + query, 404, headers=one.headers)
                unknown = _asked(asking, never + query, 404, headers=one.headers)
                assert (refused["code"], unknown["code"]) == ("unknown_event",) * 2
                said = [
                    {**told, "detail": told["detail"].replace(its, ""), "instance": ""}
                    for told, its in ((refused, event_id), (unknown, never))
                ]
                assert said[0].keys() == said[1].keys()
                # but for the time that each id tells
                assert _timeless(said[0]["detail"]) == _timeless(said[1]["detail"])

    look()
    event = log.event(place, event_id, key)
    look()
    world.fold(event)
    look()


def _timeless(text: str) -> str:
    return "".join(" " if character.isdigit() else character for character in text)


def test_what_never_came_is_unknown_and_it_is_said_what_was_looked_through(
    gateway: Gateway, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    never, derived = fresh_event_id(), derived_event_id(fresh_event_id())
    assert "no payload that came between" in _asked(gateway, never, 404)["detail"]
    assert "tells no time" in _asked(gateway, derived, 404)["detail"]
    place = log.payload(derived)
    assert _asked(gateway, f"{derived}?place={place}")["stages"][0]["place"] == str(place)
    for wrong in ("nonsense", "event.reading.v1/0/1", f"{TOPIC}/0/{1 << 63}", f"{TOPIC}/9/0"):
        assert _asked(gateway, f"{never}?place={wrong}", 404)["code"] == "unknown_event"
    log.payload(fresh_event_id())
    for bound in ("RECORDS_MAX", "BYTES_MAX"):
        with monkeypatch.context() as bounded:
            bounded.setattr(log_search, bound, 0)
            assert "too much was accepted" in _asked(gateway, fresh_event_id(), 404)["detail"]
    for name in ("a%00b", "x" * 700):
        assert gateway.ask("GET", f"/events/{name}").status_code in (400, 404)


def test_without_a_server_it_is_said_which_one_is_away(settings: GatewaySettings) -> None:
    nowhere = SecretStr("postgresql://headrace@127.0.0.1:1/headrace")
    for update, said in (
        ({"postgres_url": nowhere}, "PostgreSQL"),
        ({"kafka_bootstrap": "127.0.0.1:1"}, "Kafka"),
    ):
        with gateway_of(settings.model_copy(update=update)) as gateway:
            refused = _asked(gateway, fresh_event_id(), 503)
            assert (refused["code"], said in refused["detail"]) == ("store_away", True)
