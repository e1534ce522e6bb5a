from itertools import pairwise

import pytest

from shared.retry_policy import RetryPolicy

POLICY = RetryPolicy(1.0, 2.0, 60.0, 0.2, attempts_max=5, age_max_s=3600.0)


def test_pauses_double_up_to_the_cap_and_never_end_early() -> None:
    for attempts, least_s in ((1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (8, 60), (10_000, 60)):
        for number in range(100):
            pause_ms = POLICY.pause_ms(f"event-{number}", attempts)
            assert least_s * 1000 <= pause_ms <= least_s * 1200


def test_the_same_event_has_the_same_pause_and_others_have_others() -> None:
    pauses = {POLICY.pause_ms(f"event-{number}", 7) for number in range(100)}
    assert POLICY.pause_ms("event-1", 7) == POLICY.pause_ms("event-1", 7)
    assert len(pauses) > 90
    assert max(pauses) - min(pauses) > 9_000  # they do not all come back at once


@pytest.mark.parametrize(
    ("attempts", "age_ms", "over"),
    [(4, 0, False), (5, 0, True), (1, 3_599_999, False), (1, 3_600_000, True)],
)
def test_it_is_over_after_that_many_attempts_or_that_long(
    attempts: int, age_ms: int, over: bool
) -> None:
    assert POLICY.is_over(attempts, age_ms) is over


def test_what_no_row_differs_in_ends() -> None:
    policy = RetryPolicy()
    pauses = [policy.pause_ms("event-1", n) for n in range(1, policy.attempts_max)]
    assert all(before <= after * 1.2 for before, after in pairwise(pauses))
    assert sum(pauses) < policy.age_max_s * 1000


@pytest.mark.parametrize(
    "policy",
    [
        RetryPolicy(first_pause_s=0),
        RetryPolicy(first_pause_s=10, pause_max_s=5),
        RetryPolicy(factor=0.5),
        RetryPolicy(jitter=2),
        RetryPolicy(attempts_max=0),
        RetryPolicy(age_max_s=0),
        RetryPolicy(first_pause_s=float("nan")),
        RetryPolicy(factor=float("inf")),
        RetryPolicy(pause_max_s=float("inf")),
        RetryPolicy(age_max_s=float("inf")),
    ],
)
def test_what_cannot_be_a_policy_is_told(policy: RetryPolicy) -> None:
    assert policy.why_not() is not None
    assert RetryPolicy().why_not() is None
