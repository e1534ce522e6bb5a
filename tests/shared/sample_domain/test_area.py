import random
from functools import reduce
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.contract import contract_of
from shared.flow import FLOW
from shared.model import Fields
from shared.sample_domain import area, device
from tests.oracle import expected_areas


def _device(number: int, where: str | None, value: float, value_at_ms: int) -> Fields:
    seen = {"count": number + 1, "value": value, "value_at_ms": value_at_ms, "max": value}
    return {**device.initial(f"device-{number}"), **seen, "area": where}


devices = st.lists(
    st.builds(
        lambda where, value, at_ms: (where, value, at_ms),
        st.sampled_from(["north", "south", None]),
        st.floats(-50, 150, allow_nan=False),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=20,
)


@given(devices, st.randoms())
def test_in_whatever_order_shares_meet_the_sum_is_the_same(
    rows: list[tuple[str | None, float, int]], dice: random.Random
) -> None:
    states = [_device(i, *row) for i, row in enumerate(rows)]
    expected = expected_areas({state["device"]: state for state in states})
    shares = [found for found in map(area.share, states) if found is not None]
    found: dict[str, Any] = {}
    for where in {share.of for share in shares}:
        own = [share.fields for share in shares if share.of == where]
        dice.shuffle(own)
        cut = dice.randint(0, len(own))
        parts = [reduce(area.add, part) for part in (own[:cut], own[cut:]) if part]
        found[where] = area.total(where, reduce(area.add, parts))
    assert found == expected


def test_a_device_without_a_reading_is_in_no_area() -> None:
    assert area.share(device.initial("device-0001")) is None


def test_an_area_that_all_have_left_is_empty_and_keeps_its_contract() -> None:
    empty = area.total("north", None)
    assert (empty["devices"], empty["readings"], empty["highest"]) == (0, 0, None)
    assert contract_of(area.Area).breach(empty) is None


def test_what_is_initial_keeps_the_contract_of_a_device() -> None:
    shape = FLOW.entities[0].state
    assert contract_of(shape).breach(device.initial("device-0001")) is None
