"""What answers with states say of one, and of how far they may be behind."""

from typing import Any

from gateway.state.pipeline_lag import Freshness
from gateway.state_view.reader import Progress
from shared.timestamps import to_rfc3339


def of_version(meta: dict[str, Any], timestamp_ms: int) -> dict[str, Any]:
    event_time_ms = meta.get("event_time_ms")
    return {
        "version": meta["version"],
        "event_time": None if event_time_ms is None else to_rfc3339(event_time_ms),
        "updated_at": to_rfc3339(timestamp_ms),
    }


def of_clocks(meta: dict[str, Any]) -> dict[str, Any]:
    """How often the device's clock made a difference: only where it did."""
    return {name: meta[name] for name in ("late", "clock_off") if name in meta}


def of_lag(progress: Progress, freshness: Freshness, now_ms: int) -> dict[str, Any]:
    return {
        "view": {
            "caught_up_at": to_rfc3339(progress.caught_up_ms or 0),
            "lag_ms": view_lag_ms(progress, now_ms),
        },
        "pipeline_lag_s": freshness.lag_s,
        "stale": bool(freshness.why_stale),
        **({"stale_because": freshness.why_stale} if freshness.why_stale else {}),
    }


def view_lag_ms(progress: Progress, now_ms: int) -> int:
    return max(0, now_ms - (progress.caught_up_ms or 0))
