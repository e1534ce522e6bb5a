"""Rows of search indexes that cannot be are refused with a sentence."""

from dataclasses import replace

import pytest

from shared.flow import FLOW
from shared.flow_table import Flow
from shared.model import SearchIndex


def flow(*rows: SearchIndex) -> Flow:
    return replace(FLOW, search_indexes=rows)


def test_a_flow_without_such_a_row_has_no_such_job() -> None:
    assert "search" not in [job.name for job in FLOW.jobs()]
    rows = SearchIndex("device"), SearchIndex("area"), SearchIndex("device", "all")
    job = flow(*rows).job("search")
    assert job.ignited_by == ("state.device.v1", "state.area.v1")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((SearchIndex("reading"),), "is of 'reading', which is no entity or aggregate"),
        ((SearchIndex("device", "Devices"),), "lower-case letters"),
        ((SearchIndex("device", "_all"),), "begins with a letter"),
        ((SearchIndex("device"), SearchIndex("area", "device")), "give one of them a name"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(
    rows: tuple[SearchIndex, ...], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        flow(*rows)
