"""Where an event is, asked at a real broker and PostgreSQL."""

import asyncio
from collections.abc import Iterator

import httpx
import orjson
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from clients.kafka.offsets import LogOffsets
from clients.postgres.grants import DESK
from desk.whereabouts.service import Whereabouts
from gateway.whereabouts import log_search
from gateway.whereabouts.finder import BadPlaceError
from local_stack import cli
from local_stack.servers.postgres_address import as_role
from shared.consumer_groups import of_job
from shared.events.envelope import ID, Position
from shared.ids import derived_event_id, fresh_event_id
from tests.desk.desk_room import Room

pytestmark = pytest.mark.stack
TOPIC = "ingest.telemetry.v1"


class Log:
    """Payloads, as a gateway writes them."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._producer = Producer(room.settings.kafka.for_librdkafka())

    def put(self, event_id: str, partition: int = 0) -> Position:
        found: list[Position] = []

        def written(error: object, message: object) -> None:
            assert error is None
            offset = message.offset()  # type: ignore[attr-defined]
            found.append(Position(TOPIC, partition, offset))

        self._producer.produce(
            TOPIC,
            b'{"value": 1}',
            b"device-0001",
            partition=partition,
            headers=[(ID, event_id.encode())],
            on_delivery=written,
        )
        self._producer.flush(30)
        return found[0]

    def enrich_has_done(self, place: Position) -> None:
        with LogOffsets(self._room.settings.kafka, of_job("enrich"), (TOPIC,)) as log:
            log.commit({TOPIC: {place.partition: place.offset + 1}}, "a test")


@pytest.fixture
def log(room: Room) -> Iterator[Log]:
    yield Log(room)


def store(room: Room, event_id: str, origin: Position) -> None:
    room.admin.execute(
        b"INSERT INTO headrace.event (event_id, type, entity_id, event_time, arrived_at, origin,"
        b" position, data) VALUES (%s, 'reading', 'device-0001', now(), now(), %s,"
        b" 'event.reading.v1/0/1', '{}')",
        (event_id, str(origin)),
    )


def test_a_payload_is_followed_from_the_log_to_its_row(room: Room, log: Log) -> None:
    event_id = fresh_event_id()
    place = log.put(event_id, partition=1)
    where = Whereabouts(room.desk)
    for given in (None, str(place)):
        found = where.find(event_id, given)
        assert (found["now"], found["stages"][0]["place"]) == ("accepted", str(place))
    log.enrich_has_done(place)
    assert where.find(event_id)["now"] == "under_way"
    store(room, event_id, place)
    store(room, f"{event_id}#1", place)
    store(room, f"{event_id}0", place)  # another one
    found = where.find(event_id)
    assert (found["now"], "its 2 events are rows" in found["why"]) == ("stored", True)
    of_event = "enriched", "stored", "completed"
    assert [one["stage"] for one in found["stages"]] == ["accepted", *of_event, *of_event]


def test_a_dead_letter_is_named(room: Room, log: Log) -> None:
    event_id = fresh_event_id()
    place = log.put(event_id)
    room.park(place.offset, own=((ID, event_id.encode()),))
    room.index()
    found = Whereabouts(room.desk).find(event_id)
    assert (found["now"], found["stages"][0]["stage"]) == ("parked", "accepted")
    assert f"letters show {room.only()['id']}" in found["why"]


def test_what_never_came_is_unknown_and_it_is_said_what_was_looked_through(
    room: Room, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = Whereabouts(room.desk)
    never, derived = fresh_event_id(), derived_event_id("a key")
    assert "no payload that came between" in where.find(never)["why"]
    assert "tells no time" in where.find(derived)["why"]
    place = log.put(derived)
    assert where.find(derived, str(place))["now"] == "accepted"
    monkeypatch.setattr(log_search, "RECORDS_MAX", 0)
    assert "too much was accepted" in where.find(never)["why"]
    for wrong, said in (
        ("nonsense", "is no place"),
        ("event.reading.v1/0/1", "no payload"),
        (f"{TOPIC}/0/-1", "no payload"),
        (f"{TOPIC}/0/{1 << 63}", "no payload"),
        (f"{TOPIC}/{1 << 31}/0", "no payload"),
        (str(place), "no payload with the id"),
        (f"{TOPIC}/0/99999999", "no payload with the id"),
    ):
        with pytest.raises(BadPlaceError, match=said):
            where.find(never, wrong)


def test_it_is_asked_over_http_and_at_a_terminal(
    room: Room, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    event_id = fresh_event_id()
    place = log.put(event_id)

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(room.app(), client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            paths = (event_id, f"{event_id}?place={place}", f"{event_id}?place=x", "a%00b")
            return [await client.get(f"/api/events/{path}") for path in paths]

    first, second, wrong, with_nul = asyncio.run(ask())
    assert (with_nul.status_code, with_nul.json()["now"]) == (200, "unknown")
    assert first.json() == second.json()
    assert (wrong.status_code, wrong.json()["code"]) == (404, "no_payload_there")
    url = as_role(room.settings.postgres_url.get_secret_value(), DESK)
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", room.settings.kafka_bootstrap)
    monkeypatch.setenv("HEADRACE_POSTGRES_URL", url)
    done = CliRunner().invoke(cli.app, ["where", event_id])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("accepted: enrich has not come to it yet")
    done = CliRunner().invoke(cli.app, ["where", event_id, "-o", "json"])
    assert orjson.loads(done.output)["now"] == "accepted"
