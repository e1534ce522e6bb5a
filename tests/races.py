"""Pairs of events whose second one only makes sense after the first, for the tests that race."""

from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import Producer

from shared.events.envelope import EventRecord, Position, event_value
from shared.flow import load_flow
from shared.flow_table import Flow
from tests.flights.oracle import expected_flights
from tests.kafka_log import distinct_events, last_values
from tests.oracle import expected_states

State = dict[str, Any]


class Race(NamedTuple):
    flow_reference: str
    endpoint: str
    pair: Callable[[int], tuple[tuple[str, State], tuple[str, State]]]  # types and data, by number
    expected: Callable[[list[dict[str, Any]]], dict[str, State]]
    outcome: tuple[str, ...]  # the fields that hang on the order
    outcomes: set[tuple[Any, ...]]

    @property
    def flow(self) -> Flow:
        return load_flow(self.flow_reference)

    @property
    def state_topic(self) -> str:
        return self.flow.entities[0].topic

    def event(self, number: int, *, second: bool) -> EventRecord:
        kind, data = self.pair(number)[second]
        offset = 2 * number + second
        return EventRecord(
            position=Position("", 0, 0),
            entity_id=f"pair-{number:05}",
            id=f"event-{offset}",
            type=kind,
            time_ms=1_700_000_000_000,
            arrived_ms=1_700_000_000_000,
            origin=Position(f"ingest.{self.endpoint}.v1", 0, offset),
            attempt=0,
            data=data,
        )

    def write(self, bootstrap: str, events: list[EventRecord]) -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "partitioner": "murmur2_random",
            }
        )
        for event in events:
            topic = self.flow.event_type(event.type).topic
            producer.produce(topic, event_value(event), event.entity_id)
        assert producer.flush(60) == 0

    def folded(self, bootstrap: str) -> int:
        """Distinct events, parked ones too."""
        snapshots = last_values(bootstrap, self.state_topic).values()
        return sum(snapshot["_meta"]["version"] for snapshot in snapshots)

    def assert_won(self, bootstrap: str) -> None:
        """All states are the pure fold, and no second event went without its first."""
        topics = self.flow.folded_topics
        events = [event for topic in topics for event in distinct_events(bootstrap, topic)]
        states = last_values(bootstrap, self.state_topic)
        for state in states.values():
            del state["_meta"]
        assert states == self.expected(events)
        found = {tuple(state[name] for name in self.outcome) for state in states.values()}
        assert found == self.outcomes


def _hot_then_warm(_number: int) -> tuple[tuple[str, State], tuple[str, State]]:
    # 70 is ALARM only after 90
    hot, warm = ({"value": value, "area": "area-01"} for value in (90.0, 70.0))
    return ("reading", hot), ("reading", warm)


def _another_gate_or_the_whole_flight(number: int) -> tuple[tuple[str, State], tuple[str, State]]:
    if number % 2:
        return ("departed", {"what": "departed"}), ("arrived", {"what": "arrived"})
    first, second = ({"what": "gate_changed", "gate": gate} for gate in ("A1", "B2"))
    return ("gate_changed", first), ("gate_changed", second)


DEVICES = Race(
    "shared.flow:FLOW",
    "telemetry",
    _hot_then_warm,
    expected_states,
    outcome=("count", "value", "status"),
    outcomes={(2, 70.0, "ALARM")},
)
FLIGHTS = Race(
    "examples.flights.flights:FLOW",
    "flight",
    _another_gate_or_the_whole_flight,
    expected_flights,
    outcome=("status", "gate", "gate_before", "departed_at_ms", "arrived_at_ms"),
    outcomes={
        ("unknown", "B2", "A1", None, None),
        ("arrived", None, None, 1_700_000_000_000, 1_700_000_000_000),
    },
)
