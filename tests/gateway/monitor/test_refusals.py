"""What a gateway has refused lately is told by reason, and is its own trouble or the callers'."""

from gateway.monitor.causes import BECAUSE, KAFKA
from gateway.monitor.refusals import RecentRefusals, Refused, check
from gateway.node.payload_counts import ACCEPTED, REFUSED, REQUESTS_REFUSED
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


def test_what_callers_did_wrong_is_told_and_no_trouble_of_the_gateway() -> None:
    told = check(Refused({"rate_limited": 3, "unauthenticated": 40}, 7))
    assert (told["status"], told["observedValue"]) == ("pass", 43)
    assert told["output"].startswith("40 unauthenticated, 3 rate_limited; 7 were accepted")
    assert "output" not in check(Refused({}, 7))


def test_what_the_gateway_could_put_nowhere_is_its_trouble_and_may_follow_from_kafka() -> None:
    away = check(Refused({"spool_full": 1, "unauthenticated": 9}))
    assert (away["status"], away[BECAUSE]) == ("warn", (KAFKA,))
    own = check(Refused({"internal_fault": 1, "spool_full": 1}))
    assert (own["status"], own[BECAUSE]) == ("warn", ())
