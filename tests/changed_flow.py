"""The sample's flow with another fold: each reading counts twice."""

from dataclasses import replace

from shared.flow import FLOW as SAMPLE
from shared.model import Event, Fields
from shared.sample_domain import device


def fold(state: Fields, event: Event) -> Fields:
    new = device.fold(state, event)
    return {**new, "count": 2 * new["count"] - state["count"]}


FLOW = replace(SAMPLE, entities=(replace(SAMPLE.entities[0], fold=fold),))
