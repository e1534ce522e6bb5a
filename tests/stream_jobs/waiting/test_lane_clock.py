"""Time as it counts for what waits, through outages of the relay and of the job."""

from random import Random

from stream_jobs.waiting.lane_clock import LaneClock

HOLDS_MS = 300
BEGIN = LaneClock(10_000, 10_000)


def after(*batches: tuple[int, int | None]) -> LaneClock:
    clock = BEGIN
    for now_ms, as_of_ms in batches:
        clock = clock.at(now_ms, as_of_ms, HOLDS_MS)
    return clock


def test_it_runs_as_long_as_the_relay_speaks() -> None:
    clock = after((10_100, 10_090), (10_250, None), (10_400, 10_390), (10_650, 10_650))
    assert (clock.now_ms, clock.stood_ms) == (10_650, 0)
    assert not clock.stands(HOLDS_MS)


def test_it_stands_from_where_the_last_word_holds_no_more_until_the_next_one() -> None:
    away = after((10_100, 10_050), (10_340, 10_050), (10_400, 10_050), (19_000, 10_050))
    assert away.now_ms == 10_350
    assert away.stands(HOLDS_MS)
    back = away.at(20_000, 19_950, HOLDS_MS)
    assert back.now_ms == 10_350 + 50
    assert not back.stands(HOLDS_MS)
    assert back.at(20_100, 20_090, HOLDS_MS).now_ms == 10_350 + 150


def test_it_is_all_the_same_how_many_batches_saw_the_outage() -> None:
    for seed in range(200):
        random = Random(seed)
        ends = random.randrange(10_400, 30_000)
        batches = sorted(random.randrange(10_051, ends) for _ in range(random.randrange(6)))
        seen = [(at, 10_050) for at in (10_050, *batches)] + [(ends, ends - 7)]
        assert after(*seen).now_ms == min(10_350, ends) + 7


def test_nobody_is_served_by_a_job_that_is_down_so_that_does_not_count_either() -> None:
    assert after((10_100, 10_100), (99_000, 99_000)).now_ms == 10_400


def test_a_clock_that_is_off_moves_nothing_back_and_little_ahead() -> None:
    ahead = after((10_100, 99_000))  # the relay's
    assert ahead.as_of_ms == 10_100
    back = ahead.at(9_000, 9_000, HOLDS_MS)  # the job's
    assert back.now_ms == ahead.now_ms == 10_100
    assert back.at(10_200, 10_200, HOLDS_MS).now_ms == 10_200
