"""Rows of views that cannot be are refused with a sentence."""

from dataclasses import replace

import pytest

from shared.flow import FLOW
from shared.flow_table import Flow
from shared.model import EventType, View

HOT = View("hot", ("reading",), "SELECT event_id FROM reading WHERE value > 90", ("event_id",))


def flow(*rows: View, types: tuple[EventType, ...] = ()) -> Flow:
    return replace(FLOW, views=rows, event_types=(*FLOW.event_types, *types))


def test_each_view_is_a_job_with_a_compacted_topic_of_its_own() -> None:
    assert not FLOW.views
    its = flow(HOT, replace(HOT, name="hotter", version=3))
    job = its.job("view_hot")
    assert (job.ignited_by, job.emits) == (("event.reading.v1",), ("view.hot.v1",))
    assert its.job("view_hotter_v3").emits == ("view.hotter.v3",)
    configs = {topic.name: topic.config for topic in its.topics()}
    assert configs["view.hot.v1"]["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"of": ("nothing",)}, "is of 'nothing', which is no event type of this flow"),
        ({"of": ("bare",)}, "'?bare'? has no contract"),
        ({"of": ("reading", "reading")}, "names an event type twice"),
        ({"of": "reading"}, "one name alone needs a comma"),
        ({"of": ()}, "one name alone needs a comma"),
        ({"key": "event_id"}, "one name alone needs a comma"),
        ({"key": ("count(1)",)}, "call it `AS some_name`"),
        ({"key": ("a", "A")}, "names a column twice"),
        ({"key": ("limit",)}, "is what GET /views calls something else"),
        ({"sql": "  "}, "a SELECT of Spark's SQL"),
        ({"key": ("area", "tenant")}, "put tenant first"),
        ({"name": "hot_v2"}, "where its version does"),
        ({"results": "now"}, "results are update or final"),
        ({"late_after_s": 0}, "more than 0"),
        ({"late_after_s": 31 * 86_400}, "at most 30 days"),
        ({"version": 0}, "from 1 on"),
        ({"name": "Hot"}, "lower-case letters"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(changed: dict[str, object], said: str) -> None:
    row = replace(HOT, **changed)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=said):
        flow(row, types=(EventType("bare"),))


def test_two_views_have_two_names_or_versions() -> None:
    with pytest.raises(ValueError, match="version 1 is declared twice"):
        flow(HOT, replace(HOT, key=("entity_id",)))


def test_the_lowest_version_is_shown_and_the_others_are_made_beside_it() -> None:
    its = flow(replace(HOT, version=3), HOT, replace(HOT, version=2))
    assert its.view("hot") == HOT
    assert its.view("hot", 3) == replace(HOT, version=3)
    assert its.view("hot", 4) is its.view("cold") is None
    made = [job.name for job in its.jobs() if job.name.startswith("view_")]
    assert made == ["view_hot_v3", "view_hot", "view_hot_v2"]
