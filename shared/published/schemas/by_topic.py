"""Which kinds of record are on which topic of a flow."""

from collections.abc import Iterable

from shared.flow_table import Flow
from shared.model import Endpoint, EventType
from shared.published.schemas.events import (
    completion,
    event,
    of_fold,
    snapshot,
    state_completion,
    view_row,
)
from shared.published.schemas.operations import credential, job_order, job_status, master_data
from shared.published.schemas.payloads import (
    again,
    breach,
    dropped,
    of_the_lane,
    payload,
    waiting_or_parked,
)
from shared.published.schemas.shapes import RecordSchema
from shared.published.schemas.webhooks import of_webhooks, undelivered
from shared.topic_names import (
    CREDENTIAL_TOPIC,
    JOB_ORDER_TOPIC,
    JOB_STATUS_TOPIC,
    again_topic,
    breach_topic,
    dropped_topic,
)


def messages(flow: Flow) -> dict[str, list[RecordSchema]]:
    """The schemas of every topic of the flow, by topic."""
    return {
        **_shared((row, payload(row)) for row in flow.endpoints),
        again_topic("enrich"): [again()],
        **_shared((row, event(row)) for row in flow.event_types),
        **{
            row.topic: [event(one)._replace(name=one.name) for one in flow.types_in(row)]
            for row in flow.all_events
        },
        **{row.topic: [snapshot(row)] for row in flow.with_state},
        **{row.topic: [view_row(row)] for row in flow.views},
        **{row.completion_topic: [completion(row)] for row in flow.event_types},
        **{
            row.completion_topic: [state_completion(row.name)]
            for row in flow.with_state
            if row.completions
        },
        **{table.topic: master_data(table) for table in flow.published_tables},
        **{
            lane: [undelivered(job) if job.name == "forward" else waiting_or_parked(job)]
            for job in flow.jobs()
            if job.name != "retry"  # it parks what enrich would have parked
            for lane in (*job.waits_in, *job.parks_in)
        },
        **of_webhooks(),
        **({dropped_topic("enrich"): [dropped()]} if flow.drops else {}),
        **({breach_topic("enrich"): [breach()]} if flow.lets_breaches_pass else {}),
        **(of_the_lane() if flow.waits else {}),
        **(of_fold() if flow.entities else {}),
        JOB_STATUS_TOPIC: [job_status()],
        JOB_ORDER_TOPIC: [job_order()],
        CREDENTIAL_TOPIC: [credential()],
    }


def _shared(
    messages: Iterable[tuple[Endpoint, RecordSchema] | tuple[EventType, RecordSchema]],
) -> dict[str, list[RecordSchema]]:
    """Rows of one stream share a topic; there each is called by its name."""
    known: dict[str, list[RecordSchema]] = {}
    for row, message in messages:
        named = message if row.stream is None else message._replace(name=row.name)
        known.setdefault(row.topic, []).append(named)
    return known
