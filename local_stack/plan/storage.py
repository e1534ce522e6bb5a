"""Bytes on disk, by who keeps them."""

from local_stack.plan.need import DAY_S, INGEST_KEPT_DAYS
from local_stack.plan.work import Work


def bytes_per_event(work: Work) -> dict[str, float]:
    """While it is kept: on Kafka one copy of the event and its completion, not of the payload."""
    sizes, body = work.costs.sizes, work.need.body_bytes
    event = sizes.event + sizes.event_per_byte * body
    return {
        "ingest": sizes.ingest + sizes.ingest_per_byte * body,
        "kafka": event + sizes.completion,
        "postgres": sizes.row + sizes.row_per_byte * body,
    }


def bytes_per_state(work: Work) -> dict[str, float]:
    sizes = work.costs.sizes
    return {
        "kafka": sizes.state_record * work.assumed.state_log_copies,
        "postgres": sizes.state_row,
        "view": sizes.state_in_view,
        "fold": sizes.state_in_spark,
    }


def disk_bytes(work: Work) -> dict[str, float]:
    """The disk of each part with all replicas; the view's on each gateway."""
    need = work.need
    kept_s, each, state = need.retention_days * DAY_S, bytes_per_event(work), bytes_per_state(work)
    ingest_s = min(need.retention_days, INGEST_KEPT_DAYS) * DAY_S
    written = each["kafka"] * kept_s + each["ingest"] * ingest_s
    kafka = (written * need.events_per_s + state["kafka"] * need.entities) * need.replication
    return {
        "kafka": kafka,
        "postgres": each["postgres"] * kept_s * need.events_per_s
        + state["postgres"] * need.entities,
        "view": state["view"] * need.entities,
        "fold": state["fold"] * need.entities,
    }
