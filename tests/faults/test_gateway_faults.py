"""The short form of `python -m tests.faults.gateway_run`: each kind of fault once."""

import asyncio
import os
import random
import secrets
from pathlib import Path

import pytest

from tests.faults.client_answers import Told
from tests.faults.gateway_faults import KINDS, plan
from tests.faults.gateway_run import run

pytestmark = pytest.mark.stack

SEED = int(os.environ.get("HEADRACE_TEST_SEED", secrets.randbelow(10**6)))


def test_what_clients_were_told_is_true_through_every_kind_of_fault(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    faults = plan(chance, len(KINDS))
    report = asyncio.run(run(tmp_path, SEED, 10_000, faults, chance, per_s=300))
    print(report)
    assert report.violations == []
    assert report.fired.total() == len(KINDS)
    assert report.told.keys() >= {Told.WRITTEN, Told.SPOOLED}
