"""The handler alone, over a state of its own; what decides is tested in `test_protocol.py`."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

import orjson
import pytest
from pyspark.sql import Row

from clients.kafka.records import Outgoing, Payload
from desk.letters.redrive_target import discarded_payload
from shared.events import envelope
from shared.events.envelope import Header, Position, read_event
from shared.flow import FLOW, load_flow
from shared.folding.applier import Applier
from shared.model import Fields, MasterRows
from stream_jobs.enrich.enrich_payload import enricher
from stream_jobs.enrich.entity_gate import EntityGate
from stream_jobs.retry import job as retry
from stream_jobs.retry import lines
from stream_jobs.retry.lines import BucketOfLines
from stream_jobs.retry.task import RetryTask
from stream_jobs.state.buckets import bucket_of
from stream_jobs.state.bulk_map_state import States
from stream_jobs.waiting import codec
from stream_jobs.waiting.line_key import key_of_line
from stream_jobs.waiting.protocol import Gates
from tests.stream_jobs.messages import Message

DEVICE = {"area": "area-01", "model": "thermo-c"}
MODEL = {"value_field": "value", "unit": "celsius"}


class MapState(dict[Any, Any]):
    """As the map state of Spark answers."""

    def getValue(self, key: Any) -> Any:  # noqa: N802
        return self.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self[key] = value

    def removeKey(self, key: Any) -> None:  # noqa: N802
        self.pop(key, None)


class Handle:
    def __init__(self) -> None:
        self.states: dict[str, MapState] = {}

    def getMapState(self, name: str, *_schema: object) -> MapState:  # noqa: N802
        return self.states.setdefault(name, MapState())


class Master:
    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Fields] = {("device_model", "thermo-c"): MODEL}

    def find(self, table: str, key: str) -> Fields | None:
        return self.rows.get((table, key))


class World:
    """What a worker of retry sees, and the time."""

    topic = "ingest.telemetry.v1"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.master, self.ripe = Master(), True
        self.look_ms: int | None = None  # as the last batch told it
        self.relay_is_away = False
        self.batch_lasts_ms = 0
        flow = load_flow(settings.get("flow", "shared.flow:FLOW"))
        self._enrich = enricher(flow)
        self.now_ms = self.as_of_ms = 1_790_000_000_000
        self.task = RetryTask(
            **{
                "flow": "shared.flow:FLOW",
                "kafka": None,  # type: ignore[dict-item]
                "master_age_max_s": 60.0,
                "postgres_url": "",
                "slow_after_s": 1.0,
                "parked_after_s": 3600.0,
                "when_parked": "go_on",
                "master_stale_after_s": 300.0,
                "waiting_per_entity_max": 1000,
                **settings,
            }
        )
        self.handle = Handle()
        monkeypatch.setattr(lines, "_worker", lambda _task: self)
        self.gates = Gates()
        self.in_turn = EntityGate(
            enricher(flow), self.gates, self.task.when_parked, key_of=key_of_line(flow)
        )

    def look(self) -> None:
        pass

    def look_ahead(self, payloads: Iterable[Payload]) -> None:
        """At what services say: these flows ask none."""

    def is_ripe(self, _place: Position) -> bool:
        return self.ripe

    def enrich(self, payload: Payload) -> Sequence[Outgoing]:
        return self._enrich(payload, self.master)

    def time_ms(self) -> int:
        """Of a try."""
        return self.now_ms + self.batch_lasts_ms

    def runs(self, flow: str) -> None:
        """From now on by this flow."""
        self.task = self.task._replace(flow=flow)
        self._enrich = enricher(load_flow(flow))

    def lane(self, *offsets: int, value: bytes = b'{"value": 1}') -> list[Outgoing]:
        """What enrich sends there, of a device that is not known."""
        payloads = [
            Payload(
                Position(self.topic, 0, offset),
                b"device-7",
                value,
                headers(offset, value),
                self.now_ms,
            )
            for offset in offsets
        ]
        found = [self.in_turn(one, one.position, self.master) for one in payloads]
        sent = [one for made in found for one in made]
        assert [one.topic for one in sent] == ["retry.enrich.v1"] * len(offsets)
        return sent

    def again(self, offset: int) -> list[Outgoing]:
        """Redriven, as it goes to the lane while its device is held."""
        value = b'{"value": 1}'
        place = Position(self.topic, 0, offset)
        payload = Payload(place, b"device-7", value, headers(offset, value), self.now_ms, attempt=1)
        return [*self.in_turn(payload, Position("again.enrich.v1", 0, offset), self.master)]

    def batch(
        self,
        lane: list[Outgoing] = (),  # type: ignore[assignment]
        came: tuple[str, ...] = (),
        *,
        orders: tuple[codec.Order, ...] = (),
        starts: bool = False,
        after_s: float = 1,
        sent_ago_s: float = 0,
    ) -> list[Outgoing]:
        """A micro-batch, woken where rows have come, the last one has told so, or for long none
        was. `sent_ago_s`: so long what comes of the lane stands there."""
        self.now_ms += int(after_s * 1000)
        if not self.relay_is_away:
            self.as_of_ms = self.now_ms
        processor = BucketOfLines(self.task)
        processor.init(States(self.handle))  # type: ignore[arg-type]
        is_due = self.look_ms is not None and self.look_ms <= self.now_ms
        rows_come = ["*"] if starts else [codec.row("device", name) for name in came]
        rows_come += [order.row for order in orders]
        is_woken = rows_come or is_due or after_s >= 60
        wakes = [codec.wake_value(rows_come, self.as_of_ms)] if is_woken else []
        packed = packed_rows(lane, wakes, self.now_ms - int(sent_ago_s * 1000))
        if not packed:
            return []
        *made, told = processor.handleInputRows((0,), iter(packed), Times(self.now_ms))
        assert isinstance(told, Row)
        self.look_ms = told.look_ms
        return [one for one in made if isinstance(one, Outgoing)]

    def is_empty(self) -> bool:
        return not any(self.handle.states.values()) and self.look_ms is None


class Times:
    def __init__(self, now_ms: int) -> None:
        self.getCurrentProcessingTimeInMs = lambda: now_ms


def headers(offset: int, value: bytes) -> list[Header]:
    return [
        (envelope.ID, f"event-{offset}".encode()),
        (envelope.PAYLOAD_SHA256, sha256(value).hexdigest().encode()),
    ]


def packed_rows(lane: list[Outgoing], wakes: list[bytes], now_ms: int) -> list[Row]:
    messages = [
        Message(Position(one.topic, 0, number), one.key, one.value, list(one.headers), now_ms)
        for number, one in enumerate(lane)
    ]
    messages += [
        Message(Position("wake.enrich.v1", 0, 0), None, wake, [], now_ms) for wake in wakes
    ]
    if not messages:
        return []
    batches = retry.pack(iter([messages]))  # type: ignore[arg-type]
    rows = [Row(**row) for batch in batches for row in batch.to_pylist()]
    bucket = bucket_of(b"device-7", retry.BUCKETS)
    return [row for row in rows if row.packed or row.bucket == bucket]


def ids(rows: list[Outgoing], topic: str = "event.reading.v1") -> list[str]:
    return [orjson.loads(row.value)["id"] for row in rows if row.topic == topic]


def test_an_unknown_device_waits_and_its_registration_wakes_its_payloads_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    (gate,) = world.batch(world.lane(7, 5, 6))
    assert (gate.topic, gate.key) == ("gate.enrich.v1", b"device-7")
    assert orjson.loads(gate.value)["detail"] == "device-7"
    assert world.batch() == []
    assert world.batch(came=("device-8",)) == []
    world.master.rows["device", "device-7"] = DEVICE
    woken = world.batch(came=("device-7",))
    assert ids(woken) == ["event-5", "event-6", "event-7"]
    first = orjson.loads(woken[0].value)
    assert first["origin"] == ["ingest.telemetry.v1", 0, 5]
    assert "attempt" not in first
    (closed,) = world.batch()
    assert (closed.topic, closed.key, closed.value) == ("gate.enrich.v1", b"device-7", None)
    assert world.is_empty()


def test_a_gate_tells_how_long_its_line_is_and_not_of_each_payload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    told = [row for n in range(100) for row in world.batch(world.lane(n))]
    lengths = [orjson.loads(row.value)["payloads"] for row in told]
    assert lengths[:16] == [*range(1, 17)]
    assert 94 < lengths[-1] <= 100
    assert len(lengths) < 60


def test_nothing_is_tried_before_enrich_is_known_to_have_done_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.ripe = False
    lane = world.lane(5)
    world.master.rows["device", "device-7"] = DEVICE
    assert ids(world.batch(lane)) == []
    assert ids(world.batch()) == []
    world.ripe = True
    assert ids(world.batch()) == ["event-5"]


def test_what_is_too_old_is_parked_as_it_came_and_those_behind_it_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, parked_after_s=10.0)
    world.batch(world.lane(5))
    rows = [row for _ in range(14) for row in world.batch()]
    (letter,) = [row for row in rows if row.topic == "dlq.enrich.v1"]
    told = dict(letter.headers)
    assert (letter.key, letter.value) == (b"device-7", b'{"value": 1}')
    assert told[envelope.REASON] == b"missing_device"
    assert told[envelope.ORIGIN] == b"ingest.telemetry.v1/0/5"
    assert told[envelope.TRIES] == b"1"
    assert world.is_empty()


def test_what_waits_is_kept_by_the_rules_of_the_query_that_runs_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, parked_after_s=3600.0)
    world.batch(world.lane(5))
    assert [row for _ in range(5) for row in world.batch()] == []
    world.task = world.task._replace(parked_after_s=1.0)
    world.batch(starts=True)
    (letter, _) = [row for _ in range(5) for row in world.batch()]
    assert letter.topic == "dlq.enrich.v1"
    assert dict(letter.headers)[envelope.TRIES] == b"1"
    assert world.is_empty()


def test_behind_a_parked_one_others_wait_until_it_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, when_parked="wait")
    world.master.rows["device", "device-7"] = DEVICE
    bad = world.lane(5, value=b'{"value": "no number"}')
    rows = [*world.batch(bad), *world.batch(world.lane(6)), *world.batch(), *world.batch()]
    gate, parked, gate_again = rows
    assert parked.topic == "dlq.enrich.v1"
    assert [orjson.loads(row.value)["payloads"] for row in (gate, gate_again)] == [1, 2]
    mended = Payload(
        Position("ingest.telemetry.v1", 0, 5),
        b"device-7",
        b'{"value": 5}',
        headers(5, b'{"value": 5}'),
        world.now_ms,
        attempt=1,
    )
    rows = world.batch([*world.in_turn(mended, Position("again.enrich.v1", 0, 0), world.master)])
    assert ids(rows) == ["event-5", "event-6"]
    assert orjson.loads(rows[0].value)["attempt"] == 1
    world.batch()
    assert world.is_empty()


def test_behind_a_discarded_one_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, when_parked="wait")
    world.master.rows["device", "device-7"] = DEVICE
    place = Position("ingest.telemetry.v1", 0, 5)
    world.batch(world.lane(5, value=b'{"value": "no number"}'))
    world.batch(world.lane(6))
    message = discarded_payload(place, "device-7", "event-5", 0, world.now_ms)
    payload = Payload(place, message.key, message.value, message.headers, world.now_ms, 1)
    (discarded,) = world.in_turn(payload, Position("again.enrich.v1", 0, 0), world.master)
    assert ids(world.batch([discarded])) == ["event-6"]
    world.batch()
    assert world.is_empty()
    # where nobody keeps it nothing has to be done
    others = EntityGate(enricher(FLOW), Gates(), "wait")
    assert not others(payload, place, world.master)


def test_a_record_of_the_lane_that_names_no_payload_is_parked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    (letter,) = world.batch([Outgoing("retry.enrich.v1", b"device-7", b"?", [])])
    assert letter.topic == "dlq.enrich.v1"
    assert dict(letter.headers)[envelope.REASON] == b"no_origin"


def test_a_wake_that_is_none_of_ours_wakes_all_the_same() -> None:
    found = [codec.rows_of_wake(value) for value in (None, b"?", b"{}", b'["a/b", 1]', b"[]")]
    assert found == [[], [], [], ["a/b"], []]


def test_what_is_no_time_is_passed_over_in_a_wake() -> None:
    wakes = [["a/b", "*"], ["@?"], ["@²"], ["@1"], ["@1790000000000", "@1790000000001"]]
    assert [codec.as_of(rows) for rows in wakes][-1] == 1_790_000_000_001
    assert [codec.as_of(rows) for rows in wakes][:3] == [None] * 3
    assert codec.as_of(codec.rows_of_wake(codec.wake_value(["a/b"], 17))) == 17


def test_a_line_is_the_same_after_it_was_bytes() -> None:
    record = Payload(
        Position("retry.enrich.v1", 1, 3),
        b"device-7",
        b"\xff\x00",
        [(envelope.ORIGIN, b"ingest.status.v1/2/9"), ("x", b"\xff\xfe")],
        17,
    )
    entry, letter = codec.read(record, {"ingest.status.v1"})
    entry.row, entry.tries = "device/device-7", 2
    line = codec.decode(b"[[],null,null]")
    assert line.take(entry)
    assert codec.decode(codec.encode(line)) == line
    # as earlier versions wrote it
    (old, *_), *rest = orjson.loads(codec.encode(line))
    old[4] = str(entry.read_at)
    known = codec.decode(orjson.dumps(([old[:-1]], *rest)))
    assert known == line
    payload = codec.payload_of("device-7", entry, letter)
    assert (payload.value, payload.arrived_ms) == (b"\xff\x00", 17)
    assert ("x", b"\xff\xfe") in payload.headers


@pytest.mark.parametrize("starts_anew", [False, True])
def test_nothing_grows_too_old_while_master_data_is_stale(
    monkeypatch: pytest.MonkeyPatch, *, starts_anew: bool
) -> None:
    world = World(monkeypatch, parked_after_s=3600.0)
    world.batch(world.lane(5))
    waits_s = sum(1 for _ in range(20) if world.batch(after_s=60) == []) * 60
    assert waits_s == 1200
    world.relay_is_away = True
    if not starts_anew:  # else nobody looks meanwhile
        assert [row for _ in range(24 * 60) for row in world.batch(after_s=60)] == []
    assert world.batch(starts=True, after_s=86_400) == []
    world.relay_is_away = False
    assert world.batch(starts=True) == []
    rest_s = 0
    while not (rows := world.batch(after_s=60)):
        rest_s += 60
    assert 1800 < rest_s <= 2400
    assert [row.topic for row in [*rows, *world.batch()]] == ["dlq.enrich.v1", "gate.enrich.v1"]
    assert world.is_empty()


def test_a_batch_that_runs_again_reads_the_same_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, parked_after_s=600.0)
    world.batch(world.lane(5))
    before = {name: dict(state) for name, state in world.handle.states.items()}
    world.relay_is_away = True
    world.batch(after_s=2000, starts=True)
    after = {name: dict(state) for name, state in world.handle.states.items()}
    world.handle.states = {name: MapState(state) for name, state in before.items()}
    world.now_ms -= 2_000_000
    world.batch(after_s=2000, starts=True)
    assert world.handle.states == after


@pytest.mark.parametrize("when_parked", ["go_on", "wait"])
def test_of_a_chatty_device_only_so_many_payloads_wait(
    monkeypatch: pytest.MonkeyPatch, when_parked: str
) -> None:
    world = World(monkeypatch, waiting_per_entity_max=3, when_parked=when_parked)
    world.batch(world.lane(0, 1))
    rows = [*world.batch(world.lane(2, 3, 4)), *world.batch(), *world.batch()]
    gates = [orjson.loads(row.value) for row in rows if row.topic == "gate.enrich.v1"]
    assert gates[0]["full"]
    letters = [dict(row.headers) for row in rows if row.topic == "dlq.enrich.v1"]
    assert [one[envelope.REASON] for one in letters] == [b"line_full"] * 2
    assert [one[envelope.ORIGIN][-2:] for one in letters] == [b"/3", b"/4"]
    kinds = [kind for kind, _, _ in world.handle.states["kept"]]
    assert kinds.count("letter") == 3
    world.master.rows["device", "device-7"] = DEVICE
    assert ids(world.batch(came=("device-7",))) == ["event-0", "event-1", "event-2"]
    world.batch()
    assert world.is_empty() == (when_parked == "go_on")
    if when_parked == "wait":  # until what did not fit is sent again, or discarded
        assert ids(world.batch(world.lane(5))) == []
        assert ids(world.batch(world.again(3))) == ["event-3"]
        assert ids(world.batch(world.again(4))) == ["event-4", "event-5"]
        world.batch()
        assert world.is_empty()


def test_what_does_not_fit_is_parked_and_the_rest_tried_in_one_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last ones are asked for before the first."""
    world = World(monkeypatch, waiting_per_entity_max=6, when_parked="go_on")
    world.batch(world.lane(*range(9)))
    world.master.rows["device", "device-7"] = DEVICE
    rows = world.batch(came=("device-7",))
    assert len([row for row in rows if row.topic == "dlq.enrich.v1"]) == 3
    assert ids(rows) == [f"event-{n}" for n in range(6)]


class Nothing:
    """Neither fresh fields nor what is looked up for them."""

    def over(self, master: MasterRows, _payloads: object) -> MasterRows:
        return master


def test_what_has_waited_is_no_first_attempt_for_others_may_have_passed_it() -> None:
    """A payload of another device that went on meanwhile may have made an event of this one."""
    worker = object.__new__(lines.Worker)
    worker._enrich, worker._fresh = enricher(FLOW), Nothing()  # type: ignore[assignment]
    worker._master = Master()  # type: ignore[assignment]
    worker._master.rows["device", "device-7"] = DEVICE  # type: ignore[attr-defined]
    value = b'{"value": 1}'
    place = Position("ingest.telemetry.v1", 0, 3)
    (own,) = worker.enrich(Payload(place, b"device-7", value, headers(3, value), 1_000_000))
    record = read_event(Position(own.topic, 0, 1), own.value or b"")
    by_another = record._replace(
        id="of another",
        attempt=0,
        origin=place._replace(offset=5),
        position=Position(own.topic, 0, 0),
    )
    types = {row.name: row for row in FLOW.event_types}
    applied = Applier(FLOW.entities[0], 64, types).apply("device-7", None, [by_another, record])
    assert (record.attempt, applied.duplicates, applied.asks) == (1, 0, True)
