import json
import time
from typing import Any

from gateway.monitor.job_news import JobNews, KnownLag


class View:
    def __init__(self) -> None:
        self.said: dict[bytes, bytes] = {}

    def say(self, clock_off_s: float = 0.0, **status: Any) -> None:
        at_ms = int((time.time() + clock_off_s) * 1000)
        said = {"state": "running", "lag_s": 0.0, "lag_records": 0, "at_ms": at_ms, **status}
        self.said[b"fold"] = json.dumps(said).encode()

    def values(self, _topic: str) -> dict[bytes, bytes]:
        return self.said


class Clock:
    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        return self.s


def _news() -> tuple[View, Clock, JobNews]:
    view, clock = View(), Clock()
    return view, clock, JobNews(view, clock)


def _silent_s(news: JobNews) -> int:
    return news.silent_ms()[b"fold"] // 1000


def test_a_job_whose_clock_is_behind_is_not_silent_once_it_was_heard() -> None:
    view, clock, news = _news()
    view.say(clock_off_s=-30)
    assert _silent_s(news) >= 29  # nobody knows better yet
    for batch in range(3):
        clock.s += 2
        view.say(clock_off_s=-30, batch_id=batch)
        assert _silent_s(news) == 0


def test_a_job_whose_clock_is_ahead_is_silent_when_nothing_more_comes() -> None:
    view, clock, news = _news()
    view.say(clock_off_s=3600)
    assert _silent_s(news) == 0
    clock.s += 12
    assert _silent_s(news) == 12


def test_what_it_last_said_of_its_lag_grows() -> None:
    view, clock, news = _news()
    view.say(lag_s=2.0, lag_records=7)
    news.look()
    assert news.lag("fold", is_silent=False) is not None
    clock.s += 1
    assert news.lag("fold", is_silent=False).since_s == 0.0  # type: ignore[union-attr]
    clock.s += 59
    seconds, since_s = news.lag("fold", is_silent=True) or KnownLag(0, 0)
    assert (seconds, round(since_s)) == (2.0, 60)
    view.say(state="restarting", lag_s=None, lag_records=None)
    news.look()
    clock.s += 5
    seconds, since_s = news.lag("fold", is_silent=False) or KnownLag(0, 0)
    assert (seconds, round(since_s)) == (2.0, 65)  # it has not said since


def test_a_negative_lag_is_none_and_an_unheard_one_is_not_known() -> None:
    view, _, news = _news()
    view.say(lag_s=-4.0)
    news.look()
    assert news.lag("fold", is_silent=False) == KnownLag(0.0, 0.0)
    assert news.lag("enrich", is_silent=True) is None


def test_after_a_time_without_a_look_a_new_word_is_as_old_as_it_says() -> None:
    view, clock, news = _news()
    view.say()
    news.look()
    clock.s += 3600
    view.say(clock_off_s=-100, batch_id=1)
    assert 99 <= _silent_s(news) <= 101
