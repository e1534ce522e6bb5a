"""Who may send how much, and what the others notice of one that sends more."""

import os
from typing import Any

import pytest

from gateway.http.problems import Problem
from gateway.node.rate_limits import Buckets, RateLimits, rate_limits
from shared.settings import GatewaySettings
from tests.gateway.support import Gateway, serving

NDJSON = {"content-type": "application/x-ndjson"}


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def limits(clock: Clock, buckets: Buckets | None = None, **settings: Any) -> RateLimits:
    return RateLimits(GatewaySettings(**settings), buckets, clock)


def limited(gateway: Gateway, **rates: Any) -> Gateway:
    settings = gateway.settings.model_copy(update=rates)
    return gateway.rebuilt(settings)


def passed(limits: RateLimits, times: int, device: str = "d", address: str = "a") -> int:
    return sum(limits.refusal("", device, address) is None for _ in range(times))


def refusal_of(limits: RateLimits, *whose: str) -> Problem:
    refusal = limits.refusal(*whose)
    assert refusal is not None
    return refusal


def test_nothing_is_limited_unless_a_setting_says_so() -> None:
    assert rate_limits(GatewaySettings()) is None


def test_the_burst_passes_at_once_and_then_what_the_rate_brings(clock: Clock) -> None:
    some = limits(clock, rate_per_device=5, rate_burst_s=2)
    assert passed(some, 50) == 10
    clock.now_s += 1
    assert passed(some, 50) == 5
    clock.now_s += 1000
    assert passed(some, 50) == 10


def test_a_rate_below_one_in_a_burst_lets_single_payloads_through(clock: Clock) -> None:
    some = limits(clock, rate_per_device=0.1, rate_burst_s=1)
    assert passed(some, 5) == 1
    clock.now_s += 9.9
    assert passed(some, 5) == 0
    clock.now_s += 0.1
    assert passed(some, 5) == 1


def test_whoever_waits_as_long_as_he_is_told_gets_through(clock: Clock) -> None:
    some = limits(clock, rate_per_device=0.3, rate_burst_s=1)
    assert passed(some, 1) == 1
    refusal = refusal_of(some, "", "d", "a")
    assert (refusal.status, refusal.code, refusal.outcome) == (429, "rate_limited", "definite")
    assert refusal.headers["retry-after"] == "4"
    clock.now_s += 4
    assert passed(some, 1) == 1


@pytest.mark.parametrize(
    ("setting", "same", "other"),
    [
        ("rate_per_device", ("t", "d", "b"), ("t", "e", "a")),
        ("rate_per_device", ("t", "d", "b"), ("u", "d", "a")),
        ("rate_per_address", ("u", "e", "a"), ("t", "d", "b")),
        ("rate_per_tenant", ("t", "e", "b"), ("u", "d", "a")),
    ],
)
def test_each_limit_has_its_own_key(
    clock: Clock, setting: str, same: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    some = limits(clock, rate_burst_s=1, **{setting: 1})
    assert some.refusal("t", "d", "a") is None
    assert setting.removeprefix("rate_per_") in refusal_of(some, *same).detail
    assert some.refusal(*other) is None


def test_what_one_limit_refuses_takes_nothing_from_another(clock: Clock) -> None:
    some = limits(clock, rate_per_device=1, rate_per_address=2, rate_burst_s=2)
    assert passed(some, 100, device="noisy") == 2
    assert passed(some, 100, device="other") == 2


def test_more_ids_than_fit_neither_grow_the_table_nor_free_a_noisy_one(clock: Clock) -> None:
    buckets = Buckets()
    some = limits(clock, buckets, rate_per_device=0.01, rate_burst_s=1000)
    assert passed(some, 100, device="noisy") == 10
    size = len(buckets.paid_until_s)
    for number in range(400_000):
        some.refusal("", str(number), "a")
    assert len(buckets.paid_until_s) == size
    assert passed(some, 100, device="noisy") == 0


def test_workers_share_what_a_device_has_sent(clock: Clock) -> None:
    memory_fd = Buckets.memory_to_share()
    one, other = (
        limits(clock, Buckets(memory_fd), rate_per_device=1, rate_burst_s=10) for _ in range(2)
    )
    os.close(memory_fd)
    assert passed(one, 6) == 6
    assert passed(other, 6) == 4


@pytest.mark.slow
def test_a_noisy_device_raises_nobody_else_s_error_rate(gateway: Gateway) -> None:
    """50 times the rate of one, and four that keep to it, over connections of their own."""
    narrow = limited(gateway, rate_per_device=1, rate_burst_s=5)
    quiet = [f"device-000{n}" for n in range(4)]
    posts = [device for _ in range(5) for device in [*quiet, *["noisy"] * 50]]
    answers = narrow.ask_all(
        [("POST", f"/v1/telemetry/{one}", {"content": b"{}"}) for one in posts]
    )
    of: dict[str, list[int]] = {device: [] for device in {*posts}}
    for device, answer in zip(posts, answers, strict=True):
        of[device].append(answer.status_code)
    assert all(of[device] == [202] * 5 for device in quiet)
    assert set(of["noisy"]) == {202, 429}
    assert len(gateway.log.records) == 20 + of["noisy"].count(202)
    assert of["noisy"].count(202) < 125


def test_a_batch_passes_as_far_as_it_may(gateway: Gateway) -> None:
    narrow = limited(gateway, rate_per_device=0.01, rate_burst_s=200)
    answer = narrow.post(content=b"1\n2\n\n3\n", headers=NDJSON)
    assert answer.status_code == 207
    *accepted, refused = answer.json()["receipts"]
    assert [one["status"] for one in accepted] == [202, 202]
    assert (refused["line"], refused["status"], refused["outcome"]) == (3, 429, "definite")
    assert 0 < refused["retry_after_s"] <= 100
    assert [record.value for record in gateway.log.records] == [b"1", b"2"]
    whole = narrow.post(content=b"3\n4\n", headers=NDJSON)
    assert (whole.status_code, whole.json()["code"]) == (429, "rate_limited")
    assert 0 < int(whole.headers["retry-after"]) <= 100


def test_a_single_payload_too_many_says_when_to_come_again(gateway: Gateway) -> None:
    narrow = limited(gateway, rate_per_device=0.01, rate_burst_s=1)
    assert narrow.post().status_code == 202
    answer = narrow.post()
    assert (answer.status_code, answer.json()["outcome"]) == (429, "definite")
    assert 99 <= int(answer.headers["retry-after"]) <= 100
    assert narrow.post("/v1/telemetry/device-0002").status_code == 202


def test_the_address_is_the_connection_s_own_and_no_header_s(gateway: Gateway) -> None:
    narrow = limited(gateway, rate_per_address=0.01, rate_burst_s=1)
    with serving(narrow, narrow.settings) as served:
        statuses = [
            served.post(f"device-{n}", {"x-forwarded-for": f"198.51.100.{n}"}) for n in range(3)
        ]
    assert statuses == [202, 429, 429]
    trusting = limited(gateway, rate_per_address=0.01, rate_burst_s=1, trusted_proxies="127.0.0.1")
    with serving(trusting, trusting.settings) as served:
        statuses = [
            served.post(f"device-{n}", {"x-forwarded-for": f"198.51.100.{n // 2}"})
            for n in range(4)
        ]
    assert statuses == [202, 429, 202, 429]
