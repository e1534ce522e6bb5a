from stream_jobs.enrich.service_breaker import ServiceBreaker

CLOSED = ServiceBreaker(opens_after=3, rests_s=10)


def after_failures(count: int, breaker: ServiceBreaker = CLOSED) -> ServiceBreaker:
    for _ in range(count):
        breaker = breaker.failed(100)
    return breaker


def test_it_opens_after_failures_in_a_row() -> None:
    assert after_failures(2).state(100) == "closed"
    assert after_failures(3).state(100) == "open"
    answered = after_failures(2).answered()
    assert after_failures(2, answered).state(100) == "closed"
    assert after_failures(3, answered).state(100) == "open"


def test_when_it_has_rested_one_request_decides() -> None:
    opened = after_failures(3)
    assert [opened.state(at_s) for at_s in (109.9, 110)] == ["open", "half-open"]
    assert opened.answered().state(110) == "closed"
    again = opened.failed(110)
    assert [again.state(at_s) for at_s in (119.9, 120)] == ["open", "half-open"]
