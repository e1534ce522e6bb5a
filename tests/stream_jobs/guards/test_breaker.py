from stream_jobs.guards.breaker import Breaker


def test_an_outage_is_probed_ever_less_often_and_has_one_beginning() -> None:
    breaker, pauses = Breaker(), []
    for at_ms in range(1_000, 8_000, 1_000):
        breaker = breaker.failed(at_ms, f"away at {at_ms}")
        pauses.append(breaker.pause_s)
        assert breaker.is_open
    assert pauses == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert breaker.told() == {"state": "open", "since_ms": 1_000, "reason": "away at 7000"}


def test_an_answer_alone_does_not_close_it() -> None:
    half = Breaker().failed(1_000, "slow").answered()
    assert (half.state, half.since_ms, half.is_open) == ("half-open", 1_000, False)
    again = half.failed(9_000, "slow again")
    assert (again.state, again.since_ms, again.pause_s) == ("open", 1_000, 0.5)
    assert half.worked() == Breaker()
    assert Breaker().answered() == Breaker()
