"""The sample's arrows, written down by hand; and no flow leaves a topic out that is read."""

import pytest

from desk.flow.arrows import arrows
from shared.flow import FLOW, load_flow

READ_BY_ALL = ("fold", "persist", "forward")


def test_the_way_of_a_payload_is_told_in_its_order() -> None:
    found = {one.topics[0]: (one.written_by, one.read_by) for one in arrows(FLOW)}
    assert found == {
        "ingest.telemetry.v1": (("gateway",), ("enrich",)),
        "retry.enrich.v1": (("enrich",), ("retry",)),
        "event.reading.v1": (("enrich", "retry"), READ_BY_ALL),
        "state.device.v1": (("fold",), ("aggregate", "persist", "forward")),
        "event.alarm_raised.v1": (("fold",), ("persist", "forward")),
        "state.area.v1": (("aggregate",), ("persist", "forward")),
        "again.enrich.v1": (("relay",), ("enrich",)),
        "completion.reading.v1": (("relay",), ("forward",)),
    }


@pytest.mark.parametrize("reference", ["shared.flow:FLOW", "tests.stream_jobs.views_flow:FLOW"])
def test_each_topic_that_ignites_another_part_is_on_one_arrow(reference: str) -> None:
    flow = load_flow(reference)
    drawn = [topic for arrow in arrows(flow) for topic in arrow.topics]
    assert len(drawn) == len({*drawn})
    ignite = {topic for job in flow.jobs() for topic in job.ignited_by}
    # what a job or the desk writes for one job alone
    alone = {"wake.enrich.v1", "refolded.fold.v1", "again.forward.v1", "wake.forward.v1"}
    assert ignite - {*drawn} <= alone
