"""docs/flow.svg as it is drawn: all of the flow, each mark in its column, no text over another."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from local_stack.contracts.flow_picture import picture
from local_stack.machine.paths import CHECKOUT
from shared.flow import FLOW, load_flow
from shared.flow_table import Flow

SVG = "{http://www.w3.org/2000/svg}"


def drawn(flow: Flow) -> ElementTree.Element:
    return ElementTree.fromstring(picture(flow))


def texts(svg: ElementTree.Element, kind: str) -> dict[str, ElementTree.Element]:
    return {text.text or "": text for text in svg.iter(f"{SVG}text") if text.get("class") == kind}


def columns_marked(svg: ElementTree.Element, topic: str, mark: str) -> set[str]:
    """The parts that have a circle of that class in the topic's line."""
    y = int(texts(svg, "topic")[topic].attrib["y"]) - 4
    at = {int(text.attrib["x"]): part for part, text in texts(svg, "column").items()}
    circles = [one for one in svg.iter(f"{SVG}circle") if one.get("class") == mark]
    xs = [int(one.attrib["cx"]) for one in circles if int(one.attrib["cy"]) == y]
    return {at[min(at, key=lambda centre: abs(centre - x))] for x in xs}


@pytest.mark.parametrize("reference", ["shared.flow:FLOW", "flights:FLOW"])
def test_every_endpoint_topic_and_job_of_a_flow_is_in_its_picture(
    reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(CHECKOUT / "examples" / "flights")
    flow = load_flow(reference)
    svg = drawn(flow)
    labels = [topic.name for topic in flow.topics()]
    labels += [f"POST /v1/{endpoint.name}/{{id}}" for endpoint in flow.endpoints]
    assert sorted(labels) == sorted(texts(svg, "topic"))
    assert list(texts(svg, "column")) == ["gateway", *(job.name for job in flow.jobs()), "relay"]


def test_a_line_shows_who_writes_and_who_looks_up() -> None:
    svg = drawn(FLOW)
    assert columns_marked(svg, "event.reading.v1", "mark") == {"enrich", "retry"}
    assert columns_marked(svg, "master.device.v1", "mark") == {"relay"}
    assert columns_marked(svg, "master.device.v1", "ring") == {"enrich", "retry"}
    assert columns_marked(svg, "retry.enrich.v1", "mark") == {"enrich"}
    assert columns_marked(svg, "retry.enrich.v1", "ring") == {"enrich"}


def test_each_text_has_a_line_of_its_own_and_ends_before_the_columns() -> None:
    svg = drawn(FLOW)
    left = min(int(text.attrib["x"]) for text in texts(svg, "column").values()) - 25
    above = max(int(text.attrib["y"]) for text in texts(svg, "topic").values())
    lines = [
        text
        for text in svg.iter(f"{SVG}text")
        if text.get("class") in ("topic", "why") and int(text.attrib["y"]) <= above
    ]
    heights = sorted(int(text.attrib["y"]) for text in lines)
    assert all(below - upper >= 20 for upper, below in pairwise(heights))
    widest = {"topic": 7.3, "why": 6.6}
    for text in lines:
        end = int(text.attrib["x"]) + len(text.text or "") * widest[text.attrib["class"]]
        assert end < left, text.text
