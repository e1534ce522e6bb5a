from typing import Any

from gateway.streams.log_position import Layout, Scope
from gateway.views.change_channels import ChangeChannels
from gateway.views.change_stream import WantedRows
from gateway.views.selection import selection_of
from tests.stream_jobs.views_flow import FLOW

SCOPE = Scope(Layout({"view.by_area.v1": 1}), None)


def _wanted(view: str = "by_area", **parameters: str) -> WantedRows:
    row = FLOW.view(view)
    assert row is not None
    return WantedRows(row, selection_of(row, parameters))


def _asked_for(channels: ChangeChannels[str], **row: Any) -> list[str]:
    view = FLOW.view("by_area")
    assert view is not None
    return [name for channel in channels.of(view, row) for name in channel.members]


def test_a_row_is_offered_to_those_that_ask_for_its_first_column_or_for_none() -> None:
    channels = ChangeChannels[str]()
    for name, wanted in (
        ("north", _wanted(area="north")),
        ("south", _wanted(area="south")),
        ("later", _wanted(**{"from": "2026-01-31T12:00:00Z"})),
        ("of another view", _wanted("hot")),
    ):
        channels.join(name, wanted, SCOPE)
    assert _asked_for(channels, area="north") == ["north", "later"]
    assert _asked_for(channels, area=None) == ["later"]
    for channel in channels.all():
        for name in [*channel.members]:
            channels.leave(name, channel)
    assert _asked_for(channels, area="north") == []


def test_only_so_many_ask_for_other_rows_without_a_value() -> None:
    channels = ChangeChannels[str]()
    for hour in range(3):
        channels.join(str(hour), _wanted(**{"from": f"2026-01-31T0{hour}:00:00Z"}), SCOPE)
    assert not channels.takes_another(_wanted(), at_most=3)
    assert channels.takes_another(_wanted(), at_most=4)
    assert channels.takes_another(_wanted(**{"from": "2026-01-31T01:00:00Z"}), at_most=3)
    assert channels.takes_another(_wanted(area="north"), at_most=0)
    assert channels.takes_another(_wanted("hot"), at_most=3)
