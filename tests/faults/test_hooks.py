"""A short run of `hooks_run`; with figures it is run by hand (see README.md)."""

import os
from pathlib import Path

import pytest

from tests.faults import hooks_run
from tests.stream_jobs.forward.forward_oracle import Arrival

SEED = int(os.environ.get("HEADRACE_TEST_SEED", 27))


@pytest.mark.stack
def test_webhooks_get_all_in_order_or_each_once_at_most_through_kills(tmp_path: Path) -> None:
    assert hooks_run.run(tmp_path, events=1_000, kills=2, seed=SEED, up_to_s=4) == 0


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["a-0", "a-1", "a-1"], "a-1 came 2 times"),
        (["a-1", "a-0"], "out of order"),
        (["a-0", "a-7"], "never sent"),
    ],
)
def test_the_oracle_of_at_most_once_sees(ids: list[str], said: str) -> None:
    arrived = [Arrival("a", one, True) for one in ids]
    (fault,) = hooks_run.once_faults({"a": ["a-0", "a-1", "a-2"]}, arrived)
    assert said in fault
    assert not [*hooks_run.once_faults({"a": ["a-0", "a-1"]}, [Arrival("a", "a-1", False)])]
