"""The mistakes that `--mutant` puts back into a stack, seen here at the part that has them."""

import asyncio
import importlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.kafka_writer.outcome import Record
from gateway.spool import spool as spools
from gateway.spool.frame import Frame
from shared.events.envelope import EventRecord, Position, event_value
from shared.flow import FLOW
from shared.folding.applier import Applier
from shared.settings import GatewaySettings
from tests.faults.whole import posts
from tests.faults.whole.callers import programs
from tests.faults.whole.clocks import Clock
from tests.faults.whole.flips import flip_a_bit
from tests.faults.whole.inject.rig_mutants import MUTANTS
from tests.faults.whole.sends import EVENT, Message
from tests.gateway.support import gateway_of, serving
from tests.oracle import expected_states

Mutate = Callable[[str], None]
KINDS = ("fallen", "drifting", "ahead")
TOPIC = "ingest.telemetry.v1"
_BEGAN_MS = 1_795_000_000_000


@pytest.fixture
def mutate() -> Iterator[Mutate]:
    changed: list[tuple[Any, dict[str, Any]]] = []

    def put_back(name: str) -> None:
        for module_name, patch in MUTANTS[name].items():
            module = importlib.import_module(module_name)
            owners = [module, *(v for v in vars(module).values() if isinstance(v, type))]
            changed.extend((owner, dict(vars(owner))) for owner in owners)
            patch(module)

    yield put_back
    for owner, before in changed:
        for name, value in before.items():
            if vars(owner).get(name) is not value:
                setattr(owner, name, value)


def _events() -> list[EventRecord]:
    """Three hundred of each of three devices, the last forty of them twice."""
    found: list[EventRecord] = []
    for kind in KINDS:
        chance = random.Random(kind)
        clock = Clock(kind, chance)
        for number in range(300):
            arrived_ms = _BEGAN_MS + number * 1_000
            said_ms = clock.at_ms(arrived_ms)
            found.append(
                EventRecord(
                    position=Position("event.reading.v1", 0, len(found)),
                    entity_id=kind,
                    id=f"{kind}-{number}",
                    type="reading",
                    time_ms=arrived_ms if said_ms is None else said_ms,
                    arrived_ms=arrived_ms,
                    origin=Position("ingest.telemetry.v1", 0, len(found)),
                    attempt=0,
                    data={"value": chance.randint(0, 100), "area": "area-01"},
                )
            )
    repeats = enumerate(found[-40:], len(found))
    return found + [
        event._replace(
            position=Position("event.reading.v1", 0, at),
            origin=Position("ingest.telemetry.v1", 0, at),
        )
        for at, event in repeats
    ]


def _wrong() -> set[str]:
    events = _events()
    applier = Applier(FLOW.entities[0], 64, {row.name: row for row in FLOW.event_types})
    expected = expected_states([orjson.loads(event_value(event)) for event in events[:900]])
    wrong = set()
    for kind in KINDS:
        applied = applier.apply(kind, None, [e for e in events if e.entity_id == kind])
        if applied.snapshot is None or applied.snapshot.state != expected[kind]:
            wrong.add(kind)
    return wrong


def test_states_are_right_without_a_mistake() -> None:
    assert _wrong() == set()


def test_a_clock_that_is_believed_is_seen_in_the_states(mutate: Mutate) -> None:
    mutate("clocks are believed")
    assert _wrong() == {*KINDS}


def test_a_repeat_that_counts_is_seen_in_the_states(mutate: Mutate) -> None:
    mutate("repeats count")
    assert _wrong() == {KINDS[-1]}


@pytest.mark.parametrize(("mistake", "lost"), [("", 1), ("spool drops the rest", 10)])
def test_what_a_flipped_byte_costs(mistake: str, lost: int, mutate: Mutate, tmp_path: Path) -> None:
    if mistake:
        mutate(mistake)
    whole = spools.Spool(tmp_path, 1 << 20, [TOPIC])
    spool = whole.of(TOPIC)
    bodies = [b"payload %d" % number for number in range(10)]
    spool.append([Frame(TOPIC, Record(b"k", b, []), 1) for b in bodies])
    (segment,) = tmp_path.rglob("0*.frames")
    at = segment.read_bytes().index(bodies[0])
    raw = bytearray(segment.read_bytes())
    raw[at] ^= 1
    segment.write_bytes(raw)
    found: set[bytes] = set()
    while not spool.is_empty():
        frames, end = spool.read()
        found |= {frame.record.value for frame in frames}
        if frames:
            spool.drained(len(frames), end, 1)
    assert len(bodies) - len(found) == lost
    whole.close()


@pytest.mark.slow
@pytest.mark.parametrize(("mistake", "status"), [("", 202), ("upgrade refused", 400)])
def test_java_s_client_sees_a_gateway_that_refuses_an_upgrade(
    mistake: str, status: int, mutate: Mutate, tmp_path: Path
) -> None:
    if mistake:
        mutate(mistake)
    settings = GatewaySettings(state_dir=tmp_path)
    message = Message(0, "telemetry", "device-0001", b'{"value": 1}', "k0", EVENT)

    async def post(url: str) -> int | None:
        async with programs(tmp_path / "clients", url) as started:
            if "java" not in started:
                return None
            return (await started["java"].post(posts.single(message)))[0]

    with gateway_of(settings) as gateway, serving(gateway, settings) as served:
        found = asyncio.run(post(served.url))
    if found is None:
        pytest.skip("what makes a client in Java is not on this machine")
    assert found == status


def test_a_flip_changes_one_bit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(100))
    flip_a_bit(file, random.Random(1), 40)
    raw = file.read_bytes()
    assert (len(raw), raw[:40], sum(byte.bit_count() for byte in raw)) == (100, bytes(40), 1)
