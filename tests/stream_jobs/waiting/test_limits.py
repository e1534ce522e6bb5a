"""Who may begin to wait: alone, and as enrich asks it."""

from collections.abc import Sequence

import pytest

from clients.kafka.records import Outgoing, Payload
from shared.events import envelope
from shared.events.envelope import Position
from shared.flow import FLOW
from shared.model import Fields
from shared.retry_policy import WhenParked
from stream_jobs.enrich.enrich_payload import enricher
from stream_jobs.enrich.entity_gate import EntityGate
from stream_jobs.waiting.limits import Caps, WaitLimits
from stream_jobs.waiting.protocol import Gates


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Nothing:
    def find(self, _table: str, _key: str) -> Fields | None:
        return None


def newcomers(
    new: int = 100, entities: int = 100, payloads: int = 1000, clock: Clock | None = None
) -> WaitLimits:
    return WaitLimits(Caps(new, entities, payloads), clock or Clock())


def why(refusal: tuple[str, str] | None) -> str:
    return refusal[0] if refusal else ""


def test_so_many_new_ids_of_a_tenant_may_wait_in_a_minute() -> None:
    clock, gates = Clock(), Gates()
    its = newcomers(new=2, clock=clock)
    told = [why(its.why_not(f"one/device-{n}", gates, is_unknown=True)) for n in range(4)]
    assert told == ["", "", "too_many_unknown", "too_many_unknown"]
    assert its.why_not("two/device-1", gates, is_unknown=True) is None
    assert its.why_not("one/device-1", gates, is_unknown=True) is None  # the batch runs again
    clock.now_s = 60.0
    assert its.why_not("one/device-3", gates, is_unknown=True) is None


def test_of_a_tenant_only_so_much_may_wait_at_once() -> None:
    gates = Gates()
    gates.hear_gate("one/device-1", 5)
    gates.hear_gate("two/device-1", 1)
    gates.hear_gate("one/device-1", 7)
    assert (
        why(newcomers(entities=1).why_not("one/device-2", gates, is_unknown=True))
        == "too_many_waiting"
    )
    reason, detail = newcomers(payloads=7).why_not("one/device-2", gates, is_unknown=True) or (
        "",
        "",
    )
    assert reason == "too_many_waiting"
    assert "tenant 'one' 7 payloads wait, and 1 entities for master data" in detail
    assert newcomers(entities=2, payloads=8).why_not("one/device-2", gates, is_unknown=True) is None
    assert newcomers(payloads=7).why_not("two/device-2", gates, is_unknown=True) is None
    gates.hear_gate("one/device-1", None)
    gates.hear_gate("one/device-1", None)
    assert newcomers(entities=1, payloads=1).why_not("one/device-2", gates, is_unknown=True) is None


def test_who_waits_for_no_master_data_is_counted_by_payloads_alone() -> None:
    """A service that is away makes all entities wait, and none of them is a random id."""
    gates, its = Gates(), newcomers(new=0, entities=1, payloads=10)
    gates.hear_gate("one/device-1", 4, unknown=False)
    gates.hear_gate("one/device-2", 4, unknown=False)
    assert its.why_not("one/device-3", gates, is_unknown=False) is None
    assert why(newcomers(entities=1).why_not("one/device-3", gates, is_unknown=True)) == ""
    gates.hear_gate("one/device-1", 6, unknown=False)
    refused = its.why_not("one/device-3", gates, is_unknown=False)
    assert why(refused) == "too_many_waiting"


def payload(device: str, offset: int, value: bytes = b'{"value": 1}') -> Payload:
    return Payload(Position("ingest.telemetry.v1", 0, offset), device.encode(), value, [], 1)


def reason(sent: Sequence[Outgoing]) -> tuple[str, str | None]:
    (one,) = sent
    return one.topic, envelope.text(one.headers, envelope.REASON)


@pytest.mark.parametrize("when_parked", ["go_on", "wait"])
def test_random_ids_are_parked_and_open_no_gate(when_parked: WhenParked) -> None:
    gates = Gates()
    enrich = EntityGate(enricher(FLOW), gates, when_parked, newcomers(new=1))
    sent = [enrich(one := payload(f"device-{n}", n), one.position, Nothing()) for n in range(3)]
    assert [reason(one) for one in sent] == [
        ("retry.enrich.v1", "missing_device"),
        ("dlq.enrich.v1", "too_many_unknown"),
        ("dlq.enrich.v1", "too_many_unknown"),
    ]
    assert not gates.hold("device-1")
    # nothing of the device goes ahead before what was parked is known to be parked
    late = payload("device-1", 3)
    assert reason(enrich(late, late.position, Nothing())) == (
        "dlq.enrich.v1",
        "too_many_unknown",
    )
    gates.heard_all()
    held = payload("device-0", 4)
    gates.sent_to_lane("device-0")
    assert reason(enrich(held, held.position, Nothing())) == ("retry.enrich.v1", "behind")


def test_what_would_only_hold_others_is_parked_by_its_own_reason() -> None:
    enrich = EntityGate(enricher(FLOW), Gates(), "wait", newcomers(new=0))
    bad = payload("device-1", 1, b"?")
    assert reason(enrich(bad, bad.position, Nothing())) == ("dlq.enrich.v1", "not_json")


def test_who_waits_already_has_no_more_wait_than_may() -> None:
    gates = Gates()
    gates.hear_gate("one/device-1", 1000, full=True)
    gates.hear_gate("two/device-1", 7)
    its = newcomers(entities=1, payloads=1007)
    assert why(its.why_no_more("one/device-1", gates)) == "line_full"
    assert its.why_no_more("two/device-1", gates) is None
    assert why(newcomers(payloads=7).why_no_more("two/device-1", gates)) == "too_many_waiting"
    gates.hear_gate("one/device-1", 900)
    assert its.why_no_more("one/device-1", gates) is None


@pytest.mark.parametrize(
    ("when_parked", "topic"), [("go_on", "dlq.enrich.v1"), ("wait", "retry.enrich.v1")]
)
def test_what_its_line_has_no_room_for_is_parked_by_enrich_where_others_may_go_on(
    when_parked: WhenParked, topic: str
) -> None:
    gates = Gates()
    gates.hear_gate("device-1", 1000, full=True)
    enrich = EntityGate(enricher(FLOW), gates, when_parked, newcomers())
    late = payload("device-1", 3)
    assert reason(enrich(late, late.position, Nothing()))[0] == topic
    discarded = late._replace(headers=[(envelope.DISCARDED, b"1")])
    assert reason(enrich(discarded, late.position, Nothing()))[0] == "retry.enrich.v1"
