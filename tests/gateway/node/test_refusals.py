"""What a gateway has refused lately is told by reason."""

from gateway.node.payload_counts import ACCEPTED, REFUSED, REQUESTS_REFUSED
from gateway.node.refusals import RecentRefusals, Refused
from gateway.node.shared_counters import Name


def _numbers(unknown: int, accepted: int = 0) -> dict[Name, float]:
    return {
        (REFUSED, "telemetry", "unauthenticated"): unknown,
        (REFUSED, "none", "unauthenticated"): 1,
        (REQUESTS_REFUSED, "bad_head"): 2,
        (ACCEPTED, "telemetry", "kafka"): accepted,
        ("produce_s", "telemetry"): 1.5,
    }


def test_only_the_last_minute_counts() -> None:
    refusals = RecentRefusals()
    assert refusals.recent(_numbers(5)) == Refused()
    refusals.note(0.0, _numbers(5, 10))
    assert refusals.recent(_numbers(5, 10)) == ({}, 0)
    assert refusals.recent(_numbers(9, 30)) == ({"unauthenticated": 4}, 20)
    for second in range(1, 200):
        refusals.note(second, _numbers(5 + second, 10 + second))
    recent = refusals.recent(_numbers(5 + 200, 10 + 200))
    assert 58 <= recent.by_reason["unauthenticated"] <= 64
    assert recent.accepted == recent.by_reason["unauthenticated"]
