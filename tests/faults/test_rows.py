"""A short run of `rows_run`; with figures it is run by hand (see README.md)."""

import os
from pathlib import Path

import pytest

from tests.faults import rows_run

pytestmark = pytest.mark.stack

SEED = int(os.environ.get("HEADRACE_TEST_SEED", 26))


def test_rows_that_wait_survive_kills_in_their_order_and_stop_no_others(tmp_path: Path) -> None:
    assert rows_run.run(tmp_path, events=1_600, kills=2, seed=SEED, up_to_s=4) == 0
