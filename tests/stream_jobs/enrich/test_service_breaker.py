from stream_jobs.enrich.service_breaker import ServiceBreaker

CLOSED = ServiceBreaker(opens_after=3, rests_s=10)


def after_failures(count: int, breaker: ServiceBreaker = CLOSED) -> ServiceBreaker:
    return after_failures_of(*["k"] * count, breaker=breaker)


def after_failures_of(*keys: str, breaker: ServiceBreaker = CLOSED) -> ServiceBreaker:
    for key in keys:
        breaker = breaker.failed(key, 100)
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
    again = opened.failed("k", 110)
    assert [again.state(at_s) for at_s in (119.9, 120)] == ["open", "half-open"]


def test_the_service_is_away_when_as_many_keys_have_failed_as_open_it() -> None:
    assert not after_failures_of("a", "b", "a", "b").is_away
    opened = after_failures_of("a", "b", "c", "d")
    assert opened.is_away
    assert len(opened.keys) == 3  # no sender makes it grow
    assert not opened.answered().is_away


def test_one_key_alone_is_no_outage_also_where_its_first_failure_opens_it() -> None:
    at_once = ServiceBreaker(opens_after=1, rests_s=10)
    assert after_failures_of("a", breaker=at_once).state(100) == "open"
    assert not after_failures_of("a", "a", breaker=at_once).is_away
    assert after_failures_of("a", "b", breaker=at_once).is_away


def test_the_request_that_decides_is_that_of_a_key_that_did_not_fail_or_did_so_first() -> None:
    opened = after_failures_of("a", "b", "a")
    assert opened.probe_of(["a", "b", "c"]) == "c"
    assert opened.probe_of(["a", "b"]) == "b"
