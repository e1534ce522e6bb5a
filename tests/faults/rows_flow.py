"""The sample's flow, whose rows are tried again every few seconds."""

from dataclasses import replace

from shared.flow import FLOW as SAMPLE
from shared.retry_policy import RetryPolicy

_SOON = RetryPolicy(first_pause_s=0.5, pause_max_s=3, attempts_max=1_000_000)

FLOW = replace(
    SAMPLE,
    event_types=tuple(replace(row, retry=_SOON) for row in SAMPLE.event_types),
    entities=tuple(replace(row, retry=_SOON) for row in SAMPLE.entities),
)
