import time

import pytest

from shared.forwarding.answer import Answer, HookVerdict

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        *((status, HookVerdict.DONE) for status in (200, 201, 202, 204, 299)),
        *((status, HookVerdict.FAILED) for status in (100, 301, 302, 400, 401, 404, 429, 500, 503)),
        (410, HookVerdict.GONE),
        (None, HookVerdict.FAILED),
    ],
)
def test_a_2xx_is_done_and_410_ends_and_all_else_is_tried_again(
    status: int | None, verdict: HookVerdict
) -> None:
    assert Answer(status, 5).verdict is verdict


@pytest.mark.parametrize(
    ("status", "told", "wait_ms"),
    [
        (429, "7", 7_000),
        (503, "120", 120_000),
        (503, "Tue, 14 Nov 2023 22:14:20 GMT", 60_000),
        (503, "Tue, 14 Nov 2023 22:00:00 GMT", 0),
        (503, "99999999999999999999", 86_400_000),
        (503, "-5", 0),
        (503, "soon", 0),
        (503, "٣", 0),
        (503, None, 0),
        (500, "7", 0),
    ],
)
def test_the_time_that_a_server_asks_for_is_kept(
    status: int, told: str | None, wait_ms: int
) -> None:
    assert Answer(status, 5, retry_after=told).wait_ms(NOW_MS) == wait_ms


def test_a_time_without_a_zone_is_that_of_utc_wherever_the_machine_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    told = Answer(503, 5, retry_after="Tue, 14 Nov 2023 22:14:20 -0000").wait_ms(NOW_MS)
    monkeypatch.undo()
    time.tzset()
    assert told == 60_000


def test_what_is_wrong_with_one_event_says_nothing_of_the_server() -> None:
    assert not Answer(422, 5).is_of_the_target
    assert not Answer(200, 5).is_of_the_target
    assert Answer(500, 5).is_of_the_target
    assert Answer(404, 5).is_of_the_target
    assert Answer(None, 5).is_of_the_target
